// method_io.c — inputs, outputs and attributes of a loaded method.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/dtype.h"
#include "runtime/message_text.h"
#include "runtime/method.h"
#include "runtime/tensor.h"

// Scalars and texts are constants of the program: a call must pass the traced value.
static bool is_near(double given, double traced) {
  if (given == traced || (given != given && traced != traced)) return true;
  const double size = traced < 0 ? -traced : traced;
  const double distance = given < traced ? traced - given : given - traced;
  return distance <= 1e-4 + 1e-5 * size && size <= 1.7976931348623157e308;
}

static bool is_same(const et_value *a, const et_value *traced) {
  if (a->tag != traced->tag) return false;
  switch (traced->tag) {
    case ET_NONE:
      return true;
    case ET_INT:
      return a->as.i == traced->as.i;
    case ET_BOOL:
      return a->as.b == traced->as.b;
    case ET_DOUBLE:
      return is_near(a->as.d, traced->as.d);
    case ET_STRING:
      return a->n == traced->n && memcmp(a->as.string, traced->as.string, a->n) == 0;
    default:
      return false;  // lists cannot be set
  }
}

#if ET_MESSAGES
static void append_value(et_error *err, const et_value *v) {
  if (v->tag == ET_INT) {
    eti_append(err, "the Int %lld", (long long)v->as.i);
  } else if (v->tag == ET_BOOL) {
    eti_append(err, "the Bool %s", v->as.b ? "true" : "false");
  } else if (v->tag == ET_DOUBLE) {
    eti_append(err, "the Double %g", v->as.d);
  } else if (v->tag == ET_STRING) {
    eti_append(err, "the text '%s'", v->as.string);
  } else {
    eti_append(err, v->tag == ET_NONE ? "None" : v->tag == ET_TENSOR ? "a tensor" : "a list");
  }
}

static et_status fail_constant(size_t i, const et_value *src, const et_value *traced,
                               et_error *err) {
  (void)eti_fail(err, ET_INVALID_ARGUMENT, "input %zu: expected ", i);
  append_value(err, traced);
  eti_append(err, traced->tag > ET_BOOL ? ", which cannot be set, got "
                                        : " that the program was exported with, got ");
  append_value(err, src);
  return ET_INVALID_ARGUMENT;
}
#else
#define fail_constant(i, src, traced, err) ET_FAIL(err, ET_INVALID_ARGUMENT, "input %zu", i)
#endif

static et_status check_constant(const et_method *method, size_t i, const et_value *src,
                                et_error *err) {
  const uint8_t *table;
  et_value traced;
  const unsigned code =
      eti_plan_value(&method->plan, eti_u32(method->plan.inputs.data + 4 * i), &table);
  (void)eti_build_plain(code, table, &traced);
  return is_same(src, &traced) ? ET_OK : fail_constant(i, src, &traced, err);
}

static et_status set_tensor(eti_slot *slot, const et_tensor *src, size_t i, et_error *err) {
  et_tensor *t = slot->tensor;
  eti_unplanned *unplanned = slot->unplanned;
  ET_ASSERT((unplanned == NULL) == ((t->flags & ET_TENSOR_PLANNED) != 0));
  const size_t element_bytes = et_dtype_bytes((et_dtype)t->dtype);
  ET_CHECK(src->dtype == t->dtype, err, ET_INVALID_ARGUMENT,
           "input %zu: expected element type %s, got %s", i, et_dtype_name((et_dtype)t->dtype),
           et_dtype_name((et_dtype)src->dtype));
  size_t numel;
  ET_CHECK(
      src->rank <= ET_MAX_RANK && eti_shape_numel(src->sizes, src->rank, element_bytes, &numel),
      err, ET_INVALID_ARGUMENT, "input %zu: a size is negative, or the tensor is too large", i);
  ET_CHECK(src->rank != t->rank || numel == 0 ||
               eti_same_order(src->sizes, src->dim_order, t->dim_order, t->rank),
           err, ET_INVALID_ARGUMENT,
           "input %zu: expected the planned dim order, %s, got %s: layouts are not converted", i,
           eti_dim_order_text(t->dim_order, t->rank).text,
           eti_dim_order_text(src->dim_order, src->rank).text);
  ET_CHECK(numel == 0 || src->data != NULL, err, ET_INVALID_ARGUMENT,
           "input %zu: expected data, got NULL", i);
  ET_CHECK(unplanned == NULL || numel == 0 ||
               eti_is_aligned(src->data, eti_dtype_align((et_dtype)t->dtype)),
           err, ET_INVALID_ARGUMENT, "input %zu: the data is not aligned to its element type", i);
  if (unplanned != NULL) t->capacity = unplanned->bound;
  ET_TRY(et_tensor_resize(t, src->sizes, src->rank, err));
  if (unplanned != NULL) {
    unplanned->data = t->data = src->data;
    unplanned->capacity = t->capacity = numel;
  } else if (numel > 0) {
    ET_ASSERT(t->data != NULL && numel <= t->capacity);
    memmove(t->data, src->data, numel * element_bytes);
  }
  slot->value->tag = ET_TENSOR;
  slot->value->as.tensor = t;
  return ET_OK;
}

et_status et_method_set_input(et_method *method, size_t i, const et_value *src, et_error *err) {
  ET_CHECK(i < method->plan.inputs.n, err, ET_INVALID_ARGUMENT,
           "input %zu: method '%s' has only %zu", i, method->plan.name, method->plan.inputs.n);
  ET_CHECK(!atomic_load(&method->is_busy) && !method->is_stepping, err, ET_INVALID_STATE,
           "input %zu: inputs cannot change during a run", i);
  method->is_paused = false;  // an interrupted run may have views of the old input
  eti_slot *slot = &method->slots[i];
  if (slot->tensor == NULL) {
    ET_TRY(check_constant(method, i, src, err));
  } else {
    ET_CHECK(src->tag == ET_TENSOR && src->as.tensor != NULL, err, ET_INVALID_ARGUMENT,
             "input %zu: expected a tensor, got %s", i,
             src->tag == ET_TENSOR ? "NULL" : eti_kind_name(src));
    const et_status status = set_tensor(slot, src->as.tensor, i, err);
    if (status == ET_NOT_SUPPORTED) ET_CONTEXT(err, "input %zu: ", i);
    ET_TRY(status);
  }
  slot->is_set = true;
  return ET_OK;
}

et_status et_method_set_output_data(et_method *method, size_t i, et_span memory, et_error *err) {
  ET_CHECK(i < method->plan.outputs.n, err, ET_INVALID_ARGUMENT,
           "output %zu: method '%s' has only %zu", i, method->plan.name, method->plan.outputs.n);
  ET_CHECK(!atomic_load(&method->is_busy) && !method->is_stepping, err, ET_INVALID_STATE,
           "output %zu: outputs cannot change during a run", i);
  method->is_paused = false;
  const eti_slot *slot = &method->slots[method->plan.inputs.n + i];
  ET_CHECK(slot->tensor != NULL, err, ET_INVALID_ARGUMENT, "output %zu is not a tensor", i);
  ET_CHECK(slot->unplanned != NULL, err, ET_INVALID_STATE,
           "output %zu has planned memory, which cannot be replaced", i);
  eti_unplanned *unplanned = slot->unplanned;
  ET_ASSERT(unplanned->tensor == slot->tensor);
  const size_t element_bytes = et_dtype_bytes((et_dtype)slot->tensor->dtype);
  ET_CHECK(memory.size / element_bytes >= unplanned->bound &&
               (memory.data != NULL || unplanned->bound == 0) &&
               eti_is_aligned(memory.data, eti_dtype_align((et_dtype)slot->tensor->dtype)),
           err, ET_INVALID_ARGUMENT,
           "output %zu: expected %zu bytes, aligned to the element type, got %zu", i,
           unplanned->bound * element_bytes, memory.size);
  unplanned->data = slot->tensor->data = memory.data;
  unplanned->capacity = slot->tensor->capacity = unplanned->bound;
  return ET_OK;
}

et_value *et_method_input(const et_method *method, size_t i) {
  return i < method->plan.inputs.n ? method->slots[i].value : NULL;
}

et_value *et_method_output(const et_method *method, size_t i) {
  return i < method->plan.outputs.n ? method->slots[method->plan.inputs.n + i].value : NULL;
}

et_tensor *et_method_attribute(const et_method *method, const char *name) {
  for (size_t i = 0; i < method->plan.values.n; i++) {
    const uint8_t *table;
    if (eti_plan_value(&method->plan, i, &table) != PTE_TENSOR ||
        method->values[i].tag != ET_TENSOR)
      continue;
    const char *found = eti_fb_string(eti_fb_table(table, PTE_TENSOR_EXTRA), PTE_EXTRA_NAME);
    if (found != NULL && strcmp(found, name) == 0) return method->values[i].as.tensor;
  }
  return NULL;
}
