// Tests of pthreadpool's functions for XNNPACK: each passes every tile once, with the right
// remainders, for any number of threads; without a pool everything runs on the calling thread.
// Under the tsan preset they are also the test for data races.
#define _POSIX_C_SOURCE 199309L
#include "backends/xnnpack/pthreadpool_shim.h"

#include "et_test.h"

#include <float.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DIMS 6
#define MAX_ITEMS 4096
#define UARCH 3
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct rig {
  void *memory;
  et_thread_pool *pool;
  et_pool handle;
  struct pthreadpool threads;
} rig;

static void start(rig *r, size_t n_threads) {
  et_error err;
  const size_t bytes = et_thread_pool_bytes(n_threads);
  *r = (rig){.memory = aligned_alloc(ET_MEMORY_ALIGN, (bytes + 63) & ~(size_t)63)};
  if (r->memory == NULL ||
      et_thread_pool_init(&r->pool, (et_span){r->memory, bytes}, n_threads, &err) != ET_OK)
    abort();
  r->handle = et_thread_pool_handle(r->pool);
  r->threads.pool = &r->handle;
}

static void stop(rig *r) {
  et_thread_pool_deinit(r->pool);
  free(r->memory);
}

// ---- Tasks that count their items

typedef size_t place[MAX_DIMS];

typedef struct tally {
  size_t n_dims;
  place range, tile;
  size_t n_threads;
  atomic_uint seen[MAX_ITEMS];  // calls for each item of the range
  atomic_uint n_inside[8];      // current calls, by their thread number
  atomic_uint n_wrong;
} tally;

static void mark(tally *t, const size_t *at, const size_t *size) {
  size_t n = 1;
  for (size_t d = 0; d < t->n_dims; d++) {
    const size_t left = at[d] < t->range[d] ? t->range[d] - at[d] : 0;
    if (at[d] % t->tile[d] != 0 || size[d] != (left < t->tile[d] ? left : t->tile[d])) {
      atomic_fetch_add(&t->n_wrong, 1);
      return;
    }
    n *= size[d];
  }
  for (size_t i = 0; i < n; i++) {
    size_t rest = i, flat = 0, stride = 1;
    for (size_t d = t->n_dims; d-- > 0;) {
      flat += (at[d] + rest % size[d]) * stride;
      rest /= size[d];
      stride *= t->range[d];
    }
    atomic_fetch_add(&t->seen[flat], 1);
  }
}

static void enter(tally *t, size_t thread) {
  if (thread >= t->n_threads || atomic_fetch_add(&t->n_inside[thread], 1) != 0)
    atomic_fetch_add(&t->n_wrong, 1);
}

static void leave(tally *t, size_t thread) {
  if (thread < t->n_threads) atomic_fetch_sub(&t->n_inside[thread], 1);
}

static void check_uarch(tally *t, uint32_t uarch) {
  if (uarch > UARCH) atomic_fetch_add(&t->n_wrong, 1);
}

static void mark_1d(void *t, size_t i) {
  mark(t, (place){i}, (place){1});
}

static void mark_1d_with_thread(void *t, size_t thread, size_t i) {
  enter(t, thread);
  mark(t, (place){i}, (place){1});
  leave(t, thread);
}

static void mark_1d_tile_1d(void *t, size_t i, size_t n_i) {
  mark(t, (place){i}, (place){n_i});
}

static void mark_2d(void *t, size_t i, size_t j) {
  mark(t, (place){i, j}, (place){1, 1});
}

static void mark_2d_with_thread(void *t, size_t thread, size_t i, size_t j) {
  enter(t, thread);
  mark(t, (place){i, j}, (place){1, 1});
  leave(t, thread);
}

static void mark_2d_tile_1d(void *t, size_t i, size_t j, size_t n_j) {
  mark(t, (place){i, j}, (place){1, n_j});
}

static void mark_2d_tile_2d(void *t, size_t i, size_t j, size_t n_i, size_t n_j) {
  mark(t, (place){i, j}, (place){n_i, n_j});
}

static void mark_3d(void *t, size_t i, size_t j, size_t k) {
  mark(t, (place){i, j, k}, (place){1, 1, 1});
}

static void mark_3d_tile_1d(void *t, size_t i, size_t j, size_t k, size_t n_k) {
  mark(t, (place){i, j, k}, (place){1, 1, n_k});
}

static void mark_3d_tile_1d_with_thread(void *t, size_t thread, size_t i, size_t j, size_t k,
                                        size_t n_k) {
  enter(t, thread);
  mark(t, (place){i, j, k}, (place){1, 1, n_k});
  leave(t, thread);
}

static void mark_3d_tile_2d(void *t, size_t i, size_t j, size_t k, size_t n_j, size_t n_k) {
  mark(t, (place){i, j, k}, (place){1, n_j, n_k});
}

static void mark_4d(void *t, size_t i, size_t j, size_t k, size_t l) {
  mark(t, (place){i, j, k, l}, (place){1, 1, 1, 1});
}

static void mark_4d_tile_2d(void *t, size_t i, size_t j, size_t k, size_t l, size_t n_k,
                            size_t n_l) {
  mark(t, (place){i, j, k, l}, (place){1, 1, n_k, n_l});
}

static void mark_5d(void *t, size_t i, size_t j, size_t k, size_t l, size_t m) {
  mark(t, (place){i, j, k, l, m}, (place){1, 1, 1, 1, 1});
}

static void mark_5d_tile_2d(void *t, size_t i, size_t j, size_t k, size_t l, size_t m, size_t n_l,
                            size_t n_m) {
  mark(t, (place){i, j, k, l, m}, (place){1, 1, 1, n_l, n_m});
}

static void mark_6d_tile_2d(void *t, size_t i, size_t j, size_t k, size_t l, size_t m, size_t n,
                            size_t n_m, size_t n_n) {
  mark(t, (place){i, j, k, l, m, n}, (place){1, 1, 1, 1, n_m, n_n});
}

static void mark_2d_tile_1d_with_uarch(void *t, uint32_t uarch, size_t i, size_t j, size_t n_j) {
  check_uarch(t, uarch);
  mark(t, (place){i, j}, (place){1, n_j});
}

static void mark_2d_tile_2d_with_uarch(void *t, uint32_t uarch, size_t i, size_t j, size_t n_i,
                                       size_t n_j) {
  check_uarch(t, uarch);
  mark(t, (place){i, j}, (place){n_i, n_j});
}

static void mark_3d_tile_1d_with_uarch(void *t, uint32_t uarch, size_t i, size_t j, size_t k,
                                       size_t n_k) {
  check_uarch(t, uarch);
  mark(t, (place){i, j, k}, (place){1, 1, n_k});
}

static void mark_3d_tile_1d_with_uarch_with_thread(void *t, uint32_t uarch, size_t thread, size_t i,
                                                   size_t j, size_t k, size_t n_k) {
  enter(t, thread);
  check_uarch(t, uarch);
  mark(t, (place){i, j, k}, (place){1, 1, n_k});
  leave(t, thread);
}

static void mark_3d_tile_2d_with_uarch(void *t, uint32_t uarch, size_t i, size_t j, size_t k,
                                       size_t n_j, size_t n_k) {
  check_uarch(t, uarch);
  mark(t, (place){i, j, k}, (place){1, n_j, n_k});
}

static void mark_4d_tile_2d_with_uarch(void *t, uint32_t uarch, size_t i, size_t j, size_t k,
                                       size_t l, size_t n_k, size_t n_l) {
  check_uarch(t, uarch);
  mark(t, (place){i, j, k, l}, (place){1, 1, n_k, n_l});
}

static void run_1d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_1d(threads, mark_1d, t, t->range[0], 0);
}

static void run_1d_with_thread(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_1d_with_thread(threads, mark_1d_with_thread, t, t->range[0], 0);
}

static void run_1d_tile_1d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_1d_tile_1d(threads, mark_1d_tile_1d, t, t->range[0], t->tile[0], 0);
}

static void run_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d(threads, mark_2d, t, t->range[0], t->range[1], 0);
}

static void run_2d_with_thread(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d_with_thread(threads, mark_2d_with_thread, t, t->range[0], t->range[1],
                                         0);
}

static void run_2d_tile_1d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d_tile_1d(threads, mark_2d_tile_1d, t, t->range[0], t->range[1],
                                     t->tile[1], 0);
}

static void run_2d_tile_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d_tile_2d(threads, mark_2d_tile_2d, t, t->range[0], t->range[1],
                                     t->tile[0], t->tile[1], 0);
}

static void run_3d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d(threads, mark_3d, t, t->range[0], t->range[1], t->range[2], 0);
}

static void run_3d_tile_1d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_1d(threads, mark_3d_tile_1d, t, t->range[0], t->range[1],
                                     t->range[2], t->tile[2], 0);
}

static void run_3d_tile_1d_with_thread(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_1d_with_thread(threads, mark_3d_tile_1d_with_thread, t,
                                                 t->range[0], t->range[1], t->range[2], t->tile[2],
                                                 0);
}

static void run_3d_tile_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_2d(threads, mark_3d_tile_2d, t, t->range[0], t->range[1],
                                     t->range[2], t->tile[1], t->tile[2], 0);
}

static void run_4d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_4d(threads, mark_4d, t, t->range[0], t->range[1], t->range[2],
                             t->range[3], 0);
}

static void run_4d_tile_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_4d_tile_2d(threads, mark_4d_tile_2d, t, t->range[0], t->range[1],
                                     t->range[2], t->range[3], t->tile[2], t->tile[3], 0);
}

static void run_5d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_5d(threads, mark_5d, t, t->range[0], t->range[1], t->range[2],
                             t->range[3], t->range[4], 0);
}

static void run_5d_tile_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_5d_tile_2d(threads, mark_5d_tile_2d, t, t->range[0], t->range[1],
                                     t->range[2], t->range[3], t->range[4], t->tile[3], t->tile[4],
                                     0);
}

static void run_6d_tile_2d(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_6d_tile_2d(threads, mark_6d_tile_2d, t, t->range[0], t->range[1],
                                     t->range[2], t->range[3], t->range[4], t->range[5], t->tile[4],
                                     t->tile[5], 0);
}

static void run_2d_tile_1d_with_uarch(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d_tile_1d_with_uarch(threads, mark_2d_tile_1d_with_uarch, t, UARCH,
                                                UARCH, t->range[0], t->range[1], t->tile[1], 0);
}

static void run_2d_tile_2d_with_uarch(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_2d_tile_2d_with_uarch(threads, mark_2d_tile_2d_with_uarch, t, UARCH,
                                                UARCH, t->range[0], t->range[1], t->tile[0],
                                                t->tile[1], 0);
}

static void run_3d_tile_1d_with_uarch(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_1d_with_uarch(threads, mark_3d_tile_1d_with_uarch, t, UARCH,
                                                UARCH, t->range[0], t->range[1], t->range[2],
                                                t->tile[2], 0);
}

static void run_3d_tile_1d_with_uarch_with_thread(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
      threads, mark_3d_tile_1d_with_uarch_with_thread, t, UARCH, UARCH, t->range[0], t->range[1],
      t->range[2], t->tile[2], 0);
}

static void run_3d_tile_2d_with_uarch(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_3d_tile_2d_with_uarch(threads, mark_3d_tile_2d_with_uarch, t, UARCH,
                                                UARCH, t->range[0], t->range[1], t->range[2],
                                                t->tile[1], t->tile[2], 0);
}

static void run_4d_tile_2d_with_uarch(pthreadpool_t threads, tally *t) {
  pthreadpool_parallelize_4d_tile_2d_with_uarch(threads, mark_4d_tile_2d_with_uarch, t, UARCH,
                                                UARCH, t->range[0], t->range[1], t->range[2],
                                                t->range[3], t->tile[2], t->tile[3], 0);
}

// A function tiles the last n_tiled dimensions; the others go one by one.
typedef struct kind {
  const char *name;
  void (*run)(pthreadpool_t threads, tally *t);
  size_t n_dims, n_tiled;
} kind;

static const kind kinds[] = {
    {"1d", run_1d, 1, 0},
    {"1d_with_thread", run_1d_with_thread, 1, 0},
    {"1d_tile_1d", run_1d_tile_1d, 1, 1},
    {"2d", run_2d, 2, 0},
    {"2d_with_thread", run_2d_with_thread, 2, 0},
    {"2d_tile_1d", run_2d_tile_1d, 2, 1},
    {"2d_tile_2d", run_2d_tile_2d, 2, 2},
    {"3d", run_3d, 3, 0},
    {"3d_tile_1d", run_3d_tile_1d, 3, 1},
    {"3d_tile_1d_with_thread", run_3d_tile_1d_with_thread, 3, 1},
    {"3d_tile_2d", run_3d_tile_2d, 3, 2},
    {"4d", run_4d, 4, 0},
    {"4d_tile_2d", run_4d_tile_2d, 4, 2},
    {"5d", run_5d, 5, 0},
    {"5d_tile_2d", run_5d_tile_2d, 5, 2},
    {"6d_tile_2d", run_6d_tile_2d, 6, 2},
    {"2d_tile_1d_with_uarch", run_2d_tile_1d_with_uarch, 2, 1},
    {"2d_tile_2d_with_uarch", run_2d_tile_2d_with_uarch, 2, 2},
    {"3d_tile_1d_with_uarch", run_3d_tile_1d_with_uarch, 3, 1},
    {"3d_tile_1d_with_uarch_with_thread", run_3d_tile_1d_with_uarch_with_thread, 3, 1},
    {"3d_tile_2d_with_uarch", run_3d_tile_2d_with_uarch, 3, 2},
    {"4d_tile_2d_with_uarch", run_4d_tile_2d_with_uarch, 4, 2},
};

static bool gives_every_item_once(const kind *k, pthreadpool_t threads, size_t n_threads,
                                  const size_t *range, size_t tile) {
  tally *t = calloc(1, sizeof *t);
  if (t == NULL) abort();
  t->n_dims = k->n_dims;
  t->n_threads = n_threads;
  size_t n = 1;
  for (size_t d = 0; d < k->n_dims; d++) {
    t->range[d] = range[d];
    t->tile[d] = d + k->n_tiled >= k->n_dims ? tile + d : 1;
    n *= range[d];
  }
  k->run(threads, t);
  bool is_good = atomic_load(&t->n_wrong) == 0;
  for (size_t i = 0; i < MAX_ITEMS; i++) is_good = is_good && atomic_load(&t->seen[i]) == (i < n);
  if (!is_good) printf("  %s, tile %zu, %zu threads\n", k->name, tile, n_threads);
  free(t);
  return is_good;
}

static bool every_shape_is_covered(pthreadpool_t threads, size_t n_threads) {
  static const place ranges[] = {
      {1, 1, 1, 1, 1, 1}, {2, 3, 4, 3, 2, 5}, {7, 5, 3, 2, 4, 3},   {1, 9, 1, 8, 1, 7},
      {0, 3, 2, 2, 2, 2}, {3, 0, 0, 0, 0, 0}, {13, 4, 11, 1, 1, 6},
  };
  bool is_good = true;
  for (size_t i = 0; i < COUNT(kinds); i++) {
    for (size_t r = 0; r < COUNT(ranges); r++) {
      for (size_t tile = 1; tile <= 4; tile++)
        is_good = is_good && gives_every_item_once(&kinds[i], threads, n_threads, ranges[r], tile);
      is_good = is_good && gives_every_item_once(&kinds[i], threads, n_threads, ranges[r], 100);
      // A tile may be nearly SIZE_MAX.
      is_good =
          is_good && gives_every_item_once(&kinds[i], threads, n_threads, ranges[r], SIZE_MAX - 5);
    }
  }
  return is_good;
}

static void every_item_is_given_once_without_a_pool(void) {
  EXPECT(every_shape_is_covered(NULL, 1));
  struct pthreadpool none = {0};
  EXPECT(every_shape_is_covered(&none, 1));
}

static void every_item_is_given_once_at_one_to_three_threads(void) {
  for (size_t n_threads = 1; n_threads <= 3; n_threads++) {
    rig r;
    start(&r, n_threads);
    const bool is_good = every_shape_is_covered(&r.threads, n_threads);
    stop(&r);
    EXPECT(is_good);
  }
}

// ---- Numbers of threads

static void the_count_is_the_pools(void) {
  EXPECT(pthreadpool_get_threads_count(NULL) == 1);
  struct pthreadpool none = {0};
  EXPECT(pthreadpool_get_threads_count(&none) == 1);
  et_pool pool = {.n_threads = 3};
  struct pthreadpool threads = {.pool = &pool};
  EXPECT(pthreadpool_get_threads_count(&threads) == 3);
  pool.n_threads = 1000;
  EXPECT(pthreadpool_get_threads_count(&threads) == ETI_XNN_MAX_THREADS);
}

// A pool that runs everything on the calling thread, as a busy one may, and records the count.
static void run_alone(void *ctx, et_task task, void *task_ctx, size_t n) {
  *(size_t *)ctx = n;
  for (size_t i = n; i-- > 0;) task(task_ctx, i);
}

static void a_pool_that_runs_alone_and_backwards_does_everything(void) {
  size_t n_asked = 0;
  const et_pool pool = {.ctx = &n_asked, .n_threads = 5, .run = run_alone};
  struct pthreadpool threads = {.pool = &pool};
  EXPECT(every_shape_is_covered(&threads, 5));
}

static void count_one(void *ctx, size_t thread, size_t i) {
  (void)i;
  atomic_uint *n_by_thread = ctx;
  atomic_fetch_add(&n_by_thread[thread], 1);
}

static void no_more_threads_run_than_memory_was_planned_for(void) {
  size_t n_asked = 0;
  et_pool pool = {.ctx = &n_asked, .n_threads = 2, .run = run_alone};
  struct pthreadpool threads = {.pool = &pool};
  atomic_uint n_by_thread[8] = {0};
  EXPECT(pthreadpool_get_threads_count(&threads) == 2);
  pool.n_threads = 4;
  pthreadpool_parallelize_1d_with_thread(&threads, count_one, n_by_thread, 100, 0);
  EXPECT(n_asked == 2);
  EXPECT(pthreadpool_get_threads_count(&threads) == 4);
  pthreadpool_parallelize_1d_with_thread(&threads, count_one, n_by_thread, 100, 0);
  EXPECT(n_asked == 4);
  pthreadpool_parallelize_1d_with_thread(&threads, count_one, n_by_thread, 3, 0);
  EXPECT(n_asked == 3);
}

// ---- Work stealing

typedef struct waiting {
  atomic_uint n_others;
} waiting;

static void first_waits_for_the_rest(void *ctx, size_t i) {
  waiting *w = ctx;
  const struct timespec moment = {.tv_nsec = 100000};
  if (i != 0) {
    atomic_fetch_add(&w->n_others, 1);
    return;
  }
  // Ends when the other thread has run all other items, those of the first thread included.
  for (int k = 0; k < 100000 && atomic_load(&w->n_others) < 99; k++) (void)nanosleep(&moment, NULL);
}

static void a_thread_that_is_done_takes_over_the_others_tiles(void) {
  rig r;
  start(&r, 2);
  waiting w = {0};
  pthreadpool_parallelize_1d(&r.threads, first_waits_for_the_rest, &w, 100, 0);
  stop(&r);
  EXPECT(atomic_load(&w.n_others) == 99);
}

// ---- Subnormal numbers

typedef struct halving {
  volatile float small[4];
  atomic_uint n_flushed;
} halving;

static void halve(void *ctx, size_t i) {
  halving *h = ctx;
  const volatile float half = h->small[i] * 0.5f;
  if (half == 0) atomic_fetch_add(&h->n_flushed, 1);
}

static void small_numbers_are_flushed_where_that_is_asked_for_and_not_after(void) {
#if defined(__SSE__) || defined(__aarch64__)
  rig r;
  start(&r, 2);
  halving h = {.small = {FLT_MIN, FLT_MIN, FLT_MIN, FLT_MIN}};
  pthreadpool_parallelize_1d(&r.threads, halve, &h, 4, PTHREADPOOL_FLAG_DISABLE_DENORMALS);
  const unsigned n_flushed = atomic_load(&h.n_flushed);
  pthreadpool_parallelize_1d(&r.threads, halve, &h, 4, 0);
  stop(&r);
  EXPECT(n_flushed == 4);
  EXPECT(atomic_load(&h.n_flushed) == 4);
#endif
}

static const et_test tests[] = {
    ET_CASE(every_item_is_given_once_without_a_pool),
    ET_CASE(every_item_is_given_once_at_one_to_three_threads),
    ET_CASE(the_count_is_the_pools),
    ET_CASE(a_pool_that_runs_alone_and_backwards_does_everything),
    ET_CASE(no_more_threads_run_than_memory_was_planned_for),
    ET_CASE(a_thread_that_is_done_takes_over_the_others_tiles),
    ET_CASE(small_numbers_are_flushed_where_that_is_asked_for_and_not_after),
};

ET_TEST_MAIN(tests)
