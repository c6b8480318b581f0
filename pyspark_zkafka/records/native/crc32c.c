#include "crc32c.h"

#include <string.h>

/* The polynomials 0x1edc6f41 and 0x04c11db7, their bits reversed. */
static const uint32_t POLYNOMIAL = 0x82f63b78, POLYNOMIAL_OF_CRC_32 = 0xedb88320;

/* Three lanes of this size are summed side by side: an instruction takes three cycles, but one can start in every cycle. */
enum { LANE_BYTES = 512, CACHE_LINE_BYTES = 64 };
/* How far ahead to prefetch: two rounds of three lanes. This doubles the speed for bytes that are only in memory, and adds half
 * of the speed for bytes in the L3 cache. */
enum { AHEAD_BYTES = 6 * LANE_BYTES };

/* `sliced[n][byte]` is the checksum of a byte and n zeros after it. `shifted[n][byte]` is the checksum of byte n of a checksum
 * and a lane of zeros after it. */
static uint32_t sliced[8][256], shifted[4][256];
/* The CRC-32 of each byte. */
static uint32_t table_of_crc_32[256];

static uint32_t behind_zero(uint32_t crc) { return crc >> 8 ^ sliced[0][crc & 0xff]; }

/* The checksum of a byte, without the inversions before and after it. */
static uint32_t of_byte(uint32_t byte, uint32_t polynomial) {
    for (int bit = 0; bit < 8; bit++) byte = byte >> 1 ^ (byte & 1 ? polynomial : 0);
    return byte;
}

/* Runs when the library is loaded, before any thread uses it. Takes some ten microseconds. */
__attribute__((constructor)) static void make_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        sliced[0][byte] = of_byte(byte, POLYNOMIAL);
        table_of_crc_32[byte] = of_byte(byte, POLYNOMIAL_OF_CRC_32);
    }
    for (int n = 1; n < 8; n++)
        for (int byte = 0; byte < 256; byte++) sliced[n][byte] = behind_zero(sliced[n - 1][byte]);
    uint32_t bits[32];
    for (int bit = 0; bit < 32; bit++) {
        bits[bit] = UINT32_C(1) << bit;
        for (int i = 0; i < LANE_BYTES; i++) bits[bit] = behind_zero(bits[bit]);
    }
    for (int n = 0; n < 4; n++)
        for (int byte = 1; byte < 256; byte++) /* its lowest bit, and the other bits */
            shifted[n][byte] = shifted[n][byte & (byte - 1)] ^ bits[8 * n + __builtin_ctz((unsigned)byte)];
}

static uint64_t little_endian(const uint8_t *data) {
    uint64_t eight;
    memcpy(&eight, data, sizeof eight);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    eight = __builtin_bswap64(eight);
#endif
    return eight;
}

uint32_t crc32c_by_table(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t eight = little_endian(data) ^ crc;
        crc = 0;
        for (int n = 0; n < 8; n++) crc ^= sliced[7 - n][eight >> 8 * n & 0xff];
    }
    for (; size; data++, size--) crc = crc >> 8 ^ sliced[0][(crc ^ *data) & 0xff];
    return ~crc;
}

uint32_t crc32(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size; data++, size--) crc = crc >> 8 ^ table_of_crc_32[(crc ^ *data) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#if defined(__clang__) && __clang_major__ >= 14
#define WITH_INSTRUCTIONS __attribute__((target("sse4.2,crc32")))
#else
#define WITH_INSTRUCTIONS __attribute__((target("sse4.2")))
#endif
#define ADD_EIGHT(crc, data) (uint32_t) _mm_crc32_u64((crc), little_endian(data))
#define ADD_BYTE(crc, data) _mm_crc32_u8((crc), *(data))

static int has_instructions(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2;
}
#elif defined(__aarch64__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <sys/auxv.h>
#if defined(__clang__)
#define WITH_INSTRUCTIONS __attribute__((target("crc")))
#define ADD_EIGHT(crc, data) __builtin_arm_crc32cd((crc), little_endian(data))
#define ADD_BYTE(crc, data) __builtin_arm_crc32cb((crc), *(data))
#else
#define WITH_INSTRUCTIONS __attribute__((target("+crc")))
#define ADD_EIGHT(crc, data) __builtin_aarch64_crc32cx((crc), little_endian(data))
#define ADD_BYTE(crc, data) __builtin_aarch64_crc32cb((crc), *(data))
#endif

/* HWCAP_CRC32 of the kernel's asm/hwcap.h. */
static int has_instructions(void) { return (getauxval(AT_HWCAP) & 1 << 7) != 0; }
#endif

#ifdef WITH_INSTRUCTIONS
static uint32_t behind_lane(uint32_t crc) {
    return shifted[0][crc & 0xff] ^ shifted[1][crc >> 8 & 0xff] ^ shifted[2][crc >> 16 & 0xff] ^ shifted[3][crc >> 24];
}

WITH_INSTRUCTIONS static uint32_t fast(const uint8_t *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size >= 3 * LANE_BYTES; data += 3 * LANE_BYTES, size -= 3 * LANE_BYTES) {
        uint32_t second = 0, third = 0;
        if (size >= 3 * LANE_BYTES + AHEAD_BYTES)
            for (int i = 0; i < 3 * LANE_BYTES; i += CACHE_LINE_BYTES) __builtin_prefetch(data + AHEAD_BYTES + i);
        for (int i = 0; i < LANE_BYTES; i += 8) {
            crc = ADD_EIGHT(crc, data + i);
            second = ADD_EIGHT(second, data + LANE_BYTES + i);
            third = ADD_EIGHT(third, data + 2 * LANE_BYTES + i);
        }
        crc = behind_lane(behind_lane(crc) ^ second) ^ third;
    }
    for (; size >= 8; data += 8, size -= 8) crc = ADD_EIGHT(crc, data);
    for (; size; data++, size--) crc = ADD_BYTE(crc, data);
    return ~crc;
}

crc32c_function *crc32c_by_instructions(void) { return has_instructions() ? fast : NULL; }
#else
crc32c_function *crc32c_by_instructions(void) { return NULL; }
#endif
