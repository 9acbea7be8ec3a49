// amx_tiles.h — instructions of AMX: eight tiles of up to 16 rows of 64 bytes each.
// Intrinsics of gcc 12 do not tell the compiler which memory they read, so the asm is here. Needs
// AMX-TILE, and AMX-INT8 or AMX-BF16 for products.
#ifndef ET_MICRO_AMX_TILES_H
#define ET_MICRO_AMX_TILES_H

#include <stddef.h>
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_BYTES = 64 };  // of a tile, at most

// Sizes of all tiles, as LDTILECFG reads them.
typedef struct amx_config {
  uint8_t palette, first_row, unused[14];
  uint16_t bytes[16];  // of a row
  uint8_t rows[16];
} amx_config;

// Sets the sizes of a tile.
static inline void amx_set(amx_config *c, size_t tile, size_t rows, size_t bytes) {
  c->rows[tile] = (uint8_t)rows;
  c->bytes[tile] = (uint16_t)bytes;
}

// Gives the tiles their sizes, and zeros. amx_end must follow: tiles in use make the system save
// them when threads take turns.
static inline void amx_begin(const amx_config *c) {
  __asm__ volatile("ldtilecfg %0" : : "m"(*c));
}

static inline void amx_end(void) {
  __asm__ volatile("tilerelease");
}

#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)

// Rows in memory are `step` bytes apart.
#define AMX_LOAD(tile, from, step) AMX_MOVE("tileloadd (%0,%1,1), %%tmm" #tile, from, step)
// As AMX_LOAD, for memory that is not read again soon: it does not displace what is in the
// first-level cache.
#define AMX_LOAD_PASSING(tile, from, step) \
  AMX_MOVE("tileloaddt1 (%0,%1,1), %%tmm" #tile, from, step)
#define AMX_STORE(to, step, tile) AMX_MOVE("tilestored %%tmm" #tile ", (%0,%1,1)", to, step)
#define AMX_MOVE(text, at, step) __asm__ volatile(text : : "r"(at), "r"((size_t)(step)) : "memory")

// sum[r][c] += Σ rows[r][4 i + j] · columns[i][4 c + j], which wraps. Bytes of rows and of columns
// are unsigned (U8) or signed (I8).
#define AMX_DOT_U8_I8(sum, rows, columns) AMX_DOT("tdpbusd", sum, rows, columns)
#define AMX_DOT_I8_I8(sum, rows, columns) AMX_DOT("tdpbssd", sum, rows, columns)

// Products of bf16: two chains of fused multiply-adds, of the even and of the odd terms, begin at
// 0; their sum is added to sum[r][c]. Denormals that are read or would be returned are zeros.
#define AMX_DOT_BF16(sum, rows, columns) AMX_DOT("tdpbf16ps", sum, rows, columns)

#define AMX_DOT(name, sum, rows, columns) \
  __asm__ volatile(name " %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum : :)

#endif  // ET_MICRO_AMX_TILES_H
