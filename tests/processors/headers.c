/* Compare the loops in _packed.h and tensor/bits.h with plain loops, on random bytes directly before an inaccessible
 * page, so that a read past the end of the bytes crashes the program. The program prints the number of rounds, and
 * exits with 1 at the first difference. `make processors` runs it on several processors. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../onnxwire/_packed.h"
#include "../../onnxwire/tensor/bits.h"

/* MAX_COUNT: maximum number of bytes of a run of varints, and of elements of a tensor. */
enum { ROUNDS = 4000, MAX_COUNT = 700, GUARD_BYTE = 0xA5 };

static uint64_t state = 1;

/* Return a random number less than `limit`. Source: xorshift64*, Vigna: An experimental exploration of Marsaglia's
 * xorshift generators, scrambled (2016). */
static uint64_t draw(uint64_t limit) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545F4914F6CDD1DULL >> 16) % limit;
}

/* Return n bytes that end where an inaccessible page begins. */
static uint8_t *bytes_before(uint8_t *page_end, size_t n) { return page_end - n; }

/* Return the end of at least 10 * MAX_COUNT writable bytes, where an inaccessible page begins. */
static uint8_t *map_pages(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (MAX_COUNT * 10 / page + 2) * page;
    uint8_t *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + size, page, PROT_NONE)) exit(2);
    return memory + size;
}

/* variant: the instruction level, the conversion or the number of bits that was checked. */
static void fail(const char *check, int round, int variant) {
    printf("%s: a difference in round %d, variant %d\n", check, round, variant);
    exit(1);
}

/* Read one varint byte by byte; return 0 if it is damaged. */
static int read_varint(const uint8_t **p, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int i = 0; *p < end && i < 10; i++) {
        uint8_t byte = *(*p)++;
        if (7 * i < 64) *value |= (uint64_t)(byte & 0x7F) << 7 * i;
        if (byte < 0x80) return 1;
    }
    return 0;
}

/* Return element i of the output. conversion: such as OW_32. */
static uint64_t stored_value(const void *out, uint64_t i, int conversion) {
    if (conversion == OW_BOOL) return ((const uint8_t *)out)[i];
    return conversion == OW_32 || conversion == OW_ZIGZAG32 ? ((const uint32_t *)out)[i] : ((const uint64_t *)out)[i];
}

/* Return a varint's value after a conversion. */
static uint64_t expected_value(uint64_t value, int conversion) {
    switch (conversion) {
    case OW_32: return (uint32_t)value;
    case OW_BOOL: return value != 0;
    case OW_ZIGZAG64: return value & 1 ? ~(value >> 1) : value >> 1;
    case OW_ZIGZAG32: value = (uint32_t)value; return (uint32_t)(value & 1 ? ~(value >> 1) : value >> 1);
    default: return value;
    }
}

/* Write random varints, some of them damaged. Return the number of bytes. */
static size_t write_run(uint8_t *out) {
    size_t n = 0, max_size = draw(MAX_COUNT), kind = draw(4); /* kinds of runs differ in the lengths of varints */
    while (n + 12 < max_size) {
        size_t length = kind == 0 ? 1 : kind == 1 ? 1 + draw(2) : 1 + draw(10);
        if (kind == 3 && draw(60) == 0) length = 11; /* longer than any valid varint */
        for (size_t i = 0; i < length; i++) out[n++] = (uint8_t)(draw(128) | (i + 1 < length ? 0x80 : 0));
    }
    if (draw(4) == 0 && n < max_size) out[n++] = 0x80; /* a truncated varint */
    return n;
}

static void check_varints(int round, int level, uint8_t *end, uint8_t *out_end) {
    static uint8_t run[MAX_COUNT];
    size_t n = write_run(run);
    uint8_t *p = bytes_before(end, n);
    memcpy(p, run, n);
    uint64_t n_varints = 0;
    for (size_t i = 0; i < n; i++) n_varints += run[i] < 0x80;
    if (ow_count_varints(p, end) != n_varints) fail("count", round, level);
    static const size_t sizes[] = {8, 4, 1, 8, 4}; /* bytes of a number by conversion, from OW_64 to OW_ZIGZAG32 */
    for (int conversion = OW_64; conversion <= OW_ZIGZAG32; conversion++) {
        uint64_t capacity = draw(2) ? n_varints + draw(2) * 64 : draw(n_varints + 1), value, count = 0;
        uint8_t *out = bytes_before(out_end, capacity * sizes[conversion]);
        uint64_t n_decoded = ow_decode_varints(p, end, conversion, out, capacity, level);
        const uint8_t *q = p;
        while (count < capacity && read_varint(&q, end, &value)) {
            if (count >= n_decoded || stored_value(out, count, conversion) != expected_value(value, conversion))
                fail("varints", round, conversion);
            count++;
        }
        if (n_decoded != count) fail("number of varints", round, conversion);
    }
}

static void check_bits(int round, uint8_t *end, uint8_t *out_end) {
    for (int bits = 2; bits <= 6; bits += 2) {
        /* shift: the number of bits before the first element in its byte. */
        size_t n = draw(MAX_COUNT), shift = bits == 6 ? 2 * draw(4) : bits * draw(8 / bits);
        size_t size = (shift + n * bits + 7) / 8, packed_size = (n * bits + 7) / 8;
        uint8_t *p = bytes_before(end, size), *out = bytes_before(out_end, n);
        for (size_t i = 0; i < size; i++) p[i] = (uint8_t)draw(256);
        ow_unpack(p, end, (int)shift, out, n, bits);
        for (size_t i = 0; i < n; i++) {
            unsigned expected = 0;
            for (size_t k = 0; k < (size_t)bits; k++) {
                size_t bit = shift + i * bits + k;
                expected |= (unsigned)(p[bit / 8] >> bit % 8 & 1) << k;
            }
            if (out[i] != expected) fail("unpacking", round, bits);
        }
        uint8_t *packed_bytes = bytes_before(end, packed_size);
        packed_bytes[-1] = GUARD_BYTE;
        ow_pack(out, packed_bytes, n, bits);
        for (size_t bit = 0; bit < packed_size * 8; bit++) {
            unsigned expected = bit < n * bits ? out[bit / bits] >> bit % bits & 1 : 0;
            if ((packed_bytes[bit / 8] >> bit % 8 & 1u) != expected) fail("packing", round, bits);
        }
        if (packed_bytes[-1] != GUARD_BYTE) fail("byte before the output", round, bits);
    }
}

int main(void) {
    uint8_t *end = map_pages(), *out_end = map_pages();
    const uint16_t one = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int level = 0; level <= ow_best_level(); level++) check_varints(round, level, end, out_end);
        check_bits(round, end, out_end);
    }
    printf("%s-endian, packed runs at levels 0 to %d, elements of 2, 4 and 6 bits: %d rounds, all equal\n",
           *(const uint8_t *)&one ? "little" : "big", ow_best_level(), ROUNDS);
    return 0;
}
