/* Convert elements of 2, 4 or 6 bits, packed low bits first, to and from one byte per element.
 *
 * Eight elements of b bits take exactly b bytes. Loaded as one little-endian number, they are spread over eight bytes
 * in three steps, each of which moves the upper half of every group into position: 4 elements to 32 bits, 2 to 16, 1 to
 * 8. With constant b this takes about ten instructions for every width on every processor. Packing is the inverse. With
 * the compiler's vector types (SSE2 on x86-64, NEON on aarch64) two such numbers are processed at a time.
 *
 * `ow_unpack` does not read at or after `end`. `ow_unpack` and `ow_pack` write exactly the bytes of the elements.
 */
#ifndef ONNXWIRE_BITS_H
#define ONNXWIRE_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define OW_INLINE static inline __attribute__((always_inline))
typedef uint64_t ow_words __attribute__((vector_size(16)));
#else
#define OW_INLINE static inline
typedef uint64_t ow_words;
#endif

enum { OW_WORDS = sizeof(ow_words) / 8, OW_GROUP = sizeof(ow_words) /* elements processed at a time */ };

#define OW_EVERY(n) (~(uint64_t)0 / OW_LOW(n))    /* the lowest bit of every n bits; n divides 64 */
#define OW_LOW(n) (((uint64_t)1 << (n)) - 1)     /* n set bits */

OW_INLINE uint64_t ow_swap_if_big_endian(uint64_t word) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

/* Load 8 bytes per word, from addresses `stride` bytes apart. */
OW_INLINE ow_words ow_load_words(const uint8_t *p, int stride) {
    uint64_t array[OW_WORDS];
    ow_words words;
    for (int i = 0; i < OW_WORDS; i++) {
        memcpy(&array[i], p + i * stride, 8);
        array[i] = ow_swap_if_big_endian(array[i]);
    }
    memcpy(&words, array, sizeof words);
    return words;
}

/* Store 8 bytes per word, in order, `stride` bytes apart. If the stride is below 8, each word overwrites the last bytes
 * of the previous one. */
OW_INLINE void ow_store_words(uint8_t *p, ow_words words, int stride) {
    uint64_t array[OW_WORDS];
    memcpy(array, &words, sizeof words);
    for (int i = 0; i < OW_WORDS; i++) {
        array[i] = ow_swap_if_big_endian(array[i]);
        memcpy(p + i * stride, &array[i], 8);
    }
}

/* Spread the low 8 * b bits over eight bytes, b bits each. Higher bits are ignored. */
OW_INLINE ow_words ow_spread(ow_words w, int b) {
    w = (w & OW_LOW(4 * b)) | (w & OW_LOW(4 * b) << 4 * b) << (32 - 4 * b);
    w = (w & OW_LOW(2 * b) * OW_EVERY(32)) | (w & (OW_LOW(2 * b) << 2 * b) * OW_EVERY(32)) << (16 - 2 * b);
    return (w & OW_LOW(b) * OW_EVERY(16)) | (w & (OW_LOW(b) << b) * OW_EVERY(16)) << (8 - b);
}

/* Collect the low b bits of eight bytes into the low 8 * b bits. */
OW_INLINE ow_words ow_gather(ow_words w, int b) {
    w = (w & OW_LOW(b) * OW_EVERY(16)) | (w >> (8 - b) & (OW_LOW(b) << b) * OW_EVERY(16));
    w = (w & OW_LOW(2 * b) * OW_EVERY(32)) | (w >> (16 - 2 * b) & (OW_LOW(2 * b) << 2 * b) * OW_EVERY(32));
    return (w & OW_LOW(4 * b)) | (w >> (32 - 4 * b) & OW_LOW(4 * b) << 4 * b);
}

/* Unpack OW_GROUP elements of b bits that begin `shift` bits above the lowest bit at p. */
OW_INLINE void ow_unpack_group(const uint8_t *p, int shift, uint8_t *out, int b) {
    ow_store_words(out, ow_spread(ow_load_words(p, b) >> shift, b), 8); /* shift + 8 * b is at most 6 + 48 of 64 bits */
}

/* `ow_unpack` with a constant width b, without a read past `end`: the last elements go through copies. */
OW_INLINE void ow_unpack_b(const uint8_t *p, const uint8_t *end, int shift, uint8_t *out, size_t n, int b) {
    const int step = OW_WORDS * b;       /* bytes of a group */
    const int read_bytes = step - b + 8; /* bytes that `ow_unpack_group` reads */
    for (; n >= OW_GROUP && end - p >= read_bytes; n -= OW_GROUP, p += step, out += OW_GROUP)
        ow_unpack_group(p, shift, out, b);
    while (n > 0) {
        uint8_t packed[OW_GROUP + 8] = {0}, elements[OW_GROUP];
        size_t n_elements = n < OW_GROUP ? n : OW_GROUP;
        memcpy(packed, p, end - p < read_bytes ? (size_t)(end - p) : (size_t)read_bytes);
        ow_unpack_group(packed, shift, elements, b);
        memcpy(out, elements, n_elements);
        n -= n_elements;
        out += n_elements;
        p += end - p < step ? end - p : step;
    }
}

/* `ow_pack` with a constant width b. Storing a group writes 8 - b bytes too many, so the last groups are copied. */
OW_INLINE void ow_pack_b(const uint8_t *p, uint8_t *out, size_t n, int b) {
    const size_t step = OW_WORDS * b;          /* bytes of a group */
    const size_t stored_bytes = step - b + 8; /* bytes that storing a group writes */
    size_t n_left_bytes = n / 8 * b + (n % 8 * b + 7) / 8;
    for (; n_left_bytes >= stored_bytes && n >= OW_GROUP; n -= OW_GROUP, n_left_bytes -= step) {
        ow_store_words(out, ow_gather(ow_load_words(p, 8), b), b);
        p += OW_GROUP;
        out += step;
    }
    while (n > 0) {
        uint8_t elements[OW_GROUP] = {0}, packed[OW_GROUP + 8];
        size_t n_elements = n < OW_GROUP ? n : OW_GROUP, n_bytes = n_left_bytes < step ? n_left_bytes : step;
        memcpy(elements, p, n_elements);
        ow_store_words(packed, ow_gather(ow_load_words(elements, 8), b), b);
        memcpy(out, packed, n_bytes);
        n -= n_elements;
        n_left_bytes -= n_bytes;
        p += n_elements;
        out += n_bytes;
    }
}

/* Unpack n elements of `bits` bits. They begin `shift` bits (0 to 6) above the lowest bit at p. */
static void ow_unpack(const uint8_t *p, const uint8_t *end, int shift, uint8_t *out, size_t n, int bits) {
    switch (bits) {
    case 2: ow_unpack_b(p, end, shift, out, n, 2); break;
    case 4: ow_unpack_b(p, end, shift, out, n, 4); break;
    case 6: ow_unpack_b(p, end, shift, out, n, 6); break;
    }
}

/* Write the low `bits` bits of n bytes to (n * bits + 7) / 8 bytes. The last byte is padded with zero bits. */
static void ow_pack(const uint8_t *p, uint8_t *out, size_t n, int bits) {
    switch (bits) {
    case 2: ow_pack_b(p, out, n, 2); break;
    case 4: ow_pack_b(p, out, n, 4); break;
    case 6: ow_pack_b(p, out, n, 6); break;
    }
}

#endif
