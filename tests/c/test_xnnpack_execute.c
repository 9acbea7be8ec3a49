// test_xnnpack_execute.c — tests delegates of a small program: their results, the arguments they
// refuse, and their recovery when memory runs out.
#define _GNU_SOURCE  // mmap's flags
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_runs_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_runs_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/alloc_region.h"
#include "xnn_bench.h"

#include <sys/mman.h>
#include <unistd.h>

// ---- Runs

static void shapes_may_change_from_run_to_run(void) {
  bench b;
  bench_begin(&b, &bench_plain, &bench_alone);
  EXPECT(rig_start(&b.r, "forward"));
  static const int32_t rows[] = {8, 8, 1, 5, 5, 2, 8};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) EXPECT(bench_gives(&b, rows[i]));
  rig_end(&b.r);
}

static void the_builtin_entry_shares_nothing_and_runs(void) {
  bench b;
  bench_begin(&b, &bench_plain, &bench_alone);
  b.backends[0] = &et_backend_xnnpack;
  EXPECT(rig_start(&b.r, "forward") && bench_gives(&b, 3));
  rig_end(&b.r);
}

static void an_input_at_the_end_of_memory_is_not_read_beyond(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  bench b;
  bench_begin(&b, &bench_plain, &bench_alone);
  EXPECT(rig_start(&b.r, "forward"));
  for (int32_t rows = 8; rows > 0; rows--) {
    const size_t bytes = (size_t)rows * 3 * sizeof(float);
    float *x = (float *)(void *)(pages + page - bytes);
    for (int32_t i = 0; i < 3 * rows; i++) x[i] = (float)(i + rows);
    EXPECT(bench_run(&b, x, rows) == ET_OK && bench_is_right(&b, x, rows));
    x[0] += 1;  // the same memory, other numbers
    EXPECT(et_method_execute(b.r.method, &b.r.err) == ET_OK && bench_is_right(&b, x, rows));
  }
  rig_end(&b.r);
  (void)munmap(pages, 2 * page);
}

static et_status note_nodes(void *ctx, const et_event *event) {
  char *text = ctx;
  if (event->kind == ET_EVENT_NODE && event->debug_handle != SIZE_MAX)
    strcat(text, event->debug_handle == 100 ? "0" : event->debug_handle == 101 ? "1" : "2");
  if (event->kind == ET_EVENT_END) strcat(text, ".");
  return ET_OK;
}

static void traced_runs_report_nodes(void) {
  bench b;
  char text[64] = "";
  bench_begin(&b, &bench_plain, &bench_alone);
  EXPECT(rig_start(&b.r, "forward") && bench_gives(&b, 4));
  const et_hooks hooks = {text, note_nodes};
  float x[12] = {0};
  const int32_t sizes[] = {4, 3};
  EXPECT(rig_set(&b.r, 0, x, ET_F32, 2, sizes) == ET_OK && bench_set_image(&b) == ET_OK);
  EXPECT(et_method_execute_traced(b.r.method, &hooks, &b.r.err) == ET_OK);
  EXPECT(strcmp(text, "012.0.") == 0 && bench_is_right(&b, x, 4));
  EXPECT(bench_gives(&b, 2));
  rig_end(&b.r);
}

// ---- Refused arguments

static void arguments_that_the_payload_does_not_expect_are_refused(void) {
  static const int32_t three[] = {8, 3, 1}, wide[] = {8, 4}, narrow[] = {8, 2};
  static const struct {
    change c;
    et_status status;
    const char *words;
  } cases[] = {
      {{.x_dtype = ET_F64, .x_sizes = x_sizes, .x_rank = 2},
       ET_INVALID_ARGUMENT,
       "argument 0: expected dtype f32, got f64"},
      {{.x_dtype = ET_F32, .x_sizes = three, .x_rank = 3},
       ET_INVALID_ARGUMENT,
       "argument 0: expected rank 2, got 3"},
      {{.x_dtype = ET_F32, .x_sizes = wide, .x_rank = 2},
       ET_NOT_SUPPORTED,
       "argument 0: expected size 1 to 3 in dim 1, got 4"},
      {{.x_dtype = ET_F32, .x_sizes = narrow, .x_rank = 2}, ET_INVALID_PROGRAM, "node 0"},
      {{.x_is_int = true}, ET_INVALID_ARGUMENT, "argument 0: expected a tensor"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench b;
    double x[32] = {0};
    bench_begin(&b, &cases[i].c, &bench_alone);
    EXPECT(rig_start(&b.r, "forward"));
    const et_value three_ = {.tag = ET_INT, .as.i = 3};
    EXPECT((cases[i].c.x_is_int ? et_method_set_input(b.r.method, 0, &three_, &b.r.err)
                                : rig_set(&b.r, 0, x, cases[i].c.x_dtype, cases[i].c.x_rank,
                                          cases[i].c.x_sizes)) == ET_OK &&
           bench_set_image(&b) == ET_OK);
    EXPECT(et_method_execute(b.r.method, &b.r.err) == cases[i].status);
    EXPECT_ERROR(&b.r.err, cases[i].status, cases[i].words);
    EXPECT_ERROR(&b.r.err, cases[i].status, "instruction 0 (XnnpackBackend)");
    rig_end(&b.r);
  }
}

static void rows_beyond_the_bounds_are_refused_and_none_are_too(void) {
  bench b;
  float x[27] = {0};
  bench_begin(&b, &bench_plain, &bench_alone);
  EXPECT(rig_start(&b.r, "forward"));
  EXPECT(bench_run(&b, x, 9) == ET_NOT_SUPPORTED);
  EXPECT(bench_run(&b, x, 0) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&b.r.err, ET_NOT_SUPPORTED, "argument 0: expected size 1 to 8 in dim 0, got 0");
  EXPECT(bench_gives(&b, 8));
  rig_end(&b.r);
}

// ---- Memory

// XNNPACK's allocation `fail_at` and all later ones fail.
static bool survives(size_t fail_at, const et_xnnpack_options *options, bool *was_enough) {
  bench b;
  bench_begin(&b, &bench_plain, options);
  et_status status = rig_open(&b.r);
  eti_xnn_alloc_fail_nth(fail_at, false);
  if (status == ET_OK) status = rig_load(&b.r, "forward");
  if (status == ET_OK) *was_enough = bench_gives(&b, 8) && bench_gives(&b, 3);
  eti_xnn_alloc_fail_nth(0, false);
  if (!*was_enough) status = b.r.err.status;
  const bool is_said = *was_enough || status == ET_DELEGATE_OUT_OF_MEMORY;
  if (!is_said) printf("  %zu: %s\n", fail_at, b.r.err.message);
  rig_end(&b.r);
  return is_said;
}

static bool all_allocations_may_fail(const et_xnnpack_options *options, size_t *n) {
  bool was_enough = false;
  for (*n = 1; !was_enough && *n < 1000; ++*n) {
    if (!survives(*n, options, &was_enough)) return false;
  }
  return was_enough;
}

static void any_allocation_may_fail(void) {
  size_t n;
  EXPECT(all_allocations_may_fail(&bench_alone, &n) && n > 30);
  bench b;
  bench_begin(&b, &bench_plain, &bench_alone);
  EXPECT(rig_start(&b.r, "forward") && bench_gives(&b, 8));
  rig_end(&b.r);
}

static void any_allocation_may_fail_with_shared_memory(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  size_t n;
  EXPECT(et_xnnpack_workspace_open(&options.workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  bench b;  // uses the same workspace and weights throughout
  bench_begin(&b, &bench_plain, &options);
  EXPECT(rig_start(&b.r, "forward") && bench_gives(&b, 1));
  EXPECT(all_allocations_may_fail(&options, &n) && n > 30);
  EXPECT(bench_gives(&b, 8) && bench_gives(&b, 2));
  rig_end(&b.r);
  et_xnnpack_workspace_close(options.workspace);
  et_xnnpack_weights_close(options.weights);
}

static void a_run_that_had_no_memory_can_be_repeated(void) {
  bench b;
  bool has_failed = false;
  for (size_t n = 1; n < 1000 && !has_failed; n++) {  // the first n with which loading succeeds
    bench_begin(&b, &bench_plain, &bench_alone);
    EXPECT(rig_open(&b.r) == ET_OK);
    eti_xnn_alloc_fail_nth(n, false);
    if (rig_load(&b.r, "forward") == ET_OK) {
      float x[24] = {0};
      has_failed = bench_run(&b, x, 8) == ET_DELEGATE_OUT_OF_MEMORY;
      EXPECT(has_failed);
      EXPECT(bench_run(&b, x, 8) == ET_DELEGATE_OUT_OF_MEMORY);  // still none
      eti_xnn_alloc_fail_nth(0, false);
      EXPECT(bench_gives(&b, 8));
    }
    eti_xnn_alloc_fail_nth(0, false);
    rig_end(&b.r);
  }
  EXPECT(has_failed);
}

static const et_test tests[] = {
    ET_CASE(shapes_may_change_from_run_to_run),
    ET_CASE(the_builtin_entry_shares_nothing_and_runs),
    ET_CASE(an_input_at_the_end_of_memory_is_not_read_beyond),
    ET_CASE(traced_runs_report_nodes),
    ET_CASE(arguments_that_the_payload_does_not_expect_are_refused),
    ET_CASE(rows_beyond_the_bounds_are_refused_and_none_are_too),
    ET_CASE(any_allocation_may_fail),
    ET_CASE(any_allocation_may_fail_with_shared_memory),
    ET_CASE(a_run_that_had_no_memory_can_be_repeated),
};
ET_TEST_MAIN(tests)

#endif
