// test_xnnpack_conv_stem.c — tests that stem convolutions (conv_stem.h) give the bits of XNNPACK's
// convolutions: for windows, strides, dilations, paddings, numbers of channels and filters, bounds,
// and changing sizes. Without a tuned kernel both runs are XNNPACK's and the test passes.
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/alloc_region.h"
#include "et_test.h"

enum { MAX_SIDE = 13, MAX_CHANNELS = 5, MAX_FILTERS = 35, MAX_TAPS = 49 };
enum { MAX_X = 2 * MAX_SIDE * MAX_SIDE * MAX_CHANNELS, MAX_Y = 2 * 20 * 20 * MAX_FILTERS };

static int8_t image[MAX_X + XNN_EXTRA_BYTES];
static int8_t filter[MAX_TAPS * MAX_CHANNELS * MAX_FILTERS];
static int32_t bias[MAX_FILTERS];
static float scales[MAX_FILTERS];
static uint32_t seed = 1;

static uint32_t next(uint32_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % n;
}

static void fill(void) {
  for (size_t i = 0; i < sizeof image; i++) image[i] = (int8_t)next(256);
  for (size_t i = 0; i < sizeof filter; i++) filter[i] = (int8_t)next(256);
  for (size_t i = 0; i < MAX_FILTERS; i++) {
    bias[i] = (int32_t)next(8000) - 4000;
    scales[i] = 0.001f + (float)next(100) / 10000.0f;
  }
}

// The arguments of xnn_define_convolution_2d.
typedef struct conv_node {
  uint32_t padding[4], kernel[2], stride[2], dilation[2], groups;
  size_t group_inputs, group_outputs;
  float min, max;
  uint32_t input, filter, bias, output;
} conv_node;

typedef struct subject {
  conv_node node;
  size_t side;  // of the image
  bool has_bias, has_scales;
} subject;

static bool define_value(xnn_subgraph_t s, enum xnn_datatype type, size_t rank, const size_t *dims,
                         const void *data, uint32_t external, uint32_t flags, uint32_t *id) {
  const bool has_scales = type == xnn_datatype_qcint8 || type == xnn_datatype_qcint32;
  const int32_t zero_point = data != NULL ? 0 : external == 0 ? 5 : -9;
  const float scale = data == NULL ? 0.5f : type == xnn_datatype_qint8 ? 0.004f : 0.002f;
  const enum xnn_status status =
      has_scales ? xnn_define_channelwise_quantized_tensor_value(s, type, scales, rank, 0, dims,
                                                                 data, external, flags, id)
                 : xnn_define_quantized_tensor_value(s, type, zero_point, scale, rank, dims, data,
                                                     external, flags, id);
  return status == xnn_status_success;
}

static enum xnn_status define_conv(xnn_subgraph_t s, const conv_node *n) {
  return xnn_define_convolution_2d(
      s, n->padding[0], n->padding[1], n->padding[2], n->padding[3], n->kernel[0], n->kernel[1],
      n->stride[0], n->stride[1], n->dilation[0], n->dilation[1], n->groups, n->group_inputs,
      n->group_outputs, n->min, n->max, n->input, n->filter, n->bias, n->output, 0);
}

static xnn_subgraph_t subgraph_of(const subject *t, bool is_tuned) {
  conv_node n = t->node;
  const size_t x_dims[] = {2, t->side, t->side, n.group_inputs}, y_dims[] = {2, 1, 1, 1};
  const size_t w_dims[] = {n.group_outputs, n.kernel[0], n.kernel[1], n.group_inputs};
  const bool s8 = !t->has_scales;
  xnn_subgraph_t s = NULL;
  bool is_fine = xnn_create_subgraph(2, 0, &s) == xnn_status_success;
  is_fine = is_fine && define_value(s, xnn_datatype_qint8, 4, x_dims, NULL, 0,
                                    XNN_VALUE_FLAG_EXTERNAL_INPUT, &n.input);
  is_fine = is_fine && define_value(s, s8 ? xnn_datatype_qint8 : xnn_datatype_qcint8, 4, w_dims,
                                    filter, XNN_INVALID_VALUE_ID, 0, &n.filter);
  n.bias = XNN_INVALID_VALUE_ID;
  if (t->has_bias)
    is_fine = is_fine && define_value(s, s8 ? xnn_datatype_qint32 : xnn_datatype_qcint32, 1,
                                      &n.group_outputs, bias, XNN_INVALID_VALUE_ID, 0, &n.bias);
  is_fine = is_fine && define_value(s, xnn_datatype_qint8, 4, y_dims, NULL, 1,
                                    XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &n.output);
  is_fine = is_fine && define_conv(s, &n) == xnn_status_success;
  if (is_fine && is_tuned) eti_xnn_tune_node(s);
  if (is_fine) return s;
  (void)xnn_delete_subgraph(s);
  return NULL;
}

// Runs a subject for images of its `side`, then for smaller ones and for one image.
static bool run(const subject *t, bool is_tuned, int8_t out[3][MAX_Y], size_t dims[3][4]) {
  xnn_subgraph_t s = subgraph_of(t, is_tuned);
  xnn_runtime_t runtime = NULL;
  bool is_fine =
      s != NULL && xnn_create_runtime_v4(s, NULL, NULL, NULL, 0, &runtime) == xnn_status_success;
  for (size_t k = 0; is_fine && k < 3; k++) {
    const size_t side = t->side - k % 2, x_dims[] = {2 - k / 2, side, side, t->node.group_inputs};
    const struct xnn_external_value values[] = {{0, image}, {1, out[k]}};
    size_t rank;
    is_fine = xnn_reshape_external_value(runtime, 0, 4, x_dims) == xnn_status_success &&
              xnn_reshape_runtime(runtime) == xnn_status_success &&
              xnn_get_external_value_shape(runtime, 1, &rank, dims[k]) == xnn_status_success &&
              xnn_setup_runtime_v2(runtime, 2, values) == xnn_status_success &&
              xnn_invoke_runtime(runtime) == xnn_status_success;
  }
  (void)xnn_delete_runtime(runtime);
  (void)xnn_delete_subgraph(s);
  return is_fine;
}

static bool is_same(const subject *t) {
  static int8_t original[3][MAX_Y], tuned[3][MAX_Y];
  size_t original_dims[3][4] = {{0}}, tuned_dims[3][4] = {{0}};
  memset(original, 77, sizeof original);
  memset(tuned, 77, sizeof tuned);
  const bool is_same = run(t, false, original, original_dims) && run(t, true, tuned, tuned_dims) &&
                       memcmp(original, tuned, sizeof tuned) == 0 &&
                       memcmp(original_dims, tuned_dims, sizeof tuned_dims) == 0;
  const conv_node *const n = &t->node;
  if (!is_same)
    printf("  image of %zu, window %u x %u, %zu channels, %zu filters\n", t->side, n->kernel[0],
           n->kernel[1], n->group_inputs, n->group_outputs);
  return is_same;
}

// Subjects with many different parameters.
static subject some_subject(uint32_t i) {
  static const uint32_t kernels[][2] = {{3, 3}, {7, 7}, {1, 1}, {2, 5}, {4, 3}, {5, 1}, {6, 6}};
  static const size_t filters[] = {16, 1, 35, 8, 17, 32, 15};
  const uint32_t *const kernel = kernels[i % 7];
  const bool is_far = i % 4 == 3 && kernel[0] < 5;
  subject t = {
      .node = {.padding = {next(kernel[0]), next(kernel[1]), next(kernel[0]), next(kernel[1])},
               .kernel = {kernel[0], kernel[1]},
               .stride = {1 + next(3), 1 + next(3)},
               .dilation = {is_far ? 2 : 1, 1},
               .groups = 1,
               .group_inputs = 1 + i % MAX_CHANNELS,
               .group_outputs = filters[i / 2 % 7],
               .min = i % 3 == 0 ? -20.0f : -1e9f,
               .max = i % 3 == 0 ? 31.0f : 1e9f},
      .has_bias = i % 5 > 0,
      .has_scales = i % 6 > 1};
  t.side = 8 + next(MAX_SIDE - 7);
  return t;
}

static void nodes_give_the_bytes_of_xnnpacks(void) {
  EXPECT(xnn_initialize(&eti_xnn_allocator) == xnn_status_success);
  fill();
  for (uint32_t i = 0; i < 140; i++) {
    const subject t = some_subject(i);
    EXPECT(is_same(&t));
  }
}

static void padding_beyond_the_window_and_dilated_columns_stay_xnnpacks(void) {
  EXPECT(xnn_initialize(&eti_xnn_allocator) == xnn_status_success);
  fill();
  subject t = some_subject(0);
  t.node.group_inputs = 2;
  t.node.dilation[1] = 2;
  EXPECT(is_same(&t));
  t = some_subject(0);
  t.node.padding[3] = 4;
  EXPECT(is_same(&t));
}

static const et_test tests[] = {
    ET_CASE(nodes_give_the_bytes_of_xnnpacks),
    ET_CASE(padding_beyond_the_window_and_dilated_columns_stay_xnnpacks),
};
ET_TEST_MAIN(tests)
