// Tests of et_parallel_for and of the POSIX thread pool: every item once, at any number of threads,
// nested and at once; workers sleep, wake and are placed as the pool promises. Under the tsan
// preset they are also the test for data races.
#define _GNU_SOURCE  // sched_getaffinity
#include "runtime/et.h"

#include "et_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_ITEMS 1000

typedef struct tally {
  atomic_uint seen[MAX_ITEMS];
  atomic_uint n_ranges, n_short;
  size_t n, grain;
  const et_pool *inner;  // NULL: no nesting
} tally;

static void count_inner(void *ctx, size_t begin, size_t end) {
  atomic_fetch_add((atomic_uint *)ctx, (unsigned)(end - begin));
}

static void count(void *ctx, size_t begin, size_t end) {
  tally *t = ctx;
  atomic_fetch_add(&t->n_ranges, 1);
  if (end - begin < t->grain && end != t->n) atomic_fetch_add(&t->n_short, 1);
  for (size_t i = begin; i < end; i++) atomic_fetch_add(&t->seen[i], 1);
  if (t->inner != NULL) {
    atomic_uint sum = 0;
    et_parallel_for(t->inner, count_inner, &sum, 100, 1);
    if (sum != 100) atomic_fetch_add(&t->n_short, 1);
  }
}

static bool covers_once(const et_pool *pool, size_t n, size_t grain, const et_pool *inner) {
  tally *t = calloc(1, sizeof *t);
  if (t == NULL) return false;
  t->n = n;
  t->grain = grain;
  t->inner = inner;
  et_parallel_for(pool, count, t, n, grain);
  bool is_good = atomic_load(&t->n_short) == 0;
  for (size_t i = 0; i < MAX_ITEMS; i++) is_good = is_good && atomic_load(&t->seen[i]) == (i < n);
  free(t);
  return is_good;
}

typedef struct pool_rig {
  void *memory;
  et_thread_pool *pool;
  et_pool handle;
} pool_rig;

static pool_rig start(size_t n_threads) {
  pool_rig r = {0};
  et_error err;
  const size_t bytes = et_thread_pool_bytes(n_threads);
  r.memory = aligned_alloc(ET_MEMORY_ALIGN, (bytes + 63) & ~(size_t)63);
  if (et_thread_pool_init(&r.pool, (et_span){r.memory, bytes}, n_threads, &err) != ET_OK) abort();
  r.handle = et_thread_pool_handle(r.pool);
  return r;
}

static void stop(pool_rig *r) {
  et_thread_pool_deinit(r->pool);
  free(r->memory);
}

static void every_item_is_done_once_at_any_number_of_threads(void) {
  static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 100, 999, 1000};
  for (size_t n_threads = 1; n_threads <= 8; n_threads++) {
    pool_rig r = start(n_threads);
    bool is_good = r.handle.n_threads == n_threads;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
      for (size_t grain = 1; grain <= 512; grain *= 8)
        is_good = is_good && covers_once(&r.handle, counts[i], grain, NULL);
    }
    stop(&r);
    EXPECT(is_good);
  }
}

static void without_a_pool_everything_runs_in_one_piece(void) {
  EXPECT(covers_once(NULL, 1000, 1, NULL));
  EXPECT(covers_once(NULL, 0, 1, NULL));
}

static void count_jobs(void *ctx, et_task task, void *task_ctx, size_t n) {
  ++*(unsigned *)ctx;
  for (size_t i = 0; i < n; i++) task(task_ctx, i);
}

static void two_ranges_of_a_grain_are_shared_and_less_is_not(void) {
  unsigned n_jobs = 0;
  const et_pool pool = {.ctx = &n_jobs, .n_threads = 4, .run = count_jobs};
  EXPECT(covers_once(&pool, 1, 1, NULL) && covers_once(&pool, 99, 50, NULL));
  EXPECT(covers_once(&pool, 100, 1000, NULL));
  EXPECT(n_jobs == 0);
  EXPECT(covers_once(&pool, 2, 1, NULL) && covers_once(&pool, 100, 50, NULL));
  EXPECT(n_jobs == 2);
}

static void a_job_inside_a_job_runs_inline(void) {
  pool_rig r = start(4);
  const bool is_good = covers_once(&r.handle, 1000, 1, &r.handle);
  stop(&r);
  EXPECT(is_good);
}

static void many_jobs_in_a_row_leave_nothing_behind(void) {
  pool_rig r = start(3);
  bool is_good = true;
  for (int i = 0; i < 300; i++) is_good = is_good && covers_once(&r.handle, 50, 1, NULL);
  stop(&r);
  EXPECT(is_good);
}

// Two users of one pool at once: tasks of the outer pool's threads, each a caller of the inner
// pool.
static void shared_caller(void *ctx, size_t i) {
  (void)i;
  if (!covers_once(ctx, 500, 1, NULL)) abort();
}

static void a_second_caller_at_the_same_time_is_served_inline(void) {
  pool_rig outer = start(4), inner = start(3);
  for (int i = 0; i < 20; i++) outer.handle.run(outer.handle.ctx, shared_caller, &inner.handle, 4);
  stop(&outer);
  stop(&inner);
}

static void a_pool_can_end_without_ever_having_worked(void) {
  for (size_t n_threads = 1; n_threads <= 8; n_threads++) {
    pool_rig r = start(n_threads);
    stop(&r);
  }
  et_thread_pool_deinit(NULL);
}

// ---- Sleeping workers

static void rest(long ms) {
  const struct timespec time = {.tv_nsec = ms * 1000000};
  (void)nanosleep(&time, NULL);
}

static void do_nothing(void *ctx, size_t i) {
  (void)ctx;
  (void)i;
}

static double processor_ms(void) {
  struct rusage use;
  (void)getrusage(RUSAGE_SELF, &use);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
         (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

static void workers_without_a_job_use_no_processor_time(void) {
  pool_rig r = start(4);
  r.handle.run(r.handle.ctx, do_nothing, NULL, 100);
  const double before = processor_ms();
  rest(400);
  const double used = processor_ms() - before;
  stop(&r);
  EXPECT(used < 100);  // of 1200 that three workers could use
}

static long sleeps_so_far(void) {
  struct rusage use;
  (void)getrusage(RUSAGE_SELF, &use);
  return use.ru_nvcsw;
}

// A worker that was woken sleeps again, which the system counts. The caller sleeps once a job. The
// system may interrupt jobs for so long that the pool takes them for long ones, but not always.
static void short_jobs_with_pauses_wake_no_worker(void) {
  pool_rig r = start(2);
  bool is_undisturbed = false;
  for (int round = 0; round < 20 && !is_undisturbed; round++) {
    const long before = sleeps_so_far();
    for (int i = 0; i < 10; i++) {
      r.handle.run(r.handle.ctx, do_nothing, NULL, 2);
      rest(20);
    }
    is_undisturbed = sleeps_so_far() - before < 15;  // 20 if each job wakes the worker
  }
  stop(&r);
  EXPECT(is_undisturbed);
}

typedef struct sharing {
  pthread_t caller;
  atomic_uint n_shared;  // items that a worker ran
  atomic_int n_cpus;     // that a worker may run on
} sharing;

static void pass_a_millisecond(void *ctx, size_t i) {
  (void)i;
  sharing *s = ctx;
  rest(1);
  if (pthread_equal(pthread_self(), s->caller)) return;
  atomic_fetch_add(&s->n_shared, 1);
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) atomic_store(&s->n_cpus, CPU_COUNT(&set));
#endif
}

static void long_jobs_wake_workers_after_short_ones(void) {
  pool_rig r = start(2);
  sharing s = {.caller = pthread_self()};
  for (int i = 0; i < 5; i++) {
    r.handle.run(r.handle.ctx, do_nothing, NULL, 2);
    rest(5);
  }
  r.handle.run(r.handle.ctx, pass_a_millisecond, &s, 100);
  stop(&r);
  EXPECT(atomic_load(&s.n_shared) > 0);
}

// A job of two items is over before a worker wakes: the caller takes the second one. The next job
// wakes workers at once.
static void workers_are_woken_at_once_after_a_long_job_of_two_items(void) {
  pool_rig r = start(2);
  sharing s = {.caller = pthread_self()};
  for (int i = 0; i < 5; i++) {
    r.handle.run(r.handle.ctx, do_nothing, NULL, 2);
    rest(5);
  }
  for (int i = 0; i < 20; i++) r.handle.run(r.handle.ctx, pass_a_millisecond, &s, 2);
  stop(&r);
  EXPECT(atomic_load(&s.n_shared) > 0);
}

static void workers_may_use_every_cpu_but_the_callers(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2) return;
  pool_rig r = start(2);
  sharing s = {.caller = pthread_self()};
  r.handle.run(r.handle.ctx, pass_a_millisecond, &s, 100);
  stop(&r);
  EXPECT(atomic_load(&s.n_cpus) == CPU_COUNT(&set) - 1);
#endif
}

static void wrong_pools_are_refused(void) {
  et_thread_pool *pool = NULL;
  et_error err;
  EXPECT(et_thread_pool_init(&pool, (et_span){NULL, 0}, 0, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "expected 1 to 1024 threads, got 0");
  EXPECT(et_thread_pool_init(&pool, (et_span){NULL, 0}, 5000, &err) == ET_INVALID_ARGUMENT);
  EXPECT(et_thread_pool_init(&pool, (et_span){NULL, 0}, 2, &err) == ET_OUT_OF_MEMORY);
  EXPECT_ERROR(&err, ET_OUT_OF_MEMORY, "64-aligned, got 0");
  EXPECT(pool == NULL);
}

static void there_is_at_least_one_cpu_and_time_does_not_go_back(void) {
  EXPECT(et_cpu_count() >= 1 && et_cpu_count() <= 65536);
  uint64_t before = et_clock_ns();
  for (int i = 0; i < 1000; i++) {
    const uint64_t now = et_clock_ns();
    EXPECT(now >= before);
    before = now;
  }
}

static const et_test tests[] = {
    ET_CASE(every_item_is_done_once_at_any_number_of_threads),
    ET_CASE(without_a_pool_everything_runs_in_one_piece),
    ET_CASE(two_ranges_of_a_grain_are_shared_and_less_is_not),
    ET_CASE(a_job_inside_a_job_runs_inline),
    ET_CASE(many_jobs_in_a_row_leave_nothing_behind),
    ET_CASE(a_second_caller_at_the_same_time_is_served_inline),
    ET_CASE(a_pool_can_end_without_ever_having_worked),
    ET_CASE(workers_without_a_job_use_no_processor_time),
    ET_CASE(short_jobs_with_pauses_wake_no_worker),
    ET_CASE(long_jobs_wake_workers_after_short_ones),
    ET_CASE(workers_are_woken_at_once_after_a_long_job_of_two_items),
    ET_CASE(workers_may_use_every_cpu_but_the_callers),
    ET_CASE(wrong_pools_are_refused),
    ET_CASE(there_is_at_least_one_cpu_and_time_does_not_go_back),
};

ET_TEST_MAIN(tests)
