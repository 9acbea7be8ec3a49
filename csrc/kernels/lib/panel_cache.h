// panel_cache.h — a key/value cache in the panels that the micro-kernels of products read, so that
// attention packs nothing: rotary embedding of new rows, and their append. Relies on
// micro/gemm/gemm.h and micro/qgemm/qgemm.h for the layouts. Checks nothing.
//
// A panel has ETI_GEMM_STORED columns. Columns of keys are slots, those of values are elements:
//
//   keys    f32, f16   [batch, head, panel of slots, dim, 16]
//           i8         [batch, head, panel of slots, dim / 4, 16, 4]      panels of qgemm.h
//   values             [batch, head, panel of elements, slots, 16]
//
// Keys of i8 are mixed before they get codes, queries likewise: in runs of 16 · 2^n elements, the
// longest that divide dim, by Hadamard's matrix over elements 16 apart (cache_rows.h). Their
// products are 2^n times as large. Few large elements, as keys have, would cost the others their
// precision.
//
// The slots are padded to whole panels. Positions below `sinks` have slots of their own, the first
// ones; the others lie in a ring: p in slot sinks + (p − sinks) mod (capacity − sinks). A row x of
// i8 has the scale max|x| / 127 and the codes round(x / scale), halves to even; a row of zeros has
// scale 0 and codes 0, a row with NaN or an infinity the scale NaN and codes 0. sums has the sum of
// the codes of each key.
#ifndef ET_PANEL_CACHE_H
#define ET_PANEL_CACHE_H

#include "kernels/micro/attention/cache_rows.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/qgemm/qgemm.h"
#include "kernels/sizes.h"
#include "runtime/et.h"

typedef struct eti_panel_cache {
  uint8_t dtype;  // et_dtype: f32, f16 or i8
  size_t batch, heads, dim, value_dim, capacity, sinks;
  void *keys, *values;
  // Numbers of i8 caches, [batch, head, slot], slots in whole panels.
  float *key_scales, *value_scales;
  int32_t *key_sums;
} eti_panel_cache;

// Rows [batch, position, head, element] of f32; steps in elements.
typedef struct eti_head_rows {
  float *data;
  ptrdiff_t batch, position, head, item;
} eti_head_rows;

// Rotary embedding of the first `dims` elements of a row, an even number:
//
//   halves       y[i] = x[i] · cos[i] − x[i + dims/2] · sin[i]
//                y[i + dims/2] = x[i + dims/2] · cos[i + dims/2] + x[i] · sin[i + dims/2]
//   interleaved  y[2i] = x[2i] · cos[2i] − x[2i + 1] · sin[2i]
//                y[2i + 1] = x[2i + 1] · cos[2i + 1] + x[2i] · sin[2i + 1]
//
// Each product is rounded. cos and sin have a row of `dims` numbers for each new position; a user
// may have more.
typedef struct eti_rotation {
  const float *cos, *sin;
  size_t dims;  // 0: none
  bool interleaved;
} eti_rotation;

static inline size_t eti_cache_panels(const eti_panel_cache *c) {
  return eti_div_up(c->capacity, ETI_GEMM_STORED);
}
static inline size_t eti_cache_slots(const eti_panel_cache *c) {
  return eti_cache_panels(c) * ETI_GEMM_STORED;
}
// The slot of a position.
static inline size_t eti_cache_slot(const eti_panel_cache *c, size_t position) {
  return position < c->capacity ? position
                                : c->sinks + (position - c->sinks) % (c->capacity - c->sinks);
}
// Elements of a run that i8 caches mix; 16: none.
static inline size_t eti_cache_run(const eti_panel_cache *c) {
  size_t run = ETI_CACHE_MIXED;
  while (c->dim % (2 * run) == 0) run *= 2;
  return run;
}
static inline size_t eti_value_panels(const eti_panel_cache *c) {
  return eti_div_up(c->value_dim, ETI_GEMM_STORED);
}
// Bytes of a panel of keys, and of a panel of values.
static inline size_t eti_key_panel_bytes(const eti_panel_cache *c) {
  return c->dtype == ET_I8 ? eti_qpanel_bytes(eti_div_up(c->dim, ETI_QGEMM_QUAD))
                           : c->dim * ETI_GEMM_STORED * et_dtype_bytes((et_dtype)c->dtype);
}
static inline size_t eti_value_panel_bytes(const eti_panel_cache *c) {
  return eti_cache_slots(c) * ETI_GEMM_STORED * et_dtype_bytes((et_dtype)c->dtype);
}

// Copies n elements of a row of a query or key, and rotates them by row `row` of the tables.
void eti_rotate_row(const eti_cache_rows_micro *micro, const eti_rotation *rotation, const float *x,
                    ptrdiff_t item, size_t n, size_t row, float *y);

// Appends n positions from `start` on. `room` has eti_cache_append_room bytes for each of n_slots
// threads.
typedef struct eti_cache_append {
  const eti_panel_cache *cache;
  const eti_cache_rows_micro *micro;  // set by the run
  eti_head_rows keys, values;
  eti_rotation rotation;
  size_t start, n;
  char *room;
  size_t n_slots;
} eti_cache_append;

size_t eti_cache_append_room(const eti_panel_cache *c);
void eti_cache_append_run(const et_pool *pool, const eti_cache_append *a);

#endif  // ET_PANEL_CACHE_H
