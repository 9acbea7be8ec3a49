// test_xnnpack_workspace.c — tests delegates on several threads that share workspaces, packed
// weights, the program and the caller's thread pool. Results are those of a single thread; under
// the tsan preset these are also the tests for data races.
#define _GNU_SOURCE  // mkstemp
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_shared_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_shared_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_bench.h"

#include <pthread.h>

enum { N_THREADS = 3 };

typedef struct runner {
  bench b;
  const bench *program;  // its program is loaded again for each run; NULL: b has a method
  int n_runs;
  pthread_barrier_t *gate;  // at which all begin
  bool is_right;
} runner;

static bool loads_and_gives(const runner *r, int32_t rows) {
  bench b = *r->program;
  b.r.n_blocks = 0;
  b.r.method = NULL;
  b.table.backends = b.backends;
  b.backends[0] = r->b.backends[0];
  b.r.config.backends = &b.table;
  const bool is_good = rig_load(&b.r, "forward") == ET_OK && bench_gives(&b, rows);
  et_method_close(b.r.method);
  for (size_t i = 0; i < b.r.n_blocks; i++) free(b.r.blocks[i]);
  return is_good;
}

static void *run_often(void *ctx) {
  runner *r = ctx;
  r->is_right = true;
  (void)pthread_barrier_wait(r->gate);
  for (int i = 0; i < r->n_runs && r->is_right; i++) {
    const int32_t rows = 1 + (i * 5 + 7) % 8;
    r->is_right = r->program != NULL ? loads_and_gives(r, rows) : bench_gives(&r->b, rows);
  }
  return NULL;
}

static bool run_all(runner *runners) {
  pthread_t threads[N_THREADS];
  pthread_barrier_t gate;
  bool is_right = true;
  if (pthread_barrier_init(&gate, NULL, N_THREADS) != 0) abort();
  for (int i = 0; i < N_THREADS; i++) {
    runners[i].gate = &gate;
    if (pthread_create(&threads[i], NULL, run_often, &runners[i]) != 0) abort();
  }
  for (int i = 0; i < N_THREADS; i++) {
    if (pthread_join(threads[i], NULL) != 0) abort();
    if (!runners[i].is_right) printf("  thread %d: %s\n", i, runners[i].b.r.err.message);
    is_right = is_right && runners[i].is_right;
  }
  (void)pthread_barrier_destroy(&gate);
  return is_right;
}

// Loads a method for each thread, all with the same options and pool.
static bool load_all(runner *runners, const et_xnnpack_options *options, const et_pool *pool,
                     int n_runs) {
  bool is_loaded = true;
  for (int i = 0; i < N_THREADS; i++) {
    runners[i] = (runner){.n_runs = n_runs};
    bench_begin(&runners[i].b, &bench_plain, options);
    runners[i].b.r.config.pool = pool;
    is_loaded = is_loaded && rig_start(&runners[i].b.r, "forward");
  }
  return is_loaded;
}

static void end_all(runner *runners) {
  for (int i = 0; i < N_THREADS; i++) rig_end(&runners[i].b.r);
}

static void open_shared(et_xnnpack_options *options) {
  et_error err;
  *options = (et_xnnpack_options){.workspace = NULL};
  EXPECT(et_xnnpack_workspace_open(&options->workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options->weights, NULL, &err) == ET_OK);
}

static void close_shared(const et_xnnpack_options *options) {
  et_xnnpack_workspace_close(options->workspace);
  et_xnnpack_weights_close(options->weights);
}

static void methods_on_threads_take_turns_with_a_workspace(void) {
  et_xnnpack_options options;
  runner runners[N_THREADS];
  open_shared(&options);
  EXPECT(load_all(runners, &options, NULL, 200));
  EXPECT(run_all(runners));
  end_all(runners);
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_weights == 0 && facts.n_packed == 2 && facts.n_shared > 0);
  close_shared(&options);
}

// One run at a time gets the pool's workers; the runs of the other methods go on without.
static void methods_on_threads_share_the_pool_of_their_caller(void) {
  static _Alignas(ET_MEMORY_ALIGN) uint8_t memory[1 << 16];
  et_thread_pool *pool;
  et_error err;
  et_xnnpack_options options;
  runner runners[N_THREADS];
  EXPECT(et_thread_pool_bytes(3) <= sizeof memory);
  EXPECT(et_thread_pool_init(&pool, (et_span){memory, sizeof memory}, 3, &err) == ET_OK);
  const et_pool handle = et_thread_pool_handle(pool);
  open_shared(&options);
  EXPECT(load_all(runners, &options, &handle, 100));
  EXPECT(run_all(runners));
  end_all(runners);
  close_shared(&options);
  EXPECT(load_all(runners, &bench_alone, &handle, 100));
  EXPECT(run_all(runners));
  end_all(runners);
  et_thread_pool_deinit(pool);
}

// Weights in a file are verified by the first run that uses them: here by the first runs of all
// threads at once, without a workspace for which they would wait.
static void all_threads_may_be_first_to_use_packed_weights(void) {
  for (int is_damaged = 0; is_damaged < 2; is_damaged++) {
    char path[] = "/tmp/et_packed_XXXXXX";
    et_xnnpack_options options = {.workspace = NULL};
    et_xnnpack_facts facts;
    et_error note;
    runner runners[N_THREADS];
    bench_path(path);
    EXPECT(bench_use_file(path, &facts, &note));
    if (is_damaged) bench_damage_linear(path);
    EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
    EXPECT(load_all(runners, &options, NULL, 3));
    EXPECT(run_all(runners));
    et_xnnpack_weights_facts(options.weights, &facts);
    EXPECT(facts.n_damaged == (size_t)is_damaged && facts.n_packed == (size_t)is_damaged);
    end_all(runners);
    et_xnnpack_weights_close(options.weights);
    (void)unlink(path);
  }
}

// One thread runs its method; the others load methods of the same program, run them once and close
// them, with the same weights, with and without the same workspace.
static void loads_and_closes_may_meet_runs(void) {
  for (int has_workspace = 0; has_workspace < 2; has_workspace++) {
    et_xnnpack_options shared, options;
    runner runners[N_THREADS];
    open_shared(&shared);
    options = shared;
    if (!has_workspace) options.workspace = NULL;
    EXPECT(load_all(runners, &options, NULL, 100));
    for (int i = 1; i < N_THREADS; i++) {
      runners[i].program = &runners[0].b;
      runners[i].n_runs = 15;
    }
    EXPECT(run_all(runners));
    end_all(runners);
    et_xnnpack_facts facts;
    et_xnnpack_weights_facts(shared.weights, &facts);
    EXPECT(facts.n_weights == 0 && facts.n_packed == 2);
    close_shared(&shared);
  }
}

static const et_test tests[] = {
    ET_CASE(methods_on_threads_take_turns_with_a_workspace),
    ET_CASE(methods_on_threads_share_the_pool_of_their_caller),
    ET_CASE(all_threads_may_be_first_to_use_packed_weights),
    ET_CASE(loads_and_closes_may_meet_runs),
};
ET_TEST_MAIN(tests)

#endif
