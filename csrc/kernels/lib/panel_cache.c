// panel_cache.c — see panel_cache.h. Threads split the heads: each writes the panels of its own.
#include "kernels/lib/panel_cache.h"

#include <math.h>
#include <string.h>

#include "kernels/loops/loop.h"
#include "kernels/micro/convert/cast.h"
#include "runtime/check.h"

enum { WIDTH = ETI_GEMM_STORED, QUAD = ETI_QGEMM_QUAD };

// item is a constant at one call: rows of adjacent elements become vectors.
ETI_LOOP_INLINE void rotate_halves(const float *cos, const float *sin, const float *x,
                                   const ptrdiff_t item, size_t half, float *y) {
  const float *const second = x + (ptrdiff_t)half * item;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < half; i++) {
    const float a = x[(ptrdiff_t)i * item], b = second[(ptrdiff_t)i * item];
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

void eti_rotate_row(const eti_rotation *rotation, const float *x, ptrdiff_t item, size_t n,
                    size_t row, float *y) {
  const size_t dims = rotation->dims;
  ET_ASSERT(dims % 2 == 0 && dims <= n);
  copy_row(x + (ptrdiff_t)dims * item, item, n - dims, y + dims);
  if (dims == 0) return;
  const float *const cos = rotation->cos + row * dims;
  const float *const sin = rotation->sin + row * dims;
  if (rotation->interleaved) {
    rotate_pairs(cos, sin, x, item, dims, y);
  } else if (item == 1) {
    rotate_halves(cos, sin, x, 1, dims / 2, y);
  } else {
    rotate_halves(cos, sin, x, item, dims / 2, y);
  }
}

float eti_quantize_row(const float *x, size_t n, int8_t *codes) {
  float most = 0.0f;
  bool is_finite = true;
  for (size_t i = 0; i < n; i++) {
    const float size = fabsf(x[i]);
    is_finite &= size <= 0x1.fffffep127f;
    most = size > most ? size : most;
  }
  const float scale = most / 127.0f;
  if (!is_finite || scale == 0.0f) {
    for (size_t i = 0; i < n; i++) codes[i] = 0;
    return is_finite ? 0.0f : NAN;
  }
  for (size_t i = 0; i < n; i++) {
    // Adding and subtracting 1.5·2^23 rounds halves to even. Subnormal scales are coarse.
    float q = (x[i] / scale + 0x1.8p23f) - 0x1.8p23f;
    q = q > 127.0f ? 127.0f : q;
    q = q < -127.0f ? -127.0f : q;
    codes[i] = (int8_t)q;
  }
  return scale;
}

// ---- append

typedef struct head {
  const eti_panel_cache *cache;
  char *keys, *values;  // of this batch and head
  size_t slots;         // of the batches and heads before
  float *row;
  int8_t *codes;
} head;

static void write_key(const head *h, size_t slot) {
  const eti_panel_cache *const c = h->cache;
  const size_t dim = c->dim, lane = slot % WIDTH;
  char *const panel = h->keys + slot / WIDTH * eti_key_panel_bytes(c);
  if (c->dtype != ET_I8) {
    const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)c->dtype);
    eti_casts[ET_F32][c->dtype](panel + (ptrdiff_t)lane * item, WIDTH * item, h->row,
                                (ptrdiff_t)sizeof(float), dim);
    return;
  }
  c->key_scales[h->slots + slot] = eti_quantize_row(h->row, dim, h->codes);
  int32_t sum = 0;
  int8_t *const to = (int8_t *)panel + lane * QUAD;
  for (size_t d = 0; d < eti_round_up(dim, QUAD); d++) {
    const int8_t code = d < dim ? h->codes[d] : 0;
    to[d / QUAD * (WIDTH * QUAD) + d % QUAD] = code;
    sum += code;
  }
  c->key_sums[h->slots + slot] = sum;
}

static void write_value(const head *h, size_t slot) {
  const eti_panel_cache *const c = h->cache;
  const size_t n = c->value_dim, panel_bytes = eti_value_panel_bytes(c);
  const size_t item = et_dtype_bytes((et_dtype)c->dtype);
  if (c->dtype == ET_I8) c->value_scales[h->slots + slot] = eti_quantize_row(h->row, n, h->codes);
  for (size_t d = 0; d < n; d += WIDTH) {
    char *const to = h->values + d / WIDTH * panel_bytes + slot * WIDTH * item;
    const size_t count = eti_at_most(n - d, WIDTH);
    if (c->dtype == ET_I8) {
      for (size_t i = 0; i < count; i++) ((int8_t *)to)[i] = h->codes[d + i];
    } else {
      eti_casts[ET_F32][c->dtype](to, (ptrdiff_t)item, h->row + d, (ptrdiff_t)sizeof(float), count);
    }
  }
}

static const float *row_of(const eti_head_rows *r, size_t batch, size_t position, size_t i_head) {
  return r->data + (ptrdiff_t)batch * r->batch + (ptrdiff_t)position * r->position +
         (ptrdiff_t)i_head * r->head;
}

static void append_head(const eti_cache_append *a, size_t i, char *room) {
  const eti_panel_cache *const c = a->cache;
  const eti_rotation none = {.dims = 0};
  const size_t batch = i / c->heads, i_head = i % c->heads;
  const size_t row_bytes = eti_round_up(eti_at_least(c->dim, c->value_dim) * sizeof(float), 64);
  const head h = {.cache = c,
                  .keys = (char *)c->keys + i * eti_cache_panels(c) * eti_key_panel_bytes(c),
                  .values = (char *)c->values + i * eti_value_panels(c) * eti_value_panel_bytes(c),
                  .slots = i * eti_cache_slots(c),
                  .row = (float *)(void *)room,
                  .codes = (int8_t *)(room + row_bytes)};
  for (size_t s = 0; s < a->n; s++) {
    const size_t slot = eti_cache_slot(c, a->start + s);
    eti_rotate_row(&a->rotation, row_of(&a->keys, batch, s, i_head), a->keys.item, c->dim, s,
                   h.row);
    write_key(&h, slot);
    eti_rotate_row(&none, row_of(&a->values, batch, s, i_head), a->values.item, c->value_dim, s,
                   h.row);
    write_value(&h, slot);
  }
}

size_t eti_cache_append_room(const eti_panel_cache *c) {
  const size_t n = eti_at_least(c->dim, c->value_dim);
  return eti_round_up(n * sizeof(float), 64) + eti_round_up(n, 64);
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
  if (a->n * c->batch * c->heads * (c->dim + c->value_dim) < SMALL_WORK) run.n_slots = 1;
  et_parallel_for(run.n_slots > 1 ? pool : NULL, append_slots, &run, run.n_slots, 1);
}
