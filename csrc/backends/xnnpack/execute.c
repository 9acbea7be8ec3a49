// execute.c — a call of a delegate. Arguments are compared with those of the previous call, and
// only changes are passed to XNNPACK, because most calls have none.
#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

// XNNPACK may read XNN_EXTRA_BYTES past the end of an input, and of an output that it reads again,
// as some softmax kernels and other nodes do. That is harmless within the page of the last byte.
// Systems map pages of this size or multiples of it.
enum { PAGE_BYTES = 4096 };

// ---- Arguments

static et_status check_arg(const eti_xnn_extern *extern_, const et_value *value, size_t k,
                           et_error *err) {
  ET_CHECK(value->tag == ET_TENSOR, err, ET_INVALID_ARGUMENT,
           "argument %zu: expected a tensor, got a value with tag %u", k, value->tag);
  const et_tensor *const t = value->as.tensor;
  ET_CHECK(t->dtype == extern_->dtype, err, ET_INVALID_ARGUMENT,
           "argument %zu: expected dtype %s, got %s", k, et_dtype_name(extern_->dtype),
           et_dtype_name((et_dtype)t->dtype));
  const bool is_scalar = t->rank == 0 && extern_->shape.rank == 1 && extern_->shape.dims[0] == 1;
  ET_CHECK(t->rank == extern_->shape.rank || is_scalar, err, ET_INVALID_ARGUMENT,
           "argument %zu: expected rank %lu, got %d", k, (unsigned long)extern_->shape.rank,
           t->rank);
  ET_CHECK(t->data != NULL, err, ET_INVALID_STATE, "argument %zu has no memory", k);
  ET_CHECK(!extern_->is_output || (t->flags & ET_TENSOR_CONSTANT) == 0, err, ET_INVALID_PROGRAM,
           "argument %zu is a constant and would be written", k);
  return ET_OK;
}

// Reads the sizes in memory order and checks them against the payload's bounds.
static et_status read_shape(const eti_xnn_extern *extern_, const et_tensor *t, size_t k,
                            eti_xnn_shape *out, et_error *err) {
  *out = (eti_xnn_shape){.rank = extern_->shape.rank};
  if (t->rank == 0) out->dims[0] = 1;
  for (size_t d = 0; d < t->rank; d++) {
    const int32_t size = t->sizes[t->dim_order[d]];
    ET_CHECK(size > 0 && (size_t)size <= extern_->shape.dims[d], err, ET_NOT_SUPPORTED,
             "argument %zu: expected size 1 to %zu in dim %d, got %ld", k, extern_->shape.dims[d],
             t->dim_order[d], (long)size);
    out->dims[d] = (size_t)size;
  }
  return ET_OK;
}

static bool is_same_shape(const eti_xnn_shape *a, const eti_xnn_shape *b) {
  size_t difference = a->rank ^ b->rank;
  for (size_t d = 0; d < XNN_MAX_TENSOR_DIMS; d++) difference |= a->dims[d] ^ b->dims[d];
  return difference == 0;
}

// Checks the arguments and reads the inputs' shapes. *is_new: they differ from the runtime's.
static et_status read_args(eti_xnn_engine *engine, const et_delegate_call *call, bool *is_new) {
  const eti_xnn_graph *const graph = &engine->graph;
  ET_CHECK(call->n_args == graph->n_externs, call->err, ET_INVALID_PROGRAM,
           "expected %zu arguments, got %zu", graph->n_externs, call->n_args);
  for (size_t i = 0; i < engine->n_active; i++) {
    const size_t k = engine->externs[i].id;
    const eti_xnn_extern *const extern_ = &graph->externs[k];
    ET_TRY(check_arg(extern_, call->args[k], k, call->err));
    if (!extern_->is_input) continue;
    ET_TRY(read_shape(extern_, call->args[k]->as.tensor, k, &engine->given[k], call->err));
    *is_new |= !is_same_shape(&engine->given[k], &engine->args[k].shape);
  }
  return ET_OK;
}

// ---- Shapes

typedef struct request {
  eti_xnn_engine *engine;
  enum xnn_status status;
} request;

static void reshape_runtime(void *ctx) {
  request *const r = ctx;
  eti_xnn_engine *const engine = r->engine;
  r->status = xnn_status_success;
  for (size_t i = 0; i < engine->n_active && r->status == xnn_status_success; i++) {
    const uint32_t k = engine->externs[i].id;
    if (!engine->graph.externs[k].is_input) continue;
    r->status = xnn_reshape_external_value(engine->runtime, k, engine->given[k].rank,
                                           engine->given[k].dims);
  }
  if (r->status == xnn_status_success) r->status = xnn_reshape_runtime(engine->runtime);
  eti_xnn_forget_job_costs(&engine->pool);
  if (r->status != xnn_status_success) return;
  eti_xnn_tuned_after_reshape(engine->runtime, pthreadpool_get_threads_count(&engine->pool),
                              &engine->schedules);
}

static void set_up_runtime(void *ctx) {
  request *const r = ctx;
  r->status = xnn_setup_runtime_v2(r->engine->runtime, r->engine->n_active, r->engine->externs);
}

// Calls XNNPACK in a region, as it may allocate. After a failure the engine may be in any state: it
// is freed, and made again by the next call.
static et_status call_xnnpack(eti_xnn_engine **owner, void (*body)(void *), const char *what,
                              et_error *err) {
  request r = {.engine = *owner};
  eti_xnn_alloc_region region;
  eti_xnn_alloc_region_begin(&region);
  if (!eti_xnn_alloc_region_run(&region, body, &r)) r.status = xnn_status_out_of_memory;
  const et_status status = eti_xnn_check(r.status, err, what);
  if (status != ET_OK) {
    eti_xnn_engine_free(*owner);
    *owner = NULL;
  }
  eti_xnn_alloc_region_end(&region, status == ET_OK);
  return status;
}

static et_status read_output_shapes(eti_xnn_engine *engine, et_error *err) {
  for (size_t i = 0; i < engine->n_active; i++) {
    const uint32_t k = engine->externs[i].id;
    eti_xnn_shape *const shape = &engine->args[k].shape;
    if (engine->graph.externs[k].is_input) {
      *shape = engine->given[k];
      continue;
    }
    size_t rank = 0;
    *shape = (eti_xnn_shape){.rank = 0};
    ET_TRY(eti_xnn_check(xnn_get_external_value_shape(engine->runtime, k, &rank, shape->dims), err,
                         "reading the shape of an output"));
    for (size_t d = rank; d < XNN_MAX_TENSOR_DIMS; d++) shape->dims[d] = 0;
    shape->rank = (uint32_t)rank;
  }
  return ET_OK;
}

static bool has_payload_shapes(const eti_xnn_engine *engine) {
  for (size_t i = 0; i < engine->n_active; i++) {
    const uint32_t k = engine->externs[i].id;
    const eti_xnn_extern *const extern_ = &engine->graph.externs[k];
    if (extern_->is_input && !is_same_shape(&engine->given[k], &extern_->shape)) return false;
  }
  return true;
}

// Replaces an engine by a new one, for the shapes that the old one was given.
static et_status remake_engine(eti_xnn_delegate *delegate, eti_xnn_engine **owner, et_error *err) {
  eti_xnn_engine *const old = *owner;
  eti_xnn_engine *made;
  ET_TRY(eti_xnn_engine_make(delegate, owner == &delegate->profiled, old->given, &made, err));
  memcpy(made->given, old->given, old->graph.n_externs * sizeof *old->given);
  made->pool.pool = old->pool.pool;
  eti_xnn_engine_free(old);
  *owner = made;
  return ET_OK;
}

static et_status update_shapes(eti_xnn_delegate *delegate, eti_xnn_engine **owner, et_error *err) {
  eti_xnn_engine *const engine = *owner;
  bool is_stale = false;
  if (engine->graph.retains_shapes || !has_payload_shapes(engine))  // those were checked at build
    ET_TRY(eti_xnn_graph_set_shapes(&engine->graph, engine->given, &is_stale, err));
  engine->is_shaped = engine->is_set_up = false;
  if (is_stale) ET_TRY(remake_engine(delegate, owner, err));
  ET_TRY(call_xnnpack(owner, reshape_runtime, "reshaping", err));
  ET_TRY(read_output_shapes(*owner, err));
  (*owner)->is_shaped = true;
  return ET_OK;
}

// ---- Outputs

static et_status size_output(const eti_xnn_arg *arg, et_tensor *t, size_t k, et_error *err) {
  int32_t sizes[ET_MAX_RANK];
  bool is_new = false;
  ET_CHECK(arg->shape.rank == t->rank || (t->rank == 0 && arg->shape.rank == 1), err,
           ET_INVALID_PROGRAM, "argument %zu: expected rank %lu of the result, got %d", k,
           (unsigned long)arg->shape.rank, t->rank);
  for (size_t d = 0; d < t->rank; d++) {
    ET_CHECK(arg->shape.dims[d] <= INT32_MAX, err, ET_NOT_SUPPORTED,
             "argument %zu: size %zu of a dim is not supported", k, arg->shape.dims[d]);
    const size_t at = t->dim_order[d];
    sizes[at] = (int32_t)arg->shape.dims[d];
    is_new |= sizes[at] != t->sizes[at];
  }
  if (!is_new) return ET_OK;
  const et_status status = et_tensor_resize(t, sizes, t->rank, err);
  if (status != ET_OK) ET_CONTEXT(err, "argument %zu: ", k);
  return status;
}

static et_status size_outputs(const eti_xnn_engine *engine, const et_delegate_call *call) {
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < engine->n_active; i++) {
      const uint32_t k = engine->externs[i].id;
      if (!engine->graph.externs[k].is_output) continue;
      et_tensor *const t = call->args[k]->as.tensor;
      const size_t numel = t->numel;
      ET_TRY(size_output(&engine->args[k], t, k, call->err));
      // A damaged file may use one tensor for two outputs: then the second resize undid the first.
      ET_CHECK(round == 0 || numel == t->numel, call->err, ET_INVALID_PROGRAM,
               "argument %lu is another output as well", (unsigned long)k);
    }
  }
  return ET_OK;
}

// Widens i32 to i64 in place: from the last element on, so that no i32 is overwritten before it is
// read.
static void widen_indices(et_tensor *t) {
  uint8_t *const data = t->data;
  for (size_t i = t->numel; i-- > 0;) {
    const int64_t wide = eti_i32(data + 4 * i);
    memcpy(data + 8 * i, &wide, sizeof wide);
  }
}

// ---- Pointers

// Finds memory for an argument past whose end XNNPACK may read: the argument's own, or a copy.
static et_status find_memory(eti_xnn_arg *arg, const et_tensor *t, size_t k, void **out,
                             et_error *err) {
  const size_t bytes = et_tensor_bytes(t);
  const uintptr_t last = (uintptr_t)t->data + bytes - 1;
  *out = t->data;
  if (last / PAGE_BYTES == (last + XNN_EXTRA_BYTES) / PAGE_BYTES) return ET_OK;
  if (arg->copy_bytes < bytes) {
    eti_xnn_free(arg->copy);
    arg->copy_bytes = 0;
    arg->copy = eti_xnn_alloc(bytes + XNN_EXTRA_BYTES);
    ET_CHECK(arg->copy != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
             "out of memory: a copy of argument %zu, %zu bytes, which ends at a page's end", k,
             bytes);
    arg->copy_bytes = bytes;
  }
  *out = arg->copy;
  return ET_OK;
}

static et_status update_pointers(eti_xnn_engine **owner, const et_delegate_call *call) {
  eti_xnn_engine *const engine = *owner;
  for (size_t i = 0; i < engine->n_active; i++) {
    const uint32_t k = engine->externs[i].id;
    const et_tensor *const t = call->args[k]->as.tensor;
    void *data;
    ET_TRY(find_memory(&engine->args[k], t, k, &data, call->err));
    if (data != t->data && engine->graph.externs[k].is_input)
      memcpy(data, t->data, et_tensor_bytes(t));
    if (data != engine->args[k].data) engine->is_set_up = false;
    engine->args[k].data = engine->externs[i].data = data;
  }
  if (engine->is_set_up) return ET_OK;
  ET_TRY(call_xnnpack(owner, set_up_runtime, "setting up", call->err));
  engine->is_set_up = true;
  return ET_OK;
}

// ---- The call

static et_status prepare_call(eti_xnn_delegate *delegate, eti_xnn_engine **owner,
                              const et_delegate_call *call) {
  bool is_new = !(*owner)->is_shaped;
  (*owner)->pool.pool = call->pool;
  ET_TRY(read_args(*owner, call, &is_new));
  if (is_new) ET_TRY(update_shapes(delegate, owner, call->err));
  ET_TRY(size_outputs(*owner, call));
  return update_pointers(owner, call);
}

static et_status run_call(eti_xnn_delegate *delegate, eti_xnn_engine **owner,
                          const et_delegate_call *call) {
  ET_TRY(prepare_call(delegate, owner, call));
  while ((*owner)->weights.is_damaged) {  // each time fewer damaged weights are left
    ET_TRY(remake_engine(delegate, owner, call->err));
    ET_TRY(prepare_call(delegate, owner, call));
  }
  eti_xnn_engine *const engine = *owner;
  ET_TRY(eti_xnn_check(xnn_invoke_runtime(engine->runtime), call->err, "running"));
  for (size_t i = 0; i < engine->n_active; i++) {
    const uint32_t k = engine->externs[i].id;
    const eti_xnn_extern *const extern_ = &engine->graph.externs[k];
    et_tensor *const t = call->args[k]->as.tensor;
    if (extern_->is_output && engine->args[k].data != t->data)
      memcpy(t->data, engine->args[k].data, et_tensor_bytes(t));
    if (extern_->is_widened) widen_indices(t);
  }
  return ET_OK;
}

et_status eti_xnn_execute(void *handle, const et_delegate_call *call) {
  eti_xnn_delegate *const delegate = handle;
  const bool is_profiled = call->hooks != NULL;
  eti_xnn_engine **const owner = is_profiled ? &delegate->profiled : &delegate->engine;
  eti_xnn_lock(delegate->options.workspace);
  et_status status = ET_OK;
  if (*owner == NULL) status = eti_xnn_engine_make(delegate, is_profiled, NULL, owner, call->err);
  if (status == ET_OK) status = run_call(delegate, owner, call);
  if (status == ET_OK && is_profiled) status = eti_xnn_report_profile(*owner, call);
  eti_xnn_unlock(delegate->options.workspace);
  return status;
}
