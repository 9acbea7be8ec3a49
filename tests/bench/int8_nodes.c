// int8_nodes.c — times nodes of int8 graphs and f32 depthwise convolutions with XNNPACK's kernels
// and with tuned ones, by turns on one thread. Prints a JSON line for each with the best times.
// Sizes are those of image networks.
#define _POSIX_C_SOURCE 199309L  // clock_gettime
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/tuned/tuned.h"

enum { MAX_BYTES = 8 << 20, MAX_FILTERS = 1536, X_SCALE = 0, Y_SCALE = 1, TURN_US = 40000 };

static int8_t bytes[MAX_BYTES + XNN_EXTRA_BYTES], results[2][MAX_BYTES];
static float floats[(MAX_BYTES + XNN_EXTRA_BYTES) / sizeof(float)];
static float scales[MAX_FILTERS];
static int32_t biases[MAX_FILTERS];

typedef struct subject {
  enum { DEPTHWISE, FLOATS, IMAGE, GELU, HARDSWISH, PIXELS, FACTORS } kind;
  size_t side, channels, kernel, stride, filters;
} subject;

static const subject subjects[] = {
    {DEPTHWISE, 112, 32, 3, 1, 0}, {DEPTHWISE, 112, 96, 3, 2, 0}, {DEPTHWISE, 56, 144, 3, 1, 0},
    {DEPTHWISE, 56, 144, 3, 2, 0}, {DEPTHWISE, 28, 192, 3, 1, 0}, {DEPTHWISE, 28, 192, 3, 2, 0},
    {DEPTHWISE, 14, 384, 3, 1, 0}, {DEPTHWISE, 14, 576, 3, 2, 0}, {DEPTHWISE, 7, 960, 3, 1, 0},
    {DEPTHWISE, 56, 72, 5, 2, 0},  {DEPTHWISE, 28, 120, 5, 1, 0}, {DEPTHWISE, 28, 240, 5, 2, 0},
    {DEPTHWISE, 14, 672, 5, 1, 0}, {DEPTHWISE, 14, 672, 5, 2, 0}, {DEPTHWISE, 7, 1152, 5, 1, 0},
    {FLOATS, 112, 32, 3, 1, 0},    {FLOATS, 56, 144, 3, 1, 0},    {FLOATS, 28, 192, 3, 1, 0},
    {FLOATS, 14, 480, 3, 1, 0},    {FLOATS, 7, 960, 3, 1, 0},     {FLOATS, 56, 72, 5, 2, 0},
    {FLOATS, 28, 120, 5, 1, 0},    {FLOATS, 14, 672, 5, 1, 0},    {FLOATS, 14, 672, 5, 2, 0},
    {FLOATS, 7, 960, 5, 1, 0},     {IMAGE, 224, 3, 3, 2, 16},     {IMAGE, 224, 3, 3, 2, 32},
    {IMAGE, 224, 3, 7, 2, 64},     {IMAGE, 224, 3, 4, 4, 96},     {IMAGE, 224, 3, 16, 16, 768},
    {GELU, 14, 3072, 0, 0, 0},     {HARDSWISH, 14, 480, 0, 0, 0}, {HARDSWISH, 112, 16, 0, 0, 0},
    {PIXELS, 224, 3, 0, 0, 0},     {FACTORS, 28, 120, 0, 0, 0},   {FACTORS, 14, 672, 0, 0, 0},
};

static void check(enum xnn_status status) {
  if (status == xnn_status_success) return;
  fprintf(stderr, "XNNPACK: status %d\n", (int)status);
  exit(1);
}

static uint32_t define_value(xnn_subgraph_t s, size_t rank, const size_t *dims, uint32_t external) {
  const uint32_t flags[] = {XNN_VALUE_FLAG_EXTERNAL_INPUT, XNN_VALUE_FLAG_EXTERNAL_OUTPUT,
                            XNN_VALUE_FLAG_EXTERNAL_INPUT};
  const float value_scales[] = {0.05f, 0.07f, 0.05f};
  uint32_t id;
  check(xnn_define_quantized_tensor_value(s, xnn_datatype_qint8, 3, value_scales[external], rank,
                                          dims, NULL, external, flags[external], &id));
  return id;
}

static uint32_t define_weights(xnn_subgraph_t s, size_t rank, const size_t *dims, size_t dim) {
  uint32_t id;
  check(xnn_define_channelwise_quantized_tensor_value(
      s, rank == 1 ? xnn_datatype_qcint32 : xnn_datatype_qcint8, scales, rank, dim, dims,
      rank == 1 ? (const void *)biases : bytes, XNN_INVALID_VALUE_ID, 0, &id));
  return id;
}

static void define_window(xnn_subgraph_t s, const subject *t, bool is_ours) {
  const bool is_depthwise = t->kind == DEPTHWISE;
  const uint32_t k = (uint32_t)t->kernel, stride = (uint32_t)t->stride;
  const uint32_t pad = t->kernel == t->stride ? 0 : k / 2;
  const size_t n = is_depthwise ? t->channels : t->filters,
               dims[] = {1, t->side, t->side, t->channels};
  const size_t side = (t->side + 2 * pad - k) / stride + 1, y_dims[] = {1, side, side, n};
  const size_t dw_dims[] = {1, k, k, n}, w_dims[] = {n, k, k, t->channels};
  const uint32_t x = define_value(s, 4, dims, 0);
  const uint32_t w = define_weights(s, 4, is_depthwise ? dw_dims : w_dims, is_depthwise ? 3 : 0);
  const uint32_t b = define_weights(s, 1, &n, 0), y = define_value(s, 4, y_dims, 1);
  if (is_depthwise)
    check(xnn_define_depthwise_convolution_2d(s, pad, pad, pad, pad, k, k, stride, stride, 1, 1, 1,
                                              n, -100.0f, 100.0f, x, w, b, y, 0));
  else
    check(xnn_define_convolution_2d(s, pad, pad, pad, pad, k, k, stride, stride, 1, 1, 1,
                                    t->channels, n, -100.0f, 100.0f, x, w, b, y, 0));
  if (is_ours) eti_xnn_tune_node(s);
}

static uint32_t define_floats(xnn_subgraph_t s, size_t rank, const size_t *dims, const float *data,
                              uint32_t external, uint32_t flags) {
  uint32_t id;
  check(xnn_define_tensor_value(s, xnn_datatype_fp32, rank, dims, data, external, flags, &id));
  return id;
}

static void define_floats_window(xnn_subgraph_t s, const subject *t) {
  const uint32_t k = (uint32_t)t->kernel, stride = (uint32_t)t->stride, pad = k / 2;
  const size_t n = t->channels, side = (t->side + 2 * pad - k) / stride + 1;
  const size_t dims[] = {1, t->side, t->side, n}, y_dims[] = {1, side, side, n};
  const size_t w_dims[] = {1, k, k, n};
  const uint32_t x = define_floats(s, 4, dims, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT);
  const uint32_t w = define_floats(s, 4, w_dims, floats, XNN_INVALID_VALUE_ID, 0);
  const uint32_t b = define_floats(s, 1, &n, floats, XNN_INVALID_VALUE_ID, 0);
  const uint32_t y = define_floats(s, 4, y_dims, NULL, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT);
  check(xnn_define_depthwise_convolution_2d(s, pad, pad, pad, pad, k, k, stride, stride, 1, 1, 1, n,
                                            -100.0f, 100.0f, x, w, b, y, 0));
}

static void define_function(xnn_subgraph_t s, const subject *t, bool is_ours) {
  const size_t dims[] = {t->side, t->side, t->channels};
  const uint32_t x = define_value(s, 3, dims, 0), y = define_value(s, 3, dims, 1);
  uint32_t wide, result;
  if (is_ours) {
    const size_t table_dims[] = {ETI_XNN_LUT_BYTES};
    uint32_t table;
    check(xnn_define_quantized_tensor_value(s, xnn_datatype_quint8, 0, 1.0f, 1, table_dims, bytes,
                                            XNN_INVALID_VALUE_ID, 0, &table));
    check(eti_xnn_define_lut(s, x, table, y));
    return;
  }
  check(
      xnn_define_tensor_value(s, xnn_datatype_fp32, 3, dims, NULL, XNN_INVALID_VALUE_ID, 0, &wide));
  check(xnn_define_tensor_value(s, xnn_datatype_fp32, 3, dims, NULL, XNN_INVALID_VALUE_ID, 0,
                                &result));
  check(xnn_define_unary(s, xnn_unary_convert, NULL, x, wide, 0));
  check(xnn_define_unary(s, t->kind == GELU ? xnn_unary_gelu : xnn_unary_hardswish, NULL, wide,
                         result, 0));
  check(xnn_define_unary(s, xnn_unary_convert, NULL, result, y, 0));
}

static void define_pixels(xnn_subgraph_t s, const subject *t) {
  const size_t dims[] = {1, t->channels, t->side, t->side}, order[] = {0, 2, 3, 1};
  uint32_t id[2];
  for (uint32_t k = 0; k < 2; k++)
    check(xnn_define_quantized_tensor_value(
        s, xnn_datatype_qint8, 0, 1.0f, 4, dims, NULL, k,
        k == 0 ? XNN_VALUE_FLAG_EXTERNAL_INPUT : XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &id[k]));
  check(xnn_define_static_transpose(s, 4, order, id[0], id[1], 0));
}

static void define_factors(xnn_subgraph_t s, const subject *t) {
  const size_t dims[] = {1, t->side, t->side, t->channels}, f_dims[] = {1, 1, 1, t->channels};
  const uint32_t x = define_value(s, 4, dims, 0), y = define_value(s, 4, dims, 1);
  check(xnn_define_binary(s, xnn_binary_multiply, NULL, x, define_value(s, 4, f_dims, 2), y, 0));
}

static xnn_runtime_t runtime_of(const subject *t, bool is_ours) {
  void *const x = t->kind == FLOATS ? (void *)floats : bytes;
  const struct xnn_external_value values[] = {{0, x}, {1, results[is_ours]}, {2, bytes}};
  xnn_subgraph_t s;
  xnn_runtime_t runtime;
  check(xnn_create_subgraph(3, 0, &s));
  if (t->kind == DEPTHWISE || t->kind == IMAGE) define_window(s, t, is_ours);
  if (t->kind == FLOATS) define_floats_window(s, t);
  if (t->kind == GELU || t->kind == HARDSWISH) define_function(s, t, is_ours);
  if (t->kind == PIXELS) define_pixels(s, t);
  if (t->kind == FACTORS) define_factors(s, t);
  check(xnn_create_runtime_v4(s, NULL, NULL, NULL, 0, &runtime));
  if (is_ours) eti_xnn_tuned_after_make(runtime);
  check(xnn_reshape_runtime(runtime));
  eti_xnn_q8_schedule *schedules = NULL;  // none of these nodes has one
  if (is_ours) eti_xnn_tuned_after_reshape(runtime, 1, &schedules);
  check(xnn_setup_runtime_v2(runtime, t->kind == FACTORS ? 3 : 2, values));
  check(xnn_delete_subgraph(s));
  return runtime;
}

static double now_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void measure(const subject *t) {
  static const char *const kinds[] = {
      "int8 depthwise", "f32 depthwise",         "int8 stem convolution",  "int8 gelu",
      "int8 hardswish", "int8 planes to pixels", "int8 product by channel"};
  xnn_runtime_t runtimes[] = {runtime_of(t, false), runtime_of(t, true)};
  double best[2] = {1e9, 1e9};
  for (const double begin = now_us(); now_us() - begin < TURN_US;) {
    for (size_t k = 0; k < 2; k++) {
      const double from = now_us();
      check(xnn_invoke_runtime(runtimes[k]));
      const double us = now_us() - from;
      if (us < best[k]) best[k] = us;
    }
  }
  printf("{\"subject\": \"%s, %zux%zux%zu", kinds[t->kind], t->side, t->side, t->channels);
  if (t->kernel > 0) printf(", window %zu, stride %zu", t->kernel, t->stride);
  printf(
      "\", \"ours_us\": %.1f, \"xnnpack_us\": %.1f, \"ratio\": %.3f, \"bar\": 1.0, \"met\": %s}\n",
      best[1], best[0], best[1] / best[0], best[1] <= best[0] ? "true" : "false");
  fflush(stdout);
  for (size_t k = 0; k < 2; k++) check(xnn_delete_runtime(runtimes[k]));
}

int main(void) {
  check(xnn_initialize(&eti_xnn_allocator));
  for (size_t i = 0; i < MAX_BYTES; i++) bytes[i] = (int8_t)(i * 2654435761u >> 24);
  for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
    floats[i] = (float)bytes[i] / 128.0f;
  for (size_t i = 0; i < MAX_FILTERS; i++) scales[i] = 0.002f;
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) measure(&subjects[i]);
  return 0;
}
