// parallel.c — cuts a range into pieces, four per thread so that a slower core gets fewer, and
// passes them to the caller's pool. Knows no threads.
#include "runtime/et.h"

typedef struct range_job {
  et_range_fn fn;
  void *ctx;
  size_t n;
  size_t piece;
} range_job;

static void run_piece(void *ctx, size_t i) {
  const range_job *job = ctx;
  const size_t begin = i * job->piece;
  const size_t left = job->n - begin;
  job->fn(job->ctx, begin, begin + (left < job->piece ? left : job->piece));
}

void et_parallel_for(const et_pool *pool, et_range_fn fn, void *ctx, size_t n, size_t grain) {
  if (n == 0) return;
  if (pool == NULL || pool->n_threads < 2 || n / 2 < grain) {
    fn(ctx, 0, n);
    return;
  }
  const size_t even = n / (4 * pool->n_threads) + 1;
  range_job job = {.fn = fn, .ctx = ctx, .n = n, .piece = even > grain ? even : grain};
  pool->run(pool->ctx, run_piece, &job, n / job.piece + (n % job.piece != 0));
}
