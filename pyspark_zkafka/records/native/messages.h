/* Messages of formats 0 and 1, as LegacyRecord and AbstractLegacyRecordBatch of Kafka (3.9.1) read them. */
#ifndef ZKAFKA_MESSAGES_H
#define ZKAFKA_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_LEAST_BYTES = 26, MESSAGE_1_LEAST_BYTES = 34 }; /* with offset and size, of formats 0 and 1 */

struct message {
    int64_t size; /* with its offset and size */
    int64_t offset;
    int8_t magic;
    int32_t codec;          /* not 0: the value is a set of messages, compressed */
    int32_t timestamp_type; /* -1 none, 0 create, 1 append */
    int64_t timestamp_ms;
    const void *key, *value; /* null for null */
    size_t key_bytes, value_bytes;
};

/* Reads the message at the start of the bytes. Returns DECODE_ON, or why it cannot be read. */
int32_t message_read(const uint8_t *data, int64_t size, struct message *);
/* The offset of the last message of a decompressed set; negative unless the set is a row of whole messages. */
int64_t messages_last_offset(const uint8_t *data, int64_t size);

#endif
