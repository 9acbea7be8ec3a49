// gemm_pack.c — copies of elements into the panels of a product and out of its tiles: the stock
// functions over strided views, the choice to read an operand in place, and packing of whole
// operands before a run. Elements are copied and converted, never computed with.
#include "kernels/micro/gemm/gemm.h"

#include <string.h>

#include "kernels/micro/convert/cast.h"
#include "kernels/micro/transpose.h"
#include "kernels/stack.h"

// ---- views

enum { NEAR_STEP = 1024 };  // bytes between rows of B that are read in place

static const void *view_at(const eti_gemm_view *v, size_t row, size_t k) {
  const ptrdiff_t elements = (ptrdiff_t)row * v->row_step + (ptrdiff_t)k * v->k_step;
  return (const char *)v->data + elements * (ptrdiff_t)et_dtype_bytes((et_dtype)v->dtype);
}

static void zero_lanes(void *dst, size_t esize, size_t width, size_t n, size_t n_k) {
  if (n == width) return;
  for (size_t k = 0; k < n_k; k++)
    memset((char *)dst + (k * width + n) * esize, 0, (width - n) * esize);
}

enum { CAST_K = ETI_ON_STACK(64, 32), CAST_ROWS = ETI_ON_STACK(32, 8) };

// Packs rows of another type: a piece of each row is converted first, then packed.
static void pack_cast_rows(const eti_gemm_kernel *kernel, const eti_gemm_view *v, char *dst,
                           size_t width, size_t first, size_t n, size_t k0, size_t n_k) {
  const size_t esize = kernel->esize;
  const ptrdiff_t src_esize = (ptrdiff_t)et_dtype_bytes((et_dtype)v->dtype);
  _Alignas(64) char piece[CAST_ROWS * CAST_K * sizeof(float)];
  for (size_t k = 0; k < n_k; k += CAST_K) {
    const size_t count = n_k - k < CAST_K ? n_k - k : CAST_K;
    for (size_t i = 0; i < n; i++) {
      eti_casts[v->dtype][kernel->dtype](piece + i * CAST_K * esize, (ptrdiff_t)esize,
                                         view_at(v, first + i, k0 + k), src_esize, count);
    }
    kernel->pack_rows(dst + k * width * esize, width, piece, CAST_K, n, count);
  }
}

static void pack_view(const eti_gemm_kernel *kernel, const eti_gemm_view *v, void *dst,
                      size_t width, size_t first, size_t n, size_t k0, size_t n_k) {
  const size_t esize = kernel->esize;
  const char *src = view_at(v, first, k0);
  if (v->dtype == kernel->dtype && v->k_step == 1) {
    kernel->pack_rows(dst, width, src, (size_t)v->row_step, n, n_k);
    return;
  }
  if (v->k_step == 1 && esize == sizeof(float) && n <= CAST_ROWS) {
    pack_cast_rows(kernel, v, dst, width, first, n, k0, n_k);
    return;
  }
  const ptrdiff_t src_esize = (ptrdiff_t)et_dtype_bytes((et_dtype)v->dtype);
  zero_lanes(dst, esize, width, n, n_k);
  if (v->dtype == kernel->dtype && v->row_step == 1) {
    for (size_t k = 0; k < n_k; k++) {
      memcpy((char *)dst + k * width * esize, src + (ptrdiff_t)k * v->k_step * src_esize,
             n * esize);
    }
    return;
  }
  const eti_cast_fn cast = eti_casts[v->dtype][kernel->dtype];
  for (size_t k = 0; k < n_k; k++) {
    cast((char *)dst + k * width * esize, (ptrdiff_t)esize,
         src + (ptrdiff_t)k * v->k_step * src_esize, v->row_step * src_esize, n);
  }
}

void eti_gemm_pack_a_view(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                          size_t k0, size_t n_k) {
  pack_view(g->kernel, &g->a_view, dst, width, first, n, k0, n_k);
}

void eti_gemm_pack_b_view(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                          size_t k0, size_t n_k) {
  pack_view(g->kernel, &g->b_view, dst, width, first, n, k0, n_k);
}

void eti_gemm_store_view(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const eti_gemm_view *v = &g->c_view;
  const ptrdiff_t out = (ptrdiff_t)et_dtype_bytes((et_dtype)v->dtype),
                  esize = (ptrdiff_t)g->kernel->esize;
  const eti_cast_fn cast = eti_casts[g->kernel->dtype][v->dtype];
  char *const dst = (char *)(uintptr_t)view_at(v, i, j);
  char *const src = tile;
  if (v->row_step == 1 && v->k_step != 1 && v->dtype == g->kernel->dtype) {
    eti_transpose(dst, v->k_step * out, src, (ptrdiff_t)step * esize, m, n, g->kernel->esize);
    return;
  }
  if (v->row_step == 1 && v->k_step != 1) {  // walk along the destination's memory
    for (size_t c = 0; c < n; c++) {
      cast(dst + (ptrdiff_t)c * v->k_step * out, out, src + c * (size_t)esize,
           (ptrdiff_t)step * esize, m);
    }
    return;
  }
  for (size_t r = 0; r < m; r++) {
    cast(dst + (ptrdiff_t)r * v->row_step * out, v->k_step * out, src + r * step * (size_t)esize,
         esize, n);
  }
}

void eti_gemm_use_a_view(eti_gemm *g, eti_gemm_view view) {
  g->a_view = view;
  const bool in_place = view.dtype == g->kernel->dtype && (view.row_step == 1 || g->m == 1);
  const size_t height = eti_gemm_a_most(g->kernel, g->m);
  g->a = (eti_gemm_operand){
      .data = in_place ? view.data : NULL,
      .height = height,
      .panel_step = height,
      .k_step = (size_t)view.k_step,
      .pack = eti_gemm_pack_a_view,
  };
}

// Reads B in place if few rows of A reuse a panel of B, or the steps from k to k + 1 are short;
// long ones waste cache and TLB.
void eti_gemm_use_b_view(eti_gemm *g, eti_gemm_view view) {
  g->b_view = view;
  const bool near =
      g->m <= 2u * g->kernel->mr || (size_t)view.k_step * g->kernel->esize <= NEAR_STEP;
  const bool in_place = view.dtype == g->kernel->dtype && (view.row_step == 1 || g->n == 1) && near;
  g->b = (eti_gemm_operand){
      .data = in_place ? view.data : NULL,
      .height = g->kernel->nr,
      .panel_step = g->kernel->nr,
      .k_step = (size_t)view.k_step,
      .pack = eti_gemm_pack_b_view,
  };
}

void eti_gemm_use_c_view(eti_gemm *g, eti_gemm_view view) {
  g->c_view = view;
  const bool in_place = view.dtype == g->kernel->dtype && (view.k_step == 1 || g->n == 1);
  g->c = in_place ? (void *)(uintptr_t)view.data : NULL;
  g->c_step = (size_t)view.row_step;
  g->store = eti_gemm_store_view;
}

static void point_view(const eti_gemm *g, const void **rows, void *room, size_t first, size_t n) {
  (void)room;
  for (size_t i = 0; i < n; i++) rows[i] = view_at(&g->a_view, first + i, 0);
}

void eti_gemm_prefer_rows(eti_gemm *g) {
  const eti_gemm_view *const v = &g->a_view;
  if (g->a.data != NULL || g->b.data == NULL || v->k_step != 1 || v->dtype != g->kernel->dtype ||
      g->k == 0)
    return;
  g->a = (eti_gemm_operand){
      .height = eti_gemm_rows_height(g->kernel, g->m), .point = point_view, .segment = g->k};
}

// ---- packing ahead

size_t eti_gemm_a_most(const eti_gemm_kernel *kernel, size_t m) {
  return m == 0 ? 1 : m < kernel->mr ? m : kernel->mr;
}

static size_t even_height(size_t mr, size_t m) {
  const size_t panels = (m + mr - 1) / mr;
  return panels == 0 ? 1 : (m + panels - 1) / panels;
}

size_t eti_gemm_a_height(const eti_gemm_kernel *kernel, size_t m) {
  return even_height(kernel->mr, m);
}
// gcc 12 leaves a row of B on the stack in the AVX-512 tile of seven rows: tiles of eight, the last
// one shorter, are faster.
size_t eti_gemm_rows_height(const eti_gemm_kernel *kernel, size_t m) {
  const size_t height = even_height(kernel->rows_mr, m);
  return height == 7 && m > 7 && kernel->rows_mr >= 8 ? 8 : height;
}

size_t eti_gemm_packed_elements(size_t rows, size_t height, size_t k) {
  const size_t padded = (rows + height - 1) / height * height;
  size_t elements;
  return __builtin_mul_overflow(padded, k, &elements) ? 0 : elements;
}

typedef struct packing {
  const eti_gemm *shape;
  eti_gemm_job_fn job;
  const void *ctx;
  eti_gemm_pack_fn pack;
  char *dst;
  size_t rows, height, n_panels;  // of one job
} packing;

static void pack_panels(void *ctx, size_t begin, size_t end) {
  const packing *const p = ctx;
  eti_gemm g = *p->shape;
  g.ctx = p->ctx;
  const size_t panel_bytes = p->height * g.k * g.kernel->esize;
  for (size_t u = begin; u < end; u++) {
    const size_t first = u % p->n_panels * p->height;
    if (u == begin || first == 0) {
      g.job = u / p->n_panels;
      p->job(p->ctx, g.job, &g);
    }
    const size_t n = p->rows - first < p->height ? p->rows - first : p->height;
    p->pack(&g, p->dst + u * panel_bytes, p->height, first, n, 0, g.k);
  }
}

enum { PACK_GRAIN = 64 * 1024 };  // bytes that justify another thread

void eti_gemm_pack_all(const et_pool *pool, const eti_gemm *shape, size_t n_jobs,
                       eti_gemm_job_fn job, const void *ctx, eti_gemm_pack_fn pack, void *dst,
                       size_t rows, size_t height) {
  packing p = {.shape = shape,
               .job = job,
               .ctx = ctx,
               .pack = pack,
               .dst = dst,
               .rows = rows,
               .height = height,
               .n_panels = (rows + height - 1) / height};
  const size_t panel_bytes = height * shape->k * shape->kernel->esize;
  et_parallel_for(pool, pack_panels, &p, n_jobs * p.n_panels, PACK_GRAIN / (panel_bytes + 1) + 1);
}
