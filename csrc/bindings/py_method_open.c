// py_method_open.c — loading methods: memory from the program, the runtime's load without the GIL,
// and the facts of each input and output, cached for calls.
#include <string.h>

#include "bindings/py_delegates.h"
#include "bindings/py_errors.h"
#include "bindings/py_method.h"
#include "bindings/py_op_library.h"
#include "bindings/py_text.h"

// States from this size on can be in huge pages; finding them takes so many steps at most.
enum { STATE_FROM = 2 * 1024 * 1024, STATE_STEPS = 4 * 1024 * 1024 };

static et_status describe_inputs(py_method *self, const char *name, et_error *err) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    py_input *in = &self->inputs[i];
    const et_status status = et_program_slot_info(&self->program->program, name, ET_SLOT_INPUT, i,
                                                  &in->tag, &in->info, err);
    if (status != ET_OK) return status;
    in->value.tag = (uint8_t)in->tag;
    if (in->tag != ET_TENSOR) continue;
    in->element = et_dtype_bytes(in->info.dtype);
    in->capacity = in->element == 0 ? 0 : in->info.bytes / in->element;
    in->tensor = (et_tensor){.sizes = in->sizes,
                             .strides = in->strides,
                             .dim_order = in->info.dim_order,
                             .dtype = (uint8_t)in->info.dtype,
                             .rank = (uint8_t)in->info.rank,
                             .capacity = in->capacity};
    in->value.as.tensor = &in->tensor;
  }
  return ET_OK;
}

static bool is_an_input(const py_method *self, const et_tensor *tensor) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    const et_value *in = et_method_input(self->method, i);
    if (in != NULL && in->tag == ET_TENSOR && in->as.tensor == tensor) return true;
  }
  return false;
}

// Finds the outputs without memory of their own: those that are unplanned and not also an input.
static et_status describe_outputs(py_method *self, const char *name, et_error *err) {
  for (size_t i = 0; i < self->n_outputs; i++) {
    py_output *out = &self->outputs[i];
    et_tensor_info info;
    const et_status status = et_program_slot_info(&self->program->program, name, ET_SLOT_OUTPUT, i,
                                                  &out->tag, &info, err);
    if (status != ET_OK) return status;
    if (out->tag != ET_TENSOR || info.is_planned) continue;
    const et_value *value = et_method_output(self->method, i);
    if (value == NULL || value->tag != ET_TENSOR || value->as.tensor->data != NULL) continue;
    if (is_an_input(self, value->as.tensor)) continue;
    out->needs_bytes = info.bytes;
    self->has_given_outputs |= info.bytes > 0;
  }
  return ET_OK;
}

// ---- advice

#if !defined(ET_HAVE_XNNPACK)
static void look_for_xnnpack(void *ctx, const char *name, const char *overload, bool is_delegate,
                             size_t n_calls, size_t bytes) {
  (void)overload, (void)n_calls, (void)bytes;
  bool *const found = ctx;
  *found |= is_delegate && strcmp(name, "XnnpackBackend") == 0;
}
#endif

// Advice about a failure. The runtime cannot give it, because it knows no operator, no backend and
// no Python.
static const char *advice_for(const py_method *self, const char *name, et_status status) {
  if (status == ET_OPERATOR_MISSING) return py_op_missing_advice;
  if (status == ET_INVALID_STATE && self->program->n_data == 0)
    return ": give load_program its data_path (`executorch_py run --data`)";
#if !defined(ET_HAVE_XNNPACK)
  bool needs_xnnpack = false;
  if (status == ET_NOT_FOUND &&
      et_program_visit_operators(&self->program->program, name, look_for_xnnpack, &needs_xnnpack,
                                 NULL) == ET_OK &&
      needs_xnnpack)
    return "\nThis build is without XNNPACK; `executorch_py doctor` says how to have it.";
#else
  (void)self, (void)name;
#endif
  return "";
}

// ---- loading

// Allocates memory and slots of a measured method; returns the spans of the program's planned
// buffers, or NULL with an exception set. Free them with PyMem_Free; the method owns the rest.
static et_span *allocate(py_method *self, const et_method_info *info,
                         const et_method_needs *needs) {
  self->memory = py_memory_allocate(self->state, needs->method_bytes);
  if (self->memory == NULL) return NULL;
  self->scratch = py_program_scratch(self->program, needs->scratch_bytes);
  if (self->scratch == NULL) return NULL;
  self->inputs = PyMem_Calloc(info->n_inputs + 1, sizeof *self->inputs);
  self->outputs = PyMem_Calloc(info->n_outputs + 1, sizeof *self->outputs);
  et_span *planned = PyMem_Calloc(info->n_planned + 1, sizeof *planned);
  if (self->inputs == NULL || self->outputs == NULL || planned == NULL) {
    PyMem_Free(planned);
    PyErr_NoMemory();
    return NULL;
  }
  for (size_t i = 0; i < info->n_planned; i++) {
    const py_memory *const buffer = self->program->planned[i];
    planned[i] = (et_span){buffer->data, buffer->size};
  }
  return planned;
}

// A state without first values, such as the cache of a language model, fills as it is used. Small
// pages let its memory grow with it; huge ones would be cleared whole for the first few bytes.
static void grow_states_by_small_pages(py_method *self, const et_method_info *method) {
  if ((uint64_t)method->n_attributes * method->n_values > STATE_STEPS) return;
  for (size_t i = 0; i < method->n_attributes; i++) {
    et_tensor_info info = {.bytes = 0};
    const et_status status = et_program_slot_info(&self->program->program, method->name,
                                                  ET_SLOT_ATTRIBUTE, i, NULL, &info, NULL);
    if (status != ET_OK || !info.is_planned || info.has_data || info.bytes < STATE_FROM) continue;
    const et_tensor *const state = et_method_attribute(self->method, info.name);
    for (size_t k = 0; state != NULL && k < method->n_planned; k++) {
      const py_memory *const buffer = self->program->planned[k];
      if (py_memory_contains(buffer, state->data, info.bytes))
        py_memory_advise_small_pages(buffer, state->data, info.bytes);
    }
  }
}

// Measures and loads without the GIL. -1 with an exception set.
static int load_method(py_method *self, const char *name) {
  py_program *program = self->program;
  int result = -1;
  et_span *planned = NULL;
  const et_pool *pool;
  et_method_info info;
  et_method_needs needs;
  et_error err = {.status = ET_OK};
  et_status status = et_program_method_info(&program->program, name, &info, &err);
  if (status != ET_OK) goto done;
  if (py_program_pool(program, &pool) < 0 || py_program_planned(program, info.n_planned) < 0)
    goto done;
  const et_method_config config = {.ops = py_op_table(self->state),
                                   .backends = py_delegates_table(program),
                                   .pool = pool,
                                   .data_maps = program->maps,
                                   .n_data_maps = program->n_data};
  Py_BEGIN_ALLOW_THREADS;
  status = et_method_measure(&program->program, name, &config, &needs, &err);
  Py_END_ALLOW_THREADS;
  if (status != ET_OK) goto done;
  planned = allocate(self, &info, &needs);
  if (planned == NULL) goto done;
  const et_method_memory memory = {.method = {self->memory->data, self->memory->size},
                                   .scratch = {self->scratch->data, self->scratch->size},
                                   .planned = planned,
                                   .n_planned = info.n_planned};
  Py_BEGIN_ALLOW_THREADS;
  status = et_method_load(&program->program, name, &config, &memory, &self->method, &err);
  Py_END_ALLOW_THREADS;
  if (status != ET_OK) goto done;
  py_memory_advise_huge_pages(self->memory);  // the first run uses all of it: it packs weights
  grow_states_by_small_pages(self, &info);
  self->n_planned = info.n_planned;
  self->n_inputs = info.n_inputs;
  self->n_outputs = info.n_outputs;
  status = describe_inputs(self, name, &err);
  if (status == ET_OK) status = describe_outputs(self, name, &err);
  if (status == ET_OK) result = 0;
done:
  if (status != ET_OK) py_raise_advice(self->state, &err, advice_for(self, name, status));
  PyMem_Free(planned);
  return result;
}

PyObject *py_method_open(py_program *program, const char *name) {
  py_state *state = program->state;
  py_method *self = (py_method *)state->method_type->tp_alloc(state->method_type, 0);
  if (self == NULL) return NULL;
  self->state = state;
  Py_INCREF(program);
  self->program = program;
  self->name = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
  if (self->name != NULL) self->quoted_name = py_text_quoted(self->name);
  if (self->quoted_name == NULL || load_method(self, name) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  self->next = program->methods;
  self->link = &program->methods;
  if (self->next != NULL) self->next->link = &self->next;
  program->methods = self;
  return (PyObject *)self;
}
