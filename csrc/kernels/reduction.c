// reduction.c — see reduction.h.
#include "kernels/reduction.h"

#include "kernels/promote.h"

eti_shape eti_reduced_shape(const et_tensor *in, uint32_t mask, bool keepdim) {
  eti_shape shape = {.rank = 0};
  for (size_t d = 0; d < in->rank; d++) {
    const bool reduced = (mask >> d & 1u) != 0;
    if (reduced && !keepdim) continue;
    shape.sizes[shape.rank++] = reduced ? 1 : in->sizes[d];
  }
  return shape;
}

static void iter_begin(eti_iter *it, size_t n_operands) {
  it->rank = 0;
  it->numel = 1;
  it->n_operands = n_operands;
}

void eti_reduction_init(eti_reduction *r, const et_tensor *in, et_tensor *const *outs,
                        size_t n_outs, uint32_t mask, bool keepdim, bool logical_order) {
  r->in = in;
  iter_begin(&r->kept, n_outs + 1);
  iter_begin(&r->reduced, 1);
  r->kept.data[0] = in->data;
  for (size_t k = 0; k < n_outs; k++) r->kept.data[k + 1] = outs[k]->data;
  uint8_t out_dim[ET_MAX_RANK];
  for (size_t d = 0, next = 0; d < in->rank; d++) {
    out_dim[d] = (uint8_t)next;
    next += keepdim || (mask >> d & 1u) == 0;
  }
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)in->dtype);
  bool innermost = true;
  r->across = false;
  for (size_t i = in->rank; i-- > 0;) {
    const size_t d = logical_order ? i : in->dim_order[i];
    ptrdiff_t strides[ETI_MAX_OPERANDS] = {in->strides[d] * bytes};
    eti_iter *it = &r->reduced;
    if ((mask >> d & 1u) == 0) {
      for (size_t k = 0; k < n_outs; k++) {
        strides[k + 1] =
            outs[k]->strides[out_dim[d]] * (ptrdiff_t)et_dtype_bytes((et_dtype)outs[k]->dtype);
      }
      it = &r->kept;
    }
    if (innermost && in->sizes[d] != 1) {
      r->across = it == &r->kept;
      innermost = false;
    }
    it->numel *= (size_t)in->sizes[d];
    eti_iter_add_dim(it, (size_t)in->sizes[d], strides);
  }
  r->n = r->reduced.numel;
}

// ---- one block of results

typedef struct run_job {
  const eti_reducer *reducer;
  et_dtype dtype;
  ptrdiff_t bytes;  // of an input element
  ptrdiff_t load_bytes;
  // across: the block's neighbours
  ptrdiff_t stride;
  size_t w;
  const void *centers;
  void *acc;
} run_job;

// x[0..n) as contiguous values of the load type: where they lie, or cast into the buffer.
static const void *load(const run_job *job, const char *x, ptrdiff_t stride, size_t n,
                        void *buffer) {
  if (job->dtype == job->reducer->load && stride == job->bytes) return x;
  eti_casts[job->dtype][job->reducer->load](buffer, job->load_bytes, x, stride, n);
  return buffer;
}

static void along(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const run_job *job = ctx;
  double buffer[ETI_REDUCE_BLOCK];
  if (job->dtype == job->reducer->load && s[0] == job->bytes) {
    job->reducer->row(job->acc, p[0], n, job->centers);
    return;
  }
  for (size_t i = 0; i < n; i += ETI_REDUCE_BLOCK) {
    const size_t m = n - i < ETI_REDUCE_BLOCK ? n - i : ETI_REDUCE_BLOCK;
    const void *x = load(job, (const char *)p[0] + (ptrdiff_t)i * s[0], s[0], m, buffer);
    job->reducer->row(job->acc, x, m, job->centers);
  }
}

static void across(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const run_job *job = ctx;
  double buffer[ETI_REDUCE_BLOCK];
  for (size_t i = 0; i < n; i++) {
    const void *x =
        load(job, (const char *)p[0] + (ptrdiff_t)i * s[0], job->stride, job->w, buffer);
    job->reducer->columns(job->acc, x, job->w, job->centers);
  }
}

void eti_reduce(const eti_reduction *r, eti_iter *reduced, const eti_reducer *reducer,
                const char *p, ptrdiff_t stride, size_t w, const void *centers, void *acc) {
  const et_dtype dtype = (et_dtype)r->in->dtype;
  const size_t acc_bytes = et_dtype_bytes(reducer->acc);
  run_job job = {.reducer = reducer,
                 .dtype = dtype,
                 .bytes = (ptrdiff_t)et_dtype_bytes(dtype),
                 .load_bytes = (ptrdiff_t)et_dtype_bytes(reducer->load),
                 .stride = stride,
                 .w = w,
                 .centers = centers,
                 .acc = acc};
  double first;  // one accumulator, of any type
  (void)eti_scalar_store(&reducer->init, reducer->acc, &first);
  eti_casts[reducer->acc][reducer->acc](acc, (ptrdiff_t)acc_bytes, &first, 0, w);
  if (r->across) {
    reduced->data[0] = (char *)(uintptr_t)p;
    eti_iter_rows(reduced, 0, reduced->numel, across, &job);
    return;
  }
  for (size_t j = 0; j < w; j++) {
    reduced->data[0] = (char *)(uintptr_t)p + (ptrdiff_t)j * stride;
    job.acc = (char *)acc + j * acc_bytes;
    job.centers = centers == NULL ? NULL : (const char *)centers + (ptrdiff_t)j * job.load_bytes;
    if (reduced->rank == 1) {  // one run of memory, the usual case
      void *const start[1] = {reduced->data[0]};
      along(&job, start, reduced->strides[0], reduced->sizes[0]);
    } else {
      eti_iter_rows(reduced, 0, reduced->numel, along, &job);
    }
  }
}

// ---- all results

typedef struct result_job {
  const eti_reduction *r;
  eti_result_fn fn;
  void *fn_ctx;
  eti_iter *reduced;
} result_job;

static void result_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const result_job *job = ctx;
  const size_t n_outs = job->r->kept.n_operands - 1;
  for (size_t i = 0; i < n; i += ETI_REDUCE_BLOCK) {
    eti_result_block block = {.r = job->r,
                              .reduced = job->reduced,
                              .in = (const char *)p[0] + (ptrdiff_t)i * s[0],
                              .in_stride = s[0],
                              .n = n - i < ETI_REDUCE_BLOCK ? n - i : ETI_REDUCE_BLOCK};
    for (size_t k = 0; k < n_outs; k++) {
      block.out[k] = (char *)p[k + 1] + (ptrdiff_t)i * s[k + 1];
      block.out_stride[k] = s[k + 1];
    }
    job->fn(job->fn_ctx, &block);
  }
}

static void result_task(void *ctx, size_t begin, size_t end) {
  result_job job = *(const result_job *)ctx;
  eti_iter reduced = job.r->reduced;
  job.reduced = &reduced;
  eti_iter_rows(&job.r->kept, begin, end, result_row, &job);
}

void eti_reduction_run(const et_kernel_ctx *ctx, const eti_reduction *r, eti_result_fn fn,
                       void *fn_ctx) {
  result_job job = {.r = r, .fn = fn, .fn_ctx = fn_ctx};
  const size_t work = r->n == 0 ? 1 : r->n, grain = ETI_GRAIN_CHEAP / work + 1;
  et_parallel_for(ctx->pool, result_task, &job, r->kept.numel, grain);
}
