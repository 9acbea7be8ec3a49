// scan.c — cumulative sums, products, extremes and logsumexp along one dimension. Floating point
// accumulates in f64 and rounds every partial result once; integers accumulate in i64 and wrap. The
// output's type is the type of the scan: elements are converted to it first, as ATen does for
// dtype=. Extremes also give the position of the last element that was a new extreme; a NaN always
// is one.
#include "kernels/kernel.h"
#include "kernels/is_nan.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/ops.h"
#include "kernels/lib/reduction.h"

#include <math.h>

typedef enum scan_kind { SCAN_SUM, SCAN_PRODUCT, SCAN_LOG_SUM_EXP, SCAN_MAX, SCAN_MIN } scan_kind;

typedef struct scan_job {
  scan_kind kind;
  size_t n;
  ptrdiff_t in_stride, out_stride, index_stride;  // along the dimension, in bytes
  eti_cast_fn load, store;
  bool is_float;
  bool is_f64;  // the elements themselves, not only the scan
  int plain;    // its row of `lines`, or NO_LINE
} scan_job;

typedef union scan_value {
  double d;
  int64_t i;
} scan_value;

static scan_value start_of(const scan_job *job) {
  scan_value start = {.i = job->kind == SCAN_PRODUCT};
  if (job->is_float) start.d = job->kind == SCAN_PRODUCT ? 1.0 : 0.0;
  if (job->kind == SCAN_LOG_SUM_EXP) start.d = -(double)INFINITY;
  return start;
}

static void scan_floats(const scan_job *job, scan_value *x, size_t m, double *running) {
  double at = *running;
  if (job->kind == SCAN_SUM) {
    for (size_t e = 0; e < m; e++) x[e].d = at += x[e].d;
  } else if (job->kind == SCAN_PRODUCT) {
    for (size_t e = 0; e < m; e++) x[e].d = at *= x[e].d;
  } else {
    const eti_row_reduce_micro *const micro = eti_row_reduce_micro_get();
    for (size_t e = 0; e < m; e++) {
      (job->is_f64 ? micro->log_add_exp_f64 : micro->log_add_exp_f32)(&at, &x[e].d, 1);
      x[e].d = at;
    }
  }
  *running = at;
}

static void scan_integers(const scan_job *job, scan_value *x, size_t m, int64_t *running) {
  uint64_t at = (uint64_t)*running;
  if (job->kind == SCAN_SUM) {
    for (size_t e = 0; e < m; e++) x[e].i = (int64_t)(at += (uint64_t)x[e].i);
  } else {
    for (size_t e = 0; e < m; e++) x[e].i = (int64_t)(at *= (uint64_t)x[e].i);
  }
  *running = (int64_t)at;
}

// ---- contiguous lines in place

#define SCAN_SUFFIX f32
#define SCAN_TYPE float
#define SCAN_ACC double
#include "kernels/loops/scan_line.inc.h"
#define SCAN_SUFFIX f64
#define SCAN_TYPE double
#define SCAN_ACC double
#include "kernels/loops/scan_line.inc.h"
#define SCAN_SUFFIX i64
#define SCAN_TYPE int64_t
#define SCAN_ACC uint64_t
#include "kernels/loops/scan_line.inc.h"

static const struct line {
  et_dtype dtype;
  void (*sums)(void *to, const void *from, size_t n);
  void (*products)(void *to, const void *from, size_t n);
  void (*maxima)(void *to, int64_t *index, const void *from, size_t n);
  void (*minima)(void *to, int64_t *index, const void *from, size_t n);
} lines[] = {
    {ET_F32, sums_f32, products_f32, maxima_f32, minima_f32},
    {ET_F64, sums_f64, products_f64, maxima_f64, minima_f64},
    {ET_I64, sums_i64, products_i64, maxima_i64, minima_i64},
};
enum { NO_LINE = -1, N_LINES = sizeof lines / sizeof lines[0] };

static void scan_lines(const scan_job *job, const eti_result_block *block) {
  const struct line *const l = &lines[job->plain];
  for (size_t j = 0; j < block->n; j++) {
    const char *const in = block->in + (ptrdiff_t)j * block->in_stride;
    char *const out = block->out[0] + (ptrdiff_t)j * block->out_stride[0];
    if (job->kind >= SCAN_MAX) {
      int64_t *const index = (void *)(block->out[1] + (ptrdiff_t)j * block->out_stride[1]);
      (job->kind == SCAN_MAX ? l->maxima : l->minima)(out, index, in, job->n);
    } else {
      (job->kind == SCAN_SUM ? l->sums : l->products)(out, in, job->n);
    }
  }
}

static int plain_line(const scan_job *job, et_dtype from, et_dtype to) {
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes(to);
  if (from != to || job->in_stride != bytes || job->out_stride != bytes ||
      job->kind == SCAN_LOG_SUM_EXP ||
      (job->kind >= SCAN_MAX && job->index_stride != (ptrdiff_t)sizeof(int64_t)))
    return NO_LINE;
  for (int i = 0; i < N_LINES; i++) {
    if (lines[i].dtype == to) return i;
  }
  return NO_LINE;
}

// ---- neighbouring columns, a row at a time

static void step_columns(const scan_job *job, scan_value *at, int64_t *index, const scan_value *x,
                         size_t i, size_t w) {
  const eti_row_reduce_micro *const m = eti_row_reduce_micro_get();
  const bool is_float = job->is_float;
  switch (job->kind) {
    case SCAN_SUM:
      (is_float ? m->sum_f64 : m->sum_i64).columns(at, x, 0, 1, w, NULL);
      break;
    case SCAN_PRODUCT:
      (is_float ? m->prod_f64 : m->prod_i64).columns(at, x, 0, 1, w, NULL);
      break;
    case SCAN_LOG_SUM_EXP:
      (job->is_f64 ? m->log_add_exp_f64 : m->log_add_exp_f32)(&at->d, &x->d, w);
      break;
    case SCAN_MAX:
    case SCAN_MIN:
      if (is_float) {
        (job->kind == SCAN_MAX ? m->last_max_f64 : m->last_min_f64)(&at->d, index, &x->d,
                                                                    (int64_t)i, w);
      } else {
        (job->kind == SCAN_MAX ? m->last_max_i64 : m->last_min_i64)(&at->i, index, &x->i,
                                                                    (int64_t)i, w);
      }
      break;
  }
}

static void scan_columns(const scan_job *job, const eti_result_block *block) {
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(scan_value);
  scan_value x[ETI_REDUCE_RESULTS], at[ETI_REDUCE_RESULTS];
  int64_t index[ETI_REDUCE_RESULTS] = {0};
  const bool is_extreme = job->kind >= SCAN_MAX;
  for (size_t j = 0; j < block->n; j++) at[j] = start_of(job);
  if (is_extreme)
    job->load(at, bytes, block->in, block->in_stride,
              block->n);  // the first is an extreme in any case
  for (size_t i = 0; i < job->n; i++) {
    const char *const in = block->in + (ptrdiff_t)i * job->in_stride;
    job->load(x, bytes, in, block->in_stride, block->n);
    step_columns(job, at, index, x, i, block->n);
    job->store(block->out[0] + (ptrdiff_t)i * job->out_stride, block->out_stride[0], at, bytes,
               block->n);
    if (is_extreme)
      eti_casts[ET_I64][ET_I64](block->out[1] + (ptrdiff_t)i * job->index_stride,
                                block->out_stride[1], index, bytes, block->n);
  }
}

// ---- one line after the other, in blocks

static bool is_better(const scan_job *job, const scan_value *x, const scan_value *best) {
  const bool is_max = job->kind == SCAN_MAX;
  if (!job->is_float) return is_max ? x->i >= best->i : x->i <= best->i;
  if (x->d != x->d) return true;
  return best->d == best->d && (is_max ? x->d >= best->d : x->d <= best->d);
}

static void scan_extremes(const scan_job *job, scan_value *x, size_t m, size_t first,
                          scan_value *best, int64_t *best_at, char *index) {
  for (size_t e = 0; e < m; e++) {
    if (first + e == 0 || is_better(job, &x[e], best)) {
      *best = x[e];
      *best_at = (int64_t)(first + e);
    }
    x[e] = *best;
    *(int64_t *)(void *)(index + (ptrdiff_t)(first + e) * job->index_stride) = *best_at;
  }
}

static void scan_results(void *ctx, const eti_result_block *block) {
  const scan_job *job = ctx;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(scan_value);
  scan_value x[ETI_REDUCE_RESULTS];
  // A logarithm costs more than reading a column that is not contiguous.
  if (block->n > 1 && (block->r->across || job->kind == SCAN_LOG_SUM_EXP)) {
    scan_columns(job, block);
    return;
  }
  if (job->plain != NO_LINE) {
    scan_lines(job, block);
    return;
  }
  for (size_t j = 0; j < block->n; j++) {
    const char *in = block->in + (ptrdiff_t)j * block->in_stride;
    char *out = block->out[0] + (ptrdiff_t)j * block->out_stride[0];
    scan_value running = start_of(job);
    int64_t at = 0;
    for (size_t i = 0; i < job->n; i += ETI_REDUCE_RESULTS) {
      const size_t m = job->n - i < ETI_REDUCE_RESULTS ? job->n - i : ETI_REDUCE_RESULTS;
      job->load(x, bytes, in + (ptrdiff_t)i * job->in_stride, job->in_stride, m);
      if (job->kind >= SCAN_MAX) {
        scan_extremes(job, x, m, i, &running, &at,
                      block->out[1] + (ptrdiff_t)j * block->out_stride[1]);
      } else if (job->is_float) {
        scan_floats(job, x, m, &running.d);
      } else {
        scan_integers(job, x, m, &running.i);
      }
      job->store(out + (ptrdiff_t)i * job->out_stride, job->out_stride, x, bytes, m);
    }
  }
}

// Scans argument 0 along the dimension in argument 1; outs[1] receives the positions, if the kind
// has any.
static et_status run_scan(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                          scan_kind kind) {
  et_tensor *in, *outs[2];
  const size_t n_outs = kind >= SCAN_MAX ? 2 : 1;
  int64_t wanted = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, 1, &wanted));
  for (size_t i = 0; i < n_outs; i++) ET_TRY(eti_arg_tensor(ctx, args, i_out + i, &outs[i]));
  ET_TRY(eti_wrap_dim(ctx, wanted, in->rank, &dim));
  const et_dtype from = (et_dtype)in->dtype, to = (et_dtype)outs[0]->dtype;
  const et_dtype_set set = kind == SCAN_LOG_SUM_EXP ? ET_TYPES_FLOAT_HALF : ET_TYPES_REAL_HALF_BOOL;
  ET_CHECK(eti_dtype_in(from, set) && eti_dtype_in(to, set), ctx->err, ET_NOT_SUPPORTED,
           "not defined for dtypes %s and %s", et_dtype_name(from), et_dtype_name(to));
  ET_CHECK(n_outs == 1 || (from == to && outs[1]->dtype == ET_I64 && outs[0] != outs[1]), ctx->err,
           ET_INVALID_ARGUMENT, "expected values of %s, as self, and indices of i64, got %s and %s",
           et_dtype_name(from), et_dtype_name(to),
           et_dtype_name((et_dtype)outs[n_outs - 1]->dtype));
  for (size_t i = 0; i < n_outs; i++) ET_TRY(eti_resize_like(ctx, outs[i], in));
  if (outs[0]->numel == 0) return ET_OK;
  const et_dtype running = eti_is_float(to) ? ET_F64 : ET_I64;
  scan_job job = {.kind = kind,
                  .n = in->rank == 0 ? 1 : (size_t)in->sizes[dim],
                  .load = eti_casts[from][running],
                  .store = eti_casts[running][to],
                  .is_float = running == ET_F64,
                  .is_f64 = to == ET_F64,
                  .plain = NO_LINE};
  if (in->rank > 0) {
    job.in_stride = in->strides[dim] * (ptrdiff_t)et_dtype_bytes(from);
    job.out_stride = outs[0]->strides[dim] * (ptrdiff_t)et_dtype_bytes(to);
    if (n_outs == 2) job.index_stride = outs[1]->strides[dim] * (ptrdiff_t)sizeof(int64_t);
    job.plain = plain_line(&job, from, to);
  }
  eti_reduction r;
  eti_reduction_init(&r, in, outs, n_outs, in->rank == 0 ? 0 : 1u << dim, true, false);
  eti_reduction_run(ctx, &r, scan_results, &job);
  return ET_OK;
}

// (self, dim, dtype, out)
et_status op_cumsum_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_scan(ctx, args, 3, SCAN_SUM);
}
et_status op_cumprod_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_scan(ctx, args, 3, SCAN_PRODUCT);
}
// (self, dim, out)
et_status op_logcumsumexp_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_scan(ctx, args, 2, SCAN_LOG_SUM_EXP);
}
// (self, dim, values, indices)
et_status op_cummax_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_scan(ctx, args, 2, SCAN_MAX);
}
et_status op_cummin_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_scan(ctx, args, 2, SCAN_MIN);
}
