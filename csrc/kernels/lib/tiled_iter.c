// tiled_iter.c — see tiled_iter.h. A tile is as wide as one cache line of an input, so each line is
// read once, and PIECE elements of the output long; its transposed copies stay in the L1 cache.
#include "kernels/lib/tiled_iter.h"

#include "kernels/micro/transpose.h"
#include "kernels/stack.h"

#define LINE 64u                     // bytes of a cache line
#define PIECE ETI_ON_STACK(64u, 8u)  // elements of a row at a time
#define FEW 16u                      // rows shorter than this, or fewer, are not worth transposing
#ifdef ET_NO_SIMD                    // small machines lack the stack, and a cache that gains
#define MIN_NUMEL SIZE_MAX
#else
#define MIN_NUMEL 4096u  // nor are tensors that fit in the L1 cache
#endif

static bool is_across(const eti_iter *it, size_t k, size_t d, size_t bytes) {
  const ptrdiff_t dense = (ptrdiff_t)bytes, step = it->strides[0][k];
  return it->strides[d][k] == dense && (step > dense || step < -dense);
}

bool eti_tiled_iter_init(eti_tiled_iter *tiles, const eti_iter *it, et_tensor *const *operands) {
  *tiles = (eti_tiled_iter){.it = it};
  if (it->rank < 2 || it->numel < MIN_NUMEL || it->sizes[0] < FEW) return false;
  for (size_t k = 1; k < it->n_operands; k++) {
    tiles->bytes[k] = et_dtype_bytes((et_dtype)operands[k]->dtype);
    for (size_t d = 1; d < it->rank; d++) {
      if (it->sizes[d] < FEW || !is_across(it, k, d, tiles->bytes[k])) continue;
      if (tiles->across != 0 && tiles->across != d) continue;
      tiles->across = d;
      tiles->packs[k] = true;
      const size_t fits = LINE / tiles->bytes[k];
      if (tiles->n_rows == 0 || fits < tiles->n_rows) tiles->n_rows = fits;
    }
  }
  if (tiles->across == 0) return false;
  const size_t n = it->sizes[tiles->across];
  tiles->n_tiles = n / tiles->n_rows + (n % tiles->n_rows != 0);
  tiles->n_units = it->numel / (it->sizes[0] * n) * tiles->n_tiles;
  return true;
}

// Runs n_rows rows that begin at p, in pieces.
static void run_tile(const eti_tiled_iter *t, char *const p[], size_t n_rows, eti_row_fn row,
                     void *ctx) {
  _Alignas(64) unsigned char transposed[ETI_MAX_OPERANDS - 1][PIECE * LINE];
  const eti_iter *it = t->it;
  ptrdiff_t strides[ETI_MAX_OPERANDS];
  for (size_t k = 0; k < it->n_operands; k++)
    strides[k] = t->packs[k] ? (ptrdiff_t)t->bytes[k] : it->strides[0][k];
  for (size_t i = 0; i < it->sizes[0]; i += PIECE) {
    const size_t n = it->sizes[0] - i < PIECE ? it->sizes[0] - i : PIECE;
    for (size_t k = 1; k < it->n_operands; k++) {
      if (!t->packs[k]) continue;
      eti_transpose(transposed[k - 1], (ptrdiff_t)(PIECE * t->bytes[k]),
                    p[k] + (ptrdiff_t)i * it->strides[0][k], it->strides[0][k], n, n_rows,
                    t->bytes[k]);
    }
    for (size_t j = 0; j < n_rows; j++) {
      void *q[ETI_MAX_OPERANDS];
      for (size_t k = 0; k < it->n_operands; k++)
        q[k] = t->packs[k] ? (void *)(transposed[k - 1] + j * PIECE * t->bytes[k])
                           : p[k] + (ptrdiff_t)j * it->strides[t->across][k] +
                                 (ptrdiff_t)i * it->strides[0][k];
      row(ctx, q, strides, n);
    }
  }
}

typedef struct tiles_job {
  const eti_tiled_iter *tiles;
  eti_row_fn row;
  void *ctx;
} tiles_job;

static void run_units(void *opaque, size_t begin, size_t end) {
  const tiles_job *job = opaque;
  const eti_tiled_iter *t = job->tiles;
  const eti_iter *it = t->it;
  for (size_t u = begin; u < end; u++) {
    char *p[ETI_MAX_OPERANDS];
    const size_t first = u % t->n_tiles * t->n_rows, left = it->sizes[t->across] - first;
    for (size_t k = 0; k < it->n_operands; k++)
      p[k] = it->data[k] + (ptrdiff_t)first * it->strides[t->across][k];
    size_t rest = u / t->n_tiles;
    for (size_t d = 1; d < it->rank; d++) {
      if (d == t->across) continue;
      const size_t at = rest % it->sizes[d];
      rest /= it->sizes[d];
      for (size_t k = 0; k < it->n_operands; k++) p[k] += (ptrdiff_t)at * it->strides[d][k];
    }
    run_tile(t, p, left < t->n_rows ? left : t->n_rows, job->row, job->ctx);
  }
}

void eti_tiled_iter_run(const eti_tiled_iter *tiles, const et_pool *pool, size_t grain,
                        eti_row_fn row, void *ctx) {
  tiles_job job = {.tiles = tiles, .row = row, .ctx = ctx};
  const size_t unit = tiles->it->sizes[0] * tiles->n_rows;
  et_parallel_for(pool, run_units, &job, tiles->n_units, 1 + grain / unit);
}
