/* The structs of the Arrow C data interface, as its specification fixes them. */
#ifndef ZKAFKA_ARROW_ABI_H
#define ZKAFKA_ARROW_ABI_H

#include <stdbool.h>
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

/* True if row `i` is not null; rows are counted from the start of the slice. */
static inline bool arrow_is_valid(const struct ArrowArray *array, int64_t i) {
    const uint8_t *bits = array->buffers[0];
    int64_t at = i + array->offset;
    return bits == 0 || (bits[at >> 3] >> (at & 7) & 1);
}

static inline void arrow_release(struct ArrowArray *array) {
    if (array->release) array->release(array);
}

#endif
