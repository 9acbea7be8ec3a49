// kv_cache.c — see kv_cache.h. Also the operators of the llama:: library that only update caches.
#include "kernels/op/attention/kv_cache.h"

#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"

et_status eti_cache_check_position(const et_kernel_ctx *ctx, const char *op, int64_t start,
                                   int64_t count, int64_t size) {
  ET_CHECK(
      start >= 0 && start <= size && count <= size - start, ctx->err, ET_INVALID_ARGUMENT,
      "%s: expected new positions within the cache's %lld, got start_pos %lld and %lld positions",
      op, (long long)size, (long long)start, (long long)count);
  return ET_OK;
}

et_status eti_cache_check(const et_kernel_ctx *ctx, const char *op, const et_tensor *value,
                          const et_tensor *cache) {
  ET_CHECK(
      value->rank == 4 && cache->rank == 4, ctx->err, ET_INVALID_ARGUMENT,
      "%s: expected value and cache of rank 4, [batch, position, head, dim], got ranks %d and %d",
      op, (int)value->rank, (int)cache->rank);
  ET_TRY(eti_check_same_dtype(ctx, value, cache, "value and cache"));
  for (size_t d = 0; d < 4; d++) {
    ET_CHECK(d == 1 || value->sizes[d] == cache->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "%s: value: dimension %zu: expected size %d, as the cache, got %d", op, d,
             (int)cache->sizes[d], (int)value->sizes[d]);
  }
  return ET_OK;
}

void eti_cache_write(const et_kernel_ctx *ctx, const et_tensor *value, const et_tensor *cache,
                     int64_t start) {
  if (value->numel == 0) return;
  const eti_window from = eti_window_of(value);
  eti_window to = eti_window_of(cache);
  const eti_slice slice = {.start = start, .length = value->sizes[1], .step = 1};
  eti_window_slice(&to, 1, &slice);
  eti_copy_windows(ctx->pool, cache->data, &to, value->data, &from,
                   et_dtype_bytes((et_dtype)cache->dtype));
}

// Updates a cache. The result is a dummy that orders instructions; its elements are not written.
et_status op_llama_update_cache_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *value, *cache, *out;
  int64_t start;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &value));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &cache));
  ET_TRY(eti_arg_int(ctx, args, 2, &start));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_cache_check(ctx, "update_cache", value, cache));
  ET_TRY(eti_cache_check_position(ctx, "update_cache", start, value->sizes[1], cache->sizes[1]));
  eti_cache_write(ctx, value, cache, start);
  return ET_OK;
}

static et_status check_indices(const et_kernel_ctx *ctx, const et_tensor *indices,
                               const et_tensor *value, int64_t size) {
  ET_CHECK(indices->dtype == ET_I64 && indices->rank == 2 && indices->sizes[0] == value->sizes[0] &&
               indices->sizes[1] == value->sizes[1],
           ctx->err, ET_INVALID_ARGUMENT,
           "update_cache_with_indices: indices: expected i64[%d, %d], got %s of rank %d",
           (int)value->sizes[0], (int)value->sizes[1], et_dtype_name((et_dtype)indices->dtype),
           (int)indices->rank);
  const int64_t *const data = indices->data;
  for (size_t i = 0; i < indices->numel; i++) {
    ET_CHECK(data[i] >= 0 && data[i] < size, ctx->err, ET_INVALID_ARGUMENT,
             "update_cache_with_indices: index %lld is outside of the cache's %lld positions",
             (long long)data[i], (long long)size);
  }
  return ET_OK;
}

// cache[b, indices[b, i]] = value[b, i], i ascending. start_pos is redundant and not read.
et_status op_llama_update_cache_with_indices_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *value, *cache, *indices, *out;
  int64_t start;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &value));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &cache));
  ET_TRY(eti_arg_int(ctx, args, 2, &start));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &indices));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(eti_cache_check(ctx, "update_cache_with_indices", value, cache));
  ET_TRY(check_indices(ctx, indices, value, cache->sizes[1]));
  if (value->numel == 0) return ET_OK;
  for (int32_t b = 0; b < value->sizes[0]; b++) {
    for (int32_t i = 0; i < value->sizes[1]; i++) {
      const int64_t at =
          ((const int64_t *)indices->data)[b * indices->strides[0] + i * indices->strides[1]];
      // A damaged file may let the cache and the indices share memory: checked indices may have
      // changed.
      ET_CHECK(at >= 0 && at < cache->sizes[1], ctx->err, ET_INVALID_ARGUMENT,
               "update_cache_with_indices: index %lld is outside of the cache", (long long)at);
      eti_window to = eti_window_of(cache), from = eti_window_of(value);
      to.offset = (ptrdiff_t)b * to.strides[0] + (ptrdiff_t)at * to.strides[1];
      from.offset = (ptrdiff_t)b * from.strides[0] + (ptrdiff_t)i * from.strides[1];
      for (size_t d = 0; d < 2; d++) to.shape.sizes[d] = from.shape.sizes[d] = 1;
      eti_copy_windows(NULL, cache->data, &to, value->data, &from,
                       et_dtype_bytes((et_dtype)cache->dtype));
    }
  }
  return ET_OK;
}
