// xnn_named.h — named data for payloads in tests: one block for all keys, whose bytes are normal
// numbers as f16 and as f32, and the number of its views that are held.
#ifndef ET_XNN_NAMED_H
#define ET_XNN_NAMED_H

#include "runtime/et.h"

#include <stdlib.h>
#include <string.h>

enum { X_BLOCK_BYTES = 1 << 20 };

static uint8_t *x_block;
static long x_n_held;

static inline void x_make_block(void) {
  if (x_block != NULL) return;
  x_block = aligned_alloc(64, X_BLOCK_BYTES);
  if (x_block == NULL) abort();
  memset(x_block, 0x3c, X_BLOCK_BYTES);
}

static inline et_status x_get_named(const void *ctx, const char *key, et_blob *out, et_error *err) {
  (void)ctx;
  (void)key;
  (void)err;
  *out = (et_blob){.data = x_block, .size = X_BLOCK_BYTES};
  x_n_held++;
  return ET_OK;
}

static inline void x_release_named(const void *ctx, et_blob *blob) {
  (void)ctx;
  (void)blob;
  x_n_held--;
}

static const et_named_data x_named = {NULL, x_get_named, x_release_named};

#endif  // ET_XNN_NAMED_H
