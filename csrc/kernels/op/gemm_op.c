// gemm_op.c — see gemm_op.h. Describes each job to eti_gemm_run: operands in place, in prepacked
// panels, or packed in the run; the initial value of C (bias), and its final step (alpha, beta, an
// epilogue).
#include "kernels/op/gemm_op.h"

#include "kernels/kernel.h"
#include "kernels/lib/packed_weight.h"

#include <string.h>

// State of a call, made by prepare: room for the panels of a constant operand.
struct eti_gemm_op_panels {
  bool transposed;  // A and B, rows and columns are exchanged
  bool is_packed;
  size_t n_jobs;  // 1 when all jobs share the operand, however many there are
  void *a;
  size_t a_height;
  void *b;
};

static eti_acc acc_of(et_dtype dtype) {
  switch (dtype) {
    case ET_F64:
      return ETI_ACC_F64;
    case ET_I64:
      return ETI_ACC_I64;
    case ET_U8:
    case ET_I8:
    case ET_I16:
    case ET_I32:
      return ETI_ACC_I32;
    default:
      return ETI_ACC_F32;
  }
}

static void swap_views(eti_gemm_view *a, eti_gemm_view *b) {
  const eti_gemm_view t = *a;
  *a = *b;
  *b = t;
}

static void swap_steps(eti_gemm_view *v) {
  const ptrdiff_t t = v->row_step;
  v->row_step = v->k_step;
  v->k_step = t;
}

// Cᵀ = Bᵀ·Aᵀ adds the same products in the same order and chunks: a column-major C becomes a
// row-major one.
static void transpose_op(eti_gemm_op *p) {
  swap_views(&p->a, &p->b);
  swap_steps(&p->c);
  swap_steps(&p->bias);
  const size_t m = p->m;
  p->m = p->n;
  p->n = m;
  for (size_t d = 0; d < p->outer.rank; d++) {
    const ptrdiff_t step = p->a_outer[d];
    p->a_outer[d] = p->b_outer[d];
    p->b_outer[d] = step;
  }
}

static bool wants_transpose(const eti_gemm_op *p) {
  return !p->b_is_stored && p->c.k_step != 1 && p->c.row_step == 1 && p->n > 1 && p->m > 1;
}

static void load_bias(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                      size_t n) {
  const eti_gemm_view *v = &g->bias_view;
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)v->dtype);
  const char *src =
      (const char *)v->data + ((ptrdiff_t)i * v->row_step + (ptrdiff_t)j * v->k_step) * es;
  for (size_t r = 0; r < m; r++) {
    eti_casts[v->dtype][g->kernel->dtype]((char *)tile + r * step * g->kernel->esize,
                                          (ptrdiff_t)g->kernel->esize,
                                          src + (ptrdiff_t)r * v->row_step * es, v->k_step * es, n);
  }
}

// Computes tile = alpha · tile + beta · bias for a row; bias is NULL if there is none.
static void scale_row(const eti_gemm *g, const eti_gemm_op *p, void *tile, const void *bias,
                      size_t n) {
  switch (g->kernel->dtype) {
    case ET_F32: {
      float *const t = tile;
      const float *const s = bias;
      const float alpha = (float)p->alpha.d, beta = (float)p->beta.d;
      for (size_t j = 0; j < n; j++) t[j] = s == NULL ? alpha * t[j] : alpha * t[j] + beta * s[j];
      break;
    }
    case ET_F64: {
      double *const t = tile;
      const double *const s = bias;
      for (size_t j = 0; j < n; j++)
        t[j] = s == NULL ? p->alpha.d * t[j] : p->alpha.d * t[j] + p->beta.d * s[j];
      break;
    }
    case ET_I32: {
      uint32_t *const t = tile;
      const uint32_t *const s = bias, alpha = (uint32_t)p->alpha.i, beta = (uint32_t)p->beta.i;
      for (size_t j = 0; j < n; j++) t[j] = alpha * t[j] + (s == NULL ? 0 : beta * s[j]);
      break;
    }
    default: {
      uint64_t *const t = tile;
      const uint64_t *const s = bias, alpha = (uint64_t)p->alpha.i, beta = (uint64_t)p->beta.i;
      for (size_t j = 0; j < n; j++) t[j] = alpha * t[j] + (s == NULL ? 0 : beta * s[j]);
      break;
    }
  }
}

enum { SCALE_CHUNK = 128 };

static void store_scaled(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const eti_gemm_op *const p = g->ctx;
  _Alignas(8) unsigned char row[SCALE_CHUNK * 8];
  for (size_t r = 0; r < m; r++) {
    for (size_t c = 0; c < n; c += SCALE_CHUNK) {
      const size_t count = n - c < SCALE_CHUNK ? n - c : SCALE_CHUNK;
      if (p->has_bias) load_bias(g, row, 0, i + r, 1, j + c, count);
      scale_row(g, p, (char *)tile + (r * step + c) * g->kernel->esize, p->has_bias ? row : NULL,
                count);
    }
  }
  eti_gemm_store_view(g, tile, step, i, m, j, n);
}

static bool is_one(const eti_scalar *s) {
  return s->is_float ? s->d == 1.0 : s->i == 1;
}

// Sets the initial value and the final step of C. A bias that is one row or column of the kernel's
// own type starts the accumulators directly.
static void set_init(const eti_gemm_op *p, eti_gemm *g) {
  g->init = ETI_GEMM_ZERO;
  g->bias_view = p->bias;
  if (!is_one(&p->alpha) || (p->has_bias && !is_one(&p->beta))) {
    g->c = NULL;
    g->store = store_scaled;
  } else if (p->has_bias) {
    const bool direct = p->bias.dtype == g->kernel->dtype;
    g->bias = p->bias.data;
    if (direct && p->bias.row_step == 0 && (p->bias.k_step == 1 || p->n == 1)) {
      g->init = ETI_GEMM_COLS;
    } else if (direct && p->bias.k_step == 0 && (p->bias.row_step == 1 || p->m == 1)) {
      g->init = ETI_GEMM_ROWS;
    } else {
      g->c = NULL;
      g->init = ETI_GEMM_KEEP;
      g->load = load_bias;
    }
  }
}

static const void *job_data(const void *data, size_t job, const eti_shape *outer,
                            const ptrdiff_t *steps, et_dtype dtype) {
  ptrdiff_t offset = 0;
  for (size_t d = outer->rank; d-- > 0;) {
    offset += (ptrdiff_t)(job % (size_t)outer->sizes[d]) * steps[d];
    job /= (size_t)outer->sizes[d];
  }
  return (const char *)data + offset * (ptrdiff_t)et_dtype_bytes(dtype);
}

static void describe_views(const void *ctx, size_t i, eti_gemm *g) {
  const eti_gemm_op *const p = ctx;
  g->a_view = p->a;
  g->a_view.data = job_data(p->a.data, i, &p->outer, p->a_outer, p->dtype);
  g->b_view = p->b;
  g->b_view.data = job_data(p->b.data, i, &p->outer, p->b_outer, p->dtype);
}

// Applies the epilogue to a finished block of C in place, row by row.
static void finish_epilogue(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m,
                            size_t j, size_t n) {
  const eti_gemm_op *const p = g->ctx;
  (void)i, (void)j;
  eti_epilogue_rows(p->epilogue, tile, step, (size_t)((float *)tile - (const float *)p->c.data), m,
                    n);
}

static void describe_job(const void *ctx, size_t i, eti_gemm *g) {
  const eti_gemm_op *const p = ctx;
  const eti_gemm_op_panels *const ready = p->panels;
  const size_t es = g->kernel->esize, nr = g->kernel->nr;
  eti_gemm_view c = p->c;
  describe_views(ctx, i, g);
  c.data = job_data(c.data, i, &p->outer, p->c_outer, p->dtype);
  eti_gemm_use_a_view(g, g->a_view);
  eti_gemm_use_b_view(g, g->b_view);
  eti_gemm_use_c_view(g, c);
  if (ready != NULL && ready->a != NULL) {
    const size_t h = ready->a_height;
    const char *data =
        (const char *)ready->a + i % ready->n_jobs * eti_gemm_packed_elements(p->m, h, p->k) * es;
    g->a = (eti_gemm_operand){.data = data, .height = h, .panel_step = h * p->k, .k_step = h};
  }
  if (ready != NULL && ready->b != NULL) {
    const char *data =
        (const char *)ready->b + i % ready->n_jobs * eti_gemm_packed_elements(p->n, nr, p->k) * es;
    g->b = (eti_gemm_operand){.data = data, .height = nr, .panel_step = nr * p->k, .k_step = nr};
  }
  if (p->b_is_stored) g->b = eti_packed_weight_operand(g->kernel, p->b.data, 0, p->n, p->k);
  eti_gemm_prefer_rows(g);
  set_init(p, g);
  if (p->has_bias) {
    g->bias_view.data = job_data(p->bias.data, i, &p->outer, p->bias_outer, p->dtype);
    g->bias = g->bias_view.data;
  }
  g->finish = p->epilogue != NULL && g->c != NULL ? finish_epilogue : NULL;
}

static eti_gemm shape_of(const eti_gemm_op *p) {
  return (eti_gemm){
      .kernel = eti_gemm_kernel_for(acc_of(p->dtype)), .m = p->m, .n = p->n, .k = p->k, .ctx = p};
}

// ---- run and prepare

// Fills the panels that prepare claimed.
static void pack_constant(const et_pool *pool, eti_gemm_op *p, eti_gemm_op_panels *state) {
  const eti_gemm shape = shape_of(p);
  if (state->a != NULL) {
    eti_gemm_pack_all(pool, &shape, state->n_jobs, describe_views, p, eti_gemm_pack_a_view,
                      state->a, p->m, state->a_height);
  } else {
    eti_gemm_pack_all(pool, &shape, state->n_jobs, describe_views, p, eti_gemm_pack_b_view,
                      state->b, p->n, shape.kernel->nr);
  }
  state->is_packed = true;
}

void eti_gemm_op_run(et_kernel_ctx *ctx, eti_gemm_op *p, eti_gemm_op_panels *panels,
                     bool *epilogue_done) {
  if (panels != NULL ? panels->transposed : wants_transpose(p)) transpose_op(p);
  if (panels != NULL && !panels->is_packed) pack_constant(ctx->pool, p, panels);
  p->panels = panels;
  const eti_gemm shape = shape_of(p);
  if (p->epilogue != NULL && p->n_jobs > 0) {
    eti_gemm first = shape;
    describe_job(p, 0, &first);
    *epilogue_done = first.finish != NULL;
  }
  eti_gemm_run(ctx->pool, &shape, p->n_jobs, describe_job, p, ctx->scratch, ctx->scratch_bytes);
}

// Claims room for a constant operand, A or B of all jobs. *out stays NULL while measuring.
static et_status claim_panels(et_prepare_ctx *ctx, const eti_gemm_op *p, bool is_a, size_t height,
                              size_t *n_jobs, void **out) {
  const eti_gemm g = shape_of(p);
  bool is_shared = true;
  for (size_t d = 0; d < p->outer.rank; d++)
    is_shared = is_shared && (is_a ? p->a_outer : p->b_outer)[d] == 0;
  *n_jobs = is_shared ? 1 : p->n_jobs;
  const size_t rows = is_a ? p->m : p->n, each = eti_gemm_packed_elements(rows, height, p->k);
  size_t bytes;
  if (each == 0 || __builtin_mul_overflow(each * g.kernel->esize, *n_jobs, &bytes)) return ET_OK;
  *out = et_prepare_alloc(ctx, bytes, 64);
  return et_prepare_status(ctx);
}

// Work memory for a run with the panels of `ready`, of which only the height is read. Operands
// without data are described with the address of p.
static size_t work_bytes(const eti_gemm_op *p, const eti_gemm_op_panels *ready, bool a_known,
                         bool b_known, size_t n_threads) {
  if (p->n_jobs == 0) return 0;
  eti_gemm_op job = *p;
  const eti_gemm_op_panels panels = {.n_jobs = 1,
                                     .a = a_known ? &job : NULL,
                                     .a_height = ready->a_height,
                                     .b = b_known ? &job : NULL};
  job.a.data = job.b.data = job.c.data = job.bias.data = &job;
  job.panels = a_known || b_known ? &panels : NULL;
  eti_gemm g = shape_of(&job);
  describe_job(&job, 0, &g);
  return eti_gemm_work_bytes(&g, p->is_dynamic, n_threads);
}

et_status eti_gemm_op_prepare(et_prepare_ctx *ctx, eti_gemm_op *p, eti_gemm_op_panels **panels) {
  eti_gemm_op_panels ready = {.transposed = wants_transpose(p)};
  if (ready.transposed) transpose_op(p);
  const eti_gemm shape = shape_of(p);
  const bool a_known = p->a.data != NULL && !p->b_is_stored;
  const bool b_known = p->b.data != NULL && !a_known && !p->b_is_stored;
  if (a_known) {
    ready.a_height = eti_gemm_a_height(shape.kernel, p->m);
    ET_TRY(claim_panels(ctx, p, true, ready.a_height, &ready.n_jobs, &ready.a));
  } else if (b_known) {
    ET_TRY(claim_panels(ctx, p, false, shape.kernel->nr, &ready.n_jobs, &ready.b));
  }
  const size_t work = work_bytes(p, &ready, a_known, b_known, ctx->n_threads);
  if (work > ctx->scratch_bytes) ctx->scratch_bytes = work;
  if (!a_known && !b_known) return ET_OK;
  eti_gemm_op_panels *const kept =
      et_prepare_alloc(ctx, sizeof *kept, _Alignof(eti_gemm_op_panels));
  if (kept == NULL) return et_prepare_status(ctx);
  *kept = ready;
  if (ready.a != NULL || ready.b != NULL) *panels = kept;
  return ET_OK;
}
