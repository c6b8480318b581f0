/* Arrow columns to Avro's binary encoding.
 *
 * Python checks the type of a column against the schema, and compiles both to a program: a tree of steps that says what to write,
 * and from which column. The program is trusted, and so is the form of the arrays, but not the values. */
#include "columns.h"
#include "zkafka.h"

#include <stdlib.h>
#include <string.h>

enum { OK = 0, FAILED = 1, LARGEST_FIXED_PART = 64 }; /* two varints and a decimal are shorter */

/* A column of the source. */
struct input {
    const struct ArrowArray *array;
    const uint8_t *valid; /* null if no value is null */
    int64_t start;        /* the place in the buffers of the first value */
};

struct encoder {
    const struct zkafka_avro_encoding *program;
    struct input *inputs;
    uint8_t *data; /* the payloads, one after the other */
    int64_t used, room;
    bool no_memory;
    struct zkafka_avro_refusal *refusal;
};

/* --- Source -------------------------------------------------------------------------------------------------------- */

static struct input input_of(const struct ArrowArray *array, int64_t start) {
    return (struct input){array, array->n_buffers ? array->buffers[0] : NULL, start + array->offset};
}

/* Returns the program's columns, null if memory is short. The program lists a column after its parent. */
static struct input *new_inputs(const struct zkafka_avro_encoding *program, const struct ArrowArray *source) {
    struct input *inputs = malloc((size_t)program->column_count * sizeof *inputs);
    if (!inputs) return NULL;
    inputs[0] = input_of(source, 0);
    for (int32_t i = 1; i < program->column_count; i++) {
        const struct zkafka_avro_source *column = program->columns + i;
        const struct input *outer = inputs + column->outer;
        inputs[i] = input_of(outer->array->children[column->child], column->is_field ? outer->start : 0);
    }
    return inputs;
}

static inline bool is_null(const struct input *input, int64_t i) {
    int64_t at = input->start + i;
    return input->valid && !(input->valid[at >> 3] >> (at & 7) & 1);
}

static inline const uint8_t *value_at(const struct input *input, int64_t i, int32_t width) {
    return (const uint8_t *)input->array->buffers[1] + (input->start + i) * width;
}

/* The size of a string or list, and where it begins. Its offsets have `width` bytes. */
static inline int64_t range_at(const struct input *input, int64_t i, int32_t width, int64_t *begin) {
    int64_t at = input->start + i;
    if (width == 8) {
        const int64_t *offsets = input->array->buffers[1];
        return *begin = offsets[at], offsets[at + 1] - offsets[at];
    }
    const int32_t *offsets = input->array->buffers[1];
    return *begin = offsets[at], offsets[at + 1] - offsets[at];
}

static inline int64_t integer_at(const struct input *input, int64_t i, int32_t width) {
    const uint8_t *at = value_at(input, i, width);
    int8_t byte;
    int16_t small;
    int32_t number;
    int64_t large;
    switch (width) {
    case 1:
        return memcpy(&byte, at, sizeof byte), byte;
    case 2:
        return memcpy(&small, at, sizeof small), small;
    case 4:
        return memcpy(&number, at, sizeof number), number;
    default:
        return memcpy(&large, at, sizeof large), large;
    }
}

/* --- Writing ------------------------------------------------------------------------------------------------------- */

static int make_room(struct encoder *encoder, int64_t size) {
    int64_t room = encoder->room;
    while (room - encoder->used < size) room *= 2;
    if (room > INT32_MAX) room = INT32_MAX;
    uint8_t *grown = realloc(encoder->data, (size_t)room);
    if (!grown) return encoder->no_memory = true, FAILED;
    encoder->data = grown, encoder->room = room;
    return OK;
}

/* Refuses lengths that Arrow's offsets of 32 bits cannot express. */
static inline int require_room(struct encoder *encoder, int64_t size) {
    if (encoder->room - encoder->used >= size) return OK;
    if (size > INT32_MAX - encoder->used) return encoder->no_memory = true, FAILED;
    return make_room(encoder, size);
}

/* There must be room. */
static inline void put(struct encoder *encoder, const void *data, int64_t size) {
    if (size) memcpy(encoder->data + encoder->used, data, (size_t)size);
    encoder->used += size;
}

/* There must be room. */
static inline void put_varint(struct encoder *encoder, int64_t value) {
    uint64_t bits = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    uint8_t *at = encoder->data + encoder->used;
    for (; bits >= 0x80; bits >>= 7) *at++ = (uint8_t)(bits | 0x80);
    *at++ = (uint8_t)bits;
    encoder->used = at - encoder->data;
}

static int append(struct encoder *encoder, const void *data, int64_t size) {
    if (require_room(encoder, size)) return FAILED;
    put(encoder, data, size);
    return OK;
}

static int refuse(struct encoder *encoder, int32_t number, int32_t code) {
    encoder->refusal->step = number, encoder->refusal->code = code;
    return FAILED;
}

/* The number of the symbol with this text, or -1. The program's symbols are in the order of their bytes. */
static int64_t symbol_number(const struct encoder *encoder, const struct zkafka_avro_step *step, const uint8_t *text, int64_t size) {
    int32_t first = 0, last = step->size;
    while (first < last) {
        int32_t middle = first + (last - first) / 2;
        const int32_t *symbol = encoder->program->links + step->first + 3 * middle; /* offset, size, number */
        int64_t common = size < symbol[1] ? size : symbol[1];
        int order = common ? memcmp(text, encoder->program->constants + symbol[0], (size_t)common) : 0;
        if (!order && size == symbol[1]) return symbol[2];
        if (order < 0 || (!order && size < symbol[1]))
            last = middle;
        else
            first = middle + 1;
    }
    return -1;
}

static int write_text(struct encoder *encoder, int32_t number, const struct input *input, int64_t i) {
    const struct zkafka_avro_step *step = encoder->program->steps + number;
    int64_t begin, size = range_at(input, i, step->width, &begin);
    const uint8_t *text = size ? (const uint8_t *)input->array->buffers[2] + begin : (const uint8_t *)"";
    if (step->op == AVRO_WRITE_ENUM) {
        int64_t symbol = symbol_number(encoder, step, text, size);
        if (symbol < 0) return refuse(encoder, number, AVRO_NO_SYMBOL);
        put_varint(encoder, symbol);
        return OK;
    }
    if (step->op == AVRO_WRITE_TEXT && !is_utf8(text, (size_t)size)) return refuse(encoder, number, AVRO_VALUE_NOT_UTF8);
    if (step->op == AVRO_WRITE_FIXED && size != step->number) return refuse(encoder, number, AVRO_OTHER_SIZE);
    if (step->op == AVRO_WRITE_TEXT || step->op == AVRO_WRITE_BYTES) put_varint(encoder, size);
    return append(encoder, text, size);
}

/* The value in two's complement with the most significant byte first: in `size` bytes, or if it is 0, in the fewest after their
 * number, or if it is -1, in the fewest alone. */
static int write_decimal(struct encoder *encoder, const uint8_t *value, int64_t size) {
    uint8_t sign = value[15] & 0x80 ? 0xff : 0;
    int64_t used = 16;
    if (size > 0) {
        if (require_room(encoder, size)) return FAILED;
        for (; size > 16; size--) encoder->data[encoder->used++] = sign;
        used = size;
    } else {
        while (used > 1 && value[used - 1] == sign && !((value[used - 2] ^ sign) & 0x80)) used--;
        if (!size) put_varint(encoder, used);
    }
    while (used) encoder->data[encoder->used++] = value[--used];
    return OK;
}

static int run(struct encoder *, int32_t number, int64_t i);

/* An array or map: one block of all items, and the end. */
static int write_items(struct encoder *encoder, const struct zkafka_avro_step *step, const struct input *input, int64_t i) {
    int64_t begin, count = range_at(input, i, step->width, &begin);
    if (count) put_varint(encoder, count);
    for (int64_t item = begin; item < begin + count; item++)
        for (int32_t part = 0; part < step->size; part++) /* of a map, key and value */
            if (run(encoder, encoder->program->links[step->first + part], item)) return FAILED;
    return append(encoder, "", 1);
}

/* A union of several types: a struct with a field for each type. One field is not null. */
static int write_member(struct encoder *encoder, int32_t number, int64_t i) {
    const struct zkafka_avro_step *step = encoder->program->steps + number;
    int32_t chosen = -1;
    for (int32_t branch = 0; branch < step->size; branch++) {
        int32_t member = encoder->program->links[step->first + branch];
        if (is_null(encoder->inputs + encoder->program->steps[member].column, i)) continue;
        if (chosen >= 0) return refuse(encoder, number, AVRO_MANY_MEMBERS);
        chosen = member;
    }
    if (chosen >= 0) return run(encoder, chosen, i);
    if (step->null_mark < 0) return refuse(encoder, number, AVRO_NO_MEMBER);
    put_varint(encoder, step->null_mark);
    return OK;
}

/* Runs a step on row `i` of its column. */
static int run(struct encoder *encoder, int32_t number, int64_t i) {
    const struct zkafka_avro_step *step = encoder->program->steps + number;
    if (require_room(encoder, LARGEST_FIXED_PART)) return FAILED;
    if (step->op == AVRO_WRITE_CONSTANT) return append(encoder, encoder->program->constants + step->first, step->size);
    const struct input *input = encoder->inputs + step->column;
    if (is_null(input, i)) {
        if (step->null_mark < 0) return refuse(encoder, number, AVRO_VALUE_NULL);
        put_varint(encoder, step->null_mark);
        return OK;
    }
    if (step->mark >= 0) put_varint(encoder, step->mark);
    switch (step->op) {
    case AVRO_WRITE_BOOLEAN: {
        int64_t at = input->start + i;
        encoder->data[encoder->used++] = ((const uint8_t *)input->array->buffers[1])[at >> 3] >> (at & 7) & 1;
        return OK;
    }
    case AVRO_WRITE_INTEGER: {
        int64_t value = integer_at(input, i, step->width);
        if (step->number != 1) value = value / step->number - (value % step->number < 0);
        put_varint(encoder, value);
        return OK;
    }
    case AVRO_WRITE_REAL:
        put(encoder, value_at(input, i, step->width), step->width);
        return OK;
    case AVRO_WRITE_DOUBLE: {
        float real;
        memcpy(&real, value_at(input, i, sizeof real), sizeof real);
        double wider = real;
        put(encoder, &wider, sizeof wider);
        return OK;
    }
    case AVRO_WRITE_DECIMAL:
        return write_decimal(encoder, value_at(input, i, 16), step->number);
    case AVRO_WRITE_ITEMS:
        return write_items(encoder, step, input, i);
    case AVRO_WRITE_RECORD:
        for (int32_t field = 0; field < step->size; field++)
            if (run(encoder, encoder->program->links[step->first + field], i)) return FAILED;
        return OK;
    case AVRO_WRITE_MEMBER:
        return write_member(encoder, number, i);
    default:
        return write_text(encoder, number, input, i);
    }
}

/* --- Batches ------------------------------------------------------------------------------------------------------- */

/* Encodes all rows to an array that has room for them. Returns the number of rows done. */
static int64_t encode_rows(struct encoder *encoder, int64_t rows, struct ArrowArray *out) {
    bool is_void = !encoder->inputs->array->n_buffers; /* all rows are null */
    uint8_t *valid = (uint8_t *)out->buffers[0];
    int32_t *offsets = (int32_t *)out->buffers[1];
    for (int64_t row = 0; row < rows; row++) {
        if (is_void || is_null(encoder->inputs, row))
            out->null_count++;
        else if (run(encoder, 0, row))
            return row;
        else
            valid[row >> 3] |= (uint8_t)(1u << (row & 7));
        offsets[row + 1] = (int32_t)encoder->used;
    }
    return rows;
}

int32_t zkafka_avro_encode(const struct zkafka_avro_encoding *program, const struct ArrowArray *source, struct ArrowArray *out,
                           struct zkafka_avro_refusal *refusal) {
    int64_t rows = source->length;
    int64_t first_room = rows < INT32_MAX / 32 ? LARGEST_FIXED_PART + 16 * rows : INT32_MAX;
    struct encoder encoder = {.program = program, .room = first_room, .refusal = refusal};
    encoder.inputs = new_inputs(program, source);
    encoder.data = malloc((size_t)encoder.room);
    encoder.no_memory = !array_begin(out, rows, 3, 0) || !encoder.inputs || !encoder.data;
    if (!encoder.no_memory) {
        out->buffers[0] = calloc((size_t)rows / 8 + 1, 1);
        out->buffers[1] = calloc((size_t)rows + 1, sizeof(int32_t));
        encoder.no_memory = !out->buffers[0] || !out->buffers[1];
    }
    bool done = !encoder.no_memory && (refusal->row = encode_rows(&encoder, rows, out)) == rows;
    if (done)
        out->buffers[2] = encoder.data;
    else
        arrow_release(out), free(encoder.data);
    free(encoder.inputs);
    return done ? AVRO_ENCODED : encoder.no_memory ? AVRO_NO_MEMORY : AVRO_VALUE_REFUSED;
}
