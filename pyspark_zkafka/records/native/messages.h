/* Messages of formats 0 and 1, read like Kafka's LegacyRecord and AbstractLegacyRecordBatch (3.9.1), and numbers of the
 * protocol. */
#ifndef ZKAFKA_MESSAGES_H
#define ZKAFKA_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Big-endian numbers. */
static inline uint32_t unsigned_32(const uint8_t *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

static inline int32_t int_32(const uint8_t *data) { return (int32_t)unsigned_32(data); }
static inline int64_t int_64(const uint8_t *data) { return (int64_t)((uint64_t)unsigned_32(data) << 32 | unsigned_32(data + 4)); }

enum { MESSAGE_LEAST_BYTES = 26, MESSAGE_1_LEAST_BYTES = 34 }; /* with offset and size, of formats 0 and 1 */

struct message {
    int64_t size; /* including the fields offset and size */
    int64_t offset;
    int8_t magic;
    int32_t codec;          /* not 0: the value is a compressed set of messages */
    int32_t timestamp_type; /* -1 none, 0 create, 1 append */
    int64_t timestamp_ms;
    const void *key, *value; /* may be null */
    size_t key_bytes, value_bytes;
};

/* Reads the first message. Returns DECODE_ON, or why the message cannot be read. */
int32_t message_read(const uint8_t *data, int64_t size, struct message *);
/* The offset of the last message of a decompressed set; negative if a message is not complete. */
int64_t messages_last_offset(const uint8_t *data, int64_t size);

#endif
