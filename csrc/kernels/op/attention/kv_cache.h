// kv_cache.h — key/value caches: tensors [batch, position, head, dim] in any layout, into which the
// keys or values of new positions are written. Checking and writing are separate, so that an
// operator with two caches writes neither if one does not fit. `op` is the operator's name in
// messages.
#ifndef ET_OP_KV_CACHE_H
#define ET_OP_KV_CACHE_H

#include "kernels/kernel.h"

// Checks that `count` positions from `start` on are inside a cache of `size`.
et_status eti_cache_check_position(const et_kernel_ctx *ctx, const char *op, int64_t start,
                                   int64_t count, int64_t size);

// Checks that cache and new values agree in everything but the number of positions.
et_status eti_cache_check(const et_kernel_ctx *ctx, const char *op, const et_tensor *value,
                          const et_tensor *cache);

// Writes cache[:, start : start + n] = value, after both checks.
void eti_cache_write(const et_kernel_ctx *ctx, const et_tensor *value, const et_tensor *cache,
                     int64_t start);

#endif  // ET_OP_KV_CACHE_H
