// pthreadpool_shim.c — the functions of pthreadpool that XNNPACK calls, implemented over an
// et_pool. A range of up to six dimensions is cut into tiles, the last one or two dimensions by a
// tile size, the others one by one. Every thread has a range of consecutive tiles, so that it tends
// to read memory that it wrote in the previous operator. When its range is done it steals tiles
// from the ends of the other threads' ranges. Jobs that were short when they ran last are not
// shared. Results do not depend on which thread computes a tile. Knows nothing of operators.
#include "backends/xnnpack/pthreadpool_shim.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define MAX_DIMS 6
#define CACHE_LINE 64

// Arm machines mix kinds of cores; there XNNPACK selects a kernel by the kind of core that runs a
// tile.
#if defined(__arm__) || defined(__aarch64__)
extern uint32_t cpuinfo_get_current_uarch_index_with_default(uint32_t default_index);
#endif

// One thread's tiles: [begin, end) in the order of the whole range. Each claim of a tile, by any
// thread, adds one to n_claimed; the first `end - begin` claims succeed. The owner takes tiles from
// the begin, other threads from the end, so they never meet.
typedef struct tile_range {
  _Alignas(CACHE_LINE) atomic_size_t n_claimed;
  atomic_size_t n_stolen;  // from the end
  size_t begin, end;
} tile_range;

typedef struct job job;
typedef void (*any_task)(void);

// The work per tile: `call` calls `task` for the tile that begins at at[].
typedef struct tile_work {
  void (*call)(const job *j, const size_t *at, size_t thread, uint32_t uarch);
  any_task task;
  void *context;
} tile_work;

typedef struct uarch_indices {
  uint32_t default_index;  // if the kind of core is unknown or above max_index
  uint32_t max_index;
} uarch_indices;

struct job {
  tile_work work;
  uint32_t flags;
  const uarch_indices *uarchs;  // NULL: the task takes no index
  size_t n_dims;
  const size_t *range, *tile;
  size_t n_tiles[MAX_DIMS];
  tile_range *ranges;
  size_t n_threads;
  uint64_t (*clock_ns)(void);    // NULL: not measured
  atomic_uint_fast64_t busy_ns;  // of all threads together
};

size_t pthreadpool_get_threads_count(pthreadpool_t threads) {
  if (threads == NULL) return 1;
  size_t n = threads->pool == NULL ? 1 : threads->pool->n_threads;
  if (n > ETI_XNN_MAX_THREADS) n = ETI_XNN_MAX_THREADS;
  threads->n_shaped = n;
  return n;
}

// ---- Subnormal numbers: XNNPACK lets the processor flush them to zero, as they are slow

#if defined(__SSE__)
typedef unsigned float_mode;
static float_mode flush_subnormals(void) {
  const float_mode before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);  // results (FTZ) and operands (DAZ)
  return before;
}
static void restore_mode(float_mode before) {
  _mm_setcsr(before);
}
#elif defined(__aarch64__)
typedef uint64_t float_mode;
static float_mode flush_subnormals(void) {
  float_mode before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  const float_mode flushing = before | 0x1080000u;  // single and half precision
  __asm__ volatile("msr fpcr, %0" : : "r"(flushing));
  return before;
}
static void restore_mode(float_mode before) {
  __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
#else
typedef int float_mode;
static float_mode flush_subnormals(void) {
  return 0;
}
static void restore_mode(float_mode before) {
  (void)before;
}
#endif

// ---- Costs of jobs

enum { MAX_PROBES = 4 };

void eti_xnn_forget_job_costs(pthreadpool_t threads) {
  if (threads->costs != NULL) memset(threads->costs, 0, threads->n_costs * sizeof *threads->costs);
}

// The entry of a job, which replaces another one's if there is no room; NULL without a table.
static eti_xnn_job_cost *find_cost(pthreadpool_t threads, const tile_work *work) {
  if (threads->costs == NULL) return NULL;
  // A context is a part of an operator, so that its lowest bits are zero.
  const uintptr_t key = (uintptr_t)work->context ^ ((uintptr_t)work->task << 1);
  const size_t mask = threads->n_costs - 1, first = (size_t)(key ^ key >> 12) >> 4;
  eti_xnn_job_cost *cost = &threads->costs[first & mask];
  for (size_t i = 1; i < MAX_PROBES && cost->key != key && cost->key != 0; i++)
    cost = &threads->costs[(first + i) & mask];
  if (cost->key != key) *cost = (eti_xnn_job_cost){.key = key, .ns = UINT64_MAX};
  return cost;
}

// ---- Tiles

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
    // Compared before the addition: a tile may be larger than any range.
    if (j->range[d] - at[d] > j->tile[d]) {
      at[d] += j->tile[d];
      return;
    }
    at[d] = 0;
  }
}

static bool claim_tile(tile_range *s) {
  return atomic_fetch_add_explicit(&s->n_claimed, 1, memory_order_relaxed) < s->end - s->begin;
}

static uint32_t current_uarch(const job *j) {
  if (j->uarchs == NULL) return 0;
  uint32_t uarch = j->uarchs->default_index;
#if defined(__arm__) || defined(__aarch64__)
  uarch = cpuinfo_get_current_uarch_index_with_default(uarch);
#endif
  return uarch <= j->uarchs->max_index ? uarch : j->uarchs->default_index;
}

// Runs all tiles, one after the other, on the calling thread.
static void run_all_tiles(const job *j, size_t n) {
  const uint32_t uarch = current_uarch(j);
  size_t at[MAX_DIMS] = {0};
  for (size_t i = 0; i < n; i++) {
    j->work.call(j, at, 0, uarch);
    next_tile(j, at);
  }
}

static void run_and_steal_tiles(const job *j, size_t thread) {
  const uint32_t uarch = current_uarch(j);
  size_t at[MAX_DIMS];
  tile_range *mine = &j->ranges[thread];
  find_tile(j, mine->begin, at);
  while (claim_tile(mine)) {
    j->work.call(j, at, thread, uarch);
    next_tile(j, at);
  }
  for (size_t k = 1; k < j->n_threads; k++) {
    tile_range *other = &j->ranges[(thread + k) % j->n_threads];
    while (claim_tile(other)) {
      const size_t n_before = atomic_fetch_add_explicit(&other->n_stolen, 1, memory_order_relaxed);
      find_tile(j, other->end - 1 - n_before, at);
      j->work.call(j, at, thread, uarch);
    }
  }
}

static void run_thread(void *ctx, size_t thread) {
  job *j = ctx;
  const bool flushes = (j->flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0;
  const float_mode before = flushes ? flush_subnormals() : (float_mode)0;
  const uint64_t begin_ns = j->clock_ns == NULL ? 0 : j->clock_ns();
  if (j->n_threads == 1) {
    run_all_tiles(j, j->ranges[0].end);
  } else {
    run_and_steal_tiles(j, thread);
  }
  if (j->clock_ns != NULL) atomic_fetch_add(&j->busy_ns, j->clock_ns() - begin_ns);
  if (flushes) restore_mode(before);
}

static size_t thread_count(pthreadpool_t threads, size_t n_items) {
  if (threads == NULL || threads->pool == NULL) return 1;
  size_t n = threads->pool->n_threads;
  if (threads->n_shaped > 0 && n > threads->n_shaped) n = threads->n_shaped;
  if (n > ETI_XNN_MAX_THREADS) n = ETI_XNN_MAX_THREADS;
  return n < n_items ? n : n_items;
}

static void run_job(pthreadpool_t threads, job *j) {
  size_t n = 1;
  for (size_t d = 0; d < j->n_dims; d++) {
    if (j->range[d] == 0) return;
    j->n_tiles[d] = j->range[d] / j->tile[d] + (j->range[d] % j->tile[d] != 0);
    n *= j->n_tiles[d];
  }
  tile_range ranges[ETI_XNN_MAX_THREADS];
  j->ranges = ranges;
  j->n_threads = thread_count(threads, n);
  eti_xnn_job_cost *const cost = j->n_threads == 1 ? NULL : find_cost(threads, &j->work);
  if (cost != NULL && cost->ns < ETI_XNN_SHARED_NS) j->n_threads = 1;
  const size_t each = n / j->n_threads, n_longer = n % j->n_threads;
  size_t begin = 0;
  for (size_t t = 0; t < j->n_threads; t++) {
    atomic_init(&ranges[t].n_claimed, 0);
    atomic_init(&ranges[t].n_stolen, 0);
    ranges[t].begin = begin;
    ranges[t].end = begin += each + (t < n_longer);
  }
  if (j->n_threads == 1) {
    run_thread(j, 0);
    return;
  }
  if (cost != NULL) j->clock_ns = threads->clock_ns;
  threads->pool->run(threads->pool->ctx, run_thread, j, j->n_threads);
  if (cost != NULL && j->busy_ns < cost->ns) cost->ns = j->busy_ns;
}

static void run_tiles(pthreadpool_t threads, tile_work work, uint32_t flags, size_t n_dims,
                      const size_t *range, const size_t *tile) {
  job j = {.work = work, .flags = flags, .n_dims = n_dims, .range = range, .tile = tile};
  run_job(threads, &j);
}

static void run_for_uarch(pthreadpool_t threads, tile_work work, uarch_indices uarchs,
                          uint32_t flags, size_t n_dims, const size_t *range, const size_t *tile) {
  job j = {.work = work,
           .flags = flags,
           .uarchs = &uarchs,
           .n_dims = n_dims,
           .range = range,
           .tile = tile};
  run_job(threads, &j);
}

// ---- A caller for each signature of a task: A(d) is the begin of the tile in dimension d, T(d)
// its length

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

// ---- pthreadpool's functions, by the shape of their range

void pthreadpool_parallelize_1d(pthreadpool_t threads, pthreadpool_task_1d_t task, void *context,
                                size_t i, uint32_t flags) {
  run_tiles(threads, (tile_work){call_1d, (any_task)task, context}, flags, 1, (size_t[]){i},
            (size_t[]){1});
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t threads,
                                            pthreadpool_task_1d_with_thread_t task, void *context,
                                            size_t i, uint32_t flags) {
  run_tiles(threads, (tile_work){call_1d_with_thread, (any_task)task, context}, flags, 1,
            (size_t[]){i}, (size_t[]){1});
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t threads, pthreadpool_task_1d_tile_1d_t task,
                                        void *context, size_t i, size_t tile_i, uint32_t flags) {
  run_tiles(threads, (tile_work){call_1d_tile_1d, (any_task)task, context}, flags, 1, (size_t[]){i},
            (size_t[]){tile_i});
}

void pthreadpool_parallelize_2d(pthreadpool_t threads, pthreadpool_task_2d_t task, void *context,
                                size_t i, size_t j, uint32_t flags) {
  run_tiles(threads, (tile_work){call_2d, (any_task)task, context}, flags, 2, (size_t[]){i, j},
            (size_t[]){1, 1});
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t threads,
                                            pthreadpool_task_2d_with_thread_t task, void *context,
                                            size_t i, size_t j, uint32_t flags) {
  run_tiles(threads, (tile_work){call_2d_with_thread, (any_task)task, context}, flags, 2,
            (size_t[]){i, j}, (size_t[]){1, 1});
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t threads, pthreadpool_task_2d_tile_1d_t task,
                                        void *context, size_t i, size_t j, size_t tile_j,
                                        uint32_t flags) {
  run_tiles(threads, (tile_work){call_2d_tile_1d, (any_task)task, context}, flags, 2,
            (size_t[]){i, j}, (size_t[]){1, tile_j});
}

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t threads, pthreadpool_task_2d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t tile_i,
                                        size_t tile_j, uint32_t flags) {
  run_tiles(threads, (tile_work){call_2d_tile_2d, (any_task)task, context}, flags, 2,
            (size_t[]){i, j}, (size_t[]){tile_i, tile_j});
}

void pthreadpool_parallelize_3d(pthreadpool_t threads, pthreadpool_task_3d_t task, void *context,
                                size_t i, size_t j, size_t k, uint32_t flags) {
  run_tiles(threads, (tile_work){call_3d, (any_task)task, context}, flags, 3, (size_t[]){i, j, k},
            (size_t[]){1, 1, 1});
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t threads, pthreadpool_task_3d_tile_1d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t tile_k,
                                        uint32_t flags) {
  run_tiles(threads, (tile_work){call_3d_tile_1d, (any_task)task, context}, flags, 3,
            (size_t[]){i, j, k}, (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t threads,
                                                    pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void *context, size_t i, size_t j, size_t k,
                                                    size_t tile_k, uint32_t flags) {
  run_tiles(threads, (tile_work){call_3d_tile_1d_with_thread, (any_task)task, context}, flags, 3,
            (size_t[]){i, j, k}, (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t threads, pthreadpool_task_3d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t tile_j,
                                        size_t tile_k, uint32_t flags) {
  run_tiles(threads, (tile_work){call_3d_tile_2d, (any_task)task, context}, flags, 3,
            (size_t[]){i, j, k}, (size_t[]){1, tile_j, tile_k});
}

void pthreadpool_parallelize_4d(pthreadpool_t threads, pthreadpool_task_4d_t task, void *context,
                                size_t i, size_t j, size_t k, size_t l, uint32_t flags) {
  run_tiles(threads, (tile_work){call_4d, (any_task)task, context}, flags, 4,
            (size_t[]){i, j, k, l}, (size_t[]){1, 1, 1, 1});
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t threads, pthreadpool_task_4d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t tile_k, size_t tile_l, uint32_t flags) {
  run_tiles(threads, (tile_work){call_4d_tile_2d, (any_task)task, context}, flags, 4,
            (size_t[]){i, j, k, l}, (size_t[]){1, 1, tile_k, tile_l});
}

void pthreadpool_parallelize_5d(pthreadpool_t threads, pthreadpool_task_5d_t task, void *context,
                                size_t i, size_t j, size_t k, size_t l, size_t m, uint32_t flags) {
  run_tiles(threads, (tile_work){call_5d, (any_task)task, context}, flags, 5,
            (size_t[]){i, j, k, l, m}, (size_t[]){1, 1, 1, 1, 1});
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t threads, pthreadpool_task_5d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t tile_l, size_t tile_m, uint32_t flags) {
  run_tiles(threads, (tile_work){call_5d_tile_2d, (any_task)task, context}, flags, 5,
            (size_t[]){i, j, k, l, m}, (size_t[]){1, 1, 1, tile_l, tile_m});
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t threads, pthreadpool_task_6d_tile_2d_t task,
                                        void *context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t n, size_t tile_m, size_t tile_n,
                                        uint32_t flags) {
  run_tiles(threads, (tile_work){call_6d_tile_2d, (any_task)task, context}, flags, 6,
            (size_t[]){i, j, k, l, m, n}, (size_t[]){1, 1, 1, 1, tile_m, tile_n});
}

// ---- The same for machines with several kinds of cores

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j,
                                                   size_t tile_j, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_2d_tile_1d_with_id, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 2, (size_t[]){i, j},
                (size_t[]){1, tile_j});
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j,
                                                   size_t tile_i, size_t tile_j, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_2d_tile_2d_with_id, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 2, (size_t[]){i, j},
                (size_t[]){tile_i, tile_j});
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t tile_k, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_1d_with_id, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
    pthreadpool_t threads, pthreadpool_task_3d_tile_1d_with_id_with_thread_t task, void *context,
    uint32_t uarch, uint32_t max_uarch, size_t i, size_t j, size_t k, size_t tile_k,
    uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_1d_with_id_with_thread, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, 1, tile_k});
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t tile_j, size_t tile_k, uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_3d_tile_2d_with_id, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 3, (size_t[]){i, j, k},
                (size_t[]){1, tile_j, tile_k});
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t threads,
                                                   pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void *context, uint32_t uarch,
                                                   uint32_t max_uarch, size_t i, size_t j, size_t k,
                                                   size_t l, size_t tile_k, size_t tile_l,
                                                   uint32_t flags) {
  run_for_uarch(threads, (tile_work){call_4d_tile_2d_with_id, (any_task)task, context},
                (uarch_indices){uarch, max_uarch}, flags, 4, (size_t[]){i, j, k, l},
                (size_t[]){1, 1, tile_k, tile_l});
}
