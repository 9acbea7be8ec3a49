// test_xnnpack_memory.c — memory runs out once, at every allocation in turn, while delegates are
// made, run, run with other shapes and run with clocks: each time one call is an error in words,
// the same call made again gives the right bytes, and nothing stays behind (which the sanitizer
// sees). The payloads are upstream's, of every family of nodes (tests/golden/xnnpack), and one
// whose memory XNNPACK cannot let grow. And outputs may lie at the end of memory.
#define _GNU_SOURCE  // mmap's flags
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_runs_out_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_runs_out_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/delegate.h"
#include "xnn_writer.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_ARGS = 48, NAMED_BYTES = 1 << 20 };

// ---- Named data: one block for all names, normal floats of 16 and 32 bits alike

static uint8_t *block;
static long n_held;

static et_status get_named(const void *ctx, const char *key, et_blob *out, et_error *err) {
  (void)ctx;
  (void)key;
  (void)err;
  *out = (et_blob){.data = block, .size = NAMED_BYTES};
  n_held++;
  return ET_OK;
}

static void release_named(const void *ctx, et_blob *blob) {
  (void)ctx;
  (void)blob;
  n_held--;
}

static const et_named_data named = {NULL, get_named, release_named};

// ---- A delegate without a program, and its arguments

typedef struct subject {
  rig r;  // the payload
  eti_xnn_delegate delegate;
  size_t n_args;
  bool is_input[MOST_ARGS];
  eti_xnn_shape shapes[MOST_ARGS], smaller[MOST_ARGS];
  bool has_smaller;
  rig_tensor tensors[MOST_ARGS];
  et_value *args[MOST_ARGS];
  size_t bytes[MOST_ARGS];  // of each
} subject;

static bool add_arg(subject *s, const eti_xnn_graph *graph, size_t k) {
  const eti_xnn_extern *e = &graph->externs[k];
  int32_t sizes[ET_MAX_RANK] = {0};
  s->args[k] = &s->tensors[k].value;
  s->shapes[k] = s->smaller[k] = e->shape;
  s->is_input[k] = e->is_input;
  if (!e->is_input && !e->is_output) return false;
  for (size_t d = 0; d < e->shape.rank; d++) sizes[d] = (int32_t)e->shape.dims[d];
  s->smaller[k].dims[0] = (e->shape.dims[0] + 1) / 2;
  rig_fill_tensor(&s->tensors[k], NULL, e->dtype, e->shape.rank, sizes);
  et_tensor *t = &s->tensors[k].t;
  t->flags |= ET_TENSOR_DYNAMIC;
  s->bytes[k] = et_tensor_bytes(t);
  t->data = malloc(s->bytes[k] + XNN_EXTRA_BYTES);
  if (t->data == NULL) abort();
  memset(t->data, 0x3c, s->bytes[k] + XNN_EXTRA_BYTES);
  return true;
}

static bool begin(subject *s, rig given, const et_xnnpack_options *options) {
  if (block == NULL) {
    block = aligned_alloc(64, NAMED_BYTES);
    if (block == NULL) abort();
    memset(block, 0x3c, NAMED_BYTES);
  }
  *s = (subject){.r = given};
  s->delegate = (eti_xnn_delegate){
      .options = *options, .payload = s->r.bytes, .payload_bytes = s->r.size, .named = named};
  eti_xnn_graph graph = {0};
  const eti_xnn_graph_config config = {.payload = s->r.bytes,
                                       .payload_bytes = s->r.size,
                                       .named = &named,
                                       .memory = &eti_xnn_allocator};
  bool is_fine = eti_xnn_initialize(&s->r.err) == ET_OK &&
                 eti_xnn_graph_build(&graph, &config, &s->r.err) == ET_OK &&
                 graph.n_externs <= MOST_ARGS;
  for (size_t k = 0; is_fine && k < graph.n_externs; k++) is_fine = add_arg(s, &graph, k);
  s->n_args = graph.n_externs;
  s->has_smaller = is_fine && eti_xnn_graph_check_shapes(&graph, s->smaller, &s->r.err) == ET_OK;
  eti_xnn_graph_deinit(&graph);
  return is_fine;
}

// Gives back all that XNNPACK has; the next call makes it anew.
static void forget(subject *s) {
  et_backend_xnnpack.destroy(&s->delegate);
  s->delegate.engine = s->delegate.clocked = NULL;
}

static void end(subject *s) {
  forget(s);
  for (size_t k = 0; k < s->n_args; k++) free(s->tensors[k].t.data);
  for (size_t i = 0; i < s->r.n_blocks; i++) free(s->r.blocks[i]);
}

// ---- Calls

typedef enum step { FIRST, SMALLER, LARGE_AGAIN, CLOCKED, N_STEPS } step;

static et_status note(void *ctx, const et_event *event) {
  (void)ctx;
  (void)event;
  return ET_OK;
}

static et_status call(subject *s, step what) {
  static const et_hooks hooks = {NULL, note};
  const et_delegate_call given = {.err = &s->r.err,
                                  .n_args = s->n_args,
                                  .args = s->args,
                                  .hooks = what == CLOCKED ? &hooks : NULL};
  const eti_xnn_shape *shapes = what == SMALLER && s->has_smaller ? s->smaller : s->shapes;
  for (size_t k = 0; k < s->n_args; k++) {
    et_tensor *t = &s->tensors[k].t;
    int32_t sizes[ET_MAX_RANK];
    if (!s->is_input[k]) {
      memset(t->data, 0, s->bytes[k]);
      continue;
    }
    for (size_t d = 0; d < t->rank; d++) sizes[d] = (int32_t)shapes[k].dims[d];
    if (et_tensor_resize(t, sizes, t->rank, &s->r.err) != ET_OK) return ET_INTERNAL;
  }
  return eti_xnn_execute(&s->delegate, &given);
}

static uint64_t sum_of_outputs(const subject *s) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t k = 0; k < s->n_args; k++) {
    const et_tensor *t = &s->tensors[k].t;
    for (size_t i = 0; !s->is_input[k] && i < et_tensor_bytes(t); i++)
      sum = (sum ^ ((const uint8_t *)t->data)[i]) * 0x100000001b3u;
  }
  return sum;
}

// The n-th allocation of a delegate's whole life fails. *was_enough: there are fewer.
static bool survives(subject *s, size_t n, const uint64_t wanted[N_STEPS], bool *was_enough) {
  bool is_good = true;
  eti_xnn_memory_run_out(n, true);
  for (step what = FIRST; is_good && what < N_STEPS; what++) {
    et_status status = call(s, what);
    if (status == ET_DELEGATE_OUT_OF_MEMORY) {
      is_good = s->r.err.message[0] != '\0' && !eti_xnn_memory_will_run_out();
      status = call(s, what);
    }
    is_good = is_good && status == ET_OK && sum_of_outputs(s) == wanted[what];
    if (!is_good) printf("  allocation %zu, call %d: %s\n", n, (int)what, s->r.err.message);
  }
  *was_enough = eti_xnn_memory_will_run_out();
  eti_xnn_memory_run_out(0, true);
  forget(s);
  return is_good;
}

static bool all_may_fail(rig given, const et_xnnpack_options *options) {
  subject s;
  uint64_t wanted[N_STEPS];
  bool is_good = begin(&s, given, options), was_enough = false;
  for (step what = FIRST; is_good && what < N_STEPS; what++) {
    is_good = call(&s, what) == ET_OK;
    wanted[what] = sum_of_outputs(&s);
  }
  if (!is_good) printf("  with memory: %s\n", s.r.err.message);
  forget(&s);
  size_t n = 1;
  for (; is_good && !was_enough; n++) is_good = survives(&s, n, wanted, &was_enough);
  end(&s);
  return is_good && n > 20;
}

// ---- A convolution of images that are quantized while running, of which XNNPACK keeps zeros

enum { IMAGES = 6, CHANNELS = 4 };

static rig dynamic_convolution(void) {
  static const int8_t filter[CHANNELS * 9 * CHANNELS] = {[0] = 1, [5 * CHANNELS] = 3, [4] = -2};
  static const float scales[CHANNELS] = {1, 0.5f, 0.25f, 2};
  enum { NONE = XNN_NO_ID, FP32 = 1, QCINT8 = 6, QDINT8 = 9 };
  const x_graph g = {
      .values = {{.datatype = FP32, .flags = 1, .rank = 4, .dims = {IMAGES, 5, 5, CHANNELS}},
                 {.datatype = QDINT8,
                  .rank = 4,
                  .dims = {IMAGES, 5, 5, CHANNELS},
                  .quantization = QUANT_TOKEN,
                  .n_nonbatch_dims = 3},
                 {.datatype = QCINT8,
                  .rank = 4,
                  .dims = {CHANNELS, 3, 3, CHANNELS},
                  .constant = 1,
                  .quantization = QUANT_CHANNEL,
                  .scales = 2,
                  .n_scales = CHANNELS},
                 {.datatype = FP32,
                  .flags = 2,
                  .external = 1,
                  .rank = 4,
                  .dims = {IMAGES, 5, 5, CHANNELS}}},
      .nodes = {{.code = 18, .n_slots = 3, .slots = {0, 1}},
                {.code = 7, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1, 1,    1, 1,
                                                     4, 4, 1, 0, 0, 1, 2, NONE, 3, 0}}},
      .constants = {{.key = ""}, {NULL, filter, sizeof filter}, {NULL, scales, sizeof scales}},
      .n_values = 4,
      .n_nodes = 2,
      .n_constants = 3,
      .n_externs = 2,
  };
  writer w = x_write(&g);
  return rig_take(w.bytes, w.size);
}

// Batches of any size, each image with numbers of its own: what one image gives does not depend on
// how many came with it.
static void a_batch_of_dynamic_convolutions_may_grow(void) {
  static const size_t batches[] = {1, 3, 2, IMAGES, 1, 5, IMAGES};
  enum { EACH = 5 * 5 * CHANNELS };
  subject s;
  float alone_[IMAGES][EACH];
  EXPECT(begin(&s, dynamic_convolution(), &(et_xnnpack_options){.weights = NULL}));
  for (size_t round = 0; round < IMAGES + sizeof batches / sizeof *batches; round++) {
    const bool is_alone = round < IMAGES;
    const size_t n = is_alone ? 1 : batches[round - IMAGES];
    float *in = s.tensors[0].t.data;
    const float *out = s.tensors[1].t.data;
    for (size_t i = 0; i < n * EACH; i++)
      in[i] = (float)(i % EACH % 23) * (float)((is_alone ? round : 0) + i / EACH + 1) - 7;
    s.shapes[0].dims[0] = n;
    EXPECT(call(&s, LARGE_AGAIN) == ET_OK);
    EXPECT(s.tensors[1].t.sizes[0] == (int32_t)n);
    for (size_t i = 0; is_alone && i < EACH; i++) alone_[round][i] = out[i];
    for (size_t i = 0; i < n * EACH && !is_alone; i++) EXPECT(out[i] == alone_[i / EACH][i % EACH]);
  }
  end(&s);
}

static void every_allocation_may_fail_once_with_dynamic_convolutions(void) {
  EXPECT(all_may_fail(dynamic_convolution(), &(et_xnnpack_options){.weights = NULL}));
}

// Whatever else is loaded, with nothing shared.
static bool alone(const char *name) {
  const bool is_good = all_may_fail(rig_read(name), &(et_xnnpack_options){.weights = NULL});
  if (!is_good) printf("  in %s\n", name);
  return is_good;
}

static void every_allocation_may_fail_once_with_convolutions(void) {
  EXPECT(alone("xnnpack/convolutions.payload"));
}

static void every_allocation_may_fail_once_with_quantized_convolutions(void) {
  EXPECT(alone("xnnpack/static_channel.payload"));
}

static void every_allocation_may_fail_once_with_linears(void) {
  EXPECT(alone("xnnpack/linears_f16.payload"));
  EXPECT(alone("xnnpack/dynamic_linears.payload"));
  EXPECT(alone("xnnpack/group_linears.payload"));
  EXPECT(alone("xnnpack/products.payload"));
}

static void every_allocation_may_fail_once_with_images(void) {
  EXPECT(alone("xnnpack/images.payload"));
}

static void every_allocation_may_fail_once_with_moves(void) {
  EXPECT(alone("xnnpack/moves.payload"));
}

static void every_allocation_may_fail_once_elementwise(void) {
  EXPECT(alone("xnnpack/unary_f16.payload"));
  EXPECT(alone("xnnpack/normalised.payload"));
}

// Another delegate goes on with the workspace and the weights in which memory ran out.
static void every_allocation_may_fail_once_with_shared_memory(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  subject other;
  EXPECT(et_xnnpack_workspace_open(&options.workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  EXPECT(begin(&other, rig_read("xnnpack/convolutions.payload"), &options));
  EXPECT(call(&other, FIRST) == ET_OK);
  const uint64_t wanted = sum_of_outputs(&other);
  EXPECT(all_may_fail(rig_read("xnnpack/convolutions.payload"), &options));
  EXPECT(all_may_fail(rig_read("xnnpack/group_linears.payload"), &options));
  EXPECT(call(&other, FIRST) == ET_OK && sum_of_outputs(&other) == wanted);
  end(&other);
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_weights == 0 && facts.n_shared > 0 && n_held == 0);
  et_xnnpack_workspace_close(options.workspace);
  et_xnnpack_weights_close(options.weights);
}

// ---- The end of memory

// XNNPACK's softmax of halves reads again what it has written, in vectors.
static rig softmax_of_halves(void) {
  const x_graph g = {
      .values = {{.datatype = 2, .flags = 1, .rank = 2, .dims = {3, 5}},
                 {.datatype = 2, .flags = 2, .external = 1, .rank = 2, .dims = {3, 5}}},
      .nodes = {{.code = 3, .n_slots = 3, .slots = {0, 1}}},
      .constants = {{.key = ""}},
      .n_values = 2,
      .n_nodes = 1,
      .n_constants = 1,
      .n_externs = 2,
  };
  writer w = x_write(&g);
  return rig_take(w.bytes, w.size);
}

static void an_output_at_the_end_of_memory_is_not_read_beyond(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  subject s;
  EXPECT(begin(&s, softmax_of_halves(), &(et_xnnpack_options){.weights = NULL}));
  void *const given = s.tensors[1].t.data;
  s.tensors[1].t.data = pages + page - s.bytes[1];
  const et_status status = call(&s, FIRST);
  if (status == ET_OK) {  // all elements are alike, and a fifth is 0x3266 in 16 bits
    for (size_t i = 0; i < 15; i++) EXPECT(((uint16_t *)s.tensors[1].t.data)[i] == 0x3266);
  } else {
    EXPECT_ERROR(&s.r.err, ET_NOT_SUPPORTED, "no kernels for it on this machine");
  }
  s.tensors[1].t.data = given;
  end(&s);
  (void)munmap(pages, 2 * page);
}

static const et_test tests[] = {
    ET_CASE(an_output_at_the_end_of_memory_is_not_read_beyond),
    ET_CASE(every_allocation_may_fail_once_with_convolutions),
    ET_CASE(every_allocation_may_fail_once_with_quantized_convolutions),
    ET_CASE(every_allocation_may_fail_once_with_linears),
    ET_CASE(every_allocation_may_fail_once_with_images),
    ET_CASE(every_allocation_may_fail_once_with_moves),
    ET_CASE(every_allocation_may_fail_once_elementwise),
    ET_CASE(every_allocation_may_fail_once_with_dynamic_convolutions),
    ET_CASE(every_allocation_may_fail_once_with_shared_memory),
    ET_CASE(a_batch_of_dynamic_convolutions_may_grow),
};
ET_TEST_MAIN(tests)

#endif
