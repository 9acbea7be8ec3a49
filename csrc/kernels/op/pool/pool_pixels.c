// pool_pixels.c — pooling with channels as the inner loop: of images whose channels are adjacent,
// and of planes too small for loops along their rows, which are transposed to such pixels a few at
// a time. Windows are walked in the order of pool.c, so results have the same bits. Relies on
// pool.h, micro/pool/row_pool.h and micro/transpose.h.
#include "kernels/kernel.h"
#include "kernels/micro/transpose.h"
#include "kernels/op/pool/pool.h"
#include "kernels/sizes.h"

#include <string.h>

enum {
  ROW = ETI_ON_STACK(256, 32),     // channels computed at a time
  TILE = ETI_ON_STACK(4096, 128),  // elements of transposed planes
  FEW_TAPS = 32,                   // of a window that one call walks
  FEW_PLANES = 4,                  // fewer share no vector
  LANES = 8,                       // planes of a tile at least, unless there are fewer
  WIDE = 24,                       // outputs of a row from which loops along rows are as fast
  LEAST_ROWS = 3,                  // of results; neighbouring bands transpose the same rows
  GRAIN = 64 * 1024,               // taps that justify another thread
};

typedef struct pixel_buffers {
  char *value;  // sums or maxima
  int32_t *at;  // positions of maxima
  _Alignas(64) char cast[ROW * 8];
  _Alignas(64) char columns[ROW * 8];  // sums down the rows of a window
} pixel_buffers;

// Pixels of an image, in elements of dtype: channel 0 of position 0 is at x + base, which may lie
// before the rows that exist.
typedef struct pixels {
  const char *x;
  et_dtype dtype;
  ptrdiff_t base, steps[3];
} pixels;

// ---- windows

// Reads n channels of `count` pixels from an element offset on, in the micro-kernel's type; more
// than one pixel only if they are adjacent.
static const char *load_pixels(const eti_pool *p, const pixels *x, ptrdiff_t at, size_t count,
                               size_t n, pixel_buffers *b) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes(x->dtype);
  const char *src = x->x + at * es;
  if (x->dtype == (et_dtype)p->micro->dtype) return src;
  eti_casts[x->dtype][p->micro->dtype](b->cast, p->micro->esize, src, es, count * n);
  return b->cast;
}

// Number of neighbouring pixels of n channels that the buffers hold; 1 if pixels are not adjacent.
static int64_t pixels_at_once(const eti_pool *p, const pixels *x, size_t n) {
  const bool dense = x->steps[2] == (ptrdiff_t)n && p->dilation[2] == 1;
  return dense ? (int64_t)(ROW * 8 / p->micro->esize / n) : 1;
}

static ptrdiff_t pixel_at(const pixels *x, int64_t z, int64_t y, int64_t column) {
  return x->base + (ptrdiff_t)z * x->steps[0] + (ptrdiff_t)y * x->steps[1] +
         (ptrdiff_t)column * x->steps[2];
}

// Adds the rows of the window, then its columns, as pool.c does for adaptive windows.
static void add_columns(const eti_pool *p, const pixels *x, size_t c0, const eti_pool_window w[3],
                        size_t n, pixel_buffers *b) {
  const int64_t most = pixels_at_once(p, x, n);
  const size_t es = p->micro->esize;
  for (int64_t ix = w[2].from; ix < w[2].to; ix += most) {
    const size_t count = (size_t)(w[2].to - ix < most ? w[2].to - ix : most);
    memset(b->columns, 0, count * n * es);
    for (int64_t iz = w[0].from; iz < w[0].to; iz++) {
      for (int64_t iy = w[1].from; iy < w[1].to; iy++) {
        const ptrdiff_t at = (ptrdiff_t)c0 + pixel_at(x, iz, iy, ix);
        p->micro->add(b->columns, load_pixels(p, x, at, count, n, b), 1, count * n);
      }
    }
    for (size_t k = 0; k < count; k++) p->micro->add(b->value, b->columns + k * n * es, 1, n);
  }
}

static void add_taps(const eti_pool *p, const pixels *x, size_t c0, const eti_pool_window w[3],
                     size_t n, pixel_buffers *b) {
  const int64_t most = pixels_at_once(p, x, n);
  const size_t es = p->micro->esize;
  for (int64_t iz = w[0].from; iz < w[0].to; iz += p->dilation[0]) {
    for (int64_t iy = w[1].from; iy < w[1].to; iy += p->dilation[1]) {
      for (int64_t ix = w[2].from; ix < w[2].to; ix += most * p->dilation[2]) {
        const size_t count = (size_t)(w[2].to - ix < most ? w[2].to - ix : most);
        const char *from = load_pixels(p, x, (ptrdiff_t)c0 + pixel_at(x, iz, iy, ix), count, n, b);
        const int32_t first = (int32_t)((iz * p->in[1] + iy) * p->in[2] + ix);
        for (size_t k = 0; k < count; k++, from += n * es) {
          if (!p->is_max) {
            p->micro->add(b->value, from, 1, n);
          } else {  // channel i has the position plus i
            p->micro->max(b->value, b->at, from, 1, first + (int32_t)k, n);
          }
        }
      }
    }
  }
}

// Walks a window with few taps in one call. False for others, and for elements to convert.
static bool run_window(const eti_pool *p, const pixels *x, size_t c0, const eti_pool_window w[3],
                       size_t n, pixel_buffers *b) {
  ptrdiff_t offset[FEW_TAPS];
  int32_t first[FEW_TAPS];
  size_t n_taps = 0;
  if (x->dtype != (et_dtype)p->micro->dtype) return false;
  for (int64_t iz = w[0].from; iz < w[0].to; iz += p->dilation[0]) {
    for (int64_t iy = w[1].from; iy < w[1].to; iy += p->dilation[1]) {
      for (int64_t ix = w[2].from; ix < w[2].to; ix += p->dilation[2], n_taps++) {
        if (n_taps == FEW_TAPS) return false;
        offset[n_taps] = (ptrdiff_t)c0 + pixel_at(x, iz, iy, ix);
        first[n_taps] = (int32_t)((iz * p->in[1] + iy) * p->in[2] + ix);
      }
    }
  }
  if (p->is_max) {
    p->micro->max_window(b->value, b->at, x->x, offset, first, n_taps, n);
  } else {
    p->micro->add_window(b->value, x->x, offset, n_taps, n);
  }
  return true;
}

// Computes channels [c0, c0 + n) of an output pixel into b->value and b->at, where the position of
// channel c0 + i is too large by i.
static void pool_channels(const eti_pool *p, const pixels *x, const eti_pool_window w[3], size_t c0,
                          size_t n, pixel_buffers *b) {
  const int64_t area = (w[0].to - w[0].from) * (w[1].to - w[1].from) * (w[2].to - w[2].from);
  const int64_t padded = w[0].padded * w[1].padded * w[2].padded;
  const int64_t by = p->divisor != 0 ? p->divisor : p->count_padding ? padded : area;
  if (p->is_max) {
    const int32_t first = (int32_t)((w[0].from * p->in[1] + w[1].from) * p->in[2] + w[2].from);
    eti_row_pool_start_max(p->micro, b->value, n);
    for (size_t i = 0; i < n; i++) b->at[i] = (int32_t)((uint32_t)first + (uint32_t)i);
  } else {
    memset(b->value, 0, n * p->micro->esize);
  }
  if (!p->is_max && (p->is_adaptive || p->size[2] == 1)) {
    add_columns(p, x, c0, w, n, b);
  } else if (!run_window(p, x, c0, w, n, b)) {
    add_taps(p, x, c0, w, n, b);
  }
  if (!p->is_max && by != 0) eti_pool_divide(p, by, b->value, n);
}

// ---- channels last

static ptrdiff_t out_offset(const et_tensor *t, const ptrdiff_t steps[3], const int64_t o[3],
                            size_t image, size_t c0) {
  return (ptrdiff_t)image * t->strides[0] + (ptrdiff_t)c0 + (ptrdiff_t)o[0] * steps[0] +
         (ptrdiff_t)o[1] * steps[1] + (ptrdiff_t)o[2] * steps[2];
}

static void run_pixel(const eti_pool *p, size_t image, const int64_t o[3],
                      const eti_pool_window w[3], char *room, pixel_buffers *b) {
  const size_t channels = (size_t)p->x->sizes[1];
  const et_dtype dtype = (et_dtype)p->x->dtype, out_dtype = (et_dtype)p->out->dtype;
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes(dtype),
                  out_es = (ptrdiff_t)et_dtype_bytes(out_dtype);
  const bool direct = out_dtype == (et_dtype)p->micro->dtype;
  pixels x = {.x = (const char *)p->x->data + (ptrdiff_t)image * p->x->strides[0] * es,
              .dtype = dtype};
  memcpy(x.steps, p->x_steps, sizeof x.steps);
  for (size_t c0 = 0; c0 < channels; c0 += ROW) {
    const size_t n = eti_at_most(channels - c0, ROW);
    char *const to = (char *)p->out->data + out_offset(p->out, p->out_steps, o, image, c0) * out_es;
    b->value = direct ? to : room;
    pool_channels(p, &x, w, c0, n, b);
    if (!direct) eti_casts[p->micro->dtype][out_dtype](to, out_es, b->value, p->micro->esize, n);
    if (p->indices == NULL) continue;
    int64_t *const index =
        (int64_t *)p->indices->data + out_offset(p->indices, p->index_steps, o, image, c0);
    for (size_t i = 0; i < n; i++) index[i] = (int32_t)((uint32_t)b->at[i] - (uint32_t)i);
  }
}

// Each item is a row of output pixels: images × depth × height.
static void run_pixels(void *ctx, size_t begin, size_t end) {
  const eti_pool *const p = ctx;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  _Alignas(64) char room[ROW * 8];
  int32_t at[ROW];
  pixel_buffers b = {.at = at};
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    eti_pool_window w[3] = {eti_pool_window_of(p, 0, o[0]), eti_pool_window_of(p, 1, o[1])};
    for (; o[2] < p->size[2]; o[2]++) {
      w[2] = eti_pool_window_of(p, 2, o[2]);
      run_pixel(p, u / rows, o, w, room, &b);
    }
  }
}

bool eti_pool_pixels_run(const et_kernel_ctx *ctx, eti_pool *p) {
  if (p->lead != 2 || p->x->sizes[1] <= 1 || p->x->strides[1] != 1 || p->out->strides[1] != 1 ||
      (p->indices != NULL && p->indices->strides[1] != 1))
    return false;
  et_parallel_for(ctx->pool, run_pixels, p,
                  (size_t)p->x->sizes[0] * (size_t)(p->size[0] * p->size[1]), 1);
  return true;
}

// ---- small planes

// Groups of planes of an image, and bands of rows of their results: those that fit a tile.
typedef struct tiling {
  const eti_pool *p;
  size_t n_channels, n_planes, n_groups;  // planes of a group
  int64_t n_rows, n_bands;                // rows of a band
} tiling;

// Input rows [*from, *to) of output rows [y0, y1).
static void rows_of(const eti_pool *p, int64_t y0, int64_t y1, int64_t *from, int64_t *to) {
  *from = p->in[1];
  *to = 0;
  for (int64_t y = y0; y < y1; y++) {
    const eti_pool_window w = eti_pool_window_of(p, 1, y);
    if (w.from >= w.to) continue;
    if (w.from < *from) *from = w.from;
    if (w.to > *to) *to = w.to;
  }
  if (*from > *to) *from = *to;
}

typedef struct planes_tile {
  _Alignas(64) char x[TILE * 4];
  _Alignas(64) char value[TILE * 4];
  int32_t at[TILE];
} planes_tile;

// Copies the results of n planes from the tile: rows [y0, y1).
static void store_planes(const eti_pool *p, size_t plane, size_t n, int64_t y0, int64_t y1,
                         planes_tile *tile) {
  const size_t count = (size_t)((y1 - y0) * p->size[2]), es = p->micro->esize;
  const ptrdiff_t at = eti_pool_plane(p, p->out, plane) + (ptrdiff_t)y0 * p->out_steps[1];
  eti_transpose((char *)p->out->data + at * (ptrdiff_t)es,
                p->out->strides[p->lead - 1] * (ptrdiff_t)es, tile->value, (ptrdiff_t)(n * es),
                count, n, es);
  for (size_t c = 0; c < n && p->indices != NULL; c++) {
    int64_t *const to = (int64_t *)p->indices->data + eti_pool_plane(p, p->indices, plane + c) +
                        (ptrdiff_t)y0 * p->index_steps[1];
    for (size_t i = 0; i < count; i++)
      to[i] = (int32_t)((uint32_t)tile->at[i * n + c] - (uint32_t)c);
  }
}

static ETI_OWN_FRAME void run_tile(const eti_pool *p, size_t plane, size_t n, int64_t y0,
                                   int64_t y1, planes_tile *tile) {
  const size_t es = p->micro->esize;
  int64_t from, to;
  rows_of(p, y0, y1, &from, &to);
  const ptrdiff_t at = eti_pool_plane(p, p->x, plane) + (ptrdiff_t)from * p->x_steps[1];
  eti_transpose(tile->x, (ptrdiff_t)(n * es), (const char *)p->x->data + at * (ptrdiff_t)es,
                p->x->strides[p->lead - 1] * (ptrdiff_t)es, n, (size_t)((to - from) * p->in[2]),
                es);
  pixel_buffers b = {.value = tile->value, .at = tile->at};
  const ptrdiff_t row = (ptrdiff_t)p->in[2] * (ptrdiff_t)n;
  const pixels x = {.x = tile->x,
                    .dtype = (et_dtype)p->micro->dtype,
                    .base = -(ptrdiff_t)from * row,
                    .steps = {0, row, (ptrdiff_t)n}};
  eti_pool_window w[3] = {{.from = 0, .to = 1, .padded = 1}};
  for (int64_t y = y0; y < y1; y++) {
    w[1] = eti_pool_window_of(p, 1, y);
    for (int64_t o = 0; o < p->size[2]; o++, b.value += n * es, b.at += n) {
      w[2] = eti_pool_window_of(p, 2, o);
      pool_channels(p, &x, w, 0, n, &b);
    }
  }
  store_planes(p, plane, n, y0, y1, tile);
}

static void run_tiles(void *ctx, size_t begin, size_t end) {
  const tiling *const t = ctx;
  planes_tile tile;
  for (size_t u = begin; u < end; u++) {
    const size_t band = u % (size_t)t->n_bands, group = u / (size_t)t->n_bands;
    const size_t c0 = group % t->n_groups * t->n_planes;
    const int64_t y0 = (int64_t)band * t->n_rows, left = t->p->size[1] - y0;
    run_tile(t->p, group / t->n_groups * t->n_channels + c0,
             eti_at_most(t->n_channels - c0, t->n_planes), y0,
             y0 + (left < t->n_rows ? left : t->n_rows), &tile);
  }
}

// True if the planes of t are dense, one step apart.
static bool has_planes(const eti_pool *p, const et_tensor *t, const int64_t sizes[3]) {
  return t->strides[p->lead + 1] == 1 && t->strides[p->lead] == (ptrdiff_t)sizes[2];
}

// Chooses groups and bands. False if too few rows of a few planes fit.
static bool choose_tiles(const eti_pool *p, size_t n_threads, tiling *t) {
  const int64_t in = p->in[1] * p->in[2], out = p->size[1] * p->size[2], most = in > out ? in : out;
  const size_t all = (size_t)p->x->sizes[p->lead - 1];
  const size_t share = (all + n_threads - 1) / n_threads;
  size_t fit = (size_t)(TILE / most);
  t->n_rows = p->size[1];
  if (fit < LANES) {
    const int64_t room = TILE / LANES / p->in[2] - (p->kernel[1] - 1) * p->dilation[1] - 1,
                  out_rows = TILE / LANES / p->size[2];
    const int64_t rows = room < 0 ? 0 : room / p->stride[1] + 1;
    if (p->is_adaptive) return false;
    fit = LANES;
    t->n_rows = rows < out_rows ? rows : out_rows;
  }
  t->n_channels = all;
  t->n_planes = eti_at_most(fit / LANES * LANES, eti_round_up(share, LANES));
  t->n_groups = (all + t->n_planes - 1) / t->n_planes;
  t->n_bands = t->n_rows < 1 ? 0 : (p->size[1] + t->n_rows - 1) / t->n_rows;
  return t->n_rows >= LEAST_ROWS || (t->n_rows >= 1 && t->n_rows == p->size[1]);
}

bool eti_pool_planes_run(const et_kernel_ctx *ctx, eti_pool *p) {
  tiling t = {.p = p};
  if (p->x->dtype != ET_F32 || p->micro->esize != sizeof(float) || p->spatial != 2 ||
      p->x->sizes[p->lead - 1] < FEW_PLANES || p->size[2] >= WIDE || !has_planes(p, p->x, p->in) ||
      !has_planes(p, p->out, p->size) ||
      (p->indices != NULL && !has_planes(p, p->indices, p->size)) ||
      !choose_tiles(p, ctx->pool == NULL ? 1 : ctx->pool->n_threads, &t))
    return false;
  const size_t images = p->lead == 2 ? (size_t)p->x->sizes[0] : 1;
  const double taps = (double)p->kernel[1] * (double)p->kernel[2];
  const double work = (taps + 4.0) * (double)t.n_planes * (double)(t.n_rows * p->size[2]);
  et_parallel_for(ctx->pool, run_tiles, &t, images * t.n_groups * (size_t)t.n_bands,
                  work < GRAIN ? 1 + (size_t)(GRAIN / (work + 1.0)) : 1);
  return true;
}
