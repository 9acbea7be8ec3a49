// payload_ids.c — finds a payload's values by their ids.
#include "backends/xnnpack/payload/payload_parts.h"
#include "runtime/check.h"

#include <stdlib.h>

typedef struct named_value {
  uint32_t id, value;
} named_value;

static int by_id(const void *a, const void *b) {
  const uint32_t x = ((const named_value *)a)->id, y = ((const named_value *)b)->id;
  return x < y ? -1 : x > y;
}

et_status eti_xnn_index_ids(const eti_xnn_payload *payload, eti_xnn_heap *heap, eti_xnn_ids *ids,
                            et_error *err) {
  void *room;
  ET_TRY(eti_xnn_take(heap, payload->n_values, sizeof(named_value), &room, err));
  named_value *list = room;
  size_t n = 0;
  for (size_t i = 0; i < payload->n_values; i++) {
    if (payload->values[i].id != XNN_NO_ID)
      list[n++] = (named_value){payload->values[i].id, (uint32_t)i};
  }
  qsort(list, n, sizeof *list, by_id);
  for (size_t i = 1; i < n; i++)
    ET_CHECK(list[i].id != list[i - 1].id, err, ET_INVALID_PROGRAM, "two values have the id %lu",
             (unsigned long)list[i].id);
  *ids = (eti_xnn_ids){list, n};
  return ET_OK;
}

bool eti_xnn_find_id(const eti_xnn_ids *ids, uint32_t id, uint32_t *value) {
  const named_value wanted = {.id = id}, *list = ids->list;
  const named_value *found =
      id == XNN_NO_ID || ids->n == 0 ? NULL : bsearch(&wanted, list, ids->n, sizeof *list, by_id);
  if (found != NULL) *value = found->value;
  return found != NULL;
}
