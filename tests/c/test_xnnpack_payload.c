// test_xnnpack_payload.c — tests small payloads written by hand: they become subgraphs, which
// compute the expected results of their nodes.
#include "runtime/et.h"

#include "et_test.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_read_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_read_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_graph_rig.h"

#include <math.h>

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

// Old exporters wrote constants into the flatbuffer, with or without a header before it, or into
// the section after it; payloads with the section have either identifier.
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
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "expected a quotient of 1/256 to 128 of the scales");
  g.values[2].scale = 0.25f * 257;
  err = refusal(&g);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "of the scales, got 0.25 / 64.25");
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

enum { COLUMNS = 64, CHANNELS = 40, MAX_ROWS = 18, GROUP = 32 };
static uint8_t packed_weights[CHANNELS * COLUMNS / 2];
static uint16_t group_scales[CHANNELS * COLUMNS / GROUP];
static float group_inputs[MAX_ROWS * COLUMNS + 8], group_outputs[MAX_ROWS * CHANNELS];

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
  for (size_t i = 0; i < MAX_ROWS * COLUMNS; i++)
    group_inputs[i] = (float)((state = state * 6364136223846793005u + 1) >> 50) / 8192.0f - 1;
  for (size_t i = 0; i < CHANNELS * COLUMNS / GROUP; i++)
    group_scales[i] = (uint16_t)(0x3c00 + i * 7 % 64);
  for (uint32_t rows = 1; rows <= MAX_ROWS; rows++) {
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

// Only the positions are outputs, but XNNPACK writes the values too.
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
};
ET_TEST_MAIN(tests)

#endif
