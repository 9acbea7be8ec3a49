// Tests of kernels that work in scratch: with none, and with every size up to the one that their
// prepare step requests, they refuse with the bytes that are missing, or they run.
// Without scratch, products in bf16 give the same bits.
#include "runtime/arena.h"
#include "runtime/et.h"

#include "et_test.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 13 };

// One call: values that arguments point to, tensors over memory of their own.
typedef struct call {
  const et_op *op;
  rig_tensor tensors[6];
  et_value values[MAX_ARGS], dim, *dims[1], *args[MAX_ARGS];
  void *blocks[6];
  size_t n_tensors, n_args;
} call;

static void add(call *c, et_value value) {
  c->values[c->n_args] = value;
  c->args[c->n_args] = &c->values[c->n_args];
  c->n_args++;
}

static void add_tensor(call *c, et_dtype dtype, size_t rank, const int32_t *sizes) {
  rig_tensor *const t = &c->tensors[c->n_tensors];
  rig_fill_tensor(t, NULL, dtype, rank, sizes);
  t->t.data = c->blocks[c->n_tensors++] = calloc(t->t.numel, et_dtype_bytes(dtype));
  if (t->t.data == NULL) abort();
  add(c, t->value);
}

static et_value of_int(int64_t i) {
  return (et_value){.tag = ET_INT, .as.i = i};
}
static et_value of_bool(bool b) {
  return (et_value){.tag = ET_BOOL, .as.b = b};
}
static et_value of_double(double d) {
  return (et_value){.tag = ET_DOUBLE, .as.d = d};
}
static const et_value none = {.tag = ET_NONE};

// The last argument, the repeated result.
static void end(call *c, const char *name, size_t i_out) {
  add(c, c->values[i_out]);
  c->op = et_op_find(&et_ops_portable, name);
  if (c->op == NULL || c->op->n_args != c->n_args || c->op->prepare == NULL) abort();
}

static void release(call *c) {
  for (size_t i = 0; i < c->n_tensors; i++) free(c->blocks[i]);
}

static size_t requested(const call *c) {
  et_arena arena = eti_arena_counting();
  et_prepare_ctx ctx = {.n_threads = 1, .measuring = true, .arena = &arena};
  return c->op->prepare(&ctx, c->args) == ET_OK ? ctx.scratch_bytes : 0;
}

static et_status run_with(const call *c, size_t bytes, et_error *err) {
  void *const scratch = bytes == 0 ? NULL : aligned_alloc(64, bytes);
  et_kernel_ctx ctx = {.err = err, .scratch = scratch, .scratch_bytes = bytes};
  const et_status status = c->op->run(&ctx, c->args);
  free(scratch);
  return status;
}

// Runs with no scratch, some of it and all: the message of the first run has the part.
static void expect_refusals(call *c, const char *part) {
  et_error err = {.status = ET_OK};
  const size_t all = (requested(c) + 63) / 64 * 64, step = (all / 64 + 63) / 64 * 64;
  EXPECT(all > 0);
  EXPECT(run_with(c, 0, &err) == ET_OUT_OF_RESOURCES);
  EXPECT_ERROR(&err, ET_OUT_OF_RESOURCES, part);
  EXPECT_ERROR(&err, ET_OUT_OF_RESOURCES, "bytes of scratch, got 0; prepare requests them");
  bool runs = false;
  for (size_t bytes = 64; bytes < all; bytes += step) {
    const et_status status = run_with(c, bytes, &err);
    EXPECT(status == ET_OK || (!runs && status == ET_OUT_OF_RESOURCES));
    runs |= status == ET_OK;
  }
  EXPECT(run_with(c, all, &err) == ET_OK);
}

static void transforms_of_long_lines_name_the_bytes(void) {
  static const int32_t sizes[] = {8192};
  call c = {.op = NULL};
  c.dim = of_int(0);
  c.dims[0] = &c.dim;
  add_tensor(&c, ET_C64, 1, sizes);
  add(&c, (et_value){.tag = ET_INT_LIST, .n = 1, .as.list = c.dims});
  add(&c, of_int(0));
  add(&c, of_bool(true));
  add_tensor(&c, ET_C64, 1, sizes);
  end(&c, "aten::_fft_c2c.out", 4);
  c.tensors[0].t.flags = ET_TENSOR_DYNAMIC;  // so that its tables are in scratch, too
  expect_refusals(&c, "fft: lines of 8192: expected ");
  release(&c);
}

static void transforms_of_two_dimensions_name_the_bytes_between_them(void) {
  static const int32_t from[] = {64, 65}, to[] = {64, 128};
  call c = {.op = NULL};
  et_value dims[] = {of_int(0), of_int(1)}, *list[] = {&dims[0], &dims[1]};
  add_tensor(&c, ET_C64, 2, from);
  add(&c, (et_value){.tag = ET_INT_LIST, .n = 2, .as.list = list});
  add(&c, of_int(0));
  add(&c, of_int(128));
  add_tensor(&c, ET_F32, 2, to);
  end(&c, "aten::_fft_c2r.out", 4);
  expect_refusals(&c, "fft: several dimensions: expected 33280 bytes");
  release(&c);
}

static void large_matrices_name_the_bytes(void) {
  static const int32_t sizes[] = {64, 64};
  call c = {.op = NULL};
  add_tensor(&c, ET_F64, 2, sizes);
  for (size_t i = 0; i < 64; i++) ((double *)c.tensors[0].t.data)[i * 65] = 2.0;
  add(&c, of_bool(true));
  add_tensor(&c, ET_F64, 2, sizes);
  add_tensor(&c, ET_I32, 0, sizes);
  end(&c, "aten::linalg_inv_ex.inverse", 2);
  expect_refusals(&c, "matrices: expected ");
  release(&c);
}

static void attention_names_the_bytes(void) {
  static const int32_t sizes[] = {1, 2, 16, 8};
  call c = {.op = NULL};
  for (int i = 0; i < 3; i++) add_tensor(&c, ET_F32, 4, sizes);
  add(&c, none);
  add(&c, of_double(0.0));
  add(&c, of_bool(false));
  add(&c, none);
  add(&c, of_bool(false));
  add(&c, of_bool(false));
  add_tensor(&c, ET_F32, 4, sizes);
  end(&c, "executorch_py::scaled_dot_product_attention.out", 9);
  expect_refusals(&c, "attention: expected ");
  release(&c);
}

static void attention_over_a_cache_names_the_bytes(void) {
  static const int32_t queries[] = {1, 4, 2, 640}, keys[] = {1, 32, 2, 640};
  call c = {.op = NULL};
  add_tensor(&c, ET_F32, 4, queries);
  add_tensor(&c, ET_F32, 4, keys);
  add_tensor(&c, ET_F32, 4, keys);
  add(&c, of_int(7));
  add(&c, none);
  add(&c, of_double(0.0));
  add(&c, of_bool(true));
  add(&c, none);
  add_tensor(&c, ET_F32, 4, queries);
  end(&c, "llama::custom_sdpa.out", 8);
  expect_refusals(&c, "sdpa: expected ");
  release(&c);
}

static void hadamard_rows_of_halves_name_the_bytes(void) {
  static const int32_t sizes[] = {3, 256};
  call c = {.op = NULL};
  add_tensor(&c, ET_F16, 2, sizes);
  add_tensor(&c, ET_F16, 2, sizes);
  end(&c, "llama::fast_hadamard_transform.out", 1);
  expect_refusals(&c, "fast_hadamard_transform: expected 1024 bytes");
  release(&c);
}

// Fills a tensor's memory with halves of small integers, as f32 or bf16.
static void fill(const rig_tensor *t) {
  for (size_t i = 0; i < t->t.numel; i++) {
    const float x = (float)(int)(i * 7919 % 61) / 2.0f - 15.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    if (t->t.dtype == ET_F32) ((float *)t->t.data)[i] = x;
    if (t->t.dtype == ET_BF16) ((uint16_t *)t->t.data)[i] = half;
  }
}

// Runs without scratch, and with all: the bytes of the result, tensor i, are the same.
static void expect_same_without_scratch(call *c, size_t i) {
  et_error err = {.status = ET_OK};
  const et_tensor *const out = &c->tensors[i].t;
  const size_t bytes = out->numel * sizeof(float), all = (requested(c) + 63) / 64 * 64;
  void *const wanted = malloc(bytes);
  if (wanted == NULL) abort();
  for (size_t t = 0; t < i; t++) fill(&c->tensors[t]);
  const et_status with = run_with(c, all, &err);
  memcpy(wanted, out->data, bytes);
  memset(out->data, 255, bytes);
  const et_status without = run_with(c, 0, &err);
  const bool same = memcmp(wanted, out->data, bytes) == 0;
  free(wanted);
  EXPECT(all > 0 && with == ET_OK && without == ET_OK && same);
}

static void add_no_epilogue(call *c) {
  add(c, (et_value){.tag = ET_STRING, .as.string = ""});
  add(c, (et_value){.tag = ET_DOUBLE_LIST});
  add(c, (et_value){.tag = ET_TENSOR_LIST});
}

static void linear_layers_in_bf16_run_without_scratch(void) {
  static const int32_t rows[] = {3, 1201}, panels[] = {3, 601, 16, 2}, bias[] = {48},
                       out[] = {3, 35};
  call c = {.op = NULL};
  add_tensor(&c, ET_F32, 2, rows);
  add_tensor(&c, ET_BF16, 4, panels);
  add_tensor(&c, ET_F32, 1, bias);
  add(&c, of_int(35));
  add_no_epilogue(&c);
  add_tensor(&c, ET_F32, 2, out);
  end(&c, "executorch_py::linear_bf16.out", 7);
  expect_same_without_scratch(&c, 3);
  release(&c);
}

static void make_channels_last(rig_tensor *t) {
  static const uint8_t order[] = {0, 2, 3, 1};
  ptrdiff_t stride = 1;
  for (size_t i = 4; i-- > 0; stride *= t->t.sizes[order[i]]) {
    t->dim_order[i] = order[i];
    t->strides[order[i]] = stride;
  }
}

static void convolutions_in_bf16_run_without_scratch(void) {
  static const int32_t image[] = {1, 65, 6, 5}, panels[] = {2, 293, 16, 2}, bias[] = {32},
                       out[] = {1, 24, 6, 5};
  call c = {.op = NULL};
  et_value three = of_int(3), one = of_int(1);
  et_value *threes[] = {&three, &three}, *ones[] = {&one, &one};
  add_tensor(&c, ET_F32, 4, image);
  add_tensor(&c, ET_BF16, 4, panels);
  add_tensor(&c, ET_F32, 1, bias);
  add(&c, of_int(24));
  add(&c, (et_value){.tag = ET_INT_LIST, .n = 2, .as.list = threes});
  for (int i = 0; i < 3; i++) add(&c, (et_value){.tag = ET_INT_LIST, .n = 2, .as.list = ones});
  add_no_epilogue(&c);
  add_tensor(&c, ET_F32, 4, out);
  end(&c, "executorch_py::convolution_bf16.out", 11);
  make_channels_last(&c.tensors[0]);
  make_channels_last(&c.tensors[3]);
  expect_same_without_scratch(&c, 3);
  release(&c);
}

static const et_test tests[] = {
    ET_CASE(transforms_of_long_lines_name_the_bytes),
    ET_CASE(transforms_of_two_dimensions_name_the_bytes_between_them),
    ET_CASE(large_matrices_name_the_bytes),
    ET_CASE(attention_names_the_bytes),
    ET_CASE(attention_over_a_cache_names_the_bytes),
    ET_CASE(hadamard_rows_of_halves_name_the_bytes),
    ET_CASE(linear_layers_in_bf16_run_without_scratch),
    ET_CASE(convolutions_in_bf16_run_without_scratch),
};

ET_TEST_MAIN(tests)
