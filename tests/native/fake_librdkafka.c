/* A fake of librdkafka: what rdkafka_abi.h declares, without brokers, threads or time.
 *
 * What is produced is kept by its address, as librdkafka keeps it, and only read when its report is made, in rd_kafka_poll.
 * fake_live counts what was handed out and not given back.
 */
#include "rdkafka_abi.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { ERROR_TOO_LARGE = 10, ERROR_PURGED = -152 };

struct header {
    char *key;
    void *value;
    size_t size;
};

struct rk_headers {
    size_t count, room;
    struct header *all;
};

struct sent {
    struct rk_message message;
    rk_headers *headers;
    int64_t time;
    struct sent *next;
};

struct rk_conf {
    void *opaque;
    rk_on_delivery *on_delivery;
};

struct rk_topic {
    char *name;
    rk_handle *handle;
};

struct rk_partition_list {
    struct rk_topic_partition only;
};

struct rk_group_metadata {
    char *group;
};

struct rk_error {
    int code;
    char *text;
};

struct rk_handle {
    struct rk_conf conf;
    struct sent *first, **last;
    int queued;
};

static int64_t live;
static int refuse_above = 1 << 30; /* bytes of a value that a producer takes */
static volatile uint64_t digest;   /* of all that was delivered: so that each byte of it is read */

/* --- The test's own calls ------------------------------------------------------------------------------------------ */

EXPORT int64_t fake_live(void) { return live; }
EXPORT void fake_refuse_above(int bytes) { refuse_above = bytes; }

static void free_headers(rk_headers *headers) {
    if (!headers) return;
    for (size_t i = 0; i < headers->count; i++) {
        free(headers->all[i].key);
        free(headers->all[i].value);
    }
    free(headers->all);
    free(headers);
}

/* --- Clients ------------------------------------------------------------------------------------------------------- */

EXPORT const char *rd_kafka_version_str(void) { return "2.0.0"; }
EXPORT const char *rd_kafka_err2str(int code) { return code ? "an error" : "Success"; }
EXPORT int rd_kafka_last_error(void) { return RK_ERR_INVALID_ARG; }

EXPORT rk_conf *rd_kafka_conf_new(void) {
    live++;
    return calloc(1, sizeof(rk_conf));
}

EXPORT void rd_kafka_conf_destroy(rk_conf *conf) {
    free(conf);
    live--;
}

EXPORT int rd_kafka_conf_set(rk_conf *conf, const char *name, const char *value, char *why, size_t why_bytes) {
    (void)conf, (void)value;
    bool is_bad = strcmp(name, "bad") == 0;
    if (is_bad) snprintf(why, why_bytes, "No such configuration property: \"bad\"");
    return is_bad ? -2 : 0;
}

EXPORT void rd_kafka_conf_set_opaque(rk_conf *conf, void *opaque) { conf->opaque = opaque; }
EXPORT void rd_kafka_conf_set_error_cb(rk_conf *conf, rk_on_error *on_error) { (void)conf, (void)on_error; }
EXPORT void rd_kafka_conf_set_log_cb(rk_conf *conf, rk_on_log *on_log) { (void)conf, (void)on_log; }
EXPORT void rd_kafka_conf_set_dr_msg_cb(rk_conf *conf, rk_on_delivery *on_delivery) { conf->on_delivery = on_delivery; }

EXPORT rk_handle *rd_kafka_new(int type, rk_conf *conf, char *why, size_t why_bytes) {
    (void)type, (void)why, (void)why_bytes;
    rk_handle *handle = calloc(1, sizeof *handle);
    handle->conf = *conf;
    handle->last = &handle->first;
    free(conf); /* counts on as the handle */
    return handle;
}

static void free_sent(rk_handle *handle) {
    struct sent *sent = handle->first;
    handle->first = sent->next;
    if (!handle->first) handle->last = &handle->first;
    handle->queued--;
    free(sent->message.key);
    free_headers(sent->headers);
    free(sent);
}

EXPORT void rd_kafka_destroy(rk_handle *handle) {
    while (handle->first) free_sent(handle);
    free(handle);
    live--;
}

EXPORT const char *rd_kafka_name(const rk_handle *handle) { return handle ? "fake#1" : ""; }
EXPORT void *rd_kafka_opaque(const rk_handle *handle) { return handle->conf.opaque; }
EXPORT int rd_kafka_set_log_queue(rk_handle *handle, rk_queue *queue) { return handle && !queue ? 0 : -1; }
EXPORT int rd_kafka_fatal_error(rk_handle *handle, char *why, size_t why_bytes) {
    if (handle) snprintf(why, why_bytes, "none");
    return 0;
}
EXPORT rk_partition_list *rd_kafka_topic_partition_list_new(int size) {
    (void)size;
    live++;
    return calloc(1, sizeof(rk_partition_list));
}

EXPORT void rd_kafka_topic_partition_list_destroy(rk_partition_list *list) {
    free(list->only.topic);
    free(list->only.metadata);
    free(list);
    live--;
}

EXPORT struct rk_topic_partition *rd_kafka_topic_partition_list_add(rk_partition_list *list, const char *topic, int32_t partition) {
    list->only = (struct rk_topic_partition){.topic = strdup(topic), .partition = partition, .offset = -1001};
    return &list->only;
}

/* --- Writing ------------------------------------------------------------------------------------------------------- */

EXPORT rk_headers *rd_kafka_headers_new(size_t room) {
    rk_headers *headers = calloc(1, sizeof *headers);
    headers->all = calloc(room + 1, sizeof *headers->all);
    headers->room = room;
    return headers;
}

EXPORT void rd_kafka_headers_destroy(rk_headers *headers) { free_headers(headers); }

EXPORT int rd_kafka_header_add(rk_headers *headers, const char *key, ptrdiff_t key_size, const void *value, ptrdiff_t size) {
    if (headers->count >= headers->room) abort();
    struct header *header = &headers->all[headers->count++];
    header->key = malloc((size_t)key_size + 1);
    memcpy(header->key, key, (size_t)key_size);
    header->key[key_size] = 0;
    header->size = (size_t)size;
    if (value) memcpy(header->value = malloc((size_t)size + 1), value, (size_t)size);
    return 0;
}

EXPORT rk_topic *rd_kafka_topic_new(rk_handle *handle, const char *name, void *conf) {
    (void)conf;
    rk_topic *topic = calloc(1, sizeof *topic);
    topic->name = strdup(name);
    topic->handle = handle;
    live++;
    return topic;
}

EXPORT void rd_kafka_topic_destroy(rk_topic *topic) {
    free(topic->name);
    free(topic);
    live--;
}

static int keep(rk_handle *handle, const struct rk_message *message, rk_headers *headers, int64_t time) {
    if (message->payload_bytes > (size_t)refuse_above) return ERROR_TOO_LARGE;
    struct sent *sent = calloc(1, sizeof *sent);
    sent->message = *message;
    if (message->key) { /* keys are copied, values are not */
        sent->message.key = malloc(message->key_bytes + 1);
        memcpy(sent->message.key, message->key, message->key_bytes);
    }
    sent->headers = headers;
    sent->time = time;
    *handle->last = sent;
    handle->last = &sent->next;
    handle->queued++;
    return 0;
}

EXPORT int rd_kafka_produce_batch(rk_topic *topic, int32_t partition, int flags, struct rk_message *messages, int count) {
    int taken = 0;
    (void)partition;
    if (flags != RK_MSG_BY_PARTITION) abort();
    for (int i = 0; i < count; i++) {
        messages[i].err = keep(topic->handle, &messages[i], NULL, 0);
        taken += messages[i].err == 0;
    }
    return taken;
}

EXPORT int rd_kafka_producev(rk_handle *handle, ...) {
    struct rk_message message = {0};
    rk_headers *headers = NULL;
    int64_t time = 0;
    va_list arguments;
    va_start(arguments, handle);
    for (int tag = va_arg(arguments, int); tag != RK_V_END; tag = va_arg(arguments, int)) {
        switch (tag) {
        case RK_V_RKT:
            message.topic = va_arg(arguments, rk_topic *);
            break;
        case RK_V_PARTITION:
            message.partition = va_arg(arguments, int32_t);
            break;
        case RK_V_VALUE:
            message.payload = va_arg(arguments, void *);
            message.payload_bytes = va_arg(arguments, size_t);
            break;
        case RK_V_KEY:
            message.key = va_arg(arguments, void *);
            message.key_bytes = va_arg(arguments, size_t);
            break;
        case RK_V_OPAQUE:
            message.opaque = va_arg(arguments, void *);
            break;
        case RK_V_FLAGS:
            if (va_arg(arguments, int) != 0) abort();
            break;
        case RK_V_TIMESTAMP:
            time = va_arg(arguments, int64_t);
            break;
        case RK_V_HEADERS:
            headers = va_arg(arguments, rk_headers *);
            break;
        default:
            abort();
        }
    }
    va_end(arguments);
    return keep(handle, &message, headers, time);
}

static void digest_bytes(const void *data, size_t size) {
    const uint8_t *bytes = data;
    digest = (digest ^ size ^ (data ? 0 : 0x5bd1e995)) * 0x100000001b3;
    for (size_t i = 0; i < size; i++) digest = (digest ^ bytes[i]) * 0x100000001b3;
}

static void report(rk_handle *handle, int err) {
    struct sent *sent = handle->first;
    if (!err) {
        digest_bytes(&sent->message.partition, sizeof sent->message.partition);
        digest_bytes(sent->message.key, sent->message.key_bytes);
        digest_bytes(sent->message.payload, sent->message.payload_bytes);
        digest_bytes(&sent->time, sizeof sent->time);
        for (size_t i = 0; sent->headers && i < sent->headers->count; i++) {
            digest_bytes(sent->headers->all[i].key, strlen(sent->headers->all[i].key));
            digest_bytes(sent->headers->all[i].value, sent->headers->all[i].size);
        }
    }
    sent->message.err = err;
    handle->conf.on_delivery(handle, &sent->message, handle->conf.opaque);
    free_sent(handle);
}

/* Reports on half of what is queued, or on all where it is waited for. */
EXPORT int rd_kafka_poll(rk_handle *handle, int timeout_ms) {
    int count = timeout_ms ? handle->queued : handle->queued / 2;
    for (int i = 0; i < count; i++) report(handle, 0);
    return count;
}

EXPORT int rd_kafka_flush(rk_handle *handle, int timeout_ms) {
    (void)timeout_ms;
    rd_kafka_poll(handle, 1);
    return 0;
}

EXPORT int rd_kafka_purge(rk_handle *handle, int flags) {
    (void)flags;
    while (handle->first) report(handle, ERROR_PURGED);
    return 0;
}

EXPORT int rd_kafka_outq_len(rk_handle *handle) { return handle->queued; }

EXPORT int rd_kafka_metadata(rk_handle *handle, int all, rk_topic *topic, const struct rk_metadata **found, int timeout_ms) {
    static struct rk_metadata_partition partitions[] = {{.id = 1, .leader = 7}, {.id = 0, .leader = -1}};
    static struct rk_metadata_topic topics[] = {{.partition_count = 2, .partitions = partitions}};
    static const struct rk_metadata metadata = {.topic_count = 1, .topics = topics};
    (void)handle, (void)all, (void)topic, (void)timeout_ms;
    *found = &metadata;
    live++;
    return 0;
}

EXPORT void rd_kafka_metadata_destroy(const struct rk_metadata *metadata) {
    (void)metadata;
    live--;
}

/* --- Transactions -------------------------------------------------------------------------------------------------- */

enum { ERROR_FENCED = -144 };

/* Each third call fails, and what its error says is of just its size. */
static rk_error *third_fails(const char *text) {
    static int calls;
    if (++calls % 3) return NULL;
    rk_error *error = calloc(1, sizeof *error);
    error->code = ERROR_FENCED;
    error->text = strdup(text);
    live++;
    return error;
}

EXPORT rk_error *rd_kafka_init_transactions(rk_handle *handle, int timeout_ms) { return handle && timeout_ms ? third_fails("init") : NULL; }
EXPORT rk_error *rd_kafka_begin_transaction(rk_handle *handle) { return handle ? third_fails("begin") : NULL; }
EXPORT rk_error *rd_kafka_commit_transaction(rk_handle *handle, int timeout_ms) { return handle && timeout_ms ? third_fails("commit") : NULL; }

EXPORT rk_error *rd_kafka_abort_transaction(rk_handle *handle, int timeout_ms) {
    (void)timeout_ms;
    rd_kafka_purge(handle, 0);
    return third_fails("abort");
}

EXPORT rk_error *rd_kafka_send_offsets_to_transaction(rk_handle *handle, const rk_partition_list *list, const rk_group_metadata *metadata,
                                                      int timeout_ms) {
    (void)handle, (void)timeout_ms;
    digest_bytes(metadata->group, strlen(metadata->group));
    digest_bytes(list->only.topic, strlen(list->only.topic));
    digest_bytes(&list->only.offset, sizeof list->only.offset);
    digest_bytes(list->only.metadata, list->only.metadata_bytes);
    return third_fails("send_offsets");
}

EXPORT rk_group_metadata *rd_kafka_consumer_group_metadata_new(const char *group) {
    rk_group_metadata *metadata = calloc(1, sizeof *metadata);
    metadata->group = strdup(group);
    live++;
    return metadata;
}

EXPORT void rd_kafka_consumer_group_metadata_destroy(rk_group_metadata *metadata) {
    free(metadata->group);
    free(metadata);
    live--;
}

EXPORT int rd_kafka_error_code(const rk_error *error) { return error->code; }
EXPORT const char *rd_kafka_error_string(const rk_error *error) { return error->text; }
EXPORT int rd_kafka_error_is_fatal(const rk_error *error) { return error->code == ERROR_FENCED; }
EXPORT int rd_kafka_error_is_retriable(const rk_error *error) { return error->code != ERROR_FENCED; }
EXPORT int rd_kafka_error_txn_requires_abort(const rk_error *error) { return error->code != ERROR_FENCED; }

EXPORT void rd_kafka_error_destroy(rk_error *error) {
    free(error->text);
    free(error);
    live--;
}
