/* Replaces pread in an example program. When the program ends, the number of bytes that pread has read is printed on
   stderr. Tests include this file before the program. */
#include <stdio.h>
#include <unistd.h>

static unsigned long long n_bytes_read;

static ssize_t counted_pread(int file, void *buffer, size_t size, off_t offset) {
    ssize_t n_returned = pread(file, buffer, size, offset);
    if (n_returned > 0) n_bytes_read += (unsigned long long)n_returned;
    return n_returned;
}

__attribute__((destructor)) static void print_reads(void) { fprintf(stderr, "%llu bytes read\n", n_bytes_read); }

#define pread counted_pread
