// platform_posix_threads.c — a small thread pool in caller storage, behind the et_pool interface.
//
// Workers without work spin for a moment, since a model's next kernel usually comes soon; then they
// sleep. Waking a thread costs its caller time, above all in a virtual machine, and the thread
// starts later still. So sleeping workers are woken by measured time:
//   at the first item      if the jobs after the previous wake were worth it;
//   between two items      when the caller has spent WAKE_NS in a burst of jobs.
// A burst is a sequence of jobs with less than SPIN_NS between two.
//
// Each thread claims the items of its own queue first, a part of the range, then those of others.
// So the threads of two jobs with the same number of items run the same parts, and find what they
// wrote in the caches of their CPUs.
//
// The caller closes a job when the last item is claimed. A worker that wakes late finds it closed,
// so nobody waits for a sleeping thread. Workers are kept off the caller's CPU: kernels of virtual
// machines may start or wake a thread on the CPU of its creator, where the two only take turns.
#define _GNU_SOURCE  // sched_getcpu, pthread_setaffinity_np
#include "runtime/check.h"
#include "runtime/config.h"
#include "runtime/et.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#define SPIN_NS 50000u        // time that a worker spins before it sleeps
#define WAKE_NS 50000u        // work that is worth waking a thread for
#define PATIENCE_NS 2000000u  // time that the caller spins for workers that still run an item
#define LOOKS 16              // between two readings of the clock
#define CACHE_LINE 64

// Parts of pool->gate: the number of the job, whether workers may enter it, how many are inside.
#define JOB_ONE (UINT64_C(1) << 32)
#define IS_OPEN (UINT64_C(1) << 31)
#define INSIDE (IS_OPEN - 1)

// A thread of the pool; the first is the caller.
typedef struct member {
  atomic_size_t next;  // first item of its queue that is not yet claimed
  pthread_t thread;    // not the caller's
  et_thread_pool *pool;
} member;

struct et_thread_pool {
  // The open job. A worker that waits reads this cache line only.
  atomic_uint_fast64_t gate;
  et_task task;
  void *task_ctx;
  size_t each, rest;  // items of each queue; how many queues have one more
  atomic_bool must_stop;
  _Alignas(CACHE_LINE) atomic_bool is_used;  // a thread is inside run_task()
  atomic_uint n_sleeping;                    // changes under the lock
  atomic_uint_fast64_t slept_ns;             // when a worker went to sleep last
  pthread_mutex_t lock;
  pthread_cond_t wake;  // a job was opened, or the pool is to stop
  pthread_cond_t done;  // the last worker left a closed job
  // The caller's, who has is_used.
  uint64_t woken_ns;  // when workers were woken last; 0: they slept through the last burst
  uint64_t alone_ns;  // time spent in jobs of this burst while workers slept
  uint64_t end_ns;    // end of the last of these jobs
  bool pays;          // workers are woken at the first job
  int caller_cpu;     // that workers are kept off; -1: none
#if defined(__linux__)
  cpu_set_t cpus;  // of the thread that made the pool
#endif
  size_t n_members;
  // Members of two threads are in one cache line, which is all that a small job moves.
  _Alignas(CACHE_LINE) member members[];
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// ---- Placement of workers

#if defined(__linux__)

static void keep_off_this_cpu(et_thread_pool *pool) {
  const int cpu = sched_getcpu();
  if (cpu == pool->caller_cpu || cpu < 0 || cpu >= CPU_SETSIZE) return;
  pool->caller_cpu = cpu;
  cpu_set_t others = pool->cpus;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  for (size_t i = 1; i < pool->n_members; i++)
    (void)pthread_setaffinity_np(pool->members[i].thread, sizeof others, &others);
}

static void read_cpus(et_thread_pool *pool) {
  pool->caller_cpu = -1;
  // With more CPUs than a set holds none can be read, and workers are left where they are.
  if (sched_getaffinity(0, sizeof pool->cpus, &pool->cpus) != 0) CPU_ZERO(&pool->cpus);
}

#else

static void keep_off_this_cpu(et_thread_pool *pool) {
  (void)pool;
}
static void read_cpus(et_thread_pool *pool) {
  pool->caller_cpu = -1;
}

#endif

// ---- Items

// The first item of a member's queue; that of the next member ends it.
static size_t first_of(const et_thread_pool *pool, size_t which) {
  return pool->each * which + (which < pool->rest ? which : pool->rest);
}

static void fill_queues(et_thread_pool *pool, size_t n) {
  pool->each = n / pool->n_members;
  pool->rest = n % pool->n_members;
  for (size_t i = 0; i < pool->n_members; i++)
    atomic_store_explicit(&pool->members[i].next, first_of(pool, i), memory_order_relaxed);
}

// Claims an item of member `self`, or of those behind it in turn; `*from` counts the queues that
// are empty, and begins at 0. False if all are.
static bool claim(et_thread_pool *pool, size_t self, size_t *from, size_t *item) {
  for (; *from < pool->n_members; ++*from) {
    const size_t at = self + *from, queue = at < pool->n_members ? at : at - pool->n_members;
    const size_t end = first_of(pool, queue + 1);
    atomic_size_t *const next = &pool->members[queue].next;
    if (*from > 0 && atomic_load_explicit(next, memory_order_relaxed) >= end) continue;
    *item = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
    if (*item >= end) continue;
    if (*item + 1 == end) ++*from;
    return true;
  }
  return false;
}

static void run_items(et_thread_pool *pool, size_t self, et_task task, void *ctx) {
  size_t from = 0, i;
  while (claim(pool, self, &from, &i)) task(ctx, i);
}

// ---- Workers

static void sleep_until_next(et_thread_pool *pool, uint64_t seen) {
  (void)pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->n_sleeping, 1);
  while (atomic_load(&pool->gate) / JOB_ONE == seen) {
    atomic_store(&pool->slept_ns, et_clock_ns());
    (void)pthread_cond_wait(&pool->wake, &pool->lock);
  }
  atomic_fetch_sub(&pool->n_sleeping, 1);
  (void)pthread_mutex_unlock(&pool->lock);
}

// Returns the gate once it has another job than `seen`.
static uint64_t await_job(et_thread_pool *pool, uint64_t seen) {
  const uint64_t end = et_clock_ns() + SPIN_NS;
  do {
    for (int i = 0; i < LOOKS; i++) {
      const uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
      if (gate / JOB_ONE != seen) return gate;
      relax();
    }
  } while (et_clock_ns() < end);
  sleep_until_next(pool, seen);
  return atomic_load(&pool->gate);
}

static void leave(et_thread_pool *pool) {
  if ((atomic_fetch_sub(&pool->gate, 1) & (IS_OPEN | INSIDE)) != 1) return;
  (void)pthread_mutex_lock(&pool->lock);
  (void)pthread_cond_signal(&pool->done);
  (void)pthread_mutex_unlock(&pool->lock);
}

static void *work(void *arg) {
  const member *const self = arg;
  et_thread_pool *const pool = self->pool;
  uint64_t seen = 0;
  for (;;) {
    uint64_t gate = await_job(pool, seen);
    if (atomic_load(&pool->must_stop)) return NULL;
    while ((gate & IS_OPEN) != 0 && !atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {
    }
    seen = gate / JOB_ONE;
    if ((gate & IS_OPEN) == 0) continue;
    run_items(pool, (size_t)(self - pool->members), pool->task, pool->task_ctx);
    leave(pool);
  }
}

// ---- The caller

static void wake_workers(et_thread_pool *pool) {
  keep_off_this_cpu(pool);
  pool->woken_ns = et_clock_ns();
  // A worker that is about to wait has the lock.
  (void)pthread_mutex_lock(&pool->lock);
  (void)pthread_mutex_unlock(&pool->lock);
  (void)pthread_cond_broadcast(&pool->wake);
}

// Whether workers that sleep are woken at the first item of a job.
static bool wakes_at_once(et_thread_pool *pool, uint64_t now_ns) {
  if (pool->woken_ns != 0) {
    pool->pays = atomic_load(&pool->slept_ns) >= pool->woken_ns + SPIN_NS + 2 * WAKE_NS;
    pool->woken_ns = 0;
    pool->alone_ns = 0;
  } else if (now_ns >= pool->end_ns + SPIN_NS) {
    pool->alone_ns = 0;
  }
  return pool->pays;
}

// Runs the items of a job while workers sleep, and wakes them when that is worth it.
static void run_items_alone(et_thread_pool *pool, et_task task, void *ctx, size_t n) {
  const uint64_t begin_ns = et_clock_ns();
  if (wakes_at_once(pool, begin_ns)) {
    wake_workers(pool);
    run_items(pool, 0, task, ctx);
    return;
  }
  const uint64_t before_ns = pool->alone_ns;
  size_t from = 0, i;
  for (size_t done = 1; claim(pool, 0, &from, &i); done++) {
    task(ctx, i);
    if (pool->woken_ns != 0) continue;
    pool->end_ns = et_clock_ns();
    pool->alone_ns = before_ns + pool->end_ns - begin_ns;
    // The caller takes the next item, a worker needs another one.
    if (pool->alone_ns >= WAKE_NS && done + 1 < n) wake_workers(pool);
  }
  if (pool->alone_ns >= 2 * WAKE_NS) pool->pays = true;
}

// Whether workers sleep that have not been woken since.
static bool has_sleepers(const et_thread_pool *pool) {
  return atomic_load(&pool->n_sleeping) > 0 &&
         (pool->woken_ns == 0 || atomic_load(&pool->slept_ns) > pool->woken_ns);
}

static void await_workers(et_thread_pool *pool) {
  if ((atomic_fetch_and(&pool->gate, ~IS_OPEN) & INSIDE) == 0) return;
  const uint64_t begin_ns = et_clock_ns();
  for (uint64_t ns = 0; ns < PATIENCE_NS; ns = et_clock_ns() - begin_ns) {
    for (int i = 0; i < LOOKS; i++) {
      if ((atomic_load_explicit(&pool->gate, memory_order_acquire) & INSIDE) == 0) return;
      relax();
    }
    if (ns < SPIN_NS) continue;
    keep_off_this_cpu(pool);  // a worker may wait for it
    (void)sched_yield();
  }
  (void)pthread_mutex_lock(&pool->lock);
  while ((atomic_load(&pool->gate) & INSIDE) != 0)
    (void)pthread_cond_wait(&pool->done, &pool->lock);
  (void)pthread_mutex_unlock(&pool->lock);
}

static void run_task(void *ctx, et_task task, void *task_ctx, size_t n) {
  et_thread_pool *pool = ctx;
  if (n < 2 || pool->n_members == 1 || atomic_exchange(&pool->is_used, true)) {
    for (size_t i = 0; i < n; i++) task(task_ctx, i);
    return;
  }
  pool->task = task;
  pool->task_ctx = task_ctx;
  fill_queues(pool, n);
  atomic_store(&pool->gate, (atomic_load(&pool->gate) / JOB_ONE + 1) * JOB_ONE + IS_OPEN);
  if (has_sleepers(pool)) {
    run_items_alone(pool, task, task_ctx, n);
  } else {
    run_items(pool, 0, task, task_ctx);
  }
  await_workers(pool);
  atomic_store(&pool->is_used, false);
}

size_t et_thread_pool_bytes(size_t n_threads) {
  return sizeof(et_thread_pool) + (n_threads > 0 ? n_threads : 1) * sizeof(member);
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
  pool->pays = true;
  read_cpus(pool);
  // Workers block all signals: they are for the program's own threads.
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  pool->n_members = 1;
  while (pool->n_members < n_threads) {
    member *const next = &pool->members[pool->n_members];
    next->pool = pool;
    if (pthread_create(&next->thread, NULL, work, next) != 0) break;
    pool->n_members++;
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (pool->n_members < n_threads) {
    const size_t n_started = pool->n_members;
    et_thread_pool_deinit(pool);
    return ET_FAIL(err, ET_OUT_OF_RESOURCES, "thread pool: expected %zu threads, got %zu started",
                   n_threads, n_started);
  }
  keep_off_this_cpu(pool);
  *out = pool;
  return ET_OK;
}

void et_thread_pool_deinit(et_thread_pool *pool) {
  if (pool == NULL) return;
  (void)pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->must_stop, true);
  atomic_fetch_add(&pool->gate, JOB_ONE);  // a job that is never open
  (void)pthread_cond_broadcast(&pool->wake);
  (void)pthread_mutex_unlock(&pool->lock);
  for (size_t i = 1; i < pool->n_members; i++) (void)pthread_join(pool->members[i].thread, NULL);
  (void)pthread_cond_destroy(&pool->done);
  (void)pthread_cond_destroy(&pool->wake);
  (void)pthread_mutex_destroy(&pool->lock);
}

et_pool et_thread_pool_handle(et_thread_pool *pool) {
  const et_pool handle = {.ctx = pool, .n_threads = pool->n_members, .run = run_task};
  return handle;
}
