/* Files mapped for reading, and the file state that is compared to detect a later change of a file.
 *
 * ow_file_state, ow_map and ow_read_in return 0, or a negative errno.
 */
#ifndef ONNXWIRE_MAPPING_H
#define ONNXWIRE_MAPPING_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* Values that fstat returns. On Windows, the times have a resolution of seconds, ctime is the time of creation, and
 * mapped files can't be truncated. */
typedef struct {
    uint64_t size, device, inode, links, mode, user, group;
    int64_t mtime_ns, ctime_ns;
} OwFileState;

/* Return whether a path refers to the file that had this state; 0 on Windows. */
static inline int ow_is_at(const char *path, const OwFileState *state) {
#ifdef _WIN32
    (void)path;
    (void)state;
    return 0;
#else
    struct stat status;
    return stat(path, &status) == 0 && (uint64_t)status.st_dev == state->device &&
           (uint64_t)status.st_ino == state->inode;
#endif
}

static inline int ow_file_state(int fd, OwFileState *state) {
    memset(state, 0, sizeof(*state));
#ifdef _WIN32
    struct _stat64 status;
    if (_fstat64(fd, &status)) return -errno;
    state->mtime_ns = (int64_t)status.st_mtime * 1000000000;
    state->ctime_ns = (int64_t)status.st_ctime * 1000000000;
#else
    struct stat status;
    if (fstat(fd, &status)) return -errno;
#ifdef __APPLE__
    state->mtime_ns = (int64_t)status.st_mtimespec.tv_sec * 1000000000 + status.st_mtimespec.tv_nsec;
    state->ctime_ns = (int64_t)status.st_ctimespec.tv_sec * 1000000000 + status.st_ctimespec.tv_nsec;
#else
    state->mtime_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    state->ctime_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
#endif
#endif
    state->size = (uint64_t)status.st_size;
    state->device = (uint64_t)status.st_dev;
    state->inode = (uint64_t)status.st_ino;
    state->links = (uint64_t)status.st_nlink;
    state->mode = (uint64_t)status.st_mode;
    state->user = (uint64_t)status.st_uid;
    state->group = (uint64_t)status.st_gid;
    return 0;
}

#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

static inline int ow_map(int fd, size_t size, uint8_t **start) {
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return -errno;
    *start = p;
    return 0;
}

static inline void ow_unmap(uint8_t *start, size_t size) { (void)munmap(start, size); }

/* Let later reads from a descriptor leave the file's access time unchanged: updating it takes a tenth of the time of
 * a short read. No-op where the system has no O_NOATIME, or does not allow it, as for files of other users. */
static inline void ow_skip_access_times(int fd) {
#ifdef O_NOATIME
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) (void)fcntl(fd, F_SETFL, flags | O_NOATIME);
#else
    (void)fd;
#endif
}

/* Replace the pages that contain the bytes from `begin` to `end` of a mapping by private memory with the same bytes,
 * read from the file. start, size: the address and size of the mapping. fd: the file. On Linux the pages are replaced
 * atomically, because other threads may read them. */
static inline int ow_read_in(uint8_t *start, size_t size, size_t begin, size_t end, int fd) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    begin -= begin % page;
    if (end % page) end += page - end % page;
    const size_t length = end - begin;
    const size_t n_from_file = end > size ? size - begin : length;
    const size_t max_read = (size_t)1 << 30;
#ifdef __linux__
    void *target = NULL;
    const int fixed_flag = 0;
#else
    void *target = start + begin;
    const int fixed_flag = MAP_FIXED;
#endif
    uint8_t *p = mmap(target, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed_flag, -1, 0);
    if (p == MAP_FAILED) return -errno;
    int code = 0;
    size_t n_read = 0;
    while (n_read < n_from_file && code == 0) {
        const size_t n_left = n_from_file - n_read;
        ssize_t n = pread(fd, p + n_read, n_left < max_read ? n_left : max_read, (off_t)(begin + n_read));
        if (n > 0) n_read += (size_t)n;
        else if (n == 0) code = -EIO;
        else if (errno != EINTR) code = -errno;
    }
#ifdef __linux__
    if (code == 0 && mremap(p, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, start + begin) == MAP_FAILED)
        code = -errno;
    if (code != 0) (void)munmap(p, length);
#endif
    return code;
}
#else
static inline int ow_map(int fd, size_t size, uint8_t **start) { (void)fd; (void)size; (void)start; return -ENOSYS; }
static inline void ow_unmap(uint8_t *start, size_t size) { (void)start; (void)size; }
static inline void ow_skip_access_times(int fd) { (void)fd; }
static inline int ow_read_in(uint8_t *start, size_t size, size_t begin, size_t end, int fd) {
    (void)start; (void)size; (void)begin; (void)end; (void)fd;
    return -ENOSYS;
}
#endif

#endif
