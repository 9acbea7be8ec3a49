// test_xnnpack_payload.c — small payloads written by hand: what is sound becomes a subgraph that
// computes what it says, what is not is refused in words, memory that runs out is an error that
// leaves nothing behind.
#include "runtime/et.h"

#include "et_test.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_read_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_read_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/subgraph/subgraph.h"
#include "xnn_writer.h"

#include <math.h>

// ---- An allocator that counts, and fails when told

static size_t n_live, n_asked, fails_at;  // 0: never

static bool is_refused(void) {
  return fails_at != 0 && ++n_asked >= fails_at;
}

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  if (is_refused()) return NULL;
  n_live++;
  return malloc(bytes == 0 ? 1 : bytes);
}

static void give(void *ctx, void *at) {
  (void)ctx;
  n_live -= at != NULL;
  free(at);
}

static void *take_again(void *ctx, void *at, size_t bytes) {
  if (at == NULL) return take(ctx, bytes);
  return is_refused() ? NULL : realloc(at, bytes);
}

static void *take_aligned(void *ctx, size_t align, size_t bytes) {
  (void)ctx;
  void *at = NULL;
  if (is_refused() || bytes > (size_t)1 << 30) return NULL;
  at = aligned_alloc(align, (bytes + align - 1) / align * align);
  n_live += at != NULL;
  return at;
}

static const struct xnn_allocator allocator = {NULL, take, take_again, give, take_aligned, give};

// ---- Named data

static const x_constant *named;
static size_t n_named, n_held;

static et_status get_named(const void *ctx, const char *key, et_blob *out, et_error *err) {
  (void)ctx;
  for (size_t i = 0; i < n_named; i++) {
    if (strcmp(named[i].key, key) != 0) continue;
    *out = (et_blob){.data = named[i].data, .size = named[i].size};
    n_held++;
    return ET_OK;
  }
  if (err != NULL) {
    err->status = ET_NOT_FOUND;
    snprintf(err->message, sizeof err->message, "no data '%s'", key);
  }
  return ET_NOT_FOUND;
}

static void release_named(const void *ctx, et_blob *blob) {
  (void)ctx;
  (void)blob;
  n_held--;
}

static const et_named_data data = {NULL, get_named, release_named};

// ---- Building and running

static et_status build_bytes(const uint8_t *bytes, size_t size, eti_xnn_graph *graph,
                             et_error *err) {
  const eti_xnn_graph_config config = {
      .payload = bytes, .payload_bytes = size, .named = &data, .memory = &allocator};
  if (xnn_initialize(&allocator) != xnn_status_success) return ET_INTERNAL;
  return eti_xnn_graph_build(graph, &config, err);
}

// The error of building a graph.
static et_error refusal(const x_graph *g) {
  et_error err = {.status = ET_OK};
  eti_xnn_graph graph = {0};
  writer w = x_write(g);
  if (build_bytes(w.bytes, w.size, &graph, &err) == ET_OK) {
    eti_xnn_graph_deinit(&graph);
    err.status = ET_OK;
  }
  free(w.bytes);
  return err;
}

// Runs a built graph; args[i]: the data of argument i.
static enum xnn_status run_graph(eti_xnn_graph *graph, void *const *args) {
  xnn_runtime_t runtime = NULL;
  xnn_workspace_t workspace =
      NULL;  // without one XNNPACK makes its own, and loses it when it fails
  struct xnn_external_value values[X_MOST];
  size_t n = 0;
  enum xnn_status status = xnn_create_workspace(&workspace);
  if (status == xnn_status_success)
    status = xnn_create_runtime_v4(graph->subgraph, NULL, workspace, NULL, 0, &runtime);
  eti_xnn_graph_trim(graph);
  if (status == xnn_status_success) status = xnn_reshape_runtime(runtime);
  for (uint32_t i = 0; i < graph->n_externs; i++) {
    if (graph->externs[i].is_input || graph->externs[i].is_output)
      values[n++] = (struct xnn_external_value){i, args[i]};
  }
  if (status == xnn_status_success) status = xnn_setup_runtime_v2(runtime, n, values);
  if (status == xnn_status_success) status = xnn_invoke_runtime(runtime);
  if (runtime != NULL) (void)xnn_delete_runtime(runtime);
  if (workspace != NULL) (void)xnn_release_workspace(workspace);
  return status;
}

static bool runs(const x_graph *g, void *const *args) {
  et_error err = {.status = ET_OK};
  eti_xnn_graph graph = {0};
  writer w = x_write(g);
  bool is_done = build_bytes(w.bytes, w.size, &graph, &err) == ET_OK;
  if (!is_done) printf("  %s\n", err.message);
  if (is_done) {
    is_done = run_graph(&graph, args) == xnn_status_success;
    eti_xnn_graph_deinit(&graph);
  }
  free(w.bytes);
  return is_done && n_held == 0;
}

// ---- Graphs

#define TENSOR(type, flag, ext, ...) \
  {.datatype = ETI_##type, .flags = flag, .external = ext, __VA_ARGS__}
enum { ETI_fp32 = 1, ETI_fp16 = 2, ETI_qint8 = 3, ETI_qbint4 = 10, ETI_bf16 = 14 };
#define NONE 0xffffffffu

static x_graph sum_of_two(void) {
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 2, .dims = {2, 3}),
                 TENSOR(fp32, 1, 1, .rank = 1, .dims = {3}),
                 TENSOR(fp32, 2, 2, .rank = 2, .dims = {2, 3})},
      .nodes = {{.code = 1, .n_slots = 4, .slots = {0, 1, 2}}},
      .constants = {{.key = ""}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 1,
      .n_externs = 3,
  };
}

static const float weights[2 * 3] = {1, 2, 3, 4, 5, 6}, bias[2] = {10, 20};

// y = x W^T + b
static x_graph one_linear(void) {
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 2, .dims = {1, 3}),
                 TENSOR(fp32, 0, 0, .rank = 2, .dims = {2, 3}, .constant = 1),
                 TENSOR(fp32, 0, 0, .rank = 1, .dims = {2}, .constant = 2),
                 TENSOR(fp32, 2, 1, .rank = 2, .dims = {1, 2})},
      .nodes = {{.code = 2, .n_slots = 5, .slots = {0, 1, 2, 3}}},
      .constants = {{.key = ""}, {NULL, weights, sizeof weights}, {NULL, bias, sizeof bias}},
      .n_values = 4,
      .n_nodes = 1,
      .n_constants = 3,
      .n_externs = 2,
  };
}

// A 3×3 convolution of one channel over 4×4, padded by 1.
static x_graph one_conv(void) {
  static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 4, .dims = {1, 4, 4, 1}),
                 TENSOR(fp32, 0, 0, .rank = 4, .dims = {1, 3, 3, 1}, .constant = 1),
                 TENSOR(fp32, 2, 1, .rank = 4, .dims = {1, 4, 4, 1})},
      .nodes = {{.code = 7, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1, 1,    1, 1,
                                                     1, 1, 1, 0, 0, 0, 1, NONE, 2, 0}}},
      .constants = {{.key = ""}, {NULL, ones, sizeof ones}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 2,
      .n_externs = 2,
  };
}

// ---- Payloads that run

static void a_sum_broadcasts(void) {
  float a[6 + 8] = {1, 2, 3, 4, 5, 6}, b[3 + 8] = {10, 20, 30}, c[6] = {0};
  const x_graph g = sum_of_two();
  EXPECT(runs(&g, (void *[]){a, b, c}));
  EXPECT(c[0] == 11 && c[2] == 33 && c[5] == 36);
}

static void bounds_of_a_sum_become_a_clamp(void) {
  float a[6 + 8] = {1, 2, 3, 4, 5, 6}, b[3 + 8] = {10, 20, 30}, c[6] = {0};
  x_graph g = sum_of_two();
  g.nodes[0].has_bounds = true;
  g.nodes[0].min = 12;
  g.nodes[0].max = 30;
  EXPECT(runs(&g, (void *[]){a, b, c}));
  EXPECT(c[0] == 12 && c[1] == 22 && c[2] == 30);
}

static void constants_may_lie_in_the_payload(void) {
  float x[3 + 8] = {1, 1, 1}, y[2] = {0};
  const x_graph g = one_linear();
  EXPECT(runs(&g, (void *[]){x, y}));
  EXPECT(y[0] == 16 && y[1] == 35);
}

static void constants_may_be_named(void) {
  static const x_constant blobs[] = {{"w", weights, sizeof weights}, {"b", bias, sizeof bias}};
  float x[3 + 8] = {1, 0, 0}, y[2] = {0};
  x_graph g = one_linear();
  g.constants[1] = (x_constant){.key = "w", .size = sizeof weights};
  g.constants[2] = (x_constant){.key = "b", .size = sizeof bias};
  named = blobs;
  n_named = 2;
  EXPECT(runs(&g, (void *[]){x, y}));
  EXPECT(y[0] == 11 && y[1] == 24);
}

static void a_payload_without_a_header_is_a_flatbuffer(void) {
  static const x_constant blobs[] = {{"w", weights, sizeof weights}};
  float x[3 + 8] = {0, 0, 1}, y[2] = {0};
  x_graph g = one_linear();
  g.constants[1] = g.constants[2] = (x_constant){.key = "w", .size = sizeof weights};
  named = blobs;
  n_named = 1;
  et_error err;
  eti_xnn_graph graph = {0};
  writer w = x_write(&g);
  EXPECT(build_bytes(w.bytes + 32, w.size - 32, &graph, &err) == ET_OK);
  EXPECT(run_graph(&graph, (void *[]){x, y}) == xnn_status_success);
  eti_xnn_graph_deinit(&graph);
  free(w.bytes);
  EXPECT(y[0] == 3 + 1 && y[1] == 6 + 2 && n_held == 0);
}

// Old exporters put constants into the flatbuffer, with or without a header in front of it, or into
// the section behind it; payloads with the section have either identifier.
static void constants_may_lie_in_the_flatbuffer(void) {
  static const char *const identifiers[] = {"XN00", "XN01"};
  float x[3 + 8] = {1, 1, 1}, y[2] = {0};
  for (size_t i = 0; i < 2; i++) {
    x_graph g = one_linear();
    g.identifier = identifiers[i];
    EXPECT(runs(&g, (void *[]){x, y}));
    EXPECT(y[0] == 16 && y[1] == 35);
    g.has_buffers = true;
    y[0] = y[1] = 0;
    EXPECT(runs(&g, (void *[]){x, y}));
    EXPECT(y[0] == 16 && y[1] == 35);
    et_error err;
    eti_xnn_graph graph = {0};
    writer w = x_write(&g);
    y[0] = y[1] = 0;
    EXPECT(build_bytes(w.bytes + 32, w.size - 32, &graph, &err) == ET_OK);
    EXPECT(run_graph(&graph, (void *[]){x, y}) == xnn_status_success);
    eti_xnn_graph_deinit(&graph);
    free(w.bytes);
    EXPECT(y[0] == 16 && y[1] == 35);
  }
}

static void an_elu_has_its_alpha(void) {
  float x[6 + 8] = {-1, 0, 1, -3, 0.5f, -0.25f}, y[6] = {0};
  x_graph g = sum_of_two();
  g.values[1] = g.values[2];
  g.values[1].external = 1;
  g.n_values = g.n_externs = 2;
  g.nodes[0] = (x_node){.code = 29, .n_slots = 4, .slots = {x_bits(2.5f), 0, 1}};
  EXPECT(runs(&g, (void *[]){x, y}));
  for (size_t i = 0; i < 6; i++)
    EXPECT(fabsf(y[i] - (x[i] > 0 ? x[i] : 2.5f * (expf(x[i]) - 1))) < 1e-5f);
}

// Nodes that only move bytes get operands of other scales converted first.
static void scales_that_differ_are_made_equal_before_a_move(void) {
  int8_t a[3 + 128] = {10, -20, 127}, b[3 + 128] = {40, 41, -128}, c[6] = {0};
  x_graph g = sum_of_two();
  const float scales[] = {0.5f, 0.25f, 1};
  const int zero_points[] = {0, 4, -1};
  for (size_t i = 0; i < 3; i++) {
    g.values[i] =
        (x_value)TENSOR(qint8, 1, (uint32_t)i, .rank = 1, .dims = {3}, .quantization = QUANT_TENSOR,
                        .scale = scales[i], .zero_point = zero_points[i]);
  }
  g.values[2].flags = 2;
  g.values[2].dims[0] = 6;
  g.nodes[0] = (x_node){.code = 32, .n_slots = 8, .slots = {0, 0, 1, NONE, NONE, 2, 0}};
  EXPECT(runs(&g, (void *[]){a, b, c}));
  // 5, -10, 63.5 and 9, 9.25, -33 in steps of 1 from -1; halves may go either way.
  EXPECT(c[0] == 4 && c[1] == -11 && (c[2] == 62 || c[2] == 63));
  EXPECT(c[3] == 8 && c[4] == 8 && c[5] == -34);
  et_error err;
  g.values[2].scale = 0.5f / 129;
  err = refusal(&g);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "expected a quotient of 1/256 to 128");
  g.values[2].scale = 0.25f * 257;
  err = refusal(&g);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "requantization from scale 0.25 to scale 64.25");
}

static void a_linear_of_bf16_is_computed_in_fp32(void) {
  static const uint16_t one = 0x3f80, two = 0x4000;
  uint16_t w16[6] = {one, one, one, two, two, two};
  uint16_t x[3 + 32] = {one, two, one}, y[2] = {0};
  x_graph g = one_linear();
  g.values[0].datatype = g.values[1].datatype = g.values[3].datatype = ETI_bf16;
  g.constants[1] = (x_constant){NULL, w16, sizeof w16};
  EXPECT(runs(&g, (void *[]){x, y}));
  EXPECT(y[0] == 0x4160 && y[1] == 0x41e0);  // 14 and 28
}

static void an_old_dynamic_input_is_quantized_first(void) {
  static const int8_t w8[6] = {1, 2, 3, 4, 5, 6};
  static const float scales[2] = {0.5f, 1};
  float x[3 + 8] = {1, 1, 1}, y[2] = {0};
  x_graph g = one_linear();
  g.values[0].dq_datatype = ETI_qint8;
  g.values[1].datatype = 6;  // qcint8
  g.values[1].quantization = QUANT_CHANNEL;
  g.values[1].scales = 3;
  g.values[1].n_scales = 2;
  g.constants[1] = (x_constant){NULL, w8, sizeof w8};
  g.constants[3] = (x_constant){NULL, scales, sizeof scales};
  g.n_constants = 4;
  EXPECT(runs(&g, (void *[]){x, y}));
  EXPECT(fabsf(y[0] - 13) < 0.05f && fabsf(y[1] - 35) < 0.05f);
}

enum { COLUMNS = 64, CHANNELS = 40, MOST_ROWS = 18, GROUP = 32 };
static uint8_t packed_weights[CHANNELS * COLUMNS / 2];
static uint16_t group_scales[CHANNELS * COLUMNS / GROUP];
static float group_inputs[MOST_ROWS * COLUMNS + 8], group_outputs[MOST_ROWS * CHANNELS];

// The sum of row m and channel n, from the packed bytes.
static double group_sum(size_t m, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < COLUMNS; k++) {
    const size_t at = n * COLUMNS + k;
    const int weight = (packed_weights[at / 2] >> (at % 2 * 4) & 15) - 8;
    const uint32_t bits = (uint32_t)group_scales[at / GROUP] << 16;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    sum += (double)group_inputs[m * COLUMNS + k] * weight * (double)scale;
  }
  return sum;
}

// Kernels take several rows at once, so that each number of rows has a last tile of its own.
static void any_number_of_rows_is_multiplied_by_groups_of_4_bits(void) {
  uint64_t state = 1;
  for (size_t i = 0; i < sizeof packed_weights; i++)
    packed_weights[i] = (uint8_t)((state = state * 6364136223846793005u + 1) >> 56);
  for (size_t i = 0; i < MOST_ROWS * COLUMNS; i++)
    group_inputs[i] = (float)((state = state * 6364136223846793005u + 1) >> 50) / 8192.0f - 1;
  for (size_t i = 0; i < CHANNELS * COLUMNS / GROUP; i++)
    group_scales[i] = (uint16_t)(0x3c00 + i * 7 % 64);
  for (uint32_t rows = 1; rows <= MOST_ROWS; rows++) {
    x_graph g = one_linear();
    g.values[0] =
        (x_value)TENSOR(fp32, 1, 0, .rank = 2, .dims = {rows, COLUMNS}, .dq_datatype = ETI_qint8);
    g.values[1] = (x_value)TENSOR(qbint4, 0, 0, .rank = 2, .dims = {CHANNELS, COLUMNS},
                                  .constant = 1, .quantization = QUANT_GROUP, .scales = 2,
                                  .n_scales = CHANNELS * COLUMNS / GROUP, .group_size = GROUP);
    g.values[3].dims[0] = rows;
    g.values[3].dims[1] = CHANNELS;
    g.nodes[0].slots[2] = NONE;
    g.constants[1] = (x_constant){NULL, packed_weights, sizeof packed_weights};
    g.constants[2] = (x_constant){NULL, group_scales, sizeof group_scales};
    EXPECT(runs(&g, (void *[]){group_inputs, group_outputs}));
    for (size_t m = 0; m < rows; m++) {
      for (size_t n = 0; n < CHANNELS; n++)
        EXPECT(fabs(group_sum(m, n) - (double)group_outputs[m * CHANNELS + n]) < 0.01);
    }
  }
}

static void a_convolution_sums_its_window(void) {
  float x[16 + 8], y[16] = {0};
  for (size_t i = 0; i < 16; i++) x[i] = 1;
  const x_graph g = one_conv();
  EXPECT(runs(&g, (void *[]){x, y}));
  EXPECT(y[0] == 4 && y[1] == 6 && y[5] == 9);
}

// Largest values and where they are: the second output is in XNNPACK's 32 bits.
static void positions_are_marked_as_wide(void) {
  float x[8 + 8] = {1, 5, 2, 0, 7, 3, 9, 8}, largest[4] = {0};
  uint32_t where[4] = {7, 7, 7, 7};
  const x_graph g = {
      .values = {TENSOR(fp32, 1, 0, .rank = 4, .dims = {1, 2, 2, 2}),
                 TENSOR(fp32, 2, 1, .rank = 4, .dims = {1, 1, 2, 2}),
                 TENSOR(fp32, 2, 2, .rank = 4, .dims = {1, 1, 2, 2})},
      .nodes = {{.code = 21, .n_slots = 10, .slots = {0, 0, 0, 0, 2, 1, 0, 1, 2, 0}}},
      .constants = {{.key = ""}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 1,
      .n_externs = 3,
  };
  EXPECT(runs(&g, (void *[]){x, largest, where}));
  EXPECT(largest[0] == 7 && largest[1] == 5 && largest[2] == 9 && largest[3] == 8);
  EXPECT(where[0] == 1 && where[1] == 0 && where[2] == 1 && where[3] == 1);
  et_error err;
  eti_xnn_graph graph = {0};
  writer w = x_write(&g);
  EXPECT(build_bytes(w.bytes, w.size, &graph, &err) == ET_OK);
  EXPECT(graph.externs[2].is_widened && graph.externs[2].dtype == ET_I64);
  EXPECT(!graph.externs[1].is_widened && graph.externs[1].dtype == ET_F32);
  eti_xnn_graph_deinit(&graph);
  free(w.bytes);
}

// Of which only the positions are asked for: XNNPACK writes the values all the same.
static void values_that_nobody_reads_have_memory(void) {
  float x[8 + 8] = {1, 5, 2, 0, 7, 3, 9, 8};
  uint32_t where[4] = {7, 7, 7, 7};
  const x_graph g = {
      .values = {TENSOR(fp32, 1, 0, .rank = 4, .dims = {1, 2, 2, 2}),
                 TENSOR(fp32, 0, 0, .rank = 4, .dims = {1, 1, 2, 2}),
                 TENSOR(fp32, 2, 1, .rank = 4, .dims = {1, 1, 2, 2})},
      .nodes = {{.code = 21, .n_slots = 10, .slots = {0, 0, 0, 0, 2, 1, 0, 1, 2, 0}}},
      .constants = {{.key = ""}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 1,
      .n_externs = 2,
  };
  EXPECT(runs(&g, (void *[]){x, where}));
  EXPECT(where[0] == 1 && where[1] == 0 && where[2] == 1 && where[3] == 1);
}

static void a_node_without_use_is_left_out(void) {
  float a[6 + 8] = {1, 2, 3, 4, 5, 6}, b[3 + 8] = {10, 20, 30}, c[6] = {0};
  x_graph g = sum_of_two();
  g.values[3] = (x_value)TENSOR(fp32, 0, 0, .rank = 2, .dims = {2, 3});
  g.values[4] = g.values[3];
  g.nodes[1] = (x_node){.code = 44, .n_slots = 3, .slots = {0, 3}};
  g.nodes[2] = (x_node){.code = 6, .n_slots = 3, .slots = {3, 4}};
  g.n_values = 5;
  g.n_nodes = 3;
  EXPECT(runs(&g, (void *[]){a, b, c}));
  EXPECT(c[0] == 11 && c[5] == 36);
}

static void arguments_and_origins_are_told(void) {
  et_error err;
  eti_xnn_graph graph = {0};
  const x_graph g = one_linear();
  writer w = x_write(&g);
  EXPECT(build_bytes(w.bytes, w.size, &graph, &err) == ET_OK);
  EXPECT(graph.n_externs == 2 && graph.externs[0].is_input && graph.externs[1].is_output);
  EXPECT(graph.externs[0].dtype == ET_F32 && graph.externs[0].shape.rank == 2 &&
         graph.externs[0].shape.dims[1] == 3);
  EXPECT(graph.n_nodes == 1 && graph.origins[0].debug_handle == 100 &&
         strcmp(graph.origins[0].kind, "FullyConnected") == 0);
  EXPECT(!graph.uses_payload);
  eti_xnn_graph_deinit(&graph);
  free(w.bytes);
}

static void shapes_are_checked_before_they_are_used(void) {
  et_error err;
  eti_xnn_graph graph = {0};
  const x_graph g = one_linear();
  writer w = x_write(&g);
  EXPECT(build_bytes(w.bytes, w.size, &graph, &err) == ET_OK);
  eti_xnn_shape shapes[2] = {{2, {7, 3}}};
  EXPECT(eti_xnn_graph_check_shapes(&graph, shapes, &err) == ET_OK);
  shapes[0].dims[1] = 4;
  EXPECT(eti_xnn_graph_check_shapes(&graph, shapes, &err) != ET_OK);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM,
               "input 0: expected rows of 3 as the filter 2×3 has, got 7×4");
  shapes[0].dims[1] = 0;
  EXPECT(eti_xnn_graph_check_shapes(&graph, shapes, &err) != ET_OK);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "argument 0");
  eti_xnn_graph_deinit(&graph);
  free(w.bytes);
}

// ---- Payloads that are refused

#define EXPECT_REFUSAL(graph, code, part) \
  do {                                    \
    const et_error err = refusal(graph);  \
    EXPECT_ERROR(&err, code, part);       \
    EXPECT(n_held == 0);                  \
  } while (0)

static void constants_outside_of_the_flatbuffer_are_refused(void) {
  x_graph g = one_linear();
  g.has_buffers = true;
  g.constants[1].size = 20;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "constant 1 has 20 bytes, expected the 24 of its shape");
  g.constants[1].data = NULL;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 1: constant buffer 1 has no bytes");
  g.n_constants = 1;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 1: constant 1 of 1 does not exist");
}

static void payloads_of_other_versions_are_refused(void) {
  x_graph g = sum_of_two();
  g.identifier = "XN02";
  EXPECT_REFUSAL(&g, ET_DELEGATE_INCOMPATIBLE,
                 "of a known version: expected the identifier XN00 or XN01, got bytes 58 4e 30 32");
}

static void kinds_that_nobody_ran_are_refused(void) {
  x_graph g = sum_of_two();
  g.nodes[0].code = 36;
  EXPECT_REFUSAL(&g, ET_NOT_IMPLEMENTED, "node 0 (debug handle 100): kind 36 is unknown");
  g.nodes[0].code = 48;
  EXPECT_REFUSAL(&g, ET_NOT_IMPLEMENTED, "kind 48");
}

static void ids_and_their_order_are_checked(void) {
  x_graph g = sum_of_two();
  g.nodes[0].slots[1] = 7;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "node 0 (Add, debug handle 100): input 1: value id 7 does not exist");
  g = sum_of_two();
  g.nodes[0].slots[1] = 2;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "input 1: value 2 is read before it is written");
  g = sum_of_two();
  g.nodes[0].slots[2] = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "output 0: value 0 is an input");
  g = sum_of_two();
  g.n_nodes = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 2 (argument 2) is an output that no node writes");
}

static void arguments_are_checked(void) {
  x_graph g = sum_of_two();
  g.values[0].flags = 3;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "value 0: expected flags 1 (input), 2 (output) or 0, got 0x3");
  g = sum_of_two();
  g.values[1].external = 3;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "external id 3");
  g = sum_of_two();
  g.values[1].external = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "values 0 and 1 are both argument 0");
  g = sum_of_two();
  g.n_externs = 5000;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "5000 arguments");
}

static void types_and_shapes_are_checked(void) {
  x_graph g = sum_of_two();
  g.values[0].datatype = 9;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "qdint8 without quantization parameters");
  g = sum_of_two();
  g.values[0].datatype = 77;
  EXPECT_REFUSAL(&g, ET_NOT_SUPPORTED, "datatype 77");
  g = sum_of_two();
  g.values[1].datatype = ETI_fp16;
  EXPECT_REFUSAL(&g, ET_NOT_SUPPORTED, "input 1: expected fp32 as of input 0, got fp16");
  g = sum_of_two();
  g.values[1].dims[0] = 2;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "2×3 and 2 cannot be broadcast");
  g = sum_of_two();
  g.values[0].rank = 6;
  for (unsigned d = 0; d < 6; d++) g.values[0].dims[d] = 0x7fffffff;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 0: an empty shape, or one too large to address");
}

static void windows_must_fit(void) {
  x_graph g = one_conv();
  g.nodes[0].slots[8] = 3;  // dilation
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "a window over 7 elements is larger than the padded image of 6");
  g = one_conv();
  g.nodes[0].slots[10] = 2;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "input 0: expected an image of 2 channels, got 1×4×4×1");
  g = one_conv();
  g.nodes[0].slots[4] = 2;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "the filter: expected 1×2×3×1, got 1×3×3×1");
  g = one_conv();
  g.nodes[0].slots[6] = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "stride 0");
}

static void quantization_is_checked(void) {
  static const uint8_t packed[64] = {0};
  static const uint16_t scales[4] = {0x3f80, 0x3f80, 0, 0x3f80};
  x_graph g = one_linear();
  g.values[0] = (x_value)TENSOR(fp32, 1, 0, .rank = 2, .dims = {1, 64}, .dq_datatype = ETI_qint8);
  g.values[1] =
      (x_value)TENSOR(qbint4, 0, 0, .rank = 2, .dims = {2, 64}, .constant = 1,
                      .quantization = QUANT_GROUP, .scales = 3, .n_scales = 4, .group_size = 32);
  g.constants[1] = (x_constant){NULL, packed, sizeof packed};
  g.constants[3] = (x_constant){NULL, scales, sizeof scales};
  g.n_constants = 4;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 1: expected a normal, positive scale 2, got 0");
  g.values[1].group_size = 48;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "groups of 48 in 64 columns");
  g.values[1].group_size = 64;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 1: expected 2 scales, got 4");
  g.values[1].group_size = 32;
  g.constants[1].size = 63;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "constant 1 has 63 bytes, expected the 64 of its shape");
  g = sum_of_two();
  g.values[0].datatype = ETI_qint8;
  g.values[0].quantization = QUANT_TENSOR;
  g.values[0].scale = 1;
  g.values[0].zero_point = 128;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 0: zero point 128 is out of range for qint8");
  g.values[0].scale = INFINITY;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 0: expected a normal, positive scale, got inf");
}

static void named_data_must_be_there_and_whole(void) {
  static const x_constant blobs[] = {{"w", weights, 20}};
  x_graph g = one_linear();
  g.constants[1] = (x_constant){.key = "w", .size = sizeof weights};
  n_named = 0;
  EXPECT_REFUSAL(&g, ET_NOT_FOUND, "value 1: no data 'w'");
  named = blobs;
  n_named = 1;
  EXPECT_REFUSAL(&g, ET_INVALID_EXTERNAL_DATA, "named data 'w' has 20 bytes, expected at least 24");
}

static void a_payload_cut_anywhere_is_refused(void) {
  et_error err;
  eti_xnn_graph graph = {0};
  const x_graph g = one_linear();
  writer w = x_write(&g);
  for (size_t n = 0; n < w.size - 8; n++) {  // the last constant ends there
    uint8_t *cut = malloc(n + 1);
    memcpy(cut, w.bytes, n);
    const et_status status = build_bytes(cut, n, &graph, &err);
    free(cut);
    EXPECT(status != ET_OK);
  }
  free(w.bytes);
}

static void every_allocation_of_a_build_may_fail(void) {
  float x[3 + 8] = {1, 1, 1}, y[2] = {0};
  const x_graph g = one_linear();
  EXPECT(runs(&g, (void *[]){x, y}));  // XNNPACK's own, once per process
  writer w = x_write(&g);
  et_status status = ET_DELEGATE_OUT_OF_MEMORY;
  bool is_sound = true;
  for (size_t k = 1; is_sound && status != ET_OK; k++) {
    et_error err;
    eti_xnn_graph graph = {0};
    const size_t before = n_live;
    fails_at = k;
    n_asked = 0;
    status = build_bytes(w.bytes, w.size, &graph, &err);
    fails_at = 0;
    if (status == ET_OK) eti_xnn_graph_deinit(&graph);
    is_sound = (status == ET_OK || status == ET_DELEGATE_OUT_OF_MEMORY) && n_live == before;
    is_sound = is_sound && k < 1000;
  }
  free(w.bytes);
  EXPECT(is_sound);
}

static const et_test tests[] = {
    ET_CASE(a_sum_broadcasts),
    ET_CASE(bounds_of_a_sum_become_a_clamp),
    ET_CASE(constants_may_lie_in_the_payload),
    ET_CASE(constants_may_be_named),
    ET_CASE(a_payload_without_a_header_is_a_flatbuffer),
    ET_CASE(constants_may_lie_in_the_flatbuffer),
    ET_CASE(an_elu_has_its_alpha),
    ET_CASE(scales_that_differ_are_made_equal_before_a_move),
    ET_CASE(a_linear_of_bf16_is_computed_in_fp32),
    ET_CASE(an_old_dynamic_input_is_quantized_first),
    ET_CASE(any_number_of_rows_is_multiplied_by_groups_of_4_bits),
    ET_CASE(a_convolution_sums_its_window),
    ET_CASE(positions_are_marked_as_wide),
    ET_CASE(values_that_nobody_reads_have_memory),
    ET_CASE(a_node_without_use_is_left_out),
    ET_CASE(arguments_and_origins_are_told),
    ET_CASE(shapes_are_checked_before_they_are_used),
    ET_CASE(constants_outside_of_the_flatbuffer_are_refused),
    ET_CASE(payloads_of_other_versions_are_refused),
    ET_CASE(kinds_that_nobody_ran_are_refused),
    ET_CASE(ids_and_their_order_are_checked),
    ET_CASE(arguments_are_checked),
    ET_CASE(types_and_shapes_are_checked),
    ET_CASE(windows_must_fit),
    ET_CASE(quantization_is_checked),
    ET_CASE(named_data_must_be_there_and_whole),
    ET_CASE(a_payload_cut_anywhere_is_refused),
    ET_CASE(every_allocation_of_a_build_may_fail),
};
ET_TEST_MAIN(tests)

#endif
