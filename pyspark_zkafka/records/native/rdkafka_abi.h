/* The part of librdkafka's public ABI in use, which is looked up at run time.
 *
 * The library is the one that confluent-kafka has loaded. The build links nothing, and needs no header of librdkafka. Types and
 * signatures are those of librdkafka 1.6 to 2.x. The public ABI is stable since 1.0.
 */
#ifndef ZKAFKA_RDKAFKA_ABI_H
#define ZKAFKA_RDKAFKA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct rk_handle rk_handle;
typedef struct rk_conf rk_conf;
typedef struct rk_topic rk_topic;
typedef struct rk_queue rk_queue;
typedef struct rk_headers rk_headers;
typedef struct rk_partition_list rk_partition_list;
typedef struct rk_group_metadata rk_group_metadata;
typedef struct rk_error rk_error;

enum { RK_PRODUCER = 0 };

/* Error codes that C handles. All others pass to Python unchanged. */
enum { RK_ERR_FAIL = -196, RK_ERR_INVALID_ARG = -186, RK_ERR_FATAL = -150 };

/* Flags of produce calls and of purge. */
enum { RK_MSG_BY_PARTITION = 0x8 };
enum { RK_PURGE_QUEUE = 0x1, RK_PURGE_IN_FLIGHT = 0x2 };

/* Tags of arguments of producev. */
enum { RK_V_END, RK_V_TOPIC, RK_V_RKT, RK_V_PARTITION, RK_V_VALUE, RK_V_KEY, RK_V_OPAQUE, RK_V_FLAGS, RK_V_TIMESTAMP, RK_V_HEADER, RK_V_HEADERS };

/* rd_kafka_message_t */
struct rk_message {
    int err;
    rk_topic *topic;
    int32_t partition;
    void *payload;
    size_t payload_bytes;
    void *key;
    size_t key_bytes;
    int64_t offset;
    void *opaque;
};

/* rd_kafka_topic_partition_t. librdkafka frees the metadata with the list. */
struct rk_topic_partition {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_bytes;
    void *opaque;
    int err;
    void *internal;
};

/* rd_kafka_metadata_t and its parts, read only. */
struct rk_metadata_partition {
    int32_t id;
    int err;
    int32_t leader;
    int replica_count;
    int32_t *replicas;
    int isr_count;
    int32_t *isrs;
};

struct rk_metadata_topic {
    char *name;
    int partition_count;
    struct rk_metadata_partition *partitions;
    int err;
};

struct rk_metadata {
    int broker_count;
    void *brokers;
    int topic_count;
    struct rk_metadata_topic *topics;
    int32_t origin_id;
    char *origin_name;
};

typedef void rk_on_error(rk_handle *, int err, const char *reason, void *opaque);
typedef void rk_on_log(const rk_handle *, int level, const char *facility, const char *text);
typedef void rk_on_delivery(rk_handle *, const struct rk_message *, void *opaque);

/* X(result, name without rd_kafka_, arguments) */
#define RK_FUNCTIONS(X)                                                                                                \
    X(const char *, version_str, (void))                                                                               \
    X(const char *, err2str, (int))                                                                                    \
    X(int, last_error, (void))                                                                                         \
    X(rk_conf *, conf_new, (void))                                                                                     \
    X(void, conf_destroy, (rk_conf *))                                                                                 \
    X(int, conf_set, (rk_conf *, const char *, const char *, char *, size_t))                                          \
    X(void, conf_set_opaque, (rk_conf *, void *))                                                                      \
    X(void, conf_set_error_cb, (rk_conf *, rk_on_error *))                                                             \
    X(void, conf_set_log_cb, (rk_conf *, rk_on_log *))                                                                 \
    X(void, conf_set_dr_msg_cb, (rk_conf *, rk_on_delivery *))                                                         \
    X(rk_handle *, new, (int, rk_conf *, char *, size_t))                                                              \
    X(void, destroy, (rk_handle *))                                                                                    \
    X(const char *, name, (const rk_handle *))                                                                         \
    X(void *, opaque, (const rk_handle *))                                                                             \
    X(int, set_log_queue, (rk_handle *, rk_queue *))                                                                   \
    X(int, fatal_error, (rk_handle *, char *, size_t))                                                                 \
    X(int, poll, (rk_handle *, int))                                                                                   \
    X(rk_partition_list *, topic_partition_list_new, (int))                                                            \
    X(void, topic_partition_list_destroy, (rk_partition_list *))                                                       \
    X(struct rk_topic_partition *, topic_partition_list_add, (rk_partition_list *, const char *, int32_t))             \
    X(rk_headers *, headers_new, (size_t))                                                                             \
    X(void, headers_destroy, (rk_headers *))                                                                           \
    X(int, header_add, (rk_headers *, const char *, ptrdiff_t, const void *, ptrdiff_t))                               \
    X(rk_topic *, topic_new, (rk_handle *, const char *, void *))                                                      \
    X(void, topic_destroy, (rk_topic *))                                                                               \
    X(int, produce_batch, (rk_topic *, int32_t, int, struct rk_message *, int))                                        \
    X(int, producev, (rk_handle *, ...))                                                                               \
    X(int, outq_len, (rk_handle *))                                                                                    \
    X(int, flush, (rk_handle *, int))                                                                                  \
    X(int, purge, (rk_handle *, int))                                                                                  \
    X(int, metadata, (rk_handle *, int, rk_topic *, const struct rk_metadata **, int))                                 \
    X(void, metadata_destroy, (const struct rk_metadata *))                                                            \
    X(rk_error *, init_transactions, (rk_handle *, int))                                                               \
    X(rk_error *, begin_transaction, (rk_handle *))                                                                    \
    X(rk_error *, send_offsets_to_transaction, (rk_handle *, const rk_partition_list *, const rk_group_metadata *, int))\
    X(rk_error *, commit_transaction, (rk_handle *, int))                                                              \
    X(rk_error *, abort_transaction, (rk_handle *, int))                                                               \
    X(rk_group_metadata *, consumer_group_metadata_new, (const char *))                                                \
    X(void, consumer_group_metadata_destroy, (rk_group_metadata *))                                                    \
    X(int, error_code, (const rk_error *))                                                                             \
    X(const char *, error_string, (const rk_error *))                                                                  \
    X(int, error_is_fatal, (const rk_error *))                                                                         \
    X(int, error_is_retriable, (const rk_error *))                                                                     \
    X(int, error_txn_requires_abort, (const rk_error *))                                                               \
    X(void, error_destroy, (rk_error *))

struct rk_functions {
#define RK_POINTER(result, name, arguments) result(*name) arguments;
    RK_FUNCTIONS(RK_POINTER)
#undef RK_POINTER
};

/* All null until zkafka_bind has succeeded. */
extern struct rk_functions rk;

#endif
