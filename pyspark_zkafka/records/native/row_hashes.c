/* The hash of rows regardless of their order: the sum of the hashes of their encodings. */
#include "zkafka.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t NULL_FIELD = 0xffffffff;

static uint64_t rotate(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

/* Compilers turn this into one load, and each of the next two functions into one store. They do not do so for loops. */
static uint64_t word_at(const uint8_t *at) {
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 |
           (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

static void put_32(uint8_t *to, uint32_t number) {
    to[0] = (uint8_t)number, to[1] = (uint8_t)(number >> 8), to[2] = (uint8_t)(number >> 16), to[3] = (uint8_t)(number >> 24);
}

static void put_64(uint8_t *to, uint64_t number) {
    put_32(to, (uint32_t)number);
    put_32(to + 4, (uint32_t)(number >> 32));
}

static uint64_t tail_word(const uint8_t *at, size_t size) {
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static uint64_t finish(uint64_t word) {
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdu;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53u;
    return word ^ word >> 33;
}

static uint64_t mix_first(uint64_t word) { return rotate(word * 0x87c37b91114253d5u, 31) * 0x4cf5ad432745937fu; }
static uint64_t mix_second(uint64_t word) { return rotate(word * 0x4cf5ad432745937fu, 33) * 0x87c37b91114253d5u; }

/* Adds the halves of MurmurHash3_x64_128 (seed 0) to their sums. */
static void add_hash(const uint8_t *data, size_t size, uint64_t *sums) {
    uint64_t first = 0, second = 0;
    size_t left = size;
    for (; left >= 16; data += 16, left -= 16) {
        first = (rotate(first ^ mix_first(word_at(data)), 27) + second) * 5 + 0x52dce729;
        second = (rotate(second ^ mix_second(word_at(data + 8)), 31) + first) * 5 + 0x38495ab5;
    }
    if (left > 8) second ^= mix_second(tail_word(data + 8, left - 8));
    if (left) first ^= mix_first(tail_word(data, left < 8 ? left : 8));
    first ^= size, second ^= size;
    first += second, second += first;
    first = finish(first), second = finish(second);
    first += second, second += first;
    sums[0] += first;
    sums[1] += second;
}

/* --- The encoding of a row ----------------------------------------------------------------------------------------- */

struct encoding {
    uint8_t *data;
    size_t size, room;
    bool failed;
};

static uint8_t *extend(struct encoding *row, size_t size) {
    if (row->size + size > row->room) {
        size_t room = 2 * (row->size + size) + 256;
        uint8_t *data = realloc(row->data, room);
        if (!data) {
            row->failed = true;
            return NULL;
        }
        row->data = data;
        row->room = room;
    }
    row->size += size;
    return row->data + row->size - size;
}

static void add_32(struct encoding *row, uint32_t number) {
    uint8_t *to = extend(row, 4);
    if (to) put_32(to, number);
}

static void add_64(struct encoding *row, uint64_t number) {
    uint8_t *to = extend(row, 8);
    if (to) put_64(to, number);
}

static void add_field(struct encoding *row, const void *data, size_t size) {
    if (!data) {
        add_32(row, NULL_FIELD);
        return;
    }
    uint8_t *to = extend(row, size + 4);
    if (!to) return;
    put_32(to, (uint32_t)size);
    memcpy(to + 4, data, size);
}

static void add_bytes(struct encoding *row, const struct ArrowArray *array, bool is_large, int64_t i) {
    size_t size = 0;
    const void *data = array ? arrow_bytes(array, is_large, i, &size) : NULL;
    add_field(row, data, size);
}

static void add_int32(struct encoding *row, const struct ArrowArray *array, int64_t i) {
    if (!array || !arrow_is_valid(array, i)) {
        add_32(row, NULL_FIELD);
        return;
    }
    add_32(row, 4);
    add_32(row, ((const uint32_t *)array->buffers[1])[i + array->offset]);
}

static void add_int64(struct encoding *row, const struct ArrowArray *array, int64_t i) {
    if (!array || !arrow_is_valid(array, i)) {
        add_32(row, NULL_FIELD);
        return;
    }
    add_32(row, 8);
    add_64(row, ((const uint64_t *)array->buffers[1])[i + array->offset]);
}

static void add_headers(struct encoding *row, const struct ArrowArray *lists, int64_t i) {
    if (!lists || !arrow_is_valid(lists, i)) {
        add_32(row, 0);
        return;
    }
    const int32_t *offsets = lists->buffers[1];
    int64_t begin = offsets[i + lists->offset], end = offsets[i + lists->offset + 1];
    const struct ArrowArray *entries = lists->children[0];
    add_32(row, (uint32_t)(end - begin));
    for (int64_t at = begin + entries->offset; at < end + entries->offset; at++) {
        add_bytes(row, entries->children[0], false, at);
        add_bytes(row, entries->children[1], false, at);
    }
}

ZKAFKA_EXPORT bool zkafka_hash_rows(const char *topic, const struct ArrowArray *value, int32_t value_is_large, const struct ArrowArray *key,
                                    int32_t key_is_large, const struct ArrowArray *partitions, const struct ArrowArray *timestamps,
                                    const struct ArrowArray *headers, uint64_t *sums) {
    struct encoding row = {0};
    add_field(&row, topic, strlen(topic));
    size_t prefix = row.size;
    for (int64_t i = 0; i < value->length && !row.failed; i++) {
        row.size = prefix;
        add_bytes(&row, key, key_is_large, i);
        add_bytes(&row, value, value_is_large, i);
        add_int32(&row, partitions, i);
        add_int64(&row, timestamps, i);
        add_headers(&row, headers, i);
        if (!row.failed) add_hash(row.data, row.size, sums);
    }
    free(row.data);
    return !row.failed;
}
