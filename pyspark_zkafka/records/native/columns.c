#include "columns.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 1024, FIRST_BYTES = 64 * 1024, LARGEST_FIRST_BYTES = 32 * 1024 * 1024 };

/* Spark stores microseconds in 64 bits. */
static const int64_t LARGEST_MS = INT64_MAX / 1000;

/* --- Buffers that grow --------------------------------------------------------------------------------------------- */

static bool grow(void **data, int64_t *room_bytes, int64_t needed_bytes) {
    int64_t room = *room_bytes;
    if (*data && needed_bytes <= room) return true;
    if (room < FIRST_BYTES) room = FIRST_BYTES;
    while (room < needed_bytes) room *= 2;
    void *grown = realloc(*data, (size_t)room);
    if (!grown) return false;
    *data = grown;
    *room_bytes = room;
    return true;
}

static bool fixed_append(struct fixed *column, int64_t row, const void *value, int64_t size) {
    if ((!column->data || (row + 1) * size > column->room_bytes) &&
        !grow((void **)&column->data, &column->room_bytes, (row + 1) * size))
        return false;
    memcpy(column->data + row * size, value, (size_t)size);
    return true;
}

static bool fixed_append_int64(struct fixed *column, int64_t row, int64_t value) {
    return fixed_append(column, row, &value, sizeof value);
}

/* Makes room for one more row: its validity bit, and its end offset. */
static bool strings_make_room(struct strings *column, int64_t row) {
    if (column->offsets && row + 1 < column->room_rows) return true;
    int64_t rows = column->room_rows < FIRST_ROWS ? FIRST_ROWS : column->room_rows;
    if (column->offsets) rows *= 2;
    int32_t *offsets = realloc(column->offsets, (size_t)(rows + 1) * sizeof *offsets);
    if (!offsets) return false;
    if (!column->offsets) offsets[0] = 0;
    column->offsets = offsets;
    if (column->valid) {
        uint8_t *valid = realloc(column->valid, (size_t)(rows / 8 + 1));
        if (!valid) return false;
        column->valid = valid;
    }
    column->room_rows = rows;
    return true;
}

static bool strings_set_null(struct strings *column, int64_t row) {
    if (!column->valid) {
        column->valid = malloc((size_t)(column->room_rows / 8 + 1));
        if (!column->valid) return false;
        memset(column->valid, 0xff, (size_t)(row / 8 + 1));
    }
    column->nulls++;
    column->valid[row >> 3] &= (uint8_t) ~(1u << (row & 7));
    return true;
}

static void strings_set_valid(struct strings *column, int64_t row) {
    if (column->valid) column->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
}

static bool strings_append(struct strings *column, int64_t row, const void *data, size_t size) {
    if (!strings_make_room(column, row)) return false;
    int32_t end = column->offsets[row];
    if (size > (size_t)(INT32_MAX - end)) return false;
    column->offsets[row + 1] = end + (int32_t)size;
    if (!data) return strings_set_null(column, row);
    strings_set_valid(column, row);
    if ((!column->data || end + (int64_t)size > column->room_bytes) &&
        !grow((void **)&column->data, &column->room_bytes, end + (int64_t)size))
        return false;
    memcpy(column->data + end, data, size);
    return true;
}

/* --- Values that Spark cannot represent ---------------------------------------------------------------------------- */

/* Length of the valid sequence of two to four bytes at the start of the text. 0 if the start is not valid. */
static size_t utf8_sequence(const uint8_t *text, size_t size) {
    uint8_t lead = text[0];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || size < length) return 0;
    /* The second byte's range excludes overlong forms, surrogates and code points beyond U+10FFFF. */
    uint8_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (text[1] < least || text[1] > most) return 0;
    for (size_t i = 2; i < length; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    return length;
}

bool is_utf8(const uint8_t *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        if (size - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += sizeof eight;
                continue;
            }
        }
        size_t until = size - at < sizeof eight ? size : at + sizeof eight;
        while (at < until) {
            size_t length = text[at] < 0x80 ? 1 : utf8_sequence(text + at, size - at);
            if (!length) return false;
            at += length;
        }
    }
    return true;
}

static void check_utf8(const void *text, size_t size, int64_t offset, int64_t *flaw) {
    if (*flaw < 0 && text && !is_utf8(text, size)) *flaw = offset;
}

static int64_t microseconds(struct columns *columns, const struct record *record) {
    int64_t ms = record->timestamp_ms;
    if (ms <= LARGEST_MS && ms >= -LARGEST_MS) return ms * 1000;
    if (columns->flaws.timestamp_too_large < 0) {
        columns->flaws.timestamp_too_large = record->offset;
        columns->flaws.timestamp_ms = ms;
    }
    return 0;
}

/* --- Records ------------------------------------------------------------------------------------------------------- */

bool columns_append_header(struct columns *columns, int64_t offset, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes) {
    check_utf8(key, key_bytes, offset, &columns->flaws.header_not_utf8);
    if (!strings_append(&columns->header_key, columns->header_rows, key, key_bytes)) return false;
    if (!strings_append(&columns->header_value, columns->header_rows, value, value ? value_bytes : 0)) return false;
    columns->header_rows++;
    return true;
}

/* Ends the list of headers of a row. An empty list is null. */
static bool append_list(struct columns *columns) {
    struct strings *lists = &columns->header_lists;
    if (!strings_make_room(lists, columns->rows) || columns->header_rows > INT32_MAX) return false;
    lists->offsets[columns->rows + 1] = (int32_t)columns->header_rows;
    if (lists->offsets[columns->rows] == lists->offsets[columns->rows + 1]) return strings_set_null(lists, columns->rows);
    strings_set_valid(lists, columns->rows);
    return true;
}

static bool append_text(struct strings *column, int64_t row, const void *data, size_t size, int64_t offset, int64_t *flaw) {
    if (column->utf8) check_utf8(data, size, offset, flaw);
    return strings_append(column, row, data, data ? size : 0);
}

bool columns_append(struct columns *columns, const struct record *record) {
    const bool *asked = columns->asked;
    int64_t row = columns->rows, offset = record->offset;
    struct zkafka_flaws *flaws = &columns->flaws;
    bool done =
        (!asked[COLUMN_KEY] || append_text(&columns->key, row, record->key, record->key_bytes, offset, &flaws->key_not_utf8)) &&
        (!asked[COLUMN_VALUE] || append_text(&columns->value, row, record->value, record->value_bytes, offset, &flaws->value_not_utf8)) &&
        (!asked[COLUMN_OFFSET] || fixed_append_int64(&columns->offset, row, offset)) &&
        (!asked[COLUMN_TIMESTAMP] || fixed_append_int64(&columns->timestamp, row, microseconds(columns, record))) &&
        (!asked[COLUMN_TIMESTAMP_TYPE] ||
         fixed_append(&columns->timestamp_type, row, &record->timestamp_type, sizeof record->timestamp_type)) &&
        (!asked[COLUMN_HEADERS] || append_list(columns));
    if (done) columns->rows++;
    return done;
}

/* --- Arrow arrays -------------------------------------------------------------------------------------------------- */

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

bool array_begin(struct ArrowArray *array, int64_t length, int64_t buffers, int64_t children) {
    *array = (struct ArrowArray){.length = length, .release = release};
    array->buffers = calloc((size_t)(buffers ? buffers : 1), sizeof *array->buffers);
    array->children = calloc((size_t)(children ? children : 1), sizeof *array->children);
    if (!array->buffers || !array->children) return false;
    array->n_buffers = buffers;
    for (; array->n_children < children; array->n_children++)
        if (!(array->children[array->n_children] = calloc(1, sizeof(struct ArrowArray)))) return false;
    return true;
}

static int64_t next_room(int64_t used) { return used > LARGEST_FIRST_BYTES ? LARGEST_FIRST_BYTES : used; }

static bool take_fixed(struct fixed *column, int64_t rows, struct ArrowArray *out) {
    if (!array_begin(out, rows, 2, 0)) return false;
    out->buffers[1] = column->data;
    column->data = NULL;
    column->room_bytes = next_room(column->room_bytes);
    return true;
}

static void move_validity(struct strings *column, struct ArrowArray *out) {
    out->buffers[0] = column->valid;
    out->buffers[1] = column->offsets;
    out->null_count = column->nulls;
    column->valid = NULL;
    column->offsets = NULL;
    column->nulls = 0;
}

static bool take_strings(struct strings *column, int64_t rows, struct ArrowArray *out) {
    if (!array_begin(out, rows, 3, 0)) return false;
    /* Spark reads the offsets even of a column without rows. */
    if (!column->offsets && !strings_make_room(column, 0)) return false;
    move_validity(column, out);
    out->buffers[2] = column->data;
    column->data = NULL;
    column->room_bytes = next_room(column->room_bytes);
    return true;
}

static bool take_headers(struct columns *columns, struct ArrowArray *out) {
    if (!array_begin(out, columns->rows, 2, 1)) return false;
    struct ArrowArray *entries = out->children[0];
    if (!array_begin(entries, columns->header_rows, 1, 2)) return false;
    bool taken = (columns->header_lists.offsets || strings_make_room(&columns->header_lists, 0)) &&
                 take_strings(&columns->header_key, columns->header_rows, entries->children[0]) &&
                 take_strings(&columns->header_value, columns->header_rows, entries->children[1]);
    if (taken) move_validity(&columns->header_lists, out);
    return taken;
}

static bool repeat_topic(const struct columns *columns, struct ArrowArray *out) {
    size_t size = strlen(columns->topic), rows = (size_t)columns->rows;
    if (!array_begin(out, columns->rows, 3, 0)) return false;
    int32_t *offsets = malloc((rows + 1) * sizeof *offsets);
    char *data = malloc(rows * size + 1);
    out->buffers[1] = offsets;
    out->buffers[2] = data;
    if (!offsets || !data || rows * size > INT32_MAX) return false;
    offsets[0] = 0;
    for (size_t i = 0; i < rows; i++) {
        memcpy(data + i * size, columns->topic, size);
        offsets[i + 1] = offsets[i] + (int32_t)size;
    }
    return true;
}

static bool repeat_partition(const struct columns *columns, struct ArrowArray *out) {
    if (!array_begin(out, columns->rows, 2, 0)) return false;
    int32_t *data = malloc((size_t)columns->rows * sizeof *data + 1);
    out->buffers[1] = data;
    for (int64_t i = 0; data && i < columns->rows; i++) data[i] = columns->partition;
    return data != NULL;
}

static bool take_column(struct columns *columns, int32_t kind, struct ArrowArray *out) {
    switch (kind) {
    case COLUMN_KEY:
        return take_strings(&columns->key, columns->rows, out);
    case COLUMN_VALUE:
        return take_strings(&columns->value, columns->rows, out);
    case COLUMN_TOPIC:
        return repeat_topic(columns, out);
    case COLUMN_PARTITION:
        return repeat_partition(columns, out);
    case COLUMN_OFFSET:
        return take_fixed(&columns->offset, columns->rows, out);
    case COLUMN_TIMESTAMP:
        return take_fixed(&columns->timestamp, columns->rows, out);
    case COLUMN_TIMESTAMP_TYPE:
        return take_fixed(&columns->timestamp_type, columns->rows, out);
    default:
        return take_headers(columns, out);
    }
}

bool columns_take(struct columns *columns, struct ArrowArray *out) {
    bool taken = array_begin(out, columns->rows, 1, columns->count);
    for (int32_t i = 0; taken && i < columns->count; i++) taken = take_column(columns, columns->kinds[i], out->children[i]);
    if (!taken) release(out);
    columns_begin(columns);
    return taken;
}

static void strings_clear(struct strings *column) {
    free(column->offsets);
    free(column->data);
    free(column->valid);
    column->offsets = NULL;
    column->data = column->valid = NULL;
    column->nulls = 0;
}

static void fixed_clear(struct fixed *column) {
    free(column->data);
    column->data = NULL;
}

bool columns_project(struct columns *columns, const int32_t *kinds, const int32_t *texts, int32_t count) {
    if (count > COLUMNS) return false;
    memset(columns->asked, 0, sizeof columns->asked);
    columns->count = count;
    for (int32_t i = 0; i < count; i++) {
        if (kinds[i] < 0 || kinds[i] >= COLUMNS) return false;
        columns->kinds[i] = kinds[i];
        columns->asked[kinds[i]] = true;
        if (kinds[i] == COLUMN_KEY) columns->key.utf8 = texts[i];
        if (kinds[i] == COLUMN_VALUE) columns->value.utf8 = texts[i];
    }
    return true;
}

void columns_begin(struct columns *columns) {
    columns->rows = columns->header_rows = 0;
    columns->flaws = (struct zkafka_flaws){-1, -1, -1, 0, -1};
}

void columns_clear(struct columns *columns) {
    strings_clear(&columns->key);
    strings_clear(&columns->value);
    strings_clear(&columns->header_key);
    strings_clear(&columns->header_value);
    strings_clear(&columns->header_lists);
    fixed_clear(&columns->offset);
    fixed_clear(&columns->timestamp);
    fixed_clear(&columns->timestamp_type);
    columns_begin(columns);
}
