/* Transactions of a producer, which may also commit the offset of a group. */
#include "client.h"

#include <stdio.h>
#include <string.h>

static bool is_done(rk_error *failed, struct zkafka_error *error) {
    if (!failed) return true;
    error->code = rk.error_code(failed);
    error->fatal = rk.error_is_fatal(failed);
    error->retriable = rk.error_is_retriable(failed);
    error->requires_abort = rk.error_txn_requires_abort(failed);
    snprintf(error->text, sizeof error->text, "%s", rk.error_string(failed));
    rk.error_destroy(failed);
    return false;
}

ZKAFKA_EXPORT bool zkafka_transaction_init(zkafka_producer *producer, int timeout_ms, struct zkafka_error *error) {
    return is_done(rk.init_transactions(producer_handle(producer), timeout_ms), error);
}

ZKAFKA_EXPORT bool zkafka_transaction_begin(zkafka_producer *producer, struct zkafka_error *error) {
    return is_done(rk.begin_transaction(producer_handle(producer)), error);
}

/* Null: out of memory. */
static rk_partition_list *list_of(const char *topic, int32_t partition, int64_t offset, const char *metadata) {
    rk_partition_list *list = rk.topic_partition_list_new(1);
    struct rk_topic_partition *only = rk.topic_partition_list_add(list, topic, partition);
    only->offset = offset;
    only->metadata = strdup(metadata);
    if (!only->metadata) {
        rk.topic_partition_list_destroy(list);
        return NULL;
    }
    /* With a zero byte, as confluent-kafka commits metadata, and needs it for reading. */
    only->metadata_bytes = strlen(metadata) + 1;
    return list;
}

ZKAFKA_EXPORT bool zkafka_transaction_commit_offset(zkafka_producer *producer, const char *group, const char *topic, int32_t partition,
                                                    int64_t offset, const char *metadata, int timeout_ms, struct zkafka_error *error) {
    rk_partition_list *list = list_of(topic, partition, offset, metadata);
    if (!list) {
        *error = (struct zkafka_error){.code = RK_ERR_FAIL, .text = "out of memory"};
        return false;
    }
    rk_group_metadata *group_metadata = rk.consumer_group_metadata_new(group);
    rk_error *failed = rk.send_offsets_to_transaction(producer_handle(producer), list, group_metadata, timeout_ms);
    rk.consumer_group_metadata_destroy(group_metadata);
    rk.topic_partition_list_destroy(list);
    return is_done(failed, error);
}

ZKAFKA_EXPORT bool zkafka_transaction_commit(zkafka_producer *producer, int timeout_ms, struct zkafka_error *error) {
    return is_done(rk.commit_transaction(producer_handle(producer), timeout_ms), error);
}

ZKAFKA_EXPORT bool zkafka_transaction_abort(zkafka_producer *producer, int timeout_ms, struct zkafka_error *error) {
    return is_done(rk.abort_transaction(producer_handle(producer), timeout_ms), error);
}
