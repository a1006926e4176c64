/* Advice to the kernel about memory; only speed depends on it.
 *
 * ow_narrow limits page faults: a walk that jumps from header to header of a mapped file does not map the values
   between them.
 *
 * A fault in a file mapping maps the pages around it that are in the page cache, up to a large folio of 2 MiB, whatever
 * advice the mapping was given. The only bound is the mapping itself. A few pages with different advice become a
 * separate mapping, so a fault in it maps these pages only. The kernel allows about 65,000 mappings per process, so
 * callers have a budget.
 */
#ifndef ONNXWIRE_ADVISE_H
#define ONNXWIRE_ADVISE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

static inline int ow_narrow(const uint8_t *p, const uint8_t *end) {
    static uintptr_t page = 0;
    if (page == 0) page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)p & ~(page - 1);
    uintptr_t length = 2 * page;
    if ((uintptr_t)end - start < length) length = (uintptr_t)end - start;
    return madvise((void *)start, length, MADV_RANDOM);
}

/* Request huge pages for a large array that will be written: its page faults would take as long as its decoding. */
static inline void ow_enlarge(void *p, size_t size) {
    uintptr_t start = ((uintptr_t)p + 4095) & ~(uintptr_t)4095;
    if (size >= 1 << 22) (void)madvise((void *)start, size - (start - (uintptr_t)p), MADV_HUGEPAGE);
}
#else
static inline void ow_enlarge(void *p, size_t size) {
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
