/* System calls that read, write and copy bytes of files, recognize network file systems, start writeback, set the size
 * of a file, and find holes.
 *
 * ow_read, ow_write and ow_copy do not retry, so that the caller can handle signals between attempts. They return the
 * number of bytes moved, which may be fewer than requested, or -errno; ow_copy returns -ENOSYS if the platform lacks
 * the call.
 */
#ifndef ONNXWIRE_FILE_WRITER_H
#define ONNXWIRE_FILE_WRITER_H

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
    int64_t n_moved = _read(fd, p, (unsigned)n);
#else
    int64_t n_moved = pread(fd, p, (size_t)n, (off_t)offset);
#endif
    return n_moved < 0 ? -errno : n_moved;
}

static inline int64_t ow_write(int fd, const uint8_t *p, uint64_t n, uint64_t offset) {
#if defined(_WIN32)
    if (offset != OW_STREAM && _lseeki64(fd, (__int64)offset, SEEK_SET) < 0) return -errno;
    int64_t n_moved = _write(fd, p, (unsigned)n);
#else
    int64_t n_moved = offset == OW_STREAM ? write(fd, p, (size_t)n) : pwrite(fd, p, (size_t)n, (off_t)offset);
#endif
    if (n_moved == 0) return -EIO; /* no error, but no progress: a caller that retries would loop for ever */
    return n_moved < 0 ? -errno : n_moved;
}

/* Copy in the kernel: on the server or by sharing blocks if the file system can. Returns 0 at the end of the source. */
static inline int64_t ow_copy(int source, uint64_t source_offset, int target, uint64_t target_offset, uint64_t n) {
#if defined(__linux__) && defined(SYS_copy_file_range)
    /* Called by its number: the C library that wheels are built against is older than the function. */
    int64_t from = (int64_t)source_offset, to = (int64_t)target_offset;
    int64_t n_moved = syscall(SYS_copy_file_range, source, &from, target, &to, (size_t)n, 0u);
    return n_moved < 0 ? -errno : n_moved;
#else
    (void)source, (void)source_offset, (void)target, (void)target_offset, (void)n;
    return -ENOSYS;
#endif
}

/* Return whether the file may be on a network file system, whose server can copy it: NFS, SMB, Ceph, FUSE. */
static inline int ow_is_remote(int fd) {
#if defined(__linux__)
    struct statfs status;
    if (fstatfs(fd, &status) != 0) return 0;
    switch ((uint32_t)status.f_type) {
    case 0x00006969u:           /* NFS */
    case 0xFE534D42u:           /* SMB 2 and 3 */
    case 0xFF534D42u:           /* SMB 1 */
    case 0x00C36400u:           /* Ceph */
    case 0x65735546u: return 1; /* FUSE */
    }
#endif
    (void)fd;
    return 0;
}

enum {
    /* Fits the L2 cache. The kernel stores the data of one call in pages as large as possible; when its memory is
     * fragmented, allocating pages of 256 KiB took several times as long as the copy itself. */
    OW_BUFFER_BYTES = 1 << 17,
    OW_PIECE_BYTES = 1 << 20 /* bytes that a copying thread claims at a time */
};

typedef struct {
    int source, target;                /* descriptors */
    uint64_t offset, target_offset, n; /* start of the range in the source and the target, and its length */
    uint64_t next; /* position in the range of the first byte that no thread has claimed */
    int has_failed;
} ow_copy_job;

/* Copy pieces of a job until all are claimed, or until any thread fails. */
static void ow_copy_pieces(void *argument) {
    ow_copy_job *job = (ow_copy_job *)argument;
    uint8_t *buffer = (uint8_t *)PyMem_RawMalloc(OW_BUFFER_BYTES);
    int is_copied = buffer != NULL;
    while (is_copied && !ow_load_flag(&job->has_failed)) {
        uint64_t position = ow_fetch_add(&job->next, OW_PIECE_BYTES);
        if (position >= job->n) break;
        uint64_t end = job->n - position < OW_PIECE_BYTES ? job->n : position + OW_PIECE_BYTES;
        while (position < end) {
            uint64_t n = end - position < OW_BUFFER_BYTES ? end - position : OW_BUFFER_BYTES;
            int64_t n_read = ow_read(job->source, buffer, n, job->offset + position);
            int64_t n_written = n_read;
            if (n_read > 0) n_written = ow_write(job->target, buffer, (uint64_t)n_read, job->target_offset + position);
            if (n_written == -EINTR) continue;
            if ((is_copied = n_written > 0) == 0) break;
            position += (uint64_t)n_written;
        }
    }
    PyMem_RawFree(buffer);
    if (!is_copied) ow_set_flag(&job->has_failed);
}

/* Copy through memory, with two threads on two or more processors. Returns whether all bytes were copied. If not, the
 * caller copies them again by other means, which report the error. */
static inline int ow_copy_in_parallel(int source, uint64_t offset, int target, uint64_t target_offset, uint64_t n) {
    ow_copy_job job = {source, target, offset, target_offset, n, 0, 0};
    ow_in_parallel(ow_copy_pieces, &job, 0, ow_count_processors() < 2 ? 1 : 2);
    return !job.has_failed;
}

/* Start writeback of a range, without waiting for it. */
static inline void ow_start_writeback(int fd, uint64_t offset, uint64_t n) {
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    (void)sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd, (void)offset, (void)n;
#endif
}

/* Set the size of a file. Returns 0 or -errno. */
static inline int64_t ow_resize(int fd, uint64_t size) {
#if defined(_WIN32)
    return -(int64_t)_chsize_s(fd, (__int64)size);
#else
    return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
#endif
}

/* Return whether a file occupies less disk space than its size, and so may have holes. Returns 0 if the platform cannot
 * find holes. */
static inline int ow_is_sparse(int fd) {
#if defined(SEEK_DATA) && defined(SEEK_HOLE)
    struct stat status;
    return fstat(fd, &status) == 0 && (int64_t)status.st_blocks * 512 < (int64_t)status.st_size;
#else
    (void)fd;
    return 0;
#endif
}

/* Find the first range between offset and end that is not a hole. *data: its start; *hole: its end; both are `end` if
 * there is no such range. If the platform does not support the query, or `end` is past the file's end, the result is
 * offset to end. The file's position is restored, because other processes may share it. */
static inline void ow_find_data(int fd, uint64_t offset, uint64_t end, uint64_t *data, uint64_t *hole) {
    *data = offset;
    *hole = end;
#if defined(SEEK_DATA) && defined(SEEK_HOLE)
    off_t old_position = lseek(fd, 0, SEEK_CUR);
    struct stat status;
    /* A range past the file's end is an error, which reading reports. */
    if (old_position < 0 || fstat(fd, &status) != 0 || end > (uint64_t)status.st_size) return;
    off_t data_offset = lseek(fd, (off_t)offset, SEEK_DATA);
    if (data_offset < 0) {
        if (errno == ENXIO) *data = end;
    } else {
        *data = (uint64_t)data_offset < end ? (uint64_t)data_offset : end;
        const off_t hole_offset = lseek(fd, (off_t)*data, SEEK_HOLE);
        if (hole_offset >= 0 && (uint64_t)hole_offset < end) *hole = (uint64_t)hole_offset;
    }
    (void)lseek(fd, old_position, SEEK_SET);
#else
    (void)fd;
#endif
}

#endif
