// method_values.c — builds the et_value of each value of a plan, for the method's life or
// temporarily for prepare steps. One function per kind of value serves both; only the memory of the
// parts and the data pointers differ.
#include "runtime/bytes.h"
#include "runtime/dtype.h"
#include "runtime/method_loader.h"
#include "runtime/ptd_schema.h"
#include "runtime/tensor.h"

// ---- Values that an instruction replaces

typedef struct cursor {
  size_t i_next;  // instruction
  uint32_t arg;   // of `in`
  eti_instruction_facts in;
} cursor;

// The next value that some instruction may replace by another value (rather than write through it).
// Calls of kernels and delegates write through tensors, kernels also through lists of them. The
// file does not say which arguments of a delegate are outputs.
static bool next_written(eti_loader *l, cursor *c, uint32_t *value) {
  const eti_plan *const plan = &l->plan;
  const uint8_t *table;
  for (;;) {
    while (c->arg == c->in.n_args) {
      if (c->i_next == plan->n_instructions ||
          eti_instruction_read(plan, c->i_next++, &c->in, NULL) != ET_OK)
        return false;
      c->arg = c->in.kind == PTE_DELEGATE_CALL || c->in.n_args == 0 ? 0 : c->in.n_args - 1;
      if (c->in.kind > PTE_MOVE_CALL) c->arg = c->in.n_args;
    }
    ET_ASSERT(c->arg < c->in.n_args);
    *value = eti_u32(c->in.args + 4 * (size_t)c->arg++);
    const unsigned code = eti_plan_value(plan, *value, &table);
    if (c->in.kind != PTE_MOVE_CALL && code == PTE_TENSOR) continue;
    if (c->in.kind != PTE_KERNEL_CALL) return true;
    if (code == PTE_TENSOR_LIST) continue;
    const et_op *op = eti_loader_op(l, (size_t)c->in.index);
    if (op == NULL || !op->returns_nothing) return true;
  }
}

void eti_find_written(eti_loader *l) {
  cursor c = {0};
  for (uint32_t value; next_written(l, &c, &value);) {
    const uint32_t bit = value % ETI_WRITTEN_BITS;
    l->written[bit / 32] |= 1u << bit % 32;
  }
}

static bool is_written(eti_loader *l, size_t i) {
  const size_t bit = i % ETI_WRITTEN_BITS;
  cursor c = {0};
  uint32_t value;
  if ((l->written[bit / 32] >> bit % 32 & 1u) == 0) return false;
  bool is_found = l->work > ET_MAX_PLAN_WORK;  // unknown counts as written
  if (!is_found) l->work += l->plan.n_instructions;
  while (!is_found && next_written(l, &c, &value))
    is_found = value == i || ++l->work > ET_MAX_PLAN_WORK;
  return is_found;
}

// ---- Tensors

static et_status find_external(const eti_loader *l, const eti_tensor_facts *t,
                               eti_named_entry *entry) {
  ET_CHECK(l->named.n_maps > 0, l->err,
           t->place == ETI_PLACE_EXTERNAL ? ET_INVALID_STATE : ET_INVALID_EXTERNAL_DATA,
           "the data of tensor '%s' is in an external file (.ptd), and none was given", t->name);
  ET_TRY(eti_external_find(&l->named, t->name, entry, l->err));
  const uint8_t *layout = eti_fb_table(entry->table, PTD_NAMED_LAYOUT);
  const eti_vector sizes = eti_fb_vector(layout, PTD_LAYOUT_SIZES);
  const eti_vector order = eti_fb_vector(layout, PTD_LAYOUT_DIM_ORDER);
  ET_CHECK(
      layout != NULL && eti_fb_u8(layout, PTD_LAYOUT_DTYPE) == t->dtype && sizes.n == t->rank &&
          order.n == t->rank && memcmp(sizes.data, t->sizes, 4 * t->rank) == 0 &&
          eti_is_permutation(order.data, t->rank) &&
          eti_same_order(t->sizes, order.data, t->dim_order, t->rank) && entry->bytes >= t->bytes,
      l->err, ET_INVALID_EXTERNAL_DATA,
      "external data '%s': expected %s, rank %zu, %zu bytes in the layout of the program's tensor, "
      "got %s, rank %zu, %llu bytes",
      t->name, et_dtype_name((et_dtype)t->dtype), t->rank, t->bytes,
      et_dtype_name((et_dtype)eti_fb_u8(layout, PTD_LAYOUT_DTYPE)), sizes.n,
      (unsigned long long)entry->bytes);
  return ET_OK;
}

// The bytes of an external constant, loaded once per segment and held by the method.
static et_status hold_external(eti_loader *l, const eti_tensor_facts *t, const void **data) {
  eti_named_entry entry;
  ET_TRY(find_external(l, t, &entry));
  eti_held *held = ETI_CLAIM(&l->arena, eti_held, 1);
  if (held == NULL) return eti_arena_status(&l->arena, l->err);
  memset(held, 0, sizeof *held);
  held->next = l->method->held;
  const eti_held *same = held->next;
  while (same != NULL && (same->source != entry.source || same->offset != entry.offset ||
                          same->blob.size < t->bytes)) {
    same = same->next;
  }
  if (same == NULL) {
    ET_TRY(eti_source_load(entry.source, entry.offset, entry.bytes, &held->blob, l->err));
    held->source = entry.source;
    held->offset = entry.offset;
    l->method->held = held;
    same = held;
  }
  ET_ASSERT(same->blob.size >= t->bytes);
  *data = same->blob.data;
  ET_CHECK(t->numel == 0 || eti_is_aligned(*data, eti_dtype_align((et_dtype)t->dtype)), l->err,
           ET_INVALID_EXTERNAL_DATA, "external data '%s' is not aligned to its element type %s",
           t->name, et_dtype_name((et_dtype)t->dtype));
  return ET_OK;
}

// Copies the saved state of a mutable tensor into its planned memory.
static et_status fill_initial(eti_loader *l, const eti_tensor_facts *t, void *planned) {
  eti_named_entry entry = {.source = &l->program->file.source};
  if (t->place == ETI_PLACE_INITIAL) {
    ET_TRY(eti_initial_find(l->program, t->buffer, t->bytes, &entry.offset, l->err));
  } else {
    ET_TRY(find_external(l, t, &entry));
  }
  if (l->method == NULL || t->bytes == 0) return ET_OK;
  ET_ASSERT(planned != NULL);
  et_blob blob;
  ET_TRY(eti_source_load(entry.source, entry.offset, t->bytes, &blob, l->err));
  memcpy(planned, blob.data, t->bytes);
  eti_source_release(&blob);
  return ET_OK;
}

static et_status place_tensor(eti_loader *l, const eti_tensor_facts *t, const void **data) {
  *data = NULL;
  if (t->place == ETI_PLACE_CONSTANT)
    return eti_constant_find(l->program, t->buffer, t->bytes, data, l->err);
  if (t->place == ETI_PLACE_EXTERNAL) return hold_external(l, t, data);
  if (!eti_is_planned(t)) return ET_OK;
  uint8_t *planned = NULL;
  ET_ASSERT(t->memory_id >= 1 && t->memory_id < l->plan.buffer_sizes.n);
  if (l->method != NULL) {
    ET_ASSERT(eti_inside(t->memory_offset, t->bytes, l->memory->planned[t->memory_id - 1].size));
    planned = l->memory->planned[t->memory_id - 1].data;
    if (planned != NULL) planned += (size_t)t->memory_offset;
  }
  *data = planned;
  ET_ASSERT(eti_is_aligned(planned, eti_dtype_align((et_dtype)t->dtype)));
  return t->place == ETI_PLACE_PLANNED ? ET_OK : fill_initial(l, t, planned);
}

// Claims a tensor's parts and fills them. False when there is no memory to fill (measuring, or no
// room left).
static bool lay_tensor(const eti_tensor_facts *f, et_arena *room, et_value *out) {
  ET_ASSERT(f->rank <= ET_MAX_RANK && f->dtype < ET_DTYPE_COUNT);
  et_tensor *t = ETI_CLAIM(room, et_tensor, 1);
  ptrdiff_t *strides = ETI_CLAIM(room, ptrdiff_t, f->rank);
  int32_t *sizes =
      (int32_t *)(uintptr_t)f->sizes;  // static sizes stay in the file and are never written
  if (f->is_dynamic) sizes = ETI_CLAIM(room, int32_t, f->rank);
  if (room->measuring || room->failed) return false;
  if (f->is_dynamic) memcpy(sizes, f->sizes, f->rank * sizeof *sizes);
  eti_fill_strides(sizes, f->dim_order, f->rank, strides);
  unsigned flags = 0;
  if (eti_is_constant(f)) flags |= ET_TENSOR_CONSTANT;
  if (eti_is_planned(f)) flags |= ET_TENSOR_PLANNED;
  if (f->is_dynamic) flags |= ET_TENSOR_DYNAMIC;
  if (f->name != NULL) flags |= ET_TENSOR_NAMED;
  size_t k = 0;
  while (k < f->rank && f->dim_order[k] == k) k++;
  if (k == f->rank) flags |= ET_TENSOR_CONTIGUOUS;
  const et_tensor filled = {.sizes = sizes,
                            .strides = strides,
                            .dim_order = f->dim_order,
                            .numel = f->numel,
                            .capacity = f->numel,
                            .dtype = f->dtype,
                            .rank = (uint8_t)f->rank,
                            .flags = (uint16_t)flags};
  *t = filled;
  out->tag = ET_TENSOR;
  out->as.tensor = t;
  return true;
}

static et_status build_tensor(eti_loader *l, const uint8_t *table, et_value *out) {
  eti_tensor_facts f;
  const void *data;
  ET_TRY(eti_tensor_read(table, &f, l->err));
  const bool is_laid = lay_tensor(&f, &l->arena, out);
  ET_TRY(eti_arena_status(&l->arena, l->err));
  ET_TRY(place_tensor(l, &f, &data));
  eti_unplanned *unplanned =
      f.place == ETI_PLACE_NONE ? ETI_CLAIM(&l->arena, eti_unplanned, 1) : NULL;
  ET_TRY(eti_arena_status(&l->arena, l->err));
  if (!is_laid) return ET_OK;
  out->as.tensor->data = (void *)(uintptr_t)data;
  if (unplanned != NULL) {
    const eti_unplanned filled = {.next = l->method->unplanned,
                                  .tensor = out->as.tensor,
                                  .capacity = f.numel,
                                  .bound = f.numel};
    *unplanned = filled;
    l->method->unplanned = unplanned;
    out->flags = ETI_VALUE_UNPLANNED;
  }
  return ET_OK;
}

// ---- Other values

bool eti_build_plain(unsigned code, const uint8_t *table, et_value *out) {
  memset(out, 0, sizeof *out);
  out->tag = (uint8_t)eti_tag(code);
  if (code == PTE_INT || code == PTE_DOUBLE) {
    const uint64_t bits = eti_fb_u64(table, PTE_SCALAR_VALUE);
    memcpy(&out->as, &bits, sizeof bits);
  } else if (code == PTE_BOOL) {
    out->as.b = eti_fb_u8(table, PTE_SCALAR_VALUE) != 0;
  } else if (code >= PTE_STRING) {
    const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
    out->n = (uint32_t)items.n;
    out->as.bools = items.data;  // strings and doubles are stored in the file in the same way;
                                 // lists of values are built later
  }
  return code != PTE_TENSOR && code != PTE_INT_LIST && code < PTE_TENSOR_LIST;
}

// Member i of a list of values; negative: none.
static int64_t list_member(unsigned code, eti_vector items, size_t i) {
  return code == PTE_INT_LIST ? eti_i64(items.data + 8 * i) : eti_i32(items.data + 4 * i);
}

et_status eti_build_value(eti_loader *l, size_t i, et_value *out) {
  const uint8_t *table;
  const unsigned code = eti_plan_value(&l->plan, i, &table);
  et_value unused;
  if (out == NULL) out = &unused;
  if (eti_build_plain(code, table, out)) return ET_OK;
  if (code == PTE_TENSOR) return build_tensor(l, table, out);
  const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
  et_value **list = ETI_CLAIM(&l->arena, et_value *, items.n);
  if (list == NULL) return eti_arena_status(&l->arena, l->err);
  for (size_t k = 0; k < items.n; k++) {
    const int64_t member = list_member(code, items, k);
    ET_ASSERT(member < (int64_t)l->plan.values.n);
    list[k] = member < 0 ? NULL : &l->method->values[member];
  }
  out->as.list = list;
  return ET_OK;
}

static bool build_temporary_tensor(eti_loader *l, size_t i, const uint8_t *table,
                                   eti_temporary *temporary, et_value *out) {
  eti_tensor_facts f;
  if (eti_tensor_read(table, &f, NULL) != ET_OK || !lay_tensor(&f, &temporary->room, out))
    return false;
  const void *data = NULL;
  if (f.place == ETI_PLACE_CONSTANT) {
    if (eti_constant_find(l->program, f.buffer, f.bytes, &data, NULL) != ET_OK) return false;
  } else if (f.place == ETI_PLACE_EXTERNAL) {
    if (temporary->n_blobs == ETI_MAX_TEMPORARY_BLOBS) return false;
    et_blob *blob = &temporary->blobs[temporary->n_blobs++];
    if (l->method !=
        NULL) {  // already held; the slot counts nevertheless, so that both passes decide the same
      data = l->method->values[i].as.tensor->data;
    } else {
      eti_named_entry entry;
      if (find_external(l, &f, &entry) != ET_OK ||
          eti_source_load(entry.source, entry.offset, entry.bytes, blob, NULL) != ET_OK) {
        return false;
      }
      data = blob->data;
    }
  }
  out->as.tensor->data = (void *)(uintptr_t)data;
  return eti_is_aligned(data, eti_dtype_align((et_dtype)f.dtype));  // loading reports the error
}

static bool build_temporary(eti_loader *l, size_t i, eti_temporary *temporary, et_value *out,
                            bool is_member) {
  const uint8_t *table;
  const unsigned code = eti_plan_value(&l->plan, i, &table);
  const bool is_replaced = is_written(l, i);
  const bool is_plain = eti_build_plain(code, table, out);
  if (is_plain && is_replaced) memset(out, 0, sizeof *out);  // not known before the run
  if (is_plain) return true;
  if (is_replaced) return false;  // another tensor or list may be here when the instruction runs
  if (code == PTE_TENSOR) return build_temporary_tensor(l, i, table, temporary, out);
  if (is_member) return false;  // no kernel supports lists of lists
  const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
  et_value **list = ETI_CLAIM(&temporary->room, et_value *, items.n);
  et_value *members = ETI_CLAIM(&temporary->room, et_value, items.n);
  if (temporary->room.failed) return false;
  for (size_t k = 0; k < items.n; k++) {
    const int64_t member = list_member(code, items, k);
    const bool is_built =
        member >= 0 && eti_build_temporary(l, (size_t)member, temporary, &members[k], true);
    list[k] = is_built ? &members[k] : NULL;
  }
  out->as.list = list;
  return true;
}

bool eti_build_temporary(eti_loader *l, size_t i, eti_temporary *temporary, et_value *out,
                         bool is_member) {
  const bool is_built = build_temporary(l, i, temporary, out, is_member);
  if (!is_built) memset(out, 0, sizeof *out);
  temporary->has_gaps |= !is_built;
  return is_built;
}
