// test_winograd_micro.c — compares every variant of the Winograd transforms with its scalar
// variant, by equality of bits, and the transforms together with the sum that they stand for.
#include "et_test.h"

#include "kernels/micro/conv/winograd.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"

#include <math.h>

static bool same_inputs(const eti_winograd_micro *fast, size_t pairs, size_t n) {
  const size_t side = 2 * pairs + 2, n_points = side * side, step = n + 3;
  float *const x = random_elements(ET_F32, n_points * n);
  float *const got = random_elements(ET_F32, n_points * step);
  float *const expected = copy_of(got, n_points * step * sizeof(float));
  const float *pixels[ETI_WINOGRAD_POINTS];
  for (size_t i = 0; i < n_points; i++) pixels[i] = x + i * n;
  fast->input[pairs - 1](got, step, pixels, n);
  eti_winograd_scalar.input[pairs - 1](expected, step, pixels, n);
  const bool same = memcmp(got, expected, n_points * step * sizeof(float)) == 0;
  free(x), free(got), free(expected);
  return same;
}

// Rows and columns outside the image, and elements between pixels, are not touched.
static bool same_outputs(const eti_winograd_micro *fast, size_t pairs, size_t n, size_t rows,
                         size_t cols) {
  const size_t side = 2 * pairs + 2, step = n + 1, col_step = n + 2, row_step = 7 * col_step;
  const size_t size = 2 * pairs * row_step;
  float *const sums = random_elements(ET_F32, side * side * step);
  float *const bias = random_elements(ET_F32, n), *const got = random_elements(ET_F32, size);
  float *const expected = copy_of(got, size * sizeof(float));
  eti_winograd_out out = {.data = got,
                          .row_step = (ptrdiff_t)row_step,
                          .col_step = (ptrdiff_t)col_step,
                          .rows = rows,
                          .cols = cols,
                          .bias = n % 3 == 0 ? NULL : bias,
                          .range = some_range(n + rows)};
  fast->output[pairs - 1](&out, sums, step, n);
  out.data = expected;
  eti_winograd_scalar.output[pairs - 1](&out, sums, step, n);
  const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
  free(sums), free(bias), free(got), free(expected);
  return same;
}

static void transforms_equal_the_scalar_ones(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_winograd_micro *const fast = eti_winograd_micro_of_isa(isa);
    for (size_t pairs = 1; fast != NULL && pairs <= ETI_WINOGRAD_PAIRS; pairs++) {
      for (size_t n = 1; n <= 35; n++) {
        EXPECT(same_inputs(fast, pairs, n));
        for (size_t rows = 1; rows <= 2 * pairs; rows++)
          EXPECT(same_outputs(fast, pairs, n, rows, (rows + n) % (2 * pairs) + 1));
      }
    }
  }
}

// A tile of one channel by its transforms, beside nine products for each output.
static void a_tile_is_a_convolution(void) {
  for (size_t pairs = 1; pairs <= ETI_WINOGRAD_PAIRS; pairs++) {
    const size_t side = 2 * pairs + 2, n_points = side * side, m = 2 * pairs;
    float *const x = random_elements(ET_F32, n_points), *const w = random_elements(ET_F32, 9);
    double taps[9][ETI_WINOGRAD_LANES] = {{0}};
    float weights[ETI_WINOGRAD_POINTS][ETI_WINOGRAD_LANES];
    float points[ETI_WINOGRAD_POINTS], y[4 * ETI_WINOGRAD_PAIRS * ETI_WINOGRAD_PAIRS];
    const float *pixels[ETI_WINOGRAD_POINTS];
    for (size_t t = 0; t < 9; t++) taps[t][1] = (double)w[t];
    for (size_t i = 0; i < n_points; i++) pixels[i] = x + i;
    eti_winograd_weights(pairs, (const double (*)[ETI_WINOGRAD_LANES])taps, weights);
    eti_winograd_micro_best()->input[pairs - 1](points, 1, pixels, 1);
    for (size_t i = 0; i < n_points; i++) points[i] *= weights[i][1];
    const eti_winograd_out out = {.data = y,
                                  .row_step = (ptrdiff_t)m,
                                  .col_step = 1,
                                  .rows = m,
                                  .cols = m,
                                  .range = ETI_CLAMP_NONE};
    eti_winograd_micro_best()->output[pairs - 1](&out, points, 1, 1);
    for (size_t i = 0; i < m * m; i++) {
      double sum = 0.0, size = 0.0;
      for (size_t t = 0; t < 9; t++) {
        const double term = taps[t][1] * (double)x[(i / m + t / 3) * side + i % m + t % 3];
        sum += term;
        size += fabs(term);
      }
      EXPECT(fabs((double)y[i] - sum) <= 1e-4 * (size + 1.0));
    }
    free(x), free(w);
  }
}

static const et_test tests[] = {
    ET_CASE(transforms_equal_the_scalar_ones),
    ET_CASE(a_tile_is_a_convolution),
};
ET_TEST_MAIN(tests)
