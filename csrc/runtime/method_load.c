// method_load.c — measuring and loading a method: one function that makes the same claims in the same order, once counting
// and once filling. Resolves operators, checks them against what calls them, initialises delegates, prepares kernels.
#include "runtime/bytes.h"
#include "runtime/method_loader.h"
#include "runtime/op_table.h"

#include <stdalign.h>

static size_t n_threads(const et_method_config *config) {
  return config->pool == NULL || config->pool->n_threads == 0 ? 1 : config->pool->n_threads;
}

// ---- Operators

// Whether `value` is the result of a call, or a member of the list that is.
static bool is_result(const eti_plan *plan, const eti_instruction_facts *in, uint32_t value) {
  if (in->n_args == 0) return false;
  const uint32_t last = eti_u32(in->args + 4 * (size_t)(in->n_args - 1));
  const uint8_t *table;
  const unsigned code = eti_plan_value(plan, last, &table);
  if (last == value) return true;
  if (code != PTE_TENSOR_LIST && code != PTE_OPTIONAL_TENSOR_LIST) return false;
  const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
  for (size_t i = 0; i < items.n; i++) {
    if (eti_u32(items.data + 4 * i) == value) return true;
  }
  return false;
}

// One tensor, itself argument k of a call or a member of the list that is.
static et_status check_tensor(const eti_loader *l, const et_op *op, const eti_instruction_facts *in, size_t k, uint32_t value) {
  const uint8_t *table;
  eti_tensor_facts t;
  if (eti_plan_value(&l->plan, value, &table) != PTE_TENSOR) return ET_OK;  // None in an optional list
  ET_TRY(eti_tensor_read(table, &t, l->err));
  const bool is_written = is_result(&l->plan, in, value) || (k < 32 && (op->writes >> k & 1u) != 0);
  const et_dtype_set set = is_written ? op->out_dtypes : op->in_dtypes;
  ET_CHECK(!is_written || !eti_is_constant(&t), l->err, ET_INVALID_PROGRAM, "argument %zu is a constant and would be written",
           k);
  ET_CHECK(set == 0 || (set & ET_DTYPE_BIT(t.dtype)) != 0, l->err, ET_NOT_SUPPORTED,
           "argument %zu has element type %s, which the kernel lacks for %s", k, et_dtype_name((et_dtype)t.dtype),
           is_written ? "outputs" : "inputs");
  ET_CHECK(op->max_rank == 0 || t.rank <= op->max_rank, l->err, ET_NOT_SUPPORTED,
           "argument %zu has rank %zu, the kernel supports at most %d", k, t.rank, op->max_rank);
  return ET_OK;
}

static et_status check_call(const eti_loader *l, const et_op *op, const eti_instruction_facts *in) {
  ET_CHECK(in->n_args == op->n_args, l->err, ET_INVALID_PROGRAM, "%lu arguments, the operator takes %d",
           (unsigned long)in->n_args, op->n_args);
  for (size_t k = 0; k < in->n_args; k++) {
    const uint32_t value = eti_u32(in->args + 4 * k);
    const uint8_t *table;
    const unsigned code = eti_plan_value(&l->plan, value, &table);
    if (code == PTE_TENSOR) ET_TRY(check_tensor(l, op, in, k, value));
    if (code != PTE_TENSOR_LIST && code != PTE_OPTIONAL_TENSOR_LIST) continue;
    const eti_vector items = eti_fb_vector(table, PTE_LIST_ITEMS);
    for (size_t i = 0; i < items.n; i++) {
      const int32_t member = eti_i32(items.data + 4 * i);
      if (member >= 0) ET_TRY(check_tensor(l, op, in, k, (uint32_t)member));
    }
  }
  return ET_OK;
}

static const et_op *find_op(const eti_loader *l, size_t i) {
  const uint8_t *op = eti_fb_at(l->plan.operators, i);
  return eti_op_find(l->config->ops, eti_fb_string(op, PTE_OPERATOR_NAME), eti_fb_string(op, PTE_OPERATOR_OVERLOAD));
}

static const et_backend *find_backend(const eti_loader *l, size_t i) {
  const char *id = eti_fb_string(eti_fb_at(l->plan.delegates, i), PTE_DELEGATE_ID);
  const et_backend_table *table = l->config->backends;
  for (size_t k = 0; table != NULL && k < table->n_backends; k++) {
    const et_backend *backend = table->backends[k];
    if (strcmp(backend->id, id) == 0) return backend->is_available == NULL || backend->is_available() ? backend : NULL;
  }
  return NULL;
}

// The first instruction that calls an operator; false when none does.
static bool find_call(const eti_plan *plan, size_t op, eti_instruction_facts *in) {
  for (size_t i = 0; i < plan->n_instructions; i++) {
    if (eti_instruction_read(plan, i, in, NULL) != ET_OK) return false;
    if (in->kind == PTE_KERNEL_CALL && (size_t)in->index == op) return true;
  }
  return false;
}

#if ET_MESSAGES
// Element types of a call's tensors: "aten::foo.out(f32, i64, f32)".
static void append_call(et_error *err, const eti_plan *plan, const eti_instruction_facts *in) {
  const char *name, *overload, *comma = "";
  eti_instruction_name(plan, in, &name, &overload);
  const bool has_overload = overload != NULL && *overload != '\0';
  ET_APPEND(err, " %s%s%s(", name, has_overload ? "." : "", has_overload ? overload : "");
  for (size_t k = 0; k + 1 < in->n_args; k++) {  // the last one repeats the result
    const uint8_t *table;
    if (eti_plan_value(plan, eti_u32(in->args + 4 * k), &table) != PTE_TENSOR) continue;
    ET_APPEND(err, "%s%s", comma, et_dtype_name((et_dtype)eti_fb_u8(table, PTE_TENSOR_DTYPE)));
    comma = ", ";
  }
  ET_APPEND(err, ")");
}
#else
#define append_call(err, plan, in) ((void)(err))
#endif

// Reports everything that the caller's tables lack, at once.
static et_status check_missing(const eti_loader *l) {
  et_status status = ET_OK;
  eti_instruction_facts in;
  for (size_t i = 0; i < l->plan.operators.n; i++) {
    if (find_op(l, i) != NULL || !find_call(&l->plan, i, &in)) continue;
    if (status == ET_OK) status = ET_FAIL(l->err, ET_OPERATOR_MISSING, "no kernel for:");
    append_call(l->err, &l->plan, &in);
  }
  bool is_first = true;
  for (size_t i = 0; i < l->plan.delegates.n; i++) {
    if (find_backend(l, i) != NULL) continue;
    if (status == ET_OK) status = ET_FAIL(l->err, ET_NOT_FOUND, "%s", "");
    if (is_first) ET_APPEND(l->err, "%sno available backend for:", status == ET_OPERATOR_MISSING ? "; " : "");
    is_first = false;
    ET_APPEND(l->err, " %s", eti_fb_string(eti_fb_at(l->plan.delegates, i), PTE_DELEGATE_ID));
  }
#if ET_MESSAGES
  if (is_first) return status;
  ET_APPEND(l->err, " (available:");
  const et_backend_table *table = l->config->backends;
  for (size_t k = 0; table != NULL && k < table->n_backends; k++) {
    const et_backend *backend = table->backends[k];
    if (backend->is_available == NULL || backend->is_available()) ET_APPEND(l->err, " %s", backend->id);
  }
  ET_APPEND(l->err, ")");
#endif
  return status;
}

// ---- Preparing

static et_prepare_ctx prepare_ctx(const eti_loader *l) {
  const et_prepare_ctx ctx = {
      .err = l->err, .n_threads = n_threads(l->config), .measuring = l->method == NULL, .arena = l->arena};
  return ctx;
}

static et_status finish_prepare(eti_loader *l, const et_prepare_ctx *ctx) {
  if (ctx->scratch_bytes > l->scratch_bytes) l->scratch_bytes = ctx->scratch_bytes;
  return ctx->status != ET_OK ? ctx->status : eti_arena_status(l->arena, l->err);
}

static et_status prepare_call(eti_loader *l, const et_op *op, const eti_instruction_facts *in, void **state) {
  *state = NULL;
  if (op->prepare == NULL || l->config->no_prepare) return ET_OK;
  alignas(ET_MEMORY_ALIGN) uint8_t bytes[ET_PREPARE_ROOM_BYTES];
  eti_temporary temporary = {.room = eti_arena_over((et_span){bytes, sizeof bytes})};
  et_value *values = ETI_CLAIM(&temporary.room, et_value, in->n_args);
  et_value **args = ETI_CLAIM(&temporary.room, et_value *, in->n_args);
  bool is_complete = !temporary.room.failed;
  for (size_t k = 0; is_complete && k < in->n_args; k++) {
    args[k] = &values[k];
    is_complete = eti_build_temporary(l, eti_u32(in->args + 4 * k), &temporary, args[k], false);
  }
  et_status status = ET_OK;
  if (is_complete) {
    et_prepare_ctx ctx = prepare_ctx(l);
    status = op->prepare(&ctx, args);
    if (status == ET_OK) status = finish_prepare(l, &ctx);
    *state = ctx.state;
  }
  for (size_t k = 0; k < temporary.n_blobs; k++) eti_source_release(&temporary.blobs[k]);
  return status;
}

// ---- Delegates

static et_status init_payload(eti_loader *l, const uint8_t *delegate, const et_backend *backend, const et_blob *payload,
                              eti_delegate *out, bool *keep) {
  alignas(ET_MEMORY_ALIGN) uint8_t bytes[ET_PREPARE_ROOM_BYTES];
  et_arena room = eti_arena_over((et_span){bytes, sizeof bytes});
  const eti_vector list = eti_fb_vector(delegate, PTE_DELEGATE_SPECS);
  et_compile_spec *specs = ETI_CLAIM(&room, et_compile_spec, list.n);
  ET_CHECK(specs != NULL, l->err, ET_OUT_OF_RESOURCES, "%zu compile specs do not fit in %u bytes (ET_PREPARE_ROOM_BYTES)",
           list.n, ET_PREPARE_ROOM_BYTES);
  for (size_t k = 0; k < list.n; k++) {
    const uint8_t *spec = eti_fb_at(list, k);
    const eti_vector value = eti_fb_vector(spec, PTE_SPEC_VALUE);
    const et_compile_spec filled = {eti_fb_string(spec, PTE_SPEC_KEY), value.data, value.n};
    specs[k] = filled;
  }
  et_prepare_ctx ctx = prepare_ctx(l);
  const et_named_data named = eti_named_data_handle(l->method == NULL ? &l->named : &l->method->named);
  et_delegate_init init = {.prepare = &ctx,
                           .method_name = l->plan.name,
                           .payload = payload->data,
                           .payload_bytes = payload->size,
                           .n_specs = list.n,
                           .specs = specs,
                           .named_data = &named,
                           .pool = l->config->pool};
  void *handle = NULL;
  ET_TRY(backend->init(&init, &handle));
  *keep = init.keep_payload;
  if (l->method != NULL) {
    out->backend = backend;
    out->handle = handle;
    l->method->n_ready++;
  }
  return finish_prepare(l, &ctx);
}

static et_status init_delegate(eti_loader *l, size_t i, eti_delegate *out) {
  const uint8_t *delegate = eti_fb_at(l->plan.delegates, i);
  eti_payload payload;
  ET_TRY(eti_payload_find(l->program, delegate, &payload, l->err));
  et_blob blob = {.data = payload.data, .size = (size_t)payload.bytes};
  if (payload.data == NULL) ET_TRY(eti_source_load(&l->program->source, payload.offset, payload.bytes, &blob, l->err));
  bool keep = false;
  const et_status status = init_payload(l, delegate, find_backend(l, i), &blob, out, &keep);
  if (status == ET_OK && keep && l->method != NULL) {
    out->payload = blob;
  } else {
    eti_source_release(&blob);
  }
  if (status != ET_OK) {
    ET_CONTEXT(l->err, "delegate %zu (%s): ", i, eti_fb_string(delegate, PTE_DELEGATE_ID));
  }
  return status;
}

// ---- Instructions

// A view's result starts every run without memory, also when the file planned some for it: its data may come to point
// into a caller's input, which a later run must not see.
static et_status loosen_view(eti_loader *l, const eti_instruction_facts *in) {
  const uint32_t value = eti_u32(in->args + 4 * (size_t)(in->n_args - 1));
  const uint8_t *table;
  eti_tensor_facts t;
  if (eti_plan_value(&l->plan, value, &table) != PTE_TENSOR) return ET_OK;
  ET_TRY(eti_tensor_read(table, &t, l->err));
  if (t.place == ETI_PLACE_NONE) return ET_OK;  // is loose already
  eti_loose *loose = ETI_CLAIM(l->arena, eti_loose, 1);
  if (loose == NULL) return eti_arena_status(l->arena, l->err);
  et_value *result = &l->method->values[value];
  const eti_loose filled = {
      .next = l->method->loose, .tensor = result->as.tensor, .capacity = t.numel, .bound = t.numel};
  *loose = filled;
  l->method->loose = loose;
  result->flags = ETI_VALUE_LOOSE;
  return ET_OK;
}

static et_status build_instruction(eti_loader *l, size_t i, const eti_instruction_facts *in) {
  eti_instruction filled = {.kind = (uint8_t)in->kind, .n_args = in->n_args};
  et_value **args = ETI_CLAIM(l->arena, et_value *, in->n_args);
  ET_TRY(eti_arena_status(l->arena, l->err));
  if (in->kind == PTE_KERNEL_CALL) {
    filled.u.op = find_op(l, (size_t)in->index);
    ET_TRY(check_call(l, filled.u.op, in));
    if (filled.u.op->is_view && in->n_args > 0) ET_TRY(loosen_view(l, in));
    ET_TRY(prepare_call(l, filled.u.op, in, &filled.state));
  } else if (in->kind == PTE_JUMP_FALSE_CALL) {
    filled.u.target = in->target;
  }
  if (l->method == NULL) return ET_OK;
  if (in->kind == PTE_DELEGATE_CALL) filled.u.delegate = &l->method->delegates[in->index];
  for (size_t k = 0; k < in->n_args; k++) args[k] = &l->method->values[eti_u32(in->args + 4 * k)];
  if (in->kind == PTE_MOVE_CALL) args[1]->flags = ETI_VALUE_LOOSE;
  filled.args = args;
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
    ET_CONTEXT(l->err, "instruction %zu (%s%s%s): ", i, name, has_overload ? "." : "", has_overload ? overload : "");
#endif
    return status;
  }
  return ET_OK;
}

// Marks the instructions that must look at their tensors before they run, now that all loose values are known.
static void mark_checked(et_method *method) {
  for (size_t i = 0; i < method->plan.n_instructions; i++) {
    eti_instruction *in = &method->code[i];
    for (size_t k = 0; k < in->n_args; k++) {
      const et_value *v = in->args[k];
      in->is_checked |= (v->flags & ETI_VALUE_LOOSE) != 0;
      if (v->tag != ET_TENSOR_LIST && v->tag != ET_OPTIONAL_TENSOR_LIST) continue;
      for (size_t m = 0; m < v->n; m++) {
        in->is_checked |= v->as.list[m] != NULL && (v->as.list[m]->flags & ETI_VALUE_LOOSE) != 0;
      }
    }
  }
}

static void fill_slots(et_method *method) {
  const eti_vector lists[2] = {method->plan.inputs, method->plan.outputs};
  eti_slot *slot = method->slots;
  for (size_t s = 0; s < 2; s++) {
    for (size_t i = 0; i < lists[s].n; i++, slot++) {
      memset(slot, 0, sizeof *slot);
      slot->value = &method->values[eti_u32(lists[s].data + 4 * i)];
      if (slot->value->tag != ET_TENSOR) continue;
      slot->tensor = slot->value->as.tensor;
      if ((slot->tensor->flags & ET_TENSOR_PLANNED) != 0) continue;
      slot->loose = method->loose;
      while (slot->loose != NULL && slot->loose->tensor != slot->tensor) slot->loose = slot->loose->next;
    }
  }
}

// ---- Both passes

static et_status check_planned(const eti_loader *l) {
  const size_t n = l->plan.buffer_sizes.n - 1;
  ET_CHECK(l->memory->n_planned >= n, l->err, ET_INVALID_ARGUMENT, "%zu planned buffers given, the method needs %zu",
           l->memory->n_planned, n);
  for (size_t i = 0; i < n; i++) {
    const et_span span = l->memory->planned[i];
    const uint64_t needed = eti_u64(l->plan.buffer_sizes.data + 8 * (i + 1));
    ET_CHECK(needed <= span.size && (needed == 0 || span.data != NULL), l->err, ET_OUT_OF_MEMORY,
             "planned buffer %zu has %zu bytes, the method needs %llu", i, span.size, (unsigned long long)needed);
    ET_CHECK(needed == 0 || eti_is_aligned(span.data, 16), l->err, ET_INVALID_ARGUMENT,
             "planned buffer %zu does not lie at a multiple of 16", i);
  }
  return ET_OK;
}

static et_status claim_tables(eti_loader *l, et_method **loaded) {
  const size_t n_slots = l->plan.inputs.n + l->plan.outputs.n;
  et_method *method = ETI_CLAIM(l->arena, et_method, 1);
  et_value *values = ETI_CLAIM(l->arena, et_value, l->plan.values.n);
  eti_instruction *code = ETI_CLAIM(l->arena, eti_instruction, l->plan.n_instructions);
  eti_slot *slots = ETI_CLAIM(l->arena, eti_slot, n_slots);
  eti_delegate *delegates = ETI_CLAIM(l->arena, eti_delegate, l->plan.delegates.n);
  ET_TRY(eti_arena_status(l->arena, l->err));
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
  *loaded = method;
  return check_planned(l);
}

// The one code path of measuring and loading. On failure the caller closes *loaded.
static et_status load(eti_loader *l, et_method **loaded) {
  ET_TRY(eti_plan_verify(l->program, &l->plan, l->err));
  ET_TRY(eti_named_data_verify(&l->named, l->err));
  ET_TRY(check_missing(l));
  ET_TRY(eti_find_written(l));
  ET_TRY(claim_tables(l, loaded));
  for (size_t i = 0; i < l->plan.values.n; i++) {
    const et_status status = eti_build_value(l, i, l->method == NULL ? NULL : &l->method->values[i]);
    if (status != ET_OK) {
      ET_CONTEXT(l->err, "value %zu: ", i);
      return status;
    }
  }
  for (size_t i = 0; i < l->plan.delegates.n; i++) {
    ET_TRY(init_delegate(l, i, l->method == NULL ? NULL : &l->method->delegates[i]));
  }
  ET_TRY(build_instructions(l));
  if (l->method == NULL) return ET_OK;
  const et_arena scratch = eti_arena_over(l->memory->scratch);
  ET_CHECK(scratch.size >= l->scratch_bytes, l->err, ET_OUT_OF_MEMORY, "scratch memory: %zu bytes given, %zu needed",
           scratch.size, l->scratch_bytes);
  l->method->scratch = scratch.base;
  l->method->scratch_bytes = l->scratch_bytes;
  mark_checked(l->method);
  fill_slots(l->method);
  return ET_OK;
}

// Everything of a measuring (memory NULL) or loading but its result.
static et_status run_loader(const et_program *program, const char *name, const et_method_config *config,
                            const et_method_memory *memory, et_arena *arena, et_method_needs *needs, et_method **loaded,
                            et_error *err) {
  eti_loader l = {.program = program,
                  .config = config,
                  .memory = memory,
                  .arena = arena,
                  .err = err,
                  .named = {program, config->data_maps, config->n_data_maps}};
  ET_TRY(eti_plan_find(program, name, &l.plan, err));
  *loaded = NULL;
  const et_status status = load(&l, loaded);
  if (status == ET_OK) {
    needs->method_bytes = arena->used;
    needs->scratch_bytes = l.scratch_bytes;
    needs->n_planned = l.plan.buffer_sizes.n - 1;
  } else {
    ET_CONTEXT(err, "method '%s': ", name);
    et_method_close(*loaded);
  }
  return status;
}

et_status et_method_measure(const et_program *program, const char *name, const et_method_config *config,
                            et_method_needs *needs, et_error *err) {
  et_arena arena = eti_arena_counting();
  et_method *none;
  return run_loader(program, name, config, NULL, &arena, needs, &none, err);
}

et_status et_method_load(const et_program *program, const char *name, const et_method_config *config,
                         const et_method_memory *memory, et_method **method, et_error *err) {
  et_arena arena = eti_arena_over(memory->method);
  et_method *loaded;
  et_method_needs needs;
  ET_TRY(run_loader(program, name, config, memory, &arena, &needs, &loaded, err));
  *method = loaded;
  return ET_OK;
}

void et_method_close(et_method *method) {
  if (method == NULL) return;
  while (method->n_ready > 0) {
    eti_delegate *delegate = &method->delegates[--method->n_ready];
    if (delegate->backend->destroy != NULL) delegate->backend->destroy(delegate->handle);
    eti_source_release(&delegate->payload);
  }
  for (; method->held != NULL; method->held = method->held->next) eti_source_release(&method->held->blob);
}
