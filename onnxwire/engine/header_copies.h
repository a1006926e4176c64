/* Reads of headers (the bytes that follow long values of a mapped file), and requests for the pages of headers that a
 * walk will probably read next.
 *
 * The functions that read return the number of bytes that were read, or -1.
 */
#ifndef ONNXWIRE_HEADER_COPIES_H
#define ONNXWIRE_HEADER_COPIES_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include <stddef.h>
#include <stdint.h>

#include "advise.h"

#ifndef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Return whether a descriptor still refers to the file with this device and inode number: the program may have closed
 * the descriptor and opened another file. */
static inline int ow_is_file(int fd, uint64_t device, uint64_t inode) {
    struct stat status;
    return fstat(fd, &status) == 0 && (uint64_t)status.st_dev == device && (uint64_t)status.st_ino == inode;
}

/* Read bytes that are in the page cache. Does not wait for the disk: other bytes are not read. Returns -1 on systems
 * without RWF_NOWAIT. */
static inline int64_t ow_read_cached(int fd, uint8_t *out, size_t n, uint64_t offset) {
#ifdef RWF_NOWAIT
    struct iovec part = {out, n};
    return preadv2(fd, &part, 1, (off_t)offset, RWF_NOWAIT);
#else
    (void)fd; (void)out; (void)n; (void)offset;
    return -1;
#endif
}

/* Read bytes, from the disk if they are not in the page cache. */
static inline int64_t ow_read_range(int fd, uint8_t *out, size_t n, uint64_t offset) {
    ssize_t n_read;
    do n_read = pread(fd, out, n, (off_t)offset);
    while (n_read < 0 && errno == EINTR);
    return n_read;
}

/* Request the pages of the headers that probably follow the header at p. For each header, n bytes will be read, of
 * which the first `before` bytes precede the header. start, end: the start and end of the mapping of the file. No-op on
 * systems other than Linux. */
static inline void ow_request_ranges(
    int fd, OwHeaders *headers, const uint8_t *start, const uint8_t *p, const uint8_t *end, size_t before, size_t n
) {
#if defined(__linux__)
    const uint8_t *next[OW_REQUESTED_HEADERS];
    const unsigned count = ow_predict_headers(headers, p, end, next);
    for (unsigned i = 0; i < count; i++)
        (void)posix_fadvise(fd, (off_t)((size_t)(next[i] - start) - before), (off_t)n, POSIX_FADV_WILLNEED);
#else
    (void)fd; (void)headers; (void)start; (void)p; (void)end; (void)before; (void)n;
#endif
}
#else
/* On Windows, no headers are copied. */
static inline int ow_is_file(int fd, uint64_t device, uint64_t inode) {
    (void)fd; (void)device; (void)inode;
    return 0;
}

static inline int64_t ow_read_cached(int fd, uint8_t *out, size_t n, uint64_t offset) {
    (void)fd; (void)out; (void)n; (void)offset;
    return -1;
}

static inline int64_t ow_read_range(int fd, uint8_t *out, size_t n, uint64_t offset) {
    (void)fd; (void)out; (void)n; (void)offset;
    return -1;
}

static inline void ow_request_ranges(
    int fd, OwHeaders *headers, const uint8_t *start, const uint8_t *p, const uint8_t *end, size_t before, size_t n
) {
    (void)fd; (void)headers; (void)start; (void)p; (void)end; (void)before; (void)n;
}
#endif

#endif
