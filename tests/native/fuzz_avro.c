/* Decodes Avro payloads that are damaged at random, by a seed, and encodes the rows: fuzz_avro <corpus> <seed> <rounds> [crash]. To
 * be built with the sanitizers, which watch it; reads every value of the columns, compares the rows of undamaged payloads with those
 * decoded without damaged ones, and encoded rows with their payloads; prints the numbers of decoded payloads and of each flaw.
 * The corpus has programs and payloads, in blocks behind their sizes (32 bits, little-endian): nodes, links, columns and constants
 * of the decoder, steps, links, columns and constants of the encoder, whether it makes the same payloads, their number, payloads. */
#include "any_arrays.h"

enum { MOST_PROGRAMS = 64, MOST_PAYLOADS = 64 };

struct block {
    uint8_t *data;
    int64_t size;
};

struct corpus {
    struct zkafka_avro_program program;
    struct zkafka_avro_encoding encoding;
    bool is_same; /* encoded rows are the payloads that were decoded */
    struct block payloads[MOST_PAYLOADS];
    int payload_count;
};

static struct corpus programs[MOST_PROGRAMS];
static int program_count;
static int64_t decoded, flaws[AVRO_NO_DIGITS + 1];

/* A copy in memory of just its size, so that a step beyond it is seen. */
static struct block copy(const uint8_t *data, int64_t size) {
    struct block made = {malloc(size ? (size_t)size : 1), size};
    if (size) memcpy(made.data, data, (size_t)size);
    return made;
}

static struct block next_block(FILE *file) {
    uint32_t size;
    if (fread(&size, sizeof size, 1, file) != 1) return (struct block){0};
    struct block found = {malloc(size ? size : 1), size};
    if (fread(found.data, 1, size, file) != size) fail("a corpus that is cut");
    return found;
}

static void read_corpus(const char *name) {
    FILE *file = fopen(name, "rb");
    struct block nodes;
    while ((nodes = next_block(file)).data) {
        struct corpus *made = &programs[program_count++];
        made->program.nodes = (const void *)nodes.data;
        made->program.links = (const void *)next_block(file).data;
        struct block columns = next_block(file);
        made->program.columns = (const void *)columns.data;
        made->program.column_count = (int32_t)(columns.size / 12);
        made->program.constants = next_block(file).data;
        made->encoding.steps = (const void *)next_block(file).data;
        made->encoding.links = (const void *)next_block(file).data;
        columns = next_block(file);
        made->encoding.columns = (const void *)columns.data;
        made->encoding.column_count = (int32_t)(columns.size / 12);
        made->encoding.constants = next_block(file).data;
        struct block is_same = next_block(file), count = next_block(file);
        made->is_same = is_same.data[0];
        free(is_same.data);
        made->payload_count = count.data[0];
        free(count.data);
        for (int i = 0; i < made->payload_count; i++) made->payloads[i] = next_block(file);
    }
    fclose(file);
}

static void damage(struct block *payload, const struct block *other) {
    static const uint8_t edges[] = {0, 1, 2, 3, 0x7e, 0x7f, 0x80, 0xfe, 0xff};
    int64_t size = payload->size;
    if (one_in(8)) { /* cut, or continued with another */
        int64_t kept = below((int)size + 1), more = one_in(2) ? other->size - below((int)other->size + 1) : 0;
        struct block made = {malloc((size_t)(kept + more) + 1), kept + more};
        memcpy(made.data, payload->data, (size_t)kept);
        memcpy(made.data + kept, other->data + other->size - more, (size_t)more);
        free(payload->data);
        *payload = copy(made.data, made.size);
        free(made.data);
    } else if (one_in(8)) { /* a long number in the midst, or many equal bytes */
        int64_t at = below((int)size + 1);
        bool repeated = one_in(8);
        int length = repeated ? 600 : 1 + below(11);
        struct block made = {malloc((size_t)(size + length)), size + length};
        memcpy(made.data, payload->data, (size_t)at);
        if (repeated) memset(made.data + at, edges[below(4)], (size_t)length);
        for (int i = 0; !repeated && i < length; i++) made.data[at + i] = (uint8_t)(0xff - (one_in(3) ? below(128) : 0));
        if (!repeated) made.data[at + length - 1] = edges[below(6)];
        memcpy(made.data + at + length, payload->data + at, (size_t)(size - at));
        free(payload->data);
        *payload = copy(made.data, made.size);
        free(made.data);
    } else if (size) {
        uint8_t *byte = payload->data + below((int)size);
        *byte = one_in(2) ? edges[below(sizeof edges)] : (uint8_t)(*byte ^ 1u << below(8));
    }
}

static const int8_t widths[] = {0, 0, 4, 8, 4, 8, 16};

/* Reads every value, and checks that the columns fit each other. */
static void walk(const struct zkafka_avro_program *program, int32_t column, const struct ArrowArray *array) {
    const int32_t *described = program->columns + 3 * column;
    int64_t rows = array->length;
    if (array->n_buffers && array->buffers[0]) look(array->buffers[0], (size_t)(rows + 7) / 8);
    if (described[0] == AVRO_COLUMN_BOOLEAN) look(array->buffers[1], (size_t)(rows + 7) / 8);
    if (described[0] <= AVRO_COLUMN_DECIMAL && widths[described[0]]) look(array->buffers[1], (size_t)(rows * widths[described[0]]));
    if (described[0] >= AVRO_COLUMN_STRING && described[0] <= AVRO_COLUMN_LIST) {
        const int32_t *offsets = array->buffers[1];
        if (offsets[0]) fail("a first offset other than 0");
        for (int64_t i = 0; i < rows; i++)
            if (offsets[i + 1] < offsets[i]) fail("offsets that descend");
        if (described[0] != AVRO_COLUMN_LIST) look(array->buffers[2], (size_t)offsets[rows]);
        else if (array->children[0]->length != offsets[rows]) fail("a list of another length than its items");
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        if (described[0] == AVRO_COLUMN_STRUCT && array->children[i]->length != rows) fail("a struct of other lengths");
        walk(program, described[1] + (int32_t)i, array->children[i]);
    }
}

static bool bit(const void *bits, int64_t i) { return ((const uint8_t *)bits)[i >> 3] >> (i & 7) & 1; }

/* Fails unless two rows of a column are equal. */
static void compare(const struct zkafka_avro_program *program, int32_t column, const struct ArrowArray *array, int64_t row,
                    const struct ArrowArray *other, int64_t other_row) {
    const int32_t *described = program->columns + 3 * column;
    int32_t kind = described[0];
    if (kind == AVRO_COLUMN_NULL) return;
    bool valid = arrow_is_valid(array, row), same = valid == arrow_is_valid(other, other_row);
    if (valid && kind == AVRO_COLUMN_BOOLEAN) {
        same = same && bit(array->buffers[1], row) == bit(other->buffers[1], other_row);
    } else if (valid && kind <= AVRO_COLUMN_DECIMAL) {
        const uint8_t *values = array->buffers[1], *other_values = other->buffers[1];
        int64_t width = widths[kind];
        same = same && !memcmp(values + row * width, other_values + other_row * width, (size_t)width);
    } else if (valid && kind <= AVRO_COLUMN_BINARY) {
        size_t size, other_size;
        const void *data = arrow_bytes(array, false, row, &size), *other_data = arrow_bytes(other, false, other_row, &other_size);
        same = same && size == other_size && !memcmp(data, other_data, size);
    } else if (valid && kind == AVRO_COLUMN_LIST) {
        const int32_t *items = (const int32_t *)array->buffers[1] + row, *other_items = (const int32_t *)other->buffers[1] + other_row;
        same = same && items[1] - items[0] == other_items[1] - other_items[0];
        for (int32_t i = 0; same && i < items[1] - items[0]; i++)
            compare(program, described[1], array->children[0], items[0] + i, other->children[0], other_items[0] + i);
    } else if (valid) {
        for (int32_t i = 0; same && i < array->n_children; i++)
            compare(program, described[1] + i, array->children[i], row, other->children[i], other_row);
    }
    if (!same) fail("a value that damaged payloads have changed");
}

/* Decodes the undamaged payloads again, without the damaged ones: their rows must be the same. */
static void decode_alone(const struct zkafka_avro_program *program, const struct ArrowArray *payloads, const bool *damaged, int64_t skip,
                         const struct ArrowArray *batch) {
    int64_t rows[12], count = 0;
    int32_t *offsets = calloc((size_t)payloads->length + 1, sizeof *offsets);
    uint8_t *data = malloc((size_t)((const int32_t *)payloads->buffers[1])[payloads->length] + 1);
    for (int64_t row = 0; row < payloads->length; row++) {
        size_t size;
        const void *payload = arrow_bytes(payloads, false, row, &size);
        if (damaged[row] || !payload) continue;
        memcpy(data + offsets[count], payload, size);
        offsets[count + 1] = offsets[count] + (int32_t)size;
        rows[count++] = row;
    }
    struct ArrowArray undamaged, out;
    struct zkafka_avro_flaw found[12];
    begin_array(&undamaged, count, 0, 3, 0);
    undamaged.buffers[1] = offsets;
    undamaged.buffers[2] = data;
    if (zkafka_avro_decode(program, &undamaged, false, skip, &out, found)) fail("a flaw in a batch without damage");
    for (int64_t i = 0; i < count; i++) compare(program, 0, batch, rows[i], &out, i);
    arrow_release(&out);
    arrow_release(&undamaged);
}

/* Encodes decoded rows, from row `first` on. Rows of undamaged payloads must become the same payloads. */
static void encode(const struct corpus *corpus, struct ArrowArray *rows, int64_t first, const struct ArrowArray *payloads,
                   const bool *damaged, int64_t skip) {
    struct ArrowArray out;
    struct zkafka_avro_refusal refusal;
    rows->offset = first, rows->length -= first;
    if (zkafka_avro_encode(&corpus->encoding, rows, &out, &refusal) != AVRO_ENCODED) fail("a row that cannot be encoded");
    if (out.length != rows->length) fail("not as many payloads as rows");
    for (int64_t i = 0; i < rows->length; i++) {
        size_t size, expected;
        const void *made = arrow_bytes(&out, false, i, &size), *payload = arrow_bytes(payloads, false, first + i, &expected);
        if (!made != !arrow_is_valid(rows, i)) fail("a payload without a row, or a row without a payload");
        if (made) look(made, size);
        bool is_known = corpus->is_same && payload && !damaged[first + i];
        if (is_known && (size != expected - (size_t)skip || memcmp(made, (const char *)payload + skip, size)))
            fail("another payload than the one decoded");
    }
    rows->offset = 0, rows->length += first;
    arrow_release(&out);
}

/* Decodes a batch of payloads, of which some are damaged, some null. */
static void decode(void) {
    const struct corpus *corpus = &programs[below(program_count)];
    int64_t rows = one_in(20) ? 0 : 1 + below(12), end = 0, skip = one_in(4) ? 5 : 0;
    struct block parts[12];
    bool damaged[12];
    struct ArrowArray payloads, out;
    begin_array(&payloads, rows, 0, 3, 0);
    payloads.buffers[0] = any_validity(rows, one_in(3));
    int32_t *offsets = malloc((size_t)(rows + 1) * sizeof *offsets);
    offsets[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const struct block *whole = &corpus->payloads[below(corpus->payload_count)];
        parts[i] = copy(whole->data, whole->size);
        damaged[i] = !one_in(3);
        for (int n = 0; damaged[i] && n < 1 + below(3); n++) damage(&parts[i], &corpus->payloads[below(corpus->payload_count)]);
        end += parts[i].size + skip;
        if (damaged[i] && skip && one_in(20)) end -= skip + parts[i].size; /* without a header */
        offsets[i + 1] = (int32_t)end;
    }
    uint8_t *data = malloc((size_t)end + !end);
    for (int64_t i = 0; i < rows; i++) {
        if (offsets[i + 1] - offsets[i] == parts[i].size + skip) {
            memset(data + offsets[i], 0, (size_t)skip);
            memcpy(data + offsets[i] + skip, parts[i].data, (size_t)parts[i].size);
        }
        free(parts[i].data);
    }
    payloads.buffers[1] = offsets;
    payloads.buffers[2] = data;
    struct zkafka_avro_flaw *found = malloc((size_t)rows * sizeof *found + !rows);
    int64_t count = zkafka_avro_decode(&corpus->program, &payloads, false, skip, &out, found);
    if (count < 0 || out.length != rows) fail("not as many rows as payloads");
    for (int64_t i = 0; i < count; i++) {
        if (!damaged[found[i].row]) fail("a flaw in a payload that has none");
        flaws[found[i].code]++;
    }
    decoded += rows - count;
    walk(&corpus->program, 0, &out);
    decode_alone(&corpus->program, &payloads, damaged, skip, &out);
    encode(corpus, &out, below((int)rows + 1), &payloads, damaged, skip);
    arrow_release(&out);
    arrow_release(&payloads);
    free(found);
}

int main(int count, char **arguments) {
    read_corpus(arguments[1]);
    state = strtoull(arguments[2], NULL, 10);
    for (int64_t i = 0; i < atoll(arguments[3]); i++) decode();
    if (count > 4) look(programs[0].payloads[0].data, (size_t)programs[0].payloads[0].size + 1);
    for (int i = 0; i < program_count; i++) {
        free((void *)programs[i].program.nodes);
        free((void *)programs[i].program.links);
        free((void *)programs[i].program.columns);
        free((void *)programs[i].program.constants);
        free((void *)programs[i].encoding.steps);
        free((void *)programs[i].encoding.links);
        free((void *)programs[i].encoding.columns);
        free((void *)programs[i].encoding.constants);
        for (int n = 0; n < programs[i].payload_count; n++) free(programs[i].payloads[n].data);
    }
    printf("%ld", (long)decoded);
    for (int i = 1; i <= AVRO_NO_DIGITS; i++) printf(" %ld", (long)flaws[i]);
    printf("\n");
    return 0;
}
