// norm_stats.c — see norm_stats.h.
#include "kernels/lib/norm_stats.h"

#include "kernels/lib/args.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"
#include "kernels/micro/convert/cast.h"
#include "kernels/sizes.h"
#include "kernels/stack.h"

void eti_norm_group_add(eti_norm_group *s, int32_t size, ptrdiff_t stride) {
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

void eti_norm_group_of(eti_norm_group *s, const et_tensor *t, uint32_t dims) {
  *s = (eti_norm_group){.dtype = t->dtype, .numel = 1};
  for (size_t d = 0; d < t->rank; d++) {
    if ((dims >> d & 1u) != 0) eti_norm_group_add(s, t->sizes[d], t->strides[d]);
  }
}

void eti_norm_group_cast(const eti_norm_group *s, char *base, size_t first, size_t n, uint8_t type,
                         void *row, bool reading) {
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

const void *eti_norm_group_chunk(const eti_row_norm_micro *micro, const eti_norm_group *s,
                                 const char *base, size_t first, size_t n, void *room) {
  if (s->dtype == micro->dtype && eti_norm_group_is_row(s)) return base + first * micro->esize;
  eti_norm_group_cast(s, (char *)(uintptr_t)base, first, n, micro->dtype, room, true);
  return room;
}

enum { CAST = ETI_ON_STACK(ETI_NORM_CHUNK, 128) };  // elements that are cast together

// The sum of a chunk, or of the squares of its differences from *mean: in place, or cast to `room`
// in pieces.
static inline double sum_of_chunk(const eti_row_norm_micro *micro, const eti_norm_group *s,
                                  const char *base, size_t first, size_t n, char *room,
                                  const double *mean) {
  double lanes[16] = {0.0}, sum = 0.0;
  const size_t piece = room == NULL ? ETI_NORM_CHUNK : CAST;
  void *const carried = (size_t)CAST < ETI_NORM_CHUNK && n > piece ? lanes : NULL;
  for (size_t i = 0; i < n; i += piece) {
    const size_t m = eti_at_most(n - i, piece);
    const void *const x = eti_norm_group_chunk(micro, s, base, first + i, m, room);
    sum = mean == NULL ? micro->sum(carried, x, m) : micro->squares(carried, x, *mean, m);
  }
  return sum;
}

// `room` is for elements that are not in place.
static eti_norm_stats stats_of(const eti_row_norm_micro *micro, const eti_norm_group *s,
                               const char *base, char *room) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < s->numel; i += ETI_NORM_CHUNK)
    sum += sum_of_chunk(micro, s, base, i, eti_at_most(s->numel - i, ETI_NORM_CHUNK), room, NULL);
  const double mean = sum / (double)s->numel;
  for (size_t i = 0; i < s->numel; i += ETI_NORM_CHUNK) {
    const size_t n = eti_at_most(s->numel - i, ETI_NORM_CHUNK);
    squares += sum_of_chunk(micro, s, base, i, n, room, &mean);
  }
  // The mean was rounded for the differences; the error of this in their squares is subtracted.
  const double rounded = micro->dtype == ET_F32 ? (double)(float)mean : mean,
               error = mean - rounded;
  return (eti_norm_stats){.mean = mean, .variance = squares / (double)s->numel - error * error};
}

// Not inlined: the caller would hold the room for elements that need no cast, too.
static __attribute__((noinline)) eti_norm_stats cast_stats(const eti_row_norm_micro *micro,
                                                           const eti_norm_group *s,
                                                           const char *base) {
  _Alignas(64) char room[CAST * 8];
  return stats_of(micro, s, base, room);
}

eti_norm_stats eti_norm_stats_of(const eti_row_norm_micro *micro, const eti_norm_group *s,
                                 const char *base) {
  const bool in_place = s->dtype == micro->dtype && eti_norm_group_is_row(s);
  return in_place ? stats_of(micro, s, base, NULL) : cast_stats(micro, s, base);
}

double eti_norm_element(const et_tensor *t, size_t i, double absent) {
  double value = absent;
  if (t != NULL) {
    const size_t es = et_dtype_bytes((et_dtype)t->dtype);
    eti_casts[t->dtype][ET_F64](&value, 8, (const char *)t->data + i * es, (ptrdiff_t)es, 1);
  }
  return value;
}

void eti_norm_set_elements(const et_tensor *t, size_t first, const double *values, size_t n) {
  const size_t es = et_dtype_bytes((et_dtype)t->dtype),
               left = first < t->numel ? t->numel - first : 0;
  if (left > 0)
    eti_casts[ET_F64][t->dtype]((char *)t->data + first * es, (ptrdiff_t)es, values,
                                (ptrdiff_t)sizeof *values, n < left ? n : left);
}

void eti_norm_set_element(const et_tensor *t, size_t i, double value) {
  eti_norm_set_elements(t, i, &value, 1);
}

void eti_norm_group_affine(const eti_row_norm_micro *micro, const eti_norm_group *xs, const char *x,
                           const eti_norm_group *os, char *out, double mean, double scale,
                           double shift) {
  _Alignas(64) char room[CAST * 8];
  const bool direct = os->dtype == micro->dtype && eti_norm_group_is_row(os);
  const size_t step =
      direct && xs->dtype == micro->dtype && eti_norm_group_is_row(xs) ? xs->numel : CAST;
  for (size_t i = 0; i < xs->numel; i += step) {
    const size_t n = xs->numel - i < step ? xs->numel - i : step;
    const void *in = eti_norm_group_chunk(micro, xs, x, i, n, room);
    void *const to = direct ? out + i * micro->esize : room;
    micro->affine(to, in, mean, scale, shift, n);
    if (!direct) eti_norm_group_cast(os, out, i, n, micro->dtype, room, false);
  }
}

et_status eti_norm_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i_weight,
                        size_t i_eps, const char *op, eti_norm_args *a) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a->x));
  ET_TRY(eti_arg_optional_tensor(ctx, args, i_weight, &a->w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, i_weight + 1, &a->b));
  ET_TRY(eti_arg_double(ctx, args, i_eps, &a->eps));
  ET_TRY(eti_arg_tensor(ctx, args, i_eps + 1, &a->out));
  ET_TRY(eti_arg_tensor(ctx, args, i_eps + 2, &a->mean));
  ET_TRY(eti_arg_tensor(ctx, args, i_eps + 3, &a->rstd));
  ET_CHECK(eti_dtype_in((et_dtype)a->x->dtype, ET_TYPES_FLOAT_HALF) && a->x->dtype == a->out->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point dtype, got input %s and out %s", op,
           et_dtype_name((et_dtype)a->x->dtype), et_dtype_name((et_dtype)a->out->dtype));
  return ET_OK;
}

et_status eti_norm_check_vector(const et_kernel_ctx *ctx, const et_tensor *t, size_t n,
                                const char *op, const char *what) {
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(t == NULL || (t->rank == 1 && (size_t)t->sizes[0] == n &&
                         eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF)),
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: %s: expected a floating-point vector of %zu elements, got %s", op, what, n,
           eti_tensor_text(t, found));
  return ET_OK;
}
