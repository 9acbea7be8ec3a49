// matmul.c — the matrix products mm, bmm, baddbmm, addmm, linear. Each operator reads its arguments
// into one description, which gemm_op.h prepares and runs. Layouts of all tensors are free.
#include "kernels/kernel.h"
#include "kernels/op/gemm_op.h"
#include "kernels/lib/packed_weight.h"
#include "kernels/ops.h"

#include <string.h>

#define MATMUL_TYPES ET_TYPES_REAL_HALF

static const eti_scalar one = {.i = 1, .d = 1.0};

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
           "%s: expected one dtype for all, got %s, %s and out %s", op,
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

// Reads [M, K] · [K, N], or a batch of them when rank is 3. Views of inputs are made before out is
// resized: out may be one of them.
static et_status read_matrices(const et_kernel_ctx *ctx, et_tensor *a, et_tensor *b, et_tensor *out,
                               size_t rank, const char *op, eti_gemm_op *p) {
  ET_CHECK(a->rank == rank && b->rank == rank, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected rank %d for both, got %d and %d", op, (int)rank, (int)a->rank,
           (int)b->rank);
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

static void set_output(eti_gemm_op *p, const et_tensor *out) {
  p->is_dynamic = (out->flags & ET_TENSOR_DYNAMIC) != 0;
  p->c = view_of(out, out->rank - 2u, out->rank - 1u);
  if (out->rank == 3) p->c_outer[0] = out->strides[0];
}

static et_status read_mm(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p) {
  et_tensor *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(read_matrices(ctx, a, b, out, 2, "mm", p));
  set_output(p, out);
  return ET_OK;
}

static et_status read_bmm(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p) {
  et_tensor *a, *b, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(read_matrices(ctx, a, b, out, 3, "bmm", p));
  set_output(p, out);
  return ET_OK;
}

// Reads the summand of addmm and baddbmm, broadcast to C: an absent dimension or one of size 1
// repeats with step 0.
static et_status read_summand(const et_kernel_ctx *ctx, const et_tensor *self, size_t rank,
                              const char *op, eti_gemm_op *p) {
  ET_CHECK(self->rank <= rank, ctx->err, ET_INVALID_ARGUMENT,
           "%s: self: expected rank %d or less, got %d", op, (int)rank, (int)self->rank);
  ET_CHECK(self->dtype == p->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "%s: self: expected %s, as the matrices, got %s", op, et_dtype_name(p->dtype),
           et_dtype_name((et_dtype)self->dtype));
  const size_t wanted[3] = {p->n_jobs, p->m, p->n};
  ptrdiff_t steps[3] = {0};
  for (size_t d = 0; d < self->rank; d++) {
    const size_t at = 3u - self->rank + d;
    ET_CHECK(self->sizes[d] == 1 || (size_t)self->sizes[d] == wanted[at], ctx->err,
             ET_INVALID_ARGUMENT, "%s: self: dimension %zu: expected size 1 or %zu, got %d", op, d,
             wanted[at], (int)self->sizes[d]);
    steps[at] = self->sizes[d] == 1 ? 0 : self->strides[d];
  }
  p->has_bias = true;
  p->bias = (eti_gemm_view){
      .data = self->data, .dtype = self->dtype, .row_step = steps[1], .k_step = steps[2]};
  p->bias_outer[0] = steps[0];
  return ET_OK;
}

static et_status read_factor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             const eti_gemm_op *p, eti_scalar *out) {
  ET_TRY(eti_arg_scalar(ctx, args, i, out));
  ET_CHECK(!out->is_float || eti_is_float(p->dtype), ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu: expected an integer for matrices of %s, got floating point", i,
           et_dtype_name(p->dtype));
  return ET_OK;
}

static et_status read_add_product(const et_kernel_ctx *ctx, et_value *const *args, size_t rank,
                                  const char *op, eti_gemm_op *p) {
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

static et_status read_addmm(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p) {
  return read_add_product(ctx, args, 2, "addmm", p);
}
static et_status read_baddbmm(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p) {
  return read_add_product(ctx, args, 3, "baddbmm", p);
}

// Splits the leading dimensions of linear: into one if input and output are stored in rows, else
// the last one makes the rows and the others number the jobs.
static void read_rows(const eti_gemm_view *x, const eti_shape *in, const ptrdiff_t *in_strides,
                      bool rows_adjacent, const et_tensor *out, eti_gemm_op *p) {
  const size_t rank = in->rank, lead = rank - 1;
  p->n_jobs = p->m = 1;
  p->is_dynamic = (out->flags & ET_TENSOR_DYNAMIC) != 0;
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

static et_status read_linear(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p) {
  et_tensor *x, *w, *bias, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &bias));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_CHECK(x->rank >= 1 && w->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "linear: expected input of rank 1 or more and weight of rank 2, got %d and %d",
           (int)x->rank, (int)w->rank);
  ET_TRY(check_types(ctx, x, w, out, "linear"));
  if (x->sizes[x->rank - 1] != w->sizes[1]) return shapes_differ(ctx, "linear", x, w);
  p->dtype = (et_dtype)x->dtype;
  p->alpha = p->beta = one;
  p->k = (size_t)w->sizes[1];
  p->n = (size_t)w->sizes[0];
  p->b = view_of(w, 0, 1);
  if (bias != NULL) {
    ET_CHECK(bias->dtype == x->dtype && bias->rank == 1 && bias->sizes[0] == w->sizes[0], ctx->err,
             ET_INVALID_ARGUMENT, "linear: bias: expected %s[%d], got %s of rank %d",
             et_dtype_name((et_dtype)x->dtype), (int)w->sizes[0],
             et_dtype_name((et_dtype)bias->dtype), (int)bias->rank);
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
           "bmm: expected rank 3 for both, got %d and %d", (int)a->rank, (int)b->rank);
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

// ---- the operators

typedef et_status (*read_fn)(const et_kernel_ctx *ctx, et_value *const *args, eti_gemm_op *p);

static et_status run_product(et_kernel_ctx *ctx, et_value *const *args, read_fn read) {
  eti_gemm_op p = {.n_jobs = 0};
  ET_TRY(read(ctx, args, &p));
  eti_gemm_op_run(ctx, &p, ctx->state, NULL);
  return ET_OK;
}

static et_status prepare_product(et_prepare_ctx *ctx, et_value *const *args, read_fn read) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_gemm_op p = {.n_jobs = 0};
  eti_gemm_op_panels *panels = NULL;
  ET_TRY(read(&k, args, &p));
  ET_TRY(eti_gemm_op_prepare(ctx, &p, &panels));
  ctx->state = panels;
  return ET_OK;
}

et_status op_mm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_product(ctx, args, read_mm);
}
et_status prepare_mm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_product(ctx, args, read_mm);
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

// ---- executorch_py::mm, addmm and packed_linear: the same, then an epilogue

enum { MAX_PLAIN_ARGS = 5 };

typedef struct epilogue_state {
  const eti_epilogue *epilogue;
  eti_gemm_op_panels *panels;  // or NULL
} epilogue_state;

// (input, weight in panels, bias, channels); the epilogue may be absent.
static et_status read_packed_linear(const et_kernel_ctx *ctx, et_value *const *args,
                                    eti_gemm_op *p) {
  et_tensor *x, *panels;
  int64_t n;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &panels));
  ET_TRY(eti_arg_int(ctx, args, 3, &n));
  ET_CHECK(x->rank >= 1, ctx->err, ET_INVALID_ARGUMENT,
           "packed_linear: input: expected rank 1 or more, got 0");
  const int64_t sizes[2] = {n, x->sizes[x->rank - 1u]};
  eti_unpacked_weight w;
  ET_TRY(eti_unpacked_weight_init(ctx, "packed_linear", sizes, 2, panels, &w));
  et_value *const plain[] = {args[0], &w.value, args[2], args[4]};
  ET_TRY(eti_packed_weight_check(ctx, "packed_linear", panels, 1, (size_t)n, (size_t)sizes[1]));
  p->b_is_stored = true;
  return read_linear(ctx, plain, p);
}

// Separates the plain arguments from those of the epilogue, which follow the first n.
static void plain_args(et_value *const *args, size_t n, et_value *plain[MAX_PLAIN_ARGS + 1]) {
  for (size_t i = 0; i < n; i++) plain[i] = args[i];
  plain[n] = args[n + ETI_EPILOGUE_ARGS];
}

static et_status run_with_epilogue(et_kernel_ctx *ctx, et_value *const *args, size_t n,
                                   read_fn read) {
  const epilogue_state *const state = ctx->state;
  et_value *plain[MAX_PLAIN_ARGS + 1];
  plain_args(args, n, plain);
  eti_gemm_op p = {.n_jobs = 0};
  eti_epilogue_call epilogue;
  ET_TRY(read(ctx, plain, &p));
  const et_tensor *const out = plain[n]->as.tensor;
  bool is_done = p.b_is_stored && eti_epilogue_is_absent(args, n);
  if (!is_done) {
    ET_TRY(eti_epilogue_bind(ctx, args, n, state == NULL ? NULL : state->epilogue, out, &epilogue));
    p.epilogue = &epilogue;
  }
  eti_gemm_op_run(ctx, &p, state->panels, &is_done);
  if (!is_done) eti_epilogue_all(ctx->pool, &epilogue, out, out);
  return ET_OK;
}

static et_status prepare_with_epilogue(et_prepare_ctx *ctx, et_value *const *args, size_t n,
                                       read_fn read) {
  et_value *plain[MAX_PLAIN_ARGS + 1];
  plain_args(args, n, plain);
  epilogue_state ready = {.panels = NULL};
  if (read != read_packed_linear || !eti_epilogue_is_absent(args, n))
    ET_TRY(eti_epilogue_prepare(ctx, args, n, &ready.epilogue));
  if (!ctx->is_minimal) {
    const et_kernel_ctx k = eti_prepare_args(ctx);
    eti_gemm_op p = {.n_jobs = 0};
    ET_TRY(read(&k, plain, &p));
    ET_TRY(eti_gemm_op_prepare(ctx, &p, &ready.panels));
  }
  epilogue_state *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(epilogue_state));
  if (state == NULL) return et_prepare_status(ctx);
  *state = ready;
  ctx->state = state;
  return ET_OK;
}

et_status op_mm_epilogue_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_with_epilogue(ctx, args, 2, read_mm);
}
et_status prepare_mm_epilogue_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_with_epilogue(ctx, args, 2, read_mm);
}
et_status op_addmm_epilogue_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_with_epilogue(ctx, args, 5, read_addmm);
}
et_status prepare_addmm_epilogue_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_with_epilogue(ctx, args, 5, read_addmm);
}
et_status op_packed_linear_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_with_epilogue(ctx, args, 4, read_packed_linear);
}
et_status prepare_packed_linear_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_with_epilogue(ctx, args, 4, read_packed_linear);
}
