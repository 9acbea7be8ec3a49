// embedding_groups.c — executorch_py::embedding_groups: look-up of rows of a table of numbers of 4
// bits (u8) or 8 bits (i8) with a scale, and perhaps a minimum, for each group of a row, packed as
// the weight of a linear layer is (micro/qgemm/qgemm_groups.h). A language model whose embedding
// and last layer share a table has it once in its file. Every index is checked before anything is
// written.
#include "kernels/kernel.h"
#include "kernels/lib/args.h"
#include "kernels/lib/qgemm_driver.h"
#include "kernels/micro/qgemm/qgemm_groups.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"
#include "runtime/half.h"

enum {
  NR = ETI_QGROUPS_NR,
  STEP = ETI_QGROUPS_STEP,
  HALF = STEP / 2,
  HALF_BYTES = NR * HALF,  // of a half of a step, of 8 bits
  SMALL = 16 * 1024,       // numbers that are not worth a second thread
};

// (weight, scales, zero_points?, minimums?, indices, group, width, rows, out)
enum { WEIGHT, SCALES, ZEROS, MINIMUMS, INDICES, GROUP, WIDTH, ROWS, OUT };

typedef struct table {
  const uint8_t *weight;
  size_t bits;                                   // of a number
  const et_tensor *scales, *minimums, *indices;  // minimums may be NULL
  const int8_t *zeros;                           // or NULL
  size_t rows, width, group, n_groups;
  float *out;
} table;

static int64_t index_at(const et_tensor *t, size_t i) {
  return t->dtype == ET_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

// Reads the table's tensors, checked against rows, width and group, which are set.
static et_status read_table(const et_kernel_ctx *ctx, et_value *const *args, table *t) {
  et_tensor *weight, *scales, *zeros, *minimums;
  const size_t columns = eti_div_up(t->rows, NR) * NR;
  size_t panel, n_bytes, n_numbers;
  ET_TRY(eti_arg_tensor(ctx, args, WEIGHT, &weight));
  t->bits = weight->dtype == ET_I8 ? 8 : 4;
  ET_TRY(eti_arg_tensor(ctx, args, SCALES, &scales));
  ET_TRY(eti_arg_optional_tensor(ctx, args, ZEROS, &zeros));
  ET_TRY(eti_arg_optional_tensor(ctx, args, MINIMUMS, &minimums));
  ET_CHECK(
      !__builtin_mul_overflow(eti_qgroups_group_bytes(t->group, t->bits), t->n_groups, &panel) &&
          !__builtin_mul_overflow(panel, columns / NR, &n_bytes) &&
          !__builtin_mul_overflow(columns, t->n_groups, &n_numbers),
      ctx->err, ET_INVALID_ARGUMENT, "a table of %zu x %zu numbers is too large", t->rows,
      t->width);
  ET_TRY(eti_check_elements(ctx, weight, "weight", n_bytes, ET_TYPES_U8 | ET_TYPES_I8, "u8 or i8"));
  ET_TRY(eti_check_elements(ctx, scales, "scales", n_numbers, ET_TYPES_F32 | ET_TYPES_HALF,
                            "f32, bf16 or f16"));
  if (zeros != NULL) {
    ET_TRY(eti_check_elements(ctx, zeros, "zero_points", n_numbers, ET_DTYPE_BIT(ET_I8), "i8"));
    t->zeros = zeros->data;
  }
  if (minimums != NULL) {
    ET_TRY(eti_check_elements(ctx, minimums, "minimums", n_numbers, ET_TYPES_F32 | ET_TYPES_HALF,
                              "f32, bf16 or f16"));
  }
  ET_TRY(eti_check_minimums(ctx, scales, zeros, minimums));
  t->minimums = minimums;
  t->weight = weight->data;
  t->scales = scales;
  return ET_OK;
}

static et_status check_indices(const et_kernel_ctx *ctx, const table *t) {
  const et_tensor *const indices = t->indices;
  ET_CHECK(eti_dtype_in((et_dtype)indices->dtype, ET_TYPES_INDEX) && indices->rank < ET_MAX_RANK &&
               eti_is_contiguous(indices),
           ctx->err, ET_INVALID_ARGUMENT,
           "indices: expected contiguous i32 or i64, got %s, rank %d",
           et_dtype_name((et_dtype)indices->dtype), (int)indices->rank);
  for (size_t i = 0; i < indices->numel; i++) {
    const int64_t row = index_at(indices, i);
    ET_CHECK(row >= 0 && (uint64_t)row < t->rows, ctx->err, ET_INVALID_ARGUMENT,
             "index %lld at position %zu is outside of a table of %zu rows", (long long)row, i,
             t->rows);
  }
  return ET_OK;
}

static float number_at(const et_tensor *t, size_t i) {
  if (t->dtype == ET_F32) return ((const float *)t->data)[i];
  const uint16_t half = ((const uint16_t *)t->data)[i];
  return t->dtype == ET_BF16 ? eti_bf16_to_f32(half) : eti_f16_to_f32(half);
}

// Term i of a step, whose half 0 of the row begins at `bytes`, as a signed code or with 8 added.
static int code_at(const uint8_t *bytes, size_t bits, size_t i) {
  if (bits == 8) return (int8_t)bytes[i / HALF * HALF_BYTES + i % HALF];
  return i < HALF ? bytes[i] & 15 : bytes[i - HALF] >> 4;
}

// Dequantizes group g of a row.
static void widen_group(const table *t, size_t row, size_t g, float *to) {
  const size_t panel = row / NR, column = row % NR, at = (panel * t->n_groups + g) * NR + column;
  const size_t group_bytes = eti_qgroups_group_bytes(t->group, t->bits);
  const uint8_t *bytes = t->weight + (panel * t->n_groups + g) * group_bytes + column * HALF;
  const bool has_min = t->minimums != NULL;
  const float scale = number_at(t->scales, at), min = has_min ? number_at(t->minimums, at) : 0;
  const int less = t->bits == 4 && !has_min ? 8 : 0;
  const int zero = less + (t->zeros == NULL ? 0 : t->zeros[at]);
  for (size_t k = 0; k < t->group; k += STEP, bytes += eti_qgroups_step_bytes(t->bits)) {
    for (size_t i = 0; i < STEP && k + i < t->group; i++) {
      to[k + i] = (float)(code_at(bytes, t->bits, i) - zero) * scale;
    }
  }
  for (size_t k = 0; k < t->group && has_min; k++) to[k] += min;
}

static void look_up_rows(void *ctx, size_t begin, size_t end) {
  const table *const t = ctx;
  for (size_t i = begin; i < end; i++) {
    int64_t row = index_at(t->indices, i);
    // Indices were checked before, but memory that overlaps the output may have changed since.
    if (row < 0 || (uint64_t)row >= t->rows) row = 0;
    for (size_t g = 0; g < t->n_groups; g++) {
      widen_group(t, (size_t)row, g, t->out + i * t->width + g * t->group);
    }
  }
}

et_status op_embedding_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *indices, *out;
  int64_t group, width, rows;
  ET_TRY(eti_arg_tensor(ctx, args, INDICES, &indices));
  ET_TRY(eti_arg_int(ctx, args, GROUP, &group));
  ET_TRY(eti_arg_int(ctx, args, WIDTH, &width));
  ET_TRY(eti_arg_int(ctx, args, ROWS, &rows));
  ET_TRY(eti_arg_tensor(ctx, args, OUT, &out));
  ET_CHECK(rows >= 0 && rows <= INT32_MAX && width >= 0 && width <= INT32_MAX && group >= 1 &&
               width % group == 0,
           ctx->err, ET_INVALID_ARGUMENT,
           "expected 0 rows or more, and groups that divide the width, got %lld rows of %lld in "
           "groups of %lld",
           (long long)rows, (long long)width, (long long)group);
  table t = {.indices = indices,
             .rows = (size_t)rows,
             .width = (size_t)width,
             .group = (size_t)group,
             .n_groups = (size_t)(width / group)};
  ET_TRY(read_table(ctx, args, &t));
  ET_TRY(check_indices(ctx, &t));
  eti_shape shape = eti_shape_of(indices);
  shape.sizes[shape.rank++] = (int32_t)width;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(out->dtype == ET_F32 && eti_is_contiguous(out), ctx->err, ET_INVALID_ARGUMENT,
           "out: expected contiguous f32, got %s", et_dtype_name((et_dtype)out->dtype));
  t.out = out->data;
  et_parallel_for(ctx->pool, look_up_rows, &t, indices->numel, SMALL / (t.width + 1) + 1);
  return ET_OK;
}
