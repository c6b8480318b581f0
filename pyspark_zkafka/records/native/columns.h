/* The Arrow columns of a batch, to which records are appended. */
#ifndef ZKAFKA_COLUMNS_H
#define ZKAFKA_COLUMNS_H

#include "zkafka.h"

/* Values of fixed size. */
struct fixed {
    char *data;
    int64_t room_bytes;
};

/* Concatenated byte strings: string `i` is `data[offsets[i]..offsets[i + 1]]`. */
struct strings {
    int32_t *offsets;
    uint8_t *data;
    uint8_t *valid; /* null while nothing is null */
    int64_t room_rows;
    int64_t room_bytes;
    int64_t nulls;
    bool utf8;
};

struct columns {
    int32_t kinds[COLUMNS]; /* the requested columns, in their order */
    int32_t count;
    bool asked[COLUMNS];
    int64_t rows;
    struct strings key, value, header_key, header_value;
    struct fixed offset, timestamp, timestamp_type;
    struct strings header_lists; /* offsets of each row's headers, and validity; no data */
    int64_t header_rows;
    struct zkafka_flaws flaws;
    int32_t partition;
    char *topic;
};

/* The size of a header in Arrow without its key and value: two offsets. Counts towards limits of bytes. */
#define HEADER_OVERHEAD_BYTES 8

/* A record without its headers. A null pointer is null. `timestamp_type` is Java's: -1 none, 0 create, 1 append. */
struct record {
    int64_t offset;
    int64_t timestamp_ms;
    int32_t timestamp_type;
    const void *key, *value;
    size_t key_bytes, value_bytes;
};

void columns_begin(struct columns *);
void columns_clear(struct columns *);
/* Sets the columns to build. `texts` are checked for UTF-8. False: no such columns. */
bool columns_project(struct columns *, const int32_t *kinds, const int32_t *texts, int32_t count);
/* Appends a header of the next record. False: out of memory. */
bool columns_append_header(struct columns *, int64_t offset, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
/* Appends a record. Append its headers first, if that column is requested. False: out of memory. */
bool columns_append(struct columns *, const struct record *);
/* Moves the columns into a struct array. False: out of memory. */
bool columns_take(struct columns *, struct ArrowArray *out);

bool is_utf8(const uint8_t *text, size_t size);
/* Starts an array with room for buffers and children, which its release frees. A null buffer is empty. False: out of memory;
 * release it all the same. */
bool array_begin(struct ArrowArray *, int64_t length, int64_t buffers, int64_t children);

#endif
