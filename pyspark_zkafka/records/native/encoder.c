/* Encodes rows of Arrow arrays into record batches, format 2: each record once, at its place in the batch. */
#include "crc32c.h"
#include "zkafka.h"

#include <string.h>

enum { HEADER_BYTES = 61, CRC_FROM = 21 };

/* --- Numbers ------------------------------------------------------------------------------------------------------- */

static uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static int64_t varint_bytes(int64_t value) {
    uint64_t rest = zigzag(value);
    int64_t bytes = 1;
    while (rest >= 0x80) rest >>= 7, bytes++;
    return bytes;
}

static uint8_t *put_varint(uint8_t *at, int64_t value) {
    uint64_t rest = zigzag(value);
    while (rest >= 0x80) {
        *at++ = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    *at++ = (uint8_t)rest;
    return at;
}

static int64_t take_varint(const uint8_t **at) {
    uint64_t rest = 0;
    int shift = 0;
    do rest |= (uint64_t)(**at & 0x7f) << shift, shift += 7;
    while (*(*at)++ & 0x80);
    return (int64_t)(rest >> 1) ^ -(int64_t)(rest & 1);
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t size) {
    if (!data) return put_varint(at, -1);
    at = put_varint(at, (int64_t)size);
    memcpy(at, data, size);
    return at + size;
}

static int64_t field_bytes(const void *data, size_t size) {
    return data ? varint_bytes((int64_t)size) + (int64_t)size : 1;
}

static void put_big_endian(uint8_t *at, int64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

/* --- Records ------------------------------------------------------------------------------------------------------- */

struct span {
    int64_t begin, end;
};

/* The entries of a row's headers. */
static struct span entries_of(const struct ArrowArray *headers, int64_t row) {
    if (!headers || !arrow_is_valid(headers, row)) return (struct span){0, 0};
    const int32_t *offsets = headers->buffers[1];
    return (struct span){offsets[row + headers->offset], offsets[row + headers->offset + 1]};
}

static int64_t headers_bytes(const struct ArrowArray *headers, struct span entries) {
    int64_t bytes = varint_bytes(entries.end - entries.begin);
    if (entries.begin == entries.end) return bytes;
    const struct ArrowArray *structs = headers->children[0];
    for (int64_t i = entries.begin; i < entries.end; i++) {
        size_t size;
        arrow_bytes(structs->children[0], false, i + structs->offset, &size);
        bytes += varint_bytes((int64_t)size) + (int64_t)size;
        const void *value = arrow_bytes(structs->children[1], false, i + structs->offset, &size);
        bytes += field_bytes(value, size);
    }
    return bytes;
}

static uint8_t *put_headers(uint8_t *at, const struct ArrowArray *headers, struct span entries) {
    at = put_varint(at, entries.end - entries.begin);
    for (int64_t i = entries.begin; i < entries.end; i++) {
        const struct ArrowArray *structs = headers->children[0];
        size_t size;
        const void *key = arrow_bytes(structs->children[0], false, i + structs->offset, &size);
        at = put_bytes(at, key ? key : "", size);
        const void *value = arrow_bytes(structs->children[1], false, i + structs->offset, &size);
        at = put_bytes(at, value, size);
    }
    return at;
}

static int64_t timestamp_of(const struct ArrowArray *timestamps, int64_t row, int64_t now_ms) {
    if (!timestamps || !arrow_is_valid(timestamps, row)) return now_ms;
    return ((const int64_t *)timestamps->buffers[1])[row + timestamps->offset];
}

/* Appends a record up to its key, if there is room for `rest` more bytes. Returns where to write the rest, or null. */
static uint8_t *begin_record(struct zkafka_open_batch *batch, int64_t timestamp, int64_t rest) {
    bool is_first = batch->records == 0;
    /* Like Java, this wraps around between times that are too far from each other. */
    int64_t delta = is_first ? 0 : (int64_t)((uint64_t)timestamp - (uint64_t)batch->base_timestamp_ms);
    int64_t body = 1 + varint_bytes(delta) + varint_bytes(batch->records) + rest;
    int64_t size = varint_bytes(body) + body;
    if (batch->used + size > batch->capacity || batch->records == INT32_MAX) {
        batch->needed = size;
        return NULL;
    }
    uint8_t *at = put_varint(batch->data + batch->used, body);
    *at++ = 0; /* attributes */
    at = put_varint(at, delta);
    at = put_varint(at, batch->records);
    batch->used += size;
    batch->records++;
    if (is_first) batch->base_timestamp_ms = batch->max_timestamp_ms = timestamp;
    if (timestamp > batch->max_timestamp_ms) batch->max_timestamp_ms = timestamp;
    return at;
}

int64_t zkafka_encode(struct zkafka_open_batch *batch, const int32_t *rows, int64_t count, const struct ArrowArray *value,
                      int32_t value_is_large, const struct ArrowArray *key, int32_t key_is_large, const struct ArrowArray *timestamps,
                      const struct ArrowArray *headers, int64_t now_ms) {
    batch->needed = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        size_t value_size = 0, key_size = 0;
        const void *value_data = arrow_bytes(value, value_is_large, row, &value_size);
        const void *key_data = key ? arrow_bytes(key, key_is_large, row, &key_size) : NULL;
        struct span entries = entries_of(headers, row);
        int64_t rest = field_bytes(key_data, key_size) + field_bytes(value_data, value_size) + headers_bytes(headers, entries);
        uint8_t *at = begin_record(batch, timestamp_of(timestamps, row, now_ms), rest);
        if (!at) return i;
        at = put_bytes(at, key_data, key_size);
        at = put_bytes(at, value_data, value_size);
        put_headers(at, headers, entries);
    }
    return count;
}

int64_t zkafka_encode_again(struct zkafka_open_batch *batch, const uint8_t *records, int64_t count, int64_t base_timestamp_ms) {
    const uint8_t *from = records;
    for (int64_t i = 0; i < count; i++) {
        int64_t body = take_varint(&from);
        const uint8_t *end = from + body;
        from++; /* attributes */
        uint64_t delta = (uint64_t)take_varint(&from);
        take_varint(&from); /* its number in the batch */
        uint8_t *at = begin_record(batch, (int64_t)((uint64_t)base_timestamp_ms + delta), end - from);
        if (!at) return -1;
        memcpy(at, from, (size_t)(end - from));
        from = end;
    }
    return from - records;
}

void zkafka_close_batch(uint8_t *data, int64_t size, int32_t attributes, int64_t records, int64_t base_timestamp_ms,
                        int64_t max_timestamp_ms, int64_t producer_id, int32_t producer_epoch, int32_t first_sequence) {
    put_big_endian(data, 0, 8);          /* base offset */
    put_big_endian(data + 8, size - 12, 4);
    put_big_endian(data + 12, -1, 4);    /* leader epoch */
    data[16] = 2;                        /* format */
    put_big_endian(data + CRC_FROM, attributes, 2);
    put_big_endian(data + 23, records - 1, 4);
    put_big_endian(data + 27, base_timestamp_ms, 8);
    put_big_endian(data + 35, max_timestamp_ms, 8);
    put_big_endian(data + 43, producer_id, 8);
    put_big_endian(data + 51, producer_epoch, 2);
    put_big_endian(data + 53, first_sequence, 4);
    put_big_endian(data + 57, records, 4);
    crc32c_function *fast = crc32c_by_instructions();
    uint32_t crc = (fast ? fast : crc32c_by_table)(data + CRC_FROM, (size_t)(size - CRC_FROM));
    put_big_endian(data + 17, crc, 4);
}
