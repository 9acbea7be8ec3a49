// quantized_embedding.c — look-up of rows of a table of 8-, 4- or 2-bit numbers, dequantized with
// one scale for each row or for each group of a row. The low bits of a byte come first in 2-bit
// tables, the high ones in 4-bit tables; packed numbers are stored with their minimum added. Relies
// on shape.h and cast.h. Every index is checked before anything is written.
#include "kernels/kernel.h"
#include "kernels/ops.h"

enum { BLOCK = 64 };  // numbers dequantized at a time: whole bytes

typedef struct lookup {
  const et_tensor *weight, *scales, *zeros, *indices, *out;
  int bits;
  size_t width, group;  // numbers of a row, and of a group
} lookup;

static int64_t index_at(const et_tensor *t, size_t i) {
  return t->dtype == ET_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static float number_at(const et_tensor *t, size_t i) {
  float x;
  const size_t bytes = et_dtype_bytes((et_dtype)t->dtype);
  eti_casts[t->dtype][ET_F32](&x, 0, (const char *)t->data + i * bytes, 0, 1);
  return x;
}

// Reads n columns of a row, from `first` on, as whole numbers.
static void unpack_columns(const lookup *l, size_t row, size_t first, size_t n, float *to) {
  const size_t at = row * (size_t)l->weight->sizes[1];
  const uint8_t *const bytes = (const uint8_t *)l->weight->data + at;
  if (l->weight->dtype == ET_I8) {
    const int8_t *const q = (const int8_t *)l->weight->data + at + first;
    for (size_t i = 0; i < n; i++) to[i] = (float)q[i];
  } else if (l->bits == 8) {
    for (size_t i = 0; i < n; i++) to[i] = (float)bytes[first + i];
  } else if (l->bits == 4 && first % 2 == 0 && n % 2 == 0) {
    for (size_t i = 0; i < n; i += 2) {
      const unsigned pair = bytes[(first + i) / 2];
      to[i] = (float)((int)(pair >> 4) - 8);
      to[i + 1] = (float)((int)(pair & 15u) - 8);
    }
  } else {
    for (size_t i = 0; i < n; i++) {
      const size_t c = first + i;
      const unsigned byte = bytes[l->bits == 4 ? c / 2 : c / 4];
      to[i] = l->bits == 4 ? (float)((int)(c % 2 == 0 ? byte >> 4 : byte & 15u) - 8)
                           : (float)((int)(byte >> 2 * (c % 4) & 3u) - 2);
    }
  }
}

// Dequantizes one group of a row, with `first` its first column, into the output's row at `to`.
static void widen_group(const lookup *l, size_t row, size_t first, char *to) {
  const eti_cast_fn store = eti_casts[ET_F32][l->out->dtype];
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)l->out->dtype);
  const size_t at = row * (l->width / l->group) + first / l->group;
  const float scale = number_at(l->scales, at);
  const float zero = l->zeros == NULL ? 0.0f : number_at(l->zeros, at);
  float block[BLOCK];
  for (size_t i = 0; i < l->group; i += BLOCK) {
    const size_t n = l->group - i < BLOCK ? l->group - i : BLOCK;
    unpack_columns(l, row, first + i, n, block);
    for (size_t k = 0; k < n; k++) block[k] = (block[k] - zero) * scale;
    store(to + (ptrdiff_t)(first + i) * bytes, bytes, block, sizeof *block, n);
  }
}

static void look_up_rows(void *ctx, size_t begin, size_t end) {
  const lookup *const l = ctx;
  const size_t row_bytes = l->width * et_dtype_bytes((et_dtype)l->out->dtype);
  for (size_t i = begin; i < end; i++) {
    int64_t row = index_at(l->indices, i);
    // Indices were checked before, but memory that overlaps the output may have changed since.
    if (row < 0 || row >= l->weight->sizes[0]) row = 0;
    for (size_t first = 0; first < l->width; first += l->group)
      widen_group(l, (size_t)row, first, (char *)l->out->data + i * row_bytes);
  }
}

static et_status check_table(const et_kernel_ctx *ctx, lookup *l) {
  const et_tensor *const w = l->weight, *const s = l->scales, *const z = l->zeros;
  ET_CHECK(w->rank == 2 && (w->dtype == ET_U8 || (w->dtype == ET_I8 && l->bits == 8)), ctx->err,
           ET_INVALID_ARGUMENT, "weight: expected a table of bytes, got %s of rank %d",
           et_dtype_name((et_dtype)w->dtype), (int)w->rank);
  l->width = (size_t)w->sizes[1] * (8u / (size_t)l->bits);
  ET_CHECK((s->rank == 1 || s->rank == 2) && s->sizes[0] == w->sizes[0], ctx->err,
           ET_INVALID_ARGUMENT,
           "scales: expected one row for each of the %d rows of weight, got rank %d",
           (int)w->sizes[0], (int)s->rank);
  const size_t groups = s->rank == 2 ? (size_t)s->sizes[1] : 1;
  ET_CHECK(groups > 0 && l->width % groups == 0 && (z == NULL || eti_same_shape(s, z)), ctx->err,
           ET_INVALID_ARGUMENT,
           "rows of %zu numbers do not divide into %zu groups, or zero points have another shape "
           "than scales",
           l->width, groups);
  l->group = l->width / groups;
  static const char *const names[] = {"weight", "scales", "indices", "zero_points"};
  const et_tensor *const all[] = {w, s, l->indices, z};
  for (size_t i = 0; i < (z == NULL ? 3u : 4u); i++) {
    ET_TRY(eti_check_contiguous(ctx, all[i], ET_NOT_SUPPORTED, names[i]));
    ET_CHECK(all[i] != l->out, ctx->err, ET_NOT_SUPPORTED, "out is also %s", names[i]);
  }
  return ET_OK;
}

static et_status check_indices(const et_kernel_ctx *ctx, const lookup *l) {
  const et_tensor *const t = l->indices;
  ET_CHECK(eti_dtype_in((et_dtype)t->dtype, ET_TYPES_INDEX) && t->rank < ET_MAX_RANK, ctx->err,
           ET_INVALID_ARGUMENT, "indices: expected i32 or i64, got %s of rank %d",
           et_dtype_name((et_dtype)t->dtype), (int)t->rank);
  for (size_t i = 0; i < t->numel; i++) {
    const int64_t row = index_at(t, i);
    ET_CHECK(row >= 0 && row < l->weight->sizes[0], ctx->err, ET_INVALID_ARGUMENT,
             "index %lld at position %zu is outside of a table of %d rows", (long long)row, i,
             (int)l->weight->sizes[0]);
  }
  return ET_OK;
}

// (weight, scales, zero_points?, quant_min, quant_max, indices, [dtype,] out); the output has the
// requested type.
static et_status look_up(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out, int bits) {
  et_tensor *weight, *scales, *zeros, *indices, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &weight));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &scales));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &zeros));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &indices));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  lookup l = {weight, scales, zeros, indices, out, bits, 0, 0};
  ET_TRY(check_table(ctx, &l));
  ET_TRY(check_indices(ctx, &l));
  ET_CHECK(eti_dtype_in((et_dtype)scales->dtype, ET_TYPES_FLOAT_HALF) &&
               eti_dtype_in((et_dtype)out->dtype, ET_TYPES_FLOAT_HALF) &&
               (zeros == NULL || eti_dtype_in((et_dtype)zeros->dtype, ET_TYPES_REAL_HALF)),
           ctx->err, ET_NOT_SUPPORTED, "not defined for scales of %s and output of %s",
           et_dtype_name((et_dtype)scales->dtype), et_dtype_name((et_dtype)out->dtype));
  eti_shape shape = eti_shape_of(indices);
  shape.sizes[shape.rank++] = (int32_t)l.width;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_contiguous(ctx, out, ET_NOT_SUPPORTED, "out"));
  if (out->numel > 0)
    et_parallel_for(ctx->pool, look_up_rows, &l, indices->numel, 1 + 4096 / (l.width + 1));
  return ET_OK;
}

et_status op_embedding_byte_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 6, 8);
}
et_status op_embedding_byte_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 7, 8);
}
et_status op_embedding_4bit_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 6, 4);
}
et_status op_embedding_4bit_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 7, 4);
}
et_status op_embedding_2bit_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 6, 2);
}
et_status op_embedding_2bit_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  return look_up(ctx, args, 7, 2);
}
