// test_xnnpack_memory_bound.c — tests that memory-bound operators (memory_bound.h) give the bytes
// of XNNPACK's: three planes to pixels of three, for all lengths; other transpositions; int8
// products with a factor per channel, in either order; int8 sums and differences.
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/alloc_region.h"
#include "et_test.h"

enum { MOST = 3 * 3 * 10000, BEHIND = 64 };

static int8_t x[MOST + XNN_EXTRA_BYTES], factors[64 + XNN_EXTRA_BYTES], y[2][MOST + BEHIND];

static bool begin(void) {
  for (size_t i = 0; i < sizeof x; i++) x[i] = (int8_t)(i * 31 + i / 251);
  for (size_t i = 0; i < sizeof factors; i++) factors[i] = (int8_t)(i * 53 + 1);
  return xnn_initialize(&eti_xnn_allocator) == xnn_status_success;
}

// Defines a value of one of three scales.
static bool define(xnn_subgraph_t s, const size_t *dims, size_t scale, uint32_t external,
                   uint32_t flags, uint32_t *id) {
  const int32_t zero_points[] = {3, -7, 11};
  const float scales[] = {0.5f, 0.25f, 9.0f};
  return xnn_define_quantized_tensor_value(s, xnn_datatype_qint8, zero_points[scale], scales[scale],
                                           3, dims, NULL, external, flags,
                                           id) == xnn_status_success;
}

static bool run(xnn_subgraph_t s, bool is_tuned, size_t n_values,
                const struct xnn_external_value *values) {
  xnn_runtime_t runtime = NULL;
  const bool is_made =
      xnn_create_runtime_v4(s, NULL, NULL, NULL, 0, &runtime) == xnn_status_success &&
      xnn_reshape_runtime(runtime) == xnn_status_success;
  eti_xnn_q8_schedule *schedules = NULL;
  if (is_made && is_tuned) eti_xnn_tuned_after_reshape(runtime, 1, &schedules);
  const bool is_run = is_made &&
                      xnn_setup_runtime_v2(runtime, n_values, values) == xnn_status_success &&
                      xnn_invoke_runtime(runtime) == xnn_status_success;
  (void)xnn_delete_runtime(runtime);
  eti_xnn_tuned_free_schedules(schedules);
  return is_run;
}

// ---- Transpositions

static bool transpose(size_t n_images, size_t n_planes, size_t n_pixels) {
  const size_t x_dims[] = {n_images, n_planes, n_pixels}, y_dims[] = {n_images, n_pixels, n_planes};
  const size_t order[] = {0, 2, 1};
  const struct xnn_external_value values[] = {{0, x}, {1, y[0]}};
  uint32_t from, to;
  xnn_subgraph_t s = NULL;
  const bool is_run = xnn_create_subgraph(2, 0, &s) == xnn_status_success &&
                      define(s, x_dims, 0, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &from) &&
                      define(s, y_dims, 0, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &to) &&
                      xnn_define_static_transpose(s, 3, order, from, to, 0) == xnn_status_success &&
                      run(s, true, 2, values);
  (void)xnn_delete_subgraph(s);
  return is_run;
}

static bool is_transposed(size_t n_images, size_t n_planes, size_t n_pixels) {
  memset(y, 77, sizeof y);
  if (!transpose(n_images, n_planes, n_pixels)) return false;
  const size_t n = n_planes * n_pixels;
  for (size_t i = 0; i < n_images * n; i++) {
    const size_t image = i / n, pixel = i % n / n_planes, plane = i % n_planes;
    if (y[0][i] != x[image * n + plane * n_pixels + pixel]) return false;
  }
  for (size_t i = 0; i < BEHIND; i++)
    if (y[0][n_images * n + i] != 77) return false;
  return true;
}

static void planes_become_pixels(void) {
  EXPECT(begin());
  for (size_t n_planes = 2; n_planes <= 4; n_planes++)
    for (size_t n_pixels = 1; n_pixels <= 70; n_pixels++)
      for (size_t n_images = 1; n_images <= 3; n_images++)
        EXPECT(is_transposed(n_images, n_planes, n_pixels));
  EXPECT(is_transposed(1, 3, 10000));
  EXPECT(is_transposed(2, 3, 8192));
}

// ---- Products

static bool multiply(size_t n_images, size_t n_pixels, size_t n_channels, bool is_swapped,
                     bool is_tuned, int8_t *out) {
  const size_t dims[] = {n_images, n_pixels, n_channels}, f_dims[] = {n_images, 1, n_channels};
  const struct xnn_external_value values[] = {{0, x}, {1, factors}, {2, out}};
  uint32_t id[3];
  xnn_subgraph_t s = NULL;
  const bool is_run = xnn_create_subgraph(3, 0, &s) == xnn_status_success &&
                      define(s, dims, 0, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &id[0]) &&
                      define(s, f_dims, 1, 1, XNN_VALUE_FLAG_EXTERNAL_INPUT, &id[1]) &&
                      define(s, dims, 2, 2, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &id[2]) &&
                      xnn_define_binary(s, xnn_binary_multiply, NULL, id[is_swapped],
                                        id[!is_swapped], id[2], 0) == xnn_status_success &&
                      run(s, is_tuned, 3, values);
  (void)xnn_delete_subgraph(s);
  return is_run;
}

static void products_are_xnnpacks(void) {
  EXPECT(begin());
  for (size_t n_channels = 1; n_channels <= 50; n_channels++) {
    for (size_t i = 0; i < 8; i++) {
      const size_t n_images = n_channels <= 32 ? 1 + i / 2 % 2 : 1, n_pixels = i < 6 ? 1 + i : 500;
      memset(y, 77, sizeof y);
      EXPECT(multiply(n_images, n_pixels, n_channels, i % 2 == 1, false, y[0]));
      EXPECT(multiply(n_images, n_pixels, n_channels, i % 2 == 1, true, y[1]));
      EXPECT(memcmp(y[0], y[1], sizeof y[0]) == 0);
    }
  }
}

// ---- Sums

static float sum_scales[3];

static bool define_term(xnn_subgraph_t s, const size_t *dims, uint32_t external, uint32_t *id) {
  const int32_t zero_points[] = {-128, 77, -5};
  return xnn_define_quantized_tensor_value(
             s, xnn_datatype_qint8, zero_points[external], sum_scales[external], 1, dims, NULL,
             external,
             external < 2 ? XNN_VALUE_FLAG_EXTERNAL_INPUT : XNN_VALUE_FLAG_EXTERNAL_OUTPUT,
             id) == xnn_status_success;
}

static bool add(enum xnn_binary_operator which, size_t n, bool is_tuned, int8_t *out) {
  const struct xnn_external_value values[] = {{0, x}, {1, x + 50}, {2, out}};
  uint32_t id[3];
  xnn_subgraph_t s = NULL;
  const bool is_run =
      xnn_create_subgraph(3, 0, &s) == xnn_status_success && define_term(s, &n, 0, &id[0]) &&
      define_term(s, &n, 1, &id[1]) && define_term(s, &n, 2, &id[2]) &&
      xnn_define_binary(s, which, NULL, id[0], id[1], id[2], 0) == xnn_status_success &&
      run(s, is_tuned, 3, values);
  (void)xnn_delete_subgraph(s);
  return is_run;
}

static void sums_are_xnnpacks(void) {
  static const float scales[][3] = {
      {1.0f, 1.0f, 1.0f}, {0.02f, 0.031f, 0.05f}, {0.5f, 0.0011f, 0.7f}, {200.0f, 1.0f, 1.0f}};
  static const enum xnn_binary_operator operators[] = {xnn_binary_add, xnn_binary_subtract};
  EXPECT(begin());
  for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++) {
    memcpy(sum_scales, scales[k], sizeof sum_scales);
    for (size_t n = 1; n <= 20000; n += n < 200 ? 1 : 6101) {
      const enum xnn_binary_operator which = operators[n % 2];
      memset(y, 77, sizeof y);
      EXPECT(add(which, n, false, y[0]));
      EXPECT(add(which, n, true, y[1]));
      EXPECT(memcmp(y[0], y[1], sizeof y[0]) == 0);
    }
  }
}

static void no_more_names_are_written_than_asked_for(void) {
  EXPECT(begin());
  const char *names[2] = {NULL, NULL};
  const size_t n = eti_xnn_tuned_names(names, 1);
  EXPECT((names[0] != NULL) == (n > 0) && names[1] == NULL);
}

static const et_test tests[] = {ET_CASE(planes_become_pixels), ET_CASE(products_are_xnnpacks),
                                ET_CASE(sums_are_xnnpacks),
                                ET_CASE(no_more_names_are_written_than_asked_for)};
ET_TEST_MAIN(tests)
