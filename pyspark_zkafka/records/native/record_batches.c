/* Decodes record batches, and messages of formats 0 and 1, from a fetch response into Arrow columns.
 *
 * Layout and validity follow Kafka's DefaultRecordBatch, DefaultRecord and LegacyRecord (3.9.1). Batches are skipped as in its
 * CompletedFetch. Every length is checked before it is used. A message, or a compressed set of messages, counts as a batch.
 */
#include "aborted_transactions.h"
#include "columns.h"
#include "crc32c.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>

/* Offsets of fields in the header of a batch. `BATCH_LENGTH` counts the bytes after itself. */
enum {
    BASE_OFFSET = 0,
    BATCH_LENGTH = 8,
    LENGTH_END = 12,
    LEADER_EPOCH = 12,
    MAGIC = 16,
    MAGIC_END = 17,
    CRC = 17,
    CRC_END = 21,
    ATTRIBUTES = 21,
    LAST_OFFSET_DELTA = 23,
    BASE_TIMESTAMP = 27,
    MAX_TIMESTAMP = 35,
    PRODUCER_ID = 43,
    RECORD_COUNT = 57,
    HEADER_END = 61
};

enum { CODEC_MASK = 0x7, IS_LOG_APPEND_TIME = 0x8, IS_TRANSACTIONAL = 0x10, IS_CONTROL = 0x20 };
enum { CURRENT_MAGIC = 2, LAST_CODEC = 4, LEAST_RECORD_BYTES = 7 };

/* The batch that is being read from the fed bytes, or if `is_compressed` from its decompressed bytes. */
struct batch {
    bool is_open, is_compressed;
    bool is_started;    /* the place of its records is known */
    int8_t magic;
    int32_t codec, count;
    int32_t left;       /* records not read yet; unknown for messages */
    int64_t at, end;    /* the range of these records in their buffer */
    int64_t compressed_begin, compressed_end;
    int64_t base, last; /* first and last offset; for messages, `base` is added to their offsets */
    int64_t wanted;     /* records before this offset are skipped */
    int64_t base_ms, append_ms;
    int32_t timestamp_type; /* ignored for messages if it is 0 */
};

struct zkafka_decoder {
    struct columns columns;
    struct aborted_transactions aborted;
    crc32c_function *crc32c;
    int64_t position;
    int64_t at; /* the next batch in the fed bytes */
    struct batch batch;
};

struct bytes {
    const uint8_t *at, *end;
};

struct limits {
    int64_t records, bytes, until;
};

/* --- Numbers ------------------------------------------------------------------------------------------------------- */

static int16_t int_16(const uint8_t *data) { return (int16_t)(uint16_t)(data[0] << 8 | data[1]); }

static int64_t size_of(struct bytes bytes) { return bytes.end - bytes.at; }

/* Reads a zigzag number of at most `bits` bits, seven to a byte. Drops further bits of the last byte, as Java does. */
static inline bool read_zigzag(struct bytes *from, int bits, uint64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < bits && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        found |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (bits == 32) found &= UINT32_MAX;
            *value = found >> 1 ^ -(found & 1);
            return true;
        }
    }
    return false;
}

static inline bool read_varint(struct bytes *from, int32_t *value) {
    uint64_t found;
    bool done = read_zigzag(from, 32, &found);
    if (done) *value = (int32_t)(uint32_t)found;
    return done;
}

static inline bool read_varlong(struct bytes *from, int64_t *value) {
    uint64_t found;
    bool done = read_zigzag(from, 64, &found);
    if (done) *value = (int64_t)found;
    return done;
}

/* Reads a length and that many bytes. A negative length stands for null. */
static inline bool read_data(struct bytes *from, const void **data, size_t *size) {
    int32_t length;
    if (!read_varint(from, &length) || length > size_of(*from)) return false;
    *data = length < 0 ? NULL : from->at;
    *size = length < 0 ? 0 : (size_t)length;
    from->at += *size;
    return true;
}

/* --- Records ------------------------------------------------------------------------------------------------------- */

/* Reads a record. `headers` gets the bytes of its headers, which are not checked yet. */
static bool read_record(const struct batch *batch, struct bytes *from, struct record *record, struct bytes *headers) {
    int32_t size, offset_delta;
    int64_t time_delta;
    if (!read_varint(from, &size) || size < 1 || size > size_of(*from)) return false;
    struct bytes body = {from->at + 1, from->at + size}; /* after the attributes, which are unused */
    from->at = body.end;
    if (!read_varlong(&body, &time_delta) || !read_varint(&body, &offset_delta)) return false;
    if (!read_data(&body, &record->key, &record->key_bytes) || !read_data(&body, &record->value, &record->value_bytes)) return false;
    *headers = body;
    record->offset = batch->base + offset_delta;
    record->timestamp_type = batch->timestamp_type;
    /* Java's sum, which wraps. */
    record->timestamp_ms = batch->timestamp_type ? batch->append_ms : (int64_t)((uint64_t)batch->base_ms + (uint64_t)time_delta);
    return true;
}

static bool read_header(struct bytes *from, const void **key, size_t *key_bytes, const void **value, size_t *value_bytes) {
    return read_data(from, key, key_bytes) && *key && read_data(from, value, value_bytes);
}

/* Adds the size of the headers in Arrow to `bytes`. False unless the bytes are exactly the headers. */
static bool check_headers(struct bytes from, int64_t *bytes) {
    const void *key, *value;
    size_t key_bytes, value_bytes;
    int32_t count;
    if (!read_varint(&from, &count) || count < 0) return false;
    for (int32_t i = 0; i < count; i++) {
        if (!read_header(&from, &key, &key_bytes, &value, &value_bytes)) return false;
        *bytes += (int64_t)(key_bytes + value_bytes) + HEADER_OVERHEAD_BYTES;
    }
    return from.at == from.end;
}

/* Appends headers that check_headers has accepted. False: out of memory. */
static bool append_headers(struct columns *columns, int64_t offset, struct bytes from) {
    const void *key, *value;
    size_t key_bytes, value_bytes;
    int32_t count = 0;
    read_varint(&from, &count);
    for (int32_t i = 0; i < count; i++)
        if (!read_header(&from, &key, &key_bytes, &value, &value_bytes) ||
            !columns_append_header(columns, offset, key, key_bytes, value, value_bytes))
            return false;
    return true;
}

/* Inlined, as it is called for each record. */
__attribute__((always_inline)) static inline int32_t append(zkafka_decoder *decoder, const struct record *record, struct bytes headers,
                                                            struct zkafka_decoded *out) {
    struct columns *columns = &decoder->columns;
    int64_t bytes = 0;
    if (columns->asked[COLUMN_HEADERS]) {
        if (!check_headers(headers, &bytes)) return DECODE_MALFORMED;
        if (!append_headers(columns, record->offset, headers)) return DECODE_NO_MEMORY;
    }
    if (!columns_append(columns, record)) return DECODE_NO_MEMORY;
    if (out->first < 0) out->first = record->offset;
    out->records++;
    out->bytes += (int64_t)(record->key_bytes + record->value_bytes) + bytes;
    return DECODE_ON;
}

static bool is_full(const struct zkafka_decoded *out, const struct limits *limits) {
    return out->records >= limits->records || out->bytes >= limits->bytes;
}

static void move_to(zkafka_decoder *decoder, int64_t position) {
    if (position > decoder->position) decoder->position = position;
}

/* Reads the open batch. DECODE_ON: it is finished. */
static int32_t read_records(zkafka_decoder *decoder, const uint8_t *data, int64_t size, const struct limits *limits,
                            struct zkafka_decoded *out) {
    struct batch *batch = &decoder->batch;
    if (batch->end > size) return DECODE_MALFORMED;
    struct bytes from = {data + batch->at, data + batch->end};
    while (batch->left > 0) {
        struct record record;
        struct bytes headers;
        if (is_full(out, limits)) return DECODE_STOPPED;
        if (!read_record(batch, &from, &record, &headers)) return DECODE_MALFORMED;
        if (record.offset < batch->base || record.offset > batch->last) return DECODE_STRANGE_OFFSET;
        if (record.offset >= limits->until) {
            move_to(decoder, limits->until);
            return DECODE_STOPPED;
        }
        if (record.offset >= batch->wanted) {
            out->unordered |= record.offset < decoder->position;
            int32_t status = append(decoder, &record, headers, out);
            if (status != DECODE_ON) return status;
            move_to(decoder, record.offset + 1);
        }
        batch->at = from.at - data;
        batch->left--;
    }
    if (batch->at != batch->end) return DECODE_MALFORMED;
    batch->is_open = false;
    move_to(decoder, batch->last + 1);
    return DECODE_ON;
}

/* --- Messages ------------------------------------------------------------------------------------------------------ */

/* Reads the messages of the open batch, like read_records. */
static int32_t read_messages(zkafka_decoder *decoder, const uint8_t *data, int64_t size, const struct limits *limits,
                             struct zkafka_decoded *out) {
    static const uint8_t no_headers[] = {0};
    struct batch *batch = &decoder->batch;
    if (batch->end > size) return DECODE_MALFORMED;
    while (batch->at < batch->end) {
        struct message message;
        if (is_full(out, limits)) return DECODE_STOPPED;
        int32_t status = message_read(data + batch->at, batch->end - batch->at, &message);
        if (status != DECODE_ON) return status;
        if (batch->is_compressed && (message.codec || message.magic != batch->magic)) return DECODE_MALFORMED;
        if (message.offset > batch->last - batch->base) return DECODE_STRANGE_OFFSET;
        struct record record = {.offset = batch->base + message.offset,
                                .timestamp_ms = message.timestamp_ms,
                                .timestamp_type = message.timestamp_type,
                                .key = message.key,
                                .key_bytes = message.key_bytes,
                                .value = message.value,
                                .value_bytes = message.value_bytes};
        if (batch->timestamp_type == 1) {
            record.timestamp_type = 1;
            record.timestamp_ms = batch->append_ms;
        }
        if (record.offset >= limits->until) {
            move_to(decoder, limits->until);
            return DECODE_STOPPED;
        }
        if (record.offset >= batch->wanted) {
            out->unordered |= record.offset < decoder->position;
            struct bytes headers = {no_headers, no_headers + sizeof no_headers};
            status = append(decoder, &record, headers, out);
            if (status != DECODE_ON) return status;
            move_to(decoder, record.offset + 1);
        }
        batch->at += message.size;
    }
    batch->is_open = false;
    move_to(decoder, batch->last + 1);
    return DECODE_ON;
}

/* Opens the next message, or set of messages, or skips it. */
static int32_t begin_message(zkafka_decoder *decoder, struct bytes from, const struct limits *limits) {
    struct message message;
    int32_t status = message_read(from.at, size_of(from), &message);
    if (status != DECODE_ON) return status;
    if (message.offset == INT64_MAX || (message.codec && !message.value)) return DECODE_MALFORMED;
    if (!message.codec && message.offset >= limits->until) {
        move_to(decoder, limits->until);
        return DECODE_STOPPED;
    }
    int64_t at = decoder->at;
    decoder->at += message.size;
    if (message.offset < decoder->position) return DECODE_ON;
    decoder->batch = (struct batch){
        .is_open = true,
        .is_compressed = message.codec != 0,
        .magic = message.magic,
        .codec = message.codec,
        .at = at,
        .end = at + message.size,
        .last = message.offset,
        .wanted = decoder->position,
        .timestamp_type = message.timestamp_type,
        .append_ms = message.timestamp_ms,
    };
    if (message.codec) {
        decoder->batch.compressed_begin = at + ((const uint8_t *)message.value - from.at);
        decoder->batch.compressed_end = decoder->batch.compressed_begin + (int64_t)message.value_bytes;
    }
    return DECODE_ON;
}

/* Finds the offsets of decompressed messages. In format 1, they are relative, and the set has the offset of the last message. */
static int32_t place_messages(struct batch *batch, struct bytes decompressed) {
    int64_t last = messages_last_offset(decompressed.at, size_of(decompressed));
    if (last < 0 || last > batch->last) return DECODE_MALFORMED;
    if (batch->magic == 1) batch->base = batch->last - last;
    return DECODE_ON;
}

/* --- Batches ------------------------------------------------------------------------------------------------------- */

/* The smallest size of a batch in the format of the first batch. */
static int64_t least_bytes(struct bytes from) {
    return from.at[MAGIC] == 0 ? MESSAGE_LEAST_BYTES : from.at[MAGIC] == 1 ? MESSAGE_1_LEAST_BYTES : HEADER_END;
}

/* True if the first batch is complete, or its length is impossible. */
static bool is_whole(struct bytes from) {
    if (size_of(from) < MAGIC_END) return false;
    int32_t length = int_32(from.at + BATCH_LENGTH);
    return length < least_bytes(from) - LENGTH_END || length <= size_of(from) - LENGTH_END;
}

static bool is_of_old_format(struct bytes from) { return from.at[MAGIC] == 0 || from.at[MAGIC] == 1; }

/* Measures the readable batches at the start of a response by their headers. */
static struct zkafka_fed measure(struct bytes from) {
    struct zkafka_fed fed = {.first_offset = -1, .next_offset = -1, .last_epoch = -1, .exhausted = !is_whole(from)};
    while (is_whole(from)) {
        int64_t base = int_64(from.at + BASE_OFFSET), size = (int64_t)int_32(from.at + BATCH_LENGTH) + LENGTH_END;
        bool is_message = is_of_old_format(from);
        if (!is_message && from.at[MAGIC] != CURRENT_MAGIC) break;
        fed.malformed = size < least_bytes(from);
        if (fed.malformed) break;
        if (fed.size == 0) fed.first_offset = base;
        /* Unsigned, as the header is not checked yet, and the sum may overflow. */
        fed.next_offset = (int64_t)((uint64_t)base + (uint64_t)(is_message ? 0 : (int64_t)int_32(from.at + LAST_OFFSET_DELTA)) + 1);
        fed.last_epoch = is_message ? -1 : int_32(from.at + LEADER_EPOCH);
        fed.size += size;
        from.at += size;
    }
    return fed;
}

/* The type of a control record is the second number of its key. */
static bool is_abort_marker(const struct batch *batch, struct bytes records) {
    struct record record;
    struct bytes headers;
    if (batch->count < 1 || !read_record(batch, &records, &record, &headers)) return false;
    return record.key && record.key_bytes >= 4 && int_16((const uint8_t *)record.key + 2) == 0;
}

/* Applies aborted transactions to a batch. True if the batch is aborted. */
static bool apply_transactions(struct aborted_transactions *aborted, const uint8_t *header, const struct batch *batch, struct bytes records) {
    int64_t producer = int_64(header + PRODUCER_ID);
    int16_t attributes = int_16(header + ATTRIBUTES);
    if (!aborted->count || producer < 0) return false;
    aborted_transactions_begin(aborted, batch->last);
    if (attributes & IS_CONTROL && is_abort_marker(batch, records)) aborted_transactions_end(aborted, producer);
    return attributes & IS_TRANSACTIONAL && aborted_transactions_has(aborted, producer);
}

static int32_t check_header(const zkafka_decoder *decoder, const uint8_t *header, int64_t size) {
    int16_t attributes = int_16(header + ATTRIBUTES);
    int64_t base = int_64(header + BASE_OFFSET);
    int32_t count = int_32(header + RECORD_COUNT), codec = attributes & CODEC_MASK;
    if (decoder->crc32c(header + CRC_END, (size_t)(size - CRC_END)) != unsigned_32(header + CRC)) return DECODE_WRONG_CHECKSUM;
    if (base < 0 || base > INT64_MAX - INT32_MAX - 1 || int_32(header + LAST_OFFSET_DELTA) < 0 || count < 0) return DECODE_MALFORMED;
    if (codec > LAST_CODEC || (codec && attributes & IS_CONTROL)) return DECODE_UNKNOWN_CODEC;
    if (!codec && count > (size - HEADER_END) / LEAST_RECORD_BYTES) return DECODE_MALFORMED;
    return DECODE_ON;
}

static struct batch batch_of(const uint8_t *header, int64_t at, int64_t size) {
    int16_t attributes = int_16(header + ATTRIBUTES);
    struct batch batch = {
        .magic = CURRENT_MAGIC,
        .codec = attributes & CODEC_MASK,
        .count = int_32(header + RECORD_COUNT),
        .at = at + HEADER_END,
        .end = at + size,
        .base = int_64(header + BASE_OFFSET),
        .base_ms = int_64(header + BASE_TIMESTAMP),
        .append_ms = int_64(header + MAX_TIMESTAMP),
        .timestamp_type = (attributes & IS_LOG_APPEND_TIME) != 0,
    };
    batch.left = batch.count;
    batch.last = batch.base + int_32(header + LAST_OFFSET_DELTA);
    batch.is_compressed = batch.codec != 0;
    return batch;
}

/* Opens the next batch, or skips it. */
static int32_t begin_batch(zkafka_decoder *decoder, struct bytes fed, const struct limits *limits, struct zkafka_decoded *out) {
    struct bytes from = {fed.at + decoder->at, fed.end};
    if (!is_whole(from)) return DECODE_STOPPED;
    out->batch = int_64(from.at + BASE_OFFSET);
    out->magic = (int8_t)from.at[MAGIC];
    if (is_of_old_format(from)) return begin_message(decoder, from, limits);
    if (out->magic != CURRENT_MAGIC) return DECODE_OTHER_FORMAT;
    int32_t length = int_32(from.at + BATCH_LENGTH);
    if (length < HEADER_END - LENGTH_END) return DECODE_MALFORMED;
    int64_t size = (int64_t)length + LENGTH_END;
    int32_t status = check_header(decoder, from.at, size);
    if (status != DECODE_ON) return status;
    struct batch batch = batch_of(from.at, decoder->at, size);
    if (batch.base >= limits->until) {
        move_to(decoder, limits->until);
        return DECODE_STOPPED;
    }
    decoder->at += size;
    struct bytes records = {from.at + HEADER_END, from.at + size};
    bool is_skipped = apply_transactions(&decoder->aborted, from.at, &batch, records) || int_16(from.at + ATTRIBUTES) & IS_CONTROL;
    if (is_skipped || batch.count == 0 || batch.last < decoder->position) {
        move_to(decoder, batch.last + 1);
        return DECODE_ON;
    }
    batch.is_open = true;
    batch.wanted = decoder->position;
    batch.compressed_begin = batch.at;
    batch.compressed_end = batch.end;
    decoder->batch = batch;
    return DECODE_ON;
}

/* Asks the caller to decompress the open batch. */
static int32_t request_decompression(const struct batch *batch, struct zkafka_decoded *out) {
    out->codec = batch->codec;
    out->begin = batch->compressed_begin;
    out->end = batch->compressed_end;
    return DECODE_COMPRESSED;
}

/* Opens the next batch, or reads the open batch up to the limits. */
static int32_t step(zkafka_decoder *decoder, struct bytes fed, struct bytes *decompressed, const struct limits *limits,
                    struct zkafka_decoded *out) {
    struct batch *batch = &decoder->batch;
    if (!batch->is_open) {
        *decompressed = (struct bytes){NULL, NULL};
        return begin_batch(decoder, fed, limits, out);
    }
    bool is_message = batch->magic != CURRENT_MAGIC;
    out->batch = is_message ? batch->last : batch->base;
    out->magic = batch->magic;
    if (batch->is_compressed && !decompressed->at) return request_decompression(batch, out);
    if (batch->is_compressed && !batch->is_started) {
        batch->at = 0;
        batch->end = size_of(*decompressed);
        int32_t status = is_message ? place_messages(batch, *decompressed) : DECODE_ON;
        if (status != DECODE_ON) return status;
        batch->is_started = true;
    }
    struct bytes from = batch->is_compressed ? *decompressed : fed;
    return (is_message ? read_messages : read_records)(decoder, from.at, size_of(from), limits, out);
}

/* --- Functions for Python ------------------------------------------------------------------------------------------ */

ZKAFKA_EXPORT zkafka_decoder *zkafka_decoder_new(const char *topic, int32_t partition) {
    zkafka_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return NULL;
    columns_begin(&decoder->columns);
    decoder->columns.topic = strdup(topic);
    decoder->columns.partition = partition;
    decoder->crc32c = crc32c_by_instructions();
    if (!decoder->crc32c) decoder->crc32c = crc32c_by_table;
    if (decoder->columns.topic) return decoder;
    free(decoder);
    return NULL;
}

ZKAFKA_EXPORT void zkafka_decoder_close(zkafka_decoder *decoder) {
    columns_clear(&decoder->columns);
    aborted_transactions_clear(&decoder->aborted);
    free(decoder->columns.topic);
    free(decoder);
}

ZKAFKA_EXPORT bool zkafka_decoder_project(zkafka_decoder *decoder, const int32_t *columns, const int32_t *texts, int32_t count) {
    return columns_project(&decoder->columns, columns, texts, count);
}

ZKAFKA_EXPORT void zkafka_decoder_seek(zkafka_decoder *decoder, int64_t offset) {
    decoder->position = offset;
    decoder->at = 0;
    decoder->batch.is_open = false;
    aborted_transactions_clear(&decoder->aborted);
}

ZKAFKA_EXPORT bool zkafka_decoder_feed(zkafka_decoder *decoder, const uint8_t *data, int64_t size, const int64_t *producers,
                                       const int64_t *first_offsets, int64_t count, struct zkafka_fed *out) {
    decoder->at = 0;
    decoder->batch.is_open = false;
    *out = measure((struct bytes){data, data + size});
    return aborted_transactions_set(&decoder->aborted, producers, first_offsets, count);
}

ZKAFKA_EXPORT int32_t zkafka_decoder_decode(zkafka_decoder *decoder, const uint8_t *data, int64_t size, const uint8_t *decompressed,
                                            int64_t decompressed_size, int64_t most_records, int64_t most_bytes, int64_t until,
                                            struct zkafka_decoded *out) {
    struct bytes fed = {data, data + size}, more = {decompressed, decompressed ? decompressed + decompressed_size : NULL};
    struct limits limits = {most_records, most_bytes, until};
    int32_t status = decoder->at <= size ? DECODE_ON : DECODE_MALFORMED;
    while (status == DECODE_ON)
        status = decoder->position < until && !is_full(out, &limits) ? step(decoder, fed, &more, &limits, out) : DECODE_STOPPED;
    out->position = decoder->position;
    out->exhausted = !decoder->batch.is_open && decoder->at <= size && !is_whole((struct bytes){data + decoder->at, data + size});
    return status;
}

ZKAFKA_EXPORT bool zkafka_decoder_take(zkafka_decoder *decoder, struct ArrowArray *out, struct zkafka_flaws *flaws) {
    *flaws = decoder->columns.flaws;
    return columns_take(&decoder->columns, out);
}
