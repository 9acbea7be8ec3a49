// test_xnnpack_reshape.c — tests that the results of a delegate do not depend on the sizes of
// earlier calls. Every step of a walk through sizes, up, down and up again, gives the bytes and the
// sizes of a delegate that is made for that step. XNNPACK retains pointers, strides and shapes
// between calls. The walks cover each kind of node that does so, and payloads of upstream.
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_reshaped_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_reshaped_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_subject.h"
#include "xnn_writer.h"

enum { FP32 = 1, FP16 = 2, INT32 = 12, MAX_STEPS = 12 };

static const et_xnnpack_options alone = {.workspace = NULL};

// ---- Walks

static bool has_same_outputs(const subject *a, const subject *b) {
  for (size_t k = 0; k < a->n_args; k++) {
    const et_tensor *x = &a->tensors[k].t, *y = &b->tensors[k].t;
    if (a->is_input[k]) continue;
    if (memcmp(x->sizes, y->sizes, x->rank * sizeof *x->sizes) != 0) return false;
    if (memcmp(x->data, y->data, et_tensor_bytes(x)) != 0) return false;
  }
  return true;
}

// Compares a call of a delegate that had other calls before with that of a fresh one.
static bool steps(subject *walker, subject *fresh, const eti_xnn_shape *shapes) {
  subject_forget(fresh);
  const et_status wanted = subject_call(fresh, shapes, false);
  const et_status status = subject_call(walker, shapes, false);
  if (wanted == status && (status != ET_OK || has_same_outputs(walker, fresh))) return true;
  printf("  statuses %d, %d: %s\n", (int)wanted, (int)status, walker->r.err.message);
  return false;
}

typedef struct walk {
  x_graph graph;
  uint32_t sizes[MAX_STEPS][4];  // of argument 0; ends with zeros
} walk;

static bool walks(const walk *w) {
  subject walker, fresh;
  writer payloads[2] = {x_write(&w->graph), x_write(&w->graph)};
  bool is_good = subject_begin(&walker, rig_take(payloads[0].bytes, payloads[0].size), &alone);
  is_good &= subject_begin(&fresh, rig_take(payloads[1].bytes, payloads[1].size), &alone);
  if (!is_good) printf("  %s\n", walker.r.err.message);
  subject_fill(&walker);
  subject_fill(&fresh);
  for (size_t i = 0; is_good && i < MAX_STEPS && w->sizes[i][0] > 0; i++) {
    const uint32_t *size = w->sizes[i];
    for (size_t d = 0; d < 4; d++) walker.shapes[0].dims[d] = size[d];
    is_good = steps(&walker, &fresh, walker.shapes);
    if (is_good && fresh.r.err.message[0] != '\0') printf("  %s\n", fresh.r.err.message);
    if (!is_good) printf("  step %zu: %u×%u×%u×%u\n", i, size[0], size[1], size[2], size[3]);
  }
  subject_end(&walker);
  subject_end(&fresh);
  return is_good;
}

// ---- Nodes over images of up to 3×9×9×20

#define NHWC(type, flag, ext, ...) \
  {.datatype = type, .flags = flag, .external = ext, .rank = 4, __VA_ARGS__}
#define PAYLOAD(n_v, n_n, n_c, n_e) \
  .n_values = n_v, .n_nodes = n_n, .n_constants = n_c, .n_externs = n_e

// Batch, height, width and channels, one at a time and together, up and down.
#define ANY_SIZES                                                                           \
  {{1, 4, 5, 3},  {1, 4, 5, 20}, {1, 4, 5, 7}, {1, 4, 5, 20}, {3, 4, 5, 20}, {3, 9, 8, 20}, \
   {1, 2, 3, 20}, {2, 9, 8, 1},  {2, 8, 9, 1}, {2, 9, 8, 11}, {3, 9, 9, 20}}

static walk pooling(unsigned type, unsigned code) {
  return (walk){
      .graph = {.values = {NHWC(type, 1, 0, .dims = {3, 9, 9, 20}),
                           NHWC(type, 2, 1, .dims = {3, 9, 9, 20})},
                .nodes = {{.code = code,
                           .n_slots = 13,
                           .slots = {1, 1, 1, 1, 3, 3, 2, 2, code == 14, code == 14, 0, 1, 64}}},
                .constants = {{.key = ""}},
                PAYLOAD(2, 1, 1, 2)},
      .sizes = ANY_SIZES};
}

static void max_pooling_follows_its_sizes(void) {
  const walk floats = pooling(FP32, 14);
  EXPECT(walks(&floats));
}

static void average_pooling_follows_its_sizes(void) {
  const walk floats = pooling(FP32, 11);
  EXPECT(walks(&floats));
}

static void resizing_follows_its_sizes(void) {
  const walk w = {.graph = {.values = {NHWC(FP32, 1, 0, .dims = {3, 9, 9, 20}),
                                       NHWC(FP32, 2, 1, .dims = {3, 6, 7, 20})},
                            .nodes = {{.code = 9, .n_slots = 5, .slots = {6, 7, 0, 1}}},
                            .constants = {{.key = ""}},
                            PAYLOAD(2, 1, 1, 2)},
                  .sizes = ANY_SIZES};
  EXPECT(walks(&w));
}

static void means_of_images_follow_their_sizes(void) {
  const walk w = {.graph = {.values = {NHWC(FP32, 1, 0, .dims = {3, 9, 9, 20}),
                                       NHWC(FP32, 2, 1, .dims = {3, 1, 1, 20})},
                            .nodes = {{.code = 19, .n_slots = 3, .slots = {0, 1, 64}}},
                            .constants = {{.key = ""}},
                            PAYLOAD(2, 1, 1, 2)},
                  .sizes = ANY_SIZES};
  EXPECT(walks(&w));
}

// Means of fp16 need a workspace for their sums, which must not overlap other values.
static void means_of_halves_follow_their_sizes(void) {
  const walk w = {.graph = {.values = {NHWC(FP16, 1, 0, .dims = {3, 9, 9, 20}),
                                       NHWC(FP16, 2, 1, .dims = {3, 1, 1, 20}),
                                       NHWC(FP16, 0, 0, .dims = {3, 9, 9, 20}),
                                       NHWC(FP16, 2, 2, .dims = {3, 9, 9, 20})},
                            .nodes = {{.code = 27, .n_slots = 3, .slots = {0, 2}},
                                      {.code = 19, .n_slots = 3, .slots = {0, 1, 64}},
                                      {.code = 27, .n_slots = 3, .slots = {2, 3}}},
                            .constants = {{.key = ""}},
                            PAYLOAD(4, 3, 1, 3)},
                  .sizes = ANY_SIZES};
  EXPECT(walks(&w));
}

// Maxima and their positions, which are transposed before they are output, as in upstream's files.
static void positions_of_maxima_follow_their_sizes(void) {
  const walk w = {
      .graph = {.values = {NHWC(FP32, 1, 0, .dims = {3, 9, 9, 20}),
                           NHWC(FP32, 2, 1, .dims = {3, 4, 3, 20}),
                           NHWC(INT32, 0, 0, .dims = {3, 4, 3, 20}),
                           NHWC(INT32, 2, 2, .dims = {3, 20, 4, 3})},
                .nodes = {{.code = 21, .n_slots = 10, .slots = {0, 0, 0, 0, 2, 3, 0, 1, 2, 64}},
                          {.code = 5,
                           .n_slots = 5,
                           .slots = {4, 0, 2, 3},
                           .lists = {[1] = {0, 3, 1, 2}},
                           .n_list = {[1] = 4}}},
                .constants = {{.key = ""}},
                PAYLOAD(4, 2, 1, 3)},
      .sizes = {{1, 4, 5, 3},
                {1, 4, 5, 20},
                {1, 2, 3, 7},
                {3, 9, 8, 20},
                {1, 9, 8, 20},
                {2, 8, 9, 1},
                {3, 9, 9, 20},
                {1, 4, 5, 3}}};
  EXPECT(walks(&w));
}

// ---- Nodes with weights: the number of channels is fixed

enum { CHANNELS = 4 };

static walk with_filter(unsigned code, uint32_t stride, bool is_dynamic) {
  static float filter[CHANNELS * 9 * CHANNELS];
  static int8_t bytes[CHANNELS * 9 * CHANNELS];
  static const float scales[CHANNELS] = {1, 0.5f, 0.25f, 2};
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (int8_t)(i * 37 % 15 - 7);
    filter[i] = (float)bytes[i] / 4;
  }
  walk w = {
      .graph = {.values = {NHWC(FP32, 1, 0, .dims = {3, 9, 9, CHANNELS}),
                           NHWC(FP32, 0, 0, .dims = {CHANNELS, 3, 3, CHANNELS}, .constant = 1),
                           NHWC(FP32, 2, 1, .dims = {3, 9, 9, CHANNELS}),
                           NHWC(9, 0, 0, .dims = {3, 9, 9, CHANNELS}, .quantization = QUANT_TOKEN,
                                .n_nonbatch_dims = 3)},
                .nodes = {{.code = code,
                           .n_slots = 20,
                           .slots = {1, 1, 1, 1, 3, 3, stride, stride, 1, 1, CHANNELS, CHANNELS, 1,
                                     0, 0, 0, 1, 0xffffffffu, 2}}},
                .constants = {{.key = ""},
                              {NULL, filter, sizeof filter},
                              {NULL, bytes, sizeof bytes},
                              {NULL, scales, sizeof scales}},
                PAYLOAD(3, 1, 4, 2)},
      .sizes = {{1, 4, 5, CHANNELS},
                {3, 4, 5, CHANNELS},
                {3, 9, 8, CHANNELS},
                {1, 9, 8, CHANNELS},
                {1, 2, 2, CHANNELS},
                {2, 1, 1, CHANNELS},
                {2, 9, 8, CHANNELS},
                {2, 8, 9, CHANNELS},
                {3, 9, 9, CHANNELS},
                {1, 1, 9, CHANNELS},
                {3, 4, 5, CHANNELS}}};
  x_graph *g = &w.graph;
  if (code == 13) {  // one filter for each channel
    g->values[1].dims[0] = 1;
    memcpy(&g->nodes[0].slots[10], (uint32_t[]){1, 1, CHANNELS}, 3 * sizeof(uint32_t));
    g->constants[1].size /= CHANNELS;
  }
  if (is_dynamic) {
    const x_value quantized =
        NHWC(6, 0, 0, .dims = {CHANNELS, 3, 3, CHANNELS}, .constant = 2,
             .quantization = QUANT_CHANNEL, .scales = 3, .n_scales = CHANNELS);
    g->nodes[1] = g->nodes[0];
    g->nodes[1].slots[15] = 3;
    g->nodes[0] = (x_node){.code = 18, .n_slots = 3, .slots = {0, 3}};
    g->values[1] = quantized;
    g->n_values = 4;
    g->n_nodes = 2;
  }
  if (code == 39) {  // an image becomes larger
    g->values[2].dims[1] = g->values[2].dims[2] = 8 * stride + 1;
  }
  return w;
}

static void convolutions_follow_their_sizes(void) {
  const walk dense = with_filter(7, 1, false), strided = with_filter(7, 2, false);
  const walk depthwise = with_filter(13, 1, false);
  EXPECT(walks(&dense) && walks(&strided) && walks(&depthwise));
}

static void transposed_convolutions_follow_their_sizes(void) {
  const walk dense = with_filter(39, 1, false), strided = with_filter(39, 2, false);
  EXPECT(walks(&dense) && walks(&strided));
}

static void dynamically_quantized_convolutions_follow_their_sizes(void) {
  const walk dense = with_filter(7, 1, true);
  const walk strided = with_filter(39, 2, true), transposed = with_filter(39, 1, true);
  EXPECT(walks(&dense) && walks(&strided) && walks(&transposed));
}

// ---- Upstream's payloads

// Chooses sizes that fit each other: equal sizes stay equal.
static void choose_shapes(eti_xnn_shape *shapes, const subject *s, uint32_t seed) {
  for (size_t k = 0; k < s->n_args; k++) {
    shapes[k] = s->shapes[k];
    for (uint32_t d = 0; d < shapes[k].rank; d++) {
      const size_t most = shapes[k].dims[d];
      const uint32_t random = (uint32_t)(most + 7) * 2654435761u ^ seed * 2246822519u;
      if ((random >> 7) % 3 != 0) shapes[k].dims[d] = 1 + (random >> 16) % most;
    }
  }
}

static bool walks_through(const char *name, size_t n_wanted) {
  if (subject_lacks_halves(name)) return true;
  subject walker, fresh;
  bool is_good = subject_begin(&walker, rig_read(name), &alone);
  is_good &= subject_begin(&fresh, rig_read(name), &alone);
  subject_fill(&walker);
  subject_fill(&fresh);
  size_t n = 0;
  for (uint32_t seed = 0; is_good && seed < 40; seed++) {
    eti_xnn_shape shapes[MAX_ARGS];
    choose_shapes(shapes, &walker, seed);
    if (seed % 8 == 0) memcpy(shapes, walker.shapes, sizeof shapes);
    is_good = steps(&walker, &fresh, shapes);
    n += is_good && fresh.delegate.engine != NULL && fresh.delegate.engine->is_set_up;
  }
  subject_end(&walker);
  subject_end(&fresh);
  if (!is_good || n < n_wanted) printf("  %s: %zu steps\n", name, n);
  return is_good && n >= n_wanted;
}

static void payloads_of_every_family_follow_their_sizes(void) {
  EXPECT(walks_through("xnnpack/images.payload", 6));
  EXPECT(walks_through("xnnpack/convolutions.payload", 6));
  EXPECT(walks_through("xnnpack/static_channel.payload", 6));
  EXPECT(walks_through("xnnpack/dynamic_linears.payload", 6));
  EXPECT(walks_through("xnnpack/group_linears.payload", 6));
  EXPECT(walks_through("xnnpack/linears_f16.payload", 6));
  EXPECT(walks_through("xnnpack/products.payload", 6));
  EXPECT(walks_through("xnnpack/moves.payload", 6));
  EXPECT(walks_through("xnnpack/normalised.payload", 6));
  EXPECT(walks_through("xnnpack/unary_f16.payload", 6));
}

static const et_test tests[] = {
    ET_CASE(max_pooling_follows_its_sizes),
    ET_CASE(average_pooling_follows_its_sizes),
    ET_CASE(resizing_follows_its_sizes),
    ET_CASE(means_of_images_follow_their_sizes),
    ET_CASE(means_of_halves_follow_their_sizes),
    ET_CASE(positions_of_maxima_follow_their_sizes),
    ET_CASE(convolutions_follow_their_sizes),
    ET_CASE(transposed_convolutions_follow_their_sizes),
    ET_CASE(dynamically_quantized_convolutions_follow_their_sizes),
    ET_CASE(payloads_of_every_family_follow_their_sizes),
};
ET_TEST_MAIN(tests)

#endif
