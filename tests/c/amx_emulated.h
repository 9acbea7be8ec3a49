// amx_emulated.h — kernels/micro/amx_tiles.h in C, for tests on processors with AVX-512 and without
// AMX: included before each *_amx.c (csrc/cmake/amx_emulated.cmake), it takes that header's place.
// It aborts if the processor would raise an exception: sizes of tiles that do not fit each other,
// tiles in use before amx_begin. Names and contracts are those of amx_tiles.h; formulas are those
// of Intel's Architecture Instruction Set Extensions Programming Reference, chapter 3.
#ifndef ET_MICRO_AMX_TILES_H
#define ET_MICRO_AMX_TILES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMX_ROWS = 16, AMX_BYTES = 64, AMX_TILES = 8 };

typedef struct amx_config {
  uint8_t palette, first_row, unused[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} amx_config;

typedef struct amx_tile {
  size_t rows, bytes;
  uint8_t at[AMX_ROWS][AMX_BYTES];
} amx_tile;

static _Thread_local amx_tile amx_tiles[AMX_TILES];

static inline void amx_need(bool is_met, const char *what) {
  if (is_met) return;
  fprintf(stderr, "emulated AMX: %s\n", what);
  abort();
}

static inline void amx_set(amx_config *c, size_t tile, size_t rows, size_t bytes) {
  c->rows[tile] = (uint8_t)rows;
  c->bytes[tile] = (uint16_t)bytes;
}

static inline void amx_end(void) {
  memset(amx_tiles, 0, sizeof amx_tiles);
}

static inline void amx_begin(const amx_config *c) {
  amx_need(c->palette == 1 && c->first_row == 0, "expected palette 1 and first row 0");
  amx_end();
  for (size_t i = 0; i < AMX_TILES; i++) {
    amx_need(c->rows[i] <= AMX_ROWS && c->bytes[i] <= AMX_BYTES, "expected 16 rows of 64 bytes");
    amx_need((c->rows[i] == 0) == (c->bytes[i] == 0), "expected rows and bytes, or neither");
    amx_tiles[i].rows = c->rows[i];
    amx_tiles[i].bytes = c->bytes[i];
  }
}

static inline amx_tile *amx_used(size_t i) {
  amx_need(amx_tiles[i].rows > 0, "expected a tile that amx_begin gave a size");
  return &amx_tiles[i];
}

static inline void amx_zero(size_t i) {
  memset(amx_used(i)->at, 0, sizeof amx_tiles[i].at);
}

// Bytes and rows beyond a tile's size become zeros.
static inline void amx_load(size_t i, const void *from, size_t step) {
  amx_zero(i);
  for (size_t r = 0; r < amx_tiles[i].rows; r++)
    memcpy(amx_tiles[i].at[r], (const char *)from + r * step, amx_tiles[i].bytes);
}

static inline void amx_store(void *to, size_t step, size_t i) {
  const amx_tile *const t = amx_used(i);
  for (size_t r = 0; r < t->rows; r++) memcpy((char *)to + r * step, t->at[r], t->bytes);
}

static inline void amx_check(const amx_tile *sum, const amx_tile *a, const amx_tile *b) {
  amx_need(sum != a && sum != b && a != b, "expected three tiles");
  amx_need(sum->rows == a->rows && sum->bytes == b->bytes, "sums do not fit rows and columns");
  amx_need(a->bytes == 4 * b->rows && b->bytes % 4 == 0, "rows and columns differ in length");
}

// A byte of a row, unsigned or signed.
static inline int32_t amx_byte(uint8_t byte, bool is_unsigned) {
  return is_unsigned ? (int32_t)byte : (int32_t)(int8_t)byte;
}

static inline void amx_dot_i8(size_t s, size_t rows, size_t columns, bool is_unsigned) {
  amx_tile *const sum = amx_used(s);
  const amx_tile *const a = amx_used(rows), *const b = amx_used(columns);
  amx_check(sum, a, b);
  for (size_t r = 0; r < sum->rows; r++) {
    uint32_t sums[AMX_BYTES / 4];
    memcpy(sums, sum->at[r], AMX_BYTES);
    for (size_t k = 0; k < a->bytes; k++)
      for (size_t c = 0; c < b->bytes / 4; c++)
        sums[c] += (uint32_t)(amx_byte(a->at[r][k], is_unsigned) *
                              amx_byte(b->at[k / 4][4 * c + k % 4], false));
    memcpy(sum->at[r], sums, AMX_BYTES);
  }
}

static inline float amx_no_denormal(float f) {
  return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

static inline float amx_bf16(const uint8_t *at) {
  const uint32_t bits = (uint32_t)at[1] << 24 | (uint32_t)at[0] << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return amx_no_denormal(f);
}

static inline void amx_dot_bf16(size_t s, size_t rows, size_t columns) {
  amx_tile *const sum = amx_used(s);
  const amx_tile *const a = amx_used(rows), *const b = amx_used(columns);
  amx_check(sum, a, b);
  for (size_t r = 0; r < sum->rows; r++) {
    for (size_t c = 0; c < b->bytes / 4; c++) {
      float even = 0.0f, odd = 0.0f, total;
      for (size_t k = 0; k < b->rows; k++) {
        const uint8_t *const x = &a->at[r][4 * k], *const y = &b->at[k][4 * c];
        even = amx_no_denormal(fmaf(amx_bf16(x), amx_bf16(y), even));
        odd = amx_no_denormal(fmaf(amx_bf16(x + 2), amx_bf16(y + 2), odd));
      }
      memcpy(&total, &sum->at[r][4 * c], sizeof total);
      total = amx_no_denormal(amx_no_denormal(total) + amx_no_denormal(even + odd));
      memcpy(&sum->at[r][4 * c], &total, sizeof total);
    }
  }
}

#define AMX_ZERO(tile) amx_zero(tile)
#define AMX_LOAD(tile, from, step) amx_load(tile, from, step)
#define AMX_LOAD_PASSING(tile, from, step) amx_load(tile, from, step)
#define AMX_STORE(to, step, tile) amx_store(to, step, tile)
#define AMX_DOT_U8_I8(sum, rows, columns) amx_dot_i8(sum, rows, columns, true)
#define AMX_DOT_I8_I8(sum, rows, columns) amx_dot_i8(sum, rows, columns, false)
#define AMX_DOT_BF16(sum, rows, columns) amx_dot_bf16(sum, rows, columns)

#endif  // ET_MICRO_AMX_TILES_H
