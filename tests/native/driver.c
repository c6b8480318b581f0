/* Drives the C code with the fake librdkafka at random, by a seed: driver <seed> <messages> [leak]. To be built with the
 * sanitizers, which watch it; prints how many messages were written. */
#include "zkafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t fake_live(void);
void fake_refuse_above(int bytes);

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

/* --- Writing ------------------------------------------------------------------------------------------------------- */

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

static void add_rows(zkafka_producer *producer, int64_t rows, bool is_good) {
    struct ArrowArray value = {0}, key = {0}, times = {0}, headers = {0};
    int partition_count = 5, is_large = below(2), key_is_large = below(2);
    bool with_key = !one_in(3), with_times = one_in(3), with_headers = one_in(3);
    int32_t *partitions = malloc((size_t)rows * sizeof *partitions + 1);
    for (int64_t i = 0; i < rows; i++) partitions[i] = below(partition_count);
    if (!is_good) partitions[below((int)rows)] = one_in(2) ? -1 : partition_count;
    any_strings(&value, rows, below(20), is_large, one_in(2));
    if (with_key) any_strings(&key, rows, below(20), key_is_large, one_in(2));
    if (with_times) any_times(&times, rows, below(20));
    if (with_headers) any_headers(&headers, rows, below(20));
    if (with_key) {
        uint32_t *hashes = malloc((size_t)rows * sizeof *hashes + 1);
        zkafka_hash(below(4), &key, key_is_large, hashes);
        free(hashes);
    }
    uint64_t sums[2] = {0};
    bool is_hashed = zkafka_hash_rows("orders", &value, is_large, with_key ? &key : NULL, key_is_large, NULL, with_times ? &times : NULL,
                                      with_headers ? &headers : NULL, sums);
    if (!is_hashed || (rows && !sums[0])) fail("rows without a hash");
    bool added = zkafka_producer_add(producer, one_in(2) ? "orders" : "others", partitions, partition_count, &value, is_large,
                                     with_key ? &key : NULL, key_is_large, with_times ? &times : NULL, with_headers ? &headers : NULL);
    if (added != is_good) fail("rows taken or refused wrongly");
    if (value.release || key.release || times.release || headers.release) fail("arrays that were not taken over");
    free(partitions);
}

static int64_t batch_bytes;

static void look_at_counts(zkafka_producer *producer) {
    struct zkafka_counts counts;
    int64_t by_partition[5] = {0}, sum = 0;
    zkafka_producer_counts(producer, &counts);
    const char *names[] = {"orders", "others", "never"};
    for (int name = 0; name < 3; name++) {
        int32_t count = zkafka_producer_acknowledged(producer, names[name], by_partition, 5);
        for (int32_t i = 0; i < count; i++) sum += by_partition[i];
    }
    if (sum != counts.acknowledged) fail("partitions that do not add up");
    /* Of ten partitions, one at least has a full batch. */
    if (counts.queued_bytes >= 10 * batch_bytes && counts.moving_partitions == 0) fail("full batches that do not move");
    if (counts.moving_partitions < 0 || (counts.queued_bytes == 0 && counts.moving_partitions)) fail("what moves without being there");
    if (counts.handed_over - counts.acknowledged - counts.failed != zkafka_producer_queued(producer)) fail("records unaccounted for");
}

static int64_t begun;

/* Lets the producer count anew, once nothing is queued; false: not yet. */
static bool begin_anew(zkafka_producer *producer) {
    struct zkafka_counts counts;
    zkafka_producer_counts(producer, &counts);
    if (counts.failed || !zkafka_producer_send(producer, 1)) return false;
    zkafka_producer_flush(producer, 1);
    zkafka_producer_counts(producer, &counts);
    if (counts.failed || zkafka_producer_queued(producer)) return false;
    zkafka_producer_begin(producer);
    zkafka_producer_counts(producer, &counts);
    if (counts.handed_over || counts.acknowledged) fail("counts that went on");
    look_at_counts(producer);
    return true;
}

/* Takes some step of a transaction, which may fail. */
static void transact(zkafka_producer *producer) {
    struct zkafka_error error = {0};
    bool done = true;
    char metadata[300] = "";
    switch (below(5)) {
    case 0:
        done = zkafka_transaction_init(producer, 1, &error);
        break;
    case 1:
        done = zkafka_transaction_begin(producer, &error);
        break;
    case 2:
        memset(metadata, 'm', (size_t)below((int)sizeof metadata));
        done = zkafka_transaction_commit_offset(producer, "group", "orders", 3, below(1000), metadata, 1, &error);
        break;
    case 3:
        done = zkafka_transaction_commit(producer, 1, &error);
        break;
    default:
        done = zkafka_transaction_abort(producer, 1, &error);
    }
    if (done != (error.code == 0)) fail("an error that is not one, or none that is");
    look(error.text, strlen(error.text));
}

static int64_t write_some(int64_t most) {
    const char *settings[] = {"good", "1", NULL};
    char why[512];
    int code;
    batch_bytes = 1 + below(20000);
    zkafka_producer *producer = zkafka_producer_new(settings, 1 + below(5000), 1 + below(200000), batch_bytes, &code, why, sizeof why);
    struct zkafka_counts counts = {0};
    struct zkafka_failure failure = {0};
    int64_t added = 0, before = 0;
    bool refusing = one_in(4);
    fake_refuse_above(refusing ? 38 : 1 << 30);
    while (counts.handed_over < most && !failure.code) {
        int rows = one_in(10) ? 1 + below(6000) : below(300);
        add_rows(producer, rows, true);
        added += rows;
        if (one_in(20)) add_rows(producer, 1 + below(50), false);
        for (int tries = below(4); tries > 0 && !zkafka_producer_send(producer, below(2)); tries--) zkafka_producer_poll(producer, 0);
        if (one_in(20)) zkafka_producer_purge(producer, one_in(2));
        if (one_in(10)) zkafka_producer_flush(producer, 1);
        if (one_in(20)) transact(producer);
        look_at_counts(producer);
        zkafka_producer_failure(producer, &failure);
        zkafka_producer_counts(producer, &counts);
        if (one_in(10) && !failure.code && begin_anew(producer)) {
            before += added;
            added = counts.handed_over = 0;
            begun++;
        }
        if (before > most) break;
    }
    while (one_in(2) && !refusing && !failure.code && !zkafka_producer_send(producer, 1)) zkafka_producer_failure(producer, &failure);
    if (!refusing && !failure.code && zkafka_producer_send(producer, 1)) {
        zkafka_producer_counts(producer, &counts);
        if (counts.handed_over != added) fail("rows that were never sent");
    }
    int32_t leaders[1];
    if (zkafka_producer_leaders(producer, "orders", 1, leaders, 1, &code) != 2 || leaders[0] != -1) fail("wrong leaders");
    zkafka_producer_close(producer); /* some of it is still queued */
    return before + counts.handed_over;
}

static int64_t write_all(int64_t messages) {
    int64_t written = 0;
    while (written < messages) written += write_some(below(20000)) + 1;
    if (messages > 100000 && begun == 0) fail("no producer was used again");
    return written;
}

static void refuse_settings(void) {
    const char *settings[] = {"bad", "1", NULL};
    char why[20];
    int code = 0;
    if (zkafka_producer_new(settings, 1, 1, 1, &code, why, sizeof why) || code != -186) fail("bad settings taken");
}

/* Loses some memory: the sanitizer must say so. */
static void leak(void) {
    uint8_t *volatile lost = malloc(10);
    lost[0] = 1;
    lost = NULL;
}

int main(int count, char **arguments) {
    char why[512] = "";
    state = strtoull(arguments[1], NULL, 10);
    int messages = atoi(arguments[2]);
    if (!zkafka_bind(NULL, why, sizeof why)) fail(why);
    refuse_settings();
    int64_t written = write_all(messages);
    if (fake_live() != 0) fail("something was not given back to librdkafka");
    if (count > 3) leak();
    printf("%ld written\n", (long)written);
    return 0;
}
