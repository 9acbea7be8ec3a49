// test_cache_rows.c — compares every variant of the loops of cache_rows.h with their contract by
// equality of bits: all lengths up to several vectors, zeros, infinities, NaN and subnormal rows.
#include "et_test.h"

#include "kernels/micro/attention/cache_rows.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"

#include <math.h>

enum { MOST = 70 };

static void rotations_are_as_specified(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_cache_rows_micro *const micro = eti_cache_rows_of_isa(isa);
    for (size_t half = 0; micro != NULL && half <= MOST; half++) {
      float *const x = random_elements(ET_F32, 2 * half), *const y =
                                                              random_elements(ET_F32, 2 * half);
      float *const cos = random_elements(ET_F32, 2 * half), *const sin =
                                                                random_elements(ET_F32, 2 * half);
      micro->rotate(y, x, cos, sin, half);
      bool same = true;
      for (size_t i = 0; i < half; i++) {
        const float a = x[i] * cos[i], b = x[i + half] * sin[i];
        const float c = x[i + half] * cos[i + half], d = x[i] * sin[i + half];
        same &= y[i] == a - b && y[i + half] == c + d;
      }
      free(x), free(y), free(cos), free(sin);
      EXPECT(same);
    }
  }
}

// The codes of a row and its scale, one element after the other.
static float specify_codes(int8_t *codes, const float *x, size_t n) {
  float most = 0.0f;
  bool is_finite = true;
  for (size_t i = 0; i < n; i++) {
    is_finite &= isfinite(x[i]) != 0;
    if (fabsf(x[i]) > most) most = fabsf(x[i]);
  }
  const float scale = most / 127.0f;
  for (size_t i = 0; i < n; i++) {
    const float code = is_finite && scale > 0.0f ? nearbyintf(x[i] / scale) : 0.0f;
    codes[i] = (int8_t)(code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code);
  }
  return is_finite ? scale : NAN;
}

static void codes_are_as_specified(void) {
  const float special[] = {0.0f, -0.0f,     INFINITY,     -INFINITY,
                           NAN,  0x1p-140f, -0x1.8p-133f, 0x1p127f};
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_cache_rows_micro *const micro = eti_cache_rows_of_isa(isa);
    for (size_t n = 0; micro != NULL && n <= MOST; n++) {
      for (size_t s = 0; s <= 2 * 8; s++) {
        float *const x = random_elements(ET_F32, n);
        for (size_t i = 0; i < n && s > 0; i += s < 8 ? 5 : 1) x[i] = special[(s + i / 5) % 8];
        int8_t got[MOST], expected[MOST];
        const float scale = micro->quantize(got, x, n), wanted = specify_codes(expected, x, n);
        const bool same = memcmp(got, expected, n) == 0;
        free(x);
        EXPECT(same && (scale == wanted || (isnan(scale) && isnan(wanted))));
      }
    }
  }
}

// Element i of a run is the sum of the elements that are a multiple of 16 away, with the signs of
// Hadamard's matrix: minus where their numbers have an odd number of common bits.
static void runs_are_mixed_by_hadamards_matrix(void) {
  enum { RUN = 128, N = 2 * RUN };
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_cache_rows_micro *const micro = eti_cache_rows_of_isa(isa);
    for (size_t run = 16; micro != NULL && run <= RUN; run *= 2) {
      float x[N], before[N];
      for (size_t i = 0; i < N; i++)
        x[i] = before[i] = (float)(next_random() % 1000);  // exact sums
      micro->mix(x, N, run);
      for (size_t i = 0; i < N; i++) {
        float sum = 0.0f;
        for (size_t k = 0; k < run / 16; k++) {
          const unsigned common = (unsigned)(i % run / 16 & k);
          const float value = before[i / run * run + k * 16 + i % 16];
          sum += __builtin_popcount(common) % 2 == 0 ? value : -value;
        }
        EXPECT(x[i] == sum);
      }
    }
  }
}

static void sums_are_weighted_in_place(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_cache_rows_micro *const micro = eti_cache_rows_of_isa(isa);
    for (size_t n = 0; micro != NULL && n <= MOST; n++) {
      float *const x = random_elements(ET_F32, n), *const y = random_elements(ET_F32, n);
      float *const before = copy_of(y, n * sizeof *y);
      micro->merge(y, 0.3f, x, -1.7f, n);
      bool same = true;
      for (size_t i = 0; i < n; i++) {
        const float a = before[i] * 0.3f, b = x[i] * -1.7f;
        same &= y[i] == a + b;
      }
      free(x), free(y), free(before);
      EXPECT(same);
    }
  }
}

static void nan_is_found_at_every_place(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_cache_rows_micro *const micro = eti_cache_rows_of_isa(isa);
    for (size_t n = 0; micro != NULL && n <= MOST; n++) {
      float x[MOST] = {INFINITY};
      EXPECT(!micro->has_nan(x, n));
      for (size_t i = 0; i < n; i++) {
        x[i] = NAN;
        EXPECT(micro->has_nan(x, n));
        x[i] = 0.0f;
      }
    }
  }
}

static const et_test tests[] = {
    ET_CASE(rotations_are_as_specified),         ET_CASE(codes_are_as_specified),
    ET_CASE(runs_are_mixed_by_hadamards_matrix), ET_CASE(sums_are_weighted_in_place),
    ET_CASE(nan_is_found_at_every_place),
};
ET_TEST_MAIN(tests)
