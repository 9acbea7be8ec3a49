// xnn_bench.h — a small program with two delegates, and a table of backends of its own: a linear
// layer for up to 8 rows and a padded convolution, which come from payloads written by hand. Their
// results are known exactly. Uses mkstemp: define _GNU_SOURCE before including it.
#ifndef ET_XNN_BENCH_H
#define ET_XNN_BENCH_H

#include "backends/xnnpack/et_xnnpack.h"
#include "rig.h"
#include "xnn_writer.h"

#include <unistd.h>

#define VALUE(flag, ext, ...)                                  \
  (x_value) {                                                  \
    .datatype = 1, .flags = flag, .external = ext, __VA_ARGS__ \
  }
#define NONE 0xffffffffu

static const float weights[2 * 3] = {1, 2, 3, 4, 5, 6}, bias[2] = {10, 20};
static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
// Keys are the SHA-256 hashes of the bytes.
#define WEIGHTS_KEY "24ae2dfe8df57c1b80e54cef3d90ac3b417fd98973345a5f616bbc9a75dcc202"
#define BIAS_KEY "c1959622b86c4c4d1c7a9cc1372fc9cebb3b9576043f59b8febca2c1b8ae0957"
#define ONES_KEY "535918286916675b94b05c03a164174657cb7c1c85b5c721755b86b65a38719f"

// The bytes of a program that claims the keys above for other bytes.
static const float false_weights[2 * 3] = {6, 5, 4, 3, 2, 1}, false_ones[9] = {2};

// y = x W^T + b, twice negated so that there are internal values between the nodes.
static inline x_graph linear_graph(void) {
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
                    {.key = WEIGHTS_KEY, .size = sizeof weights},
                    {.key = BIAS_KEY, .size = sizeof bias}},
      .n_values = 6,
      .n_nodes = 3,
      .n_constants = 3,
      .n_externs = 2,
  };
}

// A 3×3 convolution of ones over 4×4, padded by 1.
static inline x_graph conv_graph(void) {
  return (x_graph){
      .values = {VALUE(1, 0, .rank = 4, .dims = {1, 4, 4, 1}),
                 VALUE(0, 0, .rank = 4, .dims = {1, 3, 3, 1}, .constant = 1),
                 VALUE(2, 1, .rank = 4, .dims = {1, 4, 4, 1})},
      .nodes = {{.code = 7, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1, 1,    1, 1,
                                                     1, 1, 1, 0, 0, 0, 1, NONE, 2, 0}}},
      .constants = {{.key = ""}, {.key = ONES_KEY, .size = sizeof ones}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 2,
      .n_externs = 2,
  };
}

// ---- The program

enum { X, Y, IMAGE, BLURRED, N_VALUES };
static const int32_t x_sizes[] = {8, 3}, y_sizes[] = {8, 2}, image_sizes[] = {1, 4, 4, 1};

// The argument x, as a program declares it; tests make it differ from the payload's.
typedef struct change {
  et_dtype x_dtype;
  const int32_t *x_sizes;
  size_t x_rank;
  bool x_is_int;
  bool is_false;  // other weights under the same keys
} change;

static inline rig make_rig(const change *c) {
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
  const float *const w = c->is_false ? false_weights : weights;
  const float *const taps = c->is_false ? false_ones : ones;
  const made_segment segments[] = {{.data = payloads[0].bytes, .size = payloads[0].size},
                                   {.data = payloads[1].bytes, .size = payloads[1].size},
                                   {.data = w, .size = sizeof weights, .key = WEIGHTS_KEY},
                                   {.data = bias, .size = sizeof bias, .key = BIAS_KEY},
                                   {.data = taps, .size = sizeof ones, .key = ONES_KEY}};
  const made_program program = {
      .plans = &plan, .n_plans = 1, .segments = segments, .n_segments = 5};
  size_t size;
  uint8_t *bytes = make_program(&program, &size);
  free(payloads[0].bytes);
  free(payloads[1].bytes);
  return rig_take(bytes, size);
}

static const change bench_plain = {.x_dtype = ET_F32, .x_sizes = x_sizes, .x_rank = 2};
static const change bench_false = {
    .x_dtype = ET_F32, .x_sizes = x_sizes, .x_rank = 2, .is_false = true};

// A rig with a table of backends of its own.
typedef struct bench {
  rig r;
  et_xnnpack xnnpack;
  const et_backend *backends[1];
  et_backend_table table;
  bool is_false;
} bench;

static inline void bench_begin(bench *b, const change *c, const et_xnnpack_options *options) {
  *b = (bench){.r = make_rig(c), .is_false = c->is_false};
  et_xnnpack_init(&b->xnnpack, options);
  b->backends[0] = &b->xnnpack.backend;
  b->table = (et_backend_table){b->backends, 1};
  b->r.config.backends = &b->table;
}

static const et_xnnpack_options bench_alone = {.workspace = NULL};

static inline et_status bench_set_image(bench *b) {
  static float image[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  return rig_set(&b->r, 1, image, ET_F32, 4, image_sizes);
}

static inline et_status bench_run(bench *b, float *x, int32_t rows) {
  const int32_t sizes[] = {rows, 3};
  et_status status = rig_set(&b->r, 0, x, ET_F32, 2, sizes);
  if (status == ET_OK) status = bench_set_image(b);
  return status == ET_OK ? et_method_execute(b->r.method, &b->r.err) : status;
}

static inline bool bench_is_right(const bench *b, const float *x, int32_t rows) {
  const float *const w = b->is_false ? false_weights : weights;
  const et_tensor *y = et_method_output(b->r.method, 0)->as.tensor;
  const float *blurred = et_method_output(b->r.method, 1)->as.tensor->data;
  if (y->sizes[0] != rows || y->sizes[1] != 2) return false;
  for (int32_t i = 0; i < rows; i++) {
    for (int o = 0; o < 2; o++) {
      float sum = bias[o];
      for (int k = 0; k < 3; k++) sum += x[3 * i + k] * w[3 * o + k];
      if (((const float *)y->data)[2 * i + o] != sum) return false;
    }
  }
  if (b->is_false) return blurred[0] == 0 && blurred[1] == 0 && blurred[5] == 2 && blurred[15] == 2;
  return blurred[0] == 4 && blurred[1] == 6 && blurred[5] == 9 && blurred[15] == 4;
}

static inline bool bench_gives(bench *b, int32_t rows) {
  float x[8 * 3];
  for (int i = 0; i < 24; i++) x[i] = (float)(i % 7) - 2;
  return bench_run(b, x, rows) == ET_OK && bench_is_right(b, x, rows);
}

// ---- Files of packed weights

static inline void bench_path(char *path) {
  const int file = mkstemp(path);
  if (file < 0 || close(file) != 0 || unlink(path) != 0) abort();
}

// Loads and runs with the file and saves it. *facts: of its packed weights; *note: of opening it.
static inline bool bench_use_file(const char *path, et_xnnpack_facts *facts, et_error *note) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  bench b;
  bool is_fine = et_xnnpack_weights_open(&options.weights, path, note) == ET_OK;
  bench_begin(&b, &bench_plain, &options);
  is_fine = is_fine && rig_start(&b.r, "forward") && bench_gives(&b, 8);
  is_fine = is_fine && et_xnnpack_weights_save(options.weights, path, &err) == ET_OK;
  if (is_fine) et_xnnpack_weights_facts(options.weights, facts);
  rig_end(&b.r);
  et_xnnpack_weights_close(options.weights);
  return is_fine;
}

static inline void bench_poke(const char *path, long offset, int byte) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL || fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET) != 0) abort();
  fputc(byte, file);
  fclose(file);
}

// Damages the packed weights of the linear layer, whose key is the longest of the file. The layout
// is that of weights_cache_file.c.
static inline void bench_damage_linear(const char *path) {
  enum { HEADER = 56, RECORD = 32, N_RECORDS = 2 };
  uint8_t bytes[2048] = {0};
  uint32_t identity_bytes, key_bytes, longest = 0;
  uint64_t offset, linear = 0;
  FILE *file = fopen(path, "rb");
  if (file == NULL || fread(bytes, 1, sizeof bytes, file) < HEADER) abort();
  fclose(file);
  memcpy(&identity_bytes, bytes + 12, sizeof identity_bytes);
  const uint8_t *record = bytes + HEADER + (identity_bytes + 7) / 8 * 8;
  for (int i = 0; i < N_RECORDS; i++) {
    memcpy(&offset, record, sizeof offset);
    memcpy(&key_bytes, record + 28, sizeof key_bytes);
    if (key_bytes > longest) linear = offset;
    if (key_bytes > longest) longest = key_bytes;
    record += RECORD + (key_bytes + 7) / 8 * 8;
  }
  bench_poke(path, (long)linear + 3, 0x7b);
}

#endif  // ET_XNN_BENCH_H
