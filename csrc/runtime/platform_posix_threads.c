// platform_posix_threads.c — a small thread pool in caller storage, behind the et_pool interface.
// A worker without work spins for two milliseconds, because a model's next kernel usually comes
// soon and waking a thread is slow, above all in a virtual machine. Then it sleeps until it is
// woken, so an idle pool costs nothing. After the first microseconds it yields its core between two
// looks. The caller closes a job when the last item is claimed; a worker that wakes late finds it
// closed and sleeps on, so nobody waits for a sleeping thread.
#define _POSIX_C_SOURCE 200809L
#include "runtime/check.h"
#include "runtime/config.h"
#include "runtime/et.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define SPINS 4000             // some 10 to 200 microseconds
#define SPINS_BETWEEN 16       // between two yields of the core
#define SPIN_NS (2 * 1000000)  // time that a thread spins before it sleeps

struct et_thread_pool {
  pthread_mutex_t lock;
  pthread_cond_t wake;   // a job was opened, or the pool is to stop
  pthread_cond_t done;   // the last worker left a closed job
  atomic_bool is_used;   // some thread is inside run_task()
  atomic_uint n_jobs;    // opened so far; changes under the lock
  atomic_uint n_inside;  // workers in the current job; changes under the lock
  atomic_size_t next;    // first item not yet claimed
  bool is_open, must_stop;
  size_t n_sleeping;
  et_task task;
  void *task_ctx;
  size_t n;
  size_t n_workers;
  pthread_t workers[];
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Returns when *counter (differs from value) == differs, or after SPIN_NS.
static void spin_until(const atomic_uint *counter, unsigned value, bool differs) {
  for (int i = 0; i < SPINS; i++) {
    if ((atomic_load_explicit(counter, memory_order_relaxed) != value) == differs) return;
    relax();
  }
  const int64_t end = now_ns() + SPIN_NS;
  do {
    (void)sched_yield();
    for (int i = 0; i < SPINS_BETWEEN; i++) {
      if ((atomic_load_explicit(counter, memory_order_relaxed) != value) == differs) return;
      relax();
    }
  } while (now_ns() < end);
}

// Waits by spinning: the lock is held for a few instructions only, and sleeping would take far
// longer.
static void lock(et_thread_pool *pool) {
  for (int i = 0; i < SPINS; i++) {
    if (pthread_mutex_trylock(&pool->lock) == 0) return;
    relax();
  }
  (void)pthread_mutex_lock(&pool->lock);
}

static void unlock(et_thread_pool *pool) {
  (void)pthread_mutex_unlock(&pool->lock);
}

static void run_items(et_thread_pool *pool, et_task task, void *ctx, size_t n) {
  size_t i;
  while ((i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < n) task(ctx, i);
}

static void *work(void *arg) {
  et_thread_pool *pool = arg;
  unsigned seen = 0;
  for (;;) {
    spin_until(&pool->n_jobs, seen, true);
    lock(pool);
    while (!pool->must_stop && atomic_load(&pool->n_jobs) == seen) {
      pool->n_sleeping++;
      (void)pthread_cond_wait(&pool->wake, &pool->lock);
      pool->n_sleeping--;
    }
    seen = atomic_load(&pool->n_jobs);
    const bool must_stop = pool->must_stop, is_open = pool->is_open;
    const et_task task = pool->task;
    void *ctx = pool->task_ctx;
    const size_t n = pool->n;
    if (is_open && !must_stop) atomic_fetch_add(&pool->n_inside, 1);
    unlock(pool);
    if (must_stop) return NULL;
    if (!is_open) continue;
    run_items(pool, task, ctx, n);
    lock(pool);
    if (atomic_fetch_sub(&pool->n_inside, 1) == 1) (void)pthread_cond_signal(&pool->done);
    unlock(pool);
  }
}

static void run_task(void *ctx, et_task task, void *task_ctx, size_t n) {
  et_thread_pool *pool = ctx;
  if (n < 2 || pool->n_workers == 0 || atomic_exchange(&pool->is_used, true)) {
    for (size_t i = 0; i < n; i++) task(task_ctx, i);
    return;
  }
  lock(pool);
  pool->task = task;
  pool->task_ctx = task_ctx;
  pool->n = n;
  atomic_store(&pool->next, 0);
  pool->is_open = true;
  atomic_fetch_add(&pool->n_jobs, 1);
  const bool must_wake = pool->n_sleeping > 0;
  unlock(pool);
  if (must_wake) (void)pthread_cond_broadcast(&pool->wake);

  run_items(pool, task, task_ctx, n);

  lock(pool);
  pool->is_open = false;
  unlock(pool);
  spin_until(&pool->n_inside, 0, false);
  lock(pool);
  while (atomic_load(&pool->n_inside) > 0) (void)pthread_cond_wait(&pool->done, &pool->lock);
  unlock(pool);
  atomic_store(&pool->is_used, false);
}

size_t et_thread_pool_bytes(size_t n_threads) {
  const size_t n_workers = n_threads > 0 ? n_threads - 1 : 0;
  return sizeof(et_thread_pool) + n_workers * sizeof(pthread_t);
}

et_status et_thread_pool_init(et_thread_pool **out, et_span memory, size_t n_threads,
                              et_error *err) {
  ET_CHECK(n_threads >= 1 && n_threads <= ET_MAX_THREADS, err, ET_INVALID_ARGUMENT,
           "thread pool: expected 1 to %u threads, got %zu", ET_MAX_THREADS, n_threads);
  ET_CHECK(memory.data != NULL && ((uintptr_t)memory.data & (ET_MEMORY_ALIGN - 1)) == 0 &&
               memory.size >= et_thread_pool_bytes(n_threads),
           err, ET_OUT_OF_MEMORY, "thread pool: expected %zu bytes, 64-aligned, got %zu",
           et_thread_pool_bytes(n_threads), memory.size);
  et_thread_pool *pool = memory.data;
  memset(pool, 0, et_thread_pool_bytes(n_threads));
  ET_CHECK(pthread_mutex_init(&pool->lock, NULL) == 0 &&
               pthread_cond_init(&pool->wake, NULL) == 0 &&
               pthread_cond_init(&pool->done, NULL) == 0,
           err, ET_OUT_OF_RESOURCES, "the system has no more locks");
  // Workers block all signals: they are for the program's own threads.
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool->n_workers + 1 < n_threads &&
         pthread_create(&pool->workers[pool->n_workers], NULL, work, pool) == 0) {
    pool->n_workers++;
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (pool->n_workers + 1 < n_threads) {
    const size_t n_started = pool->n_workers;
    et_thread_pool_deinit(pool);
    return ET_FAIL(err, ET_OUT_OF_RESOURCES, "thread pool: expected %zu threads, got %zu started",
                   n_threads, n_started + 1);
  }
  *out = pool;
  return ET_OK;
}

void et_thread_pool_deinit(et_thread_pool *pool) {
  if (pool == NULL) return;
  lock(pool);
  pool->must_stop = true;
  // The stop counts as a job, so that spinning workers notice it.
  atomic_fetch_add(&pool->n_jobs, 1);
  (void)pthread_cond_broadcast(&pool->wake);
  unlock(pool);
  for (size_t i = 0; i < pool->n_workers; i++) (void)pthread_join(pool->workers[i], NULL);
  (void)pthread_cond_destroy(&pool->done);
  (void)pthread_cond_destroy(&pool->wake);
  (void)pthread_mutex_destroy(&pool->lock);
}

et_pool et_thread_pool_handle(et_thread_pool *pool) {
  const et_pool handle = {.ctx = pool, .n_threads = pool->n_workers + 1, .run = run_task};
  return handle;
}
