// softmax.c — softmax and log-softmax along one dimension. Memory is viewed as [outer, n, inner]
// around the dimension, in the order of the output; an input with another layout or type is first
// copied into the output. Contiguous rows of f32 use the row micro-kernels; across rows (inner > 1)
// blocks of columns advance together. The halves compute in f32 and round once, f64 computes in
// f64. Relies on the f32 micro-kernels and the cast table. NaN and infinities follow from the
// arithmetic, as in ATen. Terms of f32 below the smallest normal number are 0 (ATen keeps them,
// which is slow): masks of -100 give many.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/micro/math/math_core.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/micro/rows/row_softmax.h"
#include "kernels/ops.h"
#include "kernels/lib/strided_copy.h"

#include <math.h>
#include <string.h>

// Entries of the tables that this file calls directly.
ETI_USES(unary, exp)
ETI_USES(unary, log)
ETI_USES(binary, sub)
ETI_USES(binary, div)
ETI_USES(rows, row_log_softmax)
ETI_USES(rows, row_softmax)
ETI_USES(rows, rows_softmax_short)
ETI_USES(rows, row_max)
ETI_USES(rows, row_sum)

#define COLUMNS 256                  // elements of a piece of a row
#define WIDE ETI_ON_STACK(256, 32)   // columns of one block; ten blocks of f32 are on the stack
#define ROW 4096u                    // longest row of halves that is computed as one of f32
#define HELD ETI_ON_STACK(ROW, 64u)  // longest row of them that is on the stack

typedef struct softmax_job {
  const eti_eltwise *micro;
  char *out;
  const char *in;  // laid out as out; may be out
  et_dtype dtype;
  size_t item, n, inner;
  bool log;
} softmax_job;

// ---- f32, rows in memory order

static void rows_f32(void *opaque, size_t begin, size_t end) {
  const softmax_job *job = opaque;
  float *out = (float *)(void *)job->out;
  const float *in = (const float *)(const void *)job->in;
  if (job->n <= ETI_SHORT_ROW) {
    const size_t first = begin * job->n;
    job->micro->rows_softmax_short(out + first, in + first, job->n, end - begin, job->log);
    return;
  }
  for (size_t o = begin; o < end; o++) {
    const size_t row = o * job->n;
    (job->log ? job->micro->row_log_softmax : job->micro->row_softmax)(out + row, in + row, job->n);
  }
}

// ---- f32 and the halves, blocks of columns (inner > 1) or pieces of one column (inner == 1)

// Applies a two-operand f32 loop to rows of w floats: out = a ∘ b, or a ∘ one number.
static void run_rowwise(eti_loop loop, float *out, const float *a, const float *b, size_t w,
                        bool repeat) {
  const void *in[2] = {a, b};
  void *p[3] = {out, NULL, NULL};
  memcpy(&p[1], in, sizeof in);
  const ptrdiff_t item = (ptrdiff_t)sizeof(float);
  const ptrdiff_t s[3] = {item, item, repeat ? 0 : item};
  loop(p, s, w, NULL);
}

static void rowwise_unary(eti_loop loop, float *x, size_t w) {
  void *p[2] = {x, x};
  const ptrdiff_t s[2] = {(ptrdiff_t)sizeof(float), (ptrdiff_t)sizeof(float)};
  loop(p, s, w, NULL);
}

static void load_row(const softmax_job *job, float *to, const char *from, size_t w) {
  eti_casts[job->dtype][ET_F32](to, (ptrdiff_t)sizeof(float), from, (ptrdiff_t)job->item, w);
}

static void store_row(const softmax_job *job, char *to, const float *from, size_t w) {
  eti_casts[ET_F32][job->dtype](to, (ptrdiff_t)job->item, from, (ptrdiff_t)sizeof(float), w);
}

// Reads rows of w columns as floats, `*apart` floats apart: in place, or cast to a buffer for
// eight.
static const float *as_floats(const softmax_job *job, float *room, const char *data, size_t rows,
                              size_t w, ptrdiff_t *apart) {
  if (job->dtype == ET_F32) {
    *apart = (ptrdiff_t)job->inner;
    return (const float *)(const void *)data;
  }
  *apart = (ptrdiff_t)w;
  for (size_t j = 0; j < rows; j++)
    load_row(job, room + j * w, data + j * job->inner * job->item, w);
  return room;
}

// Computes one block of w columns, n rows `inner` elements apart. The exponentials of f32 stay in
// the output. The halves compute them twice, and multiply by the sum's reciprocal, since they lack
// the digits to show the difference.
static void columns_f32(const softmax_job *job, char *out, const char *data, size_t w) {
  const eti_row_softmax_micro *const m = eti_row_softmax_micro_get();
  float room[8 * WIDE], high[WIDE], sum[WIDE];
  const size_t step = job->inner * job->item;
  const bool wide = job->dtype == ET_F32;
  ptrdiff_t apart;
  for (size_t i = 0; i < w; i++) high[i] = -INFINITY, sum[i] = 0.0f;
  for (size_t j = 0; j < job->n; j += 8) {
    const size_t rows = job->n - j < 8 ? job->n - j : 8;
    const float *const x = as_floats(job, room, data + j * step, rows, w, &apart);
    eti_row_reduce_micro_get()->max_f32.columns(high, x, apart, rows, w, NULL);
  }
  for (size_t j = 0; j < job->n; j++) {
    const float *const x = as_floats(job, room, data + j * step, 1, w, &apart);
    m->add_terms(sum, wide && !job->log ? (float *)(void *)(out + j * step) : NULL, x, high, w);
  }
  for (size_t i = 0; i < w && !wide && !job->log; i++) sum[i] = 1.0f / sum[i];
  if (job->log) rowwise_unary(job->micro->unary.log, sum, w);
  for (size_t j = 0; j < job->n; j++) {
    float *const to = wide ? (float *)(void *)(out + j * step) : room;
    if (wide && !job->log) {
      run_rowwise(job->micro->binary.div, to, to, sum, w, false);
      continue;
    }
    const float *const x = as_floats(job, room, data + j * step, 1, w, &apart);
    (job->log ? m->logarithms : m->scale_terms)(to, x, high, sum, w);
    if (!wide) store_row(job, out + j * step, to, w);
  }
}

static float max_of_row(const softmax_job *job, const char *data) {
  float x[COLUMNS], high = -INFINITY;
  bool nan = false;
  for (size_t j = 0; j < job->n; j += COLUMNS) {
    const size_t w = job->n - j < COLUMNS ? job->n - j : COLUMNS;
    load_row(job, x, data + j * job->item, w);
    const float piece = job->micro->row_max(x, w);
    nan = nan || isnan(piece);
    if (piece > high) high = piece;
  }
  return nan ? NAN : high;
}

// Rows of row_softmax and row_log_softmax, which sum in 64 lanes, whole rows and pieces of 512.
enum { LANES = 64, LOG_PIECE = 512 };

// Computes a row as these do, 64 elements at a time.
static void row_by_lanes(const softmax_job *job, char *out, const char *data) {
  const eti_eltwise *const m = job->micro;
  const eti_row_softmax_micro *const s = eti_row_softmax_micro_get();
  const float max = max_of_row(job, data);
  float x[LANES], high[LANES], sums[LANES], total = 0.0f;
  double logs = 0.0;
  for (size_t i = 0; i < LANES; i++) high[i] = max;
  for (size_t j = 0; j < job->n; j += LANES) {
    const size_t w = job->n - j < LANES ? job->n - j : LANES, whole = w == LANES ? w : w / 16 * 16;
    if (j == 0 || (job->log && j % LOG_PIECE == 0)) memset(sums, 0, sizeof sums);
    load_row(job, x, data + j * job->item, w);
    // The last elements go to the first lanes, sixteen at a time, and what is left to the second.
    for (size_t i = 0; i < whole; i += whole == LANES ? LANES : 16)
      s->add_terms(sums, NULL, x + i, high, whole == LANES ? LANES : 16);
    if (whole < w) s->add_terms(sums + 16, NULL, x + whole, high, w - whole);
    if (j + w == job->n || (job->log && (j + w) % LOG_PIECE == 0)) {
      total = m->row_sum(sums, LANES);
      logs += (double)total;
    }
  }
  if (job->log) total = (float)eti_log_d(logs);
  for (size_t j = 0; j < job->n; j += LANES) {
    const size_t w = job->n - j < LANES ? job->n - j : LANES;
    load_row(job, x, data + j * job->item, w);
    if (job->log) {
      run_rowwise(m->binary.sub, x, x, &max, w, true);
    } else {
      s->add_terms(sums, x, x, high, w);
    }
    run_rowwise(job->log ? m->binary.sub : m->binary.div, x, x, &total, w, true);
    store_row(job, out + j * job->item, x, w);
  }
}

// Computes one contiguous row of a half type: as a row of f32, or, if it is long, in pieces.
static void row_half(const softmax_job *job, char *out, const char *data) {
  const eti_eltwise *m = job->micro;
  if (job->n <= HELD) {
    _Alignas(64) float row[HELD];
    load_row(job, row, data, job->n);
    (job->log ? m->row_log_softmax : m->row_softmax)(row, row, job->n);
    store_row(job, out, row, job->n);
    return;
  }
  if (job->n <= ROW) {
    row_by_lanes(job, out, data);
    return;
  }
  const float high = max_of_row(job, data);
  float x[COLUMNS], total = 0.0f;
  for (size_t j = 0; j < job->n; j += COLUMNS) {
    const size_t w = job->n - j < COLUMNS ? job->n - j : COLUMNS;
    load_row(job, x, data + j * job->item, w);
    run_rowwise(m->binary.sub, x, x, &high, w, true);
    rowwise_unary(m->unary.exp, x, w);
    total += m->row_sum(x, w);
  }
  if (job->log) rowwise_unary(m->unary.log, &total, 1);
  for (size_t j = 0; j < job->n; j += COLUMNS) {
    const size_t w = job->n - j < COLUMNS ? job->n - j : COLUMNS;
    load_row(job, x, data + j * job->item, w);
    run_rowwise(m->binary.sub, x, x, &high, w, true);
    if (!job->log) rowwise_unary(m->unary.exp, x, w);
    run_rowwise(job->log ? m->binary.sub : m->binary.div, x, x, &total, w, true);
    store_row(job, out + j * job->item, x, w);
  }
}

// ---- f64, pieces of one row or blocks of columns

// Computes out = a ∘ b, or a ∘ one number.
static void rowwise_f64(eti_loop loop, double *out, const double *a, const double *b, size_t w,
                        bool repeat) {
  const void *in[2] = {a, b};
  void *p[3] = {out, NULL, NULL};
  memcpy(&p[1], in, sizeof in);
  const ptrdiff_t item = (ptrdiff_t)sizeof(double);
  const ptrdiff_t s[3] = {item, item, repeat ? 0 : item};
  loop(p, s, w, NULL);
}

static void unary_f64(eti_loop loop, double *x, size_t w) {
  void *p[2] = {x, x};
  const ptrdiff_t s[2] = {(ptrdiff_t)sizeof(double), (ptrdiff_t)sizeof(double)};
  loop(p, s, w, NULL);
}

// The sum of e^(x[i] - high) of a piece of a row, whose terms the stack may hold only in parts.
enum { TERMS = ETI_ON_STACK(COLUMNS, 128) };
static void add_terms_f64(const softmax_job *job, double *sum, const double *x, double high,
                          size_t n) {
  const eti_row_reduce_micro *const r = eti_row_reduce_micro_get();
  _Alignas(64) double terms[TERMS];
  eti_row_parts parts = {
      .rows = r->sum_f64.rows, .columns = r->sum_f64.columns, .merge = r->sum_f64.columns};
  for (size_t i = 0; i < n; i += TERMS) {
    const size_t w = n - i < TERMS ? n - i : TERMS;
    rowwise_f64(job->micro->binary_f64.sub, terms, x + i, &high, w, true);
    unary_f64(job->micro->unary_f64.exp, terms, w);
    if (w == n) {
      parts.rows(sum, terms, 0, w, 1, NULL);
    } else {
      eti_row_part(&parts, sum, terms, w, i + w == n);
    }
  }
}

static void row_f64(const softmax_job *job, double *out, const double *x) {
  const eti_eltwise *m = job->micro;
  const eti_row_reduce_micro *r = eti_row_reduce_micro_get();
  double high = x[0], sum = 0.0;
  r->max_f64.rows(&high, x, 0, job->n, 1, NULL);
  for (size_t j = 0; j < job->n; j += COLUMNS) {
    const size_t w = job->n - j < COLUMNS ? job->n - j : COLUMNS;
    if (job->log) {
      add_terms_f64(job, &sum, x + j, high, w);
      continue;
    }
    rowwise_f64(m->binary_f64.sub, out + j, x + j, &high, w, true);
    unary_f64(m->unary_f64.exp, out + j, w);
    r->sum_f64.rows(&sum, out + j, 0, w, 1, NULL);
  }
  if (!job->log) {
    rowwise_f64(m->binary_f64.div, out, out, &sum, job->n, true);
    return;
  }
  unary_f64(m->unary_f64.log, &sum, 1);
  rowwise_f64(m->binary_f64.sub, out, x, &high, job->n, true);
  rowwise_f64(m->binary_f64.sub, out, out, &sum, job->n, true);
}

// Computes one block of w columns, n rows `inner` elements apart.
static void columns_f64(const softmax_job *job, double *out, const double *data, size_t w) {
  const eti_eltwise *m = job->micro;
  const eti_row_reduce_micro *r = eti_row_reduce_micro_get();
  double high[WIDE], sum[WIDE] = {0.0}, row[WIDE];
  memcpy(high, data, w * sizeof *high);
  r->max_f64.columns(high, data, (ptrdiff_t)job->inner, job->n, w, NULL);
  for (size_t j = 0; j < job->n; j++) {
    double *const to = job->log ? row : out + j * job->inner;
    rowwise_f64(m->binary_f64.sub, to, data + j * job->inner, high, w, false);
    unary_f64(m->unary_f64.exp, to, w);
    r->sum_f64.columns(sum, to, 0, 1, w, NULL);
  }
  if (job->log) unary_f64(m->unary_f64.log, sum, w);
  for (size_t j = 0; j < job->n; j++) {
    double *const to = out + j * job->inner;
    if (job->log) {
      rowwise_f64(m->binary_f64.sub, to, data + j * job->inner, high, w, false);
      rowwise_f64(m->binary_f64.sub, to, to, sum, w, false);
    } else {
      rowwise_f64(m->binary_f64.div, to, to, sum, w, false);
    }
  }
}

// Each item is a block of columns: outer × ceil(inner / WIDE).
static void run_blocks(void *opaque, size_t begin, size_t end) {
  const softmax_job *job = opaque;
  const size_t per_outer = (job->inner + WIDE - 1) / WIDE;
  for (size_t i = begin; i < end; i++) {
    const size_t first = i % per_outer * WIDE;
    const size_t w = job->inner - first < WIDE ? job->inner - first : WIDE;
    const size_t offset = (i / per_outer * job->n * job->inner + first) * job->item;
    char *out = job->out + offset;
    const char *in = job->in + offset;
    if (job->dtype == ET_F64) {
      double *const to = (double *)(void *)out;
      const double *const from = (const double *)(const void *)in;
      if (job->inner == 1) {
        row_f64(job, to, from);
      } else {
        columns_f64(job, to, from, w);
      }
    } else if (job->inner == 1) {
      row_half(job, out, in);
    } else {
      columns_f32(job, out, in, w);
    }
  }
}

static void run_job(const et_kernel_ctx *ctx, const et_tensor *out, const void *in, size_t dim,
                    bool log) {
  softmax_job job = {
      .micro = eti_eltwise_get(),
      .out = out->data,
      .in = in,
      .dtype = (et_dtype)out->dtype,
      .item = et_dtype_bytes((et_dtype)out->dtype),
      .n = out->rank == 0 ? 1 : (size_t)out->sizes[dim],
      .inner = out->rank == 0 ? 1 : (size_t)out->strides[dim],
      .log = log,
  };
  const size_t outer = out->numel / job.n / job.inner;
  const size_t grain = 4096 / job.n + 1;
  if (job.inner == 1 && job.dtype == ET_F32) {
    et_parallel_for(ctx->pool, rows_f32, &job, outer, grain);
  } else {
    et_parallel_for(ctx->pool, run_blocks, &job, outer * ((job.inner + WIDE - 1) / WIDE), 1);
  }
}

static et_status run_softmax(const et_kernel_ctx *ctx, et_value *const *args, bool log) {
  et_tensor *self = NULL, *out = NULL;
  int64_t dim_arg = 0;
  bool half_to_float = false;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim_arg));
  ET_TRY(eti_arg_bool(ctx, args, 2, &half_to_float));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_wrap_dim(ctx, dim_arg, self->rank, &dim));
  ET_CHECK(eti_is_float((et_dtype)self->dtype), ctx->err, ET_NOT_SUPPORTED,
           "softmax: expected a floating-point type, got %s", et_dtype_name((et_dtype)self->dtype));
  const bool widens = half_to_float && out->dtype == ET_F32;
  ET_CHECK(out->dtype == self->dtype || widens, ctx->err, ET_INVALID_ARGUMENT,
           "softmax: expected one dtype, got %s and out %s", et_dtype_name((et_dtype)self->dtype),
           et_dtype_name((et_dtype)out->dtype));
  ET_TRY(eti_resize_like(ctx, out, self));
  if (out->numel == 0) return ET_OK;
  const bool same_layout = eti_same_layout(out, self) && out->dtype == self->dtype;
  if (!same_layout) ET_TRY(eti_copy_tensor(ctx, out, self));
  run_job(ctx, out, same_layout ? self->data : out->data, dim, log);
  return ET_OK;
}

et_status op_softmax_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_softmax(ctx, args, false);
}
et_status op_log_softmax_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_softmax(ctx, args, true);
}
