/* Sends rows of Arrow arrays to given partitions, and counts their delivery reports. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Records passed to librdkafka in one call. Delivery reports are handled between two calls. */
enum { SLICE_RECORDS = 1000 };

/* A binary column of the rows to send. */
struct cells {
    struct ArrowArray array;
    bool is_large;
};

struct partition {
    int64_t acknowledged;
    int64_t queued, queued_bytes; /* records without a report */
    bool moving;                  /* some of them are sent without a flush, or are in flight */
};

struct topic {
    char *name;
    rk_topic *handle;
    int32_t partition_count;
    struct partition *partitions;
    struct topic *next;
};

/* Rows that were added together. Their arrays are kept until each row is reported, as librdkafka does not copy values. */
struct lot {
    struct topic *topic;
    struct cells value, key;
    struct ArrowArray timestamps, headers;
    int32_t *partitions; /* by row */
    int32_t *order;      /* the rows in the order of sending, by partition */
    int64_t rows, sent;
    int64_t awaited;      /* reports still expected */
    int64_t header_bytes; /* mean size of the headers of a row, as a report does not identify its row */
    struct lot *next;
};

struct zkafka_producer {
    struct client client;
    struct topic *topics;
    struct lot *first, *last; /* lots that are not completely sent and reported, oldest first */
    struct zkafka_counts counts;
    struct zkafka_failure failure;
    int64_t most_records, most_bytes, batch_bytes;
};

/* --- Arrow cells --------------------------------------------------------------------------------------------------- */

static const void *cell(const struct cells *cells, int64_t row, size_t *size) {
    return arrow_bytes(&cells->array, cells->is_large, row, size);
}

static int64_t timestamp_ms(const struct lot *lot, int64_t row) {
    const struct ArrowArray *array = &lot->timestamps;
    if (!array->release || !arrow_is_valid(array, row)) return 0; /* now */
    return ((const int64_t *)array->buffers[1])[row + array->offset];
}

static rk_headers *headers_of(const struct lot *lot, int64_t row) {
    const struct ArrowArray *lists = &lot->headers;
    if (!lists->release || !arrow_is_valid(lists, row)) return NULL;
    const int32_t *offsets = lists->buffers[1];
    int64_t begin = offsets[row + lists->offset], end = offsets[row + lists->offset + 1];
    if (begin == end) return NULL;
    const struct ArrowArray *entries = lists->children[0];
    struct cells keys = {.array = *entries->children[0]}, values = {.array = *entries->children[1]};
    rk_headers *headers = rk.headers_new((size_t)(end - begin));
    for (int64_t i = begin; i < end; i++) {
        size_t key_size, value_size;
        const char *key = cell(&keys, i + entries->offset, &key_size);
        const void *value = cell(&values, i + entries->offset, &value_size);
        rk.header_add(headers, key, (ptrdiff_t)key_size, value, (ptrdiff_t)value_size);
    }
    return headers;
}

static int64_t bytes_between(const struct ArrowArray *array, int64_t begin, int64_t end) {
    const int32_t *offsets = array->buffers[1];
    return offsets[end + array->offset] - offsets[begin + array->offset];
}

/* Mean size of the headers of a row in bytes, rounded up. */
static int64_t mean_header_bytes(const struct ArrowArray *lists) {
    if (!lists->release || lists->length == 0) return 0;
    const int32_t *offsets = lists->buffers[1];
    const struct ArrowArray *entries = lists->children[0];
    int64_t begin = offsets[lists->offset] + entries->offset, end = offsets[lists->offset + lists->length] + entries->offset;
    if (begin == end) return 0;
    int64_t bytes = bytes_between(entries->children[0], begin, end) + bytes_between(entries->children[1], begin, end);
    return (bytes + lists->length - 1) / lists->length;
}

/* --- Delivery of records ------------------------------------------------------------------------------------------- */

static void lot_free(struct lot *lot) {
    arrow_release(&lot->value.array);
    arrow_release(&lot->key.array);
    arrow_release(&lot->timestamps);
    arrow_release(&lot->headers);
    free(lot->partitions);
    free(lot->order);
    free(lot);
}

static void note_failure(zkafka_producer *producer, const struct lot *lot, int32_t partition, int code) {
    struct zkafka_failure *failure = &producer->failure;
    if (failure->code) return;
    failure->code = code;
    failure->partition = partition;
    snprintf(failure->topic, sizeof failure->topic, "%s", lot->topic->name);
}

static void set_moving(zkafka_producer *producer, struct partition *partition, bool moving) {
    producer->counts.moving_partitions += moving - partition->moving;
    partition->moving = moving;
}

static int64_t size_of(const struct lot *lot, const struct rk_message *message) {
    return (int64_t)(message->payload_bytes + message->key_bytes) + lot->header_bytes;
}

/* Adds (1) or removes (-1) a record of `bytes` bytes. A full batch is sent without a flush, and later records wait for its
 * report. */
static void count_queued(zkafka_producer *producer, struct partition *partition, int64_t bytes, int sign) {
    int64_t size = sign * bytes;
    partition->queued += sign;
    partition->queued_bytes += size;
    producer->counts.queued_bytes += size;
    bool is_full = partition->queued_bytes >= producer->batch_bytes;
    if (is_full || sign < 0) set_moving(producer, partition, is_full);
}

static void on_delivery(rk_handle *handle, const struct rk_message *message, void *opaque) {
    zkafka_producer *producer = opaque;
    struct lot *lot = message->opaque;
    (void)handle;
    struct partition *partition = &lot->topic->partitions[message->partition];
    lot->awaited--;
    count_queued(producer, partition, size_of(lot, message), -1);
    if (message->err) {
        producer->counts.failed++;
        note_failure(producer, lot, message->partition, message->err);
        return;
    }
    producer->counts.acknowledged++;
    partition->acknowledged++;
}

static void free_finished(zkafka_producer *producer) {
    struct lot **link = &producer->first;
    producer->last = NULL;
    while (*link) {
        struct lot *lot = *link;
        if (lot->sent == lot->rows && lot->awaited == 0) {
            *link = lot->next;
            lot_free(lot);
        } else {
            producer->last = lot;
            link = &lot->next;
        }
    }
}

/* --- A producer ---------------------------------------------------------------------------------------------------- */

ZKAFKA_EXPORT zkafka_producer *zkafka_producer_new(const char *const *settings, int64_t most_records, int64_t most_bytes,
                                                   int64_t batch_bytes, int *code, char *why, size_t why_bytes) {
    zkafka_producer *producer = calloc(1, sizeof *producer);
    if (!producer || !client_open(&producer->client, settings, on_delivery, code, why, why_bytes)) {
        free(producer);
        return NULL;
    }
    producer->most_records = most_records;
    producer->most_bytes = most_bytes;
    producer->batch_bytes = batch_bytes;
    return producer;
}

rk_handle *producer_handle(const zkafka_producer *producer) { return producer->client.handle; }

static void destroy_handles(const zkafka_producer *producer) {
    for (struct topic *topic = producer->topics; topic; topic = topic->next) rk.topic_destroy(topic->handle);
}

static void topic_free(struct topic *topic) {
    free(topic->partitions);
    free(topic->name);
    free(topic);
}

static void free_topics(zkafka_producer *producer) {
    while (producer->topics) {
        struct topic *next = producer->topics->next;
        topic_free(producer->topics);
        producer->topics = next;
    }
}

ZKAFKA_EXPORT void zkafka_producer_begin(zkafka_producer *producer) {
    destroy_handles(producer);
    free_topics(producer);
    producer->counts = (struct zkafka_counts){0};
    producer->failure = (struct zkafka_failure){0};
}

ZKAFKA_EXPORT void zkafka_producer_close(zkafka_producer *producer) {
    destroy_handles(producer);
    rk.destroy(producer->client.handle);
    /* librdkafka reads the values until rk.destroy has returned. */
    while (producer->first) {
        struct lot *next = producer->first->next;
        lot_free(producer->first);
        producer->first = next;
    }
    free_topics(producer);
    free(producer);
}

static struct topic *find_topic(const zkafka_producer *producer, const char *name) {
    struct topic *topic = producer->topics;
    while (topic && strcmp(topic->name, name) != 0) topic = topic->next;
    return topic;
}

/* Null also for a name that librdkafka refuses, as it has more than 512 bytes. */
static struct topic *topic_of(zkafka_producer *producer, const char *name, int32_t partition_count) {
    struct topic *topic = find_topic(producer, name);
    if (topic) return topic;
    topic = calloc(1, sizeof *topic);
    if (!topic) return NULL;
    topic->name = strdup(name);
    topic->partitions = calloc((size_t)partition_count + 1, sizeof *topic->partitions);
    if (topic->name && topic->partitions) topic->handle = rk.topic_new(producer->client.handle, name, NULL);
    if (!topic->handle) {
        topic_free(topic);
        return NULL;
    }
    topic->partition_count = partition_count;
    topic->next = producer->topics;
    producer->topics = topic;
    return topic;
}

/* Sorts the rows by partition, with a stable counting sort. False: out of memory, or a partition out of range. */
static bool put_in_order(struct lot *lot) {
    int32_t partitions = lot->topic->partition_count;
    int64_t *begins = calloc((size_t)partitions + 1, sizeof *begins);
    lot->order = malloc((size_t)lot->rows * sizeof *lot->order + 1);
    if (!begins || !lot->order) {
        free(begins);
        return false;
    }
    for (int64_t row = 0; row < lot->rows; row++) {
        int32_t partition = lot->partitions[row];
        if (partition < 0 || partition >= partitions) {
            free(begins);
            return false;
        }
        begins[partition + 1]++;
    }
    for (int32_t i = 0; i < partitions; i++) begins[i + 1] += begins[i];
    for (int64_t row = 0; row < lot->rows; row++) lot->order[begins[lot->partitions[row]]++] = (int32_t)row;
    free(begins);
    return true;
}

static void move_array(struct ArrowArray *from, struct ArrowArray *to) {
    if (!from) return;
    *to = *from;
    from->release = NULL;
}

ZKAFKA_EXPORT bool zkafka_producer_add(zkafka_producer *producer, const char *topic, const int32_t *partitions, int32_t partition_count,
                                       struct ArrowArray *value, int32_t value_is_large, struct ArrowArray *key, int32_t key_is_large,
                                       struct ArrowArray *timestamps, struct ArrowArray *headers) {
    struct lot *lot = calloc(1, sizeof *lot);
    if (!lot || !(lot->topic = topic_of(producer, topic, partition_count))) {
        free(lot);
        return false;
    }
    move_array(value, &lot->value.array);
    move_array(key, &lot->key.array);
    move_array(timestamps, &lot->timestamps);
    move_array(headers, &lot->headers);
    lot->header_bytes = mean_header_bytes(&lot->headers);
    lot->value.is_large = value_is_large;
    lot->key.is_large = key_is_large;
    lot->rows = lot->value.array.length;
    size_t size = (size_t)lot->rows * sizeof *partitions;
    lot->partitions = malloc(size + 1);
    if (lot->partitions) memcpy(lot->partitions, partitions, size);
    if (!lot->partitions || !put_in_order(lot)) {
        lot_free(lot);
        return false;
    }
    *(producer->last ? &producer->last->next : &producer->first) = lot;
    producer->last = lot;
    return true;
}

static struct rk_message message_of(const struct lot *lot, int64_t row) {
    struct rk_message message = {.partition = lot->partitions[row], .opaque = (void *)lot};
    message.payload = (void *)cell(&lot->value, row, &message.payload_bytes);
    message.key = (void *)cell(&lot->key, row, &message.key_bytes);
    return message;
}

static void count_sent(zkafka_producer *producer, struct lot *lot, const struct rk_message *message) {
    if (message->err) {
        note_failure(producer, lot, message->partition, message->err);
        return;
    }
    lot->awaited++;
    producer->counts.handed_over++;
    count_queued(producer, &lot->topic->partitions[message->partition], size_of(lot, message), 1);
}

static void send_with_headers(zkafka_producer *producer, struct lot *lot, struct rk_message *message, int64_t row) {
    rk_headers *headers = headers_of(lot, row);
    message->err = rk.producev(producer->client.handle, RK_V_RKT, lot->topic->handle, RK_V_PARTITION, message->partition, RK_V_FLAGS, 0,
                               RK_V_VALUE, message->payload, message->payload_bytes, RK_V_KEY, message->key, message->key_bytes,
                               RK_V_TIMESTAMP, timestamp_ms(lot, row), RK_V_OPAQUE, message->opaque, RK_V_HEADERS, headers, RK_V_END);
    if (message->err && headers) rk.headers_destroy(headers); /* otherwise librdkafka owns them */
    count_sent(producer, lot, message);
}

static int64_t queued_records(const zkafka_producer *producer) {
    return producer->counts.handed_over - producer->counts.acknowledged - producer->counts.failed;
}

static bool has_room(const zkafka_producer *producer) {
    return queued_records(producer) < producer->most_records && producer->counts.queued_bytes < producer->most_bytes;
}

/* Sends the next slice of a lot, or as many rows as there is room for. */
static void send_slice(zkafka_producer *producer, struct lot *lot) {
    struct rk_message messages[SLICE_RECORDS];
    int count = 0;
    bool plain = !lot->timestamps.release && !lot->headers.release;
    int64_t room = producer->most_bytes - producer->counts.queued_bytes;
    int64_t records = producer->most_records - queued_records(producer);
    int64_t until = lot->sent + (records < SLICE_RECORDS ? records : SLICE_RECORDS);
    if (until > lot->rows) until = lot->rows;
    for (; lot->sent < until && room > 0; lot->sent++) {
        int64_t row = lot->order[lot->sent];
        messages[count] = message_of(lot, row);
        room -= size_of(lot, &messages[count]);
        if (plain)
            count++;
        else
            send_with_headers(producer, lot, &messages[0], row);
    }
    if (count == 0) return;
    /* Only this thread handles reports, so that the records are counted first. */
    rk.produce_batch(lot->topic->handle, 0, RK_MSG_BY_PARTITION, messages, count);
    for (int i = 0; i < count; i++) count_sent(producer, lot, &messages[i]);
}

static struct lot *next_to_send(const zkafka_producer *producer) {
    struct lot *lot = producer->first;
    while (lot && lot->sent == lot->rows) lot = lot->next;
    return lot;
}

ZKAFKA_EXPORT bool zkafka_producer_send(zkafka_producer *producer, int timeout_ms) {
    struct lot *lot;
    while ((lot = next_to_send(producer)) && !producer->failure.code) {
        rk.poll(producer->client.handle, 0);
        if (!has_room(producer)) rk.poll(producer->client.handle, timeout_ms);
        if (!has_room(producer)) break;
        send_slice(producer, lot);
    }
    free_finished(producer);
    return lot == NULL;
}

ZKAFKA_EXPORT void zkafka_producer_poll(zkafka_producer *producer, int timeout_ms) {
    rk.poll(producer->client.handle, timeout_ms);
    free_finished(producer);
}

ZKAFKA_EXPORT void zkafka_producer_flush(zkafka_producer *producer, int timeout_ms) {
    rk.flush(producer->client.handle, timeout_ms);
    for (struct topic *topic = producer->topics; topic; topic = topic->next)
        for (int32_t i = 0; i < topic->partition_count; i++)
            set_moving(producer, &topic->partitions[i], topic->partitions[i].queued > 0);
    free_finished(producer);
}

ZKAFKA_EXPORT int zkafka_producer_queued(zkafka_producer *producer) {
    /* The length of the queue includes errors and log lines, and is 0 even if a report is missing. */
    int64_t awaited = queued_records(producer), length = rk.outq_len(producer->client.handle);
    return (int)(awaited < length ? awaited : length);
}

ZKAFKA_EXPORT void zkafka_producer_purge(zkafka_producer *producer, int32_t in_flight) {
    rk.purge(producer->client.handle, in_flight ? RK_PURGE_QUEUE | RK_PURGE_IN_FLIGHT : RK_PURGE_QUEUE);
}

ZKAFKA_EXPORT void zkafka_producer_counts(const zkafka_producer *producer, struct zkafka_counts *counts) { *counts = producer->counts; }

ZKAFKA_EXPORT void zkafka_producer_failure(const zkafka_producer *producer, struct zkafka_failure *failure) {
    *failure = producer->failure;
}

ZKAFKA_EXPORT int32_t zkafka_producer_acknowledged(const zkafka_producer *producer, const char *topic, int64_t *counts, int32_t room) {
    const struct topic *found = find_topic(producer, topic);
    int32_t count = found ? found->partition_count : 0;
    for (int32_t i = 0; i < count && i < room; i++) counts[i] = found->partitions[i].acknowledged;
    return count;
}

static int32_t copy_leaders(const struct rk_metadata_topic *topic, int32_t *leaders, int32_t room) {
    for (int i = 0; i < topic->partition_count; i++) {
        const struct rk_metadata_partition *partition = &topic->partitions[i];
        if (partition->id >= 0 && partition->id < room) leaders[partition->id] = partition->leader;
    }
    return topic->partition_count;
}

ZKAFKA_EXPORT int32_t zkafka_producer_leaders(zkafka_producer *producer, const char *topic, int timeout_ms, int32_t *leaders, int32_t room,
                                              int *code) {
    const struct rk_metadata *metadata = NULL;
    rk_topic *handle = rk.topic_new(producer->client.handle, topic, NULL);
    int32_t count = -1;
    if (!handle) {
        *code = RK_ERR_INVALID_ARG;
        return count;
    }
    *code = rk.metadata(producer->client.handle, 0, handle, &metadata, timeout_ms);
    if (*code == 0 && metadata->topic_count > 0) {
        *code = metadata->topics[0].err;
        count = copy_leaders(&metadata->topics[0], leaders, room);
    }
    if (metadata) rk.metadata_destroy(metadata);
    rk.topic_destroy(handle);
    return count;
}

ZKAFKA_EXPORT bool zkafka_producer_report(zkafka_producer *producer, struct zkafka_report *report) {
    return client_next_report(&producer->client, report);
}
