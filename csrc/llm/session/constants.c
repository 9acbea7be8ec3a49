// constants.c — see constants.h.
#include "llm/session/constants.h"

#include "llm/session/load.h"

et_status eti_constants_bytes(const et_program *program, const char *method, size_t *bytes,
                              et_error *err) {
  const et_method_config config = {.ops = NULL};
  const char *const names[] = {method};
  return eti_methods_bytes(program, names, 1, &config, bytes, err);
}

et_status eti_constants_begin(eti_constants *c, const et_program *program, et_span memory, size_t n,
                              et_error *err) {
  et_arena arena = eti_arena_over(memory);
  c->program = program;
  c->numbers = ETI_CLAIM(&arena, int64_t, n);
  ET_TRY(eti_arena_status(&arena, err));
  eti_arena_end(&arena);
  c->scratch = (et_span){arena.base + arena.used, arena.size - arena.used};
  return ET_OK;
}

static et_status add_number(int64_t number, const char *method, int64_t *numbers, size_t capacity,
                            size_t *n, et_error *err) {
  ET_CHECK(*n < capacity, err, ET_NOT_SUPPORTED, "%s: expected at most %zu numbers, got more",
           method, capacity);
  numbers[(*n)++] = number;
  return ET_OK;
}

static et_status add_value(const et_value *value, const char *method, int64_t *numbers,
                           size_t capacity, size_t *n, et_error *err) {
  if (value->tag == ET_NONE) return ET_OK;
  if (value->tag == ET_INT) return add_number(value->as.i, method, numbers, capacity, n, err);
  if (value->tag == ET_BOOL) return add_number(value->as.b, method, numbers, capacity, n, err);
  const et_tensor *const t = value->tag == ET_TENSOR ? value->as.tensor : NULL;
  ET_CHECK(t != NULL && (t->dtype == ET_I64 || t->dtype == ET_I32), err, ET_INVALID_PROGRAM,
           "%s: expected integers, got values of another type", method);
  for (size_t i = 0; i < t->numel; i++) {
    const int64_t number =
        t->dtype == ET_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
    ET_TRY(add_number(number, method, numbers, capacity, n, err));
  }
  return ET_OK;
}

et_status eti_constants_read(const eti_constants *c, const char *method, int64_t *numbers,
                             size_t capacity, size_t *n, et_error *err) {
  const et_method_config config = {.ops = NULL};
  et_method *loaded;
  *n = 0;
  ET_TRY(eti_methods_load(c->program, &method, 1, &config, c->scratch, &loaded, err));
  et_status status = et_method_execute(loaded, err);
  for (size_t i = 0; status == ET_OK && et_method_output(loaded, i) != NULL; i++)
    status = add_value(et_method_output(loaded, i), method, numbers, capacity, n, err);
  et_method_close(loaded);
  return status;
}
