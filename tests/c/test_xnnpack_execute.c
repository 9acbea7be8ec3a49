// test_xnnpack_execute.c — delegates of a small program: what they compute, what they refuse, and
// what becomes of them when memory runs out; workspaces and packed weights that are shared, and
// the file that keeps weights packed. The program has a linear layer for up to 8 rows and a padded
// convolution, which come from payloads written by hand.
#define _GNU_SOURCE  // mmap's flags
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_runs_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_runs_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/et_xnnpack.h"
#include "backends/xnnpack/memory.h"
#include "backends/xnnpack/weights.h"
#include "xnn_writer.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define VALUE(flag, ext, ...)                                  \
  (x_value) {                                                  \
    .datatype = 1, .flags = flag, .external = ext, __VA_ARGS__ \
  }
#define NONE 0xffffffffu

static const float weights[2 * 3] = {1, 2, 3, 4, 5, 6}, bias[2] = {10, 20};
static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

// y = x W^T + b, twice negated so that there is something between the nodes.
static x_graph linear_graph(void) {
  return (x_graph){
      .values = {VALUE(1, 0, .rank = 2, .dims = {8, 3}),
                 VALUE(0, 0, .rank = 2, .dims = {2, 3}, .constant = 1),
                 VALUE(0, 0, .rank = 1, .dims = {2}, .constant = 2),
                 VALUE(0, 0, .rank = 2, .dims = {8, 2}), VALUE(0, 0, .rank = 2, .dims = {8, 2}),
                 VALUE(2, 1, .rank = 2, .dims = {8, 2})},
      .nodes = {{.code = 2, .n_slots = 5, .slots = {0, 1, 2, 3}},
                {.code = 27, .n_slots = 3, .slots = {3, 4}},
                {.code = 27, .n_slots = 3, .slots = {4, 5}}},
      .constants = {{.key = ""},
                    {.key = "w", .size = sizeof weights},
                    {.key = "b", .size = sizeof bias}},
      .n_values = 6,
      .n_nodes = 3,
      .n_constants = 3,
      .n_externs = 2,
  };
}

// A 3×3 convolution of ones over 4×4, padded by 1.
static x_graph conv_graph(void) {
  return (x_graph){
      .values = {VALUE(1, 0, .rank = 4, .dims = {1, 4, 4, 1}),
                 VALUE(0, 0, .rank = 4, .dims = {1, 3, 3, 1}, .constant = 1),
                 VALUE(2, 1, .rank = 4, .dims = {1, 4, 4, 1})},
      .nodes = {{.code = 7, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1, 1,    1, 1,
                                                     1, 1, 1, 0, 0, 0, 1, NONE, 2, 0}}},
      .constants = {{.key = ""}, {.key = "ones", .size = sizeof ones}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 2,
      .n_externs = 2,
  };
}

// ---- The program

enum { X, Y, IMAGE, BLURRED, N_VALUES };
static const int32_t x_sizes[] = {8, 3}, y_sizes[] = {8, 2}, image_sizes[] = {1, 4, 4, 1};

typedef struct change {  // what a test makes different from the payload
  et_dtype x_dtype;
  const int32_t *x_sizes;
  size_t x_rank;
  bool x_is_int;
} change;

static rig make_rig(const change *c) {
  const made_value x = {.code = c->x_is_int ? PTE_INT : PTE_TENSOR,
                        .number = 3,
                        .items = c->x_sizes,
                        .n = c->x_rank,
                        .dtype = c->x_dtype,
                        .is_dynamic = true};
  const made_value values[N_VALUES] = {
      x,
      {.code = PTE_TENSOR,
       .items = y_sizes,
       .n = 2,
       .dtype = ET_F32,
       .memory = 1,
       .is_dynamic = true},
      {.code = PTE_TENSOR, .items = image_sizes, .n = 4, .dtype = ET_F32, .memory = 1, .at = 64},
      {.code = PTE_TENSOR, .items = image_sizes, .n = 4, .dtype = ET_F32, .memory = 1, .at = 128}};
  const made_instruction code[] = {
      {.kind = PTE_DELEGATE_CALL, .a = 0, .args = {X, Y}, .n_args = 2},
      {.kind = PTE_DELEGATE_CALL, .a = 1, .args = {IMAGE, BLURRED}, .n_args = 2}};
  const made_delegate delegates[] = {{.id = "XnnpackBackend", .segment = 0},
                                     {.id = "XnnpackBackend", .segment = 1}};
  const made_chain chain = {code, 2, 0};
  const made_plan plan = {.name = "forward",
                          .values = values,
                          .n_values = N_VALUES,
                          .inputs = {X, IMAGE},
                          .n_inputs = 2,
                          .outputs = {Y, BLURRED},
                          .n_outputs = 2,
                          .chains = &chain,
                          .n_chains = 1,
                          .delegates = delegates,
                          .n_delegates = 2,
                          .memories = {256},
                          .n_memories = 1};
  const x_graph linear = linear_graph(), conv = conv_graph();
  writer payloads[2] = {x_write(&linear), x_write(&conv)};
  const made_segment segments[] = {{.data = payloads[0].bytes, .size = payloads[0].size},
                                   {.data = payloads[1].bytes, .size = payloads[1].size},
                                   {.data = weights, .size = sizeof weights, .key = "w"},
                                   {.data = bias, .size = sizeof bias, .key = "b"},
                                   {.data = ones, .size = sizeof ones, .key = "ones"}};
  const made_program program = {
      .plans = &plan, .n_plans = 1, .segments = segments, .n_segments = 5};
  size_t size;
  uint8_t *bytes = make_program(&program, &size);
  free(payloads[0].bytes);
  free(payloads[1].bytes);
  return rig_take(bytes, size);
}

static const change none = {.x_dtype = ET_F32, .x_sizes = x_sizes, .x_rank = 2};

// A rig with a table of its own.
typedef struct bench {
  rig r;
  et_xnnpack xnnpack;
  const et_backend *backends[1];
  et_backend_table table;
} bench;

static void begin(bench *b, const change *c, const et_xnnpack_options *options) {
  *b = (bench){.r = make_rig(c)};
  et_xnnpack_init(&b->xnnpack, options);
  b->backends[0] = &b->xnnpack.backend;
  b->table = (et_backend_table){b->backends, 1};
  b->r.config.backends = &b->table;
}

static const et_xnnpack_options alone = {.workspace = NULL};

static et_status set_image(bench *b) {
  static float image[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  return rig_set(&b->r, 1, image, ET_F32, 4, image_sizes);
}

static et_status run_rows(bench *b, float *x, int32_t rows) {
  const int32_t sizes[] = {rows, 3};
  et_status status = rig_set(&b->r, 0, x, ET_F32, 2, sizes);
  if (status == ET_OK) status = set_image(b);
  return status == ET_OK ? et_method_execute(b->r.method, &b->r.err) : status;
}

static bool is_right(const bench *b, const float *x, int32_t rows) {
  const et_tensor *y = et_method_output(b->r.method, 0)->as.tensor;
  const float *blurred = et_method_output(b->r.method, 1)->as.tensor->data;
  if (y->sizes[0] != rows || y->sizes[1] != 2) return false;
  for (int32_t i = 0; i < rows; i++) {
    for (int o = 0; o < 2; o++) {
      float sum = bias[o];
      for (int k = 0; k < 3; k++) sum += x[3 * i + k] * weights[3 * o + k];
      if (((const float *)y->data)[2 * i + o] != sum) return false;
    }
  }
  return blurred[0] == 4 && blurred[1] == 6 && blurred[5] == 9 && blurred[15] == 4;
}

static bool gives(bench *b, int32_t rows) {
  float x[8 * 3];
  for (int i = 0; i < 24; i++) x[i] = (float)(i % 7) - 2;
  return run_rows(b, x, rows) == ET_OK && is_right(b, x, rows);
}

// ---- Runs

static void shapes_may_change_from_run_to_run(void) {
  bench b;
  begin(&b, &none, &alone);
  EXPECT(rig_start(&b.r, "forward"));
  static const int32_t rows[] = {8, 8, 1, 5, 5, 2, 8};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) EXPECT(gives(&b, rows[i]));
  rig_end(&b.r);
}

static void the_builtin_entry_shares_nothing_and_runs(void) {
  bench b;
  begin(&b, &none, &alone);
  b.backends[0] = &et_backend_xnnpack;
  EXPECT(rig_start(&b.r, "forward") && gives(&b, 3));
  rig_end(&b.r);
}

static void an_input_at_the_end_of_memory_is_not_read_beyond(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  bench b;
  begin(&b, &none, &alone);
  EXPECT(rig_start(&b.r, "forward"));
  for (int32_t rows = 8; rows > 0; rows--) {
    const size_t bytes = (size_t)rows * 3 * sizeof(float);
    float *x = (float *)(void *)(pages + page - bytes);
    for (int32_t i = 0; i < 3 * rows; i++) x[i] = (float)(i + rows);
    EXPECT(run_rows(&b, x, rows) == ET_OK && is_right(&b, x, rows));
    x[0] += 1;  // the same place, other numbers
    EXPECT(et_method_execute(b.r.method, &b.r.err) == ET_OK && is_right(&b, x, rows));
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

static void traced_runs_tell_of_nodes(void) {
  bench b;
  char text[64] = "";
  begin(&b, &none, &alone);
  EXPECT(rig_start(&b.r, "forward") && gives(&b, 4));
  const et_hooks hooks = {text, note_nodes};
  float x[12] = {0};
  const int32_t sizes[] = {4, 3};
  EXPECT(rig_set(&b.r, 0, x, ET_F32, 2, sizes) == ET_OK && set_image(&b) == ET_OK);
  EXPECT(et_method_execute_traced(b.r.method, &hooks, &b.r.err) == ET_OK);
  EXPECT(strcmp(text, "012.0.") == 0 && is_right(&b, x, 4));
  EXPECT(gives(&b, 2));
  rig_end(&b.r);
}

// ---- What is refused

static void arguments_that_the_payload_does_not_expect_are_refused(void) {
  static const int32_t three[] = {8, 3, 1}, wide[] = {8, 4}, narrow[] = {8, 2};
  static const struct {
    change c;
    et_status status;
    const char *words;
  } cases[] = {
      {{.x_dtype = ET_F64, .x_sizes = x_sizes, .x_rank = 2},
       ET_INVALID_ARGUMENT,
       "argument 0 is f64, the payload expects f32"},
      {{.x_dtype = ET_F32, .x_sizes = three, .x_rank = 3},
       ET_INVALID_ARGUMENT,
       "argument 0 has rank 3, the payload expects 2"},
      {{.x_dtype = ET_F32, .x_sizes = wide, .x_rank = 2},
       ET_NOT_SUPPORTED,
       "argument 0 has 4 elements in dim 1, the payload is for 1 to 3"},
      {{.x_dtype = ET_F32, .x_sizes = narrow, .x_rank = 2}, ET_INVALID_PROGRAM, "node 0"},
      {{.x_is_int = true}, ET_INVALID_ARGUMENT, "argument 0 is no tensor"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench b;
    double x[32] = {0};
    begin(&b, &cases[i].c, &alone);
    EXPECT(rig_start(&b.r, "forward"));
    const et_value three_ = {.tag = ET_INT, .as.i = 3};
    EXPECT((cases[i].c.x_is_int ? et_method_set_input(b.r.method, 0, &three_, &b.r.err)
                                : rig_set(&b.r, 0, x, cases[i].c.x_dtype, cases[i].c.x_rank,
                                          cases[i].c.x_sizes)) == ET_OK &&
           set_image(&b) == ET_OK);
    EXPECT(et_method_execute(b.r.method, &b.r.err) == cases[i].status);
    EXPECT_ERROR(&b.r.err, cases[i].status, cases[i].words);
    EXPECT_ERROR(&b.r.err, cases[i].status, "instruction 0 (XnnpackBackend)");
    rig_end(&b.r);
  }
}

static void rows_beyond_the_bounds_are_refused_and_none_are_too(void) {
  bench b;
  float x[27] = {0};
  begin(&b, &none, &alone);
  EXPECT(rig_start(&b.r, "forward"));
  EXPECT(run_rows(&b, x, 9) == ET_NOT_SUPPORTED);
  EXPECT(run_rows(&b, x, 0) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&b.r.err, ET_NOT_SUPPORTED, "argument 0 has 0 elements in dim 0");
  EXPECT(gives(&b, 8));
  rig_end(&b.r);
}

// ---- Memory

// One of XNNPACK's allocations and all after it fail; the next try has memory again.
static bool survives(size_t fail_at, const et_xnnpack_options *options, bool *was_enough) {
  bench b;
  begin(&b, &none, options);
  et_status status = rig_open(&b.r);
  eti_xnn_memory_run_out(fail_at, false);
  if (status == ET_OK) status = rig_load(&b.r, "forward");
  if (status == ET_OK) *was_enough = gives(&b, 8) && gives(&b, 3);
  eti_xnn_memory_run_out(0, false);
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
  EXPECT(all_allocations_may_fail(&alone, &n) && n > 30);
  bench b;
  begin(&b, &none, &alone);
  EXPECT(rig_start(&b.r, "forward") && gives(&b, 8));
  rig_end(&b.r);
}

static void any_allocation_may_fail_with_shared_memory(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  size_t n;
  EXPECT(et_xnnpack_workspace_open(&options.workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  bench b;  // uses the same all the while
  begin(&b, &none, &options);
  EXPECT(rig_start(&b.r, "forward") && gives(&b, 1));
  EXPECT(all_allocations_may_fail(&options, &n) && n > 30);
  EXPECT(gives(&b, 8) && gives(&b, 2));
  rig_end(&b.r);
  et_xnnpack_workspace_close(options.workspace);
  et_xnnpack_weights_close(options.weights);
}

static void a_run_that_had_no_memory_can_be_repeated(void) {
  bench b;
  bool has_failed = false;
  for (size_t n = 1; n < 1000 && !has_failed; n++) {  // the first n with which loading succeeds
    begin(&b, &none, &alone);
    EXPECT(rig_open(&b.r) == ET_OK);
    eti_xnn_memory_run_out(n, false);
    if (rig_load(&b.r, "forward") == ET_OK) {
      float x[24] = {0};
      has_failed = run_rows(&b, x, 8) == ET_DELEGATE_OUT_OF_MEMORY;
      EXPECT(has_failed);
      EXPECT(run_rows(&b, x, 8) == ET_DELEGATE_OUT_OF_MEMORY);  // still none
      eti_xnn_memory_run_out(0, false);
      EXPECT(gives(&b, 8));
    }
    eti_xnn_memory_run_out(0, false);
    rig_end(&b.r);
  }
  EXPECT(has_failed);
}

// ---- What is shared

typedef struct runner {
  bench b;
  bool is_right;
} runner;

static void *run_often(void *ctx) {
  runner *r = ctx;
  r->is_right = true;
  for (int i = 0; i < 200 && r->is_right; i++) r->is_right = gives(&r->b, 1 + (i * 5) % 8);
  return NULL;
}

static void methods_on_threads_take_turns_with_a_workspace(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  EXPECT(et_xnnpack_workspace_open(&options.workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  runner runners[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    begin(&runners[i].b, &none, &options);
    EXPECT(rig_start(&runners[i].b.r, "forward"));
  }
  for (int i = 0; i < 3; i++)
    EXPECT(pthread_create(&threads[i], NULL, run_often, &runners[i]) == 0);
  for (int i = 0; i < 3; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < 3; i++) {
    EXPECT(runners[i].is_right);
    rig_end(&runners[i].b.r);
  }
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_weights == 0 && facts.n_packed == 2 && facts.n_shared > 0);
  et_xnnpack_workspace_close(options.workspace);
  et_xnnpack_weights_close(options.weights);
}

// Loads and runs with the file, saves it; what there was to pack.
static bool use_file(const char *path, et_xnnpack_facts *facts, et_error *note) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  bench b;
  bool is_fine = et_xnnpack_weights_open(&options.weights, path, note) == ET_OK;
  begin(&b, &none, &options);
  is_fine = is_fine && rig_start(&b.r, "forward") && gives(&b, 8);
  is_fine = is_fine && et_xnnpack_weights_save(options.weights, path, &err) == ET_OK;
  if (is_fine) et_xnnpack_weights_facts(options.weights, facts);
  rig_end(&b.r);
  et_xnnpack_weights_close(options.weights);
  return is_fine;
}

static void poke(const char *path, long offset, int byte) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL || fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET) != 0) abort();
  fputc(byte, file);
  fclose(file);
}

// The file says that it is of another machine or XNNPACK, and is otherwise right.
static void change_identity(const char *path) {
  enum { HEADER = 56, CHECKSUM_AT = 48 };  // the layout of weights_file.c
  static uint8_t bytes[4096];
  uint32_t identity_bytes;
  uint64_t index_bytes, sum;
  FILE *file = fopen(path, "r+b");
  if (file == NULL || fread(bytes, 1, sizeof bytes, file) < HEADER) abort();
  bytes[HEADER + 3] ^= 1;
  memcpy(&identity_bytes, bytes + 12, sizeof identity_bytes);
  memcpy(&index_bytes, bytes + 24, sizeof index_bytes);
  sum = eti_xnn_checksum(bytes + HEADER, (identity_bytes + 7) / 8 * 8 + (size_t)index_bytes);
  memcpy(bytes + CHECKSUM_AT, &sum, sizeof sum);
  sum = eti_xnn_checksum(bytes, HEADER);
  memcpy(bytes + CHECKSUM_AT, &sum, sizeof sum);
  rewind(file);
  fwrite(bytes, 1, HEADER + 8, file);
  fclose(file);
}

typedef enum damage_kind { POKE, CUT, OTHER_MACHINE } damage_kind;

// at: the byte that changes, or where the file ends from now on.
static void damage(const char *path, damage_kind kind, long at) {
  if (kind == POKE) poke(path, at, 0x7b);
  if (kind == CUT && truncate(path, at) != 0) abort();
  if (kind == OTHER_MACHINE) change_identity(path);
}

static void make_path(char *path) {
  const int file = mkstemp(path);
  if (file < 0 || close(file) != 0 || unlink(path) != 0) abort();
}

static void a_file_keeps_weights_packed(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  make_path(path);
  EXPECT(use_file(path, &facts, &note) && note.message[0] == '\0');
  EXPECT(facts.n_packed == 2 && facts.n_mapped == 0 && facts.n_weights == 2);
  EXPECT(use_file(path, &facts, &note) && note.message[0] == '\0');
  EXPECT(facts.n_packed == 0 && facts.n_mapped == 2 && facts.n_shared == 2);
  (void)unlink(path);
}

static void a_damaged_file_is_packed_anew_and_replaced(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  make_path(path);
  EXPECT(use_file(path, &facts, &note));
  static const struct {
    damage_kind kind;
    long at;
    const char *words;  // NULL: does not matter
  } damages[] = {{POKE, 0, "it is something else"},
                 {POKE, 8, "it is of another version"},
                 {POKE, 40, "it is cut short"},  // says that it should be longer
                 {POKE, 48, "it is damaged"},    // the checksum itself
                 {POKE, 66, "it is damaged"},    // the identity
                 {POKE, 150, "it is damaged"},   // the index
                 {POKE, -1, NULL},               // the padding behind the last weights
                 {CUT, 20, "it is too short to be one"},
                 {CUT, 400, "it is cut short"},
                 {OTHER_MACHINE, 0, "it was made by another XNNPACK or for another CPU"}};
  for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    const bool is_harmless = damages[i].words == NULL;
    damage(path, damages[i].kind, damages[i].at);
    EXPECT(use_file(path, &facts, &note) && facts.n_packed == (is_harmless ? 0 : 2));
    EXPECT(note.status == ET_OK);
    EXPECT(is_harmless || strstr(note.message, damages[i].words) != NULL);
    EXPECT(use_file(path, &facts, &note) && facts.n_packed == 0 && note.message[0] == '\0');
  }
  (void)unlink(path);
}

// Weights in the file are verified by the first run, before XNNPACK reads them: a load finds
// nothing, and each of two methods that were loaded with them packs anew or finds what the other
// has packed.
static void damaged_weights_are_never_computed_with(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_options options = {.workspace = NULL};
  et_xnnpack_facts facts;
  et_error note;
  bench benches[2];
  make_path(path);
  EXPECT(use_file(path, &facts, &note));
  poke(path, -200, 0x7b);
  EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
  for (int i = 0; i < 2; i++) {
    begin(&benches[i], &none, &options);
    EXPECT(rig_start(&benches[i].r, "forward"));
  }
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 0 && facts.n_damaged == 0 && facts.n_mapped == 2);
  for (int i = 0; i < 4; i++) EXPECT(gives(&benches[i % 2], i < 2 ? 8 : 3));
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 1 && facts.n_damaged == 1 && facts.n_mapped == 1);
  EXPECT(et_xnnpack_weights_save(options.weights, path, &note) == ET_OK);
  for (int i = 0; i < 2; i++) rig_end(&benches[i].r);
  et_xnnpack_weights_close(options.weights);
  EXPECT(use_file(path, &facts, &note) && facts.n_packed == 0 && facts.n_damaged == 0);
  (void)unlink(path);
}

// The runtime that takes the place of the one with damaged weights needs memory, which may run out
// anywhere: an error, and the next call makes it or says so again.
static void memory_may_run_out_where_damaged_weights_are_packed_anew(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  make_path(path);
  EXPECT(use_file(path, &facts, &note));
  poke(path, -200, 0x7b);
  bool is_enough = false;
  size_t n_short = 0;
  for (size_t fail_at = 1; !is_enough; fail_at++) {
    et_xnnpack_options options = {.workspace = NULL};
    bench b;
    EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
    begin(&b, &none, &options);
    eti_xnn_memory_run_out(fail_at, false);
    const bool is_loaded = rig_start(&b.r, "forward");
    is_enough = is_loaded && gives(&b, 8);
    eti_xnn_memory_run_out(0, false);
    et_xnnpack_weights_facts(options.weights, &facts);
    n_short += is_loaded && !is_enough && facts.n_damaged > 0;
    EXPECT(!is_loaded || is_enough || b.r.err.status == ET_DELEGATE_OUT_OF_MEMORY);
    rig_end(&b.r);
    et_xnnpack_weights_close(options.weights);
  }
  EXPECT(n_short > 0);
  (void)unlink(path);
}

static void a_file_that_cannot_be_written_is_an_error_in_words(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  bench b;
  EXPECT(et_xnnpack_weights_open(&options.weights, "/nowhere/at/all", &err) == ET_OK);
  begin(&b, &none, &options);
  EXPECT(rig_start(&b.r, "forward"));
  EXPECT(et_xnnpack_weights_save(options.weights, "/nowhere/at/all", &err) == ET_ACCESS_FAILED);
  EXPECT_ERROR(&err, ET_ACCESS_FAILED, "cannot write packed weights '/nowhere/at/all': No such");
  EXPECT(gives(&b, 8));
  rig_end(&b.r);
  et_xnnpack_weights_close(options.weights);
}

static const et_test tests[] = {
    ET_CASE(shapes_may_change_from_run_to_run),
    ET_CASE(the_builtin_entry_shares_nothing_and_runs),
    ET_CASE(an_input_at_the_end_of_memory_is_not_read_beyond),
    ET_CASE(traced_runs_tell_of_nodes),
    ET_CASE(arguments_that_the_payload_does_not_expect_are_refused),
    ET_CASE(rows_beyond_the_bounds_are_refused_and_none_are_too),
    ET_CASE(any_allocation_may_fail),
    ET_CASE(any_allocation_may_fail_with_shared_memory),
    ET_CASE(a_run_that_had_no_memory_can_be_repeated),
    ET_CASE(methods_on_threads_take_turns_with_a_workspace),
    ET_CASE(a_file_keeps_weights_packed),
    ET_CASE(a_damaged_file_is_packed_anew_and_replaced),
    ET_CASE(damaged_weights_are_never_computed_with),
    ET_CASE(memory_may_run_out_where_damaged_weights_are_packed_anew),
    ET_CASE(a_file_that_cannot_be_written_is_an_error_in_words),
};
ET_TEST_MAIN(tests)

#endif
