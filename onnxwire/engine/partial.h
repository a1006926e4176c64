/* Reserved address space whose ranges are made accessible one by one. Arguments of the functions: `start` and `size` of
 * the reserved space, and for ow_make_accessible the range of n bytes at `offset`. For ow_populate, `start` is the
 * start of a range of n bytes.
 *
 * Access to a range that was not made accessible ends the process, so that a missing check for residence can't return
 * bytes that were never fetched. The kernel allows a process about 65,000 mappings of different protection; when they
 * are used up, the whole address space is made accessible, and only the bitmap of resident pages shows which bytes may
 * be read.
 */
#ifndef ONNXWIRE_PARTIAL_H
#define ONNXWIRE_PARTIAL_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#include <windows.h>

/* Reserve address space. Returns NULL on failure. */
static inline uint8_t *ow_reserve(size_t size) {
    return (uint8_t *)VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS);
}

/* Make the n bytes from `offset` accessible; start, size: the address space. Returns 0, or -1 on failure. */
static inline int ow_make_accessible(uint8_t *start, size_t size, size_t offset, size_t n) {
    (void)size;
    return VirtualAlloc(start + offset, n, MEM_COMMIT, PAGE_READWRITE) == NULL ? -1 : 0;
}

static inline void ow_populate(uint8_t *start, size_t n) {
    (void)start;
    (void)n;
}

static inline void ow_release(uint8_t *start, size_t size) {
    (void)size;
    VirtualFree(start, 0, MEM_RELEASE);
}
#else
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
/* In the sanitized build, ASan reports an access to a byte that is not accessible. */
#include <sanitizer/asan_interface.h>

#define OW_RESERVED (PROT_READ | PROT_WRITE)
#define OW_HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define OW_SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define OW_RESERVED PROT_NONE
#define OW_HIDE(p, n) ((void)0)
#define OW_SHOW(p, n) ((void)0)
#endif

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static inline uint8_t *ow_reserve(size_t size) {
    void *start = mmap(NULL, size, OW_RESERVED, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    OW_HIDE(start, size);
    return (uint8_t *)start;
}

static inline int ow_make_accessible(uint8_t *start, size_t size, size_t offset, size_t n) {
    OW_SHOW(start + offset, n);
    if (OW_RESERVED != PROT_NONE || mprotect(start + offset, n, PROT_READ | PROT_WRITE) == 0) return 0;
    return mprotect(start, size, PROT_READ | PROT_WRITE);
}

/* Allocate all pages of a range that is about to be written, instead of one per page fault. No-op below 64 KiB, and on
 * systems without MADV_POPULATE_WRITE. */
static inline void ow_populate(uint8_t *start, size_t n) {
#if defined(MADV_POPULATE_WRITE)
    if (n >= 1 << 16) (void)madvise(start, n, MADV_POPULATE_WRITE);
#else
    (void)start;
    (void)n;
#endif
}

static inline void ow_release(uint8_t *start, size_t size) {
    OW_SHOW(start, size);
    (void)munmap(start, size);
}
#endif

#endif
