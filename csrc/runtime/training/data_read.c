// data_read.c — loads tensors from an open data file (.ptd) by their keys.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/file.h"
#include "runtime/message_text.h"
#include "runtime/ptd_schema.h"
#include "runtime/source.h"
#include "runtime/tensor.h"
#include "runtime/training/et_train.h"

// A tensor of the file.
typedef struct stored {
  const char *key;
  const uint8_t *layout;
  uint64_t offset, bytes;
  eti_vector sizes, dim_order;
} stored;

static bool has_key(const char *key, const et_data_entry *entry) {
  const size_t length = strlen(entry->prefix);
  return strlen(key) >= length && memcmp(key, entry->prefix, length) == 0 &&
         strcmp(key + length, entry->name) == 0;
}

static et_status find(const et_data_map *map, const et_data_entry *entry, stored *out,
                      et_error *err) {
  const eti_vector named = eti_fb_vector(map->file.root, PTD_ROOT_NAMED_DATA);
  size_t i = 0;
  while (i < named.n && !has_key(et_data_map_key(map, i), entry)) i++;
  ET_CHECK(i < named.n, err, ET_NOT_FOUND,
           "data file: expected an entry '%s%s', got none among %zu", entry->prefix, entry->name,
           named.n);
  const uint8_t *table = eti_fb_at(named, i);
  out->key = et_data_map_key(map, i);
  out->layout = eti_fb_table(table, PTD_NAMED_LAYOUT);
  ET_CHECK(out->layout != NULL, err, ET_INVALID_EXTERNAL_DATA,
           "data file, '%s': expected a tensor, got bytes without a layout", out->key);
  out->sizes = eti_fb_vector(out->layout, PTD_LAYOUT_SIZES);
  out->dim_order = eti_fb_vector(out->layout, PTD_LAYOUT_DIM_ORDER);
  ET_ASSERT(out->sizes.n == out->dim_order.n);  // opening has proven it
  ET_CHECK(
      eti_segment_find(&map->file, eti_fb_u32(table, PTD_NAMED_SEGMENT), &out->offset, &out->bytes),
      err, ET_INVALID_EXTERNAL_DATA, "data file, '%s': its segment lies outside the file",
      out->key);
  return ET_OK;
}

static et_status check(const et_data_map *map, const et_data_entry *entry, stored *out,
                       et_error *err) {
  const et_tensor *t = &entry->tensor;
  ET_TRY(find(map, entry, out, err));
  const uint8_t dtype = eti_fb_u8(out->layout, PTD_LAYOUT_DTYPE);
  ET_CHECK(dtype == t->dtype, err, ET_INVALID_ARGUMENT,
           "data file, '%s': expected dtype %s, got %s", out->key,
           et_dtype_name((et_dtype)t->dtype), et_dtype_name((et_dtype)dtype));
  ET_CHECK(out->sizes.n == t->rank, err, ET_INVALID_ARGUMENT,
           "data file, '%s': expected %u dimensions, got %zu", out->key, (unsigned)t->rank,
           out->sizes.n);
  for (size_t d = 0; d < t->rank; d++) {
    const int32_t size = eti_i32(out->sizes.data + 4 * d);
    ET_CHECK(size == t->sizes[d], err, ET_INVALID_ARGUMENT,
             "data file, '%s', dimension %zu: expected size %ld, got %ld", out->key, d,
             (long)t->sizes[d], (long)size);
  }
  ET_CHECK(eti_is_permutation(out->dim_order.data, t->rank) &&
               eti_same_order(t->sizes, t->dim_order, out->dim_order.data, t->rank),
           err, ET_INVALID_ARGUMENT,
           "data file, '%s': expected the dim order of the tensor, %s, got %s", out->key,
           eti_dim_order_text(t->dim_order, t->rank).text,
           eti_dim_order_text(out->dim_order.data, t->rank).text);
  ET_CHECK(out->bytes >= et_tensor_bytes(t), err, ET_INVALID_EXTERNAL_DATA,
           "data file, '%s': expected %zu bytes, got %llu", out->key, et_tensor_bytes(t),
           (unsigned long long)out->bytes);
  return ET_OK;
}

et_status et_data_load(const et_data_list *list, const et_data_map *map, et_error *err) {
  et_data_entry entry;
  stored found;
  for (size_t i = 0; i < list->n; i++) {
    list->get(list->ctx, i, &entry);
    ET_TRY(check(map, &entry, &found, err));
  }
  for (size_t i = 0; i < list->n; i++) {
    list->get(list->ctx, i, &entry);
    ET_TRY(find(map, &entry, &found, err));
    const size_t bytes = et_tensor_bytes(&entry.tensor);
    if (bytes == 0) continue;
    et_blob blob = {0};
    ET_TRY(eti_source_load(&map->file.source, found.offset, bytes, &blob, err));
    memcpy(entry.tensor.data, blob.data, bytes);
    eti_source_release(&blob);
  }
  return ET_OK;
}
