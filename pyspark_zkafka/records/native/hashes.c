/* The hashes of keys that Kafka's clients route by. */
#include "crc32c.h"
#include "zkafka.h"

#include <string.h>

static uint32_t word_at(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* org.apache.kafka.common.utils.Utils.murmur2 of kafka-clients 3.9.1 */
static uint32_t murmur2(const uint8_t *key, size_t size) {
    const uint32_t m = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ (uint32_t)size;
    size_t left = size;
    for (; left >= 4; key += 4, left -= 4) {
        uint32_t word = word_at(key) * m;
        hash = hash * m ^ (word ^ word >> 24) * m;
    }
    if (left) {
        for (size_t i = 0; i < left; i++) hash ^= (uint32_t)key[i] << 8 * i;
        hash *= m;
    }
    hash = (hash ^ hash >> 13) * m;
    return hash ^ hash >> 15;
}

static uint32_t rotate(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

/* MurmurHash3_x86_32, seed 0 */
static uint32_t murmur3(const uint8_t *key, size_t size) {
    uint32_t hash = 0, tail = 0;
    size_t left = size;
    for (; left >= 4; key += 4, left -= 4) hash = rotate(hash ^ rotate(word_at(key) * 0xcc9e2d51, 15) * 0x1b873593, 13) * 5 + 0xe6546b64;
    for (size_t i = 0; i < left; i++) tail |= (uint32_t)key[i] << 8 * i;
    if (left) hash ^= rotate(tail * 0xcc9e2d51, 15) * 0x1b873593;
    hash ^= (uint32_t)size;
    hash = (hash ^ hash >> 16) * 0x85ebca6b;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35;
    return hash ^ hash >> 16;
}

/* 32 bits; rd_fnv1a of librdkafka before it takes the absolute value */
static uint32_t fnv1a(const uint8_t *key, size_t size) {
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < size; i++) hash = (hash ^ key[i]) * 0x01000193;
    return hash;
}

static uint32_t (*const functions[])(const uint8_t *, size_t) = {murmur2, murmur3, crc32, fnv1a};

ZKAFKA_EXPORT bool zkafka_hash(int32_t kind, const struct ArrowArray *keys, int32_t is_large, uint32_t *hashes) {
    if (kind < 0 || kind > HASH_FNV1A) return false;
    const int32_t *narrow = keys->buffers[1];
    const int64_t *wide = keys->buffers[1];
    const uint8_t *data = keys->buffers[2];
    for (int64_t row = 0; row < keys->length; row++) {
        int64_t at = row + keys->offset;
        int64_t begin = is_large ? wide[at] : narrow[at], end = is_large ? wide[at + 1] : narrow[at + 1];
        hashes[row] = arrow_is_valid(keys, row) ? functions[kind](data + begin, (size_t)(end - begin)) : 0;
    }
    return true;
}

int zkafka_interface(void) { return ZKAFKA_INTERFACE; }
