// conv_winograd.c — executorch_py::winograd_convolution: 3 × 3 convolutions of stride 1 by fewer
// products than executorch_py::convolution, whose arguments it has, and `tile` before the epilogue:
// 2, 4 or 6 outputs along each side of a tile. Sums are rounded in other places, so results are
// those of convolution only within a bound; docs/numerics.md states it.
//
//   tiles of the image ─ Bᵀ·d·B ─▶ points [n² × tiles × c_in]
//                                  × weights [n² × c_in × c_out]: n² products (micro/gemm)
//   tiles of the result ◀─ Aᵀ·s·A ─ sums [n² × tiles × c_out]
//
// A block of tiles at a time, so that points and sums stay in the cache. Threads take blocks, or
// parts of each step if there are fewer blocks than threads. Images are read and written in
// channels-last order, others through a copy. Transformed weights are made by the first run.
// Relies on conv.h, micro/conv/winograd.h and micro/gemm/gemm.h.
#include "kernels/kernel.h"
#include "kernels/micro/conv/winograd.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/transpose.h"
#include "kernels/op/conv/conv.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"

#include <string.h>

enum {
  PLAIN_ARGS = 9,             // of convolution
  ALIGN = 64,                 // bytes
  SKEW = ALIGN / 4,           // elements between points: else all would share one set of the cache
  BLOCK_BYTES = 1024 * 1024,  // of points and sums
  LEAST_TILES = 32,           // in a block, so that a product reads its weights for enough rows
  GRAIN = 4,                  // tiles that justify another thread
};

// State of a call, made by prepare; the first run fills panels.
typedef struct winograd_state {
  const eti_epilogue *epilogue;  // NULL: none
  float *panels;                 // NULL: weights are computed, and transformed in each run
  bool is_packed;
} winograd_state;

typedef struct winograd {
  eti_conv conv;
  size_t tile, n_points;       // outputs of a side; points of a tile
  size_t rows, cols, n_tiles;  // of an image; of all images
  size_t block, n_blocks;      // tiles at a time, at most
  const eti_winograd_micro *micro;
  const eti_gemm_kernel *kernel;
  float *panels;                      // transformed weights
  size_t panels_step;                 // from point to point
  const float *zeros;                 // c_in
  const eti_epilogue_call *epilogue;  // of the results of each tile; NULL: none
  const char *result;                 // memory of the first result
} winograd;

// Memory of a block.
typedef struct room {
  float *points, *sums;
  void *work;  // of the products
  size_t work_bytes;
} room;

// ---- geometry

static et_status read_tile(const et_kernel_ctx *ctx, et_value *const *args, winograd *w) {
  const eti_conv *const c = &w->conv;
  int64_t tile = 0;
  ET_TRY(eti_arg_int(ctx, args, PLAIN_ARGS, &tile));
  ET_CHECK(tile == 2 || tile == 4 || tile == 6, ctx->err, ET_NOT_SUPPORTED,
           "winograd_convolution: tile: expected 2, 4 or 6, got %lld", (long long)tile);
  ET_CHECK(
      c->dtype == ET_F32 && c->kernel[0] == 1 && c->kernel[1] == 3 && c->kernel[2] == 3, ctx->err,
      ET_NOT_SUPPORTED,
      "winograd_convolution: expected f32 and a kernel of 3 x 3, got %s and %lld x %lld x %lld",
      et_dtype_name(c->dtype), (long long)c->kernel[0], (long long)c->kernel[1],
      (long long)c->kernel[2]);
  ET_CHECK(c->groups == 1 && !c->transposed, ctx->err, ET_NOT_SUPPORTED,
           "winograd_convolution: expected 1 group and transposed=false, got %zu and %s", c->groups,
           c->transposed ? "true" : "false");
  for (size_t d = 1; d < 3; d++) {
    ET_CHECK(c->stride[d] == 1 && c->dilation[d] == 1 && c->padding[d] <= 2, ctx->err,
             ET_NOT_SUPPORTED,
             "winograd_convolution: expected stride 1, dilation 1 and padding of at most 2, got "
             "%lld, %lld and %lld",
             (long long)c->stride[d], (long long)c->dilation[d], (long long)c->padding[d]);
  }
  w->tile = (size_t)tile;
  w->n_points = (w->tile + 2) * (w->tile + 2);
  return ET_OK;
}

static et_status read_winograd(const et_kernel_ctx *ctx, et_value *const *args, winograd *w) {
  et_value *plain[PLAIN_ARGS + 1];
  for (size_t i = 0; i < PLAIN_ARGS; i++) plain[i] = args[i];
  plain[PLAIN_ARGS] = args[PLAIN_ARGS + 1 + ETI_EPILOGUE_ARGS];
  eti_conv *const c = &w->conv;
  ET_TRY(eti_conv_read(ctx, plain, c));
  ET_TRY(read_tile(ctx, args, w));
  w->micro = eti_winograd_micro_best();
  w->kernel = eti_gemm_kernel_for(ETI_ACC_F32);
  w->panels_step = eti_gemm_packed_elements(c->c_out, w->kernel->nr, c->c_in);
  return ET_OK;
}

// Sets the tiles and blocks of n_images images.
static void cut_tiles(winograd *w, size_t n_images) {
  const eti_conv *const c = &w->conv;
  w->rows = ((size_t)c->out.sizes[1] + w->tile - 1) / w->tile;
  w->cols = ((size_t)c->out.sizes[2] + w->tile - 1) / w->tile;
  w->n_tiles = n_images * w->rows * w->cols;
  const size_t tile_bytes = w->n_points * (c->c_in + c->c_out) * sizeof(float);
  const size_t most = eti_at_least(BLOCK_BYTES / (tile_bytes + 1), LEAST_TILES);
  w->n_blocks = (w->n_tiles + most - 1) / most;
  w->block = w->n_blocks == 0 ? 0 : (w->n_tiles + w->n_blocks - 1) / w->n_blocks;
}

static size_t points_step(const winograd *w) {
  return eti_round_up(w->block * w->conv.c_in, ALIGN / sizeof(float)) + SKEW;
}
static size_t sums_step(const winograd *w) {
  return eti_round_up(w->block * w->conv.c_out, ALIGN / sizeof(float)) + SKEW;
}

// ---- the three steps of a block

typedef struct block {
  const winograd *w;
  const room *room;
  size_t first, n;  // tiles
} block;

typedef struct place {
  size_t image;
  ptrdiff_t y, x;  // of the first result
} place;

static place place_of(const winograd *w, size_t tile) {
  const size_t in_image = tile % (w->rows * w->cols);
  return (place){.image = tile / (w->rows * w->cols),
                 .y = (ptrdiff_t)(in_image / w->cols * w->tile),
                 .x = (ptrdiff_t)(in_image % w->cols * w->tile)};
}

static void transform_inputs(void *ctx, size_t begin, size_t end) {
  const block *const b = ctx;
  const winograd *const w = b->w;
  const eti_conv *const c = &w->conv;
  const eti_image *const x = &c->x;
  const ptrdiff_t side = (ptrdiff_t)w->tile + 2;
  const float *pixels[ETI_WINOGRAD_POINTS];
  for (size_t i = begin; i < end; i++) {
    const place at = place_of(w, b->first + i);
    const float *const image =
        (const float *)(const void *)x->data + (ptrdiff_t)at.image * x->n_step;
    const ptrdiff_t top = at.y - (ptrdiff_t)c->padding[1], left = at.x - (ptrdiff_t)c->padding[2];
    const float **p = pixels;
    for (ptrdiff_t row = top; row < top + side; row++) {
      const bool has_row = row >= 0 && row < x->sizes[1];
      for (ptrdiff_t col = left; col < left + side; col++, p++) {
        const bool inside = has_row && col >= 0 && col < x->sizes[2];
        *p = inside ? image + row * x->steps[1] + col * x->steps[2] : w->zeros;
      }
    }
    w->micro->input[w->tile / 2 - 1](b->room->points + i * c->c_in, points_step(w), pixels,
                                     c->c_in);
  }
}

// Product of one point: tiles × input channels times input channels × output channels. The tiles
// are few, so their rows are read in place, and weights once.
static void point_tiles(const eti_gemm *g, const void **rows, void *copies, size_t first,
                        size_t n) {
  (void)copies;
  const block *const b = g->ctx;
  const float *const points = b->room->points + g->job * points_step(b->w) + first * g->k;
  for (size_t i = 0; i < n; i++) rows[i] = points + i * g->k;
}

static void describe_point(const void *ctx, size_t point, eti_gemm *g) {
  const block *const b = ctx;
  const winograd *const w = b->w;
  const size_t nr = w->kernel->nr;
  g->a = (eti_gemm_operand){
      .height = eti_gemm_rows_height(w->kernel, g->m), .point = point_tiles, .segment = g->k};
  g->b = (eti_gemm_operand){.data = w->panels + point * w->panels_step,
                            .height = nr,
                            .panel_step = nr * g->k,
                            .k_step = nr,
                            .continues = true};
  g->c = b->room->sums + point * sums_step(w);
  g->c_step = g->n;
  g->init = ETI_GEMM_ZERO;
}

static eti_gemm shape_of(const block *b) {
  const winograd *const w = b->w;
  return (eti_gemm){
      .kernel = w->kernel, .m = b->n, .n = w->conv.c_out, .k = w->conv.c_in, .ctx = b};
}

static void transform_outputs(void *ctx, size_t begin, size_t end) {
  const block *const b = ctx;
  const winograd *const w = b->w;
  const eti_conv *const c = &w->conv;
  const eti_image *const y = &c->out;
  for (size_t i = begin; i < end; i++) {
    const place at = place_of(w, b->first + i);
    const ptrdiff_t first =
        (ptrdiff_t)at.image * y->n_step + at.y * y->steps[1] + at.x * y->steps[2];
    const eti_winograd_out out = {
        .data = (float *)(void *)(uintptr_t)y->data + first,
        .row_step = y->steps[1],
        .col_step = y->steps[2],
        .rows = eti_at_most(w->tile, (size_t)(y->sizes[1] - at.y)),
        .cols = eti_at_most(w->tile, (size_t)(y->sizes[2] - at.x)),
        .bias = (const float *)(const void *)c->bias,
        .range = c->range,
    };
    w->micro->output[w->tile / 2 - 1](&out, b->room->sums + i * c->c_out, sums_step(w), c->c_out);
    for (size_t r = 0; r < out.rows && w->epilogue != NULL; r++) {
      float *const row = out.data + (ptrdiff_t)r * out.row_step;
      const size_t in_result = (size_t)(row - (const float *)(const void *)w->result);
      eti_epilogue_rows(w->epilogue, row, (size_t)out.col_step, in_result, out.cols, c->c_out);
    }
  }
}

static void run_block(const et_pool *pool, const winograd *w, const room *memory, size_t i) {
  block b = {.w = w, .room = memory, .first = i * w->block};
  if (b.first >= w->n_tiles) return;
  b.n = eti_at_most(w->block, w->n_tiles - b.first);
  const eti_gemm shape = shape_of(&b);
  et_parallel_for(pool, transform_inputs, &b, b.n, GRAIN);
  eti_gemm_run(pool, &shape, w->n_points, describe_point, &b, memory->work, memory->work_bytes);
  et_parallel_for(pool, transform_outputs, &b, b.n, GRAIN);
}

// ---- memory

// Bytes of a block's memory, for products on n_threads threads.
static size_t work_bytes_of(const winograd *w, bool is_dynamic, size_t n_threads) {
  float any = 0.0f;
  const room none = {.points = &any, .sums = &any};
  winograd named = *w;
  named.panels = &any;
  const block b = {.w = &named, .room = &none, .n = w->block};
  eti_gemm g = shape_of(&b);
  describe_point(&b, 0, &g);
  return eti_gemm_work_bytes(&g, is_dynamic, n_threads);
}

static size_t tiles_bytes(const winograd *w) {
  return w->n_points * (points_step(w) + sums_step(w)) * sizeof(float);
}

static room room_in(const winograd *w, char *memory, size_t bytes) {
  float *const points = (float *)(void *)memory;
  const size_t tiles = tiles_bytes(w);
  return (room){.points = points,
                .sums = points + w->n_points * points_step(w),
                .work = memory + tiles,
                .work_bytes = bytes - tiles};
}

typedef struct slots {
  const winograd *w;
  char *memory;
  size_t n, bytes;  // of each
} slots;

static void run_slots(void *ctx, size_t begin, size_t end) {
  const slots *const s = ctx;
  for (size_t slot = begin; slot < end; slot++) {
    const room r = room_in(s->w, s->memory + slot * s->bytes, s->bytes);
    const size_t last = (slot + 1) * s->w->n_blocks / s->n;
    for (size_t i = slot * s->w->n_blocks / s->n; i < last; i++) run_block(NULL, s->w, &r, i);
  }
}

static size_t slot_bytes(const winograd *w, bool is_dynamic, size_t n_threads) {
  return tiles_bytes(w) + eti_round_up(work_bytes_of(w, is_dynamic, n_threads), ALIGN);
}

// Runs all tiles: threads take whole blocks, or share each block.
static void run_tiles(const et_pool *pool, const winograd *w, char *memory, size_t bytes) {
  const size_t n_threads = pool == NULL ? 1 : pool->n_threads;
  slots s = {.w = w, .memory = memory, .n = n_threads, .bytes = slot_bytes(w, false, 1)};
  if (n_threads > 1 && w->n_blocks >= n_threads && s.bytes * s.n <= bytes) {
    et_parallel_for(pool, run_slots, &s, s.n, 1);
    return;
  }
  const room r = room_in(w, memory, bytes);
  for (size_t i = 0; i < w->n_blocks; i++) run_block(pool, w, &r, i);
}

// ---- weights

static void pack_lanes(void *ctx, size_t begin, size_t end) {
  const winograd *const w = ctx;
  const eti_conv *const c = &w->conv;
  const size_t nr = w->kernel->nr, all = eti_round_up(c->c_out, nr);
  const float *const weights = (const float *)(const void *)c->w;
  double taps[9][ETI_WINOGRAD_LANES];
  float points[ETI_WINOGRAD_POINTS][ETI_WINOGRAD_LANES];
  for (size_t k = begin; k < end; k++) {
    for (size_t o = 0, n; o < all; o += n) {
      n = eti_at_most(ETI_WINOGRAD_LANES, nr - o % nr);
      for (size_t l = 0; l < ETI_WINOGRAD_LANES; l++) {
        const bool is_weight = l < n && o + l < c->c_out;
        for (size_t t = 0; t < 9; t++) {
          const ptrdiff_t at = (ptrdiff_t)(o + l) * c->w_out_step + (ptrdiff_t)k * c->w_in_step +
                               (ptrdiff_t)(t / 3) * c->w_steps[1] +
                               (ptrdiff_t)(t % 3) * c->w_steps[2];
          taps[t][l] = is_weight ? (double)weights[at] : 0.0;
        }
      }
      eti_winograd_weights(w->tile / 2, (const double (*)[ETI_WINOGRAD_LANES])taps, points);
      float *const to = w->panels + o / nr * nr * c->c_in + k * nr + o % nr;
      for (size_t p = 0; p < w->n_points; p++)
        memcpy(to + p * w->panels_step, points[p], n * sizeof(float));
    }
  }
}

static size_t panels_bytes(const winograd *w) {
  size_t bytes;
  const bool overflows =
      __builtin_mul_overflow(w->panels_step, w->n_points * sizeof(float), &bytes);
  return overflows ? 0 : eti_round_up(bytes, ALIGN);
}

// ---- images in other orders than channels-last

typedef struct staging {
  const eti_image *image;
  size_t channels;
  float *pixels;  // channels-last
  bool is_result;
} staging;

static void copy_rows(void *ctx, size_t begin, size_t end) {
  const staging *const s = ctx;
  const eti_image *const m = s->image;
  const ptrdiff_t es = sizeof(float), pixel = (ptrdiff_t)s->channels * es;
  const size_t width = (size_t)m->sizes[2];
  for (size_t y = begin; y < end; y++) {
    char *const pixels = (char *)(s->pixels + y * width * s->channels);
    char *const row = (char *)(uintptr_t)m->data + (ptrdiff_t)y * m->steps[1] * es;
    if (m->steps[2] == 1 && s->is_result) {
      eti_transpose(row, m->c_step * es, pixels, pixel, width, s->channels, sizeof(float));
    } else if (m->steps[2] == 1) {
      eti_transpose(pixels, pixel, row, m->c_step * es, s->channels, width, sizeof(float));
    } else {
      for (size_t x = 0; x < width; x++) {
        char *const here = row + (ptrdiff_t)x * m->steps[2] * es, *const there =
                                                                      pixels + x * s->channels *
                                                                                   sizeof(float);
        for (size_t c = 0; c < s->channels; c++) {
          char *const a = here + (ptrdiff_t)c * m->c_step * es, *const b =
                                                                    there + c * sizeof(float);
          memcpy(s->is_result ? a : b, s->is_result ? b : a, sizeof(float));
        }
      }
    }
  }
}

// True if the channels of each pixel are adjacent.
static bool is_channels_last(const eti_image *m, size_t channels) {
  return m->c_step == 1 || channels == 1;
}

static size_t staged_bytes(const eti_image *m, size_t channels) {
  if (is_channels_last(m, channels)) return 0;
  return eti_round_up((size_t)m->sizes[1] * (size_t)m->sizes[2] * channels * sizeof(float), ALIGN);
}

// Makes an image describe a channels-last copy.
static void use_copy(eti_image *m, size_t channels, char *memory) {
  m->data = memory;
  m->c_step = 1;
  m->steps[2] = (ptrdiff_t)channels;
  m->steps[1] = (ptrdiff_t)m->sizes[2] * (ptrdiff_t)channels;
}

// Runs images one by one, copied before and after.
static void run_copied(const et_pool *pool, const winograd *all, char *memory, size_t bytes) {
  const size_t c_in = all->conv.c_in, c_out = all->conv.c_out;
  const size_t x_bytes = staged_bytes(&all->conv.x, c_in),
               out_bytes = staged_bytes(&all->conv.out, c_out);
  char *const rest = memory + x_bytes + out_bytes;
  for (size_t n = 0; n < all->conv.n_images; n++) {
    winograd one = *all;
    eti_image *const x = &one.conv.x, *const out = &one.conv.out;
    x->data += (ptrdiff_t)(n * sizeof(float)) * x->n_step;
    out->data += (ptrdiff_t)(n * sizeof(float)) * out->n_step;
    const eti_image given = *x, wanted = *out;
    if (x_bytes > 0) {
      staging s = {.image = &given, .channels = c_in, .pixels = (float *)(void *)memory};
      et_parallel_for(pool, copy_rows, &s, (size_t)x->sizes[1], GRAIN);
      use_copy(x, c_in, memory);
    }
    if (out_bytes > 0) use_copy(out, c_out, memory + x_bytes);
    cut_tiles(&one, 1);
    run_tiles(pool, &one, rest, bytes - x_bytes - out_bytes);
    if (out_bytes > 0) {
      staging s = {.image = &wanted,
                   .channels = c_out,
                   .pixels = (float *)(void *)(memory + x_bytes),
                   .is_result = true};
      et_parallel_for(pool, copy_rows, &s, (size_t)out->sizes[1], GRAIN);
    }
  }
}

// ---- run and prepare

static bool is_copied(const winograd *w) {
  const eti_conv *const c = &w->conv;
  return !is_channels_last(&c->x, c->c_in) || !is_channels_last(&c->out, c->c_out);
}

static size_t zeros_bytes(const winograd *w) {
  return eti_round_up(w->conv.c_in * sizeof(float), ALIGN);
}

// Bytes before the memory of the tiles: zeros, weights that are transformed in each run, copies.
static size_t head_bytes(const winograd *w, bool keeps_panels) {
  const eti_conv *const c = &w->conv;
  return zeros_bytes(w) + (keeps_panels ? 0 : panels_bytes(w)) +
         (is_copied(w) ? staged_bytes(&c->x, c->c_in) + staged_bytes(&c->out, c->c_out) : 0);
}

// Scratch memory of runs with images of these sizes and, if is_dynamic, smaller ones.
static size_t scratch_bytes_of(winograd *w, bool keeps_panels, bool is_dynamic, size_t n_threads) {
  cut_tiles(w, is_copied(w) ? 1 : w->conv.n_images);
  if (is_dynamic && w->n_blocks > 1) w->block *= 2;  // fewer tiles may lie in one longer block
  const size_t alone = slot_bytes(w, is_dynamic, 1) * n_threads,
               together = slot_bytes(w, is_dynamic, n_threads);
  const bool by_blocks = is_dynamic || w->n_blocks >= n_threads;
  return head_bytes(w, keeps_panels) + (by_blocks ? eti_at_least(alone, together) : together);
}

static void run_winograd(const et_kernel_ctx *ctx, winograd *w) {
  winograd_state *const state = ctx->state;
  char *memory = ctx->scratch;
  w->zeros = memset(memory, 0, zeros_bytes(w));
  memory += zeros_bytes(w);
  w->panels = state->panels;
  if (w->panels == NULL) {
    w->panels = (float *)(void *)memory;
    memory += panels_bytes(w);
  }
  if (!state->is_packed) et_parallel_for(ctx->pool, pack_lanes, w, w->conv.c_in, GRAIN);
  state->is_packed = state->panels != NULL;
  const size_t bytes = ctx->scratch_bytes - (size_t)(memory - (char *)ctx->scratch);
  if (is_copied(w)) {
    run_copied(ctx->pool, w, memory, bytes);
  } else {
    run_tiles(ctx->pool, w, memory, bytes);
  }
}

et_status op_winograd_convolution_out(et_kernel_ctx *ctx, et_value *const *args) {
  const winograd_state *const state = ctx->state;
  winograd w = {.conv = {.range = ETI_CLAMP_NONE}};
  eti_epilogue_call epilogue;
  ET_TRY(read_winograd(ctx, args, &w));
  const et_tensor *const out = args[PLAIN_ARGS + 1 + ETI_EPILOGUE_ARGS]->as.tensor;
  ET_CHECK(state != NULL, ctx->err, ET_INVALID_STATE,
           "winograd_convolution: expected a prepared call, got none");
  if (state->epilogue != NULL)
    ET_TRY(eti_epilogue_bind(ctx, args, PLAIN_ARGS + 1, state->epilogue, out, &epilogue));
  if (out->numel == 0) return ET_OK;
  cut_tiles(&w, is_copied(&w) ? 1 : w.conv.n_images);
  const size_t needed = head_bytes(&w, state->panels != NULL) + tiles_bytes(&w);
  ET_CHECK(ctx->scratch_bytes >= needed, ctx->err, ET_OUT_OF_RESOURCES,
           "winograd_convolution: expected %zu bytes of scratch, got %zu; prepare requests them",
           needed, ctx->scratch_bytes);
  const bool is_range = state->epilogue != NULL && state->epilogue->is_range;
  const bool has_steps = state->epilogue != NULL && !is_range;
  if (is_range) w.conv.range = state->epilogue->range;
  if (has_steps && !is_copied(&w)) w.epilogue = &epilogue;
  w.result = out->data;
  run_winograd(ctx, &w);
  if (has_steps && is_copied(&w)) eti_epilogue_all(ctx->pool, &epilogue, out, out);
  return ET_OK;
}

// An empty text is no epilogue.
static et_status prepare_epilogue(et_prepare_ctx *ctx, et_value *const *args,
                                  winograd_state *ready) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  const char *text = NULL;
  ET_TRY(eti_arg_string(&k, args, PLAIN_ARGS + 1, &text));
  if (text != NULL && text[0] == '\0') return ET_OK;
  return eti_epilogue_prepare(ctx, args, PLAIN_ARGS + 1, &ready->epilogue);
}

et_status prepare_winograd_convolution_out(et_prepare_ctx *ctx, et_value *const *args) {
  et_kernel_ctx k = eti_prepare_args(ctx);
  winograd w = {.conv = {.range = ETI_CLAMP_NONE}};
  winograd_state ready = {.epilogue = NULL};
  ET_TRY(prepare_epilogue(ctx, args, &ready));
  if (ctx->is_minimal) k.err = NULL;
  const et_status status = read_winograd(&k, args, &w);
  if (status != ET_OK && !ctx->is_minimal) return status;
  const bool keeps_panels = status == ET_OK && !ctx->is_minimal && w.conv.w != NULL;
  if (status == ET_OK) {
    const et_tensor *const out = args[PLAIN_ARGS + 1 + ETI_EPILOGUE_ARGS]->as.tensor;
    const bool is_dynamic = (out->flags & ET_TENSOR_DYNAMIC) != 0;
    const size_t bytes = scratch_bytes_of(&w, keeps_panels, is_dynamic, ctx->n_threads);
    if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  }
  if (keeps_panels && panels_bytes(&w) > 0)
    ready.panels = et_prepare_alloc(ctx, panels_bytes(&w), ALIGN);
  winograd_state *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(winograd_state));
  if (state == NULL) return et_prepare_status(ctx);
  *state = ready;
  ctx->state = state;
  return ET_OK;
}
