/* The functions that Python calls, through ctypes, which releases the GIL for the duration of a call.
 *
 * Nothing here depends on Python. No function keeps a pointer argument after it returns, except for Arrow arrays, whose
 * ownership it takes. A handle belongs to the process that created it, and to one thread at a time.
 */
#ifndef ZKAFKA_H
#define ZKAFKA_H

#include "arrow_abi.h"
#include <stddef.h>

#define ZKAFKA_INTERFACE 5
#define ZKAFKA_EXPORT __attribute__((visibility("default")))

/* Reports of librdkafka: an error of the client, or a line of its log. */
enum { REPORT_ERROR = 0, REPORT_LOG = 1 };

struct zkafka_report {
    int32_t kind;
    int32_t code;  /* librdkafka's error; of a log line, syslog's level */
    int32_t fatal;
    char text[512];
};

ZKAFKA_EXPORT int zkafka_interface(void);
/* Finds librdkafka's functions in a library, or in what it depends on; false, with the reason in `why`, if it cannot. */
ZKAFKA_EXPORT bool zkafka_bind(const char *path, char *why, size_t why_bytes);
ZKAFKA_EXPORT const char *zkafka_librdkafka_version(void);

/* --- Columns ------------------------------------------------------------------------------------------------------- */

/* Columns, in the order of the enum in Python. */
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

/* Values that Spark cannot represent: offset of the first such record of a batch for each column, or -1. */
struct zkafka_flaws {
    int64_t key_not_utf8;
    int64_t value_not_utf8;
    int64_t timestamp_too_large;
    int64_t timestamp_ms; /* that timestamp */
    int64_t header_not_utf8;
};

/* --- Decoding ------------------------------------------------------------------------------------------------------ */

/* Reasons for which decoding stops. */
enum {
    DECODE_ON = 0,        /* not returned */
    DECODE_STOPPED,       /* at a limit, or no whole batch is left */
    DECODE_COMPRESSED,    /* the records of the next batch are to be decompressed */
    DECODE_OTHER_FORMAT,  /* a batch of another format than 0, 1 and 2 */
    DECODE_UNKNOWN_CODEC,
    DECODE_STRANGE_OFFSET, /* a record outside of its batch's offsets */
    DECODE_WRONG_CHECKSUM,
    DECODE_MALFORMED,     /* a length or count that does not fit */
    DECODE_NO_MEMORY
};

struct zkafka_decoded {
    int64_t records;  /* appended; of all calls since the caller set this to 0, as the next three */
    int64_t bytes;    /* of their keys and values, and of their headers if these are asked for */
    int64_t first;    /* offset of the first one; the caller sets it to -1 */
    int32_t unordered; /* offsets were not ascending */
    int32_t exhausted; /* no whole batch is left */
    int32_t magic;    /* format of the batch at which decoding stopped */
    int64_t batch;    /* its base offset; of messages, the last offset */
    int64_t position; /* the next offset wanted */
    /* Of DECODE_COMPRESSED: codec (1 gzip, 2 snappy, 3 lz4, 4 zstd), and the compressed bytes. */
    int32_t codec;
    int64_t begin, end;
};

/* The whole batches at the start of a response, up to the first one that cannot be read. */
struct zkafka_fed {
    int64_t size;         /* their bytes; 0 if there is none, and the next three are -1 */
    int64_t first_offset; /* of the first batch */
    int64_t next_offset;  /* after the last batch */
    int32_t last_epoch;   /* leader epoch of the last batch */
    int32_t malformed;    /* the batch after them has a length that no batch can have */
    int32_t exhausted;    /* there is no whole batch, readable or not */
};

typedef struct zkafka_decoder zkafka_decoder;

/* A decoder of one partition's fetch responses at a time. Null: out of memory. */
ZKAFKA_EXPORT zkafka_decoder *zkafka_decoder_new(const char *topic, int32_t partition);
ZKAFKA_EXPORT void zkafka_decoder_close(zkafka_decoder *);
/* Sets the columns to build: `count` values of the enum. `texts` is nonzero for those that must be UTF-8. False: there are no such columns. */
ZKAFKA_EXPORT bool zkafka_decoder_project(zkafka_decoder *, const int32_t *columns, const int32_t *texts, int32_t count);
/* Sets the next offset wanted, and forgets the response before, but not the records gathered. */
ZKAFKA_EXPORT void zkafka_decoder_seek(zkafka_decoder *, int64_t offset);
/* Starts a response, with its aborted transactions in the order of their first offsets; none for read_uncommitted. False: out of
 * memory. */
ZKAFKA_EXPORT bool zkafka_decoder_feed(zkafka_decoder *, const uint8_t *data, int64_t size, const int64_t *producers,
                                       const int64_t *first_offsets, int64_t count, struct zkafka_fed *);
/* Appends records to the batch being gathered: up to `most_records`, until their bytes reach `most_bytes`, or until offset `until`.
 * `data` are the response's record batches, the same in every call; `decompressed`, once requested, the records of the batch that is
 * being read. Returns the reason to stop. */
ZKAFKA_EXPORT int32_t zkafka_decoder_decode(zkafka_decoder *, const uint8_t *data, int64_t size, const uint8_t *decompressed,
                                            int64_t decompressed_size, int64_t most_records, int64_t most_bytes, int64_t until,
                                            struct zkafka_decoded *);
/* Returns the gathered batch as a struct array, and starts another. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_decoder_take(zkafka_decoder *, struct ArrowArray *out, struct zkafka_flaws *);
/* CRC-32C by the processor's instructions, or by tables; false if there are no such instructions. */
ZKAFKA_EXPORT bool zkafka_crc32c(int32_t by_table, const uint8_t *data, size_t size, uint32_t *crc);

/* --- Writing ------------------------------------------------------------------------------------------------------- */

typedef struct zkafka_producer zkafka_producer;

struct zkafka_counts {
    int64_t handed_over;
    int64_t acknowledged;
    int64_t failed;
    int64_t queued_bytes;
    int64_t moving_partitions; /* with records in flight: in full batches, or sent by the last flush */
};

struct zkafka_failure {
    int32_t code; /* 0: none so far */
    int32_t partition;
    char topic[256];
};

/* Up to `most_records` and `most_bytes` are queued at a time; `batch_bytes` is librdkafka's batch.size. */
ZKAFKA_EXPORT zkafka_producer *zkafka_producer_new(const char *const *settings, int64_t most_records, int64_t most_bytes,
                                                   int64_t batch_bytes, int *code, char *why, size_t why_bytes);
/* Drops queued records. */
ZKAFKA_EXPORT void zkafka_producer_close(zkafka_producer *);
/* Resets the counts; only while nothing is queued. */
ZKAFKA_EXPORT void zkafka_producer_begin(zkafka_producer *);
/* Takes ownership of the arrays: `value` and `key` binary (int64 offsets if flagged), `timestamps` int64 in ms, `headers`
 * list<struct<string, binary>>; each but `value` may be null. Rows go to their partition, rows of one partition in order.
 * Nothing is sent yet. False: out of memory, librdkafka refuses the topic's name, or a row's partition is not in
 * `[0, partition_count)`. */
ZKAFKA_EXPORT bool zkafka_producer_add(zkafka_producer *, const char *topic, const int32_t *partitions, int32_t partition_count,
                                       struct ArrowArray *value, int32_t value_is_large, struct ArrowArray *key, int32_t key_is_large,
                                       struct ArrowArray *timestamps, struct ArrowArray *headers);
/* Sends added rows, as far as the limits allow; waits for room up to `timeout_ms`. True once all are sent. */
ZKAFKA_EXPORT bool zkafka_producer_send(zkafka_producer *, int timeout_ms);
ZKAFKA_EXPORT void zkafka_producer_poll(zkafka_producer *, int timeout_ms);
/* Sends batches that are not full, too, but perhaps not those behind one in flight; waits for reports. */
ZKAFKA_EXPORT void zkafka_producer_flush(zkafka_producer *, int timeout_ms);
ZKAFKA_EXPORT int zkafka_producer_queued(zkafka_producer *);
ZKAFKA_EXPORT void zkafka_producer_purge(zkafka_producer *, int32_t in_flight);
ZKAFKA_EXPORT void zkafka_producer_counts(const zkafka_producer *, struct zkafka_counts *);
ZKAFKA_EXPORT void zkafka_producer_failure(const zkafka_producer *, struct zkafka_failure *);
/* Fills in the acknowledged records of a topic by partition; returns the number of its partitions. */
ZKAFKA_EXPORT int32_t zkafka_producer_acknowledged(const zkafka_producer *, const char *topic, int64_t *counts, int32_t room);
/* Fills in the leader of each partition that the brokers report (-1: none), in the order of their numbers; returns the
 * number of partitions, or a negative number if the request failed. `code` is the error of the call, or of the topic. */
ZKAFKA_EXPORT int32_t zkafka_producer_leaders(zkafka_producer *, const char *topic, int timeout_ms, int32_t *leaders, int32_t room,
                                              int *code);
ZKAFKA_EXPORT bool zkafka_producer_report(zkafka_producer *, struct zkafka_report *);

/* --- Transactions -------------------------------------------------------------------------------------------------- */

/* An error of librdkafka's transactional functions. */
struct zkafka_error {
    int32_t code;
    int32_t fatal;
    int32_t retriable; /* the same call may be made again, and continues */
    int32_t requires_abort;
    char text[512];
};

/* Of a producer with a transactional.id; each returns false, with the error, if it fails. All but begin wait for brokers. */
ZKAFKA_EXPORT bool zkafka_transaction_init(zkafka_producer *, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_begin(zkafka_producer *, struct zkafka_error *);
/* Adds an offset of a group, which need not have members, with its metadata. */
ZKAFKA_EXPORT bool zkafka_transaction_commit_offset(zkafka_producer *, const char *group, const char *topic, int32_t partition,
                                                    int64_t offset, const char *metadata, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_commit(zkafka_producer *, int timeout_ms, struct zkafka_error *);
ZKAFKA_EXPORT bool zkafka_transaction_abort(zkafka_producer *, int timeout_ms, struct zkafka_error *);

/* --- Routing ------------------------------------------------------------------------------------------------------- */

/* Hashes of a binary column's rows, 0 for null: Kafka's murmur2, murmur3 (x86, 32 bits, seed 0), CRC-32, FNV-1a. */
enum { HASH_MURMUR2, HASH_MURMUR3, HASH_CRC32, HASH_FNV1A };
ZKAFKA_EXPORT bool zkafka_hash(int32_t kind, const struct ArrowArray *keys, int32_t is_large, uint32_t *hashes);

/* --- Digests ------------------------------------------------------------------------------------------------------- */

/* Adds to each half of `sums` that half of MurmurHash3_x64_128 (seed 0) of each row's encoding, which row_digests.py
 * describes. Arrays as of zkafka_producer_add, with `partitions` int32; they are only read. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_hash_rows(const char *topic, const struct ArrowArray *value, int32_t value_is_large, const struct ArrowArray *key,
                                    int32_t key_is_large, const struct ArrowArray *partitions, const struct ArrowArray *timestamps,
                                    const struct ArrowArray *headers, uint64_t *sums);

#endif
