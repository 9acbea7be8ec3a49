// training.c — the trained parameters of a method, found through the constant methods that the
// exporter writes beside it. Knows the format, no optimizer.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/message_text.h"
#include "runtime/method.h"
#include "runtime/training/et_train.h"

// Upstream's names; the training method's name follows.
static const char GRADIENTS[] = "__et_training_gradients_index_";
static const char PARAMETERS[] = "__et_training_parameters_index_";
static const char NAMES[] = "__et_training_fqn_";

// Finds and proves the constant method `prefix` + name of the method's own.
static et_status find_constant(const et_method *method, const char *prefix, eti_plan *plan,
                               et_error *err) {
  const size_t length = strlen(prefix);
  for (size_t i = 0; i < et_program_method_count(method->program); i++) {
    const char *found = et_program_method_name(method->program, i);
    if (strlen(found) < length || memcmp(found, prefix, length) != 0) continue;
    if (strcmp(found + length, method->plan.name) != 0) continue;
    ET_TRY(eti_plan_find(method->program, found, plan, err));
    return eti_plan_verify(method->program, plan, err);
  }
  return ET_FAIL(err, ET_INVALID_ARGUMENT,
                 "method '%s': expected a training program, which has a method '%s%s', got none; "
                 "export with torch.export.experimental._export_forward_backward",
                 method->plan.name, prefix, method->plan.name);
}

// The i-th output of a plan without instructions. False when it needs memory or is out of range.
static bool constant_output(const uint8_t *plan, size_t i, et_value *out) {
  const eti_vector outputs = eti_fb_vector(plan, PTE_PLAN_OUTPUTS);
  if (i >= outputs.n) return false;
  const eti_vector values = eti_fb_vector(plan, PTE_PLAN_VALUES);
  const uint8_t *value = eti_fb_at(values, eti_u32(outputs.data + 4 * i));
  const unsigned code = eti_fb_u8(value, PTE_UNION_CODE);
  return eti_build_plain(code, eti_fb_table(value, PTE_UNION_TABLE), out);
}

static et_status read_index(const et_method *method, const char *prefix, size_t *index,
                            et_error *err) {
  eti_plan plan;
  et_value value = {.tag = ET_NONE};
  ET_TRY(find_constant(method, prefix, &plan, err));
  ET_CHECK(plan.outputs.n == 1, err, ET_INVALID_PROGRAM,
           "method '%s': expected one integer as output, got %zu outputs", plan.name,
           plan.outputs.n);
  ET_CHECK(constant_output(plan.table, 0, &value) && value.tag == ET_INT, err, ET_INVALID_PROGRAM,
           "method '%s': expected one integer as output, got %s", plan.name, eti_kind_name(&value));
  ET_CHECK(value.as.i >= 0 && value.as.i <= INT32_MAX, err, ET_INVALID_PROGRAM,
           "method '%s': expected the index of an output, got %lld", plan.name,
           (long long)value.as.i);
  *index = (size_t)value.as.i;
  return ET_OK;
}

// Checks that gradients and parameters are the last outputs, as many as names.
// Upstream: its exporter also counts values that are written back to buffers, which are no outputs;
// indices that are larger by their number are moved back.
static et_status check_names(et_training *training, const eti_plan *names, et_error *err) {
  et_value value = {.tag = ET_NONE};
  for (size_t i = 0; i < names->outputs.n; i++) {
    ET_CHECK(constant_output(names->table, i, &value) && value.tag == ET_STRING, err,
             ET_INVALID_PROGRAM, "method '%s', output %zu: expected a string, got %s", names->name,
             i, eti_kind_name(&value));
  }
  const size_t n_outputs = training->method->plan.outputs.n;
  ET_CHECK(training->i_parameter - training->i_gradient == training->n &&
               training->n <= n_outputs / 2 && training->i_gradient >= n_outputs - 2 * training->n,
           err, ET_INVALID_PROGRAM,
           "method '%s': expected %zu gradients and parameters, as many as names, got gradients "
           "from output %zu and parameters from output %zu of %zu",
           training->method->plan.name, training->n, training->i_gradient, training->i_parameter,
           n_outputs);
  training->i_gradient = n_outputs - 2 * training->n;
  training->i_parameter = n_outputs - training->n;
  return ET_OK;
}

// Checks that a parameter and its gradient are tensors, and that the parameter keeps its memory and
// its size: optimizers have state of that size.
static et_status check_pair(const et_training *training, size_t i, et_error *err) {
  const et_tensor *parameter = et_training_parameter(training, i);
  const et_tensor *gradient = et_training_gradient(training, i);
  const char *name = et_training_name(training, i);
  ET_CHECK(parameter != NULL && gradient != NULL, err, ET_INVALID_PROGRAM,
           "parameter '%s': expected two tensors, the parameter and its gradient, got %s and %s",
           name, eti_kind_name(et_method_output(training->method, training->i_parameter + i)),
           eti_kind_name(et_method_output(training->method, training->i_gradient + i)));
  ET_CHECK((parameter->flags & ET_TENSOR_PLANNED) != 0 || parameter->numel == 0, err,
           ET_INVALID_PROGRAM,
           "parameter '%s': expected planned memory, which runs can read back, got %s", name,
           (parameter->flags & ET_TENSOR_CONSTANT) != 0 ? "a constant" : "memory of the caller");
  ET_CHECK((parameter->flags & ET_TENSOR_DYNAMIC) == 0, err, ET_INVALID_PROGRAM,
           "parameter '%s': expected a fixed shape, got a dynamic one", name);
  return ET_OK;
}

et_status et_training_init(et_training *training, const et_method *method, et_error *err) {
  eti_plan names;
  et_training t = {.method = method};
  ET_TRY(read_index(method, GRADIENTS, &t.i_gradient, err));
  ET_TRY(read_index(method, PARAMETERS, &t.i_parameter, err));
  ET_TRY(find_constant(method, NAMES, &names, err));
  t.names = names.table;
  t.n = names.outputs.n;
  ET_TRY(check_names(&t, &names, err));
  for (size_t i = 0; i < t.n; i++) ET_TRY(check_pair(&t, i, err));
  *training = t;
  return ET_OK;
}

size_t et_training_count(const et_training *training) {
  return training->n;
}

const char *et_training_name(const et_training *training, size_t i) {
  et_value value = {.tag = ET_NONE};
  return constant_output(training->names, i, &value) ? value.as.string : NULL;
}

size_t et_training_find(const et_training *training, const char *name) {
  size_t i = 0;
  while (i < training->n && strcmp(et_training_name(training, i), name) != 0) i++;
  return i;
}

static et_tensor *output_tensor(const et_training *training, size_t first, size_t i) {
  const et_value *value =
      i < training->n ? et_method_output(training->method, first + i) : (et_value *)NULL;
  return value != NULL && value->tag == ET_TENSOR ? value->as.tensor : NULL;
}

et_tensor *et_training_parameter(const et_training *training, size_t i) {
  return output_tensor(training, training->i_parameter, i);
}

const et_tensor *et_training_gradient(const et_training *training, size_t i) {
  return output_tensor(training, training->i_gradient, i);
}
