// pthreadpool_shim.h — what XNNPACK is given as its thread pool: a way to the caller's et_pool.
// XNNPACK names the type only by pointer, and calls pthreadpool's functions on it;
// pthreadpool_shim.c defines those it calls, so libpthreadpool is not linked, no thread is started
// here, and none of these functions can be another library's.
#ifndef ET_XNNPACK_THREADS_H
#define ET_XNNPACK_THREADS_H

#include <pthreadpool.h>

#include "runtime/et.h"

enum { ETI_XNN_MOST_THREADS = 128 };  // more than these of a pool are left alone

// Zero-initialise, then set `pool` before each call into XNNPACK that may reshape or run.
// pthreadpool_get_threads_count, which XNNPACK asks while it reshapes, notes its answer in
// n_shaped: memory that is planned per thread has room for so many, so a run with a pool of more
// threads uses no more than that. Of two runtimes that share one pthreadpool, reshape both when the
// number of threads grows.
struct pthreadpool {
  const et_pool *pool;  // NULL: everything runs on the calling thread
  size_t n_shaped;      // private; 0: not asked yet
};

#endif  // ET_XNNPACK_THREADS_H
