// panel_cache.c — see panel_cache.h. Threads split the heads: each writes the panels of its own.
#include "kernels/lib/panel_cache.h"

#include <string.h>

#include "kernels/micro/convert/cast.h"
#include "kernels/micro/transpose.h"
#include "runtime/check.h"

enum { WIDTH = ETI_GEMM_STORED, QUAD = ETI_QGEMM_QUAD };

static void rotate_halves(const float *cos, const float *sin, const float *x, ptrdiff_t item,
                          size_t half, float *y) {
  for (size_t i = 0; i < half; i++) {
    const float a = x[(ptrdiff_t)i * item], b = x[(ptrdiff_t)(i + half) * item];
    y[i] = a * cos[i] - b * sin[i];
    y[i + half] = b * cos[i + half] + a * sin[i + half];
  }
}

static void rotate_pairs(const float *cos, const float *sin, const float *x, ptrdiff_t item,
                         size_t n, float *y) {
  for (size_t i = 0; i < n; i += 2) {
    const float a = x[(ptrdiff_t)i * item], b = x[(ptrdiff_t)(i + 1) * item];
    y[i] = a * cos[i] - b * sin[i];
    y[i + 1] = b * cos[i + 1] + a * sin[i + 1];
  }
}

static void copy_row(const float *x, ptrdiff_t item, size_t n, float *y) {
  if (item == 1) {
    memcpy(y, x, n * sizeof *y);
    return;
  }
  for (size_t i = 0; i < n; i++) y[i] = x[(ptrdiff_t)i * item];
}

void eti_rotate_row(const eti_cache_rows_micro *micro, const eti_rotation *rotation, const float *x,
                    ptrdiff_t item, size_t n, size_t row, float *y) {
  const size_t dims = rotation->dims;
  ET_ASSERT(dims % 2 == 0 && dims <= n);
  copy_row(x + (ptrdiff_t)dims * item, item, n - dims, y + dims);
  if (dims == 0) return;
  const float *const cos = rotation->cos + row * dims;
  const float *const sin = rotation->sin + row * dims;
  if (rotation->interleaved) {
    rotate_pairs(cos, sin, x, item, dims, y);
  } else if (item == 1) {
    micro->rotate(y, x, cos, sin, dims / 2);
  } else {
    rotate_halves(cos, sin, x, item, dims / 2, y);
  }
}

// ---- append

typedef struct head {
  const eti_panel_cache *cache;
  char *keys, *values;  // of this batch and head
  size_t slots;         // of the batches and heads before
  const eti_cache_rows_micro *micro;
  float *rows;   // WIDTH of them
  char *narrow;  // as many in the cache's dtype
} head;

// Converts n floats of `rows` to the cache's dtype; returns where they are.
static const char *narrow_rows(const head *h, size_t n) {
  const uint8_t dtype = h->cache->dtype;
  if (dtype == ET_F32) return (const char *)h->rows;
  eti_casts[ET_F32][dtype](h->narrow, (ptrdiff_t)et_dtype_bytes((et_dtype)dtype), h->rows,
                           (ptrdiff_t)sizeof(float), n);
  return h->narrow;
}

// Writes the keys of a whole panel of floats.
static void write_key_panel(const head *h, size_t slot) {
  const eti_panel_cache *const c = h->cache;
  const size_t item = et_dtype_bytes((et_dtype)c->dtype);
  char *const panel = h->keys + slot / WIDTH * eti_key_panel_bytes(c);
  const char *const from = narrow_rows(h, WIDTH * c->dim);
  eti_transpose(panel, (ptrdiff_t)(WIDTH * item), from, (ptrdiff_t)(c->dim * item), WIDTH, c->dim,
                item);
}

static void write_key(const head *h, size_t slot) {
  const eti_panel_cache *const c = h->cache;
  const size_t dim = c->dim, lane = slot % WIDTH;
  char *const panel = h->keys + slot / WIDTH * eti_key_panel_bytes(c);
  if (c->dtype != ET_I8) {
    const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)c->dtype);
    eti_casts[ET_F32][c->dtype](panel + (ptrdiff_t)lane * item, WIDTH * item, h->rows,
                                (ptrdiff_t)sizeof(float), dim);
    return;
  }
  int8_t *const codes = (int8_t *)h->narrow;
  h->micro->mix(h->rows, dim, eti_cache_run(c));
  c->key_scales[h->slots + slot] = h->micro->quantize(codes, h->rows, dim);
  int32_t sum = 0;
  int8_t *const to = (int8_t *)panel + lane * QUAD;
  for (size_t d = 0; d < eti_round_up(dim, QUAD); d++) {
    const int8_t code = d < dim ? codes[d] : 0;
    to[d / QUAD * (WIDTH * QUAD) + d % QUAD] = code;
    sum += code;
  }
  c->key_sums[h->slots + slot] = sum;
}

static void write_value(const head *h, size_t slot) {
  const eti_panel_cache *const c = h->cache;
  const size_t n = c->value_dim, panel_bytes = eti_value_panel_bytes(c);
  const size_t item = et_dtype_bytes((et_dtype)c->dtype);
  const char *from = h->narrow;
  if (c->dtype == ET_I8) {
    c->value_scales[h->slots + slot] = h->micro->quantize((int8_t *)h->narrow, h->rows, n);
  } else {
    from = narrow_rows(h, n);
  }
  for (size_t d = 0; d < n; d += WIDTH) {
    char *const to = h->values + d / WIDTH * panel_bytes + slot * WIDTH * item;
    memcpy(to, from + d * item, eti_at_most(n - d, WIDTH) * item);
  }
}

static const float *row_of(const eti_head_rows *r, size_t batch, size_t position, size_t i_head) {
  return r->data + (ptrdiff_t)batch * r->batch + (ptrdiff_t)position * r->position +
         (ptrdiff_t)i_head * r->head;
}

// True if the positions from s on fill a panel of floats.
static bool fills_panel(const eti_cache_append *a, size_t s) {
  const eti_panel_cache *const c = a->cache;
  const size_t slot = eti_cache_slot(c, a->start + s);
  return c->dtype != ET_I8 && slot % WIDTH == 0 && s + WIDTH <= a->n &&
         eti_cache_slot(c, a->start + s + WIDTH - 1) == slot + WIDTH - 1;
}

// Writes the keys of n positions from s on, which fill a panel or are one.
static void append_keys(const eti_cache_append *a, const head *h, size_t batch, size_t i_head,
                        size_t s, size_t n) {
  const size_t dim = a->cache->dim, slot = eti_cache_slot(a->cache, a->start + s);
  for (size_t i = 0; i < n; i++)
    eti_rotate_row(a->micro, &a->rotation, row_of(&a->keys, batch, s + i, i_head), a->keys.item,
                   dim, s + i, h->rows + i * dim);
  if (n == WIDTH) {
    write_key_panel(h, slot);
  } else {
    write_key(h, slot);
  }
}

// Bytes of WIDTH rows of f32 in the memory of a thread.
static size_t rows_bytes(const eti_panel_cache *c) {
  return eti_at_least(c->dim, c->value_dim) * WIDTH * sizeof(float);
}

static void append_head(const eti_cache_append *a, size_t i, char *room) {
  const eti_panel_cache *const c = a->cache;
  const eti_rotation none = {.dims = 0};
  const size_t batch = i / c->heads, i_head = i % c->heads;
  const head h = {.cache = c,
                  .keys = (char *)c->keys + i * eti_cache_panels(c) * eti_key_panel_bytes(c),
                  .values = (char *)c->values + i * eti_value_panels(c) * eti_value_panel_bytes(c),
                  .slots = i * eti_cache_slots(c),
                  .micro = a->micro,
                  .rows = (float *)(void *)room,
                  .narrow = room + rows_bytes(c)};
  for (size_t s = 0, n; s < a->n; s += n) {
    n = fills_panel(a, s) ? WIDTH : 1;
    append_keys(a, &h, batch, i_head, s, n);
  }
  for (size_t s = 0; s < a->n; s++) {
    eti_rotate_row(a->micro, &none, row_of(&a->values, batch, s, i_head), a->values.item,
                   c->value_dim, s, h.rows);
    write_value(&h, eti_cache_slot(c, a->start + s));
  }
}

size_t eti_cache_append_room(const eti_panel_cache *c) {
  return 2 * rows_bytes(c);
}

static void append_slots(void *opaque, size_t begin, size_t end) {
  const eti_cache_append *const a = opaque;
  const size_t n = a->cache->batch * a->cache->heads;
  for (size_t slot = begin; slot < end; slot++) {
    char *const room = a->room + slot * eti_cache_append_room(a->cache);
    for (size_t i = slot; i < n; i += a->n_slots) append_head(a, i, room);
  }
}

// Fewer elements than this are not worth a second thread.
enum { SMALL_WORK = 32 * 1024 };

void eti_cache_append_run(const et_pool *pool, const eti_cache_append *a) {
  const eti_panel_cache *const c = a->cache;
  eti_cache_append run = *a;
  run.micro = eti_cache_rows_best();
  if (a->n * c->batch * c->heads * (c->dim + c->value_dim) < SMALL_WORK) run.n_slots = 1;
  et_parallel_for(run.n_slots > 1 ? pool : NULL, append_slots, &run, run.n_slots, 1);
}
