// qgemm_amx.c — the products of qgemm.h with TDPBUSD on tiles of AMX, for rows in U8. Few rows,
// depthwise taps and copies are those of AVX-512 VNNI. Needs AMX-TILE, AMX-INT8, AVX-512 F, BW, VL.
#define OFFSET 128
#define AMX_PRODUCT(sum, rows, columns) AMX_DOT_U8_I8(sum, rows, columns)
#include "kernels/micro/qgemm/qgemm_amx.body.h"

enum { LEAST_ROWS = 5 };  // that are worth a tile

static void tile_i8(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false));
  if (given->m < LEAST_ROWS || given->quads == 0) {
    eti_qgemm_avx512vnni.tile_i8(given);
    return;
  }
  const eti_qtile t = *given;
  all_rows(&t, false);
}

static void tile_f32(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true));
  if (given->m < LEAST_ROWS || given->quads == 0) {
    eti_qgemm_avx512vnni.tile_f32(given);
    return;
  }
  const eti_qtile t = *given;
  all_rows(&t, true);
}

// ---- as AVX-512 VNNI does it

static void depthwise(const eti_qdepthwise *d) {
  eti_qgemm_avx512vnni.depthwise(d);
}

static size_t arranged_bytes(size_t channels, size_t n_taps) {
  return eti_qgemm_avx512vnni.arranged_bytes(channels, n_taps);
}

static void arrange_channels(const eti_qdepthwise *d, void *to) {
  eti_qgemm_avx512vnni.arrange_channels(d, to);
}

static void copy(void *dst, const int8_t *src, size_t n) {
  eti_qgemm_avx512vnni.copy(dst, src, n);
}

static void copy_windows(const eti_qwindows *w) {
  eti_qgemm_avx512vnni.copy_windows(w);
}

const eti_qgemm_micro eti_qgemm_amx = {
    .form = ETI_QROWS_U8,
    .of_i8 = &eti_qgemm_signed_amx,
    .rows_of_a_tile = BLOCK_ROWS,
    .rows_of_a_block = 7 * BLOCK_ROWS,
    .tile_i8 = tile_i8,
    .tile_f32 = tile_f32,
    .depthwise = depthwise,
    .arranged_bytes = arranged_bytes,
    .arrange_channels = arrange_channels,
    .copy = copy,
    .copy_windows = copy_windows,
};
