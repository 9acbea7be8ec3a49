// half_panels.body.h — the tile of half_panels.h for one instruction set. The including file sets:
//   SUFFIX                        end of the function names
//   VEC, LANES                    vector of f32 and its elements
//   V_SET1(x) V_LOAD(p) V_STORE(p, v) V_FMA(a, b, c)
//   V_LOAD_HALF(p)                LANES elements of f16 as f32
//   PANELS_1 … PANELS_4           panels of a tile of 1 … 4 rows: enough sums for FMA's latency, no
//                                 more than the registers hold
#include "kernels/contract.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/gemm/half_panels.h"

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline))

enum { WIDTH = ETI_GEMM_STORED, VECTORS = WIDTH / LANES, MOST_PANELS = 8, LINE = 64 };

// Computes m rows and n panels from `panel` on; m and n are constants, so that sums are in
// registers. Prefetches the n panels behind them.
INLINE void FN(tile)(const eti_half_panels *p, size_t panel, const size_t m, const size_t n) {
  VEC sums[ETI_HALF_PANELS_ROWS][MOST_PANELS][VECTORS];
  const size_t step = p->b_panel_step, after = panel + n;
  const uint16_t *b = p->b + panel * step;
  float *const c = p->c + panel * WIDTH;
  const bool is_last = after >= p->n_panels;
  const uintptr_t ahead = is_last ? p->next : (uintptr_t)(b + n * step);
  const size_t ahead_step = is_last ? p->next_step : step * sizeof *b;
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < n; j++) {
      for (size_t v = 0; v < VECTORS; v++)
        sums[i][j][v] = p->keeps ? V_LOAD(c + i * p->c_step + j * WIDTH + v * LANES) : V_SET1(0.0f);
    }
  }
  for (size_t k = 0; k < p->k; k++, b += WIDTH) {
    if (k % (LINE / sizeof(uint16_t) / WIDTH) == 0) {
      for (size_t j = 0; j < n; j++)
        __builtin_prefetch((const void *)(ahead + j * ahead_step + k * WIDTH * sizeof *b), 0, 2);
    }
    VEC a[ETI_HALF_PANELS_ROWS];
    for (size_t i = 0; i < m; i++) a[i] = V_SET1(p->a[i * p->a_step + k]);
    for (size_t j = 0; j < n; j++) {
      for (size_t v = 0; v < VECTORS; v++) {
        const VEC column = V_LOAD_HALF(b + j * step + v * LANES);
        for (size_t i = 0; i < m; i++) sums[i][j][v] = V_FMA(a[i], column, sums[i][j][v]);
      }
    }
  }
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < n; j++) {
      for (size_t v = 0; v < VECTORS; v++)
        V_STORE(c + i * p->c_step + j * WIDTH + v * LANES, sums[i][j][v]);
    }
  }
}

INLINE void FN(rows)(const eti_half_panels *p, const size_t m, const size_t n) {
  size_t panel = 0;
  for (; panel + n <= p->n_panels; panel += n) FN(tile)(p, panel, m, n);
  for (; panel < p->n_panels; panel++) FN(tile)(p, panel, m, 1);
}

// Each height is a function, so that `make bench-model` reports its loop.
#define DEFINE(m)                                                                    \
  static __attribute__((noinline)) void CAT(FN(rows), m)(const eti_half_panels *p) { \
    FN(rows)(p, m, PANELS_##m);                                                      \
  }
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)

void FN(eti_half_panels)(const eti_half_panels *p, size_t m) {
  ET_ASSERT(m >= 1 && m <= ETI_HALF_PANELS_ROWS && p->k <= ETI_GEMM_CHUNK);
  ET_ASSERT(ETI_HOLDS(p->a, p->k, float) && ETI_HOLDS(p->b, p->k * p->n_panels, uint16_t));
  ET_ASSERT(ETI_HOLDS(p->c, p->n_panels, float));
  if (m == 1) CAT(FN(rows), 1)(p);
  if (m == 2) CAT(FN(rows), 2)(p);
  if (m == 3) CAT(FN(rows), 3)(p);
  if (m == 4) CAT(FN(rows), 4)(p);
}
