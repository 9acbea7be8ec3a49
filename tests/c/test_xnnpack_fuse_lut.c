// test_xnnpack_fuse_lut.c — tests that a dequantize → element-wise → quantize chain runs as one
// lookup table with the bytes that its nodes give, for every byte of the input. Chains are not
// fused if another node reads an intermediate value or if they have other operands.
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_looked_up_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_looked_up_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/tuned/tuned.h"
#include "xnn_subject.h"
#include "xnn_writer.h"

enum { ROWS = 3, N = 100 };  // more than 256 elements
enum { X, WIDE, SIXTH, HALF, FIRST, SECOND, THIRD, Y };
enum { FP32 = 1, QINT8 = 3, QUINT8 = 4 };
enum { ADD = 1, CLAMP = 6, MULTIPLY = 15, CONVERT = 18, HARDSWISH = 24, GELU = 42, SIGMOID = 4 };

static const float sixth = 1.0f / 6.0f, half = 0.5f;

#define NODE(code_, n_slots_, ...)                             \
  (x_node) {                                                   \
    .code = code_, .n_slots = n_slots_, .slots = {__VA_ARGS__} \
  }
#define FLOATS                                     \
  {                                                \
    .datatype = FP32, .rank = 2, .dims = {ROWS, N} \
  }

static x_graph graph_of(unsigned type, size_t n_nodes, const x_node *nodes) {
  const int zero_point = type == QINT8 ? 0 : 128;
  x_graph g = {
      .values = {[X] = {.datatype = type,
                        .rank = 2,
                        .dims = {ROWS, N},
                        .flags = 1,
                        .quantization = QUANT_TENSOR,
                        .scale = 0.037f,
                        .zero_point = zero_point - 11},
                 [WIDE] = FLOATS,
                 [SIXTH] = {.datatype = FP32, .rank = 1, .dims = {1}, .constant = 1},
                 [HALF] = {.datatype = FP32, .rank = 2, .dims = {1, 1}, .constant = 2},
                 [FIRST] = FLOATS,
                 [SECOND] = FLOATS,
                 [THIRD] = FLOATS,
                 [Y] = {.datatype = type,
                        .rank = 2,
                        .dims = {ROWS, N},
                        .flags = 2,
                        .external = 1,
                        .quantization = QUANT_TENSOR,
                        .scale = 0.0171f,
                        .zero_point = zero_point + 5}},
      .constants = {{.key = ""},
                    {.data = &sixth, .size = sizeof sixth},
                    {.data = &half, .size = sizeof half}},
      .n_values = Y + 1,
      .n_nodes = n_nodes,
      .n_constants = 3,
      .n_externs = 2,
  };
  memcpy(g.nodes, nodes, n_nodes * sizeof *nodes);
  return g;
}

typedef struct outcome {
  size_t n_nodes;  // that ran
  uint8_t y[ROWS * N];
} outcome;

static et_status count(void *ctx, const et_event *event) {
  (void)event;
  ++*(size_t *)ctx;
  return ET_OK;
}

static outcome run(const x_graph *g) {
  static const et_xnnpack_options alone = {.workspace = NULL};
  subject s;
  writer payload = x_write(g);
  outcome out = {0, {0}};
  bool is_fine = subject_begin(&s, rig_take(payload.bytes, payload.size), &alone);
  const et_hooks hooks = {&out.n_nodes, count};
  const et_delegate_call call = {
      .err = &s.r.err, .n_args = s.n_args, .args = s.args, .hooks = &hooks};
  for (size_t i = 0; is_fine && i < ROWS * N; i++) ((uint8_t *)s.tensors[0].t.data)[i] = (uint8_t)i;
  is_fine = is_fine && eti_xnn_execute(&s.delegate, &call) == ET_OK;
  if (is_fine)
    memcpy(out.y, s.tensors[1].t.data, sizeof out.y);
  else
    printf("  %s\n", s.r.err.message);
  subject_end(&s);
  return is_fine ? out : (outcome){SIZE_MAX, {0}};
}

// Compares with the same nodes while each intermediate value in turn is an output.
static void is_looked_up(const x_graph *g) {
  const outcome looked_up = run(g);
  EXPECT(looked_up.n_nodes == (eti_xnn_has_lut() ? 1 : g->n_nodes));
  size_t n_different = 0;
  for (size_t i = 1; i < 256; i++) n_different += looked_up.y[i] != looked_up.y[i - 1];
  EXPECT(n_different > 30);
  for (size_t i = 0; i + 1 < g->n_nodes; i++) {
    x_graph open = *g;
    const unsigned inner = g->nodes[i].slots[g->nodes[i].n_slots - 2];
    open.values[inner].flags = 2;
    open.values[inner].external = 2;
    open.n_externs = 3;
    const outcome computed = run(&open);
    EXPECT(computed.n_nodes == g->n_nodes);
    EXPECT(memcmp(computed.y, looked_up.y, sizeof computed.y) == 0);
  }
}

static void one_function_of_bytes_is_looked_up(void) {
  static const unsigned codes[] = {HARDSWISH, GELU, SIGMOID};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    const x_node nodes[] = {NODE(CONVERT, 3, X, WIDE), NODE(codes[i], 3, WIDE, FIRST),
                            NODE(CONVERT, 3, FIRST, Y)};
    const x_graph as_signed = graph_of(QINT8, 3, nodes), as_unsigned = graph_of(QUINT8, 3, nodes);
    is_looked_up(&as_signed);
    is_looked_up(&as_unsigned);
  }
}

static void steps_with_numbers_are_looked_up(void) {
  x_node nodes[] = {NODE(CONVERT, 3, X, WIDE), NODE(MULTIPLY, 4, WIDE, SIXTH, FIRST),
                    NODE(ADD, 4, FIRST, WIDE, SECOND), NODE(CLAMP, 3, SECOND, THIRD),
                    NODE(CONVERT, 3, THIRD, Y)};
  nodes[3].has_bounds = true;
  nodes[3].min = -0.75f;
  nodes[3].max = 1.5f;
  const x_graph g = graph_of(QINT8, 5, nodes);
  is_looked_up(&g);
}

static void a_value_may_be_read_twice(void) {
  const x_node nodes[] = {NODE(CONVERT, 3, X, WIDE), NODE(SIGMOID, 3, WIDE, FIRST),
                          NODE(MULTIPLY, 4, WIDE, FIRST, SECOND), NODE(CONVERT, 3, SECOND, Y)};
  const x_graph g = graph_of(QINT8, 4, nodes);
  is_looked_up(&g);
}

static void bytes_of_two_kinds_are_computed(void) {
  const x_node nodes[] = {NODE(CONVERT, 3, X, WIDE), NODE(HARDSWISH, 3, WIDE, FIRST),
                          NODE(CONVERT, 3, FIRST, Y)};
  x_graph g = graph_of(QINT8, 3, nodes);
  g.values[Y].datatype = QUINT8;
  g.values[Y].zero_point = 100;
  EXPECT(run(&g).n_nodes == 3);
}

static void chains_that_broadcast_are_computed(void) {
  const x_node nodes[] = {NODE(CONVERT, 3, X, WIDE), NODE(ADD, 4, WIDE, HALF, FIRST),
                          NODE(CONVERT, 3, FIRST, Y)};
  x_graph g = graph_of(QINT8, 3, nodes);
  static const unsigned grown[] = {HALF, FIRST, Y};
  for (size_t i = 0; i < 3; i++) {
    x_value *const v = &g.values[grown[i]];
    v->rank = 3;
    v->dims[0] = 1;
    v->dims[1] = i == 0 ? 1 : ROWS;
    v->dims[2] = i == 0 ? 1 : N;
  }
  EXPECT(run(&g).n_nodes == 3);
}

static const et_test tests[] = {
    ET_CASE(one_function_of_bytes_is_looked_up), ET_CASE(steps_with_numbers_are_looked_up),
    ET_CASE(a_value_may_be_read_twice),          ET_CASE(bytes_of_two_kinds_are_computed),
    ET_CASE(chains_that_broadcast_are_computed),
};
ET_TEST_MAIN(tests)

#endif
