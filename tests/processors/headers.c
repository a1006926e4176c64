/* The loops in onnxwire's headers against plain ones, on random bytes that end where memory does: one byte read too far
 * ends the program. Prints what it ran; exits with 1 at the first difference. `make processors` runs it for several. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../onnxwire/_packed.h"
#include "../../onnxwire/tensor/bits.h"

enum { ROUNDS = 4000, MAX_COUNT = 700, FILL = 0xA5 };

static uint64_t state = 1;

static uint64_t draw(uint64_t below) { /* xorshift64*, of Vigna: An experimental exploration (2016) */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545F4914F6CDD1DULL >> 16) % below;
}

/* Return n bytes that end where an inaccessible page begins. */
static uint8_t *bytes_before(uint8_t *page_end, size_t n) { return page_end - n; }

static uint8_t *map_pages(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (MAX_COUNT * 10 / page + 2) * page;
    uint8_t *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + size, page, PROT_NONE)) exit(2);
    return memory + size;
}

static void differ(const char *what, int round, int kind) {
    printf("%s: another result in round %d, kind %d\n", what, round, kind);
    exit(1);
}

/* A number a call, byte by byte; 0 where the run is damaged. */
static int read_plainly(const uint8_t **p, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int i = 0; *p < end && i < 10; i++) {
        uint8_t byte = *(*p)++;
        if (7 * i < 64) *value |= (uint64_t)(byte & 0x7F) << 7 * i;
        if (byte < 0x80) return 1;
    }
    return 0;
}

static uint64_t as_stored(const void *out, uint64_t i, int packed) {
    if (packed == OW_BOOL) return ((const uint8_t *)out)[i];
    return packed == OW_32 || packed == OW_ZIGZAG32 ? ((const uint32_t *)out)[i] : ((const uint64_t *)out)[i];
}

static uint64_t as_wanted(uint64_t value, int packed) {
    switch (packed) {
    case OW_32: return (uint32_t)value;
    case OW_BOOL: return value != 0;
    case OW_ZIGZAG64: return value & 1 ? ~(value >> 1) : value >> 1;
    case OW_ZIGZAG32: value = (uint32_t)value; return (uint32_t)(value & 1 ? ~(value >> 1) : value >> 1);
    default: return value;
    }
}

static size_t write_run(uint8_t *out) {
    size_t n = 0, most = draw(MAX_COUNT), shape = draw(4);
    while (n + 12 < most) {
        size_t length = shape == 0 ? 1 : shape == 1 ? 1 + draw(2) : 1 + draw(10);
        if (shape == 3 && draw(60) == 0) length = 11; /* longer than any number */
        for (size_t i = 0; i < length; i++) out[n++] = (uint8_t)(draw(128) | (i + 1 < length ? 0x80 : 0));
    }
    if (draw(4) == 0 && n < most) out[n++] = 0x80; /* cut */
    return n;
}

static void check_varints(int round, int level, uint8_t *end, uint8_t *out_end) {
    static uint8_t run[MAX_COUNT];
    size_t n = write_run(run);
    uint8_t *p = bytes_before(end, n);
    memcpy(p, run, n);
    uint64_t ends = 0;
    for (size_t i = 0; i < n; i++) ends += run[i] < 0x80;
    if (ow_count_varints(p, end) != ends) differ("count", round, level);
    static const size_t sizes[] = {8, 4, 1, 8, 4};
    for (int packed = OW_64; packed <= OW_ZIGZAG32; packed++) {
        uint64_t capacity = draw(2) ? ends + draw(2) * 64 : draw(ends + 1), value, count = 0;
        uint8_t *out = bytes_before(out_end, capacity * sizes[packed]);
        uint64_t found = ow_decode_varints(p, end, packed, out, capacity, level);
        const uint8_t *q = p;
        while (count < capacity && read_plainly(&q, end, &value)) {
            if (count >= found || as_stored(out, count, packed) != as_wanted(value, packed))
                differ("varints", round, packed);
            count++;
        }
        if (found != count) differ("how many varints", round, packed);
    }
}

static void check_bits(int round, uint8_t *end, uint8_t *out_end) {
    for (int bits = 2; bits <= 6; bits += 2) {
        size_t n = draw(MAX_COUNT), shift = bits == 6 ? 2 * draw(4) : bits * draw(8 / bits);
        size_t size = (shift + n * bits + 7) / 8, packed = (n * bits + 7) / 8;
        uint8_t *p = bytes_before(end, size), *out = bytes_before(out_end, n);
        for (size_t i = 0; i < size; i++) p[i] = (uint8_t)draw(256);
        ow_unpack(p, end, (int)shift, out, n, bits);
        for (size_t i = 0; i < n; i++) {
            unsigned wanted = 0;
            for (size_t k = 0; k < (size_t)bits; k++) {
                size_t bit = shift + i * bits + k;
                wanted |= (unsigned)(p[bit / 8] >> bit % 8 & 1) << k;
            }
            if (out[i] != wanted) differ("unpacking", round, bits);
        }
        uint8_t *again = bytes_before(end, packed);
        again[-1] = FILL;
        ow_pack(out, again, n, bits);
        for (size_t bit = 0; bit < packed * 8; bit++) {
            unsigned wanted = bit < n * bits ? out[bit / bits] >> bit % bits & 1 : 0;
            if ((again[bit / 8] >> bit % 8 & 1u) != wanted) differ("packing", round, bits);
        }
        if (again[-1] != FILL) differ("bytes before", round, bits);
    }
}

int main(void) {
    uint8_t *end = map_pages(), *out_end = map_pages();
    const uint16_t one = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int level = 0; level <= ow_best_level(); level++) check_varints(round, level, end, out_end);
        check_bits(round, end, out_end);
    }
    printf("%s-endian, packed runs at levels 0 to %d, bits of 2, 4 and 6: %d rounds, all equal\n",
           *(const uint8_t *)&one ? "little" : "big", ow_best_level(), ROUNDS);
    return 0;
}
