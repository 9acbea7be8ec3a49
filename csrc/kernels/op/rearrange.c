// rearrange.c — operators that move the elements of one tensor to other positions: flip, roll,
// tril, pixel_shuffle and pixel_unshuffle; and repeat_interleave, which gives indices. Each is a
// few strided copies, so layouts are free. Relies on copy_op.h and element.h.
#include "kernels/kernel.h"
#include "kernels/lib/element.h"
#include "kernels/lib/copy_op.h"

// ---- flip, roll

static et_status plan_flip(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                           const et_tensor *self, eti_copy_plan *plan) {
  int64_t dims[ET_MAX_RANK];
  size_t n = 0;
  uint32_t mask = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, dims, ET_MAX_RANK, &n));
  ET_TRY(eti_wrap_dims(ctx, dims, n, self->rank, false, &mask));
  eti_window view = eti_window_of(self);
  for (size_t d = 0; d < self->rank; d++) {
    if ((mask >> d & 1u) == 0 || self->sizes[d] == 0) continue;
    view.offset += (self->sizes[d] - 1) * view.strides[d];
    view.strides[d] = -view.strides[d];
  }
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_flip_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_flip);
}
et_status prepare_flip_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_flip);
}

static int64_t floor_mod(int64_t a, int64_t n) {
  const int64_t r = a % n;
  return r < 0 ? r + n : r;
}

// Copies the contiguous pieces of a roll: two for each rolled dimension, in all combinations.
static void roll_pieces(const et_kernel_ctx *ctx, const et_tensor *out, const void *src,
                        const eti_window *self, const int64_t *shift) {
  size_t rolled[ET_MAX_RANK], n = 0;
  for (size_t d = 0; d < self->shape.rank; d++) {
    if (shift[d] != 0) rolled[n++] = d;
  }
  for (uint32_t mask = 0; mask < (1u << n); mask++) {
    eti_window to = eti_window_of(out), from = *self;
    for (size_t i = 0; i < n; i++) {
      const size_t d = rolled[i];
      const int64_t size = self->shape.sizes[d], s = shift[d];
      const bool wraps = (mask >> i & 1u) != 0;
      const eti_slice dst = {.start = wraps ? 0 : s, .length = wraps ? s : size - s, .step = 1};
      const eti_slice origin = {.start = wraps ? size - s : 0, .length = dst.length, .step = 1};
      eti_window_slice(&to, d, &dst);
      eti_window_slice(&from, d, &origin);
    }
    eti_copy_windows(ctx->pool, out->data, &to, src, &from, et_dtype_bytes((et_dtype)out->dtype));
  }
}

et_status op_roll_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  int64_t shifts[ET_MAX_RANK], dims[ET_MAX_RANK], shift[ET_MAX_RANK] = {0};
  size_t n_shifts = 0, n_dims = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_ints(ctx, args, 1, shifts, ET_MAX_RANK, &n_shifts));
  ET_TRY(eti_arg_ints(ctx, args, 2, dims, ET_MAX_RANK, &n_dims));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_CHECK(n_shifts > 0 && (n_shifts == n_dims || (n_dims == 0 && n_shifts == 1)), ctx->err,
           ET_INVALID_ARGUMENT, "roll: expected as many shifts as dimensions, got %zu and %zu",
           n_shifts, n_dims);
  const eti_window view = eti_window_of(self);
  for (size_t i = 0; i < n_dims; i++) {
    size_t d = 0;
    ET_TRY(eti_wrap_dim(ctx, dims[i], self->rank, &d));
    const int64_t size = self->rank == 0 ? 1 : self->sizes[d];
    if (size > 0) shift[d] = (shift[d] + floor_mod(shifts[i], size)) % size;
  }
  ET_TRY(eti_resize(ctx, out, &view.shape));
  if (out->numel == 0) return ET_OK;
  if (n_dims == 0) {
    eti_copy_in_order(out, self, (size_t)floor_mod(shifts[0], (int64_t)self->numel));
  } else {
    roll_pieces(ctx, out, self->data, &view, shift);
  }
  return ET_OK;
}

// ---- tril

et_status op_tril_out(et_kernel_ctx *ctx, et_value *const *args) {
  static const char zero[16] = {0};
  et_tensor *self = NULL, *out = NULL;
  int64_t diagonal = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &diagonal));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_CHECK(self->rank >= 2, ctx->err, ET_INVALID_ARGUMENT, "tril: expected rank 2 or more, got %d",
           (int)self->rank);
  const eti_window view = eti_window_of(self);
  ET_TRY(eti_resize(ctx, out, &view.shape));
  if (out->numel == 0) return ET_OK;  // there may be billions of empty rows
  const size_t row_dim = view.shape.rank - 2, col_dim = row_dim + 1;
  const int64_t rows = view.shape.sizes[row_dim], cols = view.shape.sizes[col_dim];
  const int64_t k = diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal;
  const size_t bytes = et_dtype_bytes((et_dtype)out->dtype);
  for (int64_t i = 0; i < rows; i++) {  // row i of every matrix of the batch at once
    const int64_t kept = i + k + 1 < 0 ? 0 : i + k + 1 > cols ? cols : i + k + 1;
    const eti_slice row = {.start = i, .length = 1, .step = 1};
    const eti_slice low = {.start = 0, .length = kept, .step = 1};
    const eti_slice high = {.start = kept, .length = cols - kept, .step = 1};
    eti_window to = eti_window_of(out), from = view;
    eti_window_slice(&to, row_dim, &row);
    eti_window_slice(&from, row_dim, &row);
    eti_window zeroed = to;
    eti_window_slice(&to, col_dim, &low);
    eti_window_slice(&from, col_dim, &low);
    eti_window_slice(&zeroed, col_dim, &high);
    eti_copy_windows(ctx->pool, out->data, &to, self->data, &from, bytes);
    eti_fill_window(ctx->pool, out->data, &zeroed, zero, bytes);
  }
  return ET_OK;
}

// ---- pixel_shuffle: channels (c, i, j) become pixels (y·r + i, x·r + j); pixel_unshuffle is the
// inverse

typedef struct shuffle {
  size_t channel;  // dimension of channels; rows and columns follow
  int64_t r;
} shuffle;

static et_status shuffle_args(const et_kernel_ctx *ctx, et_value *const *args,
                              const et_tensor *self, shuffle *s) {
  ET_CHECK(self->rank >= 3, ctx->err, ET_INVALID_ARGUMENT,
           "pixel shuffle: expected rank 3 or more, got %d", (int)self->rank);
  ET_TRY(eti_arg_int(ctx, args, 1, &s->r));
  ET_CHECK(s->r > 0 && s->r <= INT16_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "pixel shuffle: factor: expected 1 or more, got %lld", (long long)s->r);
  s->channel = self->rank - 3u;
  return ET_OK;
}

// Axes of a shuffle: `deep` has the channels, `wide` the pixels; the plan's destination is wide
// when shuffling.
static void shuffle_axes(eti_copy_plan *plan, const eti_window *deep, const eti_window *wide,
                         const shuffle *s, bool to_wide) {
  const size_t c = s->channel;
  const ptrdiff_t r = (ptrdiff_t)s->r;
  const struct {
    size_t n;
    ptrdiff_t deep, wide;
  } axis[5] = {
      {(size_t)wide->shape.sizes[c], r * r * deep->strides[c], wide->strides[c]},
      {(size_t)r, r * deep->strides[c], wide->strides[c + 1]},
      {(size_t)r, deep->strides[c], wide->strides[c + 2]},
      {(size_t)deep->shape.sizes[c + 1], deep->strides[c + 1], r * wide->strides[c + 1]},
      {(size_t)deep->shape.sizes[c + 2], deep->strides[c + 2], r * wide->strides[c + 2]},
  };
  for (size_t d = 0; d < c; d++) {
    eti_plan_axis(plan, (size_t)deep->shape.sizes[d], (to_wide ? wide : deep)->strides[d],
                  (to_wide ? deep : wide)->strides[d]);
  }
  for (size_t i = 0; i < 5; i++) {
    eti_plan_axis(plan, axis[i].n, to_wide ? axis[i].wide : axis[i].deep,
                  to_wide ? axis[i].deep : axis[i].wide);
  }
  eti_plan_finish(plan);
}

static et_status plan_pixel_shuffle(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                    const et_tensor *self, eti_copy_plan *plan) {
  shuffle s;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(shuffle_args(ctx, args, self, &s));
  const eti_window deep = eti_window_of(self);
  eti_shape shape = deep.shape;
  int32_t *sizes = &shape.sizes[s.channel];
  ET_CHECK(sizes[0] % (s.r * s.r) == 0, ctx->err, ET_INVALID_ARGUMENT,
           "pixel_shuffle: expected a multiple of %lld squared channels, got %d", (long long)s.r,
           (int)sizes[0]);
  sizes[0] = (int32_t)(sizes[0] / (s.r * s.r));
  ET_TRY(eti_checked_size(ctx, sizes[1] * s.r, "pixel_shuffle", &sizes[1]));
  ET_TRY(eti_checked_size(ctx, sizes[2] * s.r, "pixel_shuffle", &sizes[2]));
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_window wide = eti_window_of(out);
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  shuffle_axes(plan, &deep, &wide, &s, true);
  return ET_OK;
}

et_status op_pixel_shuffle_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_pixel_shuffle);
}
et_status prepare_pixel_shuffle_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_pixel_shuffle);
}

static et_status plan_pixel_unshuffle(const et_kernel_ctx *ctx, et_value *const *args,
                                      et_tensor *out, const et_tensor *self, eti_copy_plan *plan) {
  shuffle s;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(shuffle_args(ctx, args, self, &s));
  const eti_window wide = eti_window_of(self);
  eti_shape shape = wide.shape;
  int32_t *sizes = &shape.sizes[s.channel];
  ET_CHECK(sizes[1] % s.r == 0 && sizes[2] % s.r == 0, ctx->err, ET_INVALID_ARGUMENT,
           "pixel_unshuffle: expected multiples of %lld as height and width, got %d and %d",
           (long long)s.r, (int)sizes[1], (int)sizes[2]);
  ET_TRY(eti_checked_size(ctx, sizes[0] * s.r * s.r, "pixel_unshuffle", &sizes[0]));
  sizes[1] = (int32_t)(sizes[1] / s.r);
  sizes[2] = (int32_t)(sizes[2] / s.r);
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_window deep = eti_window_of(out);
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  shuffle_axes(plan, &deep, &wide, &s, false);
  return ET_OK;
}

et_status op_pixel_unshuffle_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_pixel_unshuffle);
}
et_status prepare_pixel_unshuffle_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_pixel_unshuffle);
}

// ---- repeat_interleave: position i repeats repeats[i] times

et_status op_repeat_interleave_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *repeats = NULL, *out = NULL;
  bool has_size = false;
  int64_t size = 0, total = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &repeats));
  ET_TRY(eti_arg_optional_int(ctx, args, 1, &has_size, &size));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, repeats, out, "repeats and out"));
  ET_CHECK(repeats->rank == 1 && (repeats->dtype == ET_I64 || repeats->dtype == ET_I32) &&
               repeats != out,
           ctx->err, ET_INVALID_ARGUMENT,
           "repeat_interleave: repeats: expected i32 or i64 of rank 1, got %s of rank %d",
           et_dtype_name((et_dtype)repeats->dtype), (int)repeats->rank);
  for (size_t i = 0; i < repeats->numel; i++) {
    const int64_t n = eti_load_index(repeats, (ptrdiff_t)i);
    ET_CHECK(n >= 0 && n <= INT32_MAX - total, ctx->err, ET_INVALID_ARGUMENT,
             "repeat_interleave: repeats[%zu]: expected 0 to %lld, got %lld", i,
             (long long)(INT32_MAX - total), (long long)n);
    total += n;
  }
  ET_CHECK(!has_size || size == total, ctx->err, ET_INVALID_ARGUMENT,
           "repeat_interleave: output_size: expected %lld, the sum of repeats, got %lld",
           (long long)total, (long long)size);
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)total}};
  ET_TRY(eti_resize(ctx, out, &shape));
  int64_t at = 0;  // never past total, even where the memory of the two overlaps
  for (size_t i = 0; i < repeats->numel; i++) {
    for (int64_t n = eti_load_index(repeats, (ptrdiff_t)i); n > 0 && at < total; n--, at++) {
      if (out->dtype == ET_I64) {
        ((int64_t *)out->data)[at] = (int64_t)i;
      } else {
        ((int32_t *)out->data)[at] = (int32_t)i;
      }
    }
  }
  return ET_OK;
}
