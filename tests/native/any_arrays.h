/* Random numbers and Arrow arrays, with buffers of just the size that they need; for programs built with the sanitizers. */
#include "zkafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static volatile uint64_t looked_at; /* so that no look at memory is left out */

static uint64_t any(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static int below(int limit) { return (int)(any() % (uint64_t)limit); }
static bool one_in(int n) { return below(n) == 0; }

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void look(const void *data, size_t size) {
    const uint8_t *bytes = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) sum += bytes[i];
    looked_at += sum;
}

static void release(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++) {
        arrow_release(array->children[i]);
        free(array->children[i]);
    }
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->children);
    free(array->buffers);
    array->release = NULL;
}

static void begin_array(struct ArrowArray *array, int64_t rows, int64_t offset, int64_t buffers, int64_t children) {
    *array = (struct ArrowArray){.length = rows, .offset = offset, .n_buffers = buffers, .n_children = children, .release = release};
    array->buffers = calloc((size_t)buffers, sizeof *array->buffers);
    array->children = calloc((size_t)children + 1, sizeof *array->children);
    for (int64_t i = 0; i < children; i++) array->children[i] = calloc(1, sizeof(struct ArrowArray));
}

/* Bits of just the size that they need, or none. */
static void *any_validity(int64_t slots, bool with_nulls) {
    if (!with_nulls) return NULL;
    uint8_t *bits = malloc((size_t)(slots + 7) / 8 + !slots);
    for (int64_t i = 0; i < (slots + 7) / 8; i++) bits[i] = (uint8_t)any();
    return bits;
}

static inline void any_strings_below(struct ArrowArray *array, int64_t rows, int64_t offset, bool is_large, bool with_nulls, int most_bytes) {
    int64_t slots = rows + offset, end = 0;
    begin_array(array, rows, offset, 3, 0);
    array->buffers[0] = any_validity(slots, with_nulls);
    void *offsets = malloc((size_t)(slots + 1) * (is_large ? 8 : 4));
    for (int64_t i = 0; i <= slots; i++) {
        if (is_large)
            ((int64_t *)offsets)[i] = end;
        else
            ((int32_t *)offsets)[i] = (int32_t)end;
        if (i < slots) end += below(most_bytes);
    }
    array->buffers[1] = offsets;
    if (!end) return;
    uint8_t *data = malloc((size_t)end);
    for (int64_t i = 0; i < end; i++) data[i] = (uint8_t)(i * 31 >> 3);
    array->buffers[2] = data;
}

static inline void any_strings(struct ArrowArray *array, int64_t rows, int64_t offset, bool is_large, bool with_nulls) {
    any_strings_below(array, rows, offset, is_large, with_nulls, 40);
}

static inline void any_times(struct ArrowArray *array, int64_t rows, int64_t offset) {
    begin_array(array, rows, offset, 2, 0);
    array->buffers[0] = any_validity(rows + offset, one_in(2));
    int64_t *times = malloc((size_t)(rows + offset) * sizeof *times + 1);
    for (int64_t i = 0; i < rows + offset; i++) times[i] = 1 + (int64_t)any();
    array->buffers[1] = times;
}

static inline void any_headers(struct ArrowArray *array, int64_t rows, int64_t offset) {
    int64_t before = below(5), end = before;
    begin_array(array, rows, offset, 2, 1);
    array->buffers[0] = any_validity(rows + offset, one_in(2));
    int32_t *offsets = malloc((size_t)(rows + offset + 1) * sizeof *offsets);
    for (int64_t i = 0; i <= rows + offset; i++) {
        offsets[i] = (int32_t)end;
        if (i < rows + offset) end += below(3);
    }
    array->buffers[1] = offsets;
    struct ArrowArray *entries = array->children[0];
    int64_t skipped = below(4), behind = below(4);
    begin_array(entries, end, skipped, 1, 2);
    any_strings(entries->children[0], end + skipped, behind, false, false);
    any_strings(entries->children[1], end + skipped, behind, false, true);
}
