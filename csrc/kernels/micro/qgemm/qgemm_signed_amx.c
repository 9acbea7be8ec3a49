// qgemm_signed_amx.c — the products of qgemm.h with TDPBSSD on tiles of AMX, for two rows or more
// of i8 as they are. Needs AMX-TILE, AMX-INT8, AVX-512 F, BW, VL.
#define OFFSET 0
#define AMX_PRODUCT(sum, rows, columns) AMX_DOT_I8_I8(sum, rows, columns)
#include "kernels/micro/qgemm/qgemm_amx.body.h"

static void tile_i8(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false) && given->quads > 0 && given->m > 1);
  const eti_qtile t = *given;
  all_rows(&t, false);
}

static void tile_f32(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true) && given->quads > 0 && given->m > 1);
  const eti_qtile t = *given;
  all_rows(&t, true);
}

const eti_qgemm_micro eti_qgemm_signed_amx = {
    .form = ETI_QROWS_I8,
    .rows_of_a_tile = BLOCK_ROWS,
    .rows_of_a_block = 7 * BLOCK_ROWS,
    .tile_i8 = tile_i8,
    .tile_f32 = tile_f32,
};
