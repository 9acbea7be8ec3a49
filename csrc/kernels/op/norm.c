// norm.c — layer, group and batch normalisation.
// Everything is a walk over slabs: the elements that share statistics, or share scale and shift, in
// their logical order. A slab is read in chunks, straight from memory when it lies in a row in the
// type we compute in (f32, or f64 for f64), else through a cast. Mean first, then the squares of
// the differences, each chunk summed as micro/norm.h says, chunks added in f64.
#include "kernels/kernel.h"
#include "kernels/micro/norm.h"
#include "kernels/micro/transpose.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1024 };

static const eti_norm_micro *micro_of(uint8_t dtype) {
  return eti_norm_micro_best(dtype == ET_F64 ? ETI_NORM_F64 : ETI_NORM_F32);
}

// ---- slabs

typedef struct slab {
  uint8_t dtype;
  size_t numel, rank;
  size_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];  // in elements
} slab;

static void slab_add(slab *s, int32_t size, ptrdiff_t stride) {
  if (size == 1) return;
  s->numel *= (size_t)size;
  if (s->rank > 0 &&
      s->strides[s->rank - 1] == stride * size) {  // merges with the dimension outside it
    s->sizes[s->rank - 1] *= (size_t)size;
    s->strides[s->rank - 1] = stride;
    return;
  }
  s->sizes[s->rank] = (size_t)size;
  s->strides[s->rank++] = stride;
}

// Dimensions whose bit is set, outermost first.
static slab slab_of(const et_tensor *t, uint32_t dims) {
  slab s = {.dtype = t->dtype, .numel = 1};
  for (size_t d = 0; d < t->rank; d++) {
    if ((dims >> d & 1u) != 0) slab_add(&s, t->sizes[d], t->strides[d]);
  }
  return s;
}

static bool slab_is_row(const slab *s) {
  return s->rank == 0 || (s->rank == 1 && s->strides[0] == 1);
}

// Casts elements [first, first + n) of a slab to (or from) n adjacent ones.
static void slab_cast(const slab *s, char *base, size_t first, size_t n, uint8_t type, void *row,
                      bool reading) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)s->dtype),
                  row_es = (ptrdiff_t)et_dtype_bytes((et_dtype)type);
  const eti_cast_fn cast = reading ? eti_casts[s->dtype][type] : eti_casts[type][s->dtype];
  const size_t inner = s->rank == 0 ? 1 : s->sizes[s->rank - 1];
  const ptrdiff_t step = s->rank == 0 ? 1 : s->strides[s->rank - 1];
  for (size_t done = 0; done < n;) {
    size_t rest = (first + done) / inner;
    const size_t at = (first + done) % inner, count = inner - at < n - done ? inner - at : n - done;
    ptrdiff_t offset = (ptrdiff_t)at * step;
    for (size_t d = s->rank == 0 ? 0 : s->rank - 1; d-- > 0;) {
      offset += (ptrdiff_t)(rest % s->sizes[d]) * s->strides[d];
      rest /= s->sizes[d];
    }
    char *const there = base + offset * es, *const here = (char *)row + (ptrdiff_t)done * row_es;
    if (reading) {
      cast(here, row_es, there, step * es, count);
    } else {
      cast(there, step * es, here, row_es, count);
    }
    done += count;
  }
}

// The chunk as a row of the micro's type: in place, or copied to `room`.
static const void *chunk_in(const eti_norm_micro *micro, const slab *s, const char *base,
                            size_t first, size_t n, void *room) {
  if (s->dtype == micro->dtype && slab_is_row(s)) return base + first * micro->esize;
  slab_cast(s, (char *)(uintptr_t)base, first, n, micro->dtype, room, true);
  return room;
}

static size_t chunk_size(size_t numel, size_t first) {
  return numel - first < CHUNK ? numel - first : CHUNK;
}

typedef struct stats {
  double mean, variance;  // variance without correction
} stats;

static stats stats_of(const eti_norm_micro *micro, const slab *s, const char *base) {
  _Alignas(64) char room[CHUNK * 8];
  double sum = 0, squares = 0;
  for (size_t i = 0; i < s->numel; i += CHUNK) {
    const size_t n = chunk_size(s->numel, i);
    sum += micro->sum(chunk_in(micro, s, base, i, n, room), n);
  }
  const double mean = sum / (double)s->numel;
  for (size_t i = 0; i < s->numel; i += CHUNK) {
    const size_t n = chunk_size(s->numel, i);
    squares += micro->squares(chunk_in(micro, s, base, i, n, room), mean, n);
  }
  // The mean was rounded for the differences; what that adds to their squares is taken back.
  const double rounded = micro->dtype == ET_F32 ? (double)(float)mean : mean,
               error = mean - rounded;
  return (stats){.mean = mean, .variance = squares / (double)s->numel - error * error};
}

static double rstd_of(const stats *s, double eps) {
  return 1.0 / sqrt(s->variance + eps);
}

static double element(const et_tensor *t, size_t i, double absent) {
  double value = absent;
  if (t != NULL) {
    const size_t es = et_dtype_bytes((et_dtype)t->dtype);
    eti_casts[t->dtype][ET_F64](&value, 8, (const char *)t->data + i * es, (ptrdiff_t)es, 1);
  }
  return value;
}

static void set_element(const et_tensor *t, size_t i, double value) {
  if (t->dtype == ET_F32 && i < t->numel) {
    ((float *)t->data)[i] = (float)value;
    return;
  }
  const size_t es = et_dtype_bytes((et_dtype)t->dtype);
  if (i < t->numel)
    eti_casts[ET_F64][t->dtype]((char *)t->data + i * es, (ptrdiff_t)es, &value, 8, 1);
}

// out = (x − mean) · scale + shift over one slab.
static void affine_slab(const eti_norm_micro *micro, const slab *xs, const char *x, const slab *os,
                        char *out, double mean, double scale, double shift) {
  _Alignas(64) char room[CHUNK * 8];
  const bool direct = os->dtype == micro->dtype && slab_is_row(os);
  const size_t step = direct && xs->dtype == micro->dtype && slab_is_row(xs) ? xs->numel : CHUNK;
  for (size_t i = 0; i < xs->numel; i += step) {
    const size_t n = xs->numel - i < step ? xs->numel - i : step;
    const void *in = chunk_in(micro, xs, x, i, n, room);
    void *const to = direct ? out + i * micro->esize : room;
    micro->affine(to, in, mean, scale, shift, n);
    if (!direct) slab_cast(os, out, i, n, micro->dtype, room, false);
  }
}

static et_status check_input(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *out,
                             const char *op) {
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && x->dtype == out->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: input is %s and out %s, needs one floating-point dtype", op,
           et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

// A parameter of one entry per channel, or absent.
static et_status check_vector(const et_kernel_ctx *ctx, const et_tensor *t, size_t n,
                              const char *op, const char *what) {
  ET_CHECK(t == NULL || (t->rank == 1 && (size_t)t->sizes[0] == n &&
                         eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF)),
           ctx->err, ET_INVALID_ARGUMENT, "%s: %s is not a floating-point vector of %zu", op, what,
           n);
  return ET_OK;
}

// ---- layer norm

typedef struct layer_run {
  const eti_norm_micro *micro;
  slab x, out, w, b, rows;  // rows: the dimensions that number the slabs, in x
  slab out_rows;
  const char *x_data, *w_data, *b_data;
  char *out_data;
  const et_tensor *mean, *rstd;
  double eps;
} layer_run;

static ptrdiff_t slab_offset(const slab *s, size_t i) {
  ptrdiff_t offset = 0;
  if (s->rank == 1)  // spares the divisions
    return (ptrdiff_t)i * s->strides[0] * (ptrdiff_t)et_dtype_bytes((et_dtype)s->dtype);
  for (size_t d = s->rank; d-- > 0;) {
    offset += (ptrdiff_t)(i % s->sizes[d]) * s->strides[d];
    i /= s->sizes[d];
  }
  return offset * (ptrdiff_t)et_dtype_bytes((et_dtype)s->dtype);
}

// One row of several chunks, which are read again for every use.
static void long_row(const layer_run *r, const char *x, char *out, stats *s) {
  const eti_norm_micro *const micro = r->micro;
  _Alignas(64) char x_room[CHUNK * 8], w_room[CHUNK * 8 / 2], b_room[CHUNK * 8 / 2];
  const bool direct = r->out.dtype == micro->dtype && slab_is_row(&r->out);
  const size_t step = CHUNK / 2;
  *s = stats_of(micro, &r->x, x);
  const double rstd = rstd_of(s, r->eps);
  for (size_t i = 0; i < r->x.numel; i += step) {
    const size_t n = r->x.numel - i < step ? r->x.numel - i : step;
    const void *const in = chunk_in(micro, &r->x, x, i, n, x_room);
    const void *const w =
        r->w_data == NULL ? NULL : chunk_in(micro, &r->w, r->w_data, i, n, w_room);
    const void *const b =
        r->b_data == NULL ? NULL : chunk_in(micro, &r->b, r->b_data, i, n, b_room);
    void *const to = direct ? out + i * micro->esize : x_room;
    micro->normalize(to, in, s->mean, rstd, w, b, n);
    if (!direct) slab_cast(&r->out, out, i, n, micro->dtype, x_room, false);
  }
}

static void long_rows(void *ctx, size_t begin, size_t end) {
  const layer_run *const r = ctx;
  for (size_t row = begin; row < end; row++) {
    stats s;
    long_row(r, r->x_data + slab_offset(&r->rows, row),
             r->out_data + slab_offset(&r->out_rows, row), &s);
    set_element(r->mean, row, s.mean);
    set_element(r->rstd, row, rstd_of(&s, r->eps));
  }
}

// Rows of one chunk: each is read, and its weights are read, once.
static void short_rows(void *ctx, size_t begin, size_t end) {
  const layer_run *const r = ctx;
  const eti_norm_micro *const micro = r->micro;
  _Alignas(64) char x_room[CHUNK * 8], w_room[CHUNK * 8], b_room[CHUNK * 8];
  const bool direct = r->out.dtype == micro->dtype && slab_is_row(&r->out);
  const size_t n = r->x.numel;
  const void *const w = r->w_data == NULL ? NULL : chunk_in(micro, &r->w, r->w_data, 0, n, w_room);
  const void *const b = r->b_data == NULL ? NULL : chunk_in(micro, &r->b, r->b_data, 0, n, b_room);
  const slab row_of_x = {.dtype = micro->dtype, .numel = n};
  for (size_t row = begin; row < end; row++) {
    char *const out = r->out_data + slab_offset(&r->out_rows, row);
    const void *const x =
        chunk_in(micro, &r->x, r->x_data + slab_offset(&r->rows, row), 0, n, x_room);
    const stats s = stats_of(micro, &row_of_x, x);
    const double rstd = rstd_of(&s, r->eps);
    micro->normalize(direct ? out : x_room, x, s.mean, rstd, w, b, n);
    if (!direct) slab_cast(&r->out, out, 0, n, micro->dtype, x_room, false);
    set_element(r->mean, row, s.mean);
    set_element(r->rstd, row, rstd);
  }
}

static et_status check_normalized(const et_kernel_ctx *ctx, const et_tensor *t, const et_tensor *x,
                                  size_t first, const char *what) {
  bool same = t == NULL ||
              (t->rank == x->rank - first && eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF));
  for (size_t d = first; same && t != NULL && d < x->rank; d++)
    same = t->sizes[d - first] == x->sizes[d];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT, "layer_norm: %s does not have the normalized shape",
           what);
  return ET_OK;
}

static uint32_t dims_from(size_t first, size_t rank) {
  return (uint32_t)((1ull << rank) - (1ull << first));
}

et_status op_native_layer_norm_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *w, *b, *out, *mean, *rstd;
  int64_t shape[ET_MAX_RANK];
  size_t n = 0;
  double eps = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_ints(ctx, args, 1, shape, ET_MAX_RANK, &n));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 3, &b));
  ET_TRY(eti_arg_double(ctx, args, 4, &eps));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  ET_TRY(eti_arg_tensor(ctx, args, 6, &mean));
  ET_TRY(eti_arg_tensor(ctx, args, 7, &rstd));
  ET_TRY(check_input(ctx, x, out, "layer_norm"));
  ET_CHECK(n >= 1 && n <= x->rank, ctx->err, ET_INVALID_ARGUMENT,
           "layer_norm: normalized_shape has %zu entries, input rank %d", n, (int)x->rank);
  const size_t first = x->rank - n;
  for (size_t d = 0; d < n; d++) {
    ET_CHECK(shape[d] == x->sizes[first + d], ctx->err, ET_INVALID_ARGUMENT,
             "layer_norm: normalized_shape[%zu] is %lld, input has %d", d, (long long)shape[d],
             (int)x->sizes[first + d]);
  }
  ET_TRY(check_normalized(ctx, w, x, first, "weight"));
  ET_TRY(check_normalized(ctx, b, x, first, "bias"));
  layer_run r = {.micro = micro_of(x->dtype), .mean = mean, .rstd = rstd, .eps = eps};
  eti_shape stat_shape = eti_shape_of(x);
  for (size_t d = first; d < x->rank; d++) stat_shape.sizes[d] = 1;
  ET_TRY(eti_resize_like(ctx, out, x));
  ET_TRY(eti_resize(ctx, mean, &stat_shape));
  ET_TRY(eti_resize(ctx, rstd, &stat_shape));
  ET_CHECK(eti_same_shape(out, x), ctx->err, ET_INVALID_ARGUMENT,
           "layer_norm: out is also the mean or rstd");
  const uint32_t inner = dims_from(first, x->rank), outer = dims_from(0, first);
  r.x = slab_of(x, inner);
  r.out = slab_of(out, inner);
  r.rows = slab_of(x, outer);
  r.out_rows = slab_of(out, outer);
  r.x_data = x->data;
  r.out_data = out->data;
  if (w != NULL) r.w = slab_of(w, dims_from(0, n)), r.w_data = w->data;
  if (b != NULL) r.b = slab_of(b, dims_from(0, n)), r.b_data = b->data;
  et_parallel_for(ctx->pool, r.x.numel <= CHUNK ? short_rows : long_rows, &r, r.rows.numel,
                  1 + 8192 / (r.x.numel + 1));
  return ET_OK;
}

// ---- one scale and shift per channel

typedef struct channel_run {
  const eti_norm_micro *micro;
  const et_tensor *x, *out, *w, *b, *mean, *var, *save_mean, *save_rstd;
  slab xs, os;  // of one image's channel (or one channel of all images)
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
    *shift = element(r->b, c, 0.0);
    return known[1] * element(r->w, c, 1.0);
  }
  *mean = element(r->mean, c, 0.0);
  *shift = element(r->b, c, 0.0);
  return element(r->w, c, 1.0) / sqrt(element(r->var, c, 0.0) + r->eps);
}

// Images whose planes are whole: unit i is one channel of one image.
static void batch_planes(void *ctx, size_t begin, size_t end) {
  const channel_run *const r = ctx;
  for (size_t i = begin; i < end; i++) {
    const size_t n = i / r->channels, c = i % r->channels;
    double mean, shift;
    const double scale = channel_scale(r, c, &mean, &shift);
    affine_slab(r->micro, &r->xs, channel_at(r->x, n, c), &r->os, channel_at(r->out, n, c), mean,
                scale, shift);
  }
}

enum { BLOCK = 256 };

// Of channels-last pixels: the parameters of up to BLOCK channels, of fewer again for each pixel
// of a block.
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

// Channels-last images, and rows of channels alone: unit i is a pixel; its channels lie in a row.
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

// Whether the channels of every pixel lie in a row, one pixel after the other.
static bool is_pixels(const et_tensor *t, size_t area) {
  return (area == 1 && eti_is_contiguous(t)) || eti_is_channels_last(t);
}

// ---- group norm

static void group_rows(void *ctx, size_t begin, size_t end) {
  const channel_run *const r = ctx;
  const size_t per_group = r->channels / r->groups;
  slab group = {.dtype = r->x->dtype, .numel = 1};
  slab_add(&group, (int32_t)per_group, r->x->strides[1]);
  for (size_t d = 2; d < r->x->rank; d++) slab_add(&group, r->x->sizes[d], r->x->strides[d]);
  for (size_t i = begin; i < end; i++) {
    const size_t n = i / r->groups, first = i % r->groups * per_group;
    const stats s = stats_of(r->micro, &group, channel_at(r->x, n, first));
    const double rstd = rstd_of(&s, r->eps);
    for (size_t c = first; c < first + per_group; c++) {
      const double scale = rstd * element(r->w, c, 1.0), shift = element(r->b, c, 0.0);
      affine_slab(r->micro, &r->xs, channel_at(r->x, n, c), &r->os, channel_at(r->out, n, c),
                  s.mean, scale, shift);
    }
    set_element(r->save_mean, i, s.mean);
    set_element(r->save_rstd, i, rstd);
  }
}

// Channels-last images one by one: turned to planes in the memory of their result, where the
// statistics add up in the order that they have everywhere, then normalised from where they lie.
enum { MAX_GROUPS = 512 };

typedef struct turned_run {
  channel_run *r;
  size_t n, area, bytes;  // the image; its pixels; of an element
  char *planes;
  double stats[2 * MAX_GROUPS];
} turned_run;

static void turn_pixels(void *ctx, size_t begin, size_t end) {
  const turned_run *const t = ctx;
  const size_t row = t->r->channels * t->bytes;
  eti_transpose(t->planes + begin * t->bytes, (ptrdiff_t)(t->area * t->bytes),
                (const char *)t->r->x->data + (t->r->first_pixel + begin) * row, (ptrdiff_t)row,
                end - begin, t->r->channels, t->bytes);
}

static void group_stats(void *ctx, size_t begin, size_t end) {
  turned_run *const t = ctx;
  const channel_run *const r = t->r;
  const size_t n = r->channels / r->groups * t->area;
  const slab group = {.dtype = r->x->dtype, .numel = n, .rank = 1, .sizes = {n}, .strides = {1}};
  for (size_t g = begin; g < end; g++) {
    const stats s = stats_of(r->micro, &group, t->planes + g * n * t->bytes);
    t->stats[2 * g] = s.mean;
    t->stats[2 * g + 1] = rstd_of(&s, r->eps);
    set_element(r->save_mean, t->n * r->groups + g, s.mean);
    set_element(r->save_rstd, t->n * r->groups + g, t->stats[2 * g + 1]);
  }
}

static bool is_apart(const et_tensor *a, const et_tensor *b) {
  const size_t bytes = a->numel * et_dtype_bytes((et_dtype)a->dtype);
  const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return x < y ? y - x >= bytes : x - y >= bytes;
}

// False where images do not lie pixel by pixel, or the result is in the way.
static bool run_turned_groups(const et_kernel_ctx *ctx, const channel_run *whole, size_t n_images,
                              size_t area) {
  const et_tensor *const x = whole->x, *const out = whole->out;
  if (area <= 1 || x->numel == 0 || whole->groups > MAX_GROUPS || !eti_is_channels_last(x) ||
      !eti_is_channels_last(out) || !is_apart(x, out))
    return false;
  channel_run r = *whole;
  turned_run t = {.r = &r, .area = area, .bytes = et_dtype_bytes((et_dtype)x->dtype)};
  r.group_stats = t.stats;
  for (; t.n < n_images; t.n++, r.first_pixel += area) {
    t.planes = (char *)out->data + r.first_pixel * r.channels * t.bytes;
    et_parallel_for(ctx->pool, turn_pixels, &t, area, 1 + 32768 / r.channels);
    et_parallel_for(ctx->pool, group_stats, &t, r.groups, 1);
    et_parallel_for(ctx->pool, batch_pixels, &r, area, 1 + 32768 / r.channels);
  }
  return true;
}

et_status op_native_group_norm_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *w, *b, *out, *mean, *rstd;
  int64_t images = 0, channels = 0, area = 0, groups = 0;
  double eps = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &b));
  ET_TRY(eti_arg_int(ctx, args, 3, &images));
  ET_TRY(eti_arg_int(ctx, args, 4, &channels));
  ET_TRY(eti_arg_int(ctx, args, 5, &area));
  ET_TRY(eti_arg_int(ctx, args, 6, &groups));
  ET_TRY(eti_arg_double(ctx, args, 7, &eps));
  ET_TRY(eti_arg_tensor(ctx, args, 8, &out));
  ET_TRY(eti_arg_tensor(ctx, args, 9, &mean));
  ET_TRY(eti_arg_tensor(ctx, args, 10, &rstd));
  ET_TRY(check_input(ctx, x, out, "group_norm"));
  ET_CHECK(x->rank >= 2 && x->sizes[0] == images && x->sizes[1] == channels &&
               (int64_t)eti_numel_range(x, 2, x->rank) == area,
           ctx->err, ET_INVALID_ARGUMENT,
           "group_norm: input of rank %d does not have N %lld, C %lld, HxW %lld", (int)x->rank,
           (long long)images, (long long)channels, (long long)area);
  ET_CHECK(groups >= 1 && channels % groups == 0 && groups <= INT32_MAX, ctx->err,
           ET_INVALID_ARGUMENT, "group_norm: %lld channels cannot form %lld groups",
           (long long)channels, (long long)groups);
  ET_TRY(check_vector(ctx, w, (size_t)channels, "group_norm", "weight"));
  ET_TRY(check_vector(ctx, b, (size_t)channels, "group_norm", "bias"));
  const eti_shape stat_shape = {.rank = 2, .sizes = {(int32_t)images, (int32_t)groups}};
  const eti_shape shape = eti_shape_of(x);
  ET_TRY(eti_resize(ctx, mean, &stat_shape));
  ET_TRY(eti_resize(ctx, rstd, &stat_shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(eti_same_shape(out, x), ctx->err, ET_INVALID_ARGUMENT,
           "group_norm: input is also the mean or rstd");
  channel_run r = {.micro = micro_of(x->dtype),
                   .x = x,
                   .out = out,
                   .w = w,
                   .b = b,
                   .save_mean = mean,
                   .save_rstd = rstd,
                   .channels = (size_t)channels,
                   .groups = (size_t)groups,
                   .eps = eps};
  r.xs = slab_of(x, dims_from(2, x->rank));
  r.os = slab_of(out, dims_from(2, x->rank));
  if (channels == 0 || run_turned_groups(ctx, &r, (size_t)images, (size_t)area)) return ET_OK;
  et_parallel_for(ctx->pool, group_rows, &r, (size_t)(images * groups), 1);
  return ET_OK;
}

// ---- batch norm

static et_status run_batch_norm(const et_kernel_ctx *ctx, channel_run *r) {
  const et_tensor *const x = r->x;
  r->micro = micro_of(x->dtype);
  r->channels = (size_t)x->sizes[1];
  if (x->numel == 0) return ET_OK;
  const size_t n_images = (size_t)x->sizes[0], area = x->numel / (n_images * r->channels);
  r->xs = slab_of(x, dims_from(2, x->rank));
  r->os = slab_of(r->out, dims_from(2, x->rank));
  if (is_pixels(x, area) && is_pixels(r->out, area)) {
    et_parallel_for(ctx->pool, batch_pixels, r, n_images * area, 1 + 32768 / r->channels);
  } else {
    et_parallel_for(ctx->pool, batch_planes, r, n_images * r->channels, 1 + 32768 / area);
  }
  return ET_OK;
}

// input, weight, bias and out; `next` is the position after bias.
static et_status read_batch_norm(const et_kernel_ctx *ctx, et_value *const *args, size_t out_at,
                                 channel_run *r) {
  et_tensor *x, *w, *b, *out, *save_mean, *save_rstd;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &b));
  ET_TRY(eti_arg_tensor(ctx, args, out_at, &out));
  ET_TRY(eti_arg_tensor(ctx, args, out_at + 1, &save_mean));
  ET_TRY(eti_arg_tensor(ctx, args, out_at + 2, &save_rstd));
  ET_TRY(check_input(ctx, x, out, "batch_norm"));
  ET_CHECK(x->rank >= 2, ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: input has rank %d, needs at least 2", (int)x->rank);
  ET_TRY(check_vector(ctx, w, (size_t)x->sizes[1], "batch_norm", "weight"));
  ET_TRY(check_vector(ctx, b, (size_t)x->sizes[1], "batch_norm", "bias"));
  r->x = x, r->w = w, r->b = b, r->out = out, r->save_mean = save_mean, r->save_rstd = save_rstd;
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
    ET_TRY(check_vector(ctx, vectors[i], (size_t)shape.sizes[1], "batch_norm", "a parameter"));
  ET_CHECK(eti_same_shape(out, r->x), ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: input is also an output of statistics");
  return ET_OK;
}

static et_status read_running(const et_kernel_ctx *ctx, et_value *const *args, size_t at,
                              channel_run *r) {
  et_tensor *mean, *var;
  ET_TRY(eti_arg_tensor(ctx, args, at, &mean));
  ET_TRY(eti_arg_tensor(ctx, args, at + 1, &var));
  ET_TRY(check_vector(ctx, mean, (size_t)r->x->sizes[1], "batch_norm", "running_mean"));
  ET_TRY(check_vector(ctx, var, (size_t)r->x->sizes[1], "batch_norm", "running_var"));
  r->mean = mean, r->var = var;
  return ET_OK;
}

et_status op_native_batch_norm_legit_no_training_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  ET_TRY(read_batch_norm(ctx, args, 7, &r));
  ET_TRY(read_running(ctx, args, 3, &r));
  ET_TRY(eti_arg_double(ctx, args, 6, &r.eps));
  ET_TRY(resize_batch_norm(ctx, args, 7, &r, 0));
  return run_batch_norm(ctx, &r);
}

// Statistics of the batch itself; they replace the running ones, which follow with the given
// momentum.
static void train_channels(const channel_run *r, double momentum, bool keep_running) {
  slab all = {.dtype = r->x->dtype, .numel = 1};
  for (size_t d = 0; d < r->x->rank; d++) {
    if (d != 1) slab_add(&all, r->x->sizes[d], r->x->strides[d]);
  }
  slab os = {.dtype = r->out->dtype, .numel = 1};
  for (size_t d = 0; d < r->x->rank; d++) {
    if (d != 1) slab_add(&os, r->out->sizes[d], r->out->strides[d]);
  }
  for (size_t c = 0; c < (size_t)r->x->sizes[1]; c++) {
    const stats s = stats_of(r->micro, &all, channel_at(r->x, 0, c));
    const double rstd = rstd_of(&s, r->eps), scale = rstd * element(r->w, c, 1.0);
    affine_slab(r->micro, &all, channel_at(r->x, 0, c), &os, channel_at(r->out, 0, c), s.mean,
                scale, element(r->b, c, 0.0));
    set_element(r->save_mean, c, s.mean);
    set_element(r->save_rstd, c, rstd);
    if (!keep_running) continue;
    const double n = (double)all.numel, unbiased = s.variance * n / (n - 1.0);
    set_element(r->mean, c, momentum * s.mean + (1.0 - momentum) * element(r->mean, c, 0.0));
    set_element(r->var, c, momentum * unbiased + (1.0 - momentum) * element(r->var, c, 0.0));
  }
}

et_status op_native_batch_norm_legit_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  bool training = false;
  double momentum = 0;
  ET_TRY(read_batch_norm(ctx, args, 8, &r));
  ET_TRY(read_running(ctx, args, 3, &r));
  ET_TRY(eti_arg_bool(ctx, args, 5, &training));
  ET_TRY(eti_arg_double(ctx, args, 6, &momentum));
  ET_TRY(eti_arg_double(ctx, args, 7, &r.eps));
  ET_TRY(resize_batch_norm(ctx, args, 8, &r, training ? r.x->sizes[1] : 0));
  if (!training) return run_batch_norm(ctx, &r);
  r.micro = micro_of(r.x->dtype);
  if (r.x->numel > 0) train_channels(&r, momentum, true);
  return ET_OK;
}

et_status op_native_batch_norm_legit_no_stats_out(et_kernel_ctx *ctx, et_value *const *args) {
  channel_run r = {.groups = 1};
  bool training = false;
  ET_TRY(read_batch_norm(ctx, args, 6, &r));
  ET_TRY(eti_arg_bool(ctx, args, 3, &training));
  ET_TRY(eti_arg_double(ctx, args, 5, &r.eps));
  ET_CHECK(training, ctx->err, ET_INVALID_ARGUMENT,
           "batch_norm: without running statistics it needs training=True");
  ET_TRY(resize_batch_norm(ctx, args, 6, &r, r.x->sizes[1]));
  r.micro = micro_of(r.x->dtype);
  if (r.x->numel > 0) train_channels(&r, 0.0, false);
  return ET_OK;
}
