// reduction.c — see reduction.h.
#include "kernels/lib/reduction.h"

#include "kernels/lib/promote.h"

#include <string.h>

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
  r->is_split = false;
  r->pool = NULL;
}

#define FEW_RESULTS 8u
#define MAX_PIECES 64u
#define PIECES ETI_ON_STACK(MAX_PIECES, 16u)  // at the same time
#define MIN_PIECE 16384u                      // elements

void eti_reduction_split(const et_kernel_ctx *ctx, eti_reduction *r) {
  const size_t results = r->kept.numel;
  r->is_split = results > 0 && results <= FEW_RESULTS && r->n >= 8u * MIN_PIECE;
  r->pool = ctx->pool;
}

// ---- one block of results

typedef struct run_job {
  const eti_reducer *reducer;
  et_dtype dtype;
  ptrdiff_t bytes;  // of an input element
  ptrdiff_t load_bytes;
  size_t acc_bytes;
  ptrdiff_t stride;  // between the block's results
  size_t w;
  const void *centers;
  void *acc;
} run_job;

enum {
  BUFFER = ETI_ON_STACK(ETI_REDUCE_BLOCK * 8, 1024),  // bytes of a block, or of its parts
  ROOM = ETI_ON_STACK(16384, 1536)                    // of eight rows
};

static bool is_as_loaded(const run_job *job, ptrdiff_t step) {
  return job->dtype == job->reducer->load && step == job->bytes;
}

static void cast_elements(const run_job *job, void *to, const char *x, ptrdiff_t step, size_t n) {
  eti_casts[job->dtype][job->reducer->load](to, job->load_bytes, x, step, n);
}

static const void *center_at(const run_job *job, size_t j) {
  return job->centers == NULL ? NULL : (const char *)job->centers + (ptrdiff_t)j * job->load_bytes;
}

// Reduces runs that are cast, in blocks that the buffer holds in parts.
static ETI_OWN_FRAME void reduce_in_parts(const run_job *job, const char *p, ptrdiff_t step,
                                          size_t n) {
  const eti_reducer *const r = job->reducer;
  double buffer[BUFFER / 8], centers[ETI_ROW_LANES];
  eti_row_parts parts = {.rows = r->rows, .columns = r->columns, .merge = r->merge};
  (void)eti_scalar_store(&r->init, r->acc, &parts.init);
  for (size_t j = 0; j < job->w; j++) {
    const char *const x = p + (ptrdiff_t)j * job->stride;
    for (size_t l = 0; l < ETI_ROW_LANES && job->centers != NULL; l++)
      memcpy(&centers[l], center_at(job, j), sizeof *centers);
    if (job->centers != NULL) parts.centers = centers;
    for (size_t i = 0; i < n; i += BUFFER / 8) {
      const size_t m = n - i < BUFFER / 8 ? n - i : BUFFER / 8;
      cast_elements(job, buffer, x + (ptrdiff_t)i * step, step, m);
      eti_row_part(&parts, (char *)job->acc + j * job->acc_bytes, buffer, m,
                   i + m == n || (i + m) % ETI_REDUCE_BLOCK == 0);
    }
  }
}

// Reduces a run of n elements of each result; results are s[0] apart, runs job->stride apart.
static void reduce_along(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const run_job *job = ctx;
  const eti_reducer *const reducer = job->reducer;
  _Alignas(64) char buffer[BUFFER];
  if (is_as_loaded(job, s[0])) {
    reducer->rows(job->acc, p[0], job->stride / job->bytes, n, job->w, job->centers);
    return;
  }
  if (BUFFER < ETI_REDUCE_BLOCK * 8 && job->load_bytes == 8 && n * 8 > BUFFER) {
    reduce_in_parts(job, p[0], s[0], n);
    return;
  }
  // Short runs that follow one another are cast together.
  const bool joined = s[0] == job->bytes && job->stride == (ptrdiff_t)n * job->bytes;
  const size_t most = n <= BUFFER / 8 && joined ? BUFFER / 8 / n : 1;
  for (size_t j = 0; j < job->w; j += most) {
    const char *const x = (const char *)p[0] + (ptrdiff_t)j * job->stride;
    const size_t rows = job->w - j < most ? job->w - j : most;
    char *const acc = (char *)job->acc + j * job->acc_bytes;
    for (size_t i = 0; i < n; i += ETI_REDUCE_BLOCK) {
      const size_t m = n - i < ETI_REDUCE_BLOCK ? n - i : ETI_REDUCE_BLOCK;
      cast_elements(job, buffer, x + (ptrdiff_t)i * s[0], s[0], rows * m);
      reducer->rows(acc, buffer, (ptrdiff_t)m, m, rows, center_at(job, j));
    }
  }
}

// Reduces n rows of neighbouring results, s[0] apart.
static void reduce_across(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const run_job *job = ctx;
  _Alignas(64) char room[ROOM];
  if (is_as_loaded(job, job->stride)) {
    job->reducer->columns(job->acc, p[0], s[0] / job->bytes, n, job->w, job->centers);
    return;
  }
  const size_t most = ROOM / 8 / (size_t)job->load_bytes;
  for (size_t j = 0; j < job->w; j += most) {
    const size_t w = job->w - j < most ? job->w - j : most;
    const char *const x = (const char *)p[0] + (ptrdiff_t)j * job->stride;
    for (size_t i = 0; i < n; i += 8) {
      const size_t rows = n - i < 8 ? n - i : 8;
      for (size_t k = 0; k < rows; k++)
        cast_elements(job, room + (ptrdiff_t)(k * w) * job->load_bytes,
                      x + (ptrdiff_t)(i + k) * s[0], job->stride, w);
      job->reducer->columns((char *)job->acc + j * job->acc_bytes, room, (ptrdiff_t)w, rows, w,
                            center_at(job, j));
    }
  }
}

static void start_accumulators(const eti_reducer *reducer, void *acc, size_t w) {
  double first;  // one accumulator, of any type
  (void)eti_scalar_store(&reducer->init, reducer->acc, &first);
  eti_casts[reducer->acc][reducer->acc](acc, (ptrdiff_t)et_dtype_bytes(reducer->acc), &first, 0, w);
}

// Reduces elements begin … end of each of the job's results.
static void reduce_range(run_job *job, const eti_iter *reduced, bool goes_across, size_t begin,
                         size_t end) {
  if (begin == end) return;
  if (!goes_across && reduced->rank == 1) {  // one run of memory, the usual case
    const ptrdiff_t step = reduced->strides[0][0];
    void *const first[1] = {(char *)reduced->data[0] + (ptrdiff_t)begin * step};
    reduce_along(job, first, reduced->strides[0], end - begin);
  } else {
    eti_iter_rows(reduced, begin, end, goes_across ? reduce_across : reduce_along, job);
  }
}

typedef struct piece_job {
  const run_job *run;
  const eti_iter *reduced;
  bool goes_across;
  size_t piece, first;
  double acc[PIECES][FEW_RESULTS];  // of any type
} piece_job;

static void run_pieces(void *ctx, size_t begin, size_t end) {
  piece_job *p = ctx;
  run_job job = *p->run;
  for (size_t i = begin; i < end; i++) {
    const size_t first = (p->first + i) * p->piece, left = p->reduced->numel - first;
    job.acc = p->acc[i];
    start_accumulators(job.reducer, job.acc, job.w);
    reduce_range(&job, p->reduced, p->goes_across, first,
                 first + (left < p->piece ? left : p->piece));
  }
}

// Reduces all elements of the job's results into its accumulators.
static void reduce_all(const eti_reduction *r, run_job *job, const eti_iter *reduced) {
  const size_t least = MIN_PIECE / job->w, even = reduced->numel / MAX_PIECES + 1;
  size_t piece = even > least ? even : least;
  piece = (piece + 4095u) & ~(size_t)4095u;  // the piece size of row sums
  if (!r->is_split || piece >= reduced->numel) {
    reduce_range(job, reduced, r->across, 0, reduced->numel);
    return;
  }
  piece_job p = {.run = job, .reduced = reduced, .goes_across = r->across, .piece = piece};
  const size_t n_pieces = reduced->numel / piece + (reduced->numel % piece != 0);
  for (; p.first < n_pieces; p.first += PIECES) {
    const size_t n = n_pieces - p.first < PIECES ? n_pieces - p.first : PIECES;
    et_parallel_for(r->pool, run_pieces, &p, n, 1);
    for (size_t i = 0; i < n; i++) job->reducer->merge(job->acc, p.acc[i], 0, 1, job->w, NULL);
  }
}

void eti_reduce(const eti_reduction *r, eti_iter *reduced, const eti_reducer *reducer,
                const char *p, ptrdiff_t stride, size_t w, const void *centers, void *acc) {
  const et_dtype dtype = (et_dtype)r->in->dtype;
  const bool one_by_one = r->is_split && !r->across;
  run_job job = {.reducer = reducer,
                 .dtype = dtype,
                 .bytes = (ptrdiff_t)et_dtype_bytes(dtype),
                 .load_bytes = (ptrdiff_t)et_dtype_bytes(reducer->load),
                 .acc_bytes = et_dtype_bytes(reducer->acc),
                 .stride = stride,
                 .w = one_by_one ? 1 : w,
                 .centers = centers,
                 .acc = acc};
  start_accumulators(reducer, acc, w);
  for (size_t j = 0; j < w; j += job.w) {
    reduced->data[0] = (char *)(uintptr_t)p + (ptrdiff_t)j * stride;
    job.acc = (char *)acc + j * job.acc_bytes;
    job.centers = centers == NULL ? NULL : (const char *)centers + (ptrdiff_t)j * job.load_bytes;
    reduce_all(r, &job, reduced);
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
  for (size_t i = 0; i < n; i += ETI_REDUCE_RESULTS) {
    eti_result_block block = {.r = job->r,
                              .reduced = job->reduced,
                              .in = (const char *)p[0] + (ptrdiff_t)i * s[0],
                              .in_stride = s[0],
                              .n = n - i < ETI_REDUCE_RESULTS ? n - i : ETI_REDUCE_RESULTS};
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
  if (r->is_split) {
    result_task(&job, 0, r->kept.numel);
    return;
  }
  const size_t work = r->n == 0 ? 1 : r->n, grain = ETI_GRAIN_CHEAP / work + 1;
  et_parallel_for(ctx->pool, result_task, &job, r->kept.numel, grain);
}
