// method_run.c — running a loaded method: a flat loop over resolved instructions, a second loop
// with events, and one instruction at a time. The loader resolved and proved everything else.
// Checks here cover only state that changes in a run: tensors without planned memory, infinite
// loops, requests to stop.
#include "runtime/bytes.h"
#include "runtime/message_text.h"
#include "runtime/method.h"

#include "runtime/check.h"

// ---- Unplanned tensors

static void restore_unplanned(et_method *method) {
  for (eti_unplanned *unplanned = method->unplanned; unplanned != NULL;
       unplanned = unplanned->next) {
    unplanned->tensor->data = unplanned->data;
    unplanned->tensor->capacity = unplanned->capacity;
    unplanned->tensor->flags &= (uint16_t)~ET_TENSOR_CONSTANT;
  }
}

static et_status check_tensor(const et_tensor *t, bool is_written, size_t k, et_error *err) {
  ET_CHECK(
      t->data != NULL || t->capacity == 0, err, ET_INVALID_STATE,
      "argument %zu: the tensor has no memory: set that of an output, run a view after its base",
      k);
  ET_CHECK(!is_written || (t->flags & ET_TENSOR_CONSTANT) == 0, err, ET_INVALID_PROGRAM,
           "argument %zu: the tensor is a constant, which the operator would write", k);
  return ET_OK;
}

static et_status check_arg(const et_value *v, bool is_written, size_t k, et_error *err) {
  if (v->tag == ET_TENSOR) return check_tensor(v->as.tensor, is_written, k, err);
  if (v->tag != ET_TENSOR_LIST && v->tag != ET_OPTIONAL_TENSOR_LIST) return ET_OK;
  for (size_t i = 0; i < v->n; i++) {
    const et_value *member = v->as.list[i];
    if (member != NULL && member->tag == ET_TENSOR)
      ET_TRY(check_tensor(member->as.tensor, is_written, k, err));
  }
  return ET_OK;
}

// Points a view's result at its base before the kernel runs. The kernel then stays within the
// base's memory, and a view of a constant is constant.
static void point_view(et_tensor *view, const et_tensor *base) {
  ET_ASSERT(et_dtype_bytes((et_dtype)view->dtype) > 0);
  const size_t bytes = base->capacity * et_dtype_bytes((et_dtype)base->dtype);
  view->data = base->data;
  view->capacity = bytes / et_dtype_bytes((et_dtype)view->dtype);
  view->flags =
      (uint16_t)((view->flags & ~ET_TENSOR_CONSTANT) | (base->flags & ET_TENSOR_CONSTANT));
}

static et_status check_instruction(const eti_instruction *in, et_error *err) {
  const et_op *op = in->call.op;  // NULL: a delegate's call
  et_value *const *args = in->call.args;
  const size_t n = in->n_args;
  if (op != NULL && op->is_view && n > 0) {
    const et_value *base = args[0], *view = args[n - 1];
    ET_TRY(check_arg(base, false, 0, err));
    if (base->tag == ET_TENSOR && view->tag == ET_TENSOR)
      point_view(view->as.tensor, base->as.tensor);
    return ET_OK;
  }
  for (size_t k = 0; k < n; k++) {
    // A delegate's inputs and outputs are not distinguished: its backend writes only the outputs.
    const bool is_result = op != NULL && k + 1 == n && !op->returns_nothing;
    const bool is_written = op != NULL && k < 32 && (in->u.writes >> k & 1u) != 0;
    ET_TRY(check_arg(args[k], is_result || is_written, k, err));
  }
  return ET_OK;
}

// ---- One instruction

static et_status run_jump(const eti_instruction *in, size_t *position, et_error *err) {
  ET_ASSERT(in->n_args == 1);
  const et_value *condition = in->call.args[0];
  bool is_true = true;
  if (condition->tag == ET_BOOL) {
    is_true = condition->as.b;
  } else {
    const et_tensor *t = condition->tag == ET_TENSOR ? condition->as.tensor : NULL;
    ET_CHECK(t != NULL && t->dtype == ET_B8, err, ET_INVALID_PROGRAM,
             "the condition: expected a Bool or a b8 tensor, got %s",
             eti_value_text(condition).text);
    ET_CHECK(t->data != NULL || t->numel == 0, err, ET_INVALID_STATE,
             "the condition tensor has no memory");
    for (size_t i = 0; i < t->numel; i++) is_true = is_true && ((const uint8_t *)t->data)[i] != 0;
  }
  if (!is_true) *position = in->u.target;
  return ET_OK;
}

static et_status run_delegate(const et_method *method, const eti_instruction *in, et_error *err) {
  const et_delegate_call call = {.err = err,
                                 .pool = method->pool,
                                 .scratch = method->scratch,
                                 .scratch_bytes = method->scratch_bytes,
                                 .n_args = in->n_args,
                                 .args = in->call.args,
                                 .hooks = method->hooks};
  return in->u.delegate->backend->execute(in->u.delegate->handle, &call);
}

// Moves a tensor only into the place of one of its kind: kernels rely on the arguments that the
// loader checked.
static et_status run_move(const et_value *from, et_value *to, et_error *err) {
  const et_tensor *a = from->as.tensor, *b = to->as.tensor;
  ET_CHECK(
      from->tag == ET_TENSOR ? to->tag == ET_TENSOR && a->dtype == b->dtype && a->rank == b->rank
                             : from->tag < ET_TENSOR_LIST,
      err, ET_INVALID_PROGRAM,
      "move: expected a value of the kind, element type and rank of the one it replaces, and no "
      "list of values, got %s in place of %s",
      eti_value_text(from).text, eti_value_text(to).text);
  *to = *from;
  return ET_OK;
}

// Runs one instruction. *position is already that of the next one; a jump changes it.
static inline et_status run_one(const et_method *method, const eti_instruction *in,
                                et_kernel_ctx *ctx, size_t *position) {
  if (in->is_checked) ET_TRY(check_instruction(in, ctx->err));
  switch (in->kind) {
    case PTE_KERNEL_CALL:
      ctx->state = in->call.state;
      return in->call.op->run(ctx, in->call.args);
    case PTE_DELEGATE_CALL:
      return run_delegate(method, in, ctx->err);
    case PTE_MOVE_CALL:
      return run_move(in->call.args[0], in->call.args[1], ctx->err);
    case PTE_JUMP_FALSE_CALL:
      return run_jump(in, position, ctx->err);
    default: {  // free: forgets memory that is not the method's own
      ET_ASSERT(in->kind == PTE_FREE_CALL && in->n_args == 1);
      const et_value *v = in->call.args[0];
      if (v->tag == ET_TENSOR &&
          (v->as.tensor->flags & (ET_TENSOR_PLANNED | ET_TENSOR_CONSTANT)) == 0) {
        v->as.tensor->data = NULL;
      }
      return ET_OK;
    }
  }
}

// ---- Runs

static et_status begin_run(et_method *method, et_error *err) {
  method->is_paused = false;  // an interrupted run is abandoned
  for (size_t i = 0; i < method->plan.inputs.n; i++) {
    ET_CHECK(method->slots[i].is_set, err, ET_INVALID_ARGUMENT, "input %zu of %zu was never set", i,
             method->plan.inputs.n);
  }
  restore_unplanned(method);
  ET_ASSERT(!method->is_stepping && atomic_load(&method->is_busy));
  method->executed = 0;
  return ET_OK;
}

static et_status may_go_on(const et_method *method, uint32_t executed, et_error *err) {
  ET_CHECK(!atomic_load_explicit(&method->is_interrupted, memory_order_relaxed), err,
           ET_INTERRUPTED, "interrupted on request");
  ET_CHECK(executed <= ET_MAX_EXECUTED_INSTRUCTIONS, err, ET_INVALID_PROGRAM,
           "expected at most %lu executed instructions, got more: an infinite loop",
           (unsigned long)ET_MAX_EXECUTED_INSTRUCTIONS);
  return ET_OK;
}

// Prepends the method, the instruction and its operator to a failure's message.
static void add_context(const et_method *method, size_t i, et_error *err) {
#if ET_MESSAGES
  eti_instruction_facts in;
  const char *name, *overload;
  if (err == NULL || eti_instruction_read(&method->plan, i, &in, NULL) != ET_OK) return;
  eti_instruction_name(&method->plan, &in, &name, &overload);
  const bool has_overload = overload != NULL && *overload != '\0';
  ET_CONTEXT(err, "method '%s', instruction %zu (%s%s%s): ", method->plan.name, i, name,
             has_overload ? "." : "", has_overload ? overload : "");
#else
  (void)method, (void)i, (void)err;
#endif
}

static et_kernel_ctx kernel_ctx(et_method *method, et_error *err) {
  const et_kernel_ctx ctx = {.err = err,
                             .pool = method->pool,
                             .scratch = method->scratch,
                             .scratch_bytes = method->scratch_bytes,
                             .random = &method->random};
  return ctx;
}

static et_status run_from(et_method *method, size_t position, et_error *err) {
  et_kernel_ctx ctx = kernel_ctx(method, err);
  const size_t n = method->plan.n_instructions;
  method->is_paused = false;
  uint32_t executed = method->executed;
  while (position < n) {
    const size_t i = position;
    const eti_instruction *in = &method->code[i];
    position += in->n_done;
    et_status status = may_go_on(method, ++executed, err);
    const bool may_start = status == ET_OK;
    if (may_start) status = run_one(method, in, &ctx, &position);
    if (status != ET_OK) {
      method->is_paused = status == ET_INTERRUPTED && !may_start;  // instruction i has not started
      method->position = i;
      method->executed = executed - 1;
      add_context(method, i, err);
      return status;
    }
  }
  return ET_OK;
}

_Static_assert((int)ET_INSTRUCTION_OPERATOR == PTE_KERNEL_CALL &&
                   (int)ET_INSTRUCTION_FREE == PTE_FREE_CALL,
               "the kinds of the format");

static et_status run_all_traced(et_method *method, const et_hooks *hooks, et_error *err) {
  ET_TRY(begin_run(method, err));
  size_t position = 0;
  et_kernel_ctx ctx = kernel_ctx(method, err);
  uint32_t executed = 0;
  while (position < method->plan.n_instructions) {
    const size_t i = position;
    const eti_instruction *in = &method->code[i];
    position += in->n_done;
    const char *name = in->kind == PTE_KERNEL_CALL     ? in->call.op->name
                       : in->kind == PTE_DELEGATE_CALL ? in->u.delegate->backend->id
                                                       : eti_small_names[in->kind - PTE_MOVE_CALL];
    et_event event = {.kind = ET_EVENT_BEGIN,
                      .instruction_kind = (et_instruction_kind)in->kind,
                      .instruction = i,
                      .operator_name = name,
                      .n_args = in->n_args,
                      .args = in->call.args};
    et_status status = may_go_on(method, ++executed, err);
    if (status == ET_OK) {
      status = hooks->on_event(hooks->ctx, &event);
      if (status != ET_OK) (void)ET_FAIL(err, status, "stopped by an event hook");
    }
    if (status == ET_OK) {
      event.status = run_one(method, in, &ctx, &position);
      event.kind = ET_EVENT_END;
      status = hooks->on_event(hooks->ctx, &event);
      if (event.status != ET_OK) {
        status = event.status;
      } else if (status != ET_OK) {
        (void)ET_FAIL(err, status, "stopped by an event hook");
      }
    }
    if (status != ET_OK) {
      add_context(method, i, err);
      return status;
    }
  }
  return ET_OK;
}

// A method serves one thread at a time; a second one gets ET_INVALID_STATE.
static et_status enter(et_method *method, bool is_step, et_error *err) {
  ET_CHECK(!atomic_exchange(&method->is_busy, true), err, ET_INVALID_STATE,
           "method '%s' is running in another thread", method->plan.name);
  if (!is_step && method->is_stepping) {
    atomic_store(&method->is_busy, false);
    return ET_FAIL(err, ET_INVALID_STATE,
                   "method '%s' is in the middle of a stepped run: reset it first",
                   method->plan.name);
  }
  if (!method->is_stepping) atomic_store(&method->is_interrupted, false);
  return ET_OK;
}

et_status et_method_execute(et_method *method, et_error *err) {
  ET_TRY(enter(method, false, err));
  et_status status = begin_run(method, err);
  if (status == ET_OK) status = run_from(method, 0, err);
  atomic_store(&method->is_busy, false);
  return status;
}

et_status et_method_resume(et_method *method, et_error *err) {
  ET_TRY(enter(method, false, err));
  const et_status status =
      method->is_paused
          ? run_from(method, method->position, err)
          : ET_FAIL(err, ET_INVALID_STATE, "method '%s' has no interrupted run to resume",
                    method->plan.name);
  atomic_store(&method->is_busy, false);
  return status;
}

et_status et_method_execute_traced(et_method *method, const et_hooks *hooks, et_error *err) {
  ET_TRY(enter(method, false, err));
  method->hooks = hooks;
  const et_status status = run_all_traced(method, hooks, err);
  method->hooks = NULL;
  atomic_store(&method->is_busy, false);
  return status;
}

static et_status step_method(et_method *method, et_error *err) {
  if (!method->is_stepping) {
    ET_TRY(begin_run(method, err));
    method->position = 0;
    method->is_stepping = true;
  }
  if (method->position >= method->plan.n_instructions) return ET_END_OF_METHOD;
  et_kernel_ctx ctx = kernel_ctx(method, err);
  const size_t i = method->position;
  const eti_instruction *in = &method->code[i];
  method->position += in->n_done;
  et_status status = may_go_on(method, ++method->executed, err);
  if (status == ET_OK) status = run_one(method, in, &ctx, &method->position);
  if (status != ET_OK) {
    method->is_stepping = false;  // the next step begins a new run
    add_context(method, i, err);
  }
  return status;
}

et_status et_method_step(et_method *method, et_error *err) {
  ET_TRY(enter(method, true, err));
  const et_status status = step_method(method, err);
  atomic_store(&method->is_busy, false);
  return status;
}

void et_method_reset(et_method *method) {
  method->is_stepping = false;
  method->is_paused = false;
  method->position = 0;
}

void et_method_seed(et_method *method, uint64_t seed) {
  method->random = (et_random){.seed = seed};
}

void et_method_interrupt(et_method *method) {
  atomic_store(&method->is_interrupted, true);
}
