/* Divide one long computation in C, which uses no Python objects, among threads. All threads except the caller's end
 * before `ow_in_parallel` returns.
 *
 * Threads are started for each call, which takes about 50 microseconds, so they are used for megabytes only. There is
 * no thread pool: a child of fork() would lack its threads, and the exit of the process would wait for them. The caller
 * does the work of a thread that can't be started.
 */
#ifndef ONNXWIRE_PARALLEL_H
#define ONNXWIRE_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

#define OW_MAX_THREADS 4 /* more do not help: memory or the disk is the bottleneck */

typedef void (*ow_task)(void *argument);

#if defined(_WIN32) || (defined(CYTHON_TRACE_NOGIL) && CYTHON_TRACE_NOGIL) /* tracing a line acquires the GIL */
static inline int ow_count_processors(void) { return 1; }

static inline void ow_in_parallel(ow_task task, void *arguments, size_t size, int n) {
    for (int i = 0; i < n; i++) task((char *)arguments + (size_t)i * size);
}

static inline uint64_t ow_fetch_add(uint64_t *next, uint64_t n) { return (*next += n) - n; }
static inline int ow_load_flag(const int *flag) { return *flag; }
static inline void ow_set_flag(int *flag) { *flag = 1; }
#else
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* Return the number of processors that this process may use, at most OW_MAX_THREADS. */
static inline int ow_count_processors(void) {
    long n = 1;
#if defined(__linux__) && defined(CPU_COUNT)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
#elif defined(_SC_NPROCESSORS_ONLN)
    n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return n < 1 ? 1 : n > OW_MAX_THREADS ? OW_MAX_THREADS : (int)n;
}

typedef struct {
    ow_task task;
    void *argument;
} ow_call;

static void *ow_run_call(void *p) {
    ow_call *call = (ow_call *)p;
    call->task(call->argument);
    return NULL;
}

/* Call `task` with the address of each of n <= OW_MAX_THREADS elements of the array `arguments`, of `size` bytes each.
 * The first call runs in this thread, every other call in its own thread with all signals blocked, or in this thread
 * if no thread can be started. Return after the last call ends. With size 0, all calls receive the same argument. */
static inline void ow_in_parallel(ow_task task, void *arguments, size_t size, int n) {
    pthread_t threads[OW_MAX_THREADS];
    ow_call calls[OW_MAX_THREADS];
    int is_started[OW_MAX_THREADS] = {0};
    sigset_t all_signals, old_mask;
    if (n == 1) {
        task(arguments);
        return;
    }
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask);
    for (int i = 1; i < n; i++) {
        calls[i].task = task;
        calls[i].argument = (char *)arguments + (size_t)i * size;
        is_started[i] = pthread_create(&threads[i], NULL, ow_run_call, &calls[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
    task(arguments);
    for (int i = 1; i < n; i++) {
        if (is_started[i])
            pthread_join(threads[i], NULL);
        else
            task(calls[i].argument);
    }
}

/* Access to memory that threads share: advance a counter by n and return its old value, read a flag, set a flag. */
static inline uint64_t ow_fetch_add(uint64_t *next, uint64_t n) { return __atomic_fetch_add(next, n, __ATOMIC_RELAXED); }
static inline int ow_load_flag(const int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }
static inline void ow_set_flag(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
#endif

#endif
