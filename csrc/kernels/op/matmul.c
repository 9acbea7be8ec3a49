// matmul.c — matrix products: mm, bmm, baddbmm, addmm, linear. Each operator reads its arguments
// into one description (product); preparing claims room for the panels of a constant operand, the
// first run packs them (so that loading stays cheap and the run's threads share the work), and
// every run hands everything to eti_gemm_run. Relies on micro/gemm.h for the numbers. Half types
// accumulate in f32 and are rounded once. Layouts of all tensors are free.
#include "kernels/chain.h"
#include "kernels/kernel.h"
#include "kernels/micro/gemm.h"
#include "kernels/ops.h"

#include <string.h>

#define MATMUL_TYPES ET_TYPES_REAL_HALF

// What prepare leaves for run: room for the panels of a constant operand.
typedef struct packed_product {
  bool transposed;  // A and B, rows and columns have changed places
  bool is_packed;
  size_t n_jobs;  // 1 when all jobs share the operand, however many there are
  void *a;
  size_t a_height;
  void *b;
} packed_product;

// n_jobs products C = alpha · A·B + beta · bias. Steps are in elements of `dtype`; data are those
// of job 0.
typedef struct product {
  size_t n_jobs, m, n, k;
  et_dtype dtype;
  eti_gemm_view a, b, c, bias;  // bias.data NULL: none
  bool has_bias;
  eti_shape outer;  // sizes of the dimensions that number the jobs
  ptrdiff_t a_outer[ET_MAX_RANK], b_outer[ET_MAX_RANK], c_outer[ET_MAX_RANK],
      bias_outer[ET_MAX_RANK];
  eti_scalar alpha, beta;
  const eti_chain *chain;  // on C as it is made; NULL: none
  packed_product ready;
} product;

static const eti_scalar one = {.i = 1, .d = 1.0};

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

// ---- from arguments to a product

static eti_gemm_view view_of(const et_tensor *t, size_t row_dim, size_t k_dim) {
  return (eti_gemm_view){.data = t->data,
                         .dtype = t->dtype,
                         .row_step = t->strides[row_dim],
                         .k_step = t->strides[k_dim]};
}

static et_status check_types(const et_kernel_ctx *ctx, const et_tensor *a, const et_tensor *b,
                             const et_tensor *out, const char *op) {
  ET_CHECK(eti_dtype_in((et_dtype)a->dtype, MATMUL_TYPES), ctx->err, ET_NOT_SUPPORTED,
           "%s: dtype %s is not supported", op, et_dtype_name((et_dtype)a->dtype));
  ET_CHECK(a->dtype == b->dtype && a->dtype == out->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "%s: dtypes %s, %s and out %s, needs one dtype for all", op,
           et_dtype_name((et_dtype)a->dtype), et_dtype_name((et_dtype)b->dtype),
           et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status shapes_differ(const et_kernel_ctx *ctx, const char *op, const et_tensor *a,
                               const et_tensor *b) {
  const eti_shape sa = eti_shape_of(a), sb = eti_shape_of(b);
  char ta[ETI_SHAPE_TEXT], tb[ETI_SHAPE_TEXT];
  return ET_FAIL(ctx->err, ET_INVALID_ARGUMENT, "%s: shapes %s and %s cannot be multiplied", op,
                 eti_shape_text(&sa, ta), eti_shape_text(&sb, tb));
}

// [M, K] · [K, N], or a batch of them when rank is 3. Views of inputs are taken before out is
// resized: out may be one of them.
static et_status read_matrices(const et_kernel_ctx *ctx, et_tensor *a, et_tensor *b, et_tensor *out,
                               size_t rank, const char *op, product *p) {
  ET_CHECK(a->rank == rank && b->rank == rank, ctx->err, ET_INVALID_ARGUMENT,
           "%s: ranks %d and %d, needs %d", op, (int)a->rank, (int)b->rank, (int)rank);
  ET_TRY(check_types(ctx, a, b, out, op));
  const size_t d = rank - 2;
  if (a->sizes[d + 1] != b->sizes[d] || (rank == 3 && a->sizes[0] != b->sizes[0]))
    return shapes_differ(ctx, op, a, b);
  eti_shape shape = {.rank = rank};
  shape.sizes[0] = a->sizes[0];
  shape.sizes[d] = a->sizes[d];
  shape.sizes[d + 1] = b->sizes[d + 1];
  p->dtype = (et_dtype)a->dtype;
  p->m = (size_t)a->sizes[d];
  p->k = (size_t)a->sizes[d + 1];
  p->n = (size_t)b->sizes[d + 1];
  p->a = view_of(a, d, d + 1);
  p->b = view_of(b, d + 1, d);
  p->n_jobs = 1;
  if (rank == 3) {
    p->n_jobs = (size_t)a->sizes[0];
    p->outer = (eti_shape){.rank = 1, .sizes = {a->sizes[0]}};
    p->a_outer[0] = a->strides[0];
    p->b_outer[0] = b->strides[0];
  }
  p->alpha = p->beta = one;
  return eti_resize(ctx, out, &shape);
}

static void set_output(product *p, const et_tensor *out) {
  p->c = view_of(out, out->rank - 2u, out->rank - 1u);
  if (out->rank == 3) p->c_outer[0] = out->strides[0];
}

static et_status read_mm(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  et_tensor *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(read_matrices(ctx, a, b, out, 2, "mm", p));
  set_output(p, out);
  return ET_OK;
}

static et_status read_bmm(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  et_tensor *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(read_matrices(ctx, a, b, out, 3, "bmm", p));
  set_output(p, out);
  return ET_OK;
}

// The summand of addmm and baddbmm, broadcast to C: a dimension that is absent or has size 1 is
// repeated with step 0.
static et_status read_summand(const et_kernel_ctx *ctx, const et_tensor *self, size_t rank,
                              const char *op, product *p) {
  ET_CHECK(self->rank <= rank, ctx->err, ET_INVALID_ARGUMENT,
           "%s: self has rank %d, needs at most %d", op, (int)self->rank, (int)rank);
  ET_CHECK(self->dtype == p->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "%s: self has dtype %s, the matrices %s", op, et_dtype_name((et_dtype)self->dtype),
           et_dtype_name(p->dtype));
  const size_t wanted[3] = {p->n_jobs, p->m, p->n};
  ptrdiff_t steps[3] = {0};
  for (size_t d = 0; d < self->rank; d++) {
    const size_t at = 3u - self->rank + d;
    ET_CHECK(self->sizes[d] == 1 || (size_t)self->sizes[d] == wanted[at], ctx->err,
             ET_INVALID_ARGUMENT, "%s: self has size %d in dimension %zu, needs 1 or %zu", op,
             (int)self->sizes[d], d, wanted[at]);
    steps[at] = self->sizes[d] == 1 ? 0 : self->strides[d];
  }
  p->has_bias = true;
  p->bias = (eti_gemm_view){
      .data = self->data, .dtype = self->dtype, .row_step = steps[1], .k_step = steps[2]};
  p->bias_outer[0] = steps[0];
  return ET_OK;
}

static et_status read_factor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             const product *p, eti_scalar *out) {
  ET_TRY(eti_arg_scalar(ctx, args, i, out));
  ET_CHECK(!out->is_float || eti_is_float(p->dtype), ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu is floating point, but the matrices are %s", i, et_dtype_name(p->dtype));
  return ET_OK;
}

static et_status read_add_product(const et_kernel_ctx *ctx, et_value *const *args, size_t rank,
                                  const char *op, product *p) {
  et_tensor *self, *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  const eti_shape before = eti_shape_of(self);
  ET_TRY(read_matrices(ctx, a, b, out, rank, op, p));
  const eti_shape after = eti_shape_of(self);
  ET_CHECK(memcmp(&before, &after, sizeof before) == 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: self is also out and has another shape", op);
  ET_TRY(read_summand(ctx, self, rank, op, p));
  set_output(p, out);
  ET_TRY(read_factor(ctx, args, 3, p, &p->beta));
  ET_TRY(read_factor(ctx, args, 4, p, &p->alpha));
  if (p->beta.d == 0.0)
    p->has_bias = false;  // ATen: self is then not read, so its NaN do not count
  return ET_OK;
}

static et_status read_addmm(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  return read_add_product(ctx, args, 2, "addmm", p);
}
static et_status read_baddbmm(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  return read_add_product(ctx, args, 3, "baddbmm", p);
}

// Leading dimensions of linear: all in one when input and output lie row by row, else the last of
// them makes the rows and the others number the jobs.
static void read_rows(const eti_gemm_view *x, const eti_shape *in, const ptrdiff_t *in_strides,
                      bool rows_adjacent, const et_tensor *out, product *p) {
  const size_t rank = in->rank, lead = rank - 1;
  p->n_jobs = p->m = 1;
  p->a = *x;
  p->a.k_step = in_strides[lead];
  p->c = (eti_gemm_view){.data = out->data, .dtype = out->dtype, .k_step = out->strides[lead]};
  if (rows_adjacent) {
    for (size_t d = 0; d < lead; d++) p->m *= (size_t)in->sizes[d];
    p->a.row_step = (ptrdiff_t)p->k;
    p->c.row_step = (ptrdiff_t)p->n;
    return;
  }
  if (lead > 0) {
    p->m = (size_t)in->sizes[lead - 1];
    p->a.row_step = in_strides[lead - 1];
    p->c.row_step = out->strides[lead - 1];
  }
  p->outer.rank = lead > 0 ? lead - 1 : 0;
  for (size_t d = 0; d < p->outer.rank; d++) {
    p->outer.sizes[d] = in->sizes[d];
    p->n_jobs *= (size_t)in->sizes[d];
    p->a_outer[d] = in_strides[d];
    p->c_outer[d] = out->strides[d];
  }
}

static et_status read_linear(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  et_tensor *x, *w, *bias, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &bias));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_CHECK(x->rank >= 1 && w->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "linear: input has rank %d and weight %d, needs at least 1 and exactly 2", (int)x->rank,
           (int)w->rank);
  ET_TRY(check_types(ctx, x, w, out, "linear"));
  if (x->sizes[x->rank - 1] != w->sizes[1]) return shapes_differ(ctx, "linear", x, w);
  p->dtype = (et_dtype)x->dtype;
  p->alpha = p->beta = one;
  p->k = (size_t)w->sizes[1];
  p->n = (size_t)w->sizes[0];
  p->b = view_of(w, 0, 1);
  if (bias != NULL) {
    ET_CHECK(bias->dtype == x->dtype && bias->rank == 1 && bias->sizes[0] == w->sizes[0], ctx->err,
             ET_INVALID_ARGUMENT, "linear: bias is %s of rank %d, needs %s[%d]",
             et_dtype_name((et_dtype)bias->dtype), (int)bias->rank,
             et_dtype_name((et_dtype)x->dtype), (int)w->sizes[0]);
    p->has_bias = true;
    p->bias = (eti_gemm_view){.data = bias->data, .dtype = bias->dtype, .k_step = bias->strides[0]};
  }
  const eti_gemm_view view = {.data = x->data, .dtype = x->dtype};
  const eti_shape in = eti_shape_of(x);
  const bool in_adjacent = eti_is_contiguous(x);
  ptrdiff_t in_strides[ET_MAX_RANK] = {0};
  for (size_t d = 0; d < x->rank; d++) in_strides[d] = x->strides[d];
  eti_shape shape = in;
  shape.sizes[shape.rank - 1] = w->sizes[0];
  ET_TRY(eti_resize(ctx, out, &shape));
  read_rows(&view, &in, in_strides, in_adjacent && eti_is_contiguous(out), out, p);
  return ET_OK;
}

// ---- from a product to eti_gemm

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
static void transpose(product *p) {
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

static bool wants_transpose(const product *p) {
  return p->c.k_step != 1 && p->c.row_step == 1 && p->n > 1 && p->m > 1;
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

// tile = alpha · tile + beta · bias for a row; bias is NULL when there is none.
static void scale_row(const eti_gemm *g, const product *p, void *tile, const void *bias, size_t n) {
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

enum { SCALE_CHUNK = 256 };

static void store_scaled(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const product *const p = g->ctx;
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

// How C begins and ends. A bias that is one row or column of the kernel's own type starts the
// accumulators directly.
static void set_init(const product *p, eti_gemm *g) {
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

static const void *moved(const void *data, size_t job, const eti_shape *outer,
                         const ptrdiff_t *steps, et_dtype dtype) {
  ptrdiff_t offset = 0;
  for (size_t d = outer->rank; d-- > 0;) {
    offset += (ptrdiff_t)(job % (size_t)outer->sizes[d]) * steps[d];
    job /= (size_t)outer->sizes[d];
  }
  return (const char *)data + offset * (ptrdiff_t)et_dtype_bytes(dtype);
}

static void describe_views(const void *ctx, size_t i, eti_gemm *g) {
  const product *const p = ctx;
  g->a_view = p->a;
  g->a_view.data = moved(p->a.data, i, &p->outer, p->a_outer, p->dtype);
  g->b_view = p->b;
  g->b_view.data = moved(p->b.data, i, &p->outer, p->b_outer, p->dtype);
}

// A finished block of C, which lies in place, row by row.
static void finish_chain(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const product *const p = g->ctx;
  (void)i, (void)j;
  eti_chain_rows(p->chain, tile, step, (size_t)((float *)tile - (const float *)p->c.data), m, n);
}

static void describe_job(const void *ctx, size_t i, eti_gemm *g) {
  const product *const p = ctx;
  const size_t es = g->kernel->esize, nr = g->kernel->nr;
  eti_gemm_view c = p->c;
  describe_views(ctx, i, g);
  c.data = moved(c.data, i, &p->outer, p->c_outer, p->dtype);
  eti_gemm_use_a_view(g, g->a_view);
  eti_gemm_use_b_view(g, g->b_view);
  eti_gemm_use_c_view(g, c);
  if (p->ready.a != NULL) {
    const size_t h = p->ready.a_height;
    const char *data = (const char *)p->ready.a +
                       i % p->ready.n_jobs * eti_gemm_packed_elements(p->m, h, p->k) * es;
    g->a = (eti_gemm_operand){.data = data, .height = h, .panel_step = h * p->k, .k_step = h};
  }
  if (p->ready.b != NULL) {
    const char *data = (const char *)p->ready.b +
                       i % p->ready.n_jobs * eti_gemm_packed_elements(p->n, nr, p->k) * es;
    g->b = (eti_gemm_operand){.data = data, .height = nr, .panel_step = nr * p->k, .k_step = nr};
  }
  eti_gemm_prefer_rows(g);
  set_init(p, g);
  if (p->has_bias) {
    g->bias_view.data = moved(p->bias.data, i, &p->outer, p->bias_outer, p->dtype);
    g->bias = g->bias_view.data;
  }
  g->finish = p->chain != NULL && g->c != NULL ? finish_chain : NULL;
}

static eti_gemm shape_of(const product *p) {
  return (eti_gemm){
      .kernel = eti_gemm_kernel_for(acc_of(p->dtype)), .m = p->m, .n = p->n, .k = p->k, .ctx = p};
}

// ---- run and prepare

typedef et_status (*read_fn)(const et_kernel_ctx *ctx, et_value *const *args, product *p);

// Fills the panels that prepare claimed.
static void pack_constant(const et_pool *pool, product *p, packed_product *state) {
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

// *chained, if chain is not NULL: whether the chain was applied on the way.
static void run_read_product(et_kernel_ctx *ctx, product p, bool *chained) {
  packed_product *const state = ctx->state;
  if (state != NULL ? state->transposed : wants_transpose(&p)) transpose(&p);
  if (state != NULL && !state->is_packed) pack_constant(ctx->pool, &p, state);
  if (state != NULL) p.ready = *state;
  const eti_gemm shape = shape_of(&p);
  if (p.chain != NULL && p.n_jobs > 0) {
    eti_gemm first = shape;
    describe_job(&p, 0, &first);
    *chained = first.finish != NULL;
  }
  if (ctx->scratch_bytes >= ETI_GEMM_MIN_WORK) {
    eti_gemm_run(ctx->pool, &shape, p.n_jobs, describe_job, &p, ctx->scratch, ctx->scratch_bytes);
  } else {
    _Alignas(64) char work[ETI_GEMM_MIN_WORK];
    eti_gemm_run(ctx->pool, &shape, p.n_jobs, describe_job, &p, work, sizeof work);
  }
}

static et_status run_product(et_kernel_ctx *ctx, et_value *const *args, read_fn read) {
  product p = {.n_jobs = 0};
  ET_TRY(read(ctx, args, &p));
  run_read_product(ctx, p, NULL);
  return ET_OK;
}

// Claims room for the constant operand that is A or B of all jobs. *out stays NULL while measuring.
static et_status claim_panels(et_prepare_ctx *ctx, const product *p, bool is_a, size_t height,
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

static et_status prepare_product(et_prepare_ctx *ctx, et_value *const *args, read_fn read) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  product p = {.n_jobs = 0};
  ET_TRY(read(&k, args, &p));
  packed_product ready = {.transposed = wants_transpose(&p)};
  if (ready.transposed) transpose(&p);
  const eti_gemm shape = shape_of(&p);
  const bool a_known = p.a.data != NULL, b_known = p.b.data != NULL && !a_known;
  if (a_known) {
    ready.a_height = eti_gemm_a_height(shape.kernel, p.m);
    ET_TRY(claim_panels(ctx, &p, true, ready.a_height, &ready.n_jobs, &ready.a));
  } else if (b_known) {
    ET_TRY(claim_panels(ctx, &p, false, shape.kernel->nr, &ready.n_jobs, &ready.b));
  }
  const size_t work =
      eti_gemm_work_bytes(shape.kernel, p.m, p.n, p.k, !a_known, !b_known, true, ctx->n_threads);
  if (work > ctx->scratch_bytes) ctx->scratch_bytes = work;
  if (!a_known && !b_known) return ET_OK;
  packed_product *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(packed_product));
  if (state == NULL) return et_prepare_status(ctx);
  *state = ready;
  if (ready.a != NULL || ready.b != NULL) ctx->state = state;
  return ET_OK;
}

et_status op_mm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_product(ctx, args, read_mm);
}
et_status prepare_mm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_product(ctx, args, read_mm);
}
// ---- bmm of complex numbers, rare and small: element by element, summed in f64 in order of k

typedef struct complex_product {
  const et_tensor *a, *b, *out;
} complex_product;

static void load_complex(const et_tensor *t, ptrdiff_t at, double to[2]) {
  for (ptrdiff_t part = 0; part < 2; part++)
    to[part] = t->dtype == ET_C64 ? (double)((const float *)t->data)[2 * at + part]
                                  : ((const double *)t->data)[2 * at + part];
}

static void complex_element(const complex_product *p, size_t job, size_t i, size_t j) {
  const ptrdiff_t *sa = p->a->strides, *sb = p->b->strides, *so = p->out->strides;
  ptrdiff_t at_a = (ptrdiff_t)job * sa[0] + (ptrdiff_t)i * sa[1];
  ptrdiff_t at_b = (ptrdiff_t)job * sb[0] + (ptrdiff_t)j * sb[2];
  double sum[2] = {0.0, 0.0}, x[2], y[2];
  for (int32_t k = 0; k < p->a->sizes[2]; k++, at_a += sa[2], at_b += sb[1]) {
    load_complex(p->a, at_a, x);
    load_complex(p->b, at_b, y);
    sum[0] += x[0] * y[0] - x[1] * y[1];
    sum[1] += x[0] * y[1] + x[1] * y[0];
  }
  const ptrdiff_t at = (ptrdiff_t)job * so[0] + (ptrdiff_t)i * so[1] + (ptrdiff_t)j * so[2];
  for (ptrdiff_t part = 0; part < 2; part++) {
    if (p->out->dtype == ET_C64) {
      ((float *)p->out->data)[2 * at + part] = (float)sum[part];
    } else {
      ((double *)p->out->data)[2 * at + part] = sum[part];
    }
  }
}

static void complex_rows(void *ctx, size_t begin, size_t end) {
  const complex_product *p = ctx;
  const size_t m = (size_t)p->out->sizes[1], n = (size_t)p->out->sizes[2];
  for (size_t row = begin; row < end; row++) {
    for (size_t j = 0; j < n; j++) complex_element(p, row / m, row % m, j);
  }
}

static bool is_complex_product(et_value *const *args) {
  return args[0] != NULL && args[0]->tag == ET_TENSOR &&
         eti_dtype_in((et_dtype)args[0]->as.tensor->dtype, ET_TYPES_COMPLEX);
}

static et_status complex_bmm(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, a, b, "bmm: the matrices"));
  ET_TRY(eti_check_same_dtype(ctx, a, out, "bmm: self and out"));
  ET_CHECK(a->rank == 3 && b->rank == 3, ctx->err, ET_INVALID_ARGUMENT,
           "bmm: ranks %d and %d, needs 3", (int)a->rank, (int)b->rank);
  if (a->sizes[2] != b->sizes[1] || a->sizes[0] != b->sizes[0])
    return shapes_differ(ctx, "bmm", a, b);
  const eti_shape shape = {.rank = 3, .sizes = {a->sizes[0], a->sizes[1], b->sizes[2]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  complex_product p = {a, b, out};
  et_parallel_for(ctx->pool, complex_rows, &p, (size_t)shape.sizes[0] * (size_t)shape.sizes[1],
                  ETI_GRAIN_MATH / (size_t)shape.sizes[2] + 1);
  return ET_OK;
}

et_status op_bmm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return is_complex_product(args) ? complex_bmm(ctx, args) : run_product(ctx, args, read_bmm);
}
et_status prepare_bmm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return is_complex_product(args) ? ET_OK : prepare_product(ctx, args, read_bmm);
}
et_status op_addmm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_product(ctx, args, read_addmm);
}
et_status prepare_addmm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_product(ctx, args, read_addmm);
}
et_status op_baddbmm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_product(ctx, args, read_baddbmm);
}
et_status prepare_baddbmm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_product(ctx, args, read_baddbmm);
}
et_status op_linear_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_product(ctx, args, read_linear);
}
et_status prepare_linear_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_product(ctx, args, read_linear);
}

// ---- executorch_py::mm and addmm: the same, then a chain of element-wise steps

enum { MAX_PLAIN_ARGS = 5 };

// The arguments without those of the chain, which follow the first n.
static void leave_out_chain(et_value *const *args, size_t n, et_value *plain[MAX_PLAIN_ARGS + 1]) {
  for (size_t i = 0; i < n; i++) plain[i] = args[i];
  plain[n] = args[n + ETI_CHAIN_ARGS];
}

static et_status run_chained(et_kernel_ctx *ctx, et_value *const *args, size_t n, read_fn read) {
  et_value *plain[MAX_PLAIN_ARGS + 1];
  leave_out_chain(args, n, plain);
  product p = {.n_jobs = 0};
  eti_chain chain;
  ET_TRY(read(ctx, plain, &p));
  ET_TRY(eti_chain_read(ctx, args, n, &chain));
  const et_tensor *const out = plain[n]->as.tensor;
  ET_TRY(eti_chain_check(ctx, &chain, out));
  p.chain = &chain;
  bool chained = false;
  run_read_product(ctx, p, &chained);
  if (!chained) eti_chain_all(ctx->pool, &chain, out, out);
  return ET_OK;
}

static et_status prepare_chained(et_prepare_ctx *ctx, et_value *const *args, size_t n,
                                 read_fn read) {
  et_value *plain[MAX_PLAIN_ARGS + 1];
  leave_out_chain(args, n, plain);
  return prepare_product(ctx, plain, read);
}

et_status op_chained_mm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_chained(ctx, args, 2, read_mm);
}
et_status prepare_chained_mm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_chained(ctx, args, 2, read_mm);
}
et_status op_chained_addmm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_chained(ctx, args, 5, read_addmm);
}
et_status prepare_chained_addmm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_chained(ctx, args, 5, read_addmm);
}
