// args.c — see args.h. Each reader accepts the kinds that the file format allows there; for others
// its message has the position, the kind expected and the kind found. Also checks the literals of
// dtype_sets.h against the numbers of et.h.
#include "kernels/lib/args.h"

#include "kernels/dtype_sets.h"

#define CHECK_TYPE(name, type) \
  _Static_assert(ET_TYPES_##name == ET_DTYPE_BIT(type), #name ": the bit of dtype_sets.h")
CHECK_TYPE(U8, ET_U8);
CHECK_TYPE(I8, ET_I8);
CHECK_TYPE(I16, ET_I16);
CHECK_TYPE(I32, ET_I32);
CHECK_TYPE(I64, ET_I64);
CHECK_TYPE(F16, ET_F16);
CHECK_TYPE(F32, ET_F32);
CHECK_TYPE(F64, ET_F64);
CHECK_TYPE(C64, ET_C64);
CHECK_TYPE(C128, ET_C128);
CHECK_TYPE(BOOL, ET_B8);
CHECK_TYPE(BF16, ET_BF16);
CHECK_TYPE(U16, ET_U16);
CHECK_TYPE(U32, ET_U32);
CHECK_TYPE(U64, ET_U64);
#undef CHECK_TYPE
_Static_assert(ET_TYPES_ALL == (1u << ET_DTYPE_COUNT) - 1u, "all types");

static et_status wrong_kind(const et_kernel_ctx *ctx, size_t i, const et_value *v,
                            const char *needed) {
  return ET_FAIL(ctx->err, ET_INVALID_PROGRAM, "argument %zu: expected %s, got %s", i, needed,
                 eti_kind_name(v));
}

static bool is_none(const et_value *v) {
  return v == NULL || v->tag == ET_NONE;
}

et_status eti_arg_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         et_tensor **out) {
  const et_value *v = args[i];
  if (v == NULL || v->tag != ET_TENSOR) return wrong_kind(ctx, i, v, "Tensor");
  et_tensor *t = v->as.tensor;
  // A damaged file can order instructions so that a view is read before it has memory.
  ET_CHECK(t->data != NULL || t->numel == 0 || eti_is_preparing(ctx), ctx->err, ET_INVALID_STATE,
           "argument %zu: the tensor has no memory yet", i);
  *out = t;
  return ET_OK;
}

et_status eti_arg_optional_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  et_tensor **out) {
  if (is_none(args[i])) {
    *out = NULL;
    return ET_OK;
  }
  return eti_arg_tensor(ctx, args, i, out);
}

et_status eti_arg_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i, int64_t *out) {
  const et_value *v = args[i];
  if (v != NULL && v->tag == ET_INT) {
    *out = v->as.i;
  } else if (v != NULL && v->tag == ET_BOOL) {
    *out = v->as.b;
  } else {
    return wrong_kind(ctx, i, v, "Int");
  }
  return ET_OK;
}

et_status eti_arg_optional_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                               bool *present, int64_t *out) {
  *present = !is_none(args[i]);
  return *present ? eti_arg_int(ctx, args, i, out) : ET_OK;
}

et_status eti_arg_scalar(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         eti_scalar *out) {
  const et_value *v = args[i];
  const uint8_t tag = v == NULL ? (uint8_t)ET_NONE : v->tag;
  if (tag == ET_DOUBLE) {
    *out = (eti_scalar){.is_float = true, .d = v->as.d};
  } else if (tag == ET_INT) {
    *out = (eti_scalar){.i = v->as.i, .d = (double)v->as.i};
  } else if (tag == ET_BOOL) {
    *out = (eti_scalar){.is_bool = true, .i = v->as.b, .d = v->as.b ? 1.0 : 0.0};
  } else {
    return wrong_kind(ctx, i, v, "a number");
  }
  return ET_OK;
}

et_status eti_arg_optional_scalar(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  bool *present, eti_scalar *out) {
  *present = !is_none(args[i]);
  return *present ? eti_arg_scalar(ctx, args, i, out) : ET_OK;
}

et_status eti_arg_double(const et_kernel_ctx *ctx, et_value *const *args, size_t i, double *out) {
  eti_scalar s = {0};
  ET_TRY(eti_arg_scalar(ctx, args, i, &s));
  *out = s.d;
  return ET_OK;
}

et_status eti_arg_optional_double(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  bool *present, double *out) {
  *present = !is_none(args[i]);
  return *present ? eti_arg_double(ctx, args, i, out) : ET_OK;
}

et_status eti_arg_bool(const et_kernel_ctx *ctx, et_value *const *args, size_t i, bool *out) {
  const et_value *v = args[i];
  if (v != NULL && v->tag == ET_BOOL) {
    *out = v->as.b;
  } else if (v != NULL && v->tag == ET_INT) {
    *out = v->as.i != 0;
  } else {
    return wrong_kind(ctx, i, v, "Bool");
  }
  return ET_OK;
}

et_status eti_arg_string(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         const char **out) {
  const et_value *v = args[i];
  if (is_none(v)) {
    *out = NULL;
    return ET_OK;
  }
  if (v->tag != ET_STRING) return wrong_kind(ctx, i, v, "String");
  *out = v->as.string;
  return ET_OK;
}

et_status eti_arg_ints(const et_kernel_ctx *ctx, et_value *const *args, size_t i, int64_t *out,
                       size_t capacity, size_t *n) {
  const et_value *v = args[i];
  if (v == NULL || v->tag != ET_INT_LIST) return wrong_kind(ctx, i, v, "IntList");
  ET_CHECK(v->n <= capacity, ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu: expected at most %zu integers, got %u", i, capacity, (unsigned)v->n);
  for (size_t k = 0; k < v->n; k++) {
    const et_value *e = v->as.list[k];
    ET_CHECK(e != NULL && (e->tag == ET_INT || e->tag == ET_BOOL), ctx->err, ET_INVALID_PROGRAM,
             "argument %zu: element %zu: expected Int, got %s", i, k, eti_kind_name(e));
    out[k] = e->tag == ET_INT ? e->as.i : (int64_t)e->as.b;
  }
  *n = v->n;
  return ET_OK;
}

et_status eti_arg_optional_ints(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                bool *present, int64_t *out, size_t capacity, size_t *n) {
  *present = !is_none(args[i]);
  *n = 0;
  return *present ? eti_arg_ints(ctx, args, i, out, capacity, n) : ET_OK;
}

et_status eti_arg_optional_doubles(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                   bool *present, double *out, size_t capacity, size_t *n) {
  const et_value *v = args[i];
  *present = !is_none(v);
  *n = 0;
  if (!*present) return ET_OK;
  if (v->tag != ET_DOUBLE_LIST) return wrong_kind(ctx, i, v, "DoubleList");
  ET_CHECK(v->n <= capacity, ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu: expected at most %zu doubles, got %u", i, capacity, (unsigned)v->n);
  for (size_t k = 0; k < v->n; k++) out[k] = et_value_double_at(v, k);
  *n = v->n;
  return ET_OK;
}

et_status eti_arg_bools(const et_kernel_ctx *ctx, et_value *const *args, size_t i, bool *out,
                        size_t capacity, size_t *n) {
  const et_value *v = args[i];
  if (v == NULL || v->tag != ET_BOOL_LIST) return wrong_kind(ctx, i, v, "BoolList");
  ET_CHECK(v->n <= capacity, ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu: expected at most %zu booleans, got %u", i, capacity, (unsigned)v->n);
  for (size_t k = 0; k < v->n; k++) out[k] = v->as.bools[k] != 0;
  *n = v->n;
  return ET_OK;
}

et_status eti_arg_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                          et_value *const **list, size_t *n) {
  const et_value *v = args[i];
  const bool optional = v != NULL && v->tag == ET_OPTIONAL_TENSOR_LIST;
  if (v == NULL || (v->tag != ET_TENSOR_LIST && !optional))
    return wrong_kind(ctx, i, v, "TensorList");
  for (size_t k = 0; k < v->n; k++) {
    const et_tensor *t = eti_list_tensor(v->as.list, k);
    ET_CHECK(t != NULL || optional, ctx->err, ET_INVALID_PROGRAM,
             "argument %zu: element %zu: expected Tensor, got %s", i, k,
             eti_kind_name(v->as.list[k]));
    ET_CHECK(t == NULL || t->data != NULL || t->numel == 0 || eti_is_preparing(ctx), ctx->err,
             ET_INVALID_STATE, "argument %zu: element %zu has no memory yet", i, k);
  }
  *list = v->as.list;
  *n = v->n;
  return ET_OK;
}

et_status eti_arg_spatial(const et_kernel_ctx *ctx, et_value *const *args, size_t i, const char *op,
                          const char *what, size_t spatial, int64_t least, bool may_be_empty,
                          int64_t out[3]) {
  int64_t list[ET_MAX_RANK];
  size_t n = 0;
  ET_TRY(eti_arg_ints(ctx, args, i, list, ET_MAX_RANK, &n));
  if (n == 0 && may_be_empty) return ET_OK;
  ET_CHECK(n == 1 || n == spatial, ctx->err, ET_INVALID_ARGUMENT,
           "%s: %s: expected 1 or %zu entries, got %zu", op, what, spatial, n);
  for (size_t d = 0; d < spatial; d++) {
    const int64_t value = list[n == 1 ? 0 : d];
    ET_CHECK(value >= least && value <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "%s: %s[%zu]: expected at least %lld, got %lld", op, what, d, (long long)least,
             (long long)value);
    out[3 - spatial + d] = value;
  }
  return ET_OK;
}
