// conv_stem_qs8_avx2.c — the kernels of conv_stem.h on 256-bit vectors. Compiled with AVX2.
#include "backends/xnnpack/tuned/conv_stem/conv_stem.h"

#include "backends/xnnpack/tuned/requantize_avx2.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define INLINE ETI_VECTOR_INLINE
#define UNROLL ETI_UNROLL

// Results computed at once; elements widened at once; elements read past the end of a row.
enum { PIXELS = 4, WIDEN = 16, SLACK = 2 };

static size_t pitch(const eti_xnn_conv_stem *conv) {  // elements of a row with its padding
  return (conv->padding[3] + conv->width + conv->padding[1]) * conv->n_channels;
}

// Rounded so that images can follow each other.
static size_t padded_bytes(const eti_xnn_conv_stem *conv) {
  const size_t n = eti_xnn_qs8_conv_stem_rows(conv) * pitch(conv) + SLACK;
  return (n + WIDEN - 1) / WIDEN * WIDEN * sizeof(int16_t);
}

// ---- Packed weights: for each 16 filters their biases, pairs of neighbours in each row of the
// window, and their scales

static size_t pairs_of_row(const eti_xnn_conv_stem *conv) {
  return (conv->kernel[1] * conv->n_channels + 1) / 2;
}

static size_t block_bytes(const eti_xnn_conv_stem *conv) {
  return conv->kernel[0] * pairs_of_row(conv) * ETI_PAIRS_BYTES + 2 * ETI_CHANNELS_BYTES;
}

static size_t weight_bytes(const eti_xnn_conv_stem *conv) {
  return (conv->n_filters + ETI_CHANNELS - 1) / ETI_CHANNELS * block_bytes(conv);
}

// Filter number `lane` of a block.
static void pack_filter(const eti_xnn_conv_stem *conv, const int8_t *weights, size_t lane,
                        int16_t *to) {
  const size_t n = conv->kernel[1] * conv->n_channels, n_pairs = pairs_of_row(conv);
  for (size_t r = 0; r < conv->kernel[0]; r++) {
    for (size_t i = 0; i < 2 * n_pairs; i++) {
      const size_t pair = r * n_pairs + i / 2;
      to[(pair * ETI_CHANNELS + lane) * 2 + i % 2] = i < n ? weights[r * n + i] : 0;
    }
  }
}

static void pack(const eti_xnn_conv_stem *conv, const int8_t *weights, const int32_t *biases,
                 const float *scales, void *packed) {
  ET_ASSERT(conv->n_channels > 0 && conv->n_channels <= ETI_XNN_STEM_CHANNELS);
  ET_ASSERT(conv->n_filters > 0 && weights != NULL && scales != NULL && packed != NULL);
  const size_t filter_bytes = conv->kernel[0] * conv->kernel[1] * conv->n_channels;
  const size_t bytes = block_bytes(conv);
  memset(packed, 0, weight_bytes(conv));
  for (size_t f = 0; f < conv->n_filters; f++) {
    uint8_t *const block = (uint8_t *)packed + f / ETI_CHANNELS * bytes;
    const size_t lane = eti_lane_of(f % ETI_CHANNELS);
    if (biases != NULL) memcpy(block + lane * sizeof *biases, &biases[f], sizeof *biases);
    pack_filter(conv, weights + f * filter_bytes, lane,
                (int16_t *)(void *)(block + ETI_CHANNELS_BYTES));
    memcpy(block + bytes - ETI_CHANNELS_BYTES + lane * sizeof *scales, &scales[f], sizeof *scales);
  }
}

// ---- Images

INLINE void widen_row(const int8_t *from, size_t n, int16_t zero_point, int16_t *to) {
  const __m256i zero = _mm256_set1_epi16(zero_point);
  size_t i = 0;
  for (; i + WIDEN <= n; i += WIDEN) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i),
                        _mm256_sub_epi16(_mm256_cvtepi8_epi16(x), zero));
  }
  for (; i < n; i++) to[i] = (int16_t)(from[i] - zero_point);
}

static void widen(const eti_xnn_conv_stem *conv, size_t first, size_t count) {
  ET_ASSERT(count > 0 && conv->width > 0 && conv->height > 0 && conv->n_channels > 0);
  ET_ASSERT(conv->x != NULL && conv->wide != NULL);
  const size_t rows = eti_xnn_qs8_conv_stem_rows(conv), n_wide = pitch(conv);
  const size_t left = conv->padding[3] * conv->n_channels, n = conv->width * conv->n_channels;
  for (size_t i = first; i < first + count; i++) {
    const size_t image = i / rows, row = i % rows;
    int16_t *const to =
        (int16_t *)(void *)((uint8_t *)conv->wide + image * padded_bytes(conv)) + row * n_wide;
    const bool is_last = row + 1 == rows;
    if (row < conv->padding[0] || row - conv->padding[0] >= conv->height) {
      memset(to, 0, (n_wide + (is_last ? SLACK : 0)) * sizeof *to);
      continue;
    }
    memset(to, 0, left * sizeof *to);
    widen_row(conv->x + (image * conv->height + row - conv->padding[0]) * n, n, conv->zero_point,
              to + left);
    memset(to + left + n, 0, (n_wide - left - n + (is_last ? SLACK : 0)) * sizeof *to);
  }
}

// ---- Sums

typedef struct window {
  const int16_t *x;    // the first element of the first pixel
  size_t step, pitch;  // elements to the next pixel, to the next row of the window
  size_t n_rows, n_pairs;
} window;

INLINE __m256i broadcast_two(const int16_t *at) {
  int32_t two;
  memcpy(&two, at, sizeof two);
  return _mm256_set1_epi32(two);
}

INLINE void convolve(const window *w, size_t n, const uint8_t *weights, const eti_target *t,
                     size_t first_channel, size_t n_left) {
  eti_sums sums[PIXELS];
  UNROLL for (size_t p = 0; p < n; p++) sums[p] = eti_biases(weights);
  weights += ETI_CHANNELS_BYTES;
  for (size_t r = 0; r < w->n_rows; r++) {
    const int16_t *x = w->x + r * w->pitch;
    for (size_t i = 0; i < w->n_pairs; i++, x += 2, weights += ETI_PAIRS_BYTES) {
      const __m256i w0 = eti_load(weights), w1 = eti_load(weights + ETI_PAIRS_BYTES / 2);
      UNROLL for (size_t p = 0; p < n; p++) {
        const __m256i v = broadcast_two(x + p * w->step);
        eti_add_products(&sums[p], v, v, w0, w1);
      }
    }
  }
  eti_finish(sums, n, weights, t, first_channel, n_left);
}

// One row of results. Its last four may overlap those before them, which are written again.
static void convolve_row(const eti_xnn_conv_stem *conv, window w, eti_target t) {
  const int16_t *const x = w.x;
  int8_t *const y = t.y;
  const uint8_t *weights = conv->weights;
  for (size_t f = 0; f < conv->n_filters; f += ETI_CHANNELS, weights += block_bytes(conv)) {
    const size_t n_left = conv->n_filters - f;
    for (size_t i = 0; i < conv->y_width; i += conv->y_width < PIXELS ? 1 : PIXELS) {
      const bool is_short = conv->y_width < PIXELS;
      const size_t at = is_short || i + PIXELS <= conv->y_width ? i : conv->y_width - PIXELS;
      w.x = x + at * w.step;
      t.y = y + at * t.pixel_bytes;
      if (is_short)
        convolve(&w, 1, weights, &t, f, n_left);
      else
        convolve(&w, PIXELS, weights, &t, f, n_left);
    }
  }
}

static void convolve_rows(const eti_xnn_conv_stem *conv, size_t first, size_t count) {
  ET_ASSERT(count > 0 && conv->y_width > 0 && conv->n_filters > 0 && conv->n_channels > 0);
  ET_ASSERT(conv->wide != NULL && conv->y != NULL && conv->weights != NULL);
  ET_ASSERT(eti_is_aligned(conv->weights, sizeof(__m256i)));
  const size_t n_wide = pitch(conv), image_bytes = padded_bytes(conv);
  for (size_t i = first; i < first + count; i++) {
    const size_t image = i / conv->y_height, row = i % conv->y_height;
    const int16_t *const wide =
        (const int16_t *)(const void *)((const uint8_t *)conv->wide + image * image_bytes);
    const window w = {.x = wide + row * conv->stride[0] * n_wide,
                      .step = conv->stride[1] * conv->n_channels,
                      .pitch = conv->dilation * n_wide,
                      .n_rows = conv->kernel[0],
                      .n_pairs = pairs_of_row(conv)};
    convolve_row(conv, w,
                 eti_target_of(conv->y + i * conv->y_width * conv->n_filters, conv->n_filters,
                               &conv->limits));
  }
}

const eti_xnn_conv_stem_kernels eti_xnn_qs8_conv_stem__avx2 = {
    .padded_bytes = padded_bytes,
    .weight_bytes = weight_bytes,
    .pack = pack,
    .pad = widen,
    .convolve = convolve_rows,
};
