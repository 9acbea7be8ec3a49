// pthreadpool_shim.h — the thread pool that XNNPACK gets: a reference to the caller's et_pool.
// XNNPACK knows the type by pointer only and calls pthreadpool's functions on it.
// pthreadpool_shim.c defines those functions. So libpthreadpool is not linked, no thread is started
// here, and XNNPACK cannot call another library's pthreadpool.
#ifndef ET_XNNPACK_PTHREADPOOL_SHIM_H
#define ET_XNNPACK_PTHREADPOOL_SHIM_H

#include <pthreadpool.h>

#include "runtime/et.h"

enum { ETI_XNN_MAX_THREADS = 128 };  // of a pool; others are not used

// The least time that a job took so far, of all threads together. A job is a call of a
// pthreadpool_parallelize function; XNNPACK repeats the jobs of a runtime in every run.
typedef struct eti_xnn_job_cost {
  uintptr_t key;  // 0: empty
  uint64_t ns;
} eti_xnn_job_cost;

// A pool, zero-initialised; `pool` is set before each call of XNNPACK that may reshape or run.
// pthreadpool_get_threads_count, which XNNPACK calls in a reshape, stores its result in n_shaped:
// memory that is planned per thread is for that many threads, so a run with a larger pool uses no
// more. Of two runtimes that share one pthreadpool both have to be reshaped when the number of
// threads grows.
struct pthreadpool {
  const et_pool *pool;  // NULL: everything runs on the calling thread
  size_t n_shaped;      // private; 0: no reshape so far
  // A hash table of `n_costs` entries, a power of two, zero-initialised, for times by `clock_ns`.
  // Jobs that took less than ETI_XNN_SHARED_NS run on the calling thread. NULL: every job is
  // shared.
  eti_xnn_job_cost *costs;
  size_t n_costs;
  uint64_t (*clock_ns)(void);
};

// Entering and leaving a job costs two threads half a microsecond, and the second one reads its
// operands from the first one's cache.
enum { ETI_XNN_SHARED_NS = 4000 };

// Has to be called after each reshape, which changes the work of jobs.
void eti_xnn_forget_job_costs(pthreadpool_t threads);

#endif  // ET_XNNPACK_PTHREADPOOL_SHIM_H
