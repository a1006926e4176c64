/* A few threads for one long piece of C work, over before the call returns. What they run touches no Python object.
 *
 * They are started for each call, which takes some 50 microseconds: worth it for megabytes, and nothing is left that
 * a fork would lose or an ending process would wait for. Where there are none, the caller does all the work.
 */
#ifndef ONNXWIRE_PARALLEL_H
#define ONNXWIRE_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

#define OW_MOST_THREADS 4 /* more do not help: memory, or the disk, is what is waited for */

typedef void (*ow_task)(void *work);

#if defined(_WIN32) || (defined(CYTHON_TRACE_NOGIL) && CYTHON_TRACE_NOGIL) /* reporting a line takes the GIL */
static inline int ow_processors(void) { return 1; }

static inline void ow_in_parallel(ow_task task, void *works, size_t size, int n) {
    for (int i = 0; i < n; i++) task((char *)works + (size_t)i * size);
}

static inline uint64_t ow_take(uint64_t *next, uint64_t n) { return (*next += n) - n; }
static inline int ow_get(const int *flag) { return *flag; }
static inline void ow_set(int *flag) { *flag = 1; }
#else
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* How many threads may run at once, at most OW_MOST_THREADS. */
static inline int ow_processors(void) {
    long n = 1;
#if defined(__linux__) && defined(CPU_COUNT)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
#elif defined(_SC_NPROCESSORS_ONLN)
    n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return n < 1 ? 1 : n > OW_MOST_THREADS ? OW_MOST_THREADS : (int)n;
}

typedef struct {
    ow_task task;
    void *work;
} ow_errand;

static void *ow_run_errand(void *p) {
    ow_errand *errand = (ow_errand *)p;
    errand->task(errand->work);
    return NULL;
}

/* Calls task with each of n <= OW_MOST_THREADS works of `size` bytes, the first in this thread, the others in threads
 * of their own, which take no signals; returns when all are done. With size 0 all are given the same work. */
static inline void ow_in_parallel(ow_task task, void *works, size_t size, int n) {
    pthread_t threads[OW_MOST_THREADS];
    ow_errand errands[OW_MOST_THREADS];
    int is_started[OW_MOST_THREADS] = {0};
    sigset_t all, before;
    if (n == 1) {
        task(works);
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < n; i++) {
        errands[i].task = task;
        errands[i].work = (char *)works + (size_t)i * size;
        is_started[i] = pthread_create(&threads[i], NULL, ow_run_errand, &errands[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    task(works);
    for (int i = 1; i < n; i++) {
        if (is_started[i])
            pthread_join(threads[i], NULL);
        else
            task(errands[i].work);
    }
}

/* What threads with the same work share: a counter from which each takes n, and a flag that any may set. */
static inline uint64_t ow_take(uint64_t *next, uint64_t n) { return __atomic_fetch_add(next, n, __ATOMIC_RELAXED); }
static inline int ow_get(const int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }
static inline void ow_set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
#endif

#endif
