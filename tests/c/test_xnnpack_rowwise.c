// test_xnnpack_rowwise.c — tests layer norms in payloads, which have no node for them. Complete
// ones run as one node if the machine has it; others run as separate nodes. The results are right
// either way.
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_normalized_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_normalized_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include <math.h>

#include "backends/xnnpack/tuned/tuned.h"
#include "xnn_subject.h"
#include "xnn_writer.h"

enum { ROWS = 7, N = 21 };
enum { X, COLUMN, EPS, WEIGHT, BIAS, MEAN, CENTERED, SQUARES, VARIANCE, FACTOR, RESULT, SCALED, Y };
enum { FULLY_CONNECTED = 2, MULTIPLY = 15, SUBTRACT = 16, ADD = 1, SQUARE = 28, RSQRT = 40 };

static const float eps = 0.125f;
static float column[N], weight[N], bias[N];

#define FLOATS(rows, cols) .datatype = 1, .rank = 2, .dims = {rows, cols}
#define NODE(code_, ...)                  \
  {                                       \
    .code = code_, .slots = {__VA_ARGS__} \
  }

// (x - mean) / sqrt(variance + eps) * weight + bias of 7 rows of 21 elements.
static x_graph norm_graph(void) {
  for (size_t i = 0; i < N; i++) {
    column[i] = (float)(1.0 / N);
    weight[i] = 0.5f + (float)i / N;
    bias[i] = (float)i - 10.0f;
  }
  x_graph g = {
      .values = {[X] = {FLOATS(ROWS, N), .flags = 1},
                 [COLUMN] = {FLOATS(1, N), .constant = 1},
                 [EPS] = {.datatype = 1, .rank = 1, .dims = {1}, .constant = 2},
                 [WEIGHT] = {.datatype = 1, .rank = 1, .dims = {N}, .constant = 3},
                 [BIAS] = {.datatype = 1, .rank = 1, .dims = {N}, .constant = 4},
                 [MEAN] = {FLOATS(ROWS, 1)},
                 [CENTERED] = {FLOATS(ROWS, N)},
                 [SQUARES] = {FLOATS(ROWS, N)},
                 [VARIANCE] = {FLOATS(ROWS, 1)},
                 [FACTOR] = {FLOATS(ROWS, 1)},
                 [RESULT] = {FLOATS(ROWS, N)},
                 [SCALED] = {FLOATS(ROWS, N)},
                 [Y] = {FLOATS(ROWS, N), .flags = 2, .external = 1}},
      .nodes = {NODE(FULLY_CONNECTED, X, COLUMN, UINT32_MAX, MEAN),
                NODE(SUBTRACT, X, MEAN, CENTERED), NODE(SQUARE, CENTERED, SQUARES),
                NODE(FULLY_CONNECTED, SQUARES, COLUMN, EPS, VARIANCE),
                NODE(RSQRT, VARIANCE, FACTOR), NODE(MULTIPLY, CENTERED, FACTOR, RESULT),
                NODE(MULTIPLY, WEIGHT, RESULT, SCALED), NODE(ADD, SCALED, BIAS, Y)},
      .constants = {{.key = ""},
                    {.data = column, .size = sizeof column},
                    {.data = &eps, .size = sizeof eps},
                    {.data = weight, .size = sizeof weight},
                    {.data = bias, .size = sizeof bias}},
      .n_values = Y + 1,
      .n_nodes = 8,
      .n_constants = 5,
      .n_externs = 2,
  };
  for (size_t i = 0; i < g.n_nodes; i++) {
    const unsigned code = g.nodes[i].code;
    g.nodes[i].n_slots = code == FULLY_CONNECTED ? 5 : code == SQUARE || code == RSQRT ? 3 : 4;
  }
  return g;
}

// ---- Runs

static et_status count_norms(void *ctx, const et_event *event) {
  size_t *const n = ctx;
  *n += strcmp(event->operator_name, "Layer Norm (NC, F32) tuned") == 0;
  return ET_OK;
}

static float input_at(size_t row, size_t i) {
  return (float)((row * 31 + i * i * 7) % 64) / 16.0f - 2.0f;
}

static bool is_right(const float *y, size_t n_rows, bool has_weight, bool has_bias) {
  for (size_t row = 0; row < n_rows; row++) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < N; i++) mean += (double)input_at(row, i) / N;
    for (size_t i = 0; i < N; i++) variance += pow((double)input_at(row, i) - mean, 2) / N;
    for (size_t i = 0; i < N; i++) {
      double right = ((double)input_at(row, i) - mean) / sqrt(variance + (double)eps);
      if (has_weight) right *= (double)weight[i];
      if (has_bias) right += (double)bias[i];
      if (!(fabs((double)y[row * N + i] - right) <= 8e-7 * (1 + fabs(right)))) return false;
    }
  }
  return true;
}

typedef struct outcome {
  size_t n_norms;  // that ran as one node
  bool is_right;   // for 7 lines, then for 3
} outcome;

// Runs a graph of input 0 and output 1 for 7 rows, then for 3.
static outcome run(const x_graph *g, bool has_weight, bool has_bias) {
  static const et_xnnpack_options alone = {.workspace = NULL};
  subject s;
  writer payload = x_write(g);
  outcome out = {0, true};
  if (!subject_begin(&s, rig_take(payload.bytes, payload.size), &alone)) {
    printf("  %s\n", s.r.err.message);
    subject_end(&s);
    return (outcome){SIZE_MAX, false};
  }
  for (size_t n_rows = ROWS; n_rows > 0; n_rows = n_rows == ROWS ? 3 : 0) {
    const et_hooks hooks = {&out.n_norms, count_norms};
    const et_delegate_call call = {
        .err = &s.r.err, .n_args = s.n_args, .args = s.args, .hooks = &hooks};
    const int32_t sizes[2] = {(int32_t)n_rows, N};
    float *const x = s.tensors[0].t.data;
    for (size_t i = 0; i < n_rows * N; i++) x[i] = input_at(i / N, i % N);
    out.n_norms = 0;
    out.is_right &= et_tensor_resize(&s.tensors[0].t, sizes, 2, &s.r.err) == ET_OK &&
                    eti_xnn_execute(&s.delegate, &call) == ET_OK &&
                    is_right(s.tensors[1].t.data, n_rows, has_weight, has_bias);
  }
  subject_end(&s);
  return out;
}

static size_t one_if_ours(void) {
  return eti_xnn_has_layer_norm() ? 1 : 0;
}

static void a_norm_is_one_node(void) {
  const x_graph g = norm_graph();
  const outcome out = run(&g, true, true);
  EXPECT(out.is_right);
  EXPECT(out.n_norms == one_if_ours());
}

static void a_norm_needs_neither_weight_nor_bias(void) {
  x_graph g = norm_graph();
  g.n_nodes = 6;
  g.nodes[5].slots[2] = Y;
  const outcome plain = run(&g, false, false);
  EXPECT(plain.is_right && plain.n_norms == one_if_ours());
  g = norm_graph();
  g.n_nodes = 7;
  g.nodes[6].slots[2] = Y;
  const outcome scaled = run(&g, true, false);
  EXPECT(scaled.is_right && scaled.n_norms == one_if_ours());
}

static void a_norm_with_a_bias_alone_adds_it_behind(void) {
  x_graph g = norm_graph();
  g.nodes[6] = (x_node){.code = ADD, .n_slots = 4, .slots = {BIAS, RESULT, Y}};
  g.n_nodes = 7;
  const outcome out = run(&g, false, true);
  EXPECT(out.is_right && out.n_norms == one_if_ours());
}

static void values_that_others_read_are_computed(void) {
  static const unsigned inner[] = {MEAN, CENTERED, SQUARES, VARIANCE, FACTOR};
  for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
    x_graph g = norm_graph();
    g.values[inner[i]].flags = 2;
    g.values[inner[i]].external = 2;
    g.n_externs = 3;
    const outcome out = run(&g, true, true);
    EXPECT(out.is_right && out.n_norms == 0);
  }
}

static void a_result_that_others_read_ends_the_norm(void) {
  x_graph g = norm_graph();
  g.values[RESULT].flags = 2;
  g.values[RESULT].external = 2;
  g.n_externs = 3;
  const outcome out = run(&g, true, true);
  EXPECT(out.is_right && out.n_norms == one_if_ours());
}

static void a_weight_of_more_dimensions_is_applied_behind(void) {
  x_graph g = norm_graph();
  const unsigned wide[] = {WEIGHT, SCALED, Y};
  for (size_t i = 0; i < 3; i++) {
    x_value *const v = &g.values[wide[i]];
    v->rank = 3;
    v->dims[0] = 1;
    v->dims[1] = i == 0 ? 1 : ROWS;
    v->dims[2] = N;
  }
  const outcome out = run(&g, true, true);
  EXPECT(out.is_right && out.n_norms == one_if_ours());
}

static void other_means_are_no_norm(void) {
  x_graph g = norm_graph();
  column[N - 1] *= 1.0f + 0x1p-22f;  // too little to change the results
  const outcome weighted = run(&g, true, true);
  EXPECT(weighted.is_right && weighted.n_norms == 0);
  g = norm_graph();
  g.nodes[3].has_bounds = true;  // which the variance does not reach
  g.nodes[3].min = 0.0f;
  g.nodes[3].max = 100.0f;
  const outcome bounded = run(&g, true, true);
  EXPECT(bounded.is_right && bounded.n_norms == 0);
}

static const et_test tests[] = {
    ET_CASE(a_norm_is_one_node),
    ET_CASE(a_norm_needs_neither_weight_nor_bias),
    ET_CASE(a_norm_with_a_bias_alone_adds_it_behind),
    ET_CASE(values_that_others_read_are_computed),
    ET_CASE(a_result_that_others_read_ends_the_norm),
    ET_CASE(a_weight_of_more_dimensions_is_applied_behind),
    ET_CASE(other_means_are_no_norm),
};
ET_TEST_MAIN(tests)

#endif
