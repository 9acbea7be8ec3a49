// pthreadpool_shim.c — pthreadpool's functions over an et_pool: those that XNNPACK calls, no
// others. A range of up to six dimensions is cut into tiles, the last one or two dimensions by a
// size and the others one by one. Every thread has a share of consecutive tiles, so that a thread
// tends to meet the memory that it wrote in the operator before; when its own share is done it
// takes tiles off the ends of the others'. Who computes a tile never shows in the result. Knows
// nothing of operators.
#include "backends/xnnpack/pthreadpool_shim.h"

#include <stdatomic.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define MOST_DIMS 6
#define CACHE_LINE 64

// Arm machines mix kinds of cores; there XNNPACK wants to know which kind runs a tile.
#if defined(__arm__) || defined(__aarch64__)
extern uint32_t cpuinfo_get_current_uarch_index_with_default(uint32_t default_index);
#endif

// One thread's tiles: [begin, end) in the order of the whole range. Each claim of a tile, by
// anyone, adds one to n_claimed; the first `end - begin` claims are good. The owner takes good
// claims from the beginning, others from the end, so the two never meet.
typedef struct share {
  _Alignas(CACHE_LINE) atomic_size_t n_claimed;
  atomic_size_t n_taken_off;  // from the end
  size_t begin, end;
} share;

typedef struct job job;
typedef void (*any_task)(void);

// What to do for a tile: `call` hands the tile that begins at at[] to `task`.
typedef struct tile_work {
  void (*call)(const job *j, const size_t *at, size_t thread, uint32_t uarch);
  any_task task;
  void *context;
} tile_work;

typedef struct core_kinds {
  uint32_t otherwise;  // where the kind of core is not known, or is beyond `most`
  uint32_t most;
} core_kinds;

struct job {
  tile_work work;
  uint32_t flags;
  const core_kinds *uarchs;  // NULL: the work does not ask
  size_t n_dims;
  const size_t *range, *tile;
  size_t n_tiles[MOST_DIMS];
  share *shares;
  size_t n_shares;
};

size_t pthreadpool_get_threads_count(pthreadpool_t threads) {
  if (threads == NULL) return 1;
  size_t n = threads->pool == NULL ? 1 : threads->pool->n_threads;
  if (n > ETI_XNN_MOST_THREADS) n = ETI_XNN_MOST_THREADS;
  threads->n_shaped = n;
  return n;
}

// ---- numbers too small to be normal: XNNPACK has them taken for zero, as they are slow

#if defined(__SSE__)
typedef unsigned float_mode;
static float_mode flush_small(void) {
  const float_mode before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);  // small results and small operands
  return before;
}
static void restore(float_mode before) {
  _mm_setcsr(before);
}
#elif defined(__aarch64__)
typedef uint64_t float_mode;
static float_mode flush_small(void) {
  float_mode before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  const float_mode flushing = before | 0x1080000u;  // single and half precision
  __asm__ volatile("msr fpcr, %0" : : "r"(flushing));
  return before;
}
static void restore(float_mode before) {
  __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
#else
typedef int float_mode;
static float_mode flush_small(void) {
  return 0;
}
static void restore(float_mode before) {
  (void)before;
}
#endif

// ---- tiles

static size_t tile_of(const job *j, const size_t *at, size_t d) {
  const size_t left = j->range[d] - at[d];
  return left < j->tile[d] ? left : j->tile[d];
}

static void find_tile(const job *j, size_t i, size_t *at) {
  for (size_t d = j->n_dims; d-- > 0;) {
    at[d] = i % j->n_tiles[d] * j->tile[d];
    i /= j->n_tiles[d];
  }
}

static void next_tile(const job *j, size_t *at) {
  for (size_t d = j->n_dims; d-- > 0;) {
    // Compared before it is added: a tile may be larger than any range.
    if (j->range[d] - at[d] > j->tile[d]) {
      at[d] += j->tile[d];
      return;
    }
    at[d] = 0;
  }
}

static bool claim(share *s) {
  return atomic_fetch_add_explicit(&s->n_claimed, 1, memory_order_relaxed) < s->end - s->begin;
}

static uint32_t uarch_here(const job *j) {
  if (j->uarchs == NULL) return 0;
  uint32_t uarch = j->uarchs->otherwise;
#if defined(__arm__) || defined(__aarch64__)
  uarch = cpuinfo_get_current_uarch_index_with_default(uarch);
#endif
  return uarch <= j->uarchs->most ? uarch : j->uarchs->otherwise;
}

// Everything, one tile after the other, where the job was given.
static void do_all(const job *j, size_t n) {
  const uint32_t uarch = uarch_here(j);
  size_t at[MOST_DIMS] = {0};
  for (size_t i = 0; i < n; i++) {
    j->work.call(j, at, 0, uarch);
    next_tile(j, at);
  }
}

static void take_tiles(const job *j, size_t thread) {
  const uint32_t uarch = uarch_here(j);
  size_t at[MOST_DIMS];
  share *mine = &j->shares[thread];
  find_tile(j, mine->begin, at);
  while (claim(mine)) {
    j->work.call(j, at, thread, uarch);
    next_tile(j, at);
  }
  for (size_t k = 1; k < j->n_shares; k++) {
    share *other = &j->shares[(thread + k) % j->n_shares];
    while (claim(other)) {
      const size_t n_before =
          atomic_fetch_add_explicit(&other->n_taken_off, 1, memory_order_relaxed);
      find_tile(j, other->end - 1 - n_before, at);
      j->work.call(j, at, thread, uarch);
    }
  }
}

static void do_share(void *ctx, size_t thread) {
  const job *j = ctx;
  const bool flushes = (j->flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0;
  const float_mode before = flushes ? flush_small() : (float_mode)0;
  if (j->n_shares == 1) {
    do_all(j, j->shares[0].end);
  } else {
    take_tiles(j, thread);
  }
  if (flushes) restore(before);
}

static size_t threads_for(pthreadpool_t threads, size_t n_items) {
  if (threads == NULL || threads->pool == NULL) return 1;
  size_t n = threads->pool->n_threads;
  if (threads->n_shaped > 0 && n > threads->n_shaped) n = threads->n_shaped;
  if (n > ETI_XNN_MOST_THREADS) n = ETI_XNN_MOST_THREADS;
  return n < n_items ? n : n_items;
}

static void run_job(pthreadpool_t threads, job *j) {
  size_t n = 1;
  for (size_t d = 0; d < j->n_dims; d++) {
    if (j->range[d] == 0) return;
    j->n_tiles[d] = j->range[d] / j->tile[d] + (j->range[d] % j->tile[d] != 0);
    n *= j->n_tiles[d];
  }
  share shares[ETI_XNN_MOST_THREADS];
  j->shares = shares;
  j->n_shares = threads_for(threads, n);
  const size_t each = n / j->n_shares, n_longer = n % j->n_shares;
  size_t begin = 0;
  for (size_t t = 0; t < j->n_shares; t++) {
    atomic_init(&shares[t].n_claimed, 0);
    atomic_init(&shares[t].n_taken_off, 0);
    shares[t].begin = begin;
    shares[t].end = begin += each + (t < n_longer);
  }
  if (j->n_shares == 1) {
    do_share(j, 0);
  } else {
    threads->pool->run(threads->pool->ctx, do_share, j, j->n_shares);
  }
}

static void run(pthreadpool_t threads, tile_work work, uint32_t flags, size_t n_dims,
                const size_t *range, const size_t *tile) {
  job j = {.work = work, .flags = flags, .n_dims = n_dims, .range = range, .tile = tile};
  run_job(threads, &j);
}

static void run_for_uarch(pthreadpool_t threads, tile_work work, core_kinds uarchs, uint32_t flags,
                          size_t n_dims, const size_t *range, const size_t *tile) {
  job j = {.work = work,
           .flags = flags,
           .uarchs = &uarchs,
           .n_dims = n_dims,
           .range = range,
           .tile = tile};
  run_job(threads, &j);
}

// ---- one caller a signature: A(d) is where the tile begins in dimension d, T(d) how long it is

#define A(d) at[d]
#define T(d) tile_of(j, at, d)
#define CALLER(kind, ...)                                                                  \
  static void call_##kind(const job *j, const size_t *at, size_t thread, uint32_t uarch) { \
    (void)thread;                                                                          \
    (void)uarch;                                                                           \
    ((pthreadpool_task_##kind##_t)j->work.task)(j->work.context, __VA_ARGS__);             \
  }

CALLER(1d, A(0))
CALLER(1d_with_thread, thread, A(0))
CALLER(1d_tile_1d, A(0), T(0))
CALLER(2d, A(0), A(1))
CALLER(2d_with_thread, thread, A(0), A(1))
CALLER(2d_tile_1d, A(0), A(1), T(1))
CALLER(2d_tile_2d, A(0), A(1), T(0), T(1))
CALLER(3d, A(0), A(1), A(2))
CALLER(3d_tile_1d, A(0), A(1), A(2), T(2))
CALLER(3d_tile_1d_with_thread, thread, A(0), A(1), A(2), T(2))
CALLER(3d_tile_2d, A(0), A(1), A(2), T(1), T(2))
CALLER(4d, A(0), A(1), A(2), A(3))
CALLER(4d_tile_2d, A(0), A(1), A(2), A(3), T(2), T(3))
CALLER(5d, A(0), A(1), A(2), A(3), A(4))
CALLER(5d_tile_2d, A(0), A(1), A(2), A(3), A(4), T(3), T(4))
CALLER(6d_tile_2d, A(0), A(1), A(2), A(3), A(4), A(5), T(4), T(5))
CALLER(2d_tile_1d_with_id, uarch, A(0), A(1), T(1))
CALLER(2d_tile_2d_with_id, uarch, A(0), A(1), T(0), T(1))
CALLER(3d_tile_1d_with_id, uarch, A(0), A(1), A(2), T(2))
CALLER(3d_tile_1d_with_id_with_thread, uarch, thread, A(0), A(1), A(2), T(2))
CALLER(3d_tile_2d_with_id, uarch, A(0), A(1), A(2), T(1), T(2))
CALLER(4d_tile_2d_with_id, uarch, A(0), A(1), A(2), A(3), T(2), T(3))

#undef A
#undef T
#undef CALLER

// ---- pthreadpool's functions, by their shapes

void pthreadpool_parallelize_1d(pthreadpool_t threads, pthreadpool_task_1d_t task, void *context,
                                size_t i, uint32_t flags) {
  run(threads, (tile_work){call_1d, (any_task)task, context}, flags, 1, (size_t[]){i},
      (size_t[]){1});
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t threads,
                                            pthreadpool_task_1d_with_thread_t task, void *context,
                                            size_t i, uint32_t flags) {
  run(threads, (tile_work){call_1d_with_thread, (any_task)task, context}, flags, 1, (size_t[]){i},
      (size_t[]){1});
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t threads, pthreadpool_task_1d_tile_1d_t task,
                                        void *context, size_t i, size_t tile_i, uint32_t flags) {
  run(threads, (tile_work){call_1d_tile_1d, (any_task)task, context}, flags, 1, (size_t[]){i},
      (size_t[]){tile_i});
}

void pthreadpool_parallelize_2d(pthreadpool_t threads, pthreadpool_task_2d_t task, void *context,
                                size_t i, size_t j, uint32_t flags) {
  run(threads, (tile_work){call_2d, (any_task)task, context}, flags, 2, (size_t[]){i, j},
      (size_t[]){1, 1});
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t threads,
                                            pthreadpool_task_2d_with_thread_t task, void *context,
                                            size_t i, size_t j, uint32_t flags) {
  run(threads, (tile_work){call_2d_with_thread, (any_task)task, context}, flags, 2,
      (size_t[]){i, j}, (size_t[]){1, 1});
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t threads, pthreadpool_task_2d_tile_1d_t task,
                                        void *context, size_t i, size_t j, size_t tile_j,
                                        uint32_t flags) {
  run(threads, (tile_work){call_2d_tile_1d, (any_task)task, context}, flags, 2, (size_t[]){i, j},
      (size_t[]){1, tile_j});
}

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t threads, pthreadpool_task_2d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t tile_i,
                                        size_t tile_j, uint32_t flags) {
  run(threads, (tile_work){call_2d_tile_2d, (any_task)task, context}, flags, 2, (size_t[]){i, j},
      (size_t[]){tile_i, tile_j});
}

void pthreadpool_parallelize_3d(pthreadpool_t threads, pthreadpool_task_3d_t task, void *context,
                                size_t i, size_t j, size_t k, uint32_t flags) {
  run(threads, (tile_work){call_3d, (any_task)task, context}, flags, 3, (size_t[]){i, j, k},
      (size_t[]){1, 1, 1});
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t threads, pthreadpool_task_3d_tile_1d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t tile_k,
                                        uint32_t flags) {
  run(threads, (tile_work){call_3d_tile_1d, (any_task)task, context}, flags, 3, (size_t[]){i, j, k},
      (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t threads,
                                                    pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void *context, size_t i, size_t j, size_t k,
                                                    size_t tile_k, uint32_t flags) {
  run(threads, (tile_work){call_3d_tile_1d_with_thread, (any_task)task, context}, flags, 3,
      (size_t[]){i, j, k}, (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t threads, pthreadpool_task_3d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t tile_j,
                                        size_t tile_k, uint32_t flags) {
  run(threads, (tile_work){call_3d_tile_2d, (any_task)task, context}, flags, 3, (size_t[]){i, j, k},
      (size_t[]){1, tile_j, tile_k});
}

void pthreadpool_parallelize_4d(pthreadpool_t threads, pthreadpool_task_4d_t task, void *context,
                                size_t i, size_t j, size_t k, size_t l, uint32_t flags) {
  run(threads, (tile_work){call_4d, (any_task)task, context}, flags, 4, (size_t[]){i, j, k, l},
      (size_t[]){1, 1, 1, 1});
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t threads, pthreadpool_task_4d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t tile_k, size_t tile_l, uint32_t flags) {
  run(threads, (tile_work){call_4d_tile_2d, (any_task)task, context}, flags, 4,
      (size_t[]){i, j, k, l}, (size_t[]){1, 1, tile_k, tile_l});
}

void pthreadpool_parallelize_5d(pthreadpool_t threads, pthreadpool_task_5d_t task, void *context,
                                size_t i, size_t j, size_t k, size_t l, size_t m, uint32_t flags) {
  run(threads, (tile_work){call_5d, (any_task)task, context}, flags, 5, (size_t[]){i, j, k, l, m},
      (size_t[]){1, 1, 1, 1, 1});
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t threads, pthreadpool_task_5d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t tile_l, size_t tile_m, uint32_t flags) {
  run(threads, (tile_work){call_5d_tile_2d, (any_task)task, context}, flags, 5,
      (size_t[]){i, j, k, l, m}, (size_t[]){1, 1, 1, tile_l, tile_m});
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t threads, pthreadpool_task_6d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t n, size_t tile_m, size_t tile_n,
                                        uint32_t flags) {
  run(threads, (tile_work){call_6d_tile_2d, (any_task)task, context}, flags, 6,
      (size_t[]){i, j, k, l, m, n}, (size_t[]){1, 1, 1, 1, tile_m, tile_n});
}

// ---- the same for machines with several kinds of cores

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j,
                                                   size_t tile_j, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_2d_tile_1d_with_id, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 2, (size_t[]){i, j}, (size_t[]){1, tile_j});
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j,
                                                   size_t tile_i, size_t tile_j, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_2d_tile_2d_with_id, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 2, (size_t[]){i, j},
                (size_t[]){tile_i, tile_j});
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t tile_k, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_1d_with_id, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
    pthreadpool_t threads, pthreadpool_task_3d_tile_1d_with_id_with_thread_t task, void *context,
    uint32_t uarch, uint32_t max_uarch, size_t i, size_t j, size_t k, size_t tile_k,
    uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_1d_with_id_with_thread, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t tile_j, size_t tile_k, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_2d_with_id, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, tile_j, tile_k});
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t l, size_t tile_k, size_t tile_l,
                                                   uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_4d_tile_2d_with_id, (any_task)task, context},
                (core_kinds){uarch, max_uarch}, flags, 4, (size_t[]){i, j, k, l},
                (size_t[]){1, 1, tile_k, tile_l});
}
