/* Reads one partition at a time into Arrow columns. */
#include "client.h"
#include "columns.h"

#include <stdlib.h>
#include <string.h>

/* Limits of the records consumed from librdkafka's queue at a time: consumed records no longer count towards its limit on
 * fetched bytes, so that it may fetch as many bytes again. */
enum { MOST_PENDING = 2048, FIRST_PENDING = 256 };
/* INTRODUCTION_S of kafka/clients.py. */
enum { INTRODUCTION_MS = 1000 };

struct zkafka_consumer {
    struct client client;
    rk_queue *queue;
    struct columns columns;
    struct rk_message *pending[MOST_PENDING]; /* consumed from the queue, not yet in a column */
    int64_t pending_from, pending_until;
    int64_t mean_bytes;  /* of the most recent records */
    bool introduced;     /* the brokers received a request for a topic */
};

ZKAFKA_EXPORT zkafka_consumer *zkafka_consumer_new(const char *const *settings, int *code, char *why, size_t why_bytes) {
    zkafka_consumer *consumer = calloc(1, sizeof *consumer);
    if (!consumer || !client_open(&consumer->client, RK_CONSUMER, settings, NULL, code, why, why_bytes)) {
        free(consumer);
        return NULL;
    }
    rk.poll_set_consumer(consumer->client.handle);
    consumer->queue = rk.queue_get_consumer(consumer->client.handle);
    columns_begin(&consumer->columns);
    return consumer;
}

/* Frees records that were fetched and not appended. The batch stays: it may be taken after a seek. */
static void drop_pending(zkafka_consumer *consumer) {
    while (consumer->pending_from < consumer->pending_until) rk.message_destroy(consumer->pending[consumer->pending_from++]);
}

ZKAFKA_EXPORT void zkafka_consumer_close(zkafka_consumer *consumer) {
    drop_pending(consumer);
    columns_clear(&consumer->columns);
    rk.queue_destroy(consumer->queue);
    rk.consumer_close(consumer->client.handle);
    rk.destroy(consumer->client.handle);
    free(consumer->columns.topic);
    free(consumer);
}

/* Fills `pending` with as many records as the batch has room for; false if none arrived in time. */
static bool fetch(zkafka_consumer *consumer, int64_t most_records, int64_t most_bytes, int timeout_ms) {
    int64_t fitting = consumer->mean_bytes ? most_bytes / consumer->mean_bytes + 1 : FIRST_PENDING;
    int64_t wanted = most_records < fitting ? most_records : fitting;
    if (wanted > MOST_PENDING) wanted = MOST_PENDING;
    ptrdiff_t came = rk.consume_batch_queue(consumer->queue, timeout_ms, consumer->pending, (size_t)wanted);
    consumer->pending_from = 0;
    consumer->pending_until = came > 0 ? came : 0;
    return came > 0;
}

/* Requests a topic's metadata: otherwise a new client may start a second late; see kafka/clients.py. */
static void introduce(zkafka_consumer *consumer, const char *topic) {
    const struct rk_metadata *metadata = NULL;
    rk_topic *handle = rk.topic_new(consumer->client.handle, topic, NULL);
    if (!handle) return;
    if (rk.metadata(consumer->client.handle, 0, handle, &metadata, INTRODUCTION_MS) == 0) rk.metadata_destroy(metadata);
    rk.topic_destroy(handle);
    consumer->introduced = true;
}

ZKAFKA_EXPORT int zkafka_consumer_assign(zkafka_consumer *consumer, const char *topic, int32_t partition, int64_t offset) {
    drop_pending(consumer);
    free(consumer->columns.topic);
    consumer->columns.topic = strdup(topic);
    consumer->columns.partition = partition;
    rk_partition_list *list = rk.topic_partition_list_new(1);
    rk.topic_partition_list_add(list, topic, partition);
    int code = rk.topic_partition_list_set_offset(list, topic, partition, offset);
    if (code == 0) code = rk.assign(consumer->client.handle, list);
    rk.topic_partition_list_destroy(list);
    if (code == 0 && !consumer->introduced) introduce(consumer, topic);
    return code;
}

ZKAFKA_EXPORT int zkafka_consumer_unassign(zkafka_consumer *consumer) {
    drop_pending(consumer);
    columns_clear(&consumer->columns);
    consumer->mean_bytes = 0;
    int code = rk.assign(consumer->client.handle, NULL);
    /* Fetched records stay in the queue, outdated, until they are consumed. */
    while (fetch(consumer, MOST_PENDING, INT64_MAX, 0)) drop_pending(consumer);
    return code;
}

ZKAFKA_EXPORT bool zkafka_consumer_project(zkafka_consumer *consumer, const int32_t *columns, const int32_t *texts, int32_t count) {
    return columns_project(&consumer->columns, columns, texts, count);
}

/* Handles one record or event; false at an event, or when out of memory. */
static bool take_in(zkafka_consumer *consumer, struct rk_message *message, int64_t until, struct zkafka_poll *poll, bool *failed) {
    if (message->err) {
        client_note(&consumer->client, REPORT_EVENT, message->err, false, message->offset, rk.message_errstr(message));
        return false;
    }
    if (poll->first < 0) poll->first = message->offset;
    poll->unordered |= message->offset <= poll->last;
    poll->last = message->offset;
    if (message->offset >= until) return true;
    int64_t bytes = columns_append_message(&consumer->columns, message);
    *failed = bytes < 0;
    if (*failed) return false;
    poll->records++;
    poll->bytes += bytes;
    consumer->mean_bytes = consumer->mean_bytes ? consumer->mean_bytes + (bytes - consumer->mean_bytes) / 8 : bytes;
    if (consumer->mean_bytes < 1) consumer->mean_bytes = 1;
    return true;
}

ZKAFKA_EXPORT bool zkafka_consumer_poll(zkafka_consumer *consumer, int64_t most_records, int64_t most_bytes, int64_t until, int timeout_ms,
                                        struct zkafka_poll *poll) {
    *poll = (struct zkafka_poll){.first = -1, .last = -1};
    bool failed = false;
    int64_t left = most_records;
    while (left > 0 && poll->bytes < most_bytes && poll->last + 1 < until) {
        if (consumer->pending_from == consumer->pending_until) {
            int64_t in_range = poll->last < 0 ? left : until - poll->last - 1;
            int64_t room = most_bytes - poll->bytes;
            if (!fetch(consumer, in_range < left ? in_range : left, room, timeout_ms)) break;
        }
        struct rk_message *message = consumer->pending[consumer->pending_from++];
        bool go_on = take_in(consumer, message, until, poll, &failed);
        rk.message_destroy(message);
        if (!go_on) break;
        left = most_records - poll->records;
    }
    return !failed;
}

ZKAFKA_EXPORT bool zkafka_consumer_take(zkafka_consumer *consumer, struct ArrowArray *out, struct zkafka_flaws *flaws) {
    *flaws = consumer->columns.flaws;
    return columns_take(&consumer->columns, out);
}

ZKAFKA_EXPORT int zkafka_consumer_log_range(zkafka_consumer *consumer, const char *topic, int32_t partition, int timeout_ms, int64_t *low,
                                            int64_t *high) {
    return rk.query_watermark_offsets(consumer->client.handle, topic, partition, low, high, timeout_ms);
}

ZKAFKA_EXPORT bool zkafka_consumer_report(zkafka_consumer *consumer, struct zkafka_report *report) {
    return client_next_report(&consumer->client, report);
}
