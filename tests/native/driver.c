/* Drives the encoder and the hashes at random, by a seed: driver <seed> <rows> [leak]. To be built with the sanitizers, which
 * watch it; prints how many rows were encoded. */
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

enum { HEADER_BYTES = 61 };

/* --- Arrays -------------------------------------------------------------------------------------------------------- */

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

static void any_strings(struct ArrowArray *array, int64_t rows, int64_t offset, bool is_large, bool with_nulls) {
    int64_t slots = rows + offset, end = 0;
    begin_array(array, rows, offset, 3, 0);
    array->buffers[0] = any_validity(slots, with_nulls);
    void *offsets = malloc((size_t)(slots + 1) * (is_large ? 8 : 4));
    for (int64_t i = 0; i <= slots; i++) {
        if (is_large)
            ((int64_t *)offsets)[i] = end;
        else
            ((int32_t *)offsets)[i] = (int32_t)end;
        if (i < slots) end += below(40);
    }
    array->buffers[1] = offsets;
    if (end) array->buffers[2] = memset(malloc((size_t)end), 'x', (size_t)end);
}

static void any_times(struct ArrowArray *array, int64_t rows, int64_t offset) {
    begin_array(array, rows, offset, 2, 0);
    array->buffers[0] = any_validity(rows + offset, one_in(2));
    int64_t *times = malloc((size_t)(rows + offset) * sizeof *times + 1);
    for (int64_t i = 0; i < rows + offset; i++) times[i] = 1 + (int64_t)any();
    array->buffers[1] = times;
}

static void any_headers(struct ArrowArray *array, int64_t rows, int64_t offset) {
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

/* --- Rows ---------------------------------------------------------------------------------------------------------- */

struct rows {
    struct ArrowArray value, key, times, headers;
    bool is_large, key_is_large, with_key, with_times, with_headers;
};

static void hash(const struct rows *rows) {
    int64_t count = rows->value.length;
    if (rows->with_key) {
        uint32_t *hashes = malloc((size_t)count * sizeof *hashes + 1);
        zkafka_hash(below(4), &rows->key, rows->key_is_large, hashes);
        free(hashes);
    }
    uint64_t sums[2] = {0};
    bool is_hashed = zkafka_hash_rows("orders", &rows->value, rows->is_large, rows->with_key ? &rows->key : NULL, rows->key_is_large, NULL,
                                      rows->with_times ? &rows->times : NULL, rows->with_headers ? &rows->headers : NULL, sums);
    if (!is_hashed || (count && !sums[0])) fail("rows without a hash");
}

/* Closes a batch as the caller would, in memory of just its size. */
static void close_batch(const struct zkafka_open_batch *batch) {
    uint8_t *data = malloc((size_t)batch->used);
    memcpy(data + HEADER_BYTES, batch->data + HEADER_BYTES, (size_t)(batch->used - HEADER_BYTES));
    zkafka_close_batch(data, batch->used, 0, batch->records, batch->base_timestamp_ms, batch->max_timestamp_ms, 1, 0, below(1000));
    look(data, (size_t)batch->used);
    free(data);
}

/* Encodes rows in any order into batches of any size. A row that does not fit into an empty batch gets one of its size. */
static void encode(const struct rows *rows) {
    int64_t count = rows->value.length, done = 0, largest = 0;
    int32_t *order = malloc((size_t)count * sizeof *order + 1);
    for (int64_t i = 0; i < count; i++) order[i] = below((int)count);
    while (done < count) {
        int64_t capacity = largest ? largest : HEADER_BYTES + below(one_in(2) ? 200 : 20000);
        struct zkafka_open_batch batch = {.data = malloc((size_t)capacity), .capacity = capacity, .used = HEADER_BYTES};
        int64_t taken = zkafka_encode(&batch, order + done, count - done, &rows->value, rows->is_large, rows->with_key ? &rows->key : NULL,
                                      rows->key_is_large, rows->with_times ? &rows->times : NULL,
                                      rows->with_headers ? &rows->headers : NULL, 1 + (int64_t)any());
        done += taken;
        if (taken != batch.records || batch.used > batch.capacity) fail("a batch that does not add up");
        if ((done < count) != (batch.needed > 0)) fail("rows left without a reason");
        if (largest && !taken) fail("a row that does not fit where it should");
        largest = taken ? 0 : HEADER_BYTES + batch.needed;
        if (taken) close_batch(&batch);
        free(batch.data);
    }
    free(order);
}

static void write_rows(int64_t count) {
    struct rows rows = {.is_large = one_in(2), .key_is_large = one_in(2)};
    rows.with_key = !one_in(3), rows.with_times = one_in(3), rows.with_headers = one_in(3);
    any_strings(&rows.value, count, below(20), rows.is_large, one_in(2));
    if (rows.with_key) any_strings(&rows.key, count, below(20), rows.key_is_large, one_in(2));
    if (rows.with_times) any_times(&rows.times, count, below(20));
    if (rows.with_headers) any_headers(&rows.headers, count, below(20));
    hash(&rows);
    encode(&rows);
    arrow_release(&rows.value);
    arrow_release(&rows.key);
    arrow_release(&rows.times);
    arrow_release(&rows.headers);
}

/* Loses some memory: the sanitizer must say so. */
static void leak(void) {
    uint8_t *volatile lost = malloc(10);
    lost[0] = 1;
    lost = NULL;
}

int main(int count, char **arguments) {
    state = strtoull(arguments[1], NULL, 10);
    int64_t rows = atoi(arguments[2]), written = 0;
    while (written < rows) {
        int64_t some = one_in(10) ? 1 + below(6000) : below(300);
        write_rows(some);
        written += some;
    }
    if (count > 3) leak();
    printf("%ld written\n", (long)written);
    return 0;
}
