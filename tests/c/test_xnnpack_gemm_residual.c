// test_xnnpack_gemm_residual.c — tests the fusion of a product and a residual sum: they run as one
// node if the machine has the tuned kernels and the payload allows it, and give the bits of two
// nodes, also for changing sizes and broadcast residuals. Other products and sums are not fused.
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_joined_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_joined_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/tuned/tuned.h"
#include "xnn_subject.h"
#include "xnn_writer.h"

enum { ROWS = 13, K = 9, N = 37, SIDE = 5, TAPS = 9, MAX_Y = 2 * SIDE * SIDE * N };
enum { X, RESIDUAL, WEIGHT, BIAS, PRODUCT, Y, EARLIER, N_VALUES };
enum { FULLY_CONNECTED = 2, ADD = 1, CONV = 7, NONE = 0xffffffff };

static float weight[TAPS * K * N], bias[N];

#define MATRIX(rows, cols) .datatype = 1, .rank = 2, .dims = {rows, cols}
#define IMAGE(channels) .datatype = 1, .rank = 4, .dims = {2, SIDE, SIDE, channels}

static float number(size_t i, size_t salt) {
  return (float)((i * 2654435761u + salt * 40503u) >> 7 & 0xffff) / 32768.0f - 1.0f;
}

static void fill(void) {
  for (size_t i = 0; i < sizeof weight / sizeof weight[0]; i++) weight[i] = number(i, 1);
  for (size_t i = 0; i < N; i++) bias[i] = number(i, 2);
}

// y = min(max(x weight + bias + residual, -1), 1.5), x of 13 rows.
static x_graph linear_graph(void) {
  fill();
  return (x_graph){
      .values = {[X] = {MATRIX(ROWS, K), .flags = 1},
                 [RESIDUAL] = {MATRIX(ROWS, N), .flags = 1, .external = 1},
                 [WEIGHT] = {MATRIX(N, K), .constant = 1},
                 [BIAS] = {.datatype = 1, .rank = 1, .dims = {N}, .constant = 2},
                 [PRODUCT] = {MATRIX(ROWS, N)},
                 [Y] = {MATRIX(ROWS, N), .flags = 2, .external = 2}},
      .nodes = {{.code = FULLY_CONNECTED, .n_slots = 5, .slots = {X, WEIGHT, BIAS, PRODUCT}},
                {.code = ADD,
                 .n_slots = 4,
                 .slots = {PRODUCT, RESIDUAL, Y},
                 .has_bounds = true,
                 .min = -1.0f,
                 .max = 1.5f}},
      .constants = {{.key = ""},
                    {.data = weight, .size = N * K * sizeof(float)},
                    {.data = bias, .size = sizeof bias}},
      .n_values = Y + 1,
      .n_nodes = 2,
      .n_constants = 3,
      .n_externs = 3,
  };
}

// A convolution with a window of 3x3 over two images.
static x_graph conv_graph(void) {
  x_graph g = linear_graph();
  g.values[X] = (x_value){IMAGE(K), .flags = 1};
  g.values[RESIDUAL] = (x_value){IMAGE(N), .flags = 1, .external = 1};
  g.values[WEIGHT] = (x_value){.datatype = 1, .rank = 4, .dims = {N, 3, 3, K}, .constant = 1};
  g.values[PRODUCT] = (x_value){IMAGE(N)};
  g.values[Y] = (x_value){IMAGE(N), .flags = 2, .external = 2};
  g.nodes[0] =
      (x_node){.code = CONV, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1,      1,    1,       1,
                                                      K, N, 1, 0, 0, X, WEIGHT, BIAS, PRODUCT, 0}};
  g.constants[1].size = sizeof weight;
  return g;
}

// ---- Runs

typedef struct outcome {
  bool is_fine;
  size_t n_sums;  // nodes other than products
  float y[MAX_Y];
} outcome;

static et_status count_sums(void *ctx, const et_event *event) {
  size_t *const n = ctx;
  *n += strstr(event->operator_name, "Elementwise") != NULL;
  return ET_OK;
}

static bool resize(subject *s, size_t k, size_t rank, const int32_t *sizes) {
  et_tensor *const t = &s->tensors[k].t;
  if (et_tensor_resize(t, sizes, rank, &s->r.err) != ET_OK) return false;
  for (size_t i = 0; i < et_tensor_bytes(t) / sizeof(float); i++)
    ((float *)t->data)[i] = number(i, 3 + k);
  return true;
}

// Runs calls for x of sizes[0] and a residual of sizes[1]; `out`: the outcome of the last.
static void run(const x_graph *g, size_t n_calls, const int32_t (*sizes)[2][4], outcome *out) {
  static const et_xnnpack_options alone = {.workspace = NULL};
  subject s;
  writer payload = x_write(g);
  *out = (outcome){.is_fine = subject_begin(&s, rig_take(payload.bytes, payload.size), &alone)};
  for (size_t i = 0; i < n_calls && out->is_fine; i++) {
    const et_hooks hooks = {&out->n_sums, count_sums};
    const et_delegate_call call = {
        .err = &s.r.err, .n_args = s.n_args, .args = s.args, .hooks = &hooks};
    const size_t rank = g->values[X].rank;
    out->n_sums = 0;
    out->is_fine = resize(&s, 0, rank, sizes[i][0]) && resize(&s, 1, rank, sizes[i][1]) &&
                   eti_xnn_execute(&s.delegate, &call) == ET_OK;
    memcpy(out->y, s.tensors[2].t.data, et_tensor_bytes(&s.tensors[2].t));
  }
  if (!out->is_fine) printf("  %s\n", s.r.err.message);
  subject_end(&s);
}

// The same graph with a product that is an output too, and so is not fused.
static x_graph apart(x_graph g) {
  g.values[PRODUCT].flags = 2;
  g.values[PRODUCT].external = 3;
  g.n_externs = 4;
  return g;
}

static bool fuses(const x_graph *g, size_t n_calls, const int32_t (*sizes)[2][4],
                  size_t n_left_if_tuned) {
  static outcome fused, two;
  const x_graph other = apart(*g);
  run(g, n_calls, sizes, &fused);
  run(&other, n_calls, sizes, &two);
  const size_t n_left = eti_xnn_has_gemm_residual(N) ? n_left_if_tuned : 2;  // a sum and its bounds
  return fused.is_fine && two.is_fine && two.n_sums == 2 && fused.n_sums == n_left &&
         memcmp(fused.y, two.y, sizeof two.y) == 0;
}

static void a_product_adds_a_residual_with_the_same_bits(void) {
  static const int32_t sizes[][2][4] = {{{ROWS, K}, {ROWS, N}}, {{1, K}, {1, N}}, {{7, K}, {7, N}}};
  x_graph g = linear_graph();
  for (size_t n = 1; n <= 3; n++) EXPECT(fuses(&g, n, sizes, 0));
  g.nodes[1].slots[0] = RESIDUAL;
  g.nodes[1].slots[1] = PRODUCT;
  EXPECT(fuses(&g, 3, sizes, 0));
}

static void a_convolution_does_for_images_down_to_a_pixel(void) {
  static const int32_t sizes[][2][4] = {{{2, SIDE, SIDE, K}, {2, SIDE, SIDE, N}},
                                        {{1, 1, 1, K}, {1, 1, 1, N}},
                                        {{1, 1, 2, K}, {1, 1, 2, N}},
                                        {{2, 3, 4, K}, {2, 3, 4, N}}};
  const x_graph g = conv_graph();
  for (size_t n = 1; n <= 4; n++) EXPECT(fuses(&g, n, sizes, 0));
}

static void a_residual_that_is_broadcast_is_added_apart(void) {
  static const int32_t sizes[][2][4] = {{{7, K}, {7, N}}, {{7, K}, {1, N}}, {{1, K}, {7, N}}};
  const x_graph g = linear_graph();
  EXPECT(fuses(&g, 1, sizes, 0));
  EXPECT(fuses(&g, 2, sizes, 2));
  EXPECT(fuses(&g, 3, sizes, 2));
  EXPECT(fuses(&g, 1, sizes + 1, 2));
}

// XNNPACK would place the sum in the product's memory, which it reads again for each row.
static void a_product_that_is_broadcast_later_is_not_overwritten(void) {
  static const int32_t sizes[][2][4] = {{{7, K}, {7, N}}, {{1, K}, {7, N}}};
  x_graph g = linear_graph();
  g.nodes[0].slots[2] = NONE;
  EXPECT(fuses(&g, 2, sizes, 2));
}

static const int32_t whole[][2][4] = {{{ROWS, K}, {ROWS, N}}};

static void a_product_with_bounds_is_left_alone(void) {
  x_graph g = linear_graph();
  g.nodes[0].has_bounds = true;
  g.nodes[0].min = -0.5f;
  g.nodes[0].max = 0.5f;
  EXPECT(fuses(&g, 1, whole, 2));
}

static void a_product_without_a_bias_is_left_alone(void) {
  x_graph g = linear_graph();
  g.nodes[0].slots[2] = NONE;
  EXPECT(fuses(&g, 1, whole, 2));
}

// XNNPACK's kernel for them has another layout of weights.
static void a_product_of_few_columns_is_left_alone(void) {
  x_graph g = linear_graph();
  static const unsigned wide[] = {RESIDUAL, PRODUCT, Y};
  for (size_t i = 0; i < 3; i++) g.values[wide[i]].dims[1] = 15;
  g.values[WEIGHT].dims[0] = g.values[BIAS].dims[0] = 15;
  g.constants[1].size = 15 * K * sizeof(float);
  g.constants[2].size = 15 * sizeof(float);
  static const int32_t sizes[][2][4] = {{{ROWS, K}, {ROWS, 15}}};
  EXPECT(fuses(&g, 1, sizes, 2));
}

static void the_later_of_two_products_adds_the_earlier(void) {
  x_graph g = linear_graph();
  g.values[EARLIER] = (x_value){MATRIX(ROWS, N)};
  g.nodes[2] = g.nodes[1];
  g.nodes[2].slots[1] = EARLIER;
  g.nodes[1] = g.nodes[0];  // the product that is defined last
  g.nodes[0].slots[3] = EARLIER;
  g.n_values = N_VALUES;
  g.n_nodes = 3;
  EXPECT(fuses(&g, 1, whole, 0));
}

static const et_test tests[] = {
    ET_CASE(a_product_adds_a_residual_with_the_same_bits),
    ET_CASE(a_convolution_does_for_images_down_to_a_pixel),
    ET_CASE(a_residual_that_is_broadcast_is_added_apart),
    ET_CASE(a_product_that_is_broadcast_later_is_not_overwritten),
    ET_CASE(a_product_with_bounds_is_left_alone),
    ET_CASE(a_product_without_a_bias_is_left_alone),
    ET_CASE(a_product_of_few_columns_is_left_alone),
    ET_CASE(the_later_of_two_products_adds_the_earlier),
};
ET_TEST_MAIN(tests)

#endif
