// test_conv_micro.c — compares every variant of the depthwise micro-kernels with its scalar
// variant, and planes with their definition, by equality of bits: all row lengths, taps, strides
// and paddings.
#include "et_test.h"

#include "kernels/micro/conv/direct_conv.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"

#include <math.h>

static bool same_row(const eti_direct_conv_micro *fast, size_t n, size_t n_taps) {
  const float *taps[25];
  float *const w = random_elements(ET_F32, n_taps * n), *const bias = random_elements(ET_F32, n);
  float *const got = malloc(n * sizeof(float)), *const expected = malloc(n * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n);
  const eti_clamp_range range = some_range(n);
  fast->row(got, n, taps, w, n_taps, 0.25f, &range);
  eti_direct_conv_scalar.row(expected, n, taps, w, n_taps, 0.25f, &range);
  bool same = memcmp(got, expected, n * sizeof(float)) == 0;
  fast->pixels(got, 0, 1, n, taps, 0, w, n, n_taps, n % 2 == 0 ? bias : NULL, &range);
  eti_direct_conv_scalar.pixels(expected, 0, 1, n, taps, 0, w, n, n_taps, n % 2 == 0 ? bias : NULL,
                                &range);
  same = same && memcmp(got, expected, n * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

// Rows of several channels equal rows one by one, and nothing between them is touched.
static bool same_rows(const eti_direct_conv_micro *fast, size_t n, size_t n_taps) {
  const float *taps[25];
  const size_t out_step = n + 1, size = (ETI_DIRECT_CONV_ROWS - 1) * out_step + n;
  float *const w = random_elements(ET_F32, n_taps * ETI_DIRECT_CONV_ROWS + 1),
               *const bias = random_elements(ET_F32, ETI_DIRECT_CONV_ROWS);
  float *const got = random_elements(ET_F32, size);
  float *const expected = copy_of(got, size * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n);
  const eti_clamp_range range = some_range(n);
  fast->rows(got, out_step, n, taps, w, n_taps, bias, &range);
  for (size_t r = 0; r < ETI_DIRECT_CONV_ROWS; r++) {
    float one[25];
    for (size_t t = 0; t < n_taps; t++) one[t] = w[t * ETI_DIRECT_CONV_ROWS + r];
    eti_direct_conv_scalar.row(expected + r * out_step, n, taps, one, n_taps, bias[r], &range);
  }
  const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

static void depthwise_rows_equal_the_scalar_ones(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_direct_conv_micro *const fast = eti_direct_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 140; n++) {
      EXPECT(same_row(fast, n, n % 26));
      EXPECT(same_rows(fast, n, n % 26));
    }
  }
}

// Pixels side by side equal pixels computed one by one, and nothing between them is touched.
static bool same_pixels(const eti_direct_conv_micro *fast, size_t n_pixels, size_t n,
                        size_t n_taps) {
  const size_t tap_step = n + 1, out_step = n + 2, size = n_pixels * out_step;
  const float *taps[25];
  float *const w = random_elements(ET_F32, n_taps * n), *const bias = random_elements(ET_F32, n);
  float *const got = random_elements(ET_F32, size);
  float *const expected = copy_of(got, size * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n_pixels * tap_step - 1);
  const eti_clamp_range range = some_range(n + n_pixels);
  fast->pixels(got, (ptrdiff_t)out_step, n_pixels, n, taps, (ptrdiff_t)tap_step, w, n, n_taps, bias,
               &range);
  for (size_t i = 0; i < n_pixels; i++) {
    const float *here[25];
    for (size_t t = 0; t < n_taps; t++) here[t] = taps[t] + i * tap_step;
    eti_direct_conv_scalar.pixels(expected + i * out_step, 0, 1, n, here, 0, w, n, n_taps, bias,
                                  &range);
  }
  const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

static void depthwise_pixels_side_by_side_equal_single_ones(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_direct_conv_micro *const fast = eti_direct_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 40; n++) {
      for (size_t n_pixels = 1; n_pixels <= 10; n_pixels++)
        EXPECT(same_pixels(fast, n_pixels, n, (n + n_pixels) % 26));
    }
  }
}

// Output (y, i) of a plane as micro/conv.h defines it.
static float plane_at(const eti_direct_conv_plane *p, ptrdiff_t kernel, ptrdiff_t stride, size_t y,
                      size_t i) {
  float sum = p->bias;
  for (ptrdiff_t k = 0; k < kernel * kernel; k++) {
    const ptrdiff_t row = (ptrdiff_t)y * stride + k / kernel - p->top,
                    col = (ptrdiff_t)i * stride + k % kernel - p->left;
    const bool inside = row >= 0 && row < p->height && col >= 0 && col < p->width;
    sum = fmaf(p->w[k], inside ? p->x[row * p->x_step + col] : 0.0f, sum);
  }
  return eti_clamp(sum, p->range.low, p->range.high, p->range.plus);
}

static bool right_plane(const eti_direct_conv_micro *micro, ptrdiff_t kernel, ptrdiff_t stride,
                        ptrdiff_t width, ptrdiff_t padding) {
  const ptrdiff_t cols = (width + 2 * padding - kernel) / stride + 1, height = 5 + width % 7;
  const ptrdiff_t rows = (height + 2 * padding - kernel) / stride + 1;
  if (width + 2 * padding < kernel || rows < ETI_DIRECT_CONV_PLANE_ROWS) return true;
  const size_t size = (size_t)((rows - 1) * (cols + 2) + cols);
  float *const x = random_elements(ET_F32, (size_t)((height - 1) * (width + 1) + width)),
               *const w = random_elements(ET_F32, (size_t)(kernel * kernel)),
               *const out = random_elements(ET_F32, size),
               *const before = copy_of(out, size * sizeof(float));
  const eti_direct_conv_plane p = {.out = out,
                                   .x = x,
                                   .out_step = cols + 2,
                                   .x_step = width + 1,
                                   .rows = (size_t)rows,
                                   .cols = (size_t)cols,
                                   .height = height,
                                   .width = width,
                                   .top = padding,
                                   .left = padding,
                                   .w = w,
                                   .bias = 0.25f,
                                   .range = some_range((size_t)(rows + cols))};
  micro->planes[kernel == 5][stride == 2](&p);
  bool right = true;
  for (size_t at = 0; at < size; at++) {
    const size_t y = at / (size_t)(cols + 2), i = at % (size_t)(cols + 2);
    const float expected =
        i < (size_t)cols ? plane_at(&p, kernel, stride, y, i) : before[at];  // gaps stay
    right = right && memcmp(&out[at], &expected, sizeof expected) == 0;
  }
  free(x), free(w), free(out), free(before);
  return right;
}

static void depthwise_planes_equal_their_definition(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_direct_conv_micro *const micro = eti_direct_conv_micro_of_isa(isa);
    for (ptrdiff_t width = 1; micro != NULL && width <= 70; width++) {
      for (ptrdiff_t padding = 0; padding <= 3; padding++) {
        for (int which = 0; which < 4; which++)
          EXPECT(right_plane(micro, 3 + which / 2 * 2, 1 + which % 2, width, padding));
      }
    }
  }
}

static void rows_are_copied_with_any_step(void) {
  for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
    const eti_direct_conv_micro *const fast = eti_direct_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 70; n++) {
      for (size_t step = 1; step <= 3; step++) {
        const size_t row = (n - 1) * step + 1, dst_step = n + 1, size = dst_step + n;
        float *const src = random_elements(ET_F32, 2 * row);
        float *const got = random_elements(ET_F32, size), *const expected =
                                                              copy_of(got, size * sizeof(float));
        fast->copy_rows(got, dst_step, src, (ptrdiff_t)row, step, 2, n);
        eti_direct_conv_scalar.copy_rows(expected, dst_step, src, (ptrdiff_t)row, step, 2, n);
        const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
        free(src), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

static const et_test tests[] = {
    ET_CASE(depthwise_rows_equal_the_scalar_ones),
    ET_CASE(depthwise_pixels_side_by_side_equal_single_ones),
    ET_CASE(depthwise_planes_equal_their_definition),
    ET_CASE(rows_are_copied_with_any_step),
};
ET_TEST_MAIN(tests)
