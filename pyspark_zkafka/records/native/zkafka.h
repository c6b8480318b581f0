/* The functions that Python calls through ctypes, which releases the GIL during each call.
 *
 * Nothing here depends on Python. No function keeps a pointer after it returns, except for Arrow arrays that it takes over. Use a
 * handle only in the process that created it, and in one thread at a time.
 */
#ifndef ZKAFKA_H
#define ZKAFKA_H

#include "arrow_abi.h"
#include <stddef.h>

#define ZKAFKA_INTERFACE 6
#define ZKAFKA_EXPORT __attribute__((visibility("default")))

/* A report of librdkafka: an error of the client, or a line of its log. */
enum { REPORT_ERROR = 0, REPORT_LOG = 1 };

struct zkafka_report {
    int32_t kind;
    int32_t code;  /* librdkafka's error, or the syslog level of a log line */
    int32_t fatal;
    char text[512];
};

ZKAFKA_EXPORT int zkafka_interface(void);
/* Finds librdkafka's functions in a library or its dependencies. False: not found, with the reason in `why`. */
ZKAFKA_EXPORT bool zkafka_bind(const char *path, char *why, size_t why_bytes);
ZKAFKA_EXPORT const char *zkafka_librdkafka_version(void);

/* --- Columns ------------------------------------------------------------------------------------------------------- */

/* Columns, in the order of COLUMNS in Python. */
enum {
    COLUMN_KEY,
    COLUMN_VALUE,
    COLUMN_TOPIC,
    COLUMN_PARTITION,
    COLUMN_OFFSET,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TYPE,
    COLUMN_HEADERS,
    COLUMNS
};

/* Values that Spark cannot represent. For each column the offset of the first such record in a batch, or -1. */
struct zkafka_flaws {
    int64_t key_not_utf8;
    int64_t value_not_utf8;
    int64_t timestamp_too_large;
    int64_t timestamp_ms; /* that timestamp */
    int64_t header_not_utf8;
};

/* --- Decoding ------------------------------------------------------------------------------------------------------ */

/* Why decoding stops. */
enum {
    DECODE_ON = 0,        /* not returned */
    DECODE_STOPPED,       /* at a limit, or without a complete batch */
    DECODE_COMPRESSED,    /* the caller must decompress the records of the next batch */
    DECODE_OTHER_FORMAT,  /* a batch of a format other than 0, 1 and 2 */
    DECODE_UNKNOWN_CODEC,
    DECODE_STRANGE_OFFSET, /* a record outside the offsets of its batch */
    DECODE_WRONG_CHECKSUM,
    DECODE_MALFORMED,     /* a length or count that does not fit */
    DECODE_NO_MEMORY
};

struct zkafka_decoded {
    int64_t records;  /* records appended, since the caller set this field to 0; so are the next three fields */
    int64_t bytes;    /* size of keys and values, and of headers if that column is requested */
    int64_t first;    /* offset of the first record; the caller sets it to -1 */
    int32_t unordered; /* offsets were not ascending */
    int32_t exhausted; /* no complete batch is left */
    int32_t magic;    /* format of the batch where decoding stopped */
    int64_t batch;    /* its base offset, or the last offset of messages */
    int64_t position; /* the next offset */
    /* For DECODE_COMPRESSED: the codec (1 gzip, 2 snappy, 3 lz4, 4 zstd), and the range of the compressed bytes. */
    int32_t codec;
    int64_t begin, end;
};

/* The complete, readable batches at the start of a response. */
struct zkafka_fed {
    int64_t size;         /* in bytes; 0 if there is none, and the next three fields are -1 */
    int64_t first_offset; /* of the first batch */
    int64_t next_offset;  /* after the last batch */
    int32_t last_epoch;   /* leader epoch of the last batch */
    int32_t malformed;    /* the next batch has an impossible length */
    int32_t exhausted;    /* the response has no complete batch, readable or not */
};

typedef struct zkafka_decoder zkafka_decoder;

/* Creates a decoder of the fetch responses of one partition. Null: out of memory. */
ZKAFKA_EXPORT zkafka_decoder *zkafka_decoder_new(const char *topic, int32_t partition);
ZKAFKA_EXPORT void zkafka_decoder_close(zkafka_decoder *);
/* Sets the columns to build. `texts` is nonzero for columns that must be UTF-8. False: no such columns. */
ZKAFKA_EXPORT bool zkafka_decoder_project(zkafka_decoder *, const int32_t *columns, const int32_t *texts, int32_t count);
/* Sets the next offset, and forgets the response, but not the gathered records. */
ZKAFKA_EXPORT void zkafka_decoder_seek(zkafka_decoder *, int64_t offset);
/* Starts another response, with its aborted transactions in the order of their first offsets, or none for read_uncommitted.
 * False: out of memory. */
ZKAFKA_EXPORT bool zkafka_decoder_feed(zkafka_decoder *, const uint8_t *data, int64_t size, const int64_t *producers,
                                       const int64_t *first_offsets, int64_t count, struct zkafka_fed *);
/* Appends records to the gathered batch, up to `most_records`, `most_bytes` or offset `until`. `data` are the record batches of
 * the response, the same in every call. `decompressed` are the records of the current batch, once requested. Returns why it
 * stopped. */
ZKAFKA_EXPORT int32_t zkafka_decoder_decode(zkafka_decoder *, const uint8_t *data, int64_t size, const uint8_t *decompressed,
                                            int64_t decompressed_size, int64_t most_records, int64_t most_bytes, int64_t until,
                                            struct zkafka_decoded *);
/* Returns the gathered batch as a struct array, and starts another. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_decoder_take(zkafka_decoder *, struct ArrowArray *out, struct zkafka_flaws *);

/* --- Encoding ------------------------------------------------------------------------------------------------------ */

/* A record batch that rows are appended to: the header's 61 bytes, then its records. */
struct zkafka_open_batch {
    uint8_t *data;
    int64_t capacity, used; /* with the header; 61 for a batch without records */
    int64_t records;
    int64_t base_timestamp_ms, max_timestamp_ms;
    int64_t needed; /* bytes of the first row that did not fit; else 0 */
};

/* Appends rows, by their numbers, until the batch is full; returns how many. Arrays as of zkafka_producer_add, which are only
 * read here; a row without a timestamp has `now_ms`. */
ZKAFKA_EXPORT int64_t zkafka_encode(struct zkafka_open_batch *, const int32_t *rows, int64_t count, const struct ArrowArray *value,
                                    int32_t value_is_large, const struct ArrowArray *key, int32_t key_is_large,
                                    const struct ArrowArray *timestamps, const struct ArrowArray *headers, int64_t now_ms);
/* Fills in the header of a batch of `size` bytes, whose records may be compressed. */
ZKAFKA_EXPORT void zkafka_close_batch(uint8_t *data, int64_t size, int32_t attributes, int64_t records, int64_t base_timestamp_ms,
                                      int64_t max_timestamp_ms, int64_t producer_id, int32_t producer_epoch, int32_t first_sequence);

/* --- Writing ------------------------------------------------------------------------------------------------------- */

typedef struct zkafka_producer zkafka_producer;

struct zkafka_counts {
    int64_t handed_over;
    int64_t acknowledged;
    int64_t failed;
    int64_t queued_bytes;
    int64_t moving_partitions; /* partitions with records in flight: in full batches, or sent by the last flush */
};

struct zkafka_failure {
    int32_t code; /* 0: none so far */
    int32_t partition;
    char topic[256];
};

/* Creates a producer that queues up to `most_records` and `most_bytes`. `batch_bytes` is librdkafka's batch.size. */
ZKAFKA_EXPORT zkafka_producer *zkafka_producer_new(const char *const *settings, int64_t most_records, int64_t most_bytes,
                                                   int64_t batch_bytes, int *code, char *why, size_t why_bytes);
/* Drops queued records. */
ZKAFKA_EXPORT void zkafka_producer_close(zkafka_producer *);
/* Resets the counts, while nothing is queued. */
ZKAFKA_EXPORT void zkafka_producer_begin(zkafka_producer *);
/* Adds rows, each with its partition, without sending them. Takes over the arrays: `value` and `key` are binary (with int64
 * offsets if flagged), `timestamps` int64 in ms, `headers` list<struct<string, binary>>. All but `value` may be null. False:
 * out of memory, a topic name that librdkafka refuses, or a partition outside `[0, partition_count)`. */
ZKAFKA_EXPORT bool zkafka_producer_add(zkafka_producer *, const char *topic, const int32_t *partitions, int32_t partition_count,
                                       struct ArrowArray *value, int32_t value_is_large, struct ArrowArray *key, int32_t key_is_large,
                                       struct ArrowArray *timestamps, struct ArrowArray *headers);
/* Sends added rows up to the limits, in order for each partition. Waits for room up to `timeout_ms`. True once all are sent. */
ZKAFKA_EXPORT bool zkafka_producer_send(zkafka_producer *, int timeout_ms);
ZKAFKA_EXPORT void zkafka_producer_poll(zkafka_producer *, int timeout_ms);
/* Sends incomplete batches as well, unless their partition has a batch in flight, and waits for reports. */
ZKAFKA_EXPORT void zkafka_producer_flush(zkafka_producer *, int timeout_ms);
ZKAFKA_EXPORT int zkafka_producer_queued(zkafka_producer *);
ZKAFKA_EXPORT void zkafka_producer_purge(zkafka_producer *, int32_t in_flight);
ZKAFKA_EXPORT void zkafka_producer_counts(const zkafka_producer *, struct zkafka_counts *);
ZKAFKA_EXPORT void zkafka_producer_failure(const zkafka_producer *, struct zkafka_failure *);
/* Fills in the acknowledged records of each partition, and returns the number of partitions. */
ZKAFKA_EXPORT int32_t zkafka_producer_acknowledged(const zkafka_producer *, const char *topic, int64_t *counts, int32_t room);
/* Requests the leader of each partition (-1: none). Returns the number of partitions, or a negative number if the request
 * failed. `code` is the error of the call or of the topic. */
ZKAFKA_EXPORT int32_t zkafka_producer_leaders(zkafka_producer *, const char *topic, int timeout_ms, int32_t *leaders, int32_t room,
                                              int *code);
ZKAFKA_EXPORT bool zkafka_producer_report(zkafka_producer *, struct zkafka_report *);

/* --- Transactions -------------------------------------------------------------------------------------------------- */

/* An error of librdkafka's transactional functions. */
struct zkafka_error {
    int32_t code;
    int32_t fatal;
    int32_t retriable; /* the same call continues */
    int32_t requires_abort;
    char text[512];
};

/* Transactions of a producer with a transactional.id. Each function returns false, with the error, if it fails. All but begin
 * wait for brokers. */
ZKAFKA_EXPORT bool zkafka_transaction_init(zkafka_producer *, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_begin(zkafka_producer *, struct zkafka_error *);
/* Adds an offset and its metadata for a group, which need not have members. */
ZKAFKA_EXPORT bool zkafka_transaction_commit_offset(zkafka_producer *, const char *group, const char *topic, int32_t partition,
                                                    int64_t offset, const char *metadata, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_commit(zkafka_producer *, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_abort(zkafka_producer *, int timeout_ms, struct zkafka_error *);

/* --- Routing ------------------------------------------------------------------------------------------------------- */

/* Hashes of the rows of a binary column, 0 for null: Kafka's murmur2, murmur3 (x86, 32 bits, seed 0), CRC-32, FNV-1a. */
enum { HASH_MURMUR2, HASH_MURMUR3, HASH_CRC32, HASH_FNV1A };
ZKAFKA_EXPORT bool zkafka_hash(int32_t kind, const struct ArrowArray *keys, int32_t is_large, uint32_t *hashes);

/* --- Digests ------------------------------------------------------------------------------------------------------- */

/* Adds the two halves of MurmurHash3_x64_128 (seed 0) of each row's encoding (see row_digests.py) to `sums`. Reads arrays like
 * those of zkafka_producer_add, and `partitions` int32, without taking them over. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_hash_rows(const char *topic, const struct ArrowArray *value, int32_t value_is_large, const struct ArrowArray *key,
                                    int32_t key_is_large, const struct ArrowArray *partitions, const struct ArrowArray *timestamps,
                                    const struct ArrowArray *headers, uint64_t *sums);

#endif
