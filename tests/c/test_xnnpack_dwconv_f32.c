// test_xnnpack_dwconv_f32.c — tests the tuned f32 depthwise kernels. The kernels are compared with
// sums in double precision and, for infinity and NaN, with XNNPACK's kernels. The tests also check
// which operators of a runtime run the tuned kernels. If the machine cannot run them the tests
// pass.
#include "backends/xnnpack/version_info.h"
#include "backends/xnnpack/alloc_region.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include "xnn_window.h"

#include <float.h>
#include <math.h>
#include <stdalign.h>
#include <stdlib.h>

dwconv xnn_f32_dwconv_minmax_ukernel_9p16c__fma3;
dwconv xnn_f32_dwconv_minmax_ukernel_25p8c__fma3;

// Whether XNNPACK would run its FMA3 or AVX-512 kernels, which the tuned ones replace.
static bool can_run(void) {
  const char *names[32] = {NULL};
  const size_t n = eti_xnn_own_kernels(names, 32);
  for (size_t i = 0; i < n && i < 32; i++)
    if (strstr(names[i], "f32_dwconv") != NULL) return true;
  return false;
}

static void fill(float *at, size_t n) {
  for (size_t i = 0; i < n; i++) at[i] = (float)random_below(20001) / 10000.0f - 1.0f;
}

// ---- Kernels

enum {
  MAX_CHANNELS = 40,
  MAX_PIXELS = 17,
  N_ELEMENTS = 60,
  GAP = 3,
  OFFSET = 16,  // all in floats
  MAX_TAPS = (MAX_PIXELS - 1) * 10 + 25
};

typedef struct call {
  size_t side, step, n_channels, n_pixels;
  float *elements, *zero;  // of their exact sizes, so that a sanitizer finds reads past their end
  const void *taps[MAX_TAPS];
  float limits[2];
} call;

alignas(32) static float weights[(MAX_CHANNELS + 16) * 26];
static float y[2][MAX_PIXELS * (MAX_CHANNELS + GAP)];

// Channels of 5 x 5 windows whose weights lie together: 8 for FMA3 kernels, 16 for AVX-512.
static size_t packed_of_25 = 8;

static size_t packed_together(size_t side) {
  return side == 3 ? 16 : packed_of_25;
}

// Bias (tap 0) or weight of a tap counted from 1, as XNNPACK packs them.
static float *weight_of(size_t side, size_t tap, size_t channel) {
  const size_t n = packed_together(side), within = channel % n;
  return weights + (channel - within) * (side * side + 1) + tap * n + within;
}

static bool prepare(call *c) {
  for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) weights[i] = NAN;
  for (size_t tap = 0; tap <= c->side * c->side; tap++)
    for (size_t k = 0; k < c->n_channels; k++) fill(weight_of(c->side, tap, k), 1);
  const size_t n_floats = OFFSET + N_ELEMENTS * c->n_channels;
  c->elements = malloc(n_floats * sizeof(float));
  c->zero = malloc(c->n_channels * sizeof(float));
  if (c->elements == NULL || c->zero == NULL) return false;
  fill(c->elements, n_floats);
  fill(c->zero, c->n_channels);
  for (size_t i = 0; i < MAX_TAPS; i++)
    c->taps[i] =
        random_below(5) == 0 ? c->zero : c->elements + random_below(N_ELEMENTS) * c->n_channels;
  const bool is_bounded = random_below(2) == 0;
  c->limits[0] = is_bounded ? -0.5f : -INFINITY;
  c->limits[1] = is_bounded ? 0.75f : INFINITY;
  return true;
}

static void release(call *c) {
  free(c->elements);
  free(c->zero);
}

static void run_kernel(dwconv *kernel, call *c, size_t first_pixel, size_t n_pixels, float *to) {
  kernel(c->n_channels, n_pixels, c->taps + first_pixel * c->step * c->side, weights, to,
         (intptr_t)(c->step * c->side * sizeof *c->taps), GAP * sizeof(float),
         OFFSET * sizeof(float), c->zero, c->limits);
}

static dwconv *tuned_kernel(const call *c) {
  return c->side == 3        ? eti_xnn_f32_dwconv_9__avx2
         : packed_of_25 == 8 ? eti_xnn_f32_dwconv_25__avx2
                             : eti_xnn_f32_dwconv_25p16__avx2;
}

static bool is_close(const call *c, size_t pixel, size_t channel, float found) {
  const size_t n_taps = c->side * c->side;
  double sum = (double)*weight_of(c->side, 0, channel), size = fabs(sum);
  for (size_t i = 0; i < n_taps; i++) {
    const float *const tap = c->taps[pixel * c->step * c->side + i];
    const double x = (double)(tap == c->zero ? tap : tap + OFFSET)[channel];
    sum += x * (double)*weight_of(c->side, 1 + i, channel);
    size += fabs(x * (double)*weight_of(c->side, 1 + i, channel));
  }
  const double bounded = fmax((double)c->limits[0], fmin((double)c->limits[1], sum));
  return fabs((double)found - bounded) <= (double)(n_taps + 1) * (double)FLT_EPSILON * size;
}

static bool is_right(size_t side, size_t step, size_t n_channels, size_t n_pixels) {
  static call c;
  c.side = side;
  c.step = step;
  c.n_channels = n_channels;
  c.n_pixels = n_pixels;
  bool is_fine = prepare(&c);
  const size_t pixel = n_channels + GAP;
  memset(y, 0x77, sizeof y);
  if (is_fine) run_kernel(tuned_kernel(&c), &c, 0, n_pixels, y[0]);
  for (size_t i = 0; is_fine && i < n_pixels; i++) {
    run_kernel(tuned_kernel(&c), &c, i, 1, y[1] + i * pixel);
    for (size_t k = 0; k < n_channels; k++) is_fine &= is_close(&c, i, k, y[0][i * pixel + k]);
  }
  // A result has the same bits alone and among others, and nothing is written between them.
  is_fine = is_fine && memcmp(y[0], y[1], sizeof y[0]) == 0;
  for (size_t b = 0; is_fine && b < GAP * sizeof(float); b++)
    is_fine = ((const char *)(y[0] + n_channels))[b] == 0x77;
  release(&c);
  if (!is_fine)
    printf("  side %zu, step %zu, %zu channels, %zu pixels\n", side, step, n_channels, n_pixels);
  return is_fine;
}

static void sums_are_those_of_double_precision(void) {
  if (!can_run()) return;
  for (size_t n_channels = 1; n_channels <= MAX_CHANNELS; n_channels += n_channels < 18 ? 1 : 11) {
    for (size_t n_pixels = 1; n_pixels <= MAX_PIXELS; n_pixels += n_pixels < 10 ? 1 : 7) {
      EXPECT(is_right(3, 1, n_channels, n_pixels));
      for (packed_of_25 = 16; packed_of_25 >= 8; packed_of_25 -= 8) {
        EXPECT(is_right(5, 1, n_channels, n_pixels));
        EXPECT(is_right(5, 2, n_channels, n_pixels));
      }
      packed_of_25 = 8;
    }
  }
}

static void nan_and_infinity_are_as_in_xnnpacks(void) {
  if (!can_run()) return;
  static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -0.0f};
  for (size_t side = 3; side <= 5; side += 2) {
    static call c;
    c.side = side;
    c.step = 1;
    c.n_channels = 21;
    c.n_pixels = MAX_PIXELS;
    EXPECT(prepare(&c));
    for (size_t i = 0; i < 40; i++)
      c.elements[OFFSET + random_below(N_ELEMENTS * 21)] =
          odd[random_below(sizeof odd / sizeof odd[0])];
    *weight_of(side, 4, 7) = INFINITY;
    run_kernel(side == 3 ? xnn_f32_dwconv_minmax_ukernel_9p16c__fma3
                         : xnn_f32_dwconv_minmax_ukernel_25p8c__fma3,
               &c, 0, c.n_pixels, y[0]);
    run_kernel(tuned_kernel(&c), &c, 0, c.n_pixels, y[1]);
    size_t n_odd = 0;
    for (size_t i = 0; i < c.n_pixels * (c.n_channels + GAP); i++) {
      if (i % (c.n_channels + GAP) >= c.n_channels) continue;
      const float a = y[0][i], b = y[1][i];
      if (!(fabsf(a) < 1e30f)) n_odd++;
      EXPECT(isnan(a) ? isnan(b) : a == b || fabsf(a - b) <= 26.0f * 26.0f * FLT_EPSILON);
    }
    EXPECT(n_odd > 0);
    release(&c);
  }
}

// ---- Operators

static float image[2 * SIDE * SIDE * CHANNELS + XNN_EXTRA_BYTES / sizeof(float)];
static float filter[25 * CHANNELS], bias[CHANNELS];

static bool define_value(xnn_subgraph_t s, size_t rank, const size_t *dims, const float *data,
                         uint32_t external, uint32_t flags, uint32_t *id) {
  return xnn_define_tensor_value(s, xnn_datatype_fp32, rank, dims, data, external, flags, id) ==
         xnn_status_success;
}

// NULL if it cannot be defined.
static xnn_subgraph_t subgraph_of(const window *w) {
  const window_sizes sizes = window_sizes_of(w);
  const uint32_t none = XNN_INVALID_VALUE_ID;
  uint32_t id[4];
  xnn_subgraph_t s = NULL;
  const bool is_fine =
      xnn_create_subgraph(2, 0, &s) == xnn_status_success &&
      define_value(s, 4, sizes.x, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &id[0]) &&
      define_value(s, 4, sizes.weights, filter, none, 0, &id[1]) &&
      define_value(s, 1, sizes.bias, bias, none, 0, &id[2]) &&
      define_value(s, 4, sizes.y, NULL, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &id[3]) &&
      window_define(s, w, -2.0f, 3.0f, id);
  if (is_fine) return s;
  (void)xnn_delete_subgraph(s);
  return NULL;
}

// The rule of dwconv.h.
static bool is_replaced(const window *w) {
  return can_run() && w->kernel[0] == w->kernel[1] && w->dilation == 1 &&
         ((w->kernel[0] == 3 && w->stride == 1) || (w->kernel[0] == 5 && w->stride <= 2));
}

// Thousands of sums in another order: some differ in rounding.
static bool gives_what_it_should(const window *w) {
  static float out[2][MAX_Y];
  memset(out, 0x77, sizeof out);
  xnn_subgraph_t s = subgraph_of(w);
  bool is_fine =
      s != NULL && window_run(s, false, image, out[0]) && window_run(s, true, image, out[1]);
  (void)xnn_delete_subgraph(s);
  for (size_t i = 0; i < MAX_Y; i++)
    is_fine &= out[0][i] == out[1][i] || fabsf(out[0][i] - out[1][i]) < 26.0f * 26.0f * FLT_EPSILON;
  is_fine &= (memcmp(out[0], out[1], sizeof out[0]) != 0) == is_replaced(w);
  if (!is_fine) window_print(w);
  return is_fine;
}

static void operators_run_tuned_kernels_by_the_rule_and_xnnpacks_else(void) {
  EXPECT(xnn_initialize(&eti_xnn_allocator) == xnn_status_success);
  fill(image, sizeof image / sizeof image[0]);
  fill(filter, sizeof filter / sizeof filter[0]);
  fill(bias, CHANNELS);
  static const uint32_t kernels[][2] = {{3, 3}, {5, 5}, {3, 2}, {5, 3}, {1, 9}, {4, 4}};
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
    for (uint32_t k = 0; k < 3 * 2 * 2; k++) {
      const window w = {{kernels[i][0], kernels[i][1]}, 1 + k % 3, 1 + k / 3 % 2, k / 6, false};
      if ((w.kernel[1] - 1) * w.dilation + 1 <= SIDE + 2 * w.padding)
        EXPECT(gives_what_it_should(&w));
    }
  }
}

static const et_test tests[] = {
    ET_CASE(sums_are_those_of_double_precision),
    ET_CASE(nan_and_infinity_are_as_in_xnnpacks),
    ET_CASE(operators_run_tuned_kernels_by_the_rule_and_xnnpacks_else),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
