// backward.c — gradients: convolution_backward and max_pool2d_with_indices_backward.
// A convolution relates positions of a small image S and a large one L: l = s · stride - padding +
// tap · dilation, with weights [channels of S, channels of L / groups, taps]. In a forward
// convolution L is the input and S the output; in a transposed one it is the other way around. So
// two sums serve all input gradients and one serves the weights'. Each element is one sum in f64,
// in a fixed order. Relies on element.h. Any layout; training is rare on devices, so these are
// plain loops.
#include "kernels/lib/accumulate.h"
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/lib/strided_copy.h"

#include <string.h>

// ---- convolution

// An image; fewer than three spatial dimensions have leading ones of size 1.
typedef struct image {
  const et_tensor *t;
  int64_t sizes[3];
  ptrdiff_t steps[3];
} image;

typedef struct backward {
  image small, large, taps;                       // of the given values: S, L and the weight
  image out;                                      // the gradient computed now
  size_t groups, small_channels, large_channels;  // channels per group
  int64_t stride[3], padding[3], dilation[3];
  bool transposed;
} backward;

static image image_of(const et_tensor *t) {
  image im = {.t = t, .sizes = {1, 1, 1}};
  const size_t spatial = t->rank - 2u;
  for (size_t d = 0; d < spatial; d++) {
    im.sizes[3 - spatial + d] = t->sizes[2 + d];
    im.steps[3 - spatial + d] = t->strides[2 + d];
  }
  return im;
}

static ptrdiff_t offset_at(const image *im, size_t n, size_t channel, const int64_t at[3]) {
  ptrdiff_t place = (ptrdiff_t)n * im->t->strides[0] + (ptrdiff_t)channel * im->t->strides[1];
  for (size_t d = 0; d < 3; d++) place += (ptrdiff_t)at[d] * im->steps[d];
  return place;
}

// Splits a flat index over sizes into positions; returns the channel.
static size_t split_index(size_t i, const int64_t sizes[3], int64_t at[3]) {
  for (size_t d = 3; d-- > 0;) {
    at[d] = (int64_t)(i % (size_t)sizes[d]);
    i /= (size_t)sizes[d];
  }
  return i;
}

static size_t area_of(const image *im) {
  return (size_t)(im->sizes[0] * im->sizes[1] * im->sizes[2]);
}

// Finds the position in L of tap k of position s; false when outside.
static bool large_of(const backward *b, const int64_t s[3], const int64_t k[3], int64_t l[3]) {
  for (size_t d = 0; d < 3; d++) {
    l[d] = s[d] * b->stride[d] - b->padding[d] + k[d] * b->dilation[d];
    if (l[d] < 0 || l[d] >= b->large.sizes[d]) return false;
  }
  return true;
}

// Finds the position of S that reaches l with tap k; false when none does.
static bool small_of(const backward *b, const int64_t l[3], const int64_t k[3], int64_t s[3]) {
  for (size_t d = 0; d < 3; d++) {
    const int64_t from = l[d] + b->padding[d] - k[d] * b->dilation[d];
    if (from < 0 || from % b->stride[d] != 0) return false;
    s[d] = from / b->stride[d];
    if (s[d] >= b->small.sizes[d]) return false;
  }
  return true;
}

// Gradient of L; each item is one of its elements.
static void large_gradient(void *opaque, size_t begin, size_t end) {
  const backward *const b = opaque;
  const size_t taps = area_of(&b->taps), channels = b->large_channels * b->groups;
  for (size_t i = begin; i < end; i++) {
    int64_t l[3], k[3], s[3];
    const size_t rest = split_index(i, b->out.sizes, l), channel = rest % channels,
                 n = rest / channels;
    const size_t first = channel / b->large_channels * b->small_channels;
    double sum = 0.0;
    for (size_t t = 0; t < taps; t++) {
      split_index(t, b->taps.sizes, k);
      if (!small_of(b, l, k, s)) continue;
      for (size_t c = first; c < first + b->small_channels; c++) {
        sum += eti_load_f64(b->small.t, offset_at(&b->small, n, c, s)) *
               eti_load_f64(b->taps.t, offset_at(&b->taps, c, channel % b->large_channels, k));
      }
    }
    eti_store_f64(b->out.t, offset_at(&b->out, n, channel, l), sum);
  }
}

// Gradient of S; each item is one of its elements.
static void small_gradient(void *opaque, size_t begin, size_t end) {
  const backward *const b = opaque;
  const size_t taps = area_of(&b->taps), channels = b->small_channels * b->groups;
  for (size_t i = begin; i < end; i++) {
    int64_t l[3], k[3], s[3];
    const size_t rest = split_index(i, b->out.sizes, s), channel = rest % channels,
                 n = rest / channels;
    const size_t first = channel / b->small_channels * b->large_channels;
    double sum = 0.0;
    for (size_t t = 0; t < taps; t++) {
      split_index(t, b->taps.sizes, k);
      if (!large_of(b, s, k, l)) continue;
      for (size_t c = 0; c < b->large_channels; c++) {
        sum += eti_load_f64(b->large.t, offset_at(&b->large, n, first + c, l)) *
               eti_load_f64(b->taps.t, offset_at(&b->taps, channel, c, k));
      }
    }
    eti_store_f64(b->out.t, offset_at(&b->out, n, channel, s), sum);
  }
}

// Gradient of the weight; each item is one of its elements.
static void weight_gradient(void *opaque, size_t begin, size_t end) {
  const backward *const b = opaque;
  const size_t positions = area_of(&b->small), images = (size_t)b->small.t->sizes[0];
  for (size_t i = begin; i < end; i++) {
    int64_t l[3], k[3], s[3];
    const size_t rest = split_index(i, b->out.sizes, k), c_large = rest % b->large_channels,
                 c_small = rest / b->large_channels;
    const size_t channel = c_small / b->small_channels * b->large_channels + c_large;
    double sum = 0.0;
    for (size_t n = 0; n < images; n++) {
      for (size_t j = 0; j < positions; j++) {
        split_index(j, b->small.sizes, s);
        if (!large_of(b, s, k, l)) continue;
        sum += eti_load_f64(b->small.t, offset_at(&b->small, n, c_small, s)) *
               eti_load_f64(b->large.t, offset_at(&b->large, n, channel, l));
      }
    }
    eti_store_f64(b->out.t, offset_at(&b->out, c_small, c_large, k), sum);
  }
}

// Gradient of the bias; each item is a channel. `small` is the gradient of the output here.
static void bias_gradient(void *opaque, size_t begin, size_t end) {
  const backward *const b = opaque;
  const image *const y = &b->small;
  const size_t positions = area_of(y);
  for (size_t c = begin; c < end; c++) {
    double sum = 0.0;
    for (size_t n = 0; n < (size_t)y->t->sizes[0]; n++) {
      for (size_t j = 0; j < positions; j++) {
        int64_t at[3];
        split_index(j, y->sizes, at);
        sum += eti_load_f64(y->t, offset_at(y, n, c, at));
      }
    }
    eti_store_f64(b->out.t, (ptrdiff_t)c * b->out.t->strides[0], sum);
  }
}

static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           size_t spatial, const char *what, int64_t least, int64_t out[3]) {
  for (size_t d = 0; d < 3; d++) out[d] = least;
  return eti_arg_spatial(ctx, args, i, "convolution_backward", what, spatial, least, false, out);
}

static et_status check_images(const et_kernel_ctx *ctx, const et_tensor *grad, const et_tensor *x,
                              const et_tensor *w) {
  ET_CHECK(
      w->rank >= 3 && w->rank <= 5 && x->rank == w->rank && grad->rank == w->rank, ctx->err,
      ET_INVALID_ARGUMENT,
      "convolution_backward: expected rank 3, 4 or 5 for all, got gradient %d, input %d, weight %d",
      (int)grad->rank, (int)x->rank, (int)w->rank);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && grad->dtype == x->dtype &&
               w->dtype == x->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "convolution_backward: expected one floating-point type, got gradient %s, input %s, "
           "weight %s",
           et_dtype_name((et_dtype)grad->dtype), et_dtype_name((et_dtype)x->dtype),
           et_dtype_name((et_dtype)w->dtype));
  ET_CHECK(grad->sizes[0] == x->sizes[0], ctx->err, ET_INVALID_ARGUMENT,
           "convolution_backward: expected as many images of gradient as of input, got %d and %d",
           (int)grad->sizes[0], (int)x->sizes[0]);
  return ET_OK;
}

// Checks that channels agree, and that L is large enough for every tap of S.
static et_status check_geometry(const et_kernel_ctx *ctx, int64_t groups, backward *b) {
  const et_tensor *const w = b->taps.t, *const s = b->small.t, *const l = b->large.t;
  ET_CHECK(groups >= 1 && groups <= INT32_MAX && w->sizes[0] % groups == 0 &&
               s->sizes[1] == w->sizes[0] && l->sizes[1] == (int64_t)w->sizes[1] * groups,
           ctx->err, ET_INVALID_ARGUMENT,
           "convolution_backward: %d and %d channels of images do not match a weight of %d x %d "
           "channels in %lld groups",
           (int)s->sizes[1], (int)l->sizes[1], (int)w->sizes[0], (int)w->sizes[1],
           (long long)groups);
  b->groups = (size_t)groups;
  b->small_channels = (size_t)(w->sizes[0] / groups);
  b->large_channels = (size_t)w->sizes[1];
  for (size_t d = 0; d < 3; d++) {
    const int64_t reach = b->dilation[d] * (b->taps.sizes[d] - 1) + 1;
    const int64_t room = b->large.sizes[d] + 2 * b->padding[d] - reach;
    const int64_t size = room < 0 ? 0 : room / b->stride[d] + 1;
    ET_CHECK(b->taps.sizes[d] > 0 && b->small.sizes[d] == size, ctx->err, ET_INVALID_ARGUMENT,
             "convolution_backward: sizes %lld and %lld do not match kernel size %lld (padding "
             "%lld, stride %lld, dilation %lld)",
             (long long)b->small.sizes[d], (long long)b->large.sizes[d],
             (long long)b->taps.sizes[d], (long long)b->padding[d], (long long)b->stride[d],
             (long long)b->dilation[d]);
  }
  return ET_OK;
}

// Reads an output that output_mask requests, and resizes it; NULL if it does not. Programs have an
// empty tensor of u8 in the place of such an output.
static et_status read_out(const et_kernel_ctx *ctx, et_value *const *args, size_t i, bool wanted,
                          const et_tensor *x, const eti_shape *shape, et_tensor **out) {
  *out = NULL;
  if (!wanted) return ET_OK;
  ET_TRY(eti_arg_tensor(ctx, args, i, out));
  ET_TRY(eti_check_same_dtype(ctx, x, *out, "input and gradient"));
  return eti_resize(ctx, *out, shape);
}

static void run_gradient(const et_kernel_ctx *ctx, const backward *b, const et_tensor *out,
                         et_range_fn fn, size_t cost) {
  backward job = *b;
  job.out = out->rank >= 3 ? image_of(out) : (image){.t = out};
  if (out->numel > 0) et_parallel_for(ctx->pool, fn, &job, out->numel, 1 + 16384 / (cost + 1));
}

static et_status read_backward(const et_kernel_ctx *ctx, et_value *const *args, backward *b) {
  et_tensor *grad, *x, *w;
  int64_t groups, output_padding[3];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &grad));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &w));
  ET_TRY(check_images(ctx, grad, x, w));
  const size_t spatial = w->rank - 2u;
  ET_TRY(read_list(ctx, args, 4, spatial, "stride", 1, b->stride));
  ET_TRY(read_list(ctx, args, 5, spatial, "padding", 0, b->padding));
  ET_TRY(read_list(ctx, args, 6, spatial, "dilation", 1, b->dilation));
  ET_TRY(eti_arg_bool(ctx, args, 7, &b->transposed));
  ET_TRY(read_list(ctx, args, 8, spatial, "output_padding", 0, output_padding));
  ET_TRY(eti_arg_int(ctx, args, 9, &groups));
  b->small = image_of(b->transposed ? x : grad);
  b->large = image_of(b->transposed ? grad : x);
  b->taps = image_of(w);
  if (b->transposed) {  // no tap reaches the rows of output_padding
    for (size_t d = 0; d < 3; d++) {
      ET_CHECK(
          output_padding[d] == 0 || output_padding[d] < b->stride[d] ||
              output_padding[d] < b->dilation[d],
          ctx->err, ET_INVALID_ARGUMENT,
          "convolution_backward: output_padding: expected less than stride or dilation, got %lld",
          (long long)output_padding[d]);
      b->large.sizes[d] -= output_padding[d];
    }
  }
  ET_TRY(check_geometry(ctx, groups, b));
  if (b->transposed) b->large = image_of(grad);
  return ET_OK;
}

et_status op_convolution_backward_out(et_kernel_ctx *ctx, et_value *const *args) {
  backward b = {.groups = 1};
  bool mask[3];
  size_t n = 0;
  et_tensor *outs[3];
  ET_TRY(read_backward(ctx, args, &b));
  ET_TRY(eti_arg_bools(ctx, args, 10, mask, 3, &n));
  ET_CHECK(n == 3, ctx->err, ET_INVALID_ARGUMENT,
           "convolution_backward: output_mask: expected 3 entries, got %zu", n);
  const et_tensor *const grad = args[0]->as.tensor, *const x = args[1]->as.tensor,
                         *const w = args[2]->as.tensor;
  const eti_shape shapes[3] = {
      eti_shape_of(x), eti_shape_of(w), {.rank = 1, .sizes = {grad->sizes[1]}}};
  for (size_t i = 0; i < 3; i++) {
    ET_TRY(read_out(ctx, args, 11 + i, mask[i], x, &shapes[i], &outs[i]));
    ET_CHECK(outs[i] == NULL || (outs[i] != grad && outs[i] != x && outs[i] != w), ctx->err,
             ET_INVALID_ARGUMENT, "convolution_backward: output %zu is also an input", i);
  }
  if (outs[0] != NULL) {
    run_gradient(ctx, &b, outs[0], b.transposed ? small_gradient : large_gradient,
                 area_of(&b.taps) * (b.transposed ? b.large_channels : b.small_channels));
  }
  if (outs[1] != NULL)
    run_gradient(ctx, &b, outs[1], weight_gradient, area_of(&b.small) * (size_t)x->sizes[0]);
  if (outs[2] != NULL) {
    b.small = image_of(grad);
    run_gradient(ctx, &b, outs[2], bias_gradient, area_of(&b.small) * (size_t)x->sizes[0]);
  }
  return ET_OK;
}

// ---- max_pool2d

typedef struct unpool {
  const et_tensor *grad, *indices, *out;
} unpool;

static ptrdiff_t plane_of(const et_tensor *t, size_t i) {
  if (t->rank == 3) return (ptrdiff_t)i * t->strides[0];
  const size_t channels = (size_t)t->sizes[1];
  return (ptrdiff_t)(i / channels) * t->strides[0] + (ptrdiff_t)(i % channels) * t->strides[1];
}

// A row of n outputs: each adds its gradient at the index of its maximum, in ascending order. Steps
// are in elements; `in_rows`: a plane of the result is stored in the order of the indices.
typedef struct unpool_row {
  char *out;
  const char *grad;
  const int64_t *indices;
  ptrdiff_t grad_step, index_step;
  int64_t width, size;
  bool in_rows;
} unpool_row;

// Reads an index and checks it again, since memory may overlap; an invalid index adds nothing.
static inline bool read_index(const unpool_row *r, int32_t x, int64_t *at) {
  *at = r->indices[x * r->index_step];
  return *at >= 0 && *at < r->size;
}

static void unpool_f32(const unpool_row *r, int32_t n) {
  const float *const grad = (const float *)(const void *)r->grad;
  int64_t at;
  for (int32_t x = 0; x < n; x++) {
    if (read_index(r, x, &at)) ((float *)(void *)r->out)[at] += grad[x * r->grad_step];
  }
}

static void unpool_any(const unpool *u, const unpool_row *r, int32_t n) {
  const size_t rank = u->out->rank;
  const eti_accumulate_fn add = eti_accumulates[u->out->dtype];
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)u->out->dtype);
  int64_t at;
  for (int32_t x = 0; x < n; x++) {
    if (!read_index(r, x, &at)) continue;
    const ptrdiff_t to = r->in_rows ? (ptrdiff_t)at
                                    : (ptrdiff_t)(at / r->width) * u->out->strides[rank - 2] +
                                          (ptrdiff_t)(at % r->width) * u->out->strides[rank - 1];
    add(r->out + to * item, 0, r->grad + x * r->grad_step * item, 0, 1);
  }
}

// Each item is a plane.
static void unpool_planes(void *opaque, size_t begin, size_t end) {
  const unpool *const u = opaque;
  const size_t d = u->grad->rank - 2;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)u->out->dtype);
  const int32_t width = u->out->sizes[d + 1];
  unpool_row r = {.grad_step = u->grad->strides[d + 1],
                  .index_step = u->indices->strides[d + 1],
                  .width = width,
                  .size = (int64_t)u->out->sizes[d] * width,
                  .in_rows = u->out->strides[d + 1] == 1 && u->out->strides[d] == width};
  for (size_t i = begin; i < end; i++) {
    const ptrdiff_t grad = plane_of(u->grad, i), indices = plane_of(u->indices, i);
    r.out = (char *)u->out->data + plane_of(u->out, i) * item;
    if (r.in_rows) memset(r.out, 0, (size_t)r.size * (size_t)item);
    for (int32_t y = 0; y < u->grad->sizes[d]; y++) {
      r.grad = (const char *)u->grad->data + (grad + y * u->grad->strides[d]) * item;
      r.indices = (const int64_t *)u->indices->data + indices + y * u->indices->strides[d];
      if (r.in_rows && u->out->dtype == ET_F32) {
        unpool_f32(&r, u->grad->sizes[d + 1]);
      } else {
        unpool_any(u, &r, u->grad->sizes[d + 1]);
      }
    }
  }
}

static et_status check_unpool(const et_kernel_ctx *ctx, const et_tensor *grad, const et_tensor *x,
                              const et_tensor *indices, const et_tensor *out) {
  const char *const op = "max_pool2d_with_indices_backward";
  ET_CHECK((x->rank == 3 || x->rank == 4) && grad->rank == x->rank, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected rank 3 or 4 for both, got input %d and gradient %d", op, (int)x->rank,
           (int)grad->rank);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && grad->dtype == x->dtype &&
               out->dtype == x->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point type, got input %s, gradient %s, out %s", op,
           et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)grad->dtype),
           et_dtype_name((et_dtype)out->dtype));
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(indices->dtype == ET_I64 && eti_same_shape(indices, grad), ctx->err, ET_INVALID_ARGUMENT,
           "%s: indices: expected i64%s, the gradient's shape, got %s", op,
           eti_sizes_text(grad->sizes, grad->rank).text, eti_tensor_text(indices, found));
  ET_CHECK(out != grad && out != x && out != indices, ctx->err, ET_INVALID_ARGUMENT,
           "%s: out is also an input", op);
  for (size_t d = 0; d + 2 < x->rank; d++) {
    ET_CHECK(grad->sizes[d] == x->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "%s: gradient: dimension %zu: expected size %d, as input, got %d", op, d,
             (int)x->sizes[d], (int)grad->sizes[d]);
  }
  const int64_t size = (int64_t)x->sizes[x->rank - 2] * x->sizes[x->rank - 1];
  const int64_t *const data = indices->data;
  bool wrong = false;
  for (size_t i = 0; i < indices->numel; i++) wrong |= (uint64_t)data[i] >= (uint64_t)size;
  for (size_t i = 0; i < indices->numel && wrong; i++) {
    ET_CHECK(data[i] >= 0 && data[i] < size, ctx->err, ET_INVALID_ARGUMENT,
             "%s: index %lld is outside of a plane of %lld", op, (long long)data[i],
             (long long)size);
  }
  return ET_OK;
}

// Gradient of max_pool2d. The window's arguments are not read: the indices determine each maximum.
et_status op_max_pool2d_with_indices_backward_grad_input(et_kernel_ctx *ctx,
                                                         et_value *const *args) {
  et_tensor *grad, *x, *indices, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &grad));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 7, &indices));
  ET_TRY(eti_arg_tensor(ctx, args, 8, &out));
  ET_TRY(check_unpool(ctx, grad, x, indices, out));
  ET_TRY(eti_resize_like(ctx, out, x));
  if (out->numel == 0) return ET_OK;
  const size_t d = out->rank - 2;
  const bool in_rows = out->strides[d + 1] == 1 && out->strides[d] == out->sizes[d + 1];
  if (!in_rows || grad->numel == 0) memset(out->data, 0, et_tensor_bytes(out));
  if (grad->numel == 0) return ET_OK;
  const unpool u = {.grad = grad, .indices = indices, .out = out};
  const size_t plane = (size_t)grad->sizes[grad->rank - 1] * (size_t)grad->sizes[grad->rank - 2];
  et_parallel_for(ctx->pool, unpool_planes, (void *)(uintptr_t)&u, grad->numel / plane,
                  1 + 16384 / plane);
  return ET_OK;
}
