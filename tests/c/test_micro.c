// test_micro.c — compares every variant of the micro-kernels of norms, pools and quantization with
// its scalar variant, by equality of bits, tails included. Products are in test_gemm.c,
// convolutions in test_conv_micro.c.
#include "et_test.h"

#include "kernels/micro/rows/row_norm.h"
#include "kernels/micro/pool/row_pool.h"
#include "kernels/micro/quantized/quant.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"

#include <math.h>

static void normalisation_equals_the_scalar_one(void) {
  for (int type = 0; type < ETI_ROW_NORM_TYPES; type++) {
    const eti_row_norm_micro *const slow = &eti_row_norm_scalar[type];
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_row_norm_micro *const fast = eti_row_norm_micro_of_isa(type, isa);
      for (size_t n = 1; fast != NULL && n <= 70; n++) {
        const size_t bytes = n * slow->esize;
        void *const x = random_elements(slow->dtype, n), *const w = random_elements(slow->dtype, n);
        void *const b = random_elements(slow->dtype, n), *const got = malloc(bytes),
                    *const expected = malloc(bytes);
        const double sums[2] = {fast->sum(NULL, x, n), slow->sum(NULL, x, n)};
        const double squares[2] = {fast->squares(NULL, x, 0.1, n), slow->squares(NULL, x, 0.1, n)};
        bool same = memcmp(&sums[0], &sums[1], 8) == 0 && memcmp(&squares[0], &squares[1], 8) == 0;
        for (int which = 0; which < 4; which++) {
          fast->normalize(got, x, 0.1, 1.3, which & 1 ? w : NULL, which & 2 ? b : NULL, n);
          slow->normalize(expected, x, 0.1, 1.3, which & 1 ? w : NULL, which & 2 ? b : NULL, n);
          same = same && memcmp(got, expected, bytes) == 0;
        }
        fast->affine(got, x, 0.1, 1.3, 0.7, n), slow->affine(expected, x, 0.1, 1.3, 0.7, n);
        same = same && memcmp(got, expected, bytes) == 0;
        fast->affine_each(got, x, w, b, w, n), slow->affine_each(expected, x, w, b, w, n);
        same = same && memcmp(got, expected, bytes) == 0;
        free(x), free(w), free(b), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

static void pooling_taps_equal_the_scalar_ones(void) {
  for (int type = 0; type < ETI_ROW_POOL_TYPES; type++) {
    const eti_row_pool_micro *const slow = &eti_row_pool_scalar[type];
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_row_pool_micro *const fast = eti_row_pool_micro_of_isa(type, isa);
      for (size_t n = 1; fast != NULL && n <= 50; n++) {
        const size_t step = 1 + n % 3, bytes = n * slow->esize;
        int32_t at[2][50] = {{0}};
        void *const x = random_elements(slow->dtype, (n - 1) * step + 1);
        void *const got = random_elements(slow->dtype, n), *const expected = copy_of(got, bytes);
        fast->max(got, at[0], x, step, 7, n), slow->max(expected, at[1], x, step, 7, n);
        bool same = memcmp(got, expected, bytes) == 0 && memcmp(at[0], at[1], sizeof at[0]) == 0;
        fast->add(got, x, step, n), slow->add(expected, x, step, n);
        same = same && memcmp(got, expected, bytes) == 0;
        free(x), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

static void pooling_windows_equal_their_scalar_taps(void) {
  enum { TAPS = 5, MOST = 50 };
  for (int type = 0; type < ETI_ROW_POOL_TYPES; type++) {
    const eti_row_pool_micro *const slow = &eti_row_pool_scalar[type];
    for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
      const eti_row_pool_micro *const fast = eti_row_pool_micro_of_isa(type, isa);
      for (size_t n = 1; fast != NULL && n <= MOST; n++) {
        const size_t bytes = n * slow->esize;
        const ptrdiff_t offset[TAPS] = {(ptrdiff_t)n, 0, 3, (ptrdiff_t)n + 5, 2};
        const int32_t first[TAPS] = {7, 90, 3, INT32_MAX - MOST, 0};
        int32_t at[2][MOST] = {{0}};
        char *const x = random_elements(slow->dtype, 2 * n + 5);
        void *const got = random_elements(slow->dtype, n), *const expected = copy_of(got, bytes);
        bool same = true;
        for (size_t which = 0; which < 2; which++) {
          if (which == 0) fast->max_window(got, at[0], x, offset, first, TAPS, n);
          if (which == 1) fast->add_window(got, x, offset, TAPS, n);
          for (size_t t = 0; t < TAPS; t++) {
            const char *const tap = x + offset[t] * slow->esize;
            if (which == 0) slow->max(expected, at[1], tap, 1, first[t], n);
            if (which == 1) slow->add(expected, tap, 1, n);
          }
          same = same && memcmp(got, expected, bytes) == 0;
        }
        EXPECT(same && memcmp(at[0], at[1], sizeof at[0]) == 0);
        free(x), free(got), free(expected);
      }
    }
  }
}

static void quantization_equals_the_scalar_one(void) {
  static const uint8_t dtypes[] = {ET_U8, ET_I8, ET_I16, ET_U16};
  for (size_t type = 0; type < sizeof dtypes; type++) {
    const eti_quant_micro *const slow = eti_quant_micro_of_isa(dtypes[type], ETI_ISA_SCALAR);
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_quant_micro *const fast = eti_quant_micro_of_isa(dtypes[type], isa);
      for (size_t n = 1; fast != NULL && n <= 70; n++) {
        float x[70], each[70], y[2][70];
        int16_t q[2][70] = {{0}};
        for (size_t i = 0; i < n; i++) {
          x[i] = (float)((int)(i * 37 % 101) - 50) * 0.5f;  // every other one is a half
          each[i] = (float)i * 0.25f - 3.0f;
        }
        x[n / 2] = n % 3 == 0 ? NAN : n % 3 == 1 ? INFINITY : -0x1.9p40f;
        const eti_quant_row r = {
            .low = 0, .high = 100, .inverse = each, .scale = each, .zero = each};
        bool same = true;
        for (int which = 0; which < 3; which++) {
          for (int k = 0; k < 2; k++) {
            const eti_quant_micro *const m = k == 0 ? fast : slow;
            if (which == 0) m->quantize(q[k], x, &r, n), m->dequantize(y[k], q[k], &r, n);
            if (which == 1) m->quantize_each(q[k], x, &r, n), m->dequantize_each(y[k], q[k], &r, n);
            if (which == 2)
              m->quantize_token(q[k], x, 0.7, 3.0, &r, n),
                  m->dequantize_token(y[k], q[k], 0.1, 3.0, n);
          }
          same = same && memcmp(q[0], q[1], sizeof q[0]) == 0 &&
                 memcmp(y[0], y[1], n * sizeof(float)) == 0;
        }
        EXPECT(same);
      }
    }
  }
}

static const et_test tests[] = {
    ET_CASE(normalisation_equals_the_scalar_one),
    ET_CASE(pooling_taps_equal_the_scalar_ones),
    ET_CASE(pooling_windows_equal_their_scalar_taps),
    ET_CASE(quantization_equals_the_scalar_one),
};
ET_TEST_MAIN(tests)
