// gemm_tiling.c — sets the tiles of operators that run tuned gemm kernels, and passes int8 kernels
// the schedules of their weights, after each reshape. It recognizes an operator by its kernel,
// which comes from a table of gemm_override.h.
#include "backends/xnnpack/tuned/gemm/gemm_tiling.h"

#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm/gemm_override.h"
#include "backends/xnnpack/tuned/tuned.h"

enum { COLS = ETI_XNN_GEMM_COLS, CACHE_BYTES = 512 << 10, TILES_PER_THREAD = 4 };
// Processors with AMX have second-level caches of 2 MiB.
enum { AMX_CACHE_BYTES = 1 << 20 };

// The kernels read an eti_xnn_q8_params where XNNPACK's reshape has written its own parameters.
_Static_assert(sizeof(eti_xnn_q8_params) <= sizeof(((struct gemm_context *)NULL)->params) &&
                   sizeof(eti_xnn_q8_params) <= sizeof(((struct igemm_context *)NULL)->params),
               "the parameters have room for the schedule");

// ---- Rules

static size_t divide_up(size_t n, size_t d) {
  return n / d + (n % d != 0);
}

// Cuts the range of `first` for threads and, if that gives too few tiles, the range of `second`.
static void cut_for_threads(size_t *first, size_t n_first, size_t *second, size_t n_second,
                            size_t n_threads) {
  const size_t wanted = n_threads > 1 ? n_threads * TILES_PER_THREAD : 1;
  const size_t n_second_tiles = divide_up(n_second, *second);
  if (n_second_tiles >= wanted) return;
  const size_t cuts = divide_up(wanted, n_second_tiles);
  *first = divide_up(n_first, cuts < n_first ? cuts : n_first);
  const size_t more = divide_up(wanted, divide_up(n_first, *first));
  if (more > n_second_tiles) *second = divide_up(n_second, more < n_second ? more : n_second);
}

eti_xnn_tile eti_xnn_f32_tile(eti_xnn_tile least, size_t n_rows, size_t n_cols, size_t row_bytes,
                              size_t weight_bytes, size_t n_threads) {
  const size_t n_panels = divide_up(n_cols, least.cols), n_blocks = divide_up(n_rows, least.rows);
  size_t blocks = n_blocks, panels = n_panels;
  if (weight_bytes <= CACHE_BYTES) {
    const size_t in_cache = CACHE_BYTES / row_bytes / least.rows;
    blocks = divide_up(n_blocks, divide_up(n_blocks, in_cache < 1 ? 1 : in_cache));
  }
  const bool shares_rows =
      n_blocks > 2 * n_panels || (weight_bytes <= CACHE_BYTES && n_blocks >= 4 * n_threads);
  if (shares_rows)
    cut_for_threads(&blocks, n_blocks, &panels, n_panels, n_threads);
  else
    cut_for_threads(&panels, n_panels, &blocks, n_blocks, n_threads);
  return (eti_xnn_tile){blocks * least.rows, panels * least.cols};
}

eti_xnn_tile eti_xnn_q8_tile(size_t n_rows, size_t n_cols, size_t weight_bytes, size_t n_threads) {
  const size_t n_panels = divide_up(n_cols, COLS), n_blocks = divide_up(n_rows, ETI_XNN_GEMM_ROWS);
  size_t blocks = n_blocks, panels = divide_up(n_panels, divide_up(weight_bytes, CACHE_BYTES));
  cut_for_threads(&blocks, n_blocks, &panels, n_panels, n_threads);
  return (eti_xnn_tile){blocks * ETI_XNN_GEMM_ROWS, panels * COLS};
}

eti_xnn_tile eti_xnn_amx_tile(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads) {
  enum { ROWS = 2 * ETI_XNN_AMX_ROWS, WIDTH = 2 * COLS };
  const size_t n_pairs = divide_up(n_cols, WIDTH), n_blocks = divide_up(n_rows, ROWS);
  size_t blocks = n_blocks, pairs = divide_up(n_pairs, divide_up(weight_bytes, AMX_CACHE_BYTES));
  if (weight_bytes > n_rows * row_bytes)
    cut_for_threads(&pairs, n_pairs, &blocks, n_blocks, n_threads);
  else
    cut_for_threads(&blocks, n_blocks, &pairs, n_pairs, n_threads);
  return (eti_xnn_tile){blocks * ROWS, pairs * WIDTH};
}

// ---- Operators

// One invocation of an operator, if it is a product by a tuned kernel.
typedef struct product {
  const eti_xnn_gemm_table *table;  // NULL: not a product by a tuned kernel
  size_t row_bytes;                 // of the left operand, of one tap
  size_t column_bytes;              // of packed weights
  const void *packed;
  size_t n_taps, n_groups;
  void *params;  // of the kernel
} product;

typedef struct product_kind {
  bool is_gemm, is_igemm, is_grouped;
} product_kind;

static product_kind kind_of(const struct compute_parameters *work) {
  const eti_xnn_fn in_2d = (eti_xnn_fn)work->task_2d_tile_2d;
  const eti_xnn_fn in_3d = (eti_xnn_fn)work->task_3d_tile_2d;
  if (work->type == xnn_parallelization_type_2d_tile_2d) {
    return (product_kind){
        .is_gemm = in_2d == (eti_xnn_fn)xnn_compute_gemm || in_2d == (eti_xnn_fn)xnn_compute_dqgemm,
        .is_igemm =
            in_2d == (eti_xnn_fn)xnn_compute_igemm || in_2d == (eti_xnn_fn)xnn_compute_dqigemm};
  }
  if (work->type != xnn_parallelization_type_3d_tile_2d) return (product_kind){.is_gemm = false};
  const bool is_grouped_gemm = in_3d == (eti_xnn_fn)xnn_compute_grouped_gemm;
  const bool is_grouped_igemm = in_3d == (eti_xnn_fn)xnn_compute_grouped_igemm ||
                                in_3d == (eti_xnn_fn)xnn_compute_grouped_dqigemm;
  const bool is_batch_igemm = in_3d == (eti_xnn_fn)xnn_compute_batch_igemm ||
                              in_3d == (eti_xnn_fn)xnn_compute_batch_dqigemm;
  return (product_kind){.is_gemm = is_grouped_gemm,
                        .is_igemm = is_grouped_igemm || is_batch_igemm,
                        .is_grouped = is_grouped_gemm || is_grouped_igemm};
}

static product product_of(struct xnn_operator *op, const struct compute_parameters *work) {
  void *const context = (uint8_t *)&op->context + work->context_offset;
  struct gemm_context *const gemm = context;
  struct igemm_context *const igemm = context;
  const product_kind kind = kind_of(work);
  const size_t n_groups = kind.is_grouped ? work->range[0] : 1;
  for (size_t i = 0; i < ETI_XNN_TABLES; i++) {
    const eti_xnn_gemm_table *const t = &eti_xnn_gemm_tables[i];
    if (kind.is_gemm && (eti_xnn_fn)gemm->ukernel.function[XNN_UARCH_DEFAULT] == t->gemm)
      return (product){t, gemm->k_scaled, gemm->w_stride, gemm->packed_w,
                       1, n_groups,       &gemm->params};
    if (!kind.is_igemm) continue;
    const eti_xnn_fn kernel = (eti_xnn_fn)igemm->ukernel.function[XNN_UARCH_DEFAULT];
    if (kernel == t->igemm || (kernel != NULL && kernel == t->igemm_1_row))
      return (product){t,         igemm->kc, igemm->w_stride, igemm->packed_w,
                       igemm->ks, n_groups,  &igemm->params};
  }
  return (product){.table = NULL};
}

// ---- Tiles

static void tile_invocation(const product *p, struct compute_parameters *work, size_t n_threads) {
  const size_t d = work->type == xnn_parallelization_type_3d_tile_2d;  // one range before rows
  const size_t n_rows = work->range[d], n_cols = work->range[d + 1];
  const size_t outer = d == 1 ? work->range[0] : 1;
  const size_t sharing = outer < n_threads ? divide_up(n_threads, outer) : 1;
  const size_t weights = p->column_bytes * n_cols;
  const size_t rows = p->row_bytes * p->n_taps;
  const eti_xnn_tile least = {p->table->layout.mr, p->table->layout.nr};
  const eti_xnn_tile tile =
      p->table->is_f32   ? eti_xnn_f32_tile(least, n_rows, n_cols, p->row_bytes, weights, sharing)
      : p->table->is_amx ? eti_xnn_amx_tile(n_rows, n_cols, rows, weights, sharing)
                         : eti_xnn_q8_tile(n_rows, n_cols, weights, sharing);
  work->tile[0] = tile.rows;
  work->tile[1] = tile.cols;
}

// ---- Schedules

static const eti_xnn_q8_schedule *find_schedule(const eti_xnn_q8_schedule *schedules,
                                                const void *packed) {
  while (schedules != NULL && schedules->packed != packed) schedules = schedules->next;
  return schedules;
}

// A schedule that does not pay is freed but for its head, so that it is not made again.
static const eti_xnn_q8_schedule *make_schedule(const product *p, size_t n_cols,
                                                eti_xnn_q8_schedule **schedules) {
  const size_t n_panels = p->n_groups * divide_up(n_cols, COLS);
  eti_xnn_q8_schedule *made =
      xnn_allocate_simd_memory(eti_xnn_q8_schedule_bytes(n_panels, p->row_bytes, p->n_taps));
  if (made == NULL) return NULL;
  if (!eti_xnn_q8_schedule_make__avx2(made, p->packed, p->column_bytes * COLS, n_panels,
                                      p->row_bytes, p->n_taps)) {
    const eti_xnn_q8_schedule head = *made;
    xnn_release_simd_memory(made);
    made = xnn_allocate_simd_memory(sizeof head);
    if (made == NULL) return NULL;
    *made = head;
  }
  made->next = *schedules;
  *schedules = made;
  return made;
}

static void schedule_invocation(const product *p, const struct compute_parameters *work,
                                eti_xnn_q8_schedule **schedules) {
  const bool is_3d = work->type == xnn_parallelization_type_3d_tile_2d;
  const eti_xnn_q8_schedule *schedule = find_schedule(*schedules, p->packed);
  if (schedule == NULL) schedule = make_schedule(p, work->range[is_3d ? 2 : 1], schedules);
  const bool pays = schedule != NULL && schedule->pays;
  ((eti_xnn_q8_params *)p->params)->schedule = pays ? schedule : NULL;
}

void eti_xnn_gemm_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                eti_xnn_q8_schedule **schedules) {
  for (size_t i = 0; i < runtime->num_ops * XNN_MAX_OPERATOR_OBJECTS; i++) {
    struct xnn_operator *const op = runtime->opdata[i / XNN_MAX_OPERATOR_OBJECTS]
                                        .operator_objects[i % XNN_MAX_OPERATOR_OBJECTS];
    if (op == NULL) continue;
    for (size_t k = 0; k < XNN_MAX_COMPUTE_INVOCATIONS; k++) {
      struct compute_parameters *const work = &op->compute[k];
      const product p = product_of(op, work);
      if (p.table == NULL) continue;
      tile_invocation(&p, work, n_threads);
      if (p.table->is_scheduled) schedule_invocation(&p, work, schedules);
    }
  }
}

void eti_xnn_tuned_free_schedules(eti_xnn_q8_schedule *schedules) {
  while (schedules != NULL) {
    eti_xnn_q8_schedule *const next = schedules->next;
    xnn_release_simd_memory(schedules);
    schedules = next;
  }
}
