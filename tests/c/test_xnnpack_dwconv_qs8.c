// test_xnnpack_dwconv_qs8.c — tests that the tuned int8 depthwise kernels give the bits of
// XNNPACK's: kernels for numbers of channels and results and any pointers, operators of a runtime
// for windows, strides, dilations, padding and bounds. If the machine cannot run them the tests
// pass.
#include "backends/xnnpack/version_info.h"
#include "backends/xnnpack/alloc_region.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include "xnn_window.h"

#include <stdalign.h>

dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32;
dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32;
dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32;
dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32;

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && eti_xnn_has_qs8_dwconv();
}

static void fill(int8_t *at, size_t n) {
  for (size_t i = 0; i < n; i++) at[i] = (int8_t)random_below(256);
}

// ---- Kernels

enum {
  MAX_BLOCK = 32,
  MAX_CHANNELS = 145,
  MAX_PIXELS = 9,
  N_ELEMENTS = 60,
  GAP = 3,
  OFFSET = 64,
  ELEMENT = 176
};

static int8_t elements[OFFSET + N_ELEMENTS * ELEMENT], zero[ELEMENT + MAX_BLOCK];
static int8_t y[2][MAX_PIXELS * (MAX_CHANNELS + GAP) + 1];
alignas(64) static uint8_t original[5 * MAX_BLOCK * (25 + 8)], tuned[32768];
static const void *taps[MAX_PIXELS * 50];

// Kernels of one instruction set, each with XNNPACK's, which packs blocks of so many channels.
typedef struct kernels {
  size_t block;
  dwconv *original[2], *tuned[2];  // of 9 and of 25 taps
} kernels;

static kernels kernels_here(void) {
  return eti_xnn_has_qs8_dwconv_avx2()
             ? (kernels){16,
                         {xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
                          xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32},
                         {eti_xnn_qs8_dwconv_9__avx2, eti_xnn_qs8_dwconv_25__avx2}}
             : (kernels){32,
                         {xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32,
                          xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32},
                         {eti_xnn_qs8_dwconv_9__dot, eti_xnn_qs8_dwconv_25__dot}};
}

// Fills weights as XNNPACK packs them; some biases exceed all bounds.
static void fill_weights(size_t n_taps, size_t n_channels, size_t block) {
  uint8_t *at = original;
  for (size_t first = 0; first < n_channels; first += block) {
    for (size_t c = 0; c < block; c++) {
      const int32_t bias =
          random_below(9) == 0 ? INT32_MAX - 9000000 : (int32_t)random_below(20000) - 10000;
      memcpy(at + c * sizeof bias, &bias, sizeof bias);
    }
    at += block * sizeof(int32_t);
    fill((int8_t *)at, n_taps * block);
    if (random_below(3) == 0) memset(at, 0x80, n_taps * block);  // of the greatest size
    at += n_taps * block;
    for (size_t c = 0; c < block; c++) {
      const float scale =
          (float)(1 + random_below(200)) / (random_below(20) == 0 ? 2.0f : 60000.0f);
      memcpy(at + c * sizeof scale, &scale, sizeof scale);
    }
    at += block * sizeof(float);
  }
}

static bool is_same(size_t n_taps, size_t n_channels, size_t n_pixels, size_t stride) {
  const int16_t zero_point = (int16_t)((int)random_below(256) - 128);
  const eti_xnn_qs8_limits limits = {zero_point, (int16_t)(-128 + (int)random_below(100)),
                                     (int16_t)(127 - (int)random_below(100))};
  const kernels all = kernels_here();
  fill_weights(n_taps, n_channels, all.block);
  if (all.block == 16) {
    eti_xnn_qs8_dwconv_pack(n_taps, n_channels, original, NULL, tuned);
  } else {
    eti_xnn_qs8_dwconv_dot_pack(n_taps, n_channels, all.block, original, NULL, tuned);
  }
  if (random_below(3) == 0) memset(elements, 0x80, sizeof elements);
  for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++)
    taps[i] = random_below(5) == 0 ? zero : elements + random_below(N_ELEMENTS) * ELEMENT;
  memset(y, 77, sizeof y);
  const intptr_t stride_bytes = (intptr_t)(stride * sizeof *taps);
  const size_t which = n_taps == 9 ? 0 : 1;
  all.original[which](n_channels, n_pixels, taps, original, y[0], stride_bytes, GAP, OFFSET, zero,
                      &limits);
  all.tuned[which](n_channels, n_pixels, taps, tuned, y[1], stride_bytes, GAP, OFFSET, zero,
                   &limits);
  return memcmp(y[0], y[1], sizeof y[0]) == 0;
}

static void kernels_give_the_bytes_of_xnnpacks(void) {
  if (!can_run()) return;
  static const size_t strides[] = {1, 3, 5, 6, 9, 10, 25};
  fill(zero, sizeof zero);
  for (size_t n_channels = 1; n_channels <= MAX_CHANNELS; n_channels += n_channels < 18 ? 1 : 13) {
    fill(elements, sizeof elements);
    for (size_t n_pixels = 1; n_pixels <= MAX_PIXELS; n_pixels++) {
      for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        EXPECT(is_same(9, n_channels, n_pixels, strides[i]));
        EXPECT(is_same(25, n_channels, n_pixels, strides[i]));
      }
    }
  }
}

// ---- Operators

enum { MAX_TAPS = 25 };

static int8_t image[2 * SIDE * SIDE * CHANNELS + XNN_EXTRA_BYTES];
static int8_t filter[MAX_TAPS * CHANNELS];
static int32_t bias[CHANNELS];
static float scales[CHANNELS];

// NULL if it cannot be defined.
static xnn_subgraph_t subgraph_of(const window *w) {
  const window_sizes sizes = window_sizes_of(w);
  uint32_t id[4];
  xnn_subgraph_t s = NULL;
  bool is_fine = xnn_create_subgraph(2, 0, &s) == xnn_status_success;
  is_fine = is_fine && xnn_define_quantized_tensor_value(s, xnn_datatype_qint8, 3, 0.5f, 4, sizes.x,
                                                         NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT,
                                                         &id[0]) == xnn_status_success;
  is_fine =
      is_fine && (w->has_scales ? xnn_define_channelwise_quantized_tensor_value(
                                      s, xnn_datatype_qcint8, scales, 4, 3, sizes.weights, filter,
                                      XNN_INVALID_VALUE_ID, 0, &id[1])
                                : xnn_define_quantized_tensor_value(
                                      s, xnn_datatype_qint8, 0, 0.01f, 4, sizes.weights, filter,
                                      XNN_INVALID_VALUE_ID, 0, &id[1])) == xnn_status_success;
  is_fine = is_fine && (w->has_scales ? xnn_define_channelwise_quantized_tensor_value(
                                            s, xnn_datatype_qcint32, scales, 1, 0, sizes.bias, bias,
                                            XNN_INVALID_VALUE_ID, 0, &id[2])
                                      : xnn_define_quantized_tensor_value(
                                            s, xnn_datatype_qint32, 0, 0.005f, 1, sizes.bias, bias,
                                            XNN_INVALID_VALUE_ID, 0, &id[2])) == xnn_status_success;
  is_fine = is_fine && xnn_define_quantized_tensor_value(
                           s, xnn_datatype_qint8, -7, 0.9f, 4, sizes.y, NULL, 1,
                           XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &id[3]) == xnn_status_success;
  is_fine = is_fine && window_define(s, w, -60.0f, 70.0f, id);
  if (is_fine) return s;
  (void)xnn_delete_subgraph(s);
  return NULL;
}

static bool gives_the_same(const window *w) {
  static int8_t out[2][MAX_Y];
  xnn_subgraph_t s = subgraph_of(w);
  memset(out, 77, sizeof out);
  const bool is_same = s != NULL && window_run(s, false, image, out[0]) &&
                       window_run(s, true, image, out[1]) &&
                       memcmp(out[0], out[1], sizeof out[0]) == 0 && memchr(out[0], 77, 1) == NULL;
  (void)xnn_delete_subgraph(s);
  if (!is_same) window_print(w);
  return is_same;
}

static void operators_give_the_bytes_of_xnnpacks(void) {
  EXPECT(xnn_initialize(&eti_xnn_allocator) == xnn_status_success);
  if (!can_run()) return;
  fill(image, sizeof image);
  fill(filter, sizeof filter);
  for (size_t c = 0; c < CHANNELS; c++) {
    bias[c] = (int32_t)random_below(4000) - 2000;
    scales[c] = 0.002f + (float)random_below(100) / 5000.0f;
  }
  static const uint32_t kernels[][2] = {{3, 3}, {5, 5}, {3, 2}, {2, 4}, {1, 5}, {4, 4}, {5, 3}};
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
    for (uint32_t k = 0; k < 3 * 2 * 2 * 2; k++) {
      const window w = {
          {kernels[i][0], kernels[i][1]}, 1 + k % 3, 1 + k / 3 % 2, k / 6 % 2, k / 12 == 0};
      EXPECT(gives_the_same(&w));
    }
  }
}

static void all_of_an_instruction_set_are_named(void) {
  EXPECT(xnn_initialize(&eti_xnn_allocator) == xnn_status_success);
  const char *names[32] = {NULL};
  const size_t n = eti_xnn_own_kernels(names, 32);
  size_t n_int8 = 0, n_f32 = 0;
  for (size_t i = 0; i < n; i++) {
    n_int8 += strncmp(names[i], "qs8", 3) == 0 && strstr(names[i], "dwconv") != NULL;
    n_f32 += strncmp(names[i], "f32_dwconv", 10) == 0;
  }
  EXPECT(n_int8 == (can_run() ? 4 : 0));
  EXPECT(n_f32 == 0 || n_f32 == 2);
  names[0] = NULL;
  EXPECT(eti_xnn_own_kernels(names, 0) == n && names[0] == NULL);
}

static const et_test tests[] = {
    ET_CASE(all_of_an_instruction_set_are_named),
    ET_CASE(kernels_give_the_bytes_of_xnnpacks),
    ET_CASE(operators_give_the_bytes_of_xnnpacks),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
