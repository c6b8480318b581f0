/* Decodes responses that are damaged at random, by a seed: fuzz <corpus> <seed> <rounds> [crash]. To be built with the
 * sanitizers, which watch it; prints how many records were decoded. The corpus is a file of parts, each behind its length (32 bits,
 * little-endian): responses, and records that were decompressed. */
#include "crc32c.h"
#include "messages.h"
#include "zkafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 256, MAGIC = 16, CRC = 17, CRC_END = 21, LENGTH = 8, LENGTH_END = 12, HEADER_END = 61 };

struct part {
    uint8_t *data;
    int64_t size;
};

static struct part parts[MOST_PARTS];
static int part_count;
static uint64_t state;
static volatile uint64_t looked_at; /* so that no look at memory is left out */
static int64_t decoded, stops[DECODE_NO_MEMORY + 1];

static uint64_t any(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static int64_t below(int64_t limit) { return (int64_t)(any() % (uint64_t)limit); }
static bool one_in(int n) { return below(n) == 0; }

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* --- Damage -------------------------------------------------------------------------------------------------------- */

static const uint8_t edges[] = {0, 1, 2, 0x3f, 0x40, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff};

static uint32_t number(const uint8_t *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

static void put_number(uint8_t *data, uint32_t value) {
    for (int i = 0; i < 4; i++) data[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* A copy in memory of just its size, so that a step beyond it is seen. */
static struct part copy(const uint8_t *data, int64_t size) {
    struct part made = {malloc(size ? (size_t)size : 1), size};
    if (size) memcpy(made.data, data, (size_t)size);
    return made;
}

static void change_byte(struct part *part) {
    uint8_t *byte = part->data + below(part->size);
    if (one_in(2))
        *byte = edges[below(sizeof edges)];
    else
        *byte ^= (uint8_t)(1u << below(8));
}

static void change_number(struct part *part) {
    static const uint32_t limits[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x100, 0x10000};
    if (part->size < 4) return;
    put_number(part->data + below(part->size - 3), limits[below(8)] + (uint32_t)below(3));
}

/* Bytes moved, repeated or left out. */
static void change_length(struct part *part) {
    int64_t from = below(part->size), size = below(part->size - from) % 64, to = below(part->size);
    struct part made = {malloc((size_t)(part->size + size)), part->size + size};
    memcpy(made.data, part->data, (size_t)to);
    memcpy(made.data + to, part->data + from, (size_t)size);
    memcpy(made.data + to + size, part->data + to, (size_t)(part->size - to));
    free(part->data);
    *part = made;
    if (one_in(2)) {
        struct part shorter = copy(part->data + size, part->size - size);
        free(part->data);
        *part = shorter;
    }
}

static void damage(struct part *part) {
    for (int64_t i = below(6); i > 0 && part->size; i--) {
        int64_t kind = below(10);
        if (kind < 6)
            change_byte(part);
        else if (kind < 9)
            change_number(part);
        else
            change_length(part);
    }
    if (one_in(8) && part->size) {
        struct part shorter = copy(part->data, below(part->size));
        free(part->data);
        *part = shorter;
    }
}

/* Gives a batch, or a message, the checksum that it ought to have, and a batch its format. */
static void mend_batch(uint8_t *data, int64_t size) {
    if (data[MAGIC] < 2) {
        put_number(data + LENGTH_END, crc32(data + MAGIC, (size_t)(size - MAGIC)));
    } else {
        put_number(data + CRC, crc32c_by_table(data + CRC_END, (size_t)(size - CRC_END)));
        if (!one_in(20)) data[MAGIC] = 2;
    }
}

/* Gives the batches the checksums, and often the lengths, that they ought to have. */
static void mend(struct part *part) {
    for (int64_t at = 0; part->size - at > MAGIC;) {
        int64_t left = part->size - at, least = part->data[at + MAGIC] < 2 ? MESSAGE_LEAST_BYTES : HEADER_END;
        int64_t size = (int64_t)(int32_t)number(part->data + at + LENGTH) + LENGTH_END;
        if ((size < least || size > left) && one_in(2)) {
            size = left;
            put_number(part->data + at + LENGTH, (uint32_t)(size - LENGTH_END));
        }
        if (size < least || size > left) return;
        if (!one_in(10)) mend_batch(part->data + at, size);
        at += size;
    }
}

/* Two responses, one behind the other, or a batch around any bytes. */
static struct part make(void) {
    const struct part *first = &parts[below(part_count)], *second = &parts[below(part_count)];
    struct part made = {calloc(1, (size_t)(first->size + second->size + HEADER_END)), 0};
    if (one_in(8)) {
        memcpy(made.data, first->data, first->size < HEADER_END ? (size_t)first->size : HEADER_END);
        made.size = HEADER_END;
    } else {
        memcpy(made.data, first->data, (size_t)first->size);
        made.size = first->size;
    }
    memcpy(made.data + made.size, second->data, (size_t)second->size);
    made.size += second->size;
    struct part right = copy(made.data, made.size);
    free(made.data);
    damage(&right);
    mend(&right);
    return right;
}

static struct part make_decompressed(void) {
    const struct part *any_part = &parts[below(part_count)];
    int64_t from = one_in(2) && any_part->size > HEADER_END ? HEADER_END : 0;
    struct part made = copy(any_part->data + from, any_part->size - from);
    if (!one_in(4)) damage(&made);
    if (one_in(2)) mend(&made);
    return made;
}

/* --- Looking at every byte of a batch ------------------------------------------------------------------------------ */

static void look(const void *data, int64_t size) {
    const uint8_t *bytes = data;
    uint64_t sum = 0;
    for (int64_t i = 0; i < size; i++) sum += bytes[i];
    looked_at += sum;
}

static int64_t look_at_offsets(const struct ArrowArray *array) {
    const int32_t *offsets = array->buffers[1];
    if (offsets[0] != 0) fail("offsets that do not begin at 0");
    for (int64_t i = 0; i < array->length; i++)
        if (offsets[i] > offsets[i + 1]) fail("offsets that fall");
    return offsets[array->length];
}

static void look_at_validity(const struct ArrowArray *array) {
    int64_t nulls = 0;
    for (int64_t i = 0; i < array->length; i++) nulls += !arrow_is_valid(array, i);
    if (nulls != array->null_count) fail("a wrong count of nulls");
}

static void look_at_strings(const struct ArrowArray *array) {
    look_at_validity(array);
    look(array->buffers[2], look_at_offsets(array));
}

static void look_at_column(const struct ArrowArray *array, int32_t kind) {
    static const int64_t sizes[COLUMNS] = {[COLUMN_PARTITION] = 4, [COLUMN_OFFSET] = 8, [COLUMN_TIMESTAMP] = 8, [COLUMN_TIMESTAMP_TYPE] = 4};
    if (sizes[kind]) {
        look(array->buffers[1], sizes[kind] * array->length);
    } else if (kind == COLUMN_HEADERS) {
        look_at_validity(array);
        if (look_at_offsets(array) != array->children[0]->length) fail("lists that do not end with their entries");
        for (int i = 0; i < 2; i++) look_at_strings(array->children[0]->children[i]);
    } else {
        look_at_strings(array);
    }
}

/* --- Decoding ------------------------------------------------------------------------------------------------------ */

static int32_t kinds[COLUMNS], texts[COLUMNS], column_count;

static void choose_columns(zkafka_decoder *decoder) {
    column_count = one_in(2) ? COLUMNS : (int32_t)below(COLUMNS + 1);
    int32_t first = (int32_t)below(COLUMNS);
    for (int32_t i = 0; i < COLUMNS; i++) {
        kinds[i] = (first + i) % COLUMNS;
        texts[i] = one_in(2);
    }
    if (!zkafka_decoder_project(decoder, kinds, texts, column_count)) fail("no projection");
}

static void take(zkafka_decoder *decoder, int64_t rows) {
    struct ArrowArray batch;
    struct zkafka_flaws flaws;
    if (!zkafka_decoder_take(decoder, &batch, &flaws)) fail("no batch");
    if (batch.length != rows || batch.n_children != column_count) fail("a batch of another shape");
    for (int32_t i = 0; i < column_count; i++) look_at_column(batch.children[i], kinds[i]);
    arrow_release(&batch);
}

static void feed(zkafka_decoder *decoder, const struct part *fed) {
    int64_t producers[8], first_offsets[8], count = one_in(2) ? 0 : below(9);
    for (int64_t i = 0; i < count; i++) {
        producers[i] = below(one_in(2) ? 4 : 10000);
        first_offsets[i] = below(40) + (i ? first_offsets[i - 1] : 0);
    }
    struct zkafka_fed found;
    if (!zkafka_decoder_feed(decoder, fed->data, fed->size, producers, first_offsets, count, &found)) fail("no memory");
    if (found.size < 0 || found.size > fed->size) fail("a wrong size of the batches");
}

/* Polls of one response; the number of rows gathered. */
static int64_t decode(zkafka_decoder *decoder, const struct part *fed) {
    struct part more = {NULL, 0};
    int64_t rows = 0;
    for (int i = 0; i < 40; i++) {
        int64_t until = one_in(3) ? below(200) : INT64_MAX;
        struct zkafka_decoded found = {.first = -1};
        int32_t status = zkafka_decoder_decode(decoder, fed->data, fed->size, more.data, more.size, 1 + below(100), 1 + below(5000), until,
                                               &found);
        rows += found.records;
        stops[status]++;
        if (found.records && (found.first < 0 || found.first >= until)) fail("a first offset outside of the range");
        if (status == DECODE_COMPRESSED) {
            if (found.begin < 0 || found.begin > found.end || found.end > fed->size) fail("compressed bytes outside of the response");
            look(fed->data + found.begin, found.end - found.begin);
            free(more.data);
            more = make_decompressed();
        } else if (status != DECODE_STOPPED && !one_in(4)) {
            break;
        }
    }
    free(more.data);
    return rows;
}

static void run(int64_t rounds) {
    while (rounds > 0) {
        zkafka_decoder *decoder = zkafka_decoder_new("orders", 3);
        choose_columns(decoder);
        int64_t rows = 0;
        for (int64_t responses = below(20); responses >= 0 && rounds > 0; responses--, rounds--) {
            struct part fed = make();
            if (!one_in(4)) zkafka_decoder_seek(decoder, below(one_in(2) ? 50 : one_in(4) ? INT32_MAX : 1));
            feed(decoder, &fed);
            int64_t more = decode(decoder, &fed);
            rows += more;
            decoded += more;
            free(fed.data);
            if (one_in(3)) {
                take(decoder, rows);
                rows = 0;
            }
        }
        zkafka_decoder_close(decoder);
    }
}

static void read_corpus(const char *path) {
    FILE *file = fopen(path, "rb");
    uint32_t size;
    if (!file) fail("no corpus");
    while (part_count < MOST_PARTS && fread(&size, sizeof size, 1, file) == 1) {
        struct part *part = &parts[part_count++];
        *part = (struct part){malloc(size + 1), size};
        if (fread(part->data, 1, size, file) != size) fail("a corpus that is cut off");
    }
    fclose(file);
}

int main(int count, char **arguments) {
    read_corpus(arguments[1]);
    state = strtoull(arguments[2], NULL, 10);
    run(strtoll(arguments[3], NULL, 10));
    if (count > 4) look(parts[0].data, parts[0].size + 2); /* a step beyond: the sanitizer must say so */
    for (int i = 0; i < part_count; i++) free(parts[i].data);
    printf("%ld", (long)decoded);
    for (int i = DECODE_STOPPED; i < DECODE_NO_MEMORY; i++) printf(" %ld", (long)stops[i]);
    printf("\n");
    return 0;
}
