// conv_stem_qs8_amx.c — the kernels of conv_stem.h on tiles of AMX. Windows are copied from a
// padded image to the rows of a matrix, which gemm_q8_amx.c multiplies. Compiled with AVX-512.
#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#include "backends/xnnpack/tuned/conv_stem/conv_stem.h"
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/xnn_private.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

// Columns of a panel of weights, and bytes of four of their elements.
enum { COLS = ETI_XNN_GEMM_COLS, QUAD = 4, QUAD_BYTES = QUAD * COLS };

// Copied windows: their memory, the greatest number of them, and the least that every convolution
// has room for. Copies may read and write COPY bytes past their end.
enum { WINDOW_BYTES = 32 << 10, MOST_WINDOWS = 128, LEAST_WINDOWS = 16, COPY = 64 };

static size_t pitch(const eti_xnn_conv_stem *conv) {  // bytes of a row with its padding
  return (conv->padding[3] + conv->width + conv->padding[1]) * conv->n_channels;
}

static size_t padded_bytes(const eti_xnn_conv_stem *conv) {
  return (eti_xnn_qs8_conv_stem_rows(conv) * pitch(conv) + 2 * COPY - 1) / COPY * COPY;
}

// Bytes of a row of the window, and of a window.
static size_t row_bytes(const eti_xnn_conv_stem *conv) {
  return (conv->kernel[1] * conv->n_channels + QUAD - 1) / QUAD * QUAD;
}

static size_t window_bytes(const eti_xnn_conv_stem *conv) {
  return conv->kernel[0] * row_bytes(conv);
}

static bool fits(const eti_xnn_conv_stem *conv) {
  return conv->kernel[1] <= WINDOW_BYTES && conv->kernel[0] <= WINDOW_BYTES &&
         window_bytes(conv) <= WINDOW_BYTES / LEAST_WINDOWS;
}

// ---- Weights: panels of gemm_q8_amx.c

static size_t panel_bytes(const eti_xnn_conv_stem *conv) {
  return (window_bytes(conv) / QUAD + 2) * QUAD_BYTES;
}

static size_t weight_bytes(const eti_xnn_conv_stem *conv) {
  return (conv->n_filters + COLS - 1) / COLS * panel_bytes(conv);
}

static void pack(const eti_xnn_conv_stem *conv, const int8_t *weights, const int32_t *biases,
                 const float *scales, void *packed) {
  const struct xnn_qs8_packing_params params = {.input_zero_point = (int8_t)conv->zero_point};
  memset(packed, 0, weight_bytes(conv));
  eti_xnn_q8_pack_goki__avx2(1, conv->n_filters, conv->kernel[0],
                             conv->kernel[1] * conv->n_channels, COLS, QUAD, 1, weights, biases,
                             NULL, packed, COLS * sizeof *scales, &params);
  for (size_t f = 0; f < conv->n_filters; f++) {
    uint8_t *const end = (uint8_t *)packed + (f / COLS + 1) * panel_bytes(conv);
    memcpy(end - QUAD_BYTES + f % COLS * sizeof *scales, &scales[f], sizeof *scales);
  }
}

// ---- Images

static void pad(const eti_xnn_conv_stem *conv, size_t first, size_t count) {
  ET_ASSERT(count > 0 && conv->width > 0 && conv->height > 0 && conv->n_channels > 0);
  ET_ASSERT(conv->x != NULL && conv->wide != NULL);
  const size_t rows = eti_xnn_qs8_conv_stem_rows(conv), bytes = pitch(conv);
  const size_t left = conv->padding[3] * conv->n_channels, n = conv->width * conv->n_channels;
  for (size_t i = first; i < first + count; i++) {
    const size_t image = i / rows, row = i % rows;
    int8_t *const to = (int8_t *)conv->wide + image * padded_bytes(conv) + row * bytes;
    if (row < conv->padding[0] || row - conv->padding[0] >= conv->height) {
      memset(to, conv->zero_point, bytes);
      continue;
    }
    memset(to, conv->zero_point, left);
    memcpy(to + left, conv->x + (image * conv->height + row - conv->padding[0]) * n, n);
    memset(to + left + n, conv->zero_point, bytes - left - n);
  }
}

// Copies n bytes and up to COPY more.
INLINE void copy(int8_t *to, const int8_t *from, size_t n) {
  if (n <= 16) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
  } else if (n <= 32) {
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm256_loadu_si256((const __m256i *)(const void *)from));
  } else {
    for (size_t i = 0; i < n; i += COPY)
      _mm512_storeu_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
  }
}

// Copies the windows of n results from number `first` on, row by row. A row of the window ends with
// elements beyond it, which have no weights.
static void copy_windows(const eti_xnn_conv_stem *conv, size_t first, size_t n, int8_t *to) {
  const size_t each = row_bytes(conv), down = conv->dilation * pitch(conv);
  const size_t y = first / conv->y_width, right = conv->stride[1] * conv->n_channels;
  size_t image = y / conv->y_height, row = y % conv->y_height, column = first % conv->y_width;
  for (size_t i = 0; i < n; column = 0) {
    const int8_t *from = (const int8_t *)conv->wide + image * padded_bytes(conv) +
                         row * conv->stride[0] * pitch(conv) + column * right;
    for (; column < conv->y_width && i < n; column++, i++, from += right) {
      for (size_t r = 0; r < conv->kernel[0]; r++, to += each) copy(to, from + r * down, each);
    }
    if (++row < conv->y_height) continue;
    row = 0;
    image++;
  }
}

static void convolve(const eti_xnn_conv_stem *conv, size_t first, size_t count) {
  ET_ASSERT(count > 0 && conv->y_width > 0 && conv->n_filters > 0 && conv->n_channels > 0);
  ET_ASSERT(conv->wide != NULL && conv->y != NULL && conv->weights != NULL && fits(conv));
  alignas(COPY) int8_t windows[WINDOW_BYTES + COPY];
  const size_t bytes = window_bytes(conv), room = WINDOW_BYTES / bytes;
  const size_t most = room < MOST_WINDOWS ? room : MOST_WINDOWS;
  const size_t end = (first + count) * conv->y_width;
  for (size_t i = first * conv->y_width, n; i < end; i += n) {
    n = end - i < most ? end - i : most;
    copy_windows(conv, i, n, windows);
    eti_xnn_qs8_gemm_16x16__amx(n, conv->n_filters, bytes, windows, bytes, conv->weights,
                                conv->y + i * conv->n_filters, conv->n_filters, COLS,
                                &conv->limits);
  }
}

const eti_xnn_conv_stem_kernels eti_xnn_qs8_conv_stem__amx = {
    .results_of_a_tile = MOST_WINDOWS,
    .fits = fits,
    .padded_bytes = padded_bytes,
    .weight_bytes = weight_bytes,
    .pack = pack,
    .pad = pad,
    .convolve = convolve,
};
