/* The Arrow C data interface, as in its specification. */
#ifndef ZKAFKA_ARROW_ABI_H
#define ZKAFKA_ARROW_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* True if row `i` of the slice is not null. */
static inline bool arrow_is_valid(const struct ArrowArray *array, int64_t i) {
    const uint8_t *bits = array->buffers[0];
    int64_t at = i + array->offset;
    return bits == 0 || (bits[at >> 3] >> (at & 7) & 1);
}

/* Row `i` of a binary array, with 64-bit offsets if it is large. Null for a null row, or without an array. */
static inline const void *arrow_bytes(const struct ArrowArray *array, bool is_large, int64_t i, size_t *size) {
    *size = 0;
    if (!array->release || !arrow_is_valid(array, i)) return 0;
    int64_t at = i + array->offset, begin, end;
    if (is_large) {
        const int64_t *offsets = array->buffers[1];
        begin = offsets[at], end = offsets[at + 1];
    } else {
        const int32_t *offsets = array->buffers[1];
        begin = offsets[at], end = offsets[at + 1];
    }
    *size = (size_t)(end - begin);
    /* An empty value is not null, even without a buffer. */
    return array->buffers[2] ? (const char *)array->buffers[2] + begin : "";
}

static inline void arrow_release(struct ArrowArray *array) {
    if (array->release) array->release(array);
}

#endif
