// pthreadpool_shim.h — the thread pool that XNNPACK gets: a reference to the caller's et_pool.
// XNNPACK knows the type by pointer only and calls pthreadpool's functions on it.
// pthreadpool_shim.c defines those functions. So libpthreadpool is not linked, no thread is started
// here, and XNNPACK cannot call another library's pthreadpool.
#ifndef ET_XNNPACK_PTHREADPOOL_SHIM_H
#define ET_XNNPACK_PTHREADPOOL_SHIM_H

#include <pthreadpool.h>

#include "runtime/et.h"

enum { ETI_XNN_MAX_THREADS = 128 };  // of a pool; others are not used

// A pool, zero-initialised; `pool` is set before each call of XNNPACK that may reshape or run.
// pthreadpool_get_threads_count, which XNNPACK calls in a reshape, stores its result in n_shaped:
// memory that is planned per thread is for that many threads, so a run with a larger pool uses no
// more. Of two runtimes that share one pthreadpool both have to be reshaped when the number of
// threads grows.
struct pthreadpool {
  const et_pool *pool;  // NULL: everything runs on the calling thread
  size_t n_shaped;      // private; 0: no reshape so far
};

#endif  // ET_XNNPACK_PTHREADPOOL_SHIM_H
