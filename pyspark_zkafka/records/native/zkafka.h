/* The functions that Python calls through ctypes, which releases the GIL during each call.
 *
 * Nothing here depends on Python. No function but zkafka_lend keeps a pointer after it returns, or takes an array over. Use a
 * decoder only in the process that created it, and in one thread at a time.
 */
#ifndef ZKAFKA_H
#define ZKAFKA_H

#include "arrow_abi.h"
#include <stddef.h>

#define ZKAFKA_INTERFACE 12
#define ZKAFKA_EXPORT __attribute__((visibility("default")))

ZKAFKA_EXPORT int zkafka_interface(void);

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
    int64_t timestamp_ms; /* the value of the too large timestamp */
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
    int64_t records;  /* appended records; like `bytes`, summed over calls until the caller sets it to 0 */
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
    int64_t size;         /* in bytes; 0 without a batch: the next three fields are then -1 */
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
/* Sets the next offset, and forgets the response. Keeps the gathered records. */
ZKAFKA_EXPORT void zkafka_decoder_seek(zkafka_decoder *, int64_t offset);
/* Starts another response. Its aborted transactions are in the order of their first offsets; read_uncommitted has none.
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

/* A record batch to which rows are appended: the header's 61 bytes, then its records. */
struct zkafka_open_batch {
    uint8_t *data;
    int64_t capacity, used; /* in bytes, with the header; 61 are used without records */
    int64_t records;
    int64_t base_timestamp_ms, max_timestamp_ms;
    int64_t needed; /* bytes of the first row that did not fit; else 0 */
};

/* Appends rows, by their numbers, until the batch is full; returns how many. `value` and `key` are binary (with int64 offsets if
 * flagged), `timestamps` int64 in ms, `headers` list<struct<string, binary>>; all but `value` may be null. A row without a
 * timestamp has `now_ms`. */
ZKAFKA_EXPORT int64_t zkafka_encode(struct zkafka_open_batch *, const int32_t *rows, int64_t count, const struct ArrowArray *value,
                                    int32_t value_is_large, const struct ArrowArray *key, int32_t key_is_large,
                                    const struct ArrowArray *timestamps, const struct ArrowArray *headers, int64_t now_ms);
/* Appends the first `count` records of a closed batch, from its uncompressed `records`. Returns their size in the closed batch,
 * or -1 if they do not fit. */
ZKAFKA_EXPORT int64_t zkafka_encode_again(struct zkafka_open_batch *, const uint8_t *records, int64_t count, int64_t base_timestamp_ms);
/* Fills in the header of a batch of `size` bytes, whose records may be compressed. */
ZKAFKA_EXPORT void zkafka_close_batch(uint8_t *data, int64_t size, int32_t attributes, int64_t records, int64_t base_timestamp_ms,
                                      int64_t max_timestamp_ms, int64_t producer_id, int32_t producer_epoch, int32_t first_sequence);

/* --- Loans --------------------------------------------------------------------------------------------------------- */

/* Starts to count a task's batches that an engine has not released. Null: out of memory. */
typedef struct zkafka_loans zkafka_loans;
ZKAFKA_EXPORT zkafka_loans *zkafka_loans_new(void);
/* Ends the counting. Batches may be released later. */
ZKAFKA_EXPORT void zkafka_loans_close(zkafka_loans *);
ZKAFKA_EXPORT int64_t zkafka_loans_count(zkafka_loans *);
/* Counts an array until its release, which any thread may call. Replaces `release` and `private_data`. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_lend(zkafka_loans *, struct ArrowArray *);

/* --- Routing ------------------------------------------------------------------------------------------------------- */

/* Hashes of the rows of a binary column, 0 for null: Kafka's murmur2, murmur3 (x86, 32 bits, seed 0), CRC-32, FNV-1a. */
enum { HASH_MURMUR2, HASH_MURMUR3, HASH_CRC32, HASH_FNV1A };
ZKAFKA_EXPORT bool zkafka_hash(int32_t kind, const struct ArrowArray *keys, int32_t is_large, uint32_t *hashes);

/* --- Digests ------------------------------------------------------------------------------------------------------- */

/* Adds the two halves of MurmurHash3_x64_128 (seed 0) of each row's encoding (see RowDigest) to `sums`. Reads arrays like
 * those of zkafka_encode, and `partitions` int32. False: out of memory. */
ZKAFKA_EXPORT bool zkafka_hash_rows(const char *topic, const struct ArrowArray *value, int32_t value_is_large, const struct ArrowArray *key,
                                    int32_t key_is_large, const struct ArrowArray *partitions, const struct ArrowArray *timestamps,
                                    const struct ArrowArray *headers, uint64_t *sums);

/* --- Avro ---------------------------------------------------------------------------------------------------------- */

/* What a node reads. `column` is where its value goes, or -1 to skip the value. */
enum {
    AVRO_NULL,
    AVRO_BOOLEAN,
    AVRO_INT,      /* like AVRO_LONG, is multiplied by `number`, or divided by a negative `number` */
    AVRO_LONG,
    AVRO_FLOAT,
    AVRO_DOUBLE,
    AVRO_BYTES,    /* bytes or a string; if `number` is -1, without a length, up to the end of the payload */
    AVRO_FIXED,    /* of `number` bytes */
    AVRO_ENUM,     /* `count` symbols; links from `first` on: the offset and size of each in the constants, or -1 and 0 */
    AVRO_ARRAY,    /* items of node `first`; `number` is 1 if they may have no bytes */
    AVRO_MAP,      /* values of node `first` */
    AVRO_RECORD,   /* like AVRO_UNION, has `count` nodes, from link `first` on */
    AVRO_UNION,
    AVRO_MEMBER,   /* node `first` as field `count` of a struct whose other fields are null; reads nothing else */
    AVRO_CONSTANT, /* node `first` reads `count` bytes of the constants from `number` on; nothing of the payload */
    AVRO_REFUSED   /* a value for which the reader's schema has no type */
};

/* How a column is stored. */
enum {
    AVRO_COLUMN_NULL,
    AVRO_COLUMN_BOOLEAN,
    AVRO_COLUMN_INT,
    AVRO_COLUMN_LONG, /* `count` is 1 for nanoseconds of a day, else 0 */
    AVRO_COLUMN_FLOAT,
    AVRO_COLUMN_DOUBLE,
    AVRO_COLUMN_DECIMAL, /* 128 bits; `count` is the precision */
    AVRO_COLUMN_STRING,
    AVRO_COLUMN_BINARY,
    AVRO_COLUMN_LIST,   /* also a map, whose child is a struct of key and value */
    AVRO_COLUMN_STRUCT, /* `count` children, from column `first` on */
    AVRO_COLUMNS
};

struct zkafka_avro_node {
    int32_t op, column, first, count;
    int64_t number;
};

/* Node 0 is the root, and so is column 0. */
struct zkafka_avro_program {
    const struct zkafka_avro_node *nodes;
    const int32_t *links;
    const int32_t *columns; /* kind, first, count of each */
    const uint8_t *constants;
    int32_t column_count;
};

/* Why a payload cannot be decoded. */
enum {
    AVRO_CUT = 1,     /* `found` bytes are needed */
    AVRO_LONG_VARINT, /* a number of more than 64 bits */
    AVRO_LARGE_INT,   /* an int of more than 32 bits */
    AVRO_NEGATIVE,    /* a length */
    AVRO_NOT_UTF8,
    AVRO_NOT_BOOLEAN,
    AVRO_SYMBOL,         /* symbol `found` of an enum with fewer symbols */
    AVRO_UNKNOWN_SYMBOL, /* a symbol that the reader's schema lacks */
    AVRO_BRANCH,         /* branch `found` of a union with fewer branches */
    AVRO_UNKNOWN_BRANCH, /* a branch that the reader's schema lacks */
    AVRO_ITEMS,          /* more items than the payload can have */
    AVRO_BLOCK,          /* a block with `found` bytes more than its stated size */
    AVRO_DIGITS,         /* a decimal beyond the precision */
    AVRO_TIME,           /* a time beyond 64 bits, or outside a day */
    AVRO_DEEP,           /* more than `found` nested levels */
    AVRO_TRAILING,       /* bytes after the value */
    AVRO_NO_DIGITS       /* a decimal of no bytes */
};

struct zkafka_avro_flaw {
    int64_t row;
    int32_t code;
    int32_t node;              /* -1: none */
    int64_t at, found, left;   /* where the flaw is, the value found, and the number of bytes from there to the end */
};

/* Decodes binary payloads, without the first `skip` bytes of each payload, to an array with a row for each. A payload that
 * cannot be decoded becomes null and has a flaw; `flaws` has room for a flaw per payload. Returns the number of flaws, or -1: out
 * of memory, or more than 2 GiB of text. */
ZKAFKA_EXPORT int64_t zkafka_avro_decode(const struct zkafka_avro_program *, const struct ArrowArray *payloads, int32_t is_large,
                                         int64_t skip, struct ArrowArray *out, struct zkafka_avro_flaw *flaws);

/* What a step writes. A null value is `null_mark`, and before another comes `mark`: the numbers of branches of a union, or -1. */
enum {
    AVRO_WRITE_CONSTANT, /* `size` bytes of the constants from `first` on; has no column */
    AVRO_WRITE_BOOLEAN,
    AVRO_WRITE_INTEGER, /* of `width` bytes, divided by `number` */
    AVRO_WRITE_REAL,    /* of `width` bytes */
    AVRO_WRITE_DOUBLE,  /* of a float */
    AVRO_WRITE_BYTES,   /* this and the next four: with offsets of `width` bytes */
    AVRO_WRITE_REST,    /* bytes without their length */
    AVRO_WRITE_TEXT,
    AVRO_WRITE_FIXED, /* of `number` bytes */
    AVRO_WRITE_ENUM,  /* `size` symbols in the order of their bytes; links from `first` on: offset, size and number of each */
    AVRO_WRITE_DECIMAL, /* 128 bits to `number` bytes; if it is 0, to a length and as few as possible; if it is -1, without the length */
    AVRO_WRITE_ITEMS,   /* of a list or map with offsets of `width` bytes: for each item `size` steps, from link `first` on */
    AVRO_WRITE_RECORD,  /* like AVRO_WRITE_MEMBER, has `size` steps, from link `first` on */
    AVRO_WRITE_MEMBER
};

struct zkafka_avro_step {
    int32_t op, column, first, size, width, mark, null_mark, unused;
    int64_t number;
};

/* A column: child `child` of column `outer`, which comes before it. A field of a struct has a row for each row of the struct. */
struct zkafka_avro_source {
    int32_t outer, child, is_field;
};

/* Step 0 is the root, and so is column 0. */
struct zkafka_avro_encoding {
    const struct zkafka_avro_step *steps;
    const int32_t *links;
    const struct zkafka_avro_source *columns;
    const uint8_t *constants;
    int32_t column_count;
};

/* Why a value cannot be encoded. */
enum {
    AVRO_VALUE_NULL = 1,
    AVRO_VALUE_NOT_UTF8,
    AVRO_NO_SYMBOL,
    AVRO_OTHER_SIZE,
    AVRO_MANY_MEMBERS,
    AVRO_NO_MEMBER
};

struct zkafka_avro_refusal {
    int64_t row;
    int32_t step, code;
};

/* AVRO_NO_MEMORY also stands for more than 2 GiB of payloads. */
enum { AVRO_ENCODED, AVRO_VALUE_REFUSED, AVRO_NO_MEMORY };

/* Encodes a column to a binary array, with null for a null row. Without AVRO_ENCODED there is no array, and with
 * AVRO_VALUE_REFUSED, `refusal` has the first refused row. */
ZKAFKA_EXPORT int32_t zkafka_avro_encode(const struct zkafka_avro_encoding *, const struct ArrowArray *source, struct ArrowArray *out,
                                         struct zkafka_avro_refusal *refusal);

#endif
