// Tests of the costs by which XNNPACK's jobs are shared between threads or not
// (pthreadpool_shim.h), with a clock that tasks advance.
#include "backends/xnnpack/pthreadpool_shim.h"

#include "et_test.h"

#include <stdatomic.h>

static atomic_uint_fast64_t now_ns;

static uint64_t clock_of_tasks(void) {
  return now_ns;
}

static void pass_time(void *ctx, size_t i) {
  (void)i;
  now_ns += *(const unsigned *)ctx;
}

static void pass_double_time(void *ctx, size_t i) {
  pass_time(ctx, i);
  pass_time(ctx, i);
}

static void count_runs(void *ctx, et_task task, void *task_ctx, size_t n) {
  ++*(unsigned *)ctx;
  for (size_t i = 0; i < n; i++) task(task_ctx, i);
}

typedef struct counted_pool {
  unsigned n_runs;  // jobs that were shared
  et_pool handle;
  eti_xnn_job_cost costs[16];
  struct pthreadpool threads;
} counted_pool;

static void count_from_here(counted_pool *c) {
  *c = (counted_pool){.handle = {.n_threads = 2, .run = count_runs}};
  c->handle.ctx = &c->n_runs;
  c->threads = (struct pthreadpool){
      .pool = &c->handle, .costs = c->costs, .n_costs = 16, .clock_ns = clock_of_tasks};
}

enum { QUARTER_NS = ETI_XNN_SHARED_NS / 4 };  // of a job of four tiles

static void run_four(counted_pool *c, unsigned *tile_ns) {
  pthreadpool_parallelize_1d(&c->threads, pass_time, tile_ns, 4, 0);
}

static void short_jobs_are_shared_until_their_time_is_known(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned times[4] = {0, 1, QUARTER_NS / 2, QUARTER_NS - 1};
  for (size_t i = 0; i < 20; i++) run_four(&c, &times[i % 4]);
  EXPECT(c.n_runs == 4);
}

static void long_jobs_are_always_shared(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned times[2] = {QUARTER_NS, 100 * QUARTER_NS};
  for (size_t i = 0; i < 20; i++) run_four(&c, &times[i % 2]);
  EXPECT(c.n_runs == 20);
}

static void the_least_time_of_a_job_counts(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned tile_ns = 100 * QUARTER_NS;  // the first run of a model
  run_four(&c, &tile_ns);
  run_four(&c, &tile_ns);
  tile_ns = 1;
  run_four(&c, &tile_ns);
  tile_ns = 100 * QUARTER_NS;
  run_four(&c, &tile_ns);
  EXPECT(c.n_runs == 3);
}

static void jobs_with_one_context_are_told_apart_by_their_task(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned tile_ns = QUARTER_NS - 1;
  for (int i = 0; i < 10; i++) {
    run_four(&c, &tile_ns);
    pthreadpool_parallelize_1d(&c.threads, pass_double_time, &tile_ns, 4, 0);
  }
  EXPECT(c.n_runs == 1 + 10);
}

static void jobs_are_shared_again_after_a_reshape(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned tile_ns = 1;
  for (int i = 0; i < 3; i++) run_four(&c, &tile_ns);
  EXPECT(c.n_runs == 1);
  eti_xnn_forget_job_costs(&c.threads);
  for (int i = 0; i < 3; i++) run_four(&c, &tile_ns);
  EXPECT(c.n_runs == 2);
}

static void more_jobs_than_entries_run_every_tile_once(void) {
  counted_pool c;
  count_from_here(&c);
  unsigned tile_ns[64];
  for (size_t k = 0; k < 64; k++) tile_ns[k] = 1 + (unsigned)k;
  for (int round = 0; round < 3; round++) {
    for (size_t k = 0; k < 64; k++) {
      const uint64_t before_ns = now_ns;
      run_four(&c, &tile_ns[k]);
      EXPECT(now_ns == before_ns + 4 * tile_ns[k]);
    }
  }
  EXPECT(c.n_runs >= 64);
}

static const et_test tests[] = {
    ET_CASE(short_jobs_are_shared_until_their_time_is_known),
    ET_CASE(long_jobs_are_always_shared),
    ET_CASE(the_least_time_of_a_job_counts),
    ET_CASE(jobs_with_one_context_are_told_apart_by_their_task),
    ET_CASE(jobs_are_shared_again_after_a_reshape),
    ET_CASE(more_jobs_than_entries_run_every_tile_once),
};

ET_TEST_MAIN(tests)
