// test_xnnpack_alloc_region.c — tests allocation failures: each allocation fails once while
// delegates are made, run, run with other shapes and profiled. Each time one call fails with a
// message, the same call then gives the right bytes, and nothing leaks (the sanitizer checks that).
// The payloads are upstream's, of every family of nodes (tests/golden/xnnpack), and one whose
// memory XNNPACK cannot grow. Outputs may end at the end of mapped memory.
#define _GNU_SOURCE  // mmap's flags
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_runs_out_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_runs_out_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_subject.h"
#include "xnn_writer.h"

#include <sys/mman.h>
#include <unistd.h>

// ---- Calls

typedef enum step { FIRST, SMALLER, LARGE_AGAIN, PROFILED, N_STEPS } step;

static et_status call(subject *s, step what) {
  const eti_xnn_shape *shapes = what == SMALLER && s->has_smaller ? s->smaller : s->shapes;
  return subject_call(s, shapes, what == PROFILED);
}

// The n-th allocation of a delegate's whole life fails. *was_enough: there are fewer.
static bool survives(subject *s, size_t n, const uint64_t wanted[N_STEPS], bool *was_enough) {
  bool is_good = true;
  eti_xnn_alloc_fail_nth(n, true);
  for (step what = FIRST; is_good && what < N_STEPS; what++) {
    et_status status = call(s, what);
    if (status == ET_DELEGATE_OUT_OF_MEMORY) {
      is_good = s->r.err.message[0] != '\0' && !eti_xnn_alloc_failure_is_due();
      status = call(s, what);
    }
    is_good = is_good && status == ET_OK && subject_sum(s) == wanted[what];
    if (!is_good) printf("  allocation %zu, call %d: %s\n", n, (int)what, s->r.err.message);
  }
  *was_enough = eti_xnn_alloc_failure_is_due();
  eti_xnn_alloc_fail_nth(0, true);
  subject_forget(s);
  return is_good;
}

static bool all_may_fail(rig given, const et_xnnpack_options *options) {
  subject s;
  uint64_t wanted[N_STEPS];
  bool is_good = subject_begin(&s, given, options), was_enough = false;
  for (step what = FIRST; is_good && what < N_STEPS; what++) {
    is_good = call(&s, what) == ET_OK;
    wanted[what] = subject_sum(&s);
  }
  if (!is_good) printf("  with memory: %s\n", s.r.err.message);
  subject_forget(&s);
  size_t n = 1;
  for (; is_good && !was_enough; n++) is_good = survives(&s, n, wanted, &was_enough);
  subject_end(&s);
  return is_good && n > 20;
}

// ---- A convolution of dynamically quantized images, for which XNNPACK keeps zeros per image

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

// Batches of any size, each image with other numbers: the result of an image does not depend on the
// batch.
static void a_batch_of_dynamic_convolutions_may_grow(void) {
  static const size_t batches[] = {1, 3, 2, IMAGES, 1, 5, IMAGES};
  enum { EACH = 5 * 5 * CHANNELS };
  subject s;
  float alone_[IMAGES][EACH];
  EXPECT(subject_begin(&s, dynamic_convolution(), &(et_xnnpack_options){.weights = NULL}));
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
  subject_end(&s);
}

static void every_allocation_may_fail_once_with_dynamic_convolutions(void) {
  EXPECT(all_may_fail(dynamic_convolution(), &(et_xnnpack_options){.weights = NULL}));
}

// Runs a payload with nothing shared.
static bool alone(const char *name) {
  if (subject_lacks_halves(name)) return true;
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

// Another delegate uses the workspace and the weights in which memory ran out.
static void every_allocation_may_fail_once_with_shared_memory(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  subject other;
  EXPECT(et_xnnpack_workspace_open(&options.workspace, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  EXPECT(subject_begin(&other, rig_read("xnnpack/convolutions.payload"), &options));
  EXPECT(call(&other, FIRST) == ET_OK);
  const uint64_t wanted = subject_sum(&other);
  EXPECT(all_may_fail(rig_read("xnnpack/convolutions.payload"), &options));
  EXPECT(all_may_fail(rig_read("xnnpack/group_linears.payload"), &options));
  EXPECT(call(&other, FIRST) == ET_OK && subject_sum(&other) == wanted);
  subject_end(&other);
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_weights == 0 && facts.n_shared > 0 && x_n_held == 0);
  et_xnnpack_workspace_close(options.workspace);
  et_xnnpack_weights_close(options.weights);
}

// ---- Pages that are populated ahead

static void pages_are_populated_as_far_as_needed_in_huge_and_in_small_pages(void) {
  enum { MIB = 1 << 20, NEEDED = 7 * MIB + 12345 };
  static const size_t sizes[] = {8 * MIB, 20 * MIB, 21 * MIB - 1};
  for (size_t i = 0; i < 6; i++) {
    size_t bytes = sizes[i / 2];
    eti_xnn_populated populated;
    uint8_t *const pages = eti_xnn_pages_map(&bytes, &populated);
    EXPECT(pages != NULL && bytes >= sizes[i / 2] && populated.bytes == 0);
    eti_xnn_pages_populate(pages, bytes, 1, &populated);
    EXPECT(populated.bytes >= 1 && populated.bytes <= 2 * MIB);
    memset(pages, 7, populated.bytes);
    const size_t first = populated.bytes;
    populated.is_small |= i % 2 != 0;  // as if a huge page had been slow
    eti_xnn_pages_populate(pages, bytes, NEEDED, &populated);
    EXPECT(populated.bytes >= NEEDED && populated.bytes <= 8 * MIB);
    for (size_t at = 0; at < bytes; at += 1021) EXPECT(pages[at] == (at < first ? 7 : 0));
    eti_xnn_pages_populate(pages, bytes, bytes, &populated);
    eti_xnn_pages_finish(pages, bytes, &populated);
    EXPECT(populated.bytes == bytes && pages[0] == 7 && pages[bytes - 1] == 0);
    eti_xnn_pages_unmap(pages, bytes);
  }
}

// ---- The end of memory

// XNNPACK's fp16 softmax reads its own result again, in whole vectors.
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
  EXPECT(subject_begin(&s, softmax_of_halves(), &(et_xnnpack_options){.weights = NULL}));
  void *const given = s.tensors[1].t.data;
  s.tensors[1].t.data = pages + page - s.bytes[1];
  const et_status status = call(&s, FIRST);
  if (status == ET_OK) {  // all elements are equal; a fifth is 0x3266 in fp16
    for (size_t i = 0; i < 15; i++) EXPECT(((uint16_t *)s.tensors[1].t.data)[i] == 0x3266);
  } else {
    EXPECT_ERROR(&s.r.err, ET_NOT_SUPPORTED, "no kernels for this processor");
  }
  s.tensors[1].t.data = given;
  subject_end(&s);
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
    ET_CASE(pages_are_populated_as_far_as_needed_in_huge_and_in_small_pages),
};
ET_TEST_MAIN(tests)

#endif
