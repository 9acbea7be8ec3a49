// method_meta.c — facts of a method, read from the file without loading it: signature, memory
// needs, operators. Each query checks only the parts it reads, so the sound parts of a damaged
// method can be described.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte.h"

static bool is_attribute(const eti_plan *plan, size_t i, const uint8_t **table) {
  return eti_plan_value(plan, i, table) == PTE_TENSOR &&
         eti_fb_string(eti_fb_table(*table, PTE_TENSOR_EXTRA), PTE_EXTRA_NAME) != NULL;
}

// Index of the n-th named tensor; the number of values when there are fewer. *found counts them.
static size_t find_attribute(const eti_plan *plan, size_t n, size_t *found) {
  const uint8_t *table;
  *found = 0;
  for (size_t i = 0; i < plan->values.n; i++) {
    if (is_attribute(plan, i, &table) && (*found)++ == n) return i;
  }
  return plan->values.n;
}

et_status et_program_method_info(const et_program *program, const char *name, et_method_info *info,
                                 et_error *err) {
  eti_plan plan;
  ET_TRY(eti_plan_find(program, name, &plan, err));
  const uint8_t *container = eti_fb_table(plan.table, PTE_PLAN_CONTAINER);
  const char *inputs = eti_fb_string(container, PTE_CONTAINER_INPUTS);
  const char *outputs = eti_fb_string(container, PTE_CONTAINER_OUTPUTS);
  memset(info, 0, sizeof *info);
  info->name = plan.name;
  info->n_inputs = plan.inputs.n;
  info->n_outputs = plan.outputs.n;
  find_attribute(&plan, SIZE_MAX, &info->n_attributes);
  info->n_values = plan.values.n;
  info->n_instructions = plan.n_instructions;
  info->n_operators = plan.operators.n;
  info->n_delegates = plan.delegates.n;
  info->n_planned = plan.buffer_sizes.n == 0 ? 0 : plan.buffer_sizes.n - 1;  // entry 0 is reserved
  info->input_structure = inputs == NULL ? "" : inputs;
  info->output_structure = outputs == NULL ? "" : outputs;
  return ET_OK;
}

et_status et_program_planned_bytes(const et_program *program, const char *name, size_t i,
                                   size_t *bytes, et_error *err) {
  eti_plan plan;
  ET_TRY(eti_plan_find(program, name, &plan, err));
  ET_CHECK(i + 1 < plan.buffer_sizes.n && i + 1 != 0, err, ET_INVALID_ARGUMENT,
           "planned buffer %zu: method '%s' has only %ld", i, name, (long)plan.buffer_sizes.n - 1);
  const uint64_t size = eti_u64(plan.buffer_sizes.data + 8 * (i + 1));
  ET_CHECK(size <= PTRDIFF_MAX, err, ET_INVALID_PROGRAM,
           "planned buffer %zu: size %lld is negative or too large", i, (long long)size);
  *bytes = (size_t)size;
  return ET_OK;
}

static void describe(const eti_tensor_facts *t, et_tensor_info *info) {
  memset(info, 0, sizeof *info);
  info->dtype = (et_dtype)t->dtype;
  info->rank = t->rank;
  memcpy(info->sizes, t->sizes, t->rank * sizeof *t->sizes);
  memcpy(info->dim_order, t->dim_order, t->rank);
  info->bytes = t->bytes;
  info->is_dynamic = t->is_dynamic;
  info->is_planned = t->place != ETI_PLACE_NONE;
  info->has_data = t->place != ETI_PLACE_NONE && t->place != ETI_PLACE_PLANNED;
  info->name = t->name;
}

et_status et_program_slot_info(const et_program *program, const char *name, et_slot_kind kind,
                               size_t i, et_tag *tag, et_tensor_info *info, et_error *err) {
  eti_plan plan;
  ET_TRY(eti_plan_find(program, name, &plan, err));
  const eti_vector slots = kind == ET_SLOT_INPUT ? plan.inputs : plan.outputs;
  size_t index, n = slots.n;
  if (kind == ET_SLOT_ATTRIBUTE) {
    index = find_attribute(&plan, i, &n);
    ET_CHECK(index < plan.values.n, err, ET_INVALID_ARGUMENT,
             "attribute %zu: method '%s' has only %zu", i, name, n);
  } else {
    ET_CHECK(i < n, err, ET_INVALID_ARGUMENT, "%s %zu: method '%s' has only %zu",
             kind == ET_SLOT_INPUT ? "input" : "output", i, name, n);
    index = eti_u32(slots.data + 4 * i);
    ET_CHECK(index < plan.values.n, err, ET_INVALID_PROGRAM,
             "method '%s', slot %zu: expected a value index below %zu, got %ld", name, i,
             plan.values.n, (long)(int32_t)index);
  }
  const uint8_t *table;
  const unsigned code = eti_plan_value(&plan, index, &table);
  ET_CHECK(code >= PTE_NULL && code <= PTE_OPTIONAL_TENSOR_LIST, err, ET_INVALID_PROGRAM,
           "method '%s', value %zu: expected a kind of 1 to 11, got %u", name, index, code);
  if (code == PTE_TENSOR) {
    eti_tensor_facts t;
    ET_TRY(eti_tensor_read(table, &t, err));
    if (info != NULL) describe(&t, info);
  }
  if (tag != NULL) *tag = eti_tag(code);
  return ET_OK;
}

et_status et_program_visit_operators(const et_program *program, const char *name, et_visit_op visit,
                                     void *ctx, et_error *err) {
  eti_plan plan;
  ET_TRY(eti_plan_find(program, name, &plan, err));
  for (unsigned kind = PTE_KERNEL_CALL; kind <= PTE_DELEGATE_CALL; kind++) {
    const eti_vector list = kind == PTE_KERNEL_CALL ? plan.operators : plan.delegates;
    ET_CHECK((uint64_t)list.n * plan.n_instructions <= ET_MAX_PLAN_WORK, err, ET_NOT_SUPPORTED,
             "method '%s': %zu instructions of %zu operators or delegates are too many to count",
             name, plan.n_instructions, list.n);
    for (size_t k = 0; k < list.n; k++) {
      eti_instruction_facts in = {.kind = kind, .index = (int32_t)k};
      const char *op_name, *overload;
      eti_instruction_name(&plan, &in, &op_name, &overload);
      eti_payload payload = {0};
      if (kind == PTE_DELEGATE_CALL)
        ET_TRY(eti_payload_find(program, eti_fb_at(list, k), &payload, err));
      size_t n_calls = 0;
      for (size_t i = 0; i < plan.n_instructions; i++) {
        ET_TRY(eti_instruction_read(&plan, i, &in, err));
        n_calls += in.kind == kind && in.index == (int32_t)k;
      }
      visit(ctx, op_name == NULL ? "" : op_name, overload == NULL ? "" : overload,
            kind == PTE_DELEGATE_CALL, n_calls, (size_t)payload.bytes);
    }
  }
  return ET_OK;
}
