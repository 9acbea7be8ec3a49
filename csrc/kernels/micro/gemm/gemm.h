// gemm.h — C[m×n] = init + A[m×k]·B[k×n], the one product behind matmul, linear and convolution.
//
// Numeric contract: k is cut into chunks of ETI_GEMM_CHUNK, counted from 0; the last may be
// shorter. The first chunk starts at the element's initial value (bias, or the old C), each later
// one at zero, and adds its products in ascending k, each with one fused multiply-add: s = fma(a,
// b, s). Chunks are then added in ascending order: c = c + s. So an element is
//
//   ((chunk 0 begun at init) + chunk 1) + chunk 2 + …
//
// for all tile sizes, block sizes, instruction sets, threads, and operands packed or not: they
// cannot change a bit. Chunks keep the rounding error of long products near that of a short one.
// (Integers: multiply and add modulo 2^bits.)
//
// Operands are read as panels. A panel of A holds up to mr rows, one of B exactly nr columns;
// inside a panel the values of one k are adjacent:
//
//        k=0          k=1                          B panel: nr columns
//   A: a0 a1 … a(h-1) a0 a1 … a(h-1) …            ┌──────────────┐ k=0
//      └ h rows  ┘    ↑ k_step                     │ b0 b1 … b(nr-1)
//                                                  ├──────────────┤ k=1
//        C tile (mr × nr) in registers      A ▷    │  C tile      │
//
// The same description fits packed weights (panel_step = h·k, k_step = h), a row-major matrix used
// as B in place (panel_step = nr, k_step = row length), and a column-major one used as A in place.
// B in a file is in panels of ETI_GEMM_STORED columns, which every variant reads in place: nr is a
// multiple of that, so a tile reads several, or a divisor, so several tiles read one.
// Rows of A with adjacent k may also be read in place, through a table of pointers. Other layouts
// are copied into such panels, block by block, by the operand's pack function.
//
// Relies on kernels/micro/isa_select.h. Knows no tensor and no operator.
#ifndef ET_GEMM_H
#define ET_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/dtype_sets.h"
#include "kernels/micro/clamp_range.h"
#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

// ---- micro-kernels

enum { ETI_GEMM_CHUNK = 256, ETI_GEMM_ROW_PANELS = 4, ETI_GEMM_STORED = 16 };

typedef enum eti_gemm_init {
  ETI_GEMM_ZERO,  // start at 0
  ETI_GEMM_ROWS,  // at bias[i]
  ETI_GEMM_COLS,  // at bias[j]
  ETI_GEMM_KEEP,  // at the old C
  ETI_GEMM_ADD,   // at 0, and the sum is added to the old C: k begins at a later chunk
} eti_gemm_init;

// A tile, whose k begins at the border of a chunk. Steps are in elements; C's rows are c_step ≥ n
// apart and its columns adjacent. bias is set for ETI_GEMM_ROWS and ETI_GEMM_COLS.
typedef struct eti_gemm_tile {
  size_t k;       // may be 0: the tile is then just initialised
  const void *a;  // a panel
  size_t a_step;
  const void *const *rows;  // or, for tile_rows: rows[s·m + i] holds segment s of row i,
  size_t segment;           // `segment` values of k (the last may be shorter)
  const void *b;
  size_t b_step;
  size_t b_gap;  // elements between columns ETI_GEMM_STORED - 1 and ETI_GEMM_STORED of B
  void *c;
  size_t c_step;
  eti_gemm_init init;
  const void *bias;              // of this tile's first row or column
  const eti_clamp_range *range;  // f32: bounds of the finished elements; NULL: none
  const char *ahead;  // memory that a later tile reads: prefetched, ahead_step bytes per k; never
                      // dereferenced
  size_t ahead_step;
  size_t b_panel_step;  // for tile_row and walk_rows: elements from panel to panel of B
} eti_gemm_tile;

// Element types that products are accumulated in.
typedef enum eti_acc {
  ETI_ACC_F32,
  ETI_ACC_F64,
  ETI_ACC_I32,  // also serves i8, u8 and i16, which are its low bits
  ETI_ACC_I64,
  ETI_ACC_COUNT,
} eti_acc;

typedef struct eti_gemm_kernel {
  uint8_t dtype;   // et_dtype of A, B and C
  uint8_t esize;   // its bytes
  uint8_t mr, nr;  // largest tile
  uint8_t rows_mr;
  // Computes m × n of a tile, 1 ≤ m ≤ mr, 1 ≤ n ≤ nr. Reads no b[j], bias[j], c[j] with j ≥ n and
  // no a[i] with i ≥ m; writes only the m × n elements.
  void (*tile)(const eti_gemm_tile *t, size_t m, size_t n);
  // The tile for A given as rows; m ≤ rows_mr.
  void (*tile_rows)(const eti_gemm_tile *t, size_t m, size_t n);
  // As tile_rows, for all columns of up to rows_mr rows, whose panels of B are b_panel_step apart,
  // or for all rows of up to nr columns, with all of k in one segment. Changes the tile.
  void (*walk_rows)(eti_gemm_tile *t, size_t m, size_t n);
  // dst[kk·width + i] = src[i·row_step + kk], i < n, kk < n_k: rows into a panel; lanes n … width-1
  // become 0.
  void (*pack_rows)(void *dst, size_t width, const void *src, size_t row_step, size_t n,
                    size_t n_k);
  // The tile for one row of A and ETI_GEMM_ROW_PANELS whole panels of B side by side: a single row
  // of accumulators would be bound by latency.
  void (*tile_row)(const eti_gemm_tile *t);
  // Clamps the m × n elements at c to a range, for tiles computed in pieces; NULL if the elements
  // are not f32.
  void (*limit)(float *c, size_t c_step, size_t m, size_t n, const eti_clamp_range *range);
} eti_gemm_kernel;

// The fastest kernel for this CPU, and that of one instruction set (NULL when the build or CPU
// lacks it).
const eti_gemm_kernel *eti_gemm_kernel_for(eti_acc acc);
const eti_gemm_kernel *eti_gemm_kernel_of_isa(eti_acc acc, int isa);

// Types that an accumulator serves; a build with none of them has no kernel for it.
#define ETI_GEMM_TYPES_F32 (ET_TYPES_F32 | ET_TYPES_HALF)
#define ETI_GEMM_TYPES_F64 ET_TYPES_F64
#define ETI_GEMM_TYPES_I32 ET_TYPES_INT
#define ETI_GEMM_TYPES_I64 ET_DTYPE_BIT(ET_I64)
#define ETI_GEMM_BUILT(acc, function) ETI_BUILT_ANY(ETI_GEMM_TYPES_##acc, function)

extern const eti_gemm_kernel eti_gemm_scalar[ETI_ACC_COUNT];
extern const eti_gemm_kernel eti_gemm_avx2[ETI_ACC_COUNT];
extern const eti_gemm_kernel eti_gemm_avx512[ETI_ACC_COUNT];
extern const eti_gemm_kernel eti_gemm_neon[ETI_ACC_COUNT];

// ---- whole products

typedef struct eti_gemm eti_gemm;

// Fills one panel: dst[kk·width + i] for i < n ≤ width and kk < n_k, element (first + i, k0 + kk)
// of the operand, and zeros for the lanes n ≤ i < width. dst is 64-aligned.
typedef void (*eti_gemm_pack_fn)(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                                 size_t k0, size_t n_k);

// Fills rows[s·n + i] for i < n and every segment s with the address of row first + i of A. A
// segment that lies nowhere may be copied to room: the operand's row_room elements for each of the
// n rows.
typedef void (*eti_gemm_point_fn)(const eti_gemm *g, const void **rows, void *room, size_t first,
                                  size_t n);

enum { ETI_GEMM_MAX_SEGMENTS = 128 };

typedef struct eti_gemm_operand {
  const void *data;   // panels as drawn above, or NULL: `pack` makes them
  size_t height;      // rows (A) or columns (B) per panel; ≤ mr for A, = nr for B
  size_t panel_step;  // elements from panel to panel
  size_t k_step;      // elements from k to k + 1
  size_t stored;      // B: columns per panel of data, ETI_GEMM_STORED; 0: height
  eti_gemm_pack_fn pack;
  bool continues;  // B: read once, and the panels of the next job follow in memory
  // A, when B is in panels: read as rows; height ≤ rows_mr. With row_room > 0 there is `pack` too,
  // for threads without that room.
  eti_gemm_point_fn point;
  size_t segment, row_room;
  // With `point`: values of k at the beginning and at the end that are 0 in every row, where B is
  // finite. Their products may be left out: then neither operand is read.
  size_t head, tail;
} eti_gemm_operand;

// A strided matrix, for the stock pack and store functions. Steps are in elements of `dtype`.
typedef struct eti_gemm_view {
  const void *data;
  uint8_t dtype;       // et_dtype
  ptrdiff_t row_step;  // A: from row to row; B: from column to column; C: from row to row
  ptrdiff_t k_step;    // A, B: from k to k + 1; C: from column to column
} eti_gemm_view;

// Copies the m × n block at (i, j) between C and a tile buffer whose rows are `step` elements
// apart.
typedef void (*eti_gemm_move_fn)(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m,
                                 size_t j, size_t n);

struct eti_gemm {
  const eti_gemm_kernel *kernel;
  size_t m, n, k;
  eti_gemm_operand a, b;
  // Destination of C: in place when c is set (rows c_step apart, columns adjacent). Otherwise
  // blocks are computed in scratch; `load` fills them first when init is ETI_GEMM_KEEP, and `store`
  // writes them.
  void *c;
  size_t c_step;
  eti_gemm_move_fn load, store;
  // Called once for every finished block of C, before `store`, while it is in the cache; computes
  // activations. NULL: none.
  eti_gemm_move_fn finish;
  const eti_clamp_range
      *range;  // f32: bounds of every finished tile, applied before finish; or NULL
  eti_gemm_init init;
  const void *bias;  // m or n elements of the kernel's dtype
  // For the callbacks.
  eti_gemm_view a_view, b_view, c_view, bias_view;
  double alpha, beta;
  const void *ctx;
  size_t job;
};

// Rows or columns of a panel of an operand's data.
static inline size_t eti_gemm_panel_width(const eti_gemm_operand *o) {
  return o->stored != 0 ? o->stored : o->height;
}

// True if a job agrees with its shape and has operands and a destination.
static inline bool eti_gemm_is_valid(const eti_gemm *g, const eti_gemm *shape) {
  const eti_gemm_operand *const a = &g->a, *const b = &g->b;
  const bool has_bias = g->init == ETI_GEMM_ROWS || g->init == ETI_GEMM_COLS;
  return g->kernel == shape->kernel && g->m == shape->m && g->n == shape->n && g->k == shape->k &&
         (a->data != NULL || a->pack != NULL || a->point != NULL) && a->height >= 1 &&
         a->height <= (a->point != NULL ? g->kernel->rows_mr : g->kernel->mr) &&
         (a->point == NULL || (a->segment > 0 && b->data != NULL)) &&
         (a->row_room == 0 || a->pack != NULL) && a->head + a->tail <= g->k &&
         (b->data != NULL || b->pack != NULL) && b->height == g->kernel->nr &&
         (b->stored == 0 || (b->stored == ETI_GEMM_STORED && b->data != NULL)) && a->stored == 0 &&
         (g->c != NULL || (g->store != NULL && (g->init != ETI_GEMM_KEEP || g->load != NULL))) &&
         (!has_bias || g->bias != NULL) && (g->range == NULL || g->kernel->limit != NULL);
}

// Pack functions over a_view / b_view (any element type, any steps) and the store function over
// c_view.
void eti_gemm_pack_a_view(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                          size_t k0, size_t n_k);
void eti_gemm_pack_b_view(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                          size_t k0, size_t n_k);
void eti_gemm_store_view(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n);

// Sets an operand to its view: in place when the view already is panels (or one vector), else
// through the pack function.
void eti_gemm_use_a_view(eti_gemm *g, eti_gemm_view view);
void eti_gemm_use_b_view(eti_gemm *g, eti_gemm_view view);
void eti_gemm_use_c_view(eti_gemm *g, eti_gemm_view view);

// Makes A be read as rows, from a_view, when that is faster than packing: its k are adjacent, and B
// is in panels or in place. Call it after B is set.
void eti_gemm_prefer_rows(eti_gemm *g);

// Panel height for a packed A of m rows: equal panels if possible, at most mr.
size_t eti_gemm_a_height(const eti_gemm_kernel *kernel, size_t m);
size_t eti_gemm_rows_height(const eti_gemm_kernel *kernel, size_t m);  // for A read as rows
size_t eti_gemm_a_most(const eti_gemm_kernel *kernel, size_t m);       // the tallest: m, at most mr
// Elements of a fully packed operand (`height` rows or columns per panel); 0 when that overflows.
size_t eti_gemm_packed_elements(size_t rows, size_t height, size_t k);

// Runs n_jobs products. job(ctx, i, g) describes job i (ctx and job are set already). The jobs must
// agree in m, n, k and kernel with `shape`, and in which operands are in panels or rows and whether
// C is in place. Work memory is `bytes` bytes at a 64-aligned `work`, as eti_gemm_work_bytes gives
// them. Threads without room for a panel of each operand that is packed, one chunk deep, and a tile
// of C run tiles of a few elements on the stack: the same results, an order of magnitude slower.
typedef void (*eti_gemm_job_fn)(const void *ctx, size_t i, eti_gemm *g);
// Packs an operand of n_jobs products: rows [0, rows) of each job, panel after panel, one job after
// another. job prepares g for pack, as for a run.
void eti_gemm_pack_all(const et_pool *pool, const eti_gemm *shape, size_t n_jobs,
                       eti_gemm_job_fn job, const void *ctx, eti_gemm_pack_fn pack, void *dst,
                       size_t rows, size_t height);
void eti_gemm_run(const et_pool *pool, const eti_gemm *shape, size_t n_jobs, eti_gemm_job_fn job,
                  const void *ctx, void *work, size_t bytes);
// Work memory for jobs like g and, if `is_bound`, for smaller ones, which may pack other operands.
// Data are never read: any address stands for an operand or a C that the run has in place.
size_t eti_gemm_work_bytes(const eti_gemm *g, bool is_bound, size_t n_threads);

// ---- parts, for the files of this folder

typedef struct eti_gemm_part {
  size_t m0, m1, n0, n1;  // of C; m0 and n0 are on panel borders
} eti_gemm_part;

// Runs a part without work memory.
void eti_gemm_run_narrow(const eti_gemm *g, const eti_gemm_part *p);

#endif  // ET_GEMM_H
