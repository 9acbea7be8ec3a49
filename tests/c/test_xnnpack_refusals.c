// test_xnnpack_refusals.c — tests that unsound payloads written by hand are refused with a message
// that names the fault, and that a failed allocation is an error without a leak.
#include "runtime/et.h"

#include "et_test.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_refused_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_refused_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_graph_rig.h"

#include <math.h>

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
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "constant 1: expected at least the 24 bytes of its shape, got 20");
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
  EXPECT_REFUSAL(
      &g, ET_INVALID_PROGRAM,
      "value 1: expected an external id below 3 of inputs and outputs, and 0xffffffff of other "
      "values, got 0x3 with flags 0x1");
  g = sum_of_two();
  g.values[1].external = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "values 0 and 1 are both argument 0");
  g = sum_of_two();
  g.n_externs = 5000;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "expected at most 4096 arguments, got 5000");
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
  g.values[0].rank = 7;
  EXPECT_REFUSAL(
      &g, ET_INVALID_PROGRAM,
      "value 0: expected rank at most 6 and one size per dimension, got rank 7 and 7 sizes");
  g = sum_of_two();
  g.values[0].datatype = ETI_qdint8;
  g.values[0].quantization = QUANT_TOKEN;
  g.values[0].n_nonbatch_dims = 3;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "that share a scale: expected 1 to the rank, 2, got 3");
  g = sum_of_two();
  g.nodes[0].has_bounds = true;
  g.nodes[0].min = 1;
  g.nodes[0].max = -1;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "a lower one of at most the upper one, got 1 and -1");
}

static void a_product_of_rows_with_other_scales_is_refused(void) {
  static const int8_t w8[6] = {1, 2, 3, 4, 5, 6};
  static const float scales[3] = {1, 1, 1};
  x_graph g = sum_of_two();
  g.values[0] = (x_value)TENSOR(fp32, 1, 0, .rank = 2, .dims = {2, 3}, .dq_datatype = ETI_qint8);
  g.values[1] = (x_value)TENSOR(qcint8, 0, 0, .rank = 2, .dims = {3, 2}, .constant = 1,
                                .quantization = QUANT_CHANNEL, .scales = 2, .n_scales = 3);
  g.values[2] = (x_value)TENSOR(fp32, 2, 1, .rank = 2, .dims = {2, 2});
  g.constants[1] = (x_constant){NULL, w8, sizeof w8};
  g.constants[2] = (x_constant){NULL, scales, sizeof scales};
  g.n_constants = 3;
  g.n_externs = 2;
  g.nodes[0].code = 37;
  EXPECT_REFUSAL(
      &g, ET_NOT_SUPPORTED,
      "along dimension 1 of a matrix, input 1, got 1 dimensions and dimension 0 of rank 2");
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
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "less than 1048576, got size 3, stride 0, dilation 1, adjustment 0");
  g = one_conv();
  g.nodes[0].slots[3] = 1u << 20;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "padding: expected less than 1048576, got 1048576");
  g = one_conv();
  g.nodes[0].slots[4] = g.nodes[0].slots[5] = 1024;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "expected fewer than 1048576 elements, got 1024 × 1024");
  g = one_conv();
  g.nodes[0].slots[12] = 0;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "31 bits, got 0 groups of 1 input and 1 output channels");
  g = one_conv();
  g.nodes[0].slots[19] = 0x8000;
  EXPECT_REFUSAL(&g, ET_NOT_SUPPORTED, "flags: expected a subset of 0x0, got 0x8000");
}

static void sides_of_a_resized_image_are_checked(void) {
  x_graph g = sum_of_two();
  g.values[0].rank = g.values[2].rank = 4;
  for (size_t i = 0; i < 3; i += 2) {
    g.values[i].dims[0] = g.values[i].dims[3] = 1;
    g.values[i].dims[1] = g.values[i].dims[2] = 4;
  }
  g.nodes[0] = (x_node){.code = 9, .n_slots = 5, .slots = {0, 1u << 24, 0, 2, 0}};
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "at least 1 and less than 16777216, got 1×4×4×1 and 0 × 16777216");
}

static void lists_are_at_most_as_long_as_a_shape(void) {
  x_graph g = sum_of_two();
  g.nodes[0] = (x_node){.code = 5, .n_slots = 5, .slots = {0, 0, 0, 2, 0}, .n_list = {0, 7}};
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "a list: expected at most 6 numbers, got 7");
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
  EXPECT_REFUSAL(
      &g, ET_INVALID_PROGRAM,
      "value 1: group size: expected a multiple of 32 that divides the 64 columns, got 48");
  g.values[1].group_size = 64;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 1: expected 2 scales, got 4");
  g.values[1].group_size = 32;
  g.constants[1].size = 63;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM,
                 "constant 1: expected at least the 64 bytes of its shape, got 63");
  g = sum_of_two();
  g.values[0].datatype = ETI_qint8;
  g.values[0].quantization = QUANT_TENSOR;
  g.values[0].scale = 1;
  g.values[0].zero_point = 128;
  EXPECT_REFUSAL(&g, ET_INVALID_PROGRAM, "value 0: expected a zero point of qint8, got 128");
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
  EXPECT_REFUSAL(&g, ET_INVALID_EXTERNAL_DATA,
                 "named data 'w': expected at least 24 bytes, got 20");
}

static void a_payload_cut_anywhere_is_refused(void) {
  et_error err = {.status = ET_OK};
  eti_xnn_graph graph = {0};
  const x_graph g = one_linear();
  writer w = x_write(&g);
  for (size_t n = 0; n < w.size - 8; n++) {  // the last constant ends there
    uint8_t *cut = malloc(n + 1);
    memcpy(cut, w.bytes, n);
    const et_status status = build_bytes(cut, n, &graph, &err);
    free(cut);
    EXPECT(status != ET_OK);
    if (n == 20) EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "bytes of a header, got 20");
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
    ET_CASE(constants_outside_of_the_flatbuffer_are_refused),
    ET_CASE(payloads_of_other_versions_are_refused),
    ET_CASE(kinds_that_nobody_ran_are_refused),
    ET_CASE(ids_and_their_order_are_checked),
    ET_CASE(arguments_are_checked),
    ET_CASE(types_and_shapes_are_checked),
    ET_CASE(a_product_of_rows_with_other_scales_is_refused),
    ET_CASE(windows_must_fit),
    ET_CASE(sides_of_a_resized_image_are_checked),
    ET_CASE(lists_are_at_most_as_long_as_a_shape),
    ET_CASE(quantization_is_checked),
    ET_CASE(named_data_must_be_there_and_whole),
    ET_CASE(a_payload_cut_anywhere_is_refused),
    ET_CASE(every_allocation_of_a_build_may_fail),
};
ET_TEST_MAIN(tests)

#endif
