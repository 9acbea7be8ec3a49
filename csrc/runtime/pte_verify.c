// pte_verify.c — verifies a program: the schema that drives the structural walk, then the meaning
// of the program-wide parts and, before a method is measured or loaded, of everything in its plan.
// Defects that upstream's runtime finds only in a run are refused here, with upstream's status
// codes where they exist.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/dtype.h"
#include "runtime/pte.h"

// Rows of the schema. Union members are consecutive, in the order of their codes.
enum {
  T_PROGRAM,
  T_PLAN,
  T_TEXTS,  // ContainerMetadata, Operator: two strings
  T_BUFFER_DEVICE,
  T_BYTES,  // Buffer, BackendDelegateInlineData
  T_SEGMENT,
  T_SUBSEGMENT,
  T_NAMED,
  T_EVALUE,
  T_NULL,
  T_INT,
  T_BOOL,
  T_DOUBLE,
  T_TENSOR,
  T_STRING,
  T_INT_LIST,
  T_DOUBLE_LIST,
  T_BOOL_LIST,
  T_TENSOR_LIST,
  T_OPTIONAL_TENSOR_LIST,
  T_CHAIN,
  T_INSTRUCTION,
  T_KERNEL_CALL,
  T_DELEGATE_CALL,
  T_MOVE_CALL,
  T_JUMP_FALSE_CALL,
  T_FREE_CALL,
  T_DELEGATE,
  T_PROCESSED,
  T_SPEC,
  T_ALLOCATION,
  T_EXTRA,
};
_Static_assert(T_EXTRA < 32, "a slot's byte has five bits for a table's number");

static const eti_fb_schema schema[] = {
    [T_PROGRAM] = {ETI_FB_SCALAR(4), ETI_FB_TABLES(T_PLAN), ETI_FB_TABLES(T_BYTES),
                   ETI_FB_TABLES(T_BYTES), ETI_FB_TABLES(T_SEGMENT), ETI_FB_TABLE(T_SUBSEGMENT),
                   ETI_FB_TABLES(T_SUBSEGMENT), ETI_FB_TABLES(T_NAMED)},
    [T_PLAN] = {ETI_FB_STRING, ETI_FB_TABLE(T_TEXTS), ETI_FB_TABLES(T_EVALUE), ETI_FB_VECTOR(4),
                ETI_FB_VECTOR(4), ETI_FB_TABLES(T_CHAIN), ETI_FB_TABLES(T_TEXTS),
                ETI_FB_TABLES(T_DELEGATE), ETI_FB_VECTOR(8), ETI_FB_TABLES(T_BUFFER_DEVICE)},
    [T_TEXTS] = {ETI_FB_STRING, ETI_FB_STRING},
    [T_BUFFER_DEVICE] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(1), ETI_FB_SCALAR(1)},
    [T_BYTES] = {ETI_FB_VECTOR(1)},
    [T_SEGMENT] = {ETI_FB_SCALAR(8), ETI_FB_SCALAR(8)},
    [T_SUBSEGMENT] = {ETI_FB_SCALAR(4), ETI_FB_VECTOR(8)},
    [T_NAMED] = {ETI_FB_STRING, ETI_FB_SCALAR(4)},
    [T_EVALUE] = {ETI_FB_UNION(T_NULL), ETI_FB_MEMBERS(11)},
    [T_INT] = {ETI_FB_SCALAR(8)},
    [T_BOOL] = {ETI_FB_SCALAR(1)},
    [T_DOUBLE] = {ETI_FB_SCALAR(8)},
    [T_TENSOR] = {ETI_FB_SCALAR(1), ETI_FB_SCALAR(4), ETI_FB_VECTOR(4), ETI_FB_VECTOR(1),
                  ETI_FB_SCALAR(1), ETI_FB_SCALAR(4), ETI_FB_TABLE(T_ALLOCATION), ETI_FB_SCALAR(1),
                  ETI_FB_SCALAR(1), ETI_FB_TABLE(T_EXTRA)},
    [T_STRING] = {ETI_FB_STRING},
    [T_INT_LIST] = {ETI_FB_VECTOR(8)},
    [T_DOUBLE_LIST] = {ETI_FB_VECTOR(8)},
    [T_BOOL_LIST] = {ETI_FB_VECTOR(1)},
    [T_TENSOR_LIST] = {ETI_FB_VECTOR(4)},
    [T_OPTIONAL_TENSOR_LIST] = {ETI_FB_VECTOR(4)},
    [T_CHAIN] = {0, 0, ETI_FB_TABLES(T_INSTRUCTION)},
    [T_INSTRUCTION] = {ETI_FB_UNION(T_KERNEL_CALL), ETI_FB_MEMBERS(5)},
    [T_KERNEL_CALL] = {ETI_FB_SCALAR(4), ETI_FB_VECTOR(4)},
    [T_DELEGATE_CALL] = {ETI_FB_SCALAR(4), ETI_FB_VECTOR(4)},
    [T_MOVE_CALL] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_JUMP_FALSE_CALL] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_FREE_CALL] = {ETI_FB_SCALAR(4)},
    [T_DELEGATE] = {ETI_FB_STRING, ETI_FB_TABLE(T_PROCESSED), ETI_FB_TABLES(T_SPEC)},
    [T_PROCESSED] = {ETI_FB_SCALAR(1), ETI_FB_SCALAR(4)},
    [T_SPEC] = {ETI_FB_STRING, ETI_FB_VECTOR(1)},
    [T_ALLOCATION] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_EXTRA] = {ETI_FB_SCALAR(8), ETI_FB_STRING, ETI_FB_SCALAR(1), ETI_FB_SCALAR(1),
                 ETI_FB_SCALAR(1)},
};

const eti_format eti_pte_format = {
    .identifier = {'E', 'T', '1', '2'},
    .magic = {'e', 'h', '0', '0'},
    .header_bytes = 24,
    .figures_at = 8,
    .segments = PTE_PROGRAM_SEGMENTS,
    .named = PTE_PROGRAM_NAMED_DATA,
    .is_header_optional = true,
    .damaged = ET_INVALID_PROGRAM,
    .dangling = ET_INVALID_ARGUMENT,
    .schema = schema,
};

et_status eti_program_verify(const et_program *program, et_error *err) {
  const uint8_t *root = program->file.root;
  ET_CHECK(eti_fb_vector(root, PTE_PROGRAM_PLANS).data != NULL, err, ET_INVALID_PROGRAM,
           "the program has no methods");
  const uint8_t *constants = eti_fb_table(root, PTE_PROGRAM_CONSTANT_SEGMENT);
  const size_t n_offsets = eti_fb_vector(constants, PTE_SUBSEGMENT_OFFSETS).n;
  const size_t n_buffers = eti_fb_vector(root, PTE_PROGRAM_CONSTANT_BUFFER).n;
  ET_CHECK(n_offsets > 0 || n_buffers > 0, err, ET_INVALID_PROGRAM,
           "expected a constant segment or inline constants, if only empty ones, got neither");
  ET_CHECK(n_offsets <= 1 || n_buffers == 0, err, ET_INVALID_PROGRAM,
           "expected constants in a segment or inline ones, got both");
  return ET_OK;
}

static et_status verify_tensor(const et_program *program, const eti_plan *plan,
                               const uint8_t *table, et_error *err) {
  eti_tensor_facts t;
  ET_TRY(eti_tensor_read(table, &t, err));
  const void *data;
  uint64_t offset;
  if (t.place == ETI_PLACE_CONSTANT) {
    ET_TRY(eti_constant_find(program, t.buffer, t.bytes, &data, err));
    ET_CHECK(t.numel == 0 || eti_is_aligned(data, eti_dtype_align((et_dtype)t.dtype)), err,
             ET_INVALID_PROGRAM, "constant %lu is not aligned to its element type %s",
             (unsigned long)t.buffer, et_dtype_name((et_dtype)t.dtype));
  }
  if (t.place == ETI_PLACE_INITIAL)
    ET_TRY(eti_initial_find(program, t.buffer, t.bytes, &offset, err));
  if (!eti_is_planned(&t)) return ET_OK;
  ET_CHECK(t.memory_id >= 1 && t.memory_id < plan->buffer_sizes.n, err, ET_INVALID_ARGUMENT,
           "planned memory: expected 1 to %ld, got %lu", (long)plan->buffer_sizes.n - 1,
           (unsigned long)t.memory_id);
  const uint64_t room = eti_u64(plan->buffer_sizes.data + 8 * (size_t)t.memory_id);
  ET_CHECK(eti_inside(t.memory_offset, t.bytes, room), err, ET_OUT_OF_MEMORY,
           "planned memory %lu: expected at most %llu bytes, got %zu at %llu",
           (unsigned long)t.memory_id, (unsigned long long)room, t.bytes,
           (unsigned long long)t.memory_offset);
  ET_CHECK(t.memory_offset % eti_dtype_align((et_dtype)t.dtype) == 0, err, ET_INVALID_PROGRAM,
           "planned offset %llu is not aligned to the element type %s",
           (unsigned long long)t.memory_offset, et_dtype_name((et_dtype)t.dtype));
  return ET_OK;
}

// True if i is an index of the plan's values, of one of the kinds in the bit set (0: any).
static bool is_value(const eti_plan *plan, int64_t i, uint32_t kinds) {
  const uint8_t *table;
  if (i < 0 || (uint64_t)i >= plan->values.n) return false;
  return kinds == 0 || (kinds >> eti_plan_value(plan, (size_t)i, &table) & 1u) != 0;
}

// Counts steps that a small file can demand in great numbers.
static et_status count_work(size_t *work, size_t n, et_error *err) {
  *work += n;
  ET_CHECK(n <= ET_MAX_PLAN_WORK && *work <= ET_MAX_PLAN_WORK, err, ET_NOT_SUPPORTED,
           "expected at most %u entries of shared lists (ET_MAX_PLAN_WORK), got %zu",
           ET_MAX_PLAN_WORK, *work);
  return ET_OK;
}

static et_status verify_list(const eti_plan *plan, unsigned code, const uint8_t *table,
                             size_t *work, et_error *err) {
  const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
  ET_TRY(count_work(work, items.n, err));
  ET_CHECK(items.data != NULL, err, ET_INVALID_PROGRAM, "the text or list has no contents");
  for (size_t i = 0; i < items.n; i++) {
    bool is_good = true;
    int64_t item = 0;
    if (code == PTE_INT_LIST) {
      item = eti_i64(items.data + 8 * i);
      is_good = is_value(plan, item, 0);
    } else if (code == PTE_BOOL_LIST) {
      item = items.data[i];
      is_good = item <= 1;
    } else if (code == PTE_TENSOR_LIST) {
      item = eti_i32(items.data + 4 * i);
      is_good = is_value(plan, item, 1u << PTE_TENSOR);
    } else if (code == PTE_OPTIONAL_TENSOR_LIST) {
      item = eti_i32(items.data + 4 * i);
      is_good = item == -1 || is_value(plan, item, 1u << PTE_TENSOR | 1u << PTE_NULL);
    }
    ET_CHECK(is_good, err, ET_INVALID_PROGRAM,
             "list entry %zu: expected a value that such a list can hold, got %lld", i,
             (long long)item);
  }
  return ET_OK;
}

static et_status verify_value(const et_program *program, const eti_plan *plan, size_t i,
                              size_t *work, et_error *err) {
  const uint8_t *table;
  const unsigned code = eti_plan_value(plan, i, &table);
  ET_CHECK(code >= PTE_NULL && code <= PTE_OPTIONAL_TENSOR_LIST, err, ET_INVALID_PROGRAM,
           "expected a kind of 1 to 11, got %u", code);
  if (code == PTE_TENSOR) return verify_tensor(program, plan, table, err);
  return code >= PTE_STRING ? verify_list(plan, code, table, work, err) : ET_OK;
}

static et_status verify_instruction(const eti_plan *plan, size_t i, size_t *work, et_error *err) {
  eti_instruction_facts in;
  ET_TRY(eti_instruction_read(plan, i, &in, err));
  const size_t n_targets = in.kind == PTE_KERNEL_CALL     ? plan->operators.n
                           : in.kind == PTE_DELEGATE_CALL ? plan->delegates.n
                                                          : 1;
  ET_CHECK(in.index >= 0 && (size_t)in.index < n_targets && in.args != NULL, err,
           ET_INVALID_PROGRAM, "expected an operator or delegate below %zu, got %ld%s", n_targets,
           (long)in.index, in.args == NULL ? " and no arguments" : "");
  for (size_t k = 0; k < in.n_args; k++) {
    const int32_t arg = eti_i32(in.args + 4 * k);
    const uint8_t *table;
    ET_CHECK(is_value(plan, arg, in.kind == PTE_FREE_CALL ? 1u << PTE_TENSOR : 0), err,
             ET_INVALID_PROGRAM, "argument %zu: expected a %s index below %zu, got %ld", k,
             in.kind == PTE_FREE_CALL ? "tensor" : "value", plan->values.n, (long)arg);
    const unsigned code = eti_plan_value(plan, (size_t)arg, &table);
    ET_TRY(count_work(work, 1 + eti_tensor_list(code, table).n, err));
  }
  return ET_OK;
}

// Inputs and outputs. A constant cannot be an input: setting it would write into the file.
static et_status verify_slots(const eti_plan *plan, eti_vector slots, bool are_inputs,
                              et_error *err) {
  for (size_t i = 0; i < slots.n; i++) {
    const int32_t index = eti_i32(slots.data + 4 * i);
    const char *what = are_inputs ? "input" : "output";
    ET_CHECK(is_value(plan, index, 0), err, ET_INVALID_PROGRAM,
             "%s %zu: expected a value index below %zu, got %ld", what, i, plan->values.n,
             (long)index);
    const uint8_t *table;
    eti_tensor_facts t;
    if (!are_inputs || eti_plan_value(plan, (size_t)index, &table) != PTE_TENSOR) continue;
    ET_TRY(eti_tensor_read(table, &t, err));
    ET_CHECK(!eti_is_constant(&t), err, ET_INVALID_PROGRAM,
             "%s %zu is a constant, which cannot be set", what, i);
  }
  return ET_OK;
}

static et_status verify_tables(const et_program *program, const eti_plan *plan, et_error *err) {
  ET_CHECK(plan->chains.n > 0 && plan->buffer_sizes.n > 0, err, ET_INVALID_PROGRAM,
           "plan: expected at least 1 chain and 1 memory size, got %zu and %zu", plan->chains.n,
           plan->buffer_sizes.n);
  for (size_t i = 0; i < plan->chains.n; i++) {
    ET_CHECK(eti_fb_vector(eti_fb_at(plan->chains, i), PTE_CHAIN_INSTRUCTIONS).data != NULL, err,
             ET_INVALID_PROGRAM, "chain %zu has no instructions", i);
  }
  for (size_t i = 0; i < plan->buffer_sizes.n; i++) {
    const uint64_t size = eti_u64(plan->buffer_sizes.data + 8 * i);
    ET_CHECK(size <= PTRDIFF_MAX, err, ET_INVALID_PROGRAM,
             "memory %zu: size %lld is negative or too large", i, (long long)size);
  }
  for (size_t i = 0; i < plan->operators.n; i++) {
    ET_CHECK(eti_fb_string(eti_fb_at(plan->operators, i), PTE_OPERATOR_NAME) != NULL, err,
             ET_INVALID_PROGRAM, "operator %zu has no name", i);
  }
  for (size_t i = 0; i < plan->delegates.n; i++) {
    const uint8_t *delegate = eti_fb_at(plan->delegates, i);
    eti_payload payload;
    ET_CHECK(eti_fb_string(delegate, PTE_DELEGATE_ID) != NULL, err, ET_INVALID_PROGRAM,
             "delegate %zu has no id", i);
    ET_TRY(eti_payload_find(program, delegate, &payload, err));
    const eti_vector specs = eti_fb_vector(delegate, PTE_DELEGATE_SPECS);
    for (size_t k = 0; k < specs.n; k++) {
      ET_CHECK(eti_fb_string(eti_fb_at(specs, k), PTE_SPEC_KEY) != NULL, err, ET_INVALID_PROGRAM,
               "delegate %zu: compile spec %zu has no key", i, k);
    }
  }
  const eti_vector devices = eti_fb_vector(plan->table, PTE_PLAN_BUFFER_DEVICES);
  for (size_t i = 0; i < devices.n; i++) {
    ET_CHECK(eti_fb_u8(eti_fb_at(devices, i), PTE_BUFFER_DEVICE_TYPE) == 0, err, ET_NOT_SUPPORTED,
             "planned memory: expected device type 0 (CPU), got %d",
             eti_fb_u8(eti_fb_at(devices, i), PTE_BUFFER_DEVICE_TYPE));
  }
  return ET_OK;
}

et_status eti_plan_verify(const et_program *program, eti_plan *plan, et_error *err) {
  const char *what = "";
  size_t i = 0, work = 0;
  et_status status = verify_tables(program, plan, err);
  for (; status == ET_OK && i < plan->values.n; i++) {
    status = verify_value(program, plan, i, &work, err);
    what = "value ";
  }
  if (status == ET_OK) {
    for (i = 0; status == ET_OK && i < plan->n_instructions; i++) {
      status = verify_instruction(plan, i, &work, err);
      what = "instruction ";
    }
  }
  if (status != ET_OK) {
    if (*what != '\0') ET_CONTEXT(err, "%s%zu: ", what, i - 1);
    return status;
  }
  ET_TRY(verify_slots(plan, plan->inputs, true, err));
  ET_TRY(verify_slots(plan, plan->outputs, false, err));
#if defined(ET_DEBUG)
  plan->is_verified = true;
#endif
  return ET_OK;
}
