/* CRC-32C (Castagnoli), the checksum of record batches, and CRC-32, the checksum of messages of formats 0 and 1. */
#ifndef ZKAFKA_CRC32C_H
#define ZKAFKA_CRC32C_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t crc32c_function(const uint8_t *data, size_t size);

/* By tables, on any processor. */
crc32c_function crc32c_by_table;
/* By instructions of the processor; null if it has none. */
crc32c_function *crc32c_by_instructions(void);

/* The CRC-32 of zlib. */
uint32_t crc32(const uint8_t *data, size_t size);

#endif
