/* Drives the encoder of record batches and the hashes at random, by a seed: drive_encoder <seed> <records> [crash]. To be built
 * with the sanitizers, which watch it; reads each batch again, and prints the numbers of records, batches, and grown batches. */
#include "any_arrays.h"

enum { HEADER_BYTES = 61, PARTITIONS = 3000 };

/* An open batch, in memory of just its capacity, and a hash of what was appended. */
struct open {
    struct zkafka_open_batch state;
    uint64_t hash;
};

static struct open batches[PARTITIONS];
static int64_t records, closed, grown;

/* --- Hashes of records, as they are put in and as they are read ------------------------------------------------------ */

static uint64_t mix_number(uint64_t hash, int64_t number) { return (hash ^ (uint64_t)number) * 1099511628211u; }

/* A size of -1 is null. */
static uint64_t mix(uint64_t hash, const void *data, int64_t size) {
    hash = mix_number(hash, size);
    for (int64_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
    return hash;
}

static uint64_t mix_row(uint64_t hash, const struct ArrowArray *array, bool is_large, int64_t row) {
    size_t size;
    const void *data = array ? arrow_bytes(array, is_large, row, &size) : NULL;
    return mix(hash, data, data ? (int64_t)size : -1);
}

static uint64_t mix_headers(uint64_t hash, const struct ArrowArray *headers, int64_t row) {
    if (!headers || !arrow_is_valid(headers, row)) return mix_number(hash, 0);
    const int32_t *offsets = headers->buffers[1];
    int32_t begin = offsets[row + headers->offset], end = offsets[row + headers->offset + 1];
    const struct ArrowArray *entries = headers->children[0];
    hash = mix_number(hash, end - begin);
    for (int64_t i = begin; i < end; i++) {
        size_t size;
        const void *key = arrow_bytes(entries->children[0], false, i + entries->offset, &size);
        hash = mix(hash, key, (int64_t)size);
        hash = mix_row(hash, entries->children[1], false, i + entries->offset);
    }
    return hash;
}

static int64_t read_varint(const uint8_t **at, const uint8_t *end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*at >= end) fail("a batch that ends in a number");
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    }
    fail("a number that is too long");
    return 0;
}

static uint64_t read_bytes(uint64_t hash, const uint8_t **at, const uint8_t *end) {
    int64_t size = read_varint(at, end);
    if (size > end - *at) fail("a field beyond its batch");
    hash = mix(hash, *at, size);
    if (size > 0) *at += size;
    return hash;
}

/* The hash of what came before, and of the records of a batch. */
static uint64_t hash_of(uint64_t hash, const struct zkafka_open_batch *batch) {
    const uint8_t *at = batch->data + HEADER_BYTES, *end = batch->data + batch->used;
    int64_t latest = INT64_MIN;
    for (int64_t n = 0; n < batch->records; n++) {
        int64_t size = read_varint(&at, end);
        const uint8_t *record_end = at + size;
        if (size < 1 || record_end > end || *at++ != 0) fail("a record beyond its batch");
        int64_t time = (int64_t)((uint64_t)batch->base_timestamp_ms + (uint64_t)read_varint(&at, end));
        if (time > latest) latest = time;
        hash = mix_number(hash, time);
        if (read_varint(&at, end) != n) fail("a record with a wrong number");
        hash = read_bytes(hash, &at, record_end);
        hash = read_bytes(hash, &at, record_end);
        int64_t count = read_varint(&at, record_end);
        hash = mix_number(hash, count);
        for (int64_t i = 0; i < 2 * count; i++) hash = read_bytes(hash, &at, record_end);
        if (at != record_end) fail("a record of another length");
    }
    if (at != end) fail("bytes after the last record");
    if (batch->records && latest != batch->max_timestamp_ms) fail("a wrong latest time");
    return hash;
}

/* --- Batches -------------------------------------------------------------------------------------------------------- */

/* Encodes the records of a batch again, in two batches, whose memory is larger than necessary by chance. */
static void split(const struct open *batch) {
    int64_t first = below((int)batch->state.records + 1), counts[] = {first, batch->state.records - first}, done = HEADER_BYTES;
    uint64_t hash = 0;
    for (int i = 0; i < 2; i++) {
        struct zkafka_open_batch part = {.capacity = batch->state.used - done + HEADER_BYTES + 10 * counts[i], .used = HEADER_BYTES};
        bool fits = !one_in(10);
        if (!fits) part.capacity = HEADER_BYTES + below(100);
        part.data = malloc((size_t)part.capacity);
        int64_t size = zkafka_encode_again(&part, batch->state.data + done, counts[i], batch->state.base_timestamp_ms);
        hash = hash_of(hash, &part);
        if (size < 0 && fits) fail("a record that does not fit");
        if (size < 0 && part.used + part.needed <= part.capacity) fail("a record that fits, and was not taken");
        free(part.data);
        if (size < 0) return;
        done += size;
    }
    if (done != batch->state.used || hash != batch->hash) fail("records other than those split");
}

static void close_batch(struct open *batch) {
    if (!batch->state.data) return;
    zkafka_close_batch(batch->state.data, batch->state.used, below(32), batch->state.records, batch->state.base_timestamp_ms,
                       batch->state.max_timestamp_ms, (int64_t)any(), below(1 << 15), (int32_t)any());
    look(batch->state.data, (size_t)batch->state.used);
    if (hash_of(0, &batch->state) != batch->hash) fail("records other than those appended");
    split(batch);
    free(batch->state.data);
    *batch = (struct open){0};
    closed++;
}

static void make_room(struct open *batch, int64_t capacity) {
    uint8_t *data = malloc((size_t)capacity);
    if (batch->state.data) memcpy(data, batch->state.data, (size_t)batch->state.used);
    free(batch->state.data);
    batch->state.data = data;
    batch->state.capacity = capacity;
}

/* Some other times: the first and last ones, and those before 1970. */
static void set_times(struct ArrowArray *times, int64_t slots) {
    static const int64_t edges[] = {INT64_MIN, INT64_MAX, INT64_MIN / 1000, -1, 0, 1};
    int64_t *values = (int64_t *)times->buffers[1];
    for (int64_t i = 0; i < slots; i++)
        if (one_in(3)) values[i] = edges[below(6)];
}

static void append(void) {
    struct ArrowArray value, key, times, headers;
    int64_t rows = one_in(20) ? 0 : one_in(10) ? 3000 : below(100), offset = below(20);
    int most_bytes = one_in(10) ? 1 : one_in(20) ? 100000 : 60;
    if (most_bytes == 100000 && rows > 50) rows = 50;
    bool is_large = below(2), key_is_large = below(2);
    bool with_key = !one_in(3), with_times = one_in(2), with_headers = one_in(2);
    any_strings_below(&value, rows, offset, is_large, one_in(2), most_bytes);
    if (with_key) any_strings(&key, rows, below(20), key_is_large, one_in(2));
    if (with_times) {
        int64_t before = below(20);
        any_times(&times, rows, before);
        set_times(&times, rows + before);
    }
    if (with_headers) any_headers(&headers, rows, below(20));
    int partitions = one_in(5) ? PARTITIONS : 1 + below(8);
    uint64_t sums[2] = {0};
    if (!zkafka_hash_rows("orders", &value, is_large, with_key ? &key : NULL, key_is_large, NULL, with_times ? &times : NULL,
                          with_headers ? &headers : NULL, sums) ||
        (rows && !sums[0]))
        fail("rows without a hash");
    uint32_t *hashes = malloc((size_t)rows * sizeof *hashes + !rows);
    if (with_key) zkafka_hash(below(4), &key, key_is_large, hashes);
    free(hashes);
    int64_t now_ms = one_in(10) ? INT64_MAX : (int64_t)any();
    for (int64_t from = 0; from < rows;) {
        struct open *batch = &batches[below(partitions)];
        if (batch->state.data && one_in(50)) close_batch(batch);
        if (!batch->state.data) {
            make_room(batch, HEADER_BYTES + below(200));
            batch->state.used = HEADER_BYTES;
        }
        /* Some of the rows, by numbers in memory of just their size. */
        int64_t count = 1 + below(partitions > 8 ? 2 : 40);
        if (count > rows - from) count = rows - from;
        int32_t *chosen = malloc((size_t)count * sizeof *chosen);
        for (int64_t i = 0; i < count; i++) chosen[i] = (int32_t)(from + i);
        if (one_in(10)) chosen[0] = below((int)rows);
        int64_t done = zkafka_encode(&batch->state, chosen, count, &value, is_large, with_key ? &key : NULL, key_is_large,
                                     with_times ? &times : NULL, with_headers ? &headers : NULL, now_ms);
        for (int64_t i = 0; i < done; i++) {
            int64_t row = chosen[i];
            int64_t time = with_times && arrow_is_valid(&times, row) ? ((const int64_t *)times.buffers[1])[row + times.offset] : now_ms;
            batch->hash = mix_number(batch->hash, time);
            batch->hash = mix_row(batch->hash, with_key ? &key : NULL, key_is_large, row);
            batch->hash = mix_row(batch->hash, &value, is_large, row);
            batch->hash = mix_headers(batch->hash, with_headers ? &headers : NULL, row);
        }
        free(chosen);
        records += done;
        from += done;
        if (done < count && (batch->state.needed <= 0 || batch->state.used + batch->state.needed <= batch->state.capacity))
            fail("a row that fits, and was not taken");
        if (done < count && (!batch->state.records || one_in(2))) {
            make_room(batch, batch->state.used + batch->state.needed + (one_in(3) ? below(1000) : 0) - one_in(4));
            grown++;
        } else if (done < count) {
            close_batch(batch);
        }
    }
    arrow_release(&value);
    if (with_key) arrow_release(&key);
    if (with_times) arrow_release(&times);
    if (with_headers) arrow_release(&headers);
}

int main(int count, char **arguments) {
    state = strtoull(arguments[1], NULL, 10);
    int64_t most = atoll(arguments[2]);
    while (records < most) append();
    for (int i = 0; i < PARTITIONS; i++) close_batch(&batches[i]);
    if (count > 3) {
        make_room(&batches[0], HEADER_BYTES - 1);
        zkafka_close_batch(batches[0].state.data, HEADER_BYTES, 0, 0, 0, 0, 0, 0, 0);
    }
    printf("%ld %ld %ld\n", (long)records, (long)closed, (long)grown);
    return 0;
}
