// norm.c — group and batch normalisation: one scale and shift per channel. Planes of channels are
// the groups of norm_stats.h. Channels-last pixels have their own loops, and their groups are
// transposed to planes for statistics. Relies on micro/rows/row_norm.h and micro/transpose.h.
#include "kernels/kernel.h"
#include "kernels/micro/transpose.h"
#include "kernels/lib/norm_stats.h"
#include "kernels/ops.h"

#include <math.h>

typedef struct channel_run {
  const eti_row_norm_micro *micro;
  const et_tensor *x, *out, *w, *b, *mean, *var, *save_mean, *save_rstd;
  eti_norm_group xs, os;  // of one image's channel (or one channel of all images)
  size_t channels, groups;
  double eps;
  const double *group_stats;  // mean and rstd of each group of the image at first_pixel, or NULL
  size_t first_pixel;
} channel_run;

static char *channel_at(const et_tensor *t, size_t n, size_t c) {
  return (char *)t->data + ((ptrdiff_t)n * t->strides[0] + (ptrdiff_t)c * t->strides[1]) *
                               (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static double channel_scale(const channel_run *r, size_t c, double *mean, double *shift) {
  if (r->group_stats != NULL) {
    const double *const known = r->group_stats + 2 * (c / (r->channels / r->groups));
    *mean = known[0];
    *shift = eti_norm_element(r->b, c, 0.0);
    return known[1] * eti_norm_element(r->w, c, 1.0);
  }
  *mean = eti_norm_element(r->mean, c, 0.0);
  *shift = eti_norm_element(r->b, c, 0.0);
  return eti_norm_element(r->w, c, 1.0) / sqrt(eti_norm_element(r->var, c, 0.0) + r->eps);
}

// Normalises images by whole planes: unit i is one channel of one image.
static void batch_planes(void *ctx, size_t begin, size_t end) {
  const channel_run *const r = ctx;
  for (size_t i = begin; i < end; i++) {
    const size_t n = i / r->channels, c = i % r->channels;
    double mean, shift;
    const double scale = channel_scale(r, c, &mean, &shift);
    eti_norm_group_affine(r->micro, &r->xs, channel_at(r->x, n, c), &r->os,
                          channel_at(r->out, n, c), mean, scale, shift);
  }
}

enum { BLOCK = ETI_ON_STACK(256, 48) };

// Parameters for channels-last pixels: those of up to BLOCK channels, repeated for each pixel of a
// block if channels are fewer.
typedef struct channel_block {
  _Alignas(64) char means[BLOCK * 8], scales[BLOCK * 8], shifts[BLOCK * 8];
  size_t channels, pixels;
} channel_block;

static void load_block(const channel_run *r, size_t c, channel_block *b) {
  const size_t es = r->micro->esize;
  const eti_cast_fn cast = eti_casts[ET_F64][r->micro->dtype];
  b->channels = r->channels - c < BLOCK ? r->channels - c : BLOCK;
  b->pixels = BLOCK / r->channels > 0 ? BLOCK / r->channels : 1;
  for (size_t i = 0; i < b->channels; i++) {
    double mean, shift;
    const double scale = channel_scale(r, c + i, &mean, &shift);
    for (size_t at = i; at < b->pixels * b->channels; at += b->channels) {
      cast(b->means + at * es, 8, &mean, 8, 1);
      cast(b->scales + at * es, 8, &scale, 8, 1);
      cast(b->shifts + at * es, 8, &shift, 8, 1);
    }
  }
}

// Normalises channels-last images, and rows of channels: unit i is a pixel with adjacent channels.
static void batch_pixels(void *ctx, size_t begin, size_t end) {
  const channel_run *const r = ctx;
  channel_block b;
  _Alignas(64) char room[BLOCK * 8];
  const uint8_t type = r->micro->dtype;
  const size_t es = r->micro->esize, bytes = et_dtype_bytes((et_dtype)r->x->dtype);
  for (size_t c = 0; c < r->channels; c += BLOCK) {
    load_block(r, c, &b);
    for (size_t pixel = begin; pixel < end; pixel += b.pixels) {
      const size_t n = (end - pixel < b.pixels ? end - pixel : b.pixels) * b.channels;
      const size_t at = ((r->first_pixel + pixel) * r->channels + c) * bytes;
      const char *const x = (const char *)r->x->data + at;
      char *const out = (char *)r->out->data + at;
      if (r->x->dtype == type) {
        r->micro->affine_each(out, x, b.means, b.scales, b.shifts, n);
        continue;
      }
      eti_casts[r->x->dtype][type](room, (ptrdiff_t)es, x, (ptrdiff_t)bytes, n);
      r->micro->affine_each(room, room, b.means, b.scales, b.shifts, n);
      eti_casts[type][r->x->dtype](out, (ptrdiff_t)bytes, room, (ptrdiff_t)es, n);
    }
  }
}

// True if the channels of every pixel are adjacent, one pixel after the other.
static bool is_pixels(const et_tensor *t, size_t area) {
  return (area == 1 && eti_is_contiguous(t)) || eti_is_channels_last(t);
}

// ---- group norm

static void group_rows(void *ctx, size_t begin, size_t end) {
  const channel_run *const r = ctx;
  const size_t per_group = r->channels / r->groups;
  eti_norm_group group = {.dtype = r->x->dtype, .numel = 1};
  eti_norm_group_add(&group, (int32_t)per_group, r->x->strides[1]);
  for (size_t d = 2; d < r->x->rank; d++)
    eti_norm_group_add(&group, r->x->sizes[d], r->x->strides[d]);
  for (size_t i = begin; i < end; i++) {
    const size_t n = i / r->groups, first = i % r->groups * per_group;
    const eti_norm_stats s = eti_norm_stats_of(r->micro, &group, channel_at(r->x, n, first));
    const double rstd = eti_rstd_of(&s, r->eps);
    for (size_t c = first; c < first + per_group; c++) {
      const double scale = rstd * eti_norm_element(r->w, c, 1.0),
                   shift = eti_norm_element(r->b, c, 0.0);
      eti_norm_group_affine(r->micro, &r->xs, channel_at(r->x, n, c), &r->os,
                            channel_at(r->out, n, c), s.mean, scale, shift);
    }
    eti_norm_set_element(r->save_mean, i, s.mean);
    eti_norm_set_element(r->save_rstd, i, rstd);
  }
}

// Channels-last images one by one: they are transposed to planes in the memory of their result, so
// that statistics add up in the usual order, then normalised from the original.
enum { MAX_GROUPS = ETI_ON_STACK(512, 32) };

typedef struct transposed_run {
  channel_run *r;
  size_t n, area, bytes;  // the image; its pixels; of an element
  char *planes;
  double stats[2 * MAX_GROUPS];
} transposed_run;

static void transpose_pixels(void *ctx, size_t begin, size_t end) {
  const transposed_run *const t = ctx;
  const size_t row = t->r->channels * t->bytes;
  eti_transpose(t->planes + begin * t->bytes, (ptrdiff_t)(t->area * t->bytes),
                (const char *)t->r->x->data + (t->r->first_pixel + begin) * row, (ptrdiff_t)row,
                end - begin, t->r->channels, t->bytes);
}

static void group_stats(void *ctx, size_t begin, size_t end) {
  transposed_run *const t = ctx;
  const channel_run *const r = t->r;
  const size_t n = r->channels / r->groups * t->area;
  const eti_norm_group group = {
      .dtype = r->x->dtype, .numel = n, .rank = 1, .sizes = {n}, .strides = {1}};
  for (size_t g = begin; g < end; g++) {
    const eti_norm_stats s = eti_norm_stats_of(r->micro, &group, t->planes + g * n * t->bytes);
    t->stats[2 * g] = s.mean;
    t->stats[2 * g + 1] = eti_rstd_of(&s, r->eps);
    eti_norm_set_element(r->save_mean, t->n * r->groups + g, s.mean);
    eti_norm_set_element(r->save_rstd, t->n * r->groups + g, t->stats[2 * g + 1]);
  }
}

static bool is_apart(const et_tensor *a, const et_tensor *b) {
  const size_t bytes = a->numel * et_dtype_bytes((et_dtype)a->dtype);
  const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return x < y ? y - x >= bytes : x - y >= bytes;
}

// False if images are not stored pixel by pixel, or the result overlaps. Not inlined: statistics of
// groups are on the stack for these images only.
static __attribute__((noinline)) bool run_transposed_groups(const et_kernel_ctx *ctx,
                                                            const channel_run *whole,
                                                            size_t n_images, size_t area) {
  const et_tensor *const x = whole->x, *const out = whole->out;
  if (area <= 1 || x->numel == 0 || whole->groups > MAX_GROUPS || !eti_is_channels_last(x) ||
      !eti_is_channels_last(out) || !is_apart(x, out))
    return false;
  channel_run r = *whole;
  transposed_run t = {.r = &r, .area = area, .bytes = et_dtype_bytes((et_dtype)x->dtype)};
  r.group_stats = t.stats;
  for (; t.n < n_images; t.n++, r.first_pixel += area) {
    t.planes = (char *)out->data + r.first_pixel * r.channels * t.bytes;
    et_parallel_for(ctx->pool, transpose_pixels, &t, area, 1 + 32768 / r.channels);
    et_parallel_for(ctx->pool, group_stats, &t, r.groups, 1);
    et_parallel_for(ctx->pool, batch_pixels, &r, area, 1 + 32768 / r.channels);
  }
  return true;
}

et_status op_native_group_norm_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_norm_args a;
  int64_t images = 0, channels = 0, area = 0, groups = 0;
  ET_TRY(eti_arg_int(ctx, args, 3, &images));
  ET_TRY(eti_arg_int(ctx, args, 4, &channels));
  ET_TRY(eti_arg_int(ctx, args, 5, &area));
  ET_TRY(eti_arg_int(ctx, args, 6, &groups));
  ET_TRY(eti_norm_read(ctx, args, 1, 7, "group_norm", &a));
  et_tensor *const x = a.x, *const out = a.out;
  ET_CHECK(x->rank >= 2 && x->sizes[0] == images && x->sizes[1] == channels &&
               (int64_t)eti_numel_range(x, 2, x->rank) == area,
           ctx->err, ET_INVALID_ARGUMENT,
           "group_norm: input: expected N %lld, C %lld, HxW %lld, got another shape of rank %d",
           (long long)images, (long long)channels, (long long)area, (int)x->rank);
  ET_CHECK(groups >= 1 && channels % groups == 0 && groups <= INT32_MAX, ctx->err,
           ET_INVALID_ARGUMENT, "group_norm: %lld channels do not divide into %lld groups",
           (long long)channels, (long long)groups);
  ET_TRY(eti_norm_check_vector(ctx, a.w, (size_t)channels, "group_norm", "weight"));
  ET_TRY(eti_norm_check_vector(ctx, a.b, (size_t)channels, "group_norm", "bias"));
  const eti_shape stat_shape = {.rank = 2, .sizes = {(int32_t)images, (int32_t)groups}};
  const eti_shape shape = eti_shape_of(x);
  ET_TRY(eti_resize(ctx, a.mean, &stat_shape));
  ET_TRY(eti_resize(ctx, a.rstd, &stat_shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(eti_same_shape(out, x), ctx->err, ET_INVALID_ARGUMENT,
           "group_norm: input is also the mean or rstd");
  channel_run r = {.micro = eti_norm_micro_of(x->dtype),
                   .x = x,
                   .out = out,
                   .w = a.w,
                   .b = a.b,
                   .save_mean = a.mean,
                   .save_rstd = a.rstd,
                   .channels = (size_t)channels,
                   .groups = (size_t)groups,
                   .eps = a.eps};
  eti_norm_group_of(&r.xs, x, eti_dims_from(2, x->rank));
  eti_norm_group_of(&r.os, out, eti_dims_from(2, x->rank));
  if (channels == 0 || run_transposed_groups(ctx, &r, (size_t)images, (size_t)area)) return ET_OK;
  et_parallel_for(ctx->pool, group_rows, &r, (size_t)(images * groups), 1);
  return ET_OK;
}

// ---- batch norm

static et_status run_batch_norm(const et_kernel_ctx *ctx, channel_run *r) {
  const et_tensor *const x = r->x;
  r->micro = eti_norm_micro_of(x->dtype);
  r->channels = (size_t)x->sizes[1];
  if (x->numel == 0) return ET_OK;
  const size_t n_images = (size_t)x->sizes[0], area = x->numel / (n_images * r->channels);
  eti_norm_group_of(&r->xs, x, eti_dims_from(2, x->rank));
  eti_norm_group_of(&r->os, r->out, eti_dims_from(2, x->rank));
  if (is_pixels(x, area) && is_pixels(r->out, area)) {
    et_parallel_for(ctx->pool, batch_pixels, r, n_images * area, 1 + 32768 / r->channels);
  } else {
    et_parallel_for(ctx->pool, batch_planes, r, n_images * r->channels, 1 + 32768 / area);
  }
  return ET_OK;
}

static et_status read_batch_norm(const et_kernel_ctx *ctx, et_value *const *args, size_t i_eps,
                                 channel_run *r) {
  eti_norm_args a;
  ET_TRY(eti_norm_read(ctx, args, 1, i_eps, "batch_norm", &a));
  ET_CHECK(a.x->rank >= 2, ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: input: expected rank 2 or more, got %d", (int)a.x->rank);
  ET_TRY(eti_norm_check_vector(ctx, a.w, (size_t)a.x->sizes[1], "batch_norm", "weight"));
  ET_TRY(eti_norm_check_vector(ctx, a.b, (size_t)a.x->sizes[1], "batch_norm", "bias"));
  r->x = a.x, r->w = a.w, r->b = a.b, r->out = a.out, r->save_mean = a.mean, r->save_rstd = a.rstd;
  r->eps = a.eps;
  return ET_OK;
}

static et_status resize_batch_norm(const et_kernel_ctx *ctx, et_value *const *args, size_t out_at,
                                   const channel_run *r, int32_t n_stats) {
  const eti_shape shape = eti_shape_of(r->x), stats_shape = {.rank = 1, .sizes = {n_stats}};
  et_tensor *out, *save_mean, *save_rstd;
  ET_TRY(eti_arg_tensor(ctx, args, out_at, &out));
  ET_TRY(eti_arg_tensor(ctx, args, out_at + 1, &save_mean));
  ET_TRY(eti_arg_tensor(ctx, args, out_at + 2, &save_rstd));
  ET_TRY(eti_resize(ctx, save_mean, &stats_shape));
  ET_TRY(eti_resize(ctx, save_rstd, &stats_shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  const et_tensor *const vectors[] = {r->w, r->b, r->mean, r->var};
  for (size_t i = 0; i < 4; i++)
    ET_TRY(eti_norm_check_vector(ctx, vectors[i], (size_t)shape.sizes[1], "batch_norm",
                                 "a parameter"));
  ET_CHECK(eti_same_shape(out, r->x), ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: input is also an output of statistics");
  return ET_OK;
}

static et_status read_running(const et_kernel_ctx *ctx, et_value *const *args, size_t at,
                              channel_run *r) {
  et_tensor *mean, *var;
  ET_TRY(eti_arg_tensor(ctx, args, at, &mean));
  ET_TRY(eti_arg_tensor(ctx, args, at + 1, &var));
  ET_TRY(eti_norm_check_vector(ctx, mean, (size_t)r->x->sizes[1], "batch_norm", "running_mean"));
  ET_TRY(eti_norm_check_vector(ctx, var, (size_t)r->x->sizes[1], "batch_norm", "running_var"));
  r->mean = mean, r->var = var;
  return ET_OK;
}

et_status op_native_batch_norm_legit_no_training_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  ET_TRY(read_batch_norm(ctx, args, 6, &r));
  ET_TRY(read_running(ctx, args, 3, &r));
  ET_TRY(resize_batch_norm(ctx, args, 7, &r, 0));
  return run_batch_norm(ctx, &r);
}

// Computes statistics of the batch itself; they also update the running ones with the given
// momentum.
static void train_channels(const channel_run *r, double momentum, bool keep_running) {
  eti_norm_group all = {.dtype = r->x->dtype, .numel = 1};
  for (size_t d = 0; d < r->x->rank; d++) {
    if (d != 1) eti_norm_group_add(&all, r->x->sizes[d], r->x->strides[d]);
  }
  eti_norm_group os = {.dtype = r->out->dtype, .numel = 1};
  for (size_t d = 0; d < r->x->rank; d++) {
    if (d != 1) eti_norm_group_add(&os, r->out->sizes[d], r->out->strides[d]);
  }
  for (size_t c = 0; c < (size_t)r->x->sizes[1]; c++) {
    const eti_norm_stats s = eti_norm_stats_of(r->micro, &all, channel_at(r->x, 0, c));
    const double rstd = eti_rstd_of(&s, r->eps), scale = rstd * eti_norm_element(r->w, c, 1.0);
    eti_norm_group_affine(r->micro, &all, channel_at(r->x, 0, c), &os, channel_at(r->out, 0, c),
                          s.mean, scale, eti_norm_element(r->b, c, 0.0));
    eti_norm_set_element(r->save_mean, c, s.mean);
    eti_norm_set_element(r->save_rstd, c, rstd);
    if (!keep_running) continue;
    const double n = (double)all.numel, unbiased = s.variance * n / (n - 1.0);
    eti_norm_set_element(r->mean, c,
                         momentum * s.mean + (1.0 - momentum) * eti_norm_element(r->mean, c, 0.0));
    eti_norm_set_element(r->var, c,
                         momentum * unbiased + (1.0 - momentum) * eti_norm_element(r->var, c, 0.0));
  }
}

et_status op_native_batch_norm_legit_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  bool training = false;
  double momentum = 0;
  ET_TRY(read_batch_norm(ctx, args, 7, &r));
  ET_TRY(read_running(ctx, args, 3, &r));
  ET_TRY(eti_arg_bool(ctx, args, 5, &training));
  ET_TRY(eti_arg_double(ctx, args, 6, &momentum));
  ET_TRY(resize_batch_norm(ctx, args, 8, &r, training ? r.x->sizes[1] : 0));
  if (!training) return run_batch_norm(ctx, &r);
  r.micro = eti_norm_micro_of(r.x->dtype);
  if (r.x->numel > 0) train_channels(&r, momentum, true);
  return ET_OK;
}

et_status op_native_batch_norm_legit_no_stats_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  bool training = false;
  ET_TRY(read_batch_norm(ctx, args, 5, &r));
  ET_TRY(eti_arg_bool(ctx, args, 3, &training));
  ET_CHECK(training, ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: training: expected True without running statistics, got False");
  ET_TRY(resize_batch_norm(ctx, args, 6, &r, r.x->sizes[1]));
  r.micro = eti_norm_micro_of(r.x->dtype);
  if (r.x->numel > 0) train_channels(&r, 0.0, false);
  return ET_OK;
}
