/* Included before an example program by the tests: prints on stderr how many bytes it read with pread. */
#include <stdio.h>
#include <unistd.h>

static unsigned long long n_read;

static ssize_t counted_pread(int file, void *buffer, size_t size, off_t offset) {
    ssize_t n = pread(file, buffer, size, offset);
    if (n > 0) n_read += (unsigned long long)n;
    return n;
}

__attribute__((destructor)) static void print_reads(void) { fprintf(stderr, "%llu bytes read\n", n_read); }

#define pread counted_pread
