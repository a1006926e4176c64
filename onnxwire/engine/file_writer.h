/* System calls that move bytes between files; one call each, so that the caller can handle signals in between.
 *
 * All return the number of bytes moved, which may be fewer than requested, or -errno; -ENOSYS if the platform lacks it.
 */
#ifndef ONNXWIRE_TRANSFER_H
#define ONNXWIRE_TRANSFER_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

#include "../_parallel.h"

#define OW_STREAM UINT64_MAX /* as an offset: the file's current position, for pipes and devices */

static inline int64_t ow_read(int fd, uint8_t *p, uint64_t n, uint64_t offset) {
#if defined(_WIN32)
    if (_lseeki64(fd, (__int64)offset, SEEK_SET) < 0) return -errno;
    int64_t moved = _read(fd, p, (unsigned)n);
#else
    int64_t moved = pread(fd, p, (size_t)n, (off_t)offset);
#endif
    return moved < 0 ? -errno : moved;
}

static inline int64_t ow_write(int fd, const uint8_t *p, uint64_t n, uint64_t offset) {
#if defined(_WIN32)
    if (offset != OW_STREAM && _lseeki64(fd, (__int64)offset, SEEK_SET) < 0) return -errno;
    int64_t moved = _write(fd, p, (unsigned)n);
#else
    int64_t moved = offset == OW_STREAM ? write(fd, p, (size_t)n) : pwrite(fd, p, (size_t)n, (off_t)offset);
#endif
    if (moved == 0) return -EIO; /* no error and no progress: a caller that went on would never end */
    return moved < 0 ? -errno : moved;
}

/* Copy in the kernel: on the server or by sharing blocks if the file system can. Returns 0 at the end of the source. */
static inline int64_t ow_copy(int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t n) {
#if defined(__linux__) && defined(SYS_copy_file_range)
    /* Called by its number: the C library that wheels are built against is older than the function. */
    int64_t from = (int64_t)source_offset, to = (int64_t)target_offset;
    int64_t moved = syscall(SYS_copy_file_range, source, &from, target, &to, (size_t)n, 0u);
    return moved < 0 ? -errno : moved;
#else
    (void)source, (void)source_offset, (void)target, (void)target_offset, (void)n;
    return -ENOSYS;
#endif
}

/* Return whether the file is on a network file system, whose server may copy it locally: NFS, SMB, Ceph, FUSE. */
static inline int ow_is_remote(int fd) {
#if defined(__linux__)
    struct statfs status;
    if (fstatfs(fd, &status) != 0) return 0;
    switch ((uint32_t)status.f_type) {
    case 0x00006969u:
    case 0xFE534D42u:
    case 0xFF534D42u:
    case 0x00C36400u:
    case 0x65735546u: return 1;
    }
#endif
    (void)fd;
    return 0;
}

enum {
    /* Fits the L2 cache. The kernel stores the data of one call in pages as large as possible; when its memory is
     * fragmented, allocating pages of 256 KiB took several times as long as the copy itself. */
    OW_BUFFER = 1 << 17,
    OW_PIECE = 1 << 20 /* bytes that a copying thread claims at a time */
};

typedef struct {
    int source, target;
    uint64_t offset, target_offset, n;
    uint64_t next; /* the first byte that no thread has claimed */
    int has_failed;
} ow_copying;

static void ow_copy_pieces(void *work) {
    ow_copying *copying = (ow_copying *)work;
    uint8_t *buffer = (uint8_t *)PyMem_RawMalloc(OW_BUFFER);
    int is_sound = buffer != NULL;
    while (is_sound && !ow_load_flag(&copying->has_failed)) {
        uint64_t done = ow_fetch_add(&copying->next, OW_PIECE);
        if (done >= copying->n) break;
        uint64_t end = copying->n - done < OW_PIECE ? copying->n : done + OW_PIECE;
        while (done < end) {
            uint64_t n = end - done < OW_BUFFER ? end - done : OW_BUFFER;
            int64_t found = ow_read(copying->source, buffer, n, copying->offset + done);
            int64_t moved = found;
            if (found > 0) moved = ow_write(copying->target, buffer, (uint64_t)found, copying->target_offset + done);
            if (moved == -EINTR) continue;
            if ((is_sound = moved > 0) == 0) break;
            done += (uint64_t)moved;
        }
    }
    PyMem_RawFree(buffer);
    if (!is_sound) ow_set_flag(&copying->has_failed);
}

/* Copy through memory with two threads. Returns whether all was copied; a caller that copies again gets the error. */
static inline int ow_copy_together(int source, uint64_t offset, int target, uint64_t target_offset, uint64_t n) {
    ow_copying copying = {source, target, offset, target_offset, n, 0, 0};
    ow_in_parallel(ow_copy_pieces, &copying, 0, ow_processors() < 2 ? 1 : 2);
    return !copying.has_failed;
}

/* Start writeback of a range, without waiting for it. */
static inline void ow_start_writeback(int fd, uint64_t offset, uint64_t n) {
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    (void)sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd, (void)offset, (void)n;
#endif
}

static inline int64_t ow_resize(int fd, uint64_t size) {
#if defined(_WIN32)
    return -(int64_t)_chsize_s(fd, (__int64)size);
#else
    return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
#endif
}

/* Return whether a file has fewer blocks than bytes, so that it may have holes. */
static inline int ow_is_sparse(int fd) {
#if defined(SEEK_DATA) && defined(SEEK_HOLE)
    struct stat status;
    return fstat(fd, &status) == 0 && (int64_t)status.st_blocks * 512 < (int64_t)status.st_size;
#else
    (void)fd;
    return 0;
#endif
}

/* Find the first range between offset and end that is not a hole: *data to *hole, both `end` if all is a hole; the
 * whole range if the platform does not support the query. The file's position, which other processes may share, is
 * restored. */
static inline void ow_find_data(int fd, uint64_t offset, uint64_t end, uint64_t *data, uint64_t *hole) {
    *data = offset;
    *hole = end;
#if defined(SEEK_DATA) && defined(SEEK_HOLE)
    off_t before = lseek(fd, 0, SEEK_CUR);
    struct stat status;
    /* A range past the file's end is an error, which reading reports. */
    if (before < 0 || fstat(fd, &status) != 0 || end > (uint64_t)status.st_size) return;
    off_t found = lseek(fd, (off_t)offset, SEEK_DATA);
    if (found < 0) {
        if (errno == ENXIO) *data = end;
    } else {
        *data = (uint64_t)found < end ? (uint64_t)found : end;
        found = lseek(fd, (off_t)*data, SEEK_HOLE);
        if (found >= 0 && (uint64_t)found < end) *hole = (uint64_t)found;
    }
    (void)lseek(fd, before, SEEK_SET);
#else
    (void)fd;
#endif
}

#endif
