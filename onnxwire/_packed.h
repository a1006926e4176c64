/* Packed runs of varints -> arrays of numbers; at levels 1 and 2, 64 bytes of the run at a time.
 *
 * Bit i of a block's mask is set if byte i ends a varint. The loop over the set bits has one dependent instruction per
 * number, which clears a bit. Loading the eight bytes at each number's start and removing their top bits does not
 * depend on the previous number. The instructions for the mask and for removing bits are chosen at run time by the
 * processor's features:
 *
 *   level 0  scalar, any processor
 *   level 1  masks from 128-bit vectors (SSE2 is part of x86-64, NEON of aarch64), top bits removed by shifts
 *   level 2  masks from 256-bit vectors, top bits removed by pext (AVX2 and BMI2)
 *
 * Guarantee of every function with a parameter `end`: it reads no byte at or after `end`, and writes at most `capacity`
 * numbers.
 */
#ifndef ONNXWIRE_PACKED_H
#define ONNXWIRE_PACKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define OW_X86 1
#include <immintrin.h>
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__) && !defined(__AARCH64EB__)
#define OW_NEON 1
#include <arm_neon.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define OW_INLINE static inline __attribute__((always_inline))
#else
#define OW_INLINE static inline
#endif

enum { OW_64, OW_32, OW_BOOL, OW_ZIGZAG64, OW_ZIGZAG32 }; /* the same values as _varint.Packed */

/* Store a varint's value as element i of the array `out`; packed: the conversion, one of the constants above. */
OW_INLINE void ow_store(void *out, uint64_t i, uint64_t value, int packed) {
    switch (packed) {
    case OW_64: ((uint64_t *)out)[i] = value; break;
    case OW_32: ((uint32_t *)out)[i] = (uint32_t)value; break;
    case OW_BOOL: ((uint8_t *)out)[i] = value != 0; break;
    case OW_ZIGZAG64: ((uint64_t *)out)[i] = (value >> 1) ^ (0 - (value & 1)); break;
    case OW_ZIGZAG32: ((uint32_t *)out)[i] = ((uint32_t)value >> 1) ^ (0 - ((uint32_t)value & 1)); break;
    }
}

/* Decode varints from p on, writing to out[n] and after; return the new n. Stops at a damaged varint. */
OW_INLINE uint64_t ow_decode_scalar(const uint8_t *p, const uint8_t *end, void *out, uint64_t n, uint64_t capacity,
                             int packed) {
    while (p < end && n < capacity) {
        uint64_t value = 0;
        int shift = 0;
        for (;;) {
            if (p == end || shift == 70) return n;
            value |= (uint64_t)(*p & 0x7F) << shift;
            if (*p++ < 0x80) break;
            shift += 7;
        }
        ow_store(out, n++, value, packed);
    }
    return n;
}

#if defined(OW_X86) || defined(OW_NEON)

OW_INLINE uint64_t ow_load64(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8); /* both processors are little-endian here */
    return word;
}

/* Join the low 7 bits of eight bytes to a 56-bit number. */
OW_INLINE uint64_t ow_squeeze_shifts(uint64_t w) {
    w &= 0x7F7F7F7F7F7F7F7FULL;
    w = (w & 0x007F007F007F007FULL) | ((w & 0x7F007F007F007F00ULL) >> 1);
    w = (w & 0x00003FFF00003FFFULL) | ((w & 0x3FFF00003FFF0000ULL) >> 2);
    return (w & 0x000000000FFFFFFFULL) | ((w & 0x0FFFFFFF00000000ULL) >> 4);
}

#ifdef OW_X86
/* Return the mask of the 64 bytes at p: bit i is set if byte i ends a varint. */
OW_INLINE uint64_t ow_ends_128(const uint8_t *p) {
    uint64_t mask = 0;
    for (int i = 0; i < 4; i++)
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i))) << (16 * i);
    return ~mask;
}

/* Do the same as ow_ends_128 with AVX2. */
__attribute__((target("avx2,bmi,bmi2,popcnt"))) static inline uint64_t ow_ends_256(const uint8_t *p) {
    uint64_t low = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)p));
    uint64_t high = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(p + 32)));
    return ~(low | high << 32);
}

/* Do the same as ow_squeeze_shifts by one instruction. */
__attribute__((target("avx2,bmi,bmi2,popcnt"))) static inline uint64_t ow_squeeze_pext(uint64_t w) {
    return _pext_u64(w, 0x7F7F7F7F7F7F7F7FULL);
}
#else
/* Return the mask of the 64 bytes at p: bit i is set if byte i ends a varint. Each byte contributes its bit; sums of
 * pairs join eight bytes to one. */
OW_INLINE uint64_t ow_ends_128(const uint8_t *p) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t top = vdupq_n_u8(0x80);
    uint8x16_t a = vandq_u8(vcltq_u8(vld1q_u8(p), top), bit);
    uint8x16_t b = vandq_u8(vcltq_u8(vld1q_u8(p + 16), top), bit);
    uint8x16_t c = vandq_u8(vcltq_u8(vld1q_u8(p + 32), top), bit);
    uint8x16_t d = vandq_u8(vcltq_u8(vld1q_u8(p + 48), top), bit);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}
#endif

/* The loop of level 1. `v` is the start of the current number, `b` that of the current block; v <= b before each block.
 * A block is read only if 8 more bytes follow it, so that a load of 8 bytes at any v inside it stays before `end`. */
#define OW_LOOP_1(NAME, PACKED)                                                                                       \
    static uint64_t NAME(const uint8_t *p, const uint8_t *end, void *out, uint64_t capacity) {                        \
        const uint8_t *v = p;                                                                                         \
        uint64_t n = 0;                                                                                               \
        for (const uint8_t *b = p; end - b >= 72 && capacity - n >= 64; b += 64) {                                    \
            uint64_t ends = ow_ends_128(b);                                                                           \
            if (ends == ~0ULL && v == b) {                                                                            \
                for (int i = 0; i < 64; i++) ow_store(out, n + i, b[i], PACKED);                                      \
                n += 64;                                                                                              \
                v = b + 64;                                                                                           \
                continue;                                                                                             \
            }                                                                                                         \
            while (ends) {                                                                                            \
                const uint8_t *last = b + __builtin_ctzll(ends);                                                      \
                size_t length = (size_t)(last - v) + 1;                                                               \
                uint64_t value;                                                                                       \
                ends &= ends - 1;                                                                                     \
                if (length <= 8) {                                                                                    \
                    value = ow_squeeze_shifts(ow_load64(v) << (64 - 8 * length) >> (64 - 8 * length));                \
                } else if (length <= 10) {                                                                            \
                    value = ow_squeeze_shifts(ow_load64(v)) | (uint64_t)(v[8] & 0x7F) << 56;                          \
                    if (length == 10) value |= (uint64_t)v[9] << 63;                                                  \
                } else {                                                                                              \
                    return n;                                                                                         \
                }                                                                                                     \
                ow_store(out, n++, value, PACKED);                                                                    \
                v = last + 1;                                                                                         \
            }                                                                                                         \
        }                                                                                                             \
        return ow_decode_scalar(v, end, out, n, capacity, PACKED);                                                    \
    }

/* Defines the functions of a level, one for each conversion. */
#define OW_DEFINE_LEVEL(LEVEL, DEFINE)                                                                                \
    DEFINE(ow_##LEVEL##_64, OW_64)                                                                                    \
    DEFINE(ow_##LEVEL##_32, OW_32)                                                                                    \
    DEFINE(ow_##LEVEL##_bool, OW_BOOL)                                                                                \
    DEFINE(ow_##LEVEL##_zigzag64, OW_ZIGZAG64)                                                                        \
    DEFINE(ow_##LEVEL##_zigzag32, OW_ZIGZAG32)

OW_DEFINE_LEVEL(level1, OW_LOOP_1)

#ifdef OW_X86
/* The loop of level 2. It has no branch per number: if lengths follow no pattern, such a branch is mispredicted every
 * few numbers, which costs more than decoding one. It branches per block: without a varint of more than 8 bytes, four
 * numbers are written at a time, up to three too many, which the next numbers overwrite. A block has at most 64 numbers,
 * so the excess numbers are within the capacity. The next number starts after the block's last end, not after the last
 * number written. Bit i of `cont` is set if byte i continues a varint, bit i of `cont8` if bytes i to i + 7 do. */
#define OW_LOOP_2(NAME, PACKED)                                                                                       \
    __attribute__((target("avx2,bmi,bmi2,popcnt"))) static uint64_t NAME(const uint8_t *p, const uint8_t *end,        \
                                                                         void *out, uint64_t capacity) {              \
        static const uint64_t high_bits[11] = {[9] = 0x7F, [10] = 0x17F}; /* for bytes 8 and 9, by the length */      \
        const uint8_t *v = p;                                                                                         \
        uint64_t n = 0;                                                                                               \
        for (const uint8_t *b = p; end - b >= 80 && capacity - n >= 64; b += 64) {                                    \
            uint64_t ends = ow_ends_256(b), cont = ~ends;                                                             \
            if (cont == 0 && v == b) {                                                                                \
                for (int i = 0; i < 64; i++) ow_store(out, n + i, b[i], PACKED);                                      \
                n += 64;                                                                                              \
                v = b + 64;                                                                                           \
                continue;                                                                                             \
            }                                                                                                         \
            uint64_t cont2 = cont & cont >> 1, cont4 = cont2 & cont2 >> 2, cont8 = cont4 & cont4 >> 4;                \
            /* A varint of more than 10 bytes: ten continuation bytes in a row, counting those before the block. */   \
            if (cont8 & cont8 >> 2 || (b - v) + __builtin_ctzll(ends) >= 10) break;                                   \
            int count = __builtin_popcountll(ends);                                                                   \
            const uint8_t *next = b + 64 - __builtin_clzll(ends);                                                     \
            if (cont8 == 0 && (b - v) + __builtin_ctzll(ends) < 8) {                                                  \
                for (int i = 0; i < count; i += 4) {                                                                  \
                    for (int k = 0; k < 4; k++) {                                                                     \
                        const uint8_t *last = b + _tzcnt_u64(ends);                                                   \
                        uint64_t word = _bzhi_u64(ow_load64(v), (unsigned)(8 * (last + 1 - v)));                      \
                        ow_store(out, n + i + k, ow_squeeze_pext(word), PACKED);                                      \
                        ends = _blsr_u64(ends);                                                                       \
                        v = last + 1;                                                                                 \
                    }                                                                                                 \
                }                                                                                                     \
            } else {                                                                                                  \
                for (int i = 0; i < count; i++) {                                                                     \
                    const uint8_t *last = b + _tzcnt_u64(ends);                                                       \
                    size_t length = (size_t)(last + 1 - v);                                                           \
                    uint64_t word = _bzhi_u64(ow_load64(v), (unsigned)(8 * length));                                  \
                    uint64_t high = _pext_u64(v[8] | (uint64_t)v[9] << 8, high_bits[length]);                         \
                    ow_store(out, n + i, ow_squeeze_pext(word) | high << 56, PACKED);                                 \
                    ends = _blsr_u64(ends);                                                                           \
                    v = last + 1;                                                                                     \
                }                                                                                                     \
            }                                                                                                         \
            n += (uint64_t)count;                                                                                     \
            v = next;                                                                                                 \
        }                                                                                                             \
        return ow_decode_scalar(v, end, out, n, capacity, PACKED);                                                    \
    }

OW_DEFINE_LEVEL(level2, OW_LOOP_2)
#endif
#endif

/* Decodes varints from p to end; writes at most `capacity` numbers to `out` and returns how many. */
typedef uint64_t (*ow_decode)(const uint8_t *, const uint8_t *, void *, uint64_t);

/* Return the highest instruction level that this build and this processor support. */
static int ow_best_level(void) {
#ifdef OW_X86
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") ? 2 : 1;
#elif defined(OW_NEON)
    return 1;
#else
    return 0;
#endif
}

/* Decode a run at a level that the processor supports; return the number of values written. */
static uint64_t ow_decode_varints(const uint8_t *p, const uint8_t *end, int packed, void *out, uint64_t capacity,
                                  int level) {
#ifdef OW_X86
    static const ow_decode level2[] = {ow_level2_64, ow_level2_32, ow_level2_bool, ow_level2_zigzag64,
                                       ow_level2_zigzag32};
    if (level == 2) return level2[packed](p, end, out, capacity);
#endif
#if defined(OW_X86) || defined(OW_NEON)
    static const ow_decode level1[] = {ow_level1_64, ow_level1_32, ow_level1_bool, ow_level1_zigzag64,
                                       ow_level1_zigzag32};
    if (level == 1) return level1[packed](p, end, out, capacity);
#endif
    (void)level;
    switch (packed) {
    case OW_64: return ow_decode_scalar(p, end, out, 0, capacity, OW_64);
    case OW_32: return ow_decode_scalar(p, end, out, 0, capacity, OW_32);
    case OW_BOOL: return ow_decode_scalar(p, end, out, 0, capacity, OW_BOOL);
    case OW_ZIGZAG64: return ow_decode_scalar(p, end, out, 0, capacity, OW_ZIGZAG64);
    default: return ow_decode_scalar(p, end, out, 0, capacity, OW_ZIGZAG32);
    }
}

/* Return the number of bytes that end a varint. */
static uint64_t ow_count_varints(const uint8_t *p, const uint8_t *end) {
    uint64_t n = 0;
#if defined(OW_X86)
    /* Each of the 16 bytes of `counts` counts to 255; psadbw adds the bytes. The popcnt instruction is not part of
     * x86-64. */
    while (end - p >= 16) {
        const uint8_t *stop = p + (end - p < 255 * 16 ? (end - p) & ~(ptrdiff_t)15 : 255 * 16);
        __m128i counts = _mm_setzero_si128();
        for (; p < stop; p += 16)
            counts = _mm_sub_epi8(
                counts, _mm_cmpgt_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(-1)));
        __m128i sums = _mm_sad_epu8(counts, _mm_setzero_si128());
        n += (uint64_t)_mm_cvtsi128_si64(sums) + (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(sums, 8));
    }
#elif defined(OW_NEON)
    for (; end - p >= 64; p += 64) n += (uint64_t)__builtin_popcountll(ow_ends_128(p));
#endif
    for (; p < end; p++) n += *p < 0x80;
    return n;
}

#endif
