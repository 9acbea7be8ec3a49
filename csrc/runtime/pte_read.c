// pte_read.c — see pte.h: finding plans and reading tensors, constants, instructions and payloads.
#include "runtime/pte.h"

#include "runtime/bytes.h"
#include "runtime/message_text.h"
#include "runtime/tensor.h"

et_status eti_plan_find(const et_program *program, const char *name, eti_plan *plan,
                        et_error *err) {
  const eti_vector plans = eti_fb_vector(program->file.root, PTE_PROGRAM_PLANS);
  size_t i = 0;
  for (; i < plans.n; i++) {
    const char *found = eti_fb_string(eti_fb_at(plans, i), PTE_PLAN_NAME);
    if (found != NULL && name != NULL && strcmp(found, name) == 0) break;
  }
  ET_CHECK(i < plans.n, err, ET_INVALID_ARGUMENT,
           "no method '%s'; the program has %zu, the first is '%s'", name, plans.n,
           plans.n == 0 ? NULL : eti_fb_string(eti_fb_at(plans, 0), PTE_PLAN_NAME));
  const uint8_t *table = eti_fb_at(plans, i);
#if defined(ET_DEBUG)
  plan->is_verified = false;
#endif
  plan->table = table;
  plan->name = eti_fb_string(table, PTE_PLAN_NAME);
  for (unsigned k = 0; k < sizeof plan->vectors / sizeof plan->vectors[0];
       k++) {  // all are required
    plan->vectors[k] = eti_fb_vector(table, PTE_PLAN_VALUES + k);
    ET_CHECK(plan->vectors[k].data != NULL, err, ET_INVALID_PROGRAM,
             "method '%s': slot %u of its plan is absent", name, PTE_PLAN_VALUES + k);
  }
  ET_CHECK(plan->chains.n <= ET_MAX_CHAINS, err, ET_NOT_SUPPORTED,
           "method '%s': expected at most %u chains, got %zu", name, ET_MAX_CHAINS, plan->chains.n);
  plan->n_instructions = 0;
  for (size_t c = 0; c < plan->chains.n; c++) {
    plan->n_instructions += eti_fb_vector(eti_fb_at(plan->chains, c), PTE_CHAIN_INSTRUCTIONS).n;
  }
  return ET_OK;
}

unsigned eti_plan_value(const eti_plan *plan, size_t i, const uint8_t **table) {
  const uint8_t *value = eti_fb_at(plan->values, i);
  const unsigned code = eti_fb_u8(value, PTE_UNION_CODE);
  *table = eti_fb_table(value, PTE_UNION_TABLE);
  ETI_ASSERT_PLAN(plan, code >= PTE_NULL && code <= PTE_OPTIONAL_TENSOR_LIST);
  ETI_ASSERT_PLAN(plan, *table != NULL || code == PTE_NULL);
  return *table == NULL && code != PTE_NULL ? 0 : code;
}

et_tag eti_tag(unsigned code) {
  static const uint8_t tags[] = {ET_NONE,      ET_NONE,        ET_INT,
                                 ET_BOOL,      ET_DOUBLE,      ET_TENSOR,
                                 ET_STRING,    ET_INT_LIST,    ET_DOUBLE_LIST,
                                 ET_BOOL_LIST, ET_TENSOR_LIST, ET_OPTIONAL_TENSOR_LIST};
  ET_ASSERT(code < sizeof tags / sizeof tags[0]);
  return (et_tag)tags[code];
}

eti_vector eti_tensor_list(unsigned code, const uint8_t *table) {
  const bool is_list = code == PTE_TENSOR_LIST || code == PTE_OPTIONAL_TENSOR_LIST;
  return eti_fb_vector(is_list ? table : NULL, PTE_LIST_ITEMS);
}

static et_status read_shape(const uint8_t *table, eti_tensor_facts *out, et_error *err) {
  out->dtype = eti_fb_u8(table, PTE_TENSOR_DTYPE);
  ET_CHECK(out->dtype < ET_DTYPE_COUNT, err, ET_INVALID_PROGRAM,
           "element type: expected a number below %d, got %d", ET_DTYPE_COUNT, out->dtype);
  const unsigned dynamism = eti_fb_u8(table, PTE_TENSOR_DYNAMISM);
  ET_CHECK(dynamism < PTE_DYNAMIC_UNBOUND, err,
           dynamism == PTE_DYNAMIC_UNBOUND ? ET_NOT_SUPPORTED : ET_INVALID_PROGRAM,
           "shape dynamism: expected static (0) or bounded (1), got %u", dynamism);
  out->is_dynamic = dynamism != PTE_STATIC;
  const eti_vector sizes = eti_fb_vector(table, PTE_TENSOR_SIZES);
  const eti_vector order = eti_fb_vector(table, PTE_TENSOR_DIM_ORDER);
  ET_CHECK(sizes.data != NULL && order.data != NULL && sizes.n <= ET_MAX_RANK && order.n == sizes.n,
           err, ET_INVALID_PROGRAM,
           "expected as many sizes as dim order entries, at most %d, got %zu and %zu", ET_MAX_RANK,
           sizes.n, order.n);
  out->rank = sizes.n;
  out->sizes = (const int32_t *)(const void *)sizes.data;  // 4-aligned: the structure is verified
  out->dim_order = order.data;
  ET_CHECK(eti_is_aligned(sizes.data, 4), err, ET_INVALID_PROGRAM,
           "the list of sizes is not aligned to 4 bytes");
  const size_t element_bytes = et_dtype_bytes((et_dtype)out->dtype);
  ET_CHECK(eti_shape_numel(out->sizes, out->rank, element_bytes, &out->numel), err,
           ET_INVALID_PROGRAM, "a size is negative, or the tensor is too large for this machine");
  out->bytes = out->numel * element_bytes;
  ET_CHECK(eti_is_permutation(order.data, order.n), err, ET_INTERNAL,
           "dim order: expected a permutation of 0..%d, got %s", (int)order.n - 1,
           eti_dim_order_text(order.data, order.n).text);
  return ET_OK;
}

et_status eti_tensor_read(const uint8_t *table, eti_tensor_facts *out, et_error *err) {
  memset(out, 0, sizeof *out);
  ET_CHECK(eti_fb_u32(table, PTE_TENSOR_STORAGE_OFFSET) == 0, err, ET_NOT_SUPPORTED,
           "storage offset: expected 0, got %ld",
           (long)(int32_t)eti_fb_u32(table, PTE_TENSOR_STORAGE_OFFSET));
  ET_CHECK(eti_fb_u8(table, PTE_TENSOR_LAYOUT) == 0, err, ET_NOT_SUPPORTED,
           "tensor layout: expected 0 (strided), got %d", eti_fb_u8(table, PTE_TENSOR_LAYOUT));
  ET_TRY(read_shape(table, out, err));
  const uint8_t *extra = eti_fb_table(table, PTE_TENSOR_EXTRA);
  const uint8_t *allocation = eti_fb_table(table, PTE_TENSOR_ALLOCATION);
  out->name = eti_fb_string(extra, PTE_EXTRA_NAME);
  out->buffer = eti_fb_u32(table, PTE_TENSOR_BUFFER);
  out->memory_id = eti_fb_u32(allocation, PTE_ALLOCATION_MEMORY);
  out->memory_offset = (uint64_t)eti_fb_u32(allocation, PTE_ALLOCATION_HIGH) << 32 |
                       eti_fb_u32(allocation, PTE_ALLOCATION_LOW);
  const unsigned location = eti_fb_u8(extra, PTE_EXTRA_LOCATION);
  ET_CHECK(
      location <= PTE_LOCATION_EXTERNAL && (location == PTE_LOCATION_SEGMENT || out->name != NULL),
      err, ET_INVALID_PROGRAM, "data location: expected 0, or 1 and a name, got %u and name %s",
      location, out->name);
  ET_CHECK(eti_fb_u8(extra, PTE_EXTRA_DEVICE) == 0, err, ET_NOT_SUPPORTED,
           "device type: expected 0 (CPU), got %d", eti_fb_u8(extra, PTE_EXTRA_DEVICE));
  if (location == PTE_LOCATION_EXTERNAL) {
    out->place = allocation != NULL ? ETI_PLACE_EXTERNAL_INITIAL : ETI_PLACE_EXTERNAL;
  } else if (out->buffer != 0) {
    out->place = allocation != NULL ? ETI_PLACE_INITIAL : ETI_PLACE_CONSTANT;
  } else {
    out->place = allocation != NULL ? ETI_PLACE_PLANNED : ETI_PLACE_NONE;
  }
  return ET_OK;
}

// Entry `index` of a list of offsets into one segment.
static et_status find_in_segment(const et_program *program, const uint8_t *subsegment,
                                 uint32_t index, size_t bytes, uint64_t *segment_offset,
                                 uint64_t *inside, et_error *err) {
  const eti_vector offsets = eti_fb_vector(subsegment, PTE_SUBSEGMENT_OFFSETS);
  ET_CHECK(index < offsets.n, err, ET_INVALID_ARGUMENT, "data entry: expected below %zu, got %lu",
           offsets.n, (unsigned long)index);
  uint64_t size;
  *inside = eti_u64(offsets.data + 8 * (size_t)index);
  ET_CHECK(eti_segment_find(&program->file, eti_fb_u32(subsegment, PTE_SUBSEGMENT_INDEX),
                            segment_offset, &size) &&
               eti_inside(*inside, bytes, size),
           err, ET_INVALID_ARGUMENT, "data entry %lu (%zu bytes at %llu) lies outside its segment",
           (unsigned long)index, bytes, (unsigned long long)*inside);
  return ET_OK;
}

et_status eti_constant_find(const et_program *program, uint32_t index, size_t bytes,
                            const void **data, et_error *err) {
  const uint8_t *segment = eti_fb_table(program->file.root, PTE_PROGRAM_CONSTANT_SEGMENT);
  uint64_t offset, inside;
  if (eti_fb_vector(segment, PTE_SUBSEGMENT_OFFSETS).n > 0) {
    ET_TRY(find_in_segment(program, segment, index, bytes, &offset, &inside, err));
    *data = program->constants.data == NULL
                ? NULL
                : (const uint8_t *)program->constants.data + (size_t)inside;
    return ET_OK;
  }
  // Old files have no constant segment: they keep constants inside the flatbuffer.
  const eti_vector buffers = eti_fb_vector(program->file.root, PTE_PROGRAM_CONSTANT_BUFFER);
  ET_CHECK(index < buffers.n, err, ET_INVALID_ARGUMENT, "constant: expected below %zu, got %lu",
           buffers.n, (unsigned long)index);
  const eti_vector storage = eti_fb_vector(eti_fb_at(buffers, index), PTE_BYTES_DATA);
  ET_CHECK(bytes <= storage.n, err, ET_INVALID_ARGUMENT,
           "constant %lu: expected %zu bytes, got %zu", (unsigned long)index, bytes, storage.n);
  *data = storage.data;
  return ET_OK;
}

et_status eti_initial_find(const et_program *program, uint32_t index, size_t bytes,
                           uint64_t *offset, et_error *err) {
  const eti_vector lists = eti_fb_vector(program->file.root, PTE_PROGRAM_MUTABLE_SEGMENTS);
  ET_CHECK(lists.n > 0, err, ET_INVALID_PROGRAM,
           "a tensor has initial data, but the program has no segment of it");
  uint64_t inside;
  // Upstream's runtime uses the first segment, whatever a tensor names; so do the files.
  ET_TRY(find_in_segment(program, eti_fb_at(lists, 0), index, bytes, offset, &inside, err));
  *offset += inside;
  return ET_OK;
}

#if defined(ET_DEBUG)
static bool are_values(const eti_plan *plan, const eti_instruction_facts *in) {
  for (size_t k = 0; k < in->n_args; k++) {
    if (eti_u32(in->args + 4 * k) >= plan->values.n) return false;
  }
  return true;
}
#endif

static void own_args(eti_instruction_facts *out, const uint8_t *call, unsigned slot, uint32_t n) {
  for (unsigned k = 0; k < n; k++) {
    const uint32_t v = eti_fb_u32(call, slot + k);
    memcpy(out->own + 4 * k, &v, sizeof v);
  }
  out->args = out->own;
  out->n_args = n;
}

et_status eti_instruction_read(const eti_plan *plan, size_t i, eti_instruction_facts *out,
                               et_error *err) {
  ET_ASSERT(i < plan->n_instructions);
  memset(out, 0, sizeof *out);
  size_t begin = 0, c = 0;
  eti_vector list;
  while (list = eti_fb_vector(eti_fb_at(plan->chains, c), PTE_CHAIN_INSTRUCTIONS),
         i - begin >= list.n) {
    begin += list.n;
    c++;
  }
  const uint8_t *instruction = eti_fb_at(list, i - begin);
  const uint8_t *call = eti_fb_table(instruction, PTE_UNION_TABLE);
  out->kind = eti_fb_u8(instruction, PTE_UNION_CODE);
  ET_CHECK(call != NULL && out->kind - PTE_KERNEL_CALL <= PTE_FREE_CALL - PTE_KERNEL_CALL, err,
           ET_INVALID_PROGRAM, "expected a kind of 1 to 5 and its table, got kind %u%s", out->kind,
           call == NULL ? " without one" : "");
  if (out->kind <= PTE_DELEGATE_CALL) {
    const eti_vector args = eti_fb_vector(call, PTE_CALL_ARGS);
    out->index = (int32_t)eti_fb_u32(call, PTE_CALL_INDEX);
    out->args = args.data;
    out->n_args = (uint32_t)args.n;
  } else if (out->kind == PTE_MOVE_CALL) {
    own_args(out, call, PTE_MOVE_FROM, 2);
  } else {
    own_args(out, call, PTE_JUMP_CONDITION, 1);  // or PTE_FREE_VALUE: the same slot
  }
  if (out->kind == PTE_JUMP_FALSE_CALL) {
    const uint32_t to = eti_fb_u32(call, PTE_JUMP_DESTINATION);
    ET_CHECK(to <= list.n, err, ET_INVALID_PROGRAM,
             "jump: expected a target of at most %zu, got %ld", list.n, (long)(int32_t)to);
    out->target = begin + to;
  }
  ETI_ASSERT_PLAN(plan, out->args != NULL && are_values(plan, out));
  ETI_ASSERT_PLAN(plan, out->kind != PTE_KERNEL_CALL || (size_t)out->index < plan->operators.n);
  ETI_ASSERT_PLAN(plan, out->kind != PTE_DELEGATE_CALL || (size_t)out->index < plan->delegates.n);
  ETI_ASSERT_PLAN(plan, out->target <= plan->n_instructions);
  return ET_OK;
}

const char eti_small_names[3][5] = {"move", "jump", "free"};

void eti_instruction_name(const eti_plan *plan, const eti_instruction_facts *in, const char **name,
                          const char **overload) {
  *overload = NULL;
  if (in->kind == PTE_KERNEL_CALL) {
    const uint8_t *op = eti_fb_at(plan->operators, (size_t)in->index);
    *name = eti_fb_string(op, PTE_OPERATOR_NAME);
    *overload = eti_fb_string(op, PTE_OPERATOR_OVERLOAD);
  } else if (in->kind == PTE_DELEGATE_CALL) {
    *name = eti_fb_string(eti_fb_at(plan->delegates, (size_t)in->index), PTE_DELEGATE_ID);
  } else {
    ET_ASSERT(in->kind >= PTE_MOVE_CALL && in->kind <= PTE_FREE_CALL);
    *name = eti_small_names[in->kind - PTE_MOVE_CALL];
  }
}

et_status eti_payload_find(const et_program *program, const uint8_t *delegate, eti_payload *out,
                           et_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *processed = eti_fb_table(delegate, PTE_DELEGATE_PROCESSED);
  ET_CHECK(processed != NULL, err, ET_INVALID_PROGRAM, "the delegate has no payload reference");
  const uint32_t index = eti_fb_u32(processed, PTE_PROCESSED_INDEX);
  if (eti_fb_u8(processed, PTE_PROCESSED_LOCATION) == PTE_PROCESSED_SEGMENT) {
    ET_CHECK(eti_segment_find(&program->file, index, &out->offset, &out->bytes), err, ET_NOT_FOUND,
             "payload in segment %lu, which the program does not have", (unsigned long)index);
    return ET_OK;
  }
  const eti_vector list = eti_fb_vector(program->file.root, PTE_PROGRAM_INLINE_DELEGATES);
  ET_CHECK(index < list.n, err, ET_NOT_FOUND, "inline payload: expected below %zu, got %lu", list.n,
           (unsigned long)index);
  const eti_vector data = eti_fb_vector(eti_fb_at(list, index), PTE_BYTES_DATA);
  out->data = data.data;
  out->bytes = data.n;
  return ET_OK;
}
