// method_load.c — measuring and loading a method: one function makes the same claims in the same
// order, once to count and once to fill. Builds the tables; values, calls and prepare steps have
// their own files.
#include "runtime/bytes.h"
#include "runtime/method_loader.h"

// ---- Instructions

// Unplans a view's result: it starts every run without memory, even when the file planned some. Its
// data may point into a caller's input, which a later run must not see.
static et_status unplan_view(eti_loader *l, const eti_instruction_facts *in) {
  ET_ASSERT(in->n_args > 0);
  const uint32_t value = eti_u32(in->args + 4 * (size_t)(in->n_args - 1));
  const uint8_t *table;
  eti_tensor_facts t;
  if (eti_plan_value(&l->plan, value, &table) != PTE_TENSOR) return ET_OK;
  ET_TRY(eti_tensor_read(table, &t, l->err));
  if (t.place == ETI_PLACE_NONE) return ET_OK;  // already unplanned
  for (size_t i = 0; i < l->plan.inputs.n; i++) {
    ET_CHECK(eti_u32(l->plan.inputs.data + 4 * i) != value && ++l->work <= ET_MAX_PLAN_WORK, l->err,
             ET_INVALID_PROGRAM, "the result of a view is input %zu, which has planned memory", i);
  }
  eti_unplanned *unplanned = ETI_CLAIM(&l->arena, eti_unplanned, 1);
  if (unplanned == NULL) return eti_arena_status(&l->arena, l->err);
  et_value *result = &l->method->values[value];
  ET_ASSERT(result->tag == ET_TENSOR);
  const eti_unplanned filled = {.next = l->method->unplanned,
                                .tensor = result->as.tensor,
                                .capacity = t.numel,
                                .bound = t.numel};
  *unplanned = filled;
  l->method->unplanned = unplanned;
  result->flags = ETI_VALUE_UNPLANNED;
  return ET_OK;
}

static et_status build_instruction(eti_loader *l, size_t i, const eti_instruction_facts *in) {
  eti_instruction filled = {.kind = (uint8_t)in->kind, .n_done = 1, .n_args = in->n_args};
  et_value **args = ETI_CLAIM(&l->arena, et_value *, in->n_args);
  ET_TRY(eti_arena_status(&l->arena, l->err));
  if (in->kind == PTE_KERNEL_CALL) {
    filled.call.op = eti_loader_op(l, (size_t)in->index);
    ET_TRY(eti_check_call(l, filled.call.op, in, &filled.u.writes));
    if (filled.call.op->is_view && in->n_args > 0) ET_TRY(unplan_view(l, in));
    ET_TRY(eti_prepare_call(l, in, &filled.call));
  } else if (in->kind == PTE_JUMP_FALSE_CALL) {
    filled.u.target = in->target;
  }
  if (l->method == NULL) return ET_OK;
  if (in->kind == PTE_DELEGATE_CALL) filled.u.delegate = &l->method->delegates[in->index];
  for (size_t k = 0; k < in->n_args; k++) args[k] = &l->method->values[eti_u32(in->args + 4 * k)];
  if (in->kind == PTE_MOVE_CALL) args[1]->flags = ETI_VALUE_UNPLANNED;
  filled.call.args = args;
  l->method->code[i] = filled;
  return ET_OK;
}

static et_status build_instructions(eti_loader *l) {
  for (size_t i = 0; i < l->plan.n_instructions; i++) {
    eti_instruction_facts in;
    ET_TRY(eti_instruction_read(&l->plan, i, &in, l->err));
    const et_status status = build_instruction(l, i, &in);
    if (status == ET_OK) continue;
#if ET_MESSAGES
    const char *name, *overload;
    eti_instruction_name(&l->plan, &in, &name, &overload);
    const bool has_overload = overload != NULL && *overload != '\0';
    ET_CONTEXT(l->err, "instruction %zu (%s%s%s): ", i, name, has_overload ? "." : "",
               has_overload ? overload : "");
#endif
    return status;
  }
  return ET_OK;
}

// Marks the instructions that must check their tensors before each run; all unplanned values are
// known by now. Offers each other call to the kernel of the call before it (et_absorb_fn).
static void link_calls(et_method *method) {
  const et_call *next = NULL;
  for (size_t i = method->plan.n_instructions; i-- > 0;) {
    eti_instruction *in = &method->code[i];
    // Moves, jumps and frees check their own operands.
    for (size_t k = 0; in->kind < PTE_MOVE_CALL && k < in->n_args; k++) {
      const et_value *v = in->call.args[k];
      in->is_checked |= (v->flags & ETI_VALUE_UNPLANNED) != 0;
      if (v->tag != ET_TENSOR_LIST && v->tag != ET_OPTIONAL_TENSOR_LIST) continue;
      for (size_t m = 0; m < v->n; m++) {
        in->is_checked |=
            v->as.list[m] != NULL && (v->as.list[m]->flags & ETI_VALUE_UNPLANNED) != 0;
      }
    }
    if (next != NULL && in->call.op != NULL && in->call.op->absorb != NULL)
      in->n_done = in->call.op->absorb(&in->call, next) ? 2 : 1;
    next = in->is_checked || in->call.op == NULL ? NULL : &in->call;
  }
}

// Fills inputs and outputs. Meanwhile the data of a tensor without memory points to its record.
static void fill_slots(et_method *method) {
  for (eti_unplanned *unplanned = method->unplanned; unplanned != NULL; unplanned = unplanned->next)
    unplanned->tensor->data = unplanned;
  const eti_vector lists[2] = {method->plan.inputs, method->plan.outputs};
  eti_slot *slot = method->slots;
  for (size_t s = 0; s < 2; s++) {
    for (size_t i = 0; i < lists[s].n; i++, slot++) {
      memset(slot, 0, sizeof *slot);
      slot->value = &method->values[eti_u32(lists[s].data + 4 * i)];
      if (slot->value->tag != ET_TENSOR) continue;
      slot->tensor = slot->value->as.tensor;
      ET_ASSERT(s == 1 || (slot->tensor->flags & ET_TENSOR_CONSTANT) == 0);
      if ((slot->tensor->flags & (ET_TENSOR_PLANNED | ET_TENSOR_CONSTANT)) == 0)
        slot->unplanned = slot->tensor->data;
    }
  }
  for (eti_unplanned *unplanned = method->unplanned; unplanned != NULL; unplanned = unplanned->next)
    unplanned->tensor->data = NULL;
}

// ---- Both passes

static et_status check_planned(const eti_loader *l) {
  const size_t n = l->plan.buffer_sizes.n - 1;
  ET_CHECK(l->memory->n_planned >= n, l->err, ET_INVALID_ARGUMENT,
           "planned buffers: expected %zu, got %zu", n, l->memory->n_planned);
  for (size_t i = 0; i < n; i++) {
    const et_span span = l->memory->planned[i];
    const uint64_t needed = eti_u64(l->plan.buffer_sizes.data + 8 * (i + 1));
    ET_CHECK(needed <= span.size && (needed == 0 || span.data != NULL), l->err, ET_OUT_OF_MEMORY,
             "planned buffer %zu: expected %llu bytes, got %zu", i, (unsigned long long)needed,
             span.size);
    ET_CHECK(needed == 0 || eti_is_aligned(span.data, 16), l->err, ET_INVALID_ARGUMENT,
             "planned buffer %zu: expected an address that is a multiple of 16, got 0x%llx", i,
             (unsigned long long)(uintptr_t)span.data);
  }
  return ET_OK;
}

static et_status claim_tables(eti_loader *l) {
  const size_t n_slots = l->plan.inputs.n + l->plan.outputs.n;
  et_method *method = ETI_CLAIM(&l->arena, et_method, 1);
  et_value *values = ETI_CLAIM(&l->arena, et_value, l->plan.values.n);
  eti_instruction *code = ETI_CLAIM(&l->arena, eti_instruction, l->plan.n_instructions);
  eti_slot *slots = ETI_CLAIM(&l->arena, eti_slot, n_slots);
  eti_delegate *delegates = ETI_CLAIM(&l->arena, eti_delegate, l->plan.delegates.n);
  ET_TRY(eti_arena_status(&l->arena, l->err));
  if (l->memory == NULL) return ET_OK;
  memset(method, 0, sizeof *method);
  memset(delegates, 0, l->plan.delegates.n * sizeof *delegates);
  method->program = l->program;
  method->plan = l->plan;
  method->values = values;
  method->code = code;
  method->slots = slots;
  method->delegates = delegates;
  method->named = l->named;
  method->pool = l->config->pool;
  atomic_init(&method->is_busy, false);
  atomic_init(&method->is_interrupted, false);
  l->method = method;
  return check_planned(l);
}

// The one code path of measuring and loading. On failure the caller closes l->method.
static et_status load_plan(eti_loader *l) {
  ET_TRY(eti_plan_verify(l->program, &l->plan, l->err));
  ET_TRY(eti_named_data_verify(&l->named, l->err));
  ET_TRY(eti_check_missing(l));
  eti_find_written(l);
  ET_TRY(claim_tables(l));
  for (size_t i = 0; i < l->plan.values.n; i++) {
    const et_status status =
        eti_build_value(l, i, l->method == NULL ? NULL : &l->method->values[i]);
    if (status != ET_OK) {
      ET_CONTEXT(l->err, "value %zu: ", i);
      return status;
    }
  }
  for (size_t i = 0; i < l->plan.delegates.n; i++) {
    ET_TRY(eti_init_delegate(l, i, l->method == NULL ? NULL : &l->method->delegates[i]));
  }
  ET_TRY(build_instructions(l));
  if (l->method == NULL) return ET_OK;
  const et_span scratch = eti_span_aligned(l->memory->scratch);
  ET_CHECK(scratch.size >= l->scratch_bytes, l->err, ET_OUT_OF_MEMORY,
           "scratch memory: expected %zu bytes, got %zu", l->scratch_bytes, scratch.size);
  l->method->scratch = scratch.data;
  l->method->scratch_bytes = l->scratch_bytes;
  ET_ASSERT(l->method->n_ready == l->plan.delegates.n);
  ET_ASSERT(!l->arena.failed && l->arena.used <= l->arena.size);
  link_calls(l->method);
  fill_slots(l->method);
  return ET_OK;
}

// Measures when memory is NULL, else loads.
static et_status run_loader(eti_loader *l, const et_program *program, const char *name,
                            const et_method_config *config, const et_method_memory *memory,
                            et_error *err) {
  memset(l, 0, sizeof *l);
  l->program = program;
  l->config = config;
  l->memory = memory;
  l->err = err;
  l->named.program = program;
  l->named.maps = config->data_maps;
  l->named.n_maps = config->n_data_maps;
  ET_TRY(eti_plan_find(program, name, &l->plan, err));
  l->arena = memory == NULL ? eti_arena_counting() : eti_arena_over(memory->method);
  const et_status status = load_plan(l);
#if ETI_POISON
  eti_unpoison(l->room, sizeof l->room);
  if (status == ET_OK && l->method != NULL) l->method->arena = l->arena;
#endif
  if (status != ET_OK) {
    ET_CONTEXT(err, "method '%s': ", name);
    et_method_close(l->method);
    eti_arena_end(&l->arena);
  }
  return status;
}

et_status et_method_measure(const et_program *program, const char *name,
                            const et_method_config *config, et_method_needs *needs, et_error *err) {
  eti_loader l;
  ET_TRY(run_loader(&l, program, name, config, NULL, err));
  ET_ASSERT(l.method == NULL && l.arena.measuring && l.plan.buffer_sizes.n > 0);
  needs->method_bytes = l.arena.used;
  needs->scratch_bytes = l.scratch_bytes;
  needs->n_planned = l.plan.buffer_sizes.n - 1;
  return ET_OK;
}

et_status et_method_load(const et_program *program, const char *name,
                         const et_method_config *config, const et_method_memory *memory,
                         et_method **method, et_error *err) {
  eti_loader l;
  ET_TRY(run_loader(&l, program, name, config, memory, err));
  *method = l.method;
  return ET_OK;
}

void et_method_close(et_method *method) {
  if (method == NULL) return;
  while (method->n_ready > 0) {
    eti_delegate *delegate = &method->delegates[--method->n_ready];
    if (delegate->backend->destroy != NULL) delegate->backend->destroy(delegate->handle);
    eti_source_release(&delegate->payload);
  }
  for (; method->held != NULL; method->held = method->held->next)
    eti_source_release(&method->held->blob);
#if ETI_POISON
  const et_arena arena = method->arena;  // it contains the method
  eti_arena_end(&arena);
#endif
}
