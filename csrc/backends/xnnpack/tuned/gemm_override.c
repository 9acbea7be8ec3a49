// gemm_override.c — puts kernels of our own into XNNPACK's tables and cuts their operators into
// tiles; gemm_kernels.h has the rules. Reads XNNPACK's inner structs, as rowwise.c does: those of
// the release that get_xnnpack.py builds. With another release none of this is built
// (ET_XNNPACK_OWN_KERNELS).
#include "backends/xnnpack/tuned/gemm_kernels.h"

#include "backends/xnnpack/version_info.h"
#include "backends/xnnpack/tuned/dwconv.h"
#include "backends/xnnpack/tuned/memory_bound.h"
#include "backends/xnnpack/tuned/gemm_q8_schedule.h"
#include "backends/xnnpack/tuned/conv_stem.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <xnnpack/allocator.h>
#include <xnnpack/compute.h>
#include <xnnpack/config.h>
#include <xnnpack/gemm.h>
#include <xnnpack/igemm.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

// As in XNNPACK's transpose.h, which needs more of its sources.
void xnn_xx_transposev_ukernel__1x1_scalar_memcpy(const void *, void *, size_t, size_t, size_t,
                                                  size_t, size_t, size_t, size_t);

enum { COLS = ETI_XNN_GEMM_COLS, BEING_CHANGED = 0, CACHE_BYTES = 512 << 10, TILES_A_THREAD = 4 };

#define NOW(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

// ---- Tables

typedef void (*function)(void);  // any: the tables' unions have several types

// A table of products: what it has to hold for the greatest number of rows, and what is put there.
typedef struct products {
  const char *gemm_name, *igemm_name;
  bool has_quads;  // kernels ask gemm_q8_schedule.h how to multiply
  const struct xnn_gemm_config *(*find)(void);
  struct layout {
    uint8_t rows, nr, log2_kr;
  } theirs, ours;
  function their_gemm, their_igemm, gemm, igemm;
  function gemm_of_one, igemm_of_one;  // NULL: theirs read weights as ours do
  const char *pack_name;
  xnn_packw_gemm_goi_ukernel_fn pack_goi;        // NULL: XNNPACK's
  xnn_pack_conv_goki_w_fn pack_goki;             // the same
  xnn_packw_gemm_goi_bl_ukernel_fn pack_groups;  // the same
} products;

static const products tables[] = {
    {.gemm_name = "f32_gemm_5x16",
     .igemm_name = "f32_igemm_5x16",
     .find = xnn_init_f32_gemm_config,
     .theirs = {5, COLS, 0},
     .ours = {ETI_XNN_GEMM_ROWS, COLS, 0},
     .their_gemm = (function)xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast,
     .their_igemm = (function)xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm,
     .gemm = (function)eti_xnn_f32_gemm_6x16__avx2,
     .igemm = (function)eti_xnn_f32_igemm_6x16__avx2,
     .pack_name = "f32_conv_goki_w",
     .pack_goki = eti_xnn_f32_pack_goki__avx2},
    {.gemm_name = "qs8_qc8w_gemm_3x8c8",
     .igemm_name = "qs8_qc8w_igemm_3x8c8",
     .has_quads = true,
     .find = xnn_init_qs8_qc8w_gemm_config,
     .theirs = {3, 8, 3},
     .ours = {ETI_XNN_GEMM_ROWS, COLS, 2},
     .their_gemm = (function)xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_3x8c8__avx2,
     .their_igemm = (function)xnn_qs8_qc8w_igemm_minmax_fp32_ukernel_3x8c8__avx2,
     .gemm = (function)eti_xnn_qs8_gemm_6x16__avx2,
     .igemm = (function)eti_xnn_qs8_igemm_6x16__avx2,
     .gemm_of_one = (function)eti_xnn_qs8_gemm_6x16__avx2,
     .igemm_of_one = (function)eti_xnn_qs8_igemm_1x16__avx2,
     .pack_name = "qs8_gemm_goi_w",
     .pack_goi = eti_xnn_q8_pack_goi__avx2,
     .pack_goki = eti_xnn_q8_pack_goki__avx2},
    {.gemm_name = "qd8_f32_qc8w_gemm_4x8c8",
     .igemm_name = "qd8_f32_qc8w_igemm_4x8c8",
     .has_quads = true,
     .find = xnn_init_qd8_f32_qc8w_gemm_config,
     .theirs = {4, 8, 3},
     .ours = {ETI_XNN_GEMM_ROWS, COLS, 2},
     .their_gemm = (function)xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x8c8__avx2,
     .their_igemm = (function)xnn_qd8_f32_qc8w_igemm_minmax_ukernel_4x8c8__avx2,
     .gemm = (function)eti_xnn_qd8_gemm_6x16__avx2,
     .igemm = (function)eti_xnn_qd8_igemm_6x16__avx2,
     .gemm_of_one = (function)eti_xnn_qd8_gemm_6x16__avx2,
     .igemm_of_one = (function)eti_xnn_qd8_igemm_1x16__avx2,
     .pack_goi = eti_xnn_q8_pack_goi__avx2,
     .pack_goki = eti_xnn_q8_pack_goki__avx2},
    {.gemm_name = "qd8_f32_qb4w_gemm_3x8c8",
     .find = xnn_init_qd8_f32_qb4w_gemm_config,
     .theirs = {3, 8, 3},
     .ours = {ETI_XNN_GEMM_ROWS, COLS, 3},
     .their_gemm = (function)xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x8c8__avx2,
     .gemm = (function)eti_xnn_qb4_gemm_6x16__avx2,
     .gemm_of_one = (function)eti_xnn_qb4_gemm_6x16__avx2,
     .pack_groups = eti_xnn_qb4_pack_goi__avx2},
};

enum { N_TABLES = sizeof tables / sizeof tables[0] };

static function gemm_for(const struct xnn_gemm_config *config, size_t n_rows) {
  return (function)NOW(config->minmax.gemm[n_rows - 1].function[XNN_UARCH_DEFAULT]);
}

static function igemm_for(const struct xnn_gemm_config *config, size_t n_rows) {
  return (function)NOW(config->minmax.igemm[n_rows - 1].function[XNN_UARCH_DEFAULT]);
}

static bool holds_theirs(const struct xnn_gemm_config *config, const products *t) {
  return config->nr == t->theirs.nr && config->log2_kr == t->theirs.log2_kr &&
         config->log2_sr == 0 && gemm_for(config, t->theirs.rows) == t->their_gemm &&
         igemm_for(config, t->theirs.rows) == t->their_igemm;
}

static void put(struct xnn_gemm_config *config, size_t n_rows, function gemm, function igemm) {
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++) {
    SET(config->minmax.gemm[n_rows - 1].function[u], (xnn_gemm_ukernel_fn)gemm);
    SET(config->minmax.igemm[n_rows - 1].function[u], (xnn_igemm_ukernel_fn)igemm);
  }
}

static void put_ours(struct xnn_gemm_config *config, const products *t) {
  put(config, t->theirs.rows, NULL, NULL);
  put(config, t->ours.rows, t->gemm, t->igemm);
  if (t->gemm_of_one != NULL) put(config, 1, t->gemm_of_one, t->igemm_of_one);
  if (t->pack_goki != NULL) SET(config->pack_igemm_goki, t->pack_goki);
  if (t->pack_goi != NULL) {
    SET(config->pack_gemm_goi, t->pack_goi);
    SET(config->pack_weights_and_biases, NULL);  // which would not ask for the former
    SET(config->packed_stride_weights_and_biases, NULL);
  }
  if (t->pack_groups != NULL) SET(config->pack_gemm_goi_bl, t->pack_groups);
  SET(config->nr, t->ours.nr);
  SET(config->log2_kr, t->ours.log2_kr);
}

// The table is XNNPACK's own memory. `mr`, its greatest number of rows, says who has changed it.
static bool use(const products *t) {
  struct xnn_gemm_config *const config = (struct xnn_gemm_config *)(uintptr_t)t->find();
  if (config == NULL) return false;
  uint8_t mr = __atomic_load_n(&config->mr, __ATOMIC_ACQUIRE);
  if (mr == t->theirs.rows && holds_theirs(config, t) &&
      __atomic_compare_exchange_n(&config->mr, &mr, BEING_CHANGED, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE)) {
    put_ours(config, t);
    __atomic_store_n(&config->mr, t->ours.rows, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&config->mr, __ATOMIC_ACQUIRE) == BEING_CHANGED) continue;
  return NOW(config->mr) == t->ours.rows && gemm_for(config, t->ours.rows) == t->gemm;
}

static bool use_moves(void) {
  struct xnn_transpose_config *const moves =
      (struct xnn_transpose_config *)(uintptr_t)xnn_init_transpose_config();
  if (moves == NULL) return false;
  if (NOW(moves->xx.variable_size_ukernel) == xnn_xx_transposev_ukernel__1x1_scalar_memcpy)
    SET(moves->xx.variable_size_ukernel, eti_xnn_xx_transpose__avx2);
  return NOW(moves->xx.variable_size_ukernel) == eti_xnn_xx_transpose__avx2;
}

static void name(const char *replaced, const char **names, size_t n, size_t *count) {
  if (*count < n) names[*count] = replaced;
  ++*count;
}

// Without the first table the others are those of another instruction set, too.
static size_t use_all(const char **names, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < N_TABLES; i++) {
    if (!use(&tables[i])) {
      if (i == 0) break;
      continue;
    }
    name(tables[i].gemm_name, names, n, &count);
    if (tables[i].igemm_name != NULL) name(tables[i].igemm_name, names, n, &count);
    if (tables[i].pack_name != NULL) name(tables[i].pack_name, names, n, &count);
  }
  if (count > 0 && use_moves()) name("xx_transposev", names, n, &count);
  return count;
}

void eti_xnn_use_own_kernels(void) {
  use_all(NULL, 0);
}

bool eti_xnn_has_own_f32(void) {
  return use(&tables[0]);
}

size_t eti_xnn_own_kernels(const char **names, size_t n) {
  size_t (*const tell[])(const char **, size_t) = {use_all, eti_xnn_own_depthwise,
                                                   eti_xnn_own_convolutions, eti_xnn_own_light};
  size_t n_told = 0;
  for (size_t i = 0; i < sizeof tell / sizeof tell[0]; i++)
    n_told += n_told < n ? tell[i](names + n_told, n - n_told) : tell[i](NULL, 0);
  return n_told;
}

// ---- Tiles

static size_t quotient(size_t n, size_t d) {  // rounded up
  return n / d + (n % d != 0);
}

// For threads to share: cuts `first` of its range and, where there are too few of these, `second`.
static void share(size_t *first, size_t n_first, size_t *second, size_t n_second,
                  size_t n_threads) {
  const size_t wanted = n_threads > 1 ? n_threads * TILES_A_THREAD : 1;
  const size_t n_second_tiles = quotient(n_second, *second);
  if (n_second_tiles >= wanted) return;
  const size_t cuts = quotient(wanted, n_second_tiles);
  *first = quotient(n_first, cuts < n_first ? cuts : n_first);
  const size_t more = quotient(wanted, quotient(n_first, *first));
  if (more > n_second_tiles) *second = quotient(n_second, more < n_second ? more : n_second);
}

eti_xnn_tile eti_xnn_tile_for(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads) {
  const size_t n_panels = quotient(n_cols, COLS), n_blocks = quotient(n_rows, ETI_XNN_GEMM_ROWS);
  size_t blocks = n_blocks, panels = n_panels;
  if (weight_bytes <= CACHE_BYTES) {
    const size_t in_cache = CACHE_BYTES / row_bytes / ETI_XNN_GEMM_ROWS;
    blocks = quotient(n_blocks, quotient(n_blocks, in_cache < 1 ? 1 : in_cache));
  }
  share(&panels, n_panels, &blocks, n_blocks, n_threads);
  return (eti_xnn_tile){blocks * ETI_XNN_GEMM_ROWS, panels * COLS};
}

eti_xnn_tile eti_xnn_tile_for_bytes(size_t n_rows, size_t n_cols, size_t weight_bytes,
                                    size_t n_threads) {
  const size_t n_panels = quotient(n_cols, COLS), n_blocks = quotient(n_rows, ETI_XNN_GEMM_ROWS);
  size_t blocks = n_blocks, panels = quotient(n_panels, quotient(weight_bytes, CACHE_BYTES));
  share(&blocks, n_blocks, &panels, n_panels, n_threads);
  return (eti_xnn_tile){blocks * ETI_XNN_GEMM_ROWS, panels * COLS};
}

// What one of an operator's invocations multiplies.
typedef struct operands {
  const products *table;  // NULL: no kernel of ours runs
  size_t row_bytes, weights_of_column;
  const void *packed;
  size_t n_pieces, n_groups;
  void *params;  // what the kernel gets for limits
} operands;

static operands operands_of(struct xnn_operator *op, const struct compute_parameters *work) {
  void *const context = (uint8_t *)&op->context + work->context_offset;
  struct gemm_context *const gemm = context;
  struct igemm_context *const igemm = context;
  const function in_2d = (function)work->task_2d_tile_2d;
  const function in_3d = (function)work->task_3d_tile_2d;
  bool is_gemm = false, is_igemm = false, is_grouped = false;
  if (work->type == xnn_parallelization_type_2d_tile_2d) {
    is_gemm = in_2d == (function)xnn_compute_gemm || in_2d == (function)xnn_compute_dqgemm;
    is_igemm = in_2d == (function)xnn_compute_igemm || in_2d == (function)xnn_compute_dqigemm;
  } else if (work->type == xnn_parallelization_type_3d_tile_2d) {
    const bool is_grouped_igemm = in_3d == (function)xnn_compute_grouped_igemm ||
                                  in_3d == (function)xnn_compute_grouped_dqigemm;
    is_gemm = in_3d == (function)xnn_compute_grouped_gemm;
    is_grouped = is_gemm || is_grouped_igemm;
    is_igemm = is_grouped_igemm || in_3d == (function)xnn_compute_batch_igemm ||
               in_3d == (function)xnn_compute_batch_dqigemm;
  }
  const size_t n_groups = is_grouped ? work->range[0] : 1;
  for (size_t i = 0; i < N_TABLES; i++) {
    const products *const t = &tables[i];
    if (is_gemm && (function)gemm->ukernel.function[XNN_UARCH_DEFAULT] == t->gemm)
      return (operands){t, gemm->k_scaled, gemm->w_stride, gemm->packed_w,
                        1, n_groups,       &gemm->params};
    if (!is_igemm) continue;
    const function kernel = (function)igemm->ukernel.function[XNN_UARCH_DEFAULT];
    if (kernel == t->igemm || (kernel != NULL && kernel == t->igemm_of_one))
      return (operands){t,         igemm->kc, igemm->w_stride, igemm->packed_w,
                        igemm->ks, n_groups,  &igemm->params};
  }
  return (operands){.table = NULL};
}

static void tile_operator(struct xnn_operator *op, void *threads) {
  const size_t n_threads = *(const size_t *)threads;
  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS; i++) {
    struct compute_parameters *const work = &op->compute[i];
    const operands o = operands_of(op, work);
    if (o.table == NULL) continue;
    const size_t d = work->type == xnn_parallelization_type_3d_tile_2d;  // one range before rows
    const size_t n_rows = work->range[d], n_cols = work->range[d + 1];
    const size_t outer = d == 1 ? work->range[0] : 1;
    const size_t sharing = outer < n_threads ? quotient(n_threads, outer) : 1;
    const size_t weights = o.weights_of_column * n_cols;
    const eti_xnn_tile tile = o.table == tables
                                  ? eti_xnn_tile_for(n_rows, n_cols, o.row_bytes, weights, sharing)
                                  : eti_xnn_tile_for_bytes(n_rows, n_cols, weights, sharing);
    work->tile[0] = tile.rows;
    work->tile[1] = tile.cols;
  }
}

static void for_operators(xnn_runtime_t runtime, void (*body)(struct xnn_operator *, void *),
                          void *ctx) {
  for (size_t i = 0; i < runtime->num_ops; i++) {
    for (size_t k = 0; k < XNN_MAX_OPERATOR_OBJECTS; k++) {
      struct xnn_operator *const op = runtime->opdata[i].operator_objects[k];
      if (op != NULL) body(op, ctx);
    }
  }
}

void eti_xnn_tile_products(xnn_runtime_t runtime, size_t n_threads) {
  for_operators(runtime, tile_operator, &n_threads);
}

// ---- Quads

static const eti_xnn_quads *find_quads(const eti_xnn_quads *known, const void *packed) {
  while (known != NULL && known->packed != packed) known = known->next;
  return known;
}

// What is of no use is forgotten, but not that it is.
static const eti_xnn_quads *make_quads(const operands *o, size_t n_cols, eti_xnn_quads **known) {
  const size_t n_panels = o->n_groups * quotient(n_cols, COLS);
  eti_xnn_quads *quads =
      xnn_allocate_simd_memory(eti_xnn_quads_bytes(n_panels, o->row_bytes, o->n_pieces));
  if (quads == NULL) return NULL;
  if (!eti_xnn_quads_make__avx2(quads, o->packed, o->weights_of_column * COLS, n_panels,
                                o->row_bytes, o->n_pieces)) {
    const eti_xnn_quads useless = *quads;
    xnn_release_simd_memory(quads);
    quads = xnn_allocate_simd_memory(sizeof useless);
    if (quads == NULL) return NULL;
    *quads = useless;
  }
  quads->next = *known;
  *known = quads;
  return quads;
}

static void order_quads(struct xnn_operator *op, void *known) {
  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS; i++) {
    struct compute_parameters *const work = &op->compute[i];
    const operands o = operands_of(op, work);
    if (o.table == NULL || !o.table->has_quads) continue;
    const bool is_3d = work->type == xnn_parallelization_type_3d_tile_2d;
    const eti_xnn_quads *quads = find_quads(*(eti_xnn_quads **)known, o.packed);
    if (quads == NULL) quads = make_quads(&o, work->range[is_3d ? 2 : 1], known);
    const bool is_of_use = quads != NULL && !quads->is_useless;
    ((eti_xnn_q8_params *)o.params)->quads = is_of_use ? quads : NULL;
  }
}

void eti_xnn_order_quads(xnn_runtime_t runtime, eti_xnn_quads **known) {
  enum {
    IN_GEMM = sizeof(((struct gemm_context *)NULL)->params),
    IN_IGEMM = sizeof(((struct igemm_context *)NULL)->params),
  };
  _Static_assert(sizeof(eti_xnn_q8_params) <= IN_GEMM, "it lies there");
  _Static_assert(sizeof(eti_xnn_q8_params) <= IN_IGEMM, "it lies there");
  for_operators(runtime, order_quads, known);
}

void eti_xnn_release_quads(eti_xnn_quads *known) {
  while (known != NULL) {
    eti_xnn_quads *const next = known->next;
    xnn_release_simd_memory(known);
    known = next;
  }
}

#else
void eti_xnn_use_own_kernels(void) {}

bool eti_xnn_has_own_f32(void) {
  return false;
}

size_t eti_xnn_own_kernels(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

void eti_xnn_tile_products(xnn_runtime_t runtime, size_t n_threads) {
  (void)runtime;
  (void)n_threads;
}

void eti_xnn_order_quads(xnn_runtime_t runtime, eti_xnn_quads **known) {
  (void)runtime;
  (void)known;
}

void eti_xnn_release_quads(eti_xnn_quads *known) {
  (void)known;
}
#endif
