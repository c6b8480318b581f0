#include "messages.h"

#include "crc32c.h"
#include "zkafka.h"

/* Offsets of fields in a message. `SIZE` counts the bytes after itself. `CRC` is the checksum of the bytes after itself. */
enum { OFFSET = 0, SIZE = 8, SIZE_END = 12, CRC = 12, MAGIC = 16, ATTRIBUTES = 17, TIMESTAMP = 18 };
enum { CODEC_MASK = 0x7, IS_LOG_APPEND_TIME = 0x8, LAST_CODEC = 3 };

/* The size of the first message, including its fields offset and size. 0 if the message is not complete. */
static int64_t whole_size(const uint8_t *data, int64_t size) {
    if (size < MESSAGE_LEAST_BYTES) return 0;
    int64_t found = (int64_t)int_32(data + SIZE) + SIZE_END;
    int64_t least = data[MAGIC] == 0 ? MESSAGE_LEAST_BYTES : MESSAGE_1_LEAST_BYTES;
    return found < least || found > size ? 0 : found;
}

/* Reads a length and that many bytes. A negative length stands for null. */
static bool read_data(const uint8_t **at, const uint8_t *end, const void **data, size_t *size) {
    if (end - *at < 4) return false;
    int32_t length = int_32(*at);
    *at += 4;
    if (length > end - *at) return false;
    *data = length < 0 ? NULL : *at;
    *size = length < 0 ? 0 : (size_t)length;
    *at += *size;
    return true;
}

int32_t message_read(const uint8_t *data, int64_t size, struct message *message) {
    *message = (struct message){.size = whole_size(data, size), .timestamp_type = -1, .timestamp_ms = -1};
    if (!message->size) return DECODE_MALFORMED;
    message->offset = int_64(data + OFFSET);
    message->magic = (int8_t)data[MAGIC];
    if (message->magic != 0 && message->magic != 1) return DECODE_OTHER_FORMAT;
    if (crc32(data + MAGIC, (size_t)(message->size - MAGIC)) != unsigned_32(data + CRC)) return DECODE_WRONG_CHECKSUM;
    message->codec = data[ATTRIBUTES] & CODEC_MASK;
    if (message->codec > LAST_CODEC) return DECODE_UNKNOWN_CODEC;
    const uint8_t *at = data + TIMESTAMP;
    if (message->magic == 1) {
        message->timestamp_type = (data[ATTRIBUTES] & IS_LOG_APPEND_TIME) != 0;
        message->timestamp_ms = int_64(at);
        at += 8;
    }
    const uint8_t *end = data + message->size;
    bool whole = read_data(&at, end, &message->key, &message->key_bytes) && read_data(&at, end, &message->value, &message->value_bytes);
    return whole && message->offset >= 0 ? DECODE_ON : DECODE_MALFORMED;
}

int64_t messages_last_offset(const uint8_t *data, int64_t size) {
    int64_t last = -1, found;
    for (int64_t at = 0; at < size; at += found) {
        found = whole_size(data + at, size - at);
        if (!found) return -1;
        last = int_64(data + at + OFFSET);
    }
    return last;
}
