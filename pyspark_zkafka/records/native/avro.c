/* Avro's binary encoding to Arrow columns.
 *
 * Python resolves the writer's schema against the reader's, and compiles both to a program: a tree of nodes that says what to read
 * and into which column. The program is trusted, payloads are not. */
#include "columns.h"
#include "zkafka.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 512, EMPTY_ITEMS = 256, OK = 0, FAILED = 1 };

static const int64_t DAY_NS = 86400000000000;

typedef unsigned __int128 wide;

struct column {
    int32_t kind, first, count; /* a struct or list has `count` children from column `first` on */
    int64_t rows, room_rows;    /* room of values, offsets and validity */
    uint8_t *valid;             /* null while nothing is null */
    uint8_t *data;              /* values, or bytes of strings */
    int64_t room_bytes;         /* room for bytes of strings */
    int32_t *offsets;
    wide limit; /* the smallest decimal with too many digits */
};

struct avro {
    const struct zkafka_avro_program *program;
    struct column *columns;
    const uint8_t *start, *at, *end; /* the payload */
    int64_t first_rows;              /* initial room of a column, in rows */
    int64_t empty_items;             /* how many more items without bytes the record may have */
    int32_t depth;
    bool no_memory;
    struct zkafka_avro_flaw *flaw;
};

/* --- Columns ------------------------------------------------------------------------------------------------------- */

static bool has_offsets(const struct column *column) {
    return column->kind >= AVRO_COLUMN_STRING && column->kind <= AVRO_COLUMN_LIST;
}

static int64_t width(const struct column *column) {
    static const int8_t widths[AVRO_COLUMNS] = {[AVRO_COLUMN_INT] = 4,
                                                [AVRO_COLUMN_LONG] = 8,
                                                [AVRO_COLUMN_FLOAT] = 4,
                                                [AVRO_COLUMN_DOUBLE] = 8,
                                                [AVRO_COLUMN_DECIMAL] = 16};
    return widths[column->kind];
}

static bool resize(void **data, int64_t bytes) {
    void *grown = realloc(*data, (size_t)bytes);
    if (grown) *data = grown;
    return grown != NULL;
}

static int64_t value_bytes(const struct column *column, int64_t rows) {
    return column->kind == AVRO_COLUMN_BOOLEAN ? rows / 8 + 1 : rows * width(column);
}

static bool grow_rows(struct avro *avro, struct column *column) {
    int64_t rows = column->room_rows ? 2 * column->room_rows : avro->first_rows;
    bool grown = (!column->valid || resize((void **)&column->valid, rows / 8 + 1)) &&
                 (has_offsets(column) || !value_bytes(column, rows) || resize((void **)&column->data, value_bytes(column, rows))) &&
                 (!has_offsets(column) || resize((void **)&column->offsets, (rows + 1) * (int64_t)sizeof *column->offsets));
    if (grown && has_offsets(column) && !column->room_rows) column->offsets[0] = 0;
    if (grown) column->room_rows = rows;
    avro->no_memory |= !grown;
    return grown;
}

static inline bool make_room(struct avro *avro, struct column *column) {
    return column->rows < column->room_rows || grow_rows(avro, column);
}

/* Ends a row after its value was stored. */
static inline void end_valid(struct column *column) {
    if (column->valid) column->valid[column->rows >> 3] |= (uint8_t)(1u << (column->rows & 7));
    column->rows++;
}

/* Appends null, or zero or an empty value if `is_valid`. The fields of a null struct are valid: they may not be nullable. */
static int append_blank(struct avro *avro, struct column *column, bool is_valid) {
    if (!make_room(avro, column)) return FAILED;
    int64_t row = column->rows;
    if (has_offsets(column))
        column->offsets[row + 1] = column->offsets[row];
    else if (column->kind == AVRO_COLUMN_BOOLEAN)
        column->data[row >> 3] &= (uint8_t) ~(1u << (row & 7));
    else if (width(column))
        memset(column->data + row * width(column), 0, (size_t)width(column));
    if (!is_valid && !column->valid && column->kind != AVRO_COLUMN_NULL) {
        if (!resize((void **)&column->valid, column->room_rows / 8 + 1)) return avro->no_memory = true, FAILED;
        memset(column->valid, 0xff, (size_t)(row / 8 + 1));
    }
    end_valid(column);
    if (!is_valid && column->valid) column->valid[row >> 3] &= (uint8_t) ~(1u << (row & 7));
    for (int32_t i = 0; column->kind == AVRO_COLUMN_STRUCT && i < column->count; i++)
        if (append_blank(avro, avro->columns + column->first + i, true)) return FAILED;
    return OK;
}

static int append_null(struct avro *avro, struct column *column) { return append_blank(avro, column, false); }

static int append_fixed(struct avro *avro, struct column *column, const void *value, size_t size) {
    if (!make_room(avro, column)) return FAILED;
    memcpy(column->data + column->rows * (int64_t)size, value, size);
    end_valid(column);
    return OK;
}

static int append_bytes(struct avro *avro, struct column *column, const uint8_t *data, int64_t size) {
    if (!make_room(avro, column)) return FAILED;
    int64_t begin = column->offsets[column->rows];
    if (size > INT32_MAX - begin) return avro->no_memory = true, FAILED;
    if (begin + size > column->room_bytes) {
        int64_t room = column->room_bytes ? 2 * column->room_bytes : 16 * avro->first_rows;
        while (room < begin + size) room *= 2;
        if (!resize((void **)&column->data, room)) return avro->no_memory = true, FAILED;
        column->room_bytes = room;
    }
    if (size) memcpy(column->data + begin, data, (size_t)size);
    column->offsets[column->rows + 1] = (int32_t)(begin + size);
    end_valid(column);
    return OK;
}

/* Ends a list row: all child rows since the last list belong to it. */
static int append_list(struct avro *avro, struct column *column) {
    int64_t rows = avro->columns[column->first].rows;
    if (rows > INT32_MAX) return avro->no_memory = true, FAILED;
    column->offsets[column->rows + 1] = (int32_t)rows;
    end_valid(column);
    return OK;
}

/* Removes the rows of a record that cannot be decoded, at every depth. Its structs and lists may not be ended yet. */
static void truncate_rows(struct avro *avro, struct column *column, int64_t rows) {
    column->rows = rows;
    if (column->kind == AVRO_COLUMN_LIST && column->offsets)
        truncate_rows(avro, avro->columns + column->first, column->offsets[rows]);
    for (int32_t i = 0; column->kind == AVRO_COLUMN_STRUCT && i < column->count; i++)
        truncate_rows(avro, avro->columns + column->first + i, rows);
}

/* Moves a column and its children into an Arrow array. */
static bool take(struct avro *avro, struct column *column, struct ArrowArray *out) {
    bool is_string = column->kind == AVRO_COLUMN_STRING || column->kind == AVRO_COLUMN_BINARY;
    bool is_list = column->kind == AVRO_COLUMN_LIST, is_struct = column->kind == AVRO_COLUMN_STRUCT;
    int32_t children = is_list || is_struct ? column->count : 0;
    int64_t buffers = column->kind == AVRO_COLUMN_NULL ? 0 : is_string ? 3 : is_struct ? 1 : 2;
    if (!array_begin(out, column->rows, buffers, children)) return false;
    /* Spark reads the offsets even of a column without rows. */
    if (has_offsets(column) && !column->offsets && !grow_rows(avro, column)) return false;
    out->null_count = column->kind == AVRO_COLUMN_NULL ? column->rows : column->valid ? -1 : 0;
    if (out->n_buffers) out->buffers[0] = column->valid;
    if (out->n_buffers > 1) out->buffers[1] = has_offsets(column) ? (void *)column->offsets : column->data;
    if (is_string) out->buffers[2] = column->data;
    column->valid = column->data = NULL;
    column->offsets = NULL;
    for (int32_t i = 0; i < children; i++)
        if (!take(avro, avro->columns + column->first + i, out->children[i])) return false;
    return true;
}

/* --- Reading ------------------------------------------------------------------------------------------------------- */

/* Notes a flaw of the payload, and where it is. */
static int flawed(struct avro *avro, int32_t code, const uint8_t *at, int64_t found) {
    struct zkafka_avro_flaw *flaw = avro->flaw;
    flaw->code = code, flaw->at = at - avro->start, flaw->found = found, flaw->left = avro->end - at;
    return FAILED;
}

static int long_varint(struct avro *avro, int64_t *value) {
    const uint8_t *at = avro->at;
    uint64_t bits = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == avro->end) return flawed(avro, AVRO_CUT, at, 1);
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) break;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        avro->at = at;
        *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
        return OK;
    }
    return flawed(avro, AVRO_LONG_VARINT, avro->at, 0);
}

static inline int read_varint(struct avro *avro, int64_t *value) {
    if (avro->at == avro->end || *avro->at & 0x80) return long_varint(avro, value);
    uint8_t byte = *avro->at++;
    *value = (int64_t)(byte >> 1) ^ -(int64_t)(byte & 1);
    return OK;
}

static inline int require(struct avro *avro, int64_t size) {
    return avro->end - avro->at >= size ? OK : flawed(avro, AVRO_CUT, avro->at, size);
}

/* The bytes of a string: length and content. */
static int read_bytes(struct avro *avro, const uint8_t **data, int64_t *size) {
    const uint8_t *at = avro->at;
    if (read_varint(avro, size)) return FAILED;
    if (*size < 0) return flawed(avro, AVRO_NEGATIVE, at, *size);
    if (require(avro, *size)) return FAILED;
    *data = avro->at;
    avro->at += *size;
    return OK;
}

static int append_text(struct avro *avro, struct column *column, const uint8_t *data, int64_t size) {
    if (column->kind == AVRO_COLUMN_STRING && !is_utf8(data, (size_t)size)) return flawed(avro, AVRO_NOT_UTF8, data, size);
    return append_bytes(avro, column, data, size);
}

static int append_decimal(struct avro *avro, struct column *column, const uint8_t *data, int64_t size) {
    if (size == 0) return flawed(avro, AVRO_NO_DIGITS, data, 0);
    wide value = data[0] & 0x80 ? ~(wide)0 : 0;
    const uint8_t *first = data;
    for (; size > (int64_t)sizeof value; data++, size--)
        if (*data != (uint8_t)value) return flawed(avro, AVRO_DIGITS, first, 0);
    bool negative = (bool)(value & 1);
    for (int64_t i = 0; i < size; i++) value = value << 8 | data[i];
    if ((bool)(value >> 127) != negative || (negative ? -value : value) >= column->limit)
        return flawed(avro, AVRO_DIGITS, first, 0);
    return append_fixed(avro, column, &value, sizeof value);
}

/* Appends bytes in the type of their column. */
static int append_content(struct avro *avro, struct column *column, const uint8_t *data, int64_t size) {
    return column->kind == AVRO_COLUMN_DECIMAL ? append_decimal(avro, column, data, size) : append_text(avro, column, data, size);
}

/* Appends a number in the type of its column. Multiplies it by `unit`, or divides it by a negative `unit`. */
static int append_number(struct avro *avro, struct column *column, int64_t value, int64_t unit, const uint8_t *at) {
    switch (column->kind) {
    case AVRO_COLUMN_INT: {
        int32_t small = (int32_t)value;
        return append_fixed(avro, column, &small, sizeof small);
    }
    case AVRO_COLUMN_LONG:
        if (unit < 0)
            value = value / -unit - (value % -unit < 0);
        else if (unit != 1 && __builtin_mul_overflow(value, unit, &value))
            return flawed(avro, AVRO_TIME, at, value);
        if (column->count && (value < 0 || value >= DAY_NS)) return flawed(avro, AVRO_TIME, at, value);
        return append_fixed(avro, column, &value, sizeof value);
    case AVRO_COLUMN_FLOAT: {
        float real = (float)value;
        return append_fixed(avro, column, &real, sizeof real);
    }
    case AVRO_COLUMN_DOUBLE: {
        double real = (double)value;
        return append_fixed(avro, column, &real, sizeof real);
    }
    default: {
        wide sized = (wide)value;
        if ((value < 0 ? -sized : sized) >= column->limit) return flawed(avro, AVRO_DIGITS, at, 0);
        return append_fixed(avro, column, &sized, sizeof sized);
    }
    }
}

static int append_boolean(struct avro *avro, struct column *column, bool value) {
    if (!make_room(avro, column)) return FAILED;
    uint8_t bit = (uint8_t)(1u << (column->rows & 7)), *byte = column->data + (column->rows >> 3);
    *byte = value ? *byte | bit : *byte & (uint8_t)~bit;
    end_valid(column);
    return OK;
}

/* --- Nodes --------------------------------------------------------------------------------------------------------- */

static int run(struct avro *, const struct zkafka_avro_node *, int32_t number);

static inline int run_number(struct avro *avro, int32_t number) { return run(avro, avro->program->nodes + number, number); }

/* An item of an array, or an entry of a map: `items` is then the struct of key and value. */
static int read_item(struct avro *avro, const struct zkafka_avro_node *node, struct column *items) {
    if (node->op == AVRO_MAP) {
        const uint8_t *key;
        int64_t size;
        if (read_bytes(avro, &key, &size)) return FAILED;
        if (items && append_text(avro, avro->columns + items->first, key, size)) return FAILED;
    }
    if (run_number(avro, node->first)) return FAILED;
    if (node->op == AVRO_MAP && items) {
        if (!make_room(avro, items)) return FAILED;
        end_valid(items);
    }
    return OK;
}

static int read_blocks(struct avro *avro, const struct zkafka_avro_node *node, struct column *column) {
    struct column *items = column ? avro->columns + column->first : NULL;
    for (;;) {
        const uint8_t *at = avro->at, *block_end = NULL;
        int64_t count, size;
        if (read_varint(avro, &count)) return FAILED;
        if (!count) return OK;
        if (count < 0) {
            if (count == INT64_MIN) return flawed(avro, AVRO_NEGATIVE, at, count);
            count = -count;
            const uint8_t *size_at = avro->at;
            if (read_varint(avro, &size)) return FAILED;
            if (size < 0) return flawed(avro, AVRO_NEGATIVE, size_at, size);
            if (require(avro, size)) return FAILED;
            block_end = avro->at + size;
            if (!column) {
                avro->at = block_end;
                continue;
            }
        }
        /* Items with at least one byte each cannot outnumber the bytes of the payload. */
        int64_t most = node->number ? avro->empty_items : avro->end - avro->at;
        if (count > most) return flawed(avro, AVRO_ITEMS, at, count);
        if (node->number) avro->empty_items -= count;
        for (; count; count--)
            if (read_item(avro, node, items)) return FAILED;
        if (block_end && avro->at != block_end) return flawed(avro, AVRO_BLOCK, at, avro->at - block_end);
    }
}

static int read_enum(struct avro *avro, const struct zkafka_avro_node *node, struct column *column) {
    const uint8_t *at = avro->at;
    int64_t symbol;
    if (read_varint(avro, &symbol)) return FAILED;
    if (symbol < 0 || symbol >= node->count) return flawed(avro, AVRO_SYMBOL, at, symbol);
    if (!column) return OK;
    const int32_t *range = avro->program->links + node->first + 2 * symbol; /* offset and size of the reader's symbol */
    if (range[0] < 0) return flawed(avro, AVRO_UNKNOWN_SYMBOL, at, symbol);
    return append_bytes(avro, column, avro->program->constants + range[0], range[1]);
}

/* Decodes a default from the program's constants. The limit of items without bytes is for payloads only. */
static int read_constant(struct avro *avro, const struct zkafka_avro_node *node) {
    const uint8_t *start = avro->start, *at = avro->at, *end = avro->end;
    int64_t empty_items = avro->empty_items;
    avro->empty_items = INT64_MAX;
    avro->start = avro->at = avro->program->constants + node->number;
    avro->end = avro->at + node->count;
    int failed = run_number(avro, node->first);
    avro->start = start, avro->at = at, avro->end = end, avro->empty_items = empty_items;
    return failed;
}

/* A struct with a field for each branch of a union. One field is set. */
static int read_member(struct avro *avro, const struct zkafka_avro_node *node, struct column *column) {
    if (!make_room(avro, column)) return FAILED;
    end_valid(column);
    for (int32_t i = 0; i < column->count; i++) {
        int failed = i == node->count ? run_number(avro, node->first) : append_null(avro, avro->columns + column->first + i);
        if (failed) return FAILED;
    }
    return OK;
}

static int read_value(struct avro *avro, const struct zkafka_avro_node *node) {
    struct column *column = node->column < 0 ? NULL : avro->columns + node->column; /* without a column, the value is skipped */
    const uint8_t *at = avro->at, *data;
    int64_t value;
    switch (node->op) {
    case AVRO_NULL:
        return column ? append_null(avro, column) : OK;
    case AVRO_BOOLEAN:
        if (require(avro, 1)) return FAILED;
        if (*at > 1) return flawed(avro, AVRO_NOT_BOOLEAN, at, *at);
        avro->at++;
        return column ? append_boolean(avro, column, *at) : OK;
    case AVRO_INT:
    case AVRO_LONG:
        if (read_varint(avro, &value)) return FAILED;
        if (node->op == AVRO_INT && value != (int32_t)value) return flawed(avro, AVRO_LARGE_INT, at, value);
        return column ? append_number(avro, column, value, node->number, at) : OK;
    case AVRO_FLOAT: {
        float real;
        if (require(avro, sizeof real)) return FAILED;
        memcpy(&real, at, sizeof real);
        avro->at += sizeof real;
        if (!column) return OK;
        if (column->kind == AVRO_COLUMN_FLOAT) return append_fixed(avro, column, &real, sizeof real);
        double promoted = real;
        return append_fixed(avro, column, &promoted, sizeof promoted);
    }
    case AVRO_DOUBLE:
        if (require(avro, sizeof(double))) return FAILED;
        avro->at += sizeof(double);
        return column ? append_fixed(avro, column, at, sizeof(double)) : OK;
    case AVRO_BYTES:
        if (node->number < 0)
            data = at, value = avro->end - at, avro->at = avro->end;
        else if (read_bytes(avro, &data, &value))
            return FAILED;
        return column ? append_content(avro, column, data, value) : OK;
    case AVRO_FIXED:
        if (require(avro, node->number)) return FAILED;
        avro->at += node->number;
        return column ? append_content(avro, column, at, node->number) : OK;
    case AVRO_ENUM:
        return read_enum(avro, node, column);
    case AVRO_ARRAY:
    case AVRO_MAP:
        if (column && !make_room(avro, column)) return FAILED;
        if (read_blocks(avro, node, column)) return FAILED;
        return column ? append_list(avro, column) : OK;
    case AVRO_RECORD:
        for (int32_t i = 0; i < node->count; i++)
            if (run_number(avro, avro->program->links[node->first + i])) return FAILED;
        if (!column) return OK;
        if (!make_room(avro, column)) return FAILED;
        end_valid(column);
        return OK;
    case AVRO_UNION:
        if (read_varint(avro, &value)) return FAILED;
        if (value < 0 || value >= node->count) return flawed(avro, AVRO_BRANCH, at, value);
        return run_number(avro, avro->program->links[node->first + value]);
    case AVRO_MEMBER:
        return read_member(avro, node, column);
    case AVRO_CONSTANT:
        return read_constant(avro, node);
    default: /* AVRO_REFUSED: a branch that the reader's schema lacks */
        return flawed(avro, AVRO_UNKNOWN_BRANCH, at, node->number);
    }
}

static int run(struct avro *avro, const struct zkafka_avro_node *node, int32_t number) {
    if (avro->depth == MOST_DEPTH) return flawed(avro, AVRO_DEEP, avro->at, MOST_DEPTH);
    avro->depth++;
    int failed = read_value(avro, node);
    avro->depth--;
    if (failed && avro->flaw->node < 0) avro->flaw->node = number;
    return failed;
}

/* --- Batches ------------------------------------------------------------------------------------------------------- */

/* Decodes a payload to one row of the root, which is null for a flawed payload. */
static int decode_row(struct avro *avro, const uint8_t *data, int64_t size, int64_t skip) {
    struct column *root = avro->columns;
    int64_t rows = root->rows;
    int failed;
    avro->start = data, avro->end = data + size, avro->at = data + (size < skip ? 0 : skip);
    avro->empty_items = EMPTY_ITEMS + size;
    if (size < skip)
        failed = flawed(avro, AVRO_CUT, data, skip);
    else if (!(failed = run_number(avro, 0)) && avro->at != avro->end)
        failed = flawed(avro, AVRO_TRAILING, avro->at, 0);
    if (!failed || avro->no_memory) return failed;
    truncate_rows(avro, root, rows);
    append_null(avro, root);
    return FAILED;
}

static struct column *new_columns(const struct zkafka_avro_program *program) {
    struct column *columns = calloc((size_t)program->column_count, sizeof *columns);
    for (int32_t i = 0; columns && i < program->column_count; i++) {
        const int32_t *described = program->columns + 3 * i;
        columns[i].kind = described[0], columns[i].first = described[1], columns[i].count = described[2];
        columns[i].limit = 1;
        for (int32_t digit = 0; columns[i].kind == AVRO_COLUMN_DECIMAL && digit < columns[i].count; digit++) columns[i].limit *= 10;
    }
    return columns;
}

int64_t zkafka_avro_decode(const struct zkafka_avro_program *program, const struct ArrowArray *payloads, int32_t is_large,
                           int64_t skip, struct ArrowArray *out, struct zkafka_avro_flaw *flaws) {
    *out = (struct ArrowArray){0};
    int64_t flaw_count = 0, rows = payloads->length;
    struct zkafka_avro_flaw unused;
    struct avro avro = {.program = program, .columns = new_columns(program), .first_rows = rows < 8 ? 8 : rows};
    if (!avro.columns) return -1;
    for (int64_t row = 0; row < rows && !avro.no_memory; row++) {
        size_t size;
        const uint8_t *data = arrow_bytes(payloads, is_large, row, &size);
        avro.flaw = flaw_count < rows ? flaws + flaw_count : &unused;
        avro.flaw->row = row, avro.flaw->node = -1;
        if (!data)
            append_null(&avro, avro.columns);
        else if (decode_row(&avro, data, (int64_t)size, skip))
            flaw_count++;
    }
    bool taken = !avro.no_memory && take(&avro, avro.columns, out);
    if (!taken) arrow_release(out);
    for (int32_t i = 0; i < program->column_count; i++) {
        free(avro.columns[i].valid);
        free(avro.columns[i].data);
        free(avro.columns[i].offsets);
    }
    free(avro.columns);
    return taken ? flaw_count : -1;
}
