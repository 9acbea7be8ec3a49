// products.c — puts kernels of our own into XNNPACK's tables and cuts their operators into tiles;
// kernels.h has the rules. Reads XNNPACK's inner structs, as lines.c does: those of the release
// that get_xnnpack.py builds. With another release none of this is built (ET_XNNPACK_OWN_KERNELS).
#include "backends/xnnpack/kernels.h"

#include "backends/xnnpack/about.h"
#include "backends/xnnpack/depthwise.h"
#include "backends/xnnpack/shallow.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <xnnpack/compute.h>
#include <xnnpack/config.h>
#include <xnnpack/gemm.h>
#include <xnnpack/igemm.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

// As in XNNPACK's transpose.h, which needs more of its sources.
void xnn_xx_transposev_ukernel__1x1_scalar_memcpy(const void *, void *, size_t, size_t, size_t,
                                                  size_t, size_t, size_t, size_t);

enum { COLS = 16, THEIR_ROWS = 5, BEING_CHANGED = 0, CACHE_BYTES = 512 << 10, TILES_A_THREAD = 4 };

#define NOW(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

static bool holds_theirs(const struct xnn_gemm_config *config) {
  return config->nr == COLS && config->log2_kr == 0 && config->log2_sr == 0 &&
         NOW(config->minmax.gemm[THEIR_ROWS - 1].function[XNN_UARCH_DEFAULT]) ==
             (xnn_gemm_ukernel_fn)xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast &&
         NOW(config->minmax.igemm[THEIR_ROWS - 1].function[XNN_UARCH_DEFAULT]) ==
             (xnn_igemm_ukernel_fn)xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm;
}

static void put_ours(struct xnn_gemm_config *config) {
  SET(config->pack_igemm_goki, eti_xnn_f32_pack_goki__avx2);
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++) {
    SET(config->minmax.gemm[ETI_XNN_GEMM_ROWS - 1].function[u], eti_xnn_f32_gemm_6x16__avx2);
    SET(config->minmax.igemm[ETI_XNN_GEMM_ROWS - 1].function[u], eti_xnn_f32_igemm_6x16__avx2);
    SET(config->minmax.gemm[THEIR_ROWS - 1].function[u], NULL);
    SET(config->minmax.igemm[THEIR_ROWS - 1].function[u], NULL);
  }
}

// The table is XNNPACK's own memory. `mr`, its greatest number of rows, says who has changed it.
void eti_xnn_use_own_kernels(void) {
  struct xnn_gemm_config *const config =
      (struct xnn_gemm_config *)(uintptr_t)xnn_init_f32_gemm_config();
  if (config == NULL) return;
  uint8_t mr = __atomic_load_n(&config->mr, __ATOMIC_ACQUIRE);
  if (mr == THEIR_ROWS && holds_theirs(config) &&
      __atomic_compare_exchange_n(&config->mr, &mr, BEING_CHANGED, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE)) {
    put_ours(config);
    __atomic_store_n(&config->mr, ETI_XNN_GEMM_ROWS, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&config->mr, __ATOMIC_ACQUIRE) == BEING_CHANGED) continue;
  struct xnn_transpose_config *const moves =
      (struct xnn_transpose_config *)(uintptr_t)xnn_init_transpose_config();
  if (NOW(config->mr) == ETI_XNN_GEMM_ROWS && moves != NULL &&
      NOW(moves->xx.variable_size_ukernel) == xnn_xx_transposev_ukernel__1x1_scalar_memcpy)
    SET(moves->xx.variable_size_ukernel, eti_xnn_xx_transpose__avx2);
}

static size_t own_products(const char **names, size_t n) {
  static const char *const replaced[] = {"f32_gemm_5x16", "f32_igemm_5x16", "f32_conv_goki_w",
                                         "xx_transposev"};
  eti_xnn_use_own_kernels();
  const struct xnn_gemm_config *const config = xnn_init_f32_gemm_config();
  if (config == NULL || config->minmax.gemm[ETI_XNN_GEMM_ROWS - 1].function[XNN_UARCH_DEFAULT] !=
                            eti_xnn_f32_gemm_6x16__avx2)
    return 0;
  const size_t n_replaced = sizeof replaced / sizeof replaced[0];
  for (size_t i = 0; i < n && i < n_replaced; i++) names[i] = replaced[i];
  return n_replaced;
}

size_t eti_xnn_own_kernels(const char **names, size_t n) {
  size_t (*const tell[])(const char **, size_t) = {own_products, eti_xnn_own_depthwise,
                                                   eti_xnn_own_convolutions};
  size_t n_told = 0;
  for (size_t i = 0; i < sizeof tell / sizeof tell[0]; i++)
    n_told += n_told < n ? tell[i](names + n_told, n - n_told) : tell[i](NULL, 0);
  return n_told;
}

// ---- Tiles

static size_t quotient(size_t n, size_t d) {  // rounded up
  return n / d + (n % d != 0);
}

eti_xnn_tile eti_xnn_tile_for(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads) {
  const size_t panels = quotient(n_cols, COLS), blocks = quotient(n_rows, ETI_XNN_GEMM_ROWS);
  size_t tile_blocks = blocks;
  if (weight_bytes <= CACHE_BYTES) {
    const size_t in_cache = CACHE_BYTES / row_bytes / ETI_XNN_GEMM_ROWS;
    tile_blocks = quotient(blocks, quotient(blocks, in_cache < 1 ? 1 : in_cache));
  }
  size_t tile_panels = panels;
  const size_t wanted = n_threads > 1 ? n_threads * TILES_A_THREAD : 1;
  const size_t n_row_tiles = quotient(blocks, tile_blocks);
  if (n_row_tiles < wanted) {
    const size_t cuts = quotient(wanted, n_row_tiles);
    tile_panels = quotient(panels, cuts < panels ? cuts : panels);
    const size_t more = quotient(wanted, quotient(panels, tile_panels));
    if (more > n_row_tiles) tile_blocks = quotient(blocks, more < blocks ? more : blocks);
  }
  return (eti_xnn_tile){tile_blocks * ETI_XNN_GEMM_ROWS, tile_panels * COLS};
}

typedef struct operand_bytes {
  size_t row, weights_of_column;  // 0: no kernel of ours runs
} operand_bytes;

static operand_bytes bytes_of(const struct compute_parameters *work, const void *context) {
  const struct gemm_context *const gemm = context;
  const struct igemm_context *const igemm = context;
  const pthreadpool_task_2d_tile_2d_t in_2d = work->task_2d_tile_2d;
  const pthreadpool_task_3d_tile_2d_t in_3d = work->task_3d_tile_2d;
  bool is_gemm = false, is_igemm = false;
  if (work->type == xnn_parallelization_type_2d_tile_2d) {
    is_gemm = in_2d == (pthreadpool_task_2d_tile_2d_t)xnn_compute_gemm;
    is_igemm = in_2d == (pthreadpool_task_2d_tile_2d_t)xnn_compute_igemm;
  } else if (work->type == xnn_parallelization_type_3d_tile_2d) {
    is_gemm = in_3d == (pthreadpool_task_3d_tile_2d_t)xnn_compute_grouped_gemm;
    is_igemm = in_3d == (pthreadpool_task_3d_tile_2d_t)xnn_compute_grouped_igemm ||
               in_3d == (pthreadpool_task_3d_tile_2d_t)xnn_compute_batch_igemm;
  }
  if (is_gemm && gemm->ukernel.function[XNN_UARCH_DEFAULT] == eti_xnn_f32_gemm_6x16__avx2)
    return (operand_bytes){gemm->k_scaled, gemm->w_stride};
  if (is_igemm && igemm->ukernel.function[XNN_UARCH_DEFAULT] == eti_xnn_f32_igemm_6x16__avx2)
    return (operand_bytes){igemm->kc, igemm->w_stride};
  return (operand_bytes){0, 0};
}

static void tile_operator(struct xnn_operator *op, size_t n_threads) {
  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS; i++) {
    struct compute_parameters *const work = &op->compute[i];
    const operand_bytes bytes =
        bytes_of(work, (const uint8_t *)&op->context + work->context_offset);
    if (bytes.row == 0) continue;
    const size_t d = work->type == xnn_parallelization_type_3d_tile_2d;  // one range before rows
    const size_t n_rows = work->range[d], n_cols = work->range[d + 1];
    const size_t outer = d == 1 ? work->range[0] : 1;
    const eti_xnn_tile tile =
        eti_xnn_tile_for(n_rows, n_cols, bytes.row, bytes.weights_of_column * n_cols,
                         outer < n_threads ? quotient(n_threads, outer) : 1);
    work->tile[0] = tile.rows;
    work->tile[1] = tile.cols;
  }
}

void eti_xnn_tile_products(xnn_runtime_t runtime, size_t n_threads) {
  for (size_t i = 0; i < runtime->num_ops; i++) {
    for (size_t k = 0; k < XNN_MAX_OPERATOR_OBJECTS; k++) {
      struct xnn_operator *const op = runtime->opdata[i].operator_objects[k];
      if (op != NULL) tile_operator(op, n_threads);
    }
  }
}

#else
void eti_xnn_use_own_kernels(void) {}

size_t eti_xnn_own_kernels(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

void eti_xnn_tile_products(xnn_runtime_t runtime, size_t n_threads) {
  (void)runtime;
  (void)n_threads;
}
#endif
