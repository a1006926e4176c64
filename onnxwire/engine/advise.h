/* Advice to the kernel and the processor about memory; no result depends on it.
 *
 * ow_narrow limits the pages that a page fault maps: a walk over a mapped file jumps from header to header (a header is
 * the bytes between two long values), and does not map the values.
 *
 * A fault in a file mapping maps the pages around it that are in the page cache, up to a large folio of 2 MiB, whatever
 * advice the mapping was given. The only bound is the mapping itself. A few pages with different advice become a
 * separate mapping, so a fault in it maps these pages only. The kernel allows about 65,000 mappings per process, so
 * callers limit the number of their calls.
 *
 * Each page that is not in the page cache takes a separate read, one after another. So ow_open_far and
 * ow_request_headers request pages before they are touched: listing 125 tensors of 8 MiB takes 11 instead of 36 ms.
 */
#ifndef ONNXWIRE_ADVISE_H
#define ONNXWIRE_ADVISE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "thresholds.h"

/* The number of bytes at the start of a file of at least OW_FAR_FILE_BYTES that are requested when it is opened, unless
 * they are in the page cache. The long values of such a file usually follow these bytes. */
#define OW_FIRST_BYTES ((size_t)256 << 10)

#if defined(__GNUC__) || defined(__clang__)
#define ow_prefetch(p) __builtin_prefetch(p)
#else
#define ow_prefetch(p) ((void)(p))
#endif

enum {
    OW_CACHE_LINE = 64,         /* bytes */
    OW_PREFETCH_BLOCK = 256,    /* bytes that are prefetched at once; 512 and 1024 are as fast or slower */
    OW_PREFETCH_DISTANCE = 2048 /* bytes from the scan to the block that it prefetches */
};

/* Prefetch the block that a scan at p will reach soon. Returns the address at which the scan should call this again, at
 * most `end`. A scan that skips from record to record reads one cache line of each, and would wait for memory each
 * time: the processor does not predict these addresses. */
static inline const uint8_t *ow_prefetch_block(const uint8_t *p, const uint8_t *end) {
    if (end - p <= OW_PREFETCH_DISTANCE + OW_PREFETCH_BLOCK) return end;
    for (size_t i = 0; i < OW_PREFETCH_BLOCK; i += OW_CACHE_LINE) ow_prefetch(p + OW_PREFETCH_DISTANCE + i);
    return p + OW_PREFETCH_BLOCK;
}

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

enum {
    OW_DISTANCES = 64,         /* capacity of the ring buffer of distances */
    OW_REQUESTED_HEADERS = 16, /* maximum number of headers in one prediction */
    OW_MAX_SHIFT = 64          /* maximum difference of two distances that count as equal, in bytes */
};

/* The headers that a walk jumped to. */
typedef struct {
    const uint8_t *last;               /* the header that was jumped to last */
    size_t distances[OW_DISTANCES];    /* distances between successive headers, a ring buffer */
    unsigned n;                        /* number of distances since the walk began or jumped backwards */
    unsigned pause;                    /* number of following jumps that predict nothing */
} OwHeaders;

static inline size_t ow_page_size(void) {
    static size_t page = 0;
    if (page == 0) page = (size_t)sysconf(_SC_PAGESIZE);
    return page;
}

/* Return whether two distances are those of similar tensors, whose names differ in length by a few bytes. */
static inline int ow_is_near(size_t a, size_t b) { return (a > b ? a - b : b - a) <= OW_MAX_SHIFT; }

/* Return the distance at index i, counted from the walk's first distance; i is one of the last OW_DISTANCES indices. */
static inline size_t ow_distance(const OwHeaders *headers, unsigned i) {
    return headers->distances[i % OW_DISTANCES];
}

/* Record a jump to the header at p. A jump backwards discards the distances. */
static inline void ow_record_jump(OwHeaders *headers, const uint8_t *p) {
    if (p <= headers->last) headers->n = headers->pause = 0;
    else if (headers->last != NULL) headers->distances[headers->n++ % OW_DISTANCES] = (size_t)(p - headers->last);
    headers->last = p;
}

/* Predict the headers that follow the header at p, which was jumped to last; store their addresses in `next`, and
 * return their number, at most OW_REQUESTED_HEADERS. After a prediction, the next OW_REQUESTED_HEADERS / 2 calls
 * predict nothing. The prediction assumes that the distances repeat, since the layers of a model are alike: `period` is
 * the difference between the index of the last distance and that of the latest earlier distance near it. The distances
 * before these two must be near each other as well, unless the earlier one of the two is the oldest recorded one. */
static inline unsigned ow_predict_headers(
    OwHeaders *headers, const uint8_t *p, const uint8_t *end, const uint8_t **next
) {
    unsigned count = 0;
    if (headers->n < 2) return 0;
    if (headers->pause) {
        headers->pause--;
        return 0;
    }
    const unsigned i = headers->n - 1;
    const unsigned oldest = headers->n > OW_DISTANCES ? headers->n - OW_DISTANCES : 0;
    unsigned period = 0;
    for (unsigned j = i; j-- > oldest && period == 0;)
        if (ow_is_near(ow_distance(headers, j), ow_distance(headers, i)) &&
            (j == oldest || ow_is_near(ow_distance(headers, j - 1), ow_distance(headers, i - 1)))) period = i - j;
    if (period == 0) return 0;
    for (; count < OW_REQUESTED_HEADERS; count++) {
        const size_t distance = ow_distance(headers, i - period + 1 + count % period);
        if ((size_t)(end - p) <= distance) break;
        p += distance;
        next[count] = p;
    }
    headers->pause = OW_REQUESTED_HEADERS / 2;
    return count;
}

/* Record a jump to the header at p. Request the pages of the headers that probably follow, unless the last of them is
 * in memory. */
static inline void ow_request_headers(OwHeaders *headers, const uint8_t *p, const uint8_t *end) {
    const uintptr_t page = ow_page_size();
    const uint8_t *next[OW_REQUESTED_HEADERS];
    ow_record_jump(headers, p);
    const unsigned count = ow_predict_headers(headers, p, end, next);
    for (unsigned k = 0; k < count; k++) next[k] = (const uint8_t *)((uintptr_t)next[k] & ~(page - 1));
    unsigned char resident = 1;
    if (count == 0 || mincore((void *)next[count - 1], 1, &resident) != 0 || resident & 1) return;
    for (unsigned k = 0; k < count; k++) {
        const size_t n_left = (size_t)(end - next[k]);
        (void)madvise((void *)next[k], n_left < 2 * page ? n_left : 2 * page, MADV_WILLNEED);
    }
}

/* Request the first `size` bytes of a large file, and no others: the system's own readahead may be megabytes. Returns
 * 0, or -1 if the mapping could not be divided. */
static inline int ow_open_far(const uint8_t *p, size_t size) {
    if (madvise((void *)p, size, MADV_RANDOM) != 0) return -1;
    (void)madvise((void *)p, size, MADV_WILLNEED);
    return 0;
}

/* Make the page of the header at p and the next page a separate mapping. Returns 0, or -1 on failure. */
static inline int ow_narrow(const uint8_t *p, const uint8_t *end) {
    const uintptr_t page = ow_page_size();
    uintptr_t start = (uintptr_t)p & ~(page - 1);
    uintptr_t length = 2 * page;
    if ((uintptr_t)end - start < length) length = (uintptr_t)end - start;
    return madvise((void *)start, length, MADV_RANDOM);
}

/* Request huge pages for an array that will be written; no-op below 4 MiB. Without huge pages, the page faults would
 * take as long as decoding the array. Pages have at least 4096 bytes. */
static inline void ow_request_huge_pages(void *p, size_t size) {
    uintptr_t start = ((uintptr_t)p + 4095) & ~(uintptr_t)4095;
    if (size >= 1 << 22) (void)madvise((void *)start, size - (start - (uintptr_t)p), MADV_HUGEPAGE);
}
#else
/* Other systems get no advice. Functions with a status return -1. */
typedef struct {
    int unused;
} OwHeaders;

static inline void ow_record_jump(OwHeaders *headers, const uint8_t *p) {
    (void)headers;
    (void)p;
}

static inline void ow_request_headers(OwHeaders *headers, const uint8_t *p, const uint8_t *end) {
    (void)headers;
    (void)p;
    (void)end;
}

static inline int ow_open_far(const uint8_t *p, size_t size) {
    (void)p;
    (void)size;
    return -1;
}

static inline void ow_request_huge_pages(void *p, size_t size) {
    (void)p;
    (void)size;
}

static inline int ow_narrow(const uint8_t *p, const uint8_t *end) {
    (void)p;
    (void)end;
    return -1;
}
#endif

#endif
