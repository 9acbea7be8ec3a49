// prim.c — operators over numbers and shapes, for symbolic sizes and control flow, and the two that
// move tensors without arithmetic (et_view, et_copy_index). The result goes to the last slot,
// without repetition. Integers wrap; division by zero is an error, while upstream traps.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"

#include <math.h>

// ---- numbers in, number out

typedef struct number {
  uint8_t tag;  // ET_INT, ET_DOUBLE or ET_BOOL
  int64_t i;    // Int, and Bool as 0 or 1
  double d;     // always the value
} number;

static et_status expect_kind(const et_kernel_ctx *ctx, et_value *const *args, size_t i, et_tag tag,
                             const char *name) {
  ET_CHECK(args[i]->tag == tag, ctx->err, ET_INVALID_TYPE, "argument %zu: expected %s, got %s", i,
           name, eti_kind_name(args[i]));
  return ET_OK;
}

static et_status read_number(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             number *out) {
  const et_value *v = args[i];
  const uint8_t tag = v->tag;
  ET_CHECK(tag == ET_INT || tag == ET_DOUBLE || tag == ET_BOOL, ctx->err, ET_INVALID_TYPE,
           "argument %zu: expected a number, got %s", i, eti_kind_name(v));
  out->tag = tag;
  out->i = tag == ET_INT ? v->as.i : tag == ET_BOOL ? (int64_t)v->as.b : 0;
  out->d = tag == ET_DOUBLE ? v->as.d : (double)out->i;
  return ET_OK;
}

static et_status read_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i, int64_t *out) {
  ET_TRY(expect_kind(ctx, args, i, ET_INT, "Int"));
  *out = args[i]->as.i;
  return ET_OK;
}

static et_status read_arithmetic(const et_kernel_ctx *ctx, et_value *const *args, number *a,
                                 number *b) {
  ET_TRY(read_number(ctx, args, 0, a));
  ET_TRY(read_number(ctx, args, 1, b));
  ET_CHECK(a->tag != ET_BOOL && b->tag != ET_BOOL, ctx->err, ET_INVALID_TYPE,
           "expected Int or Double, got Bool");
  return ET_OK;
}

// Checks that a slot may receive a number. A tensor or list must stay: earlier checks of
// instructions rely on that kind.
static et_status writable_slot(const et_kernel_ctx *ctx, const et_value *slot) {
  ET_CHECK(
      slot->tag == ET_NONE || slot->tag == ET_INT || slot->tag == ET_DOUBLE || slot->tag == ET_BOOL,
      ctx->err, ET_INVALID_TYPE, "result: expected a number or None, got %s", eti_kind_name(slot));
  return ET_OK;
}

static et_status write_int(const et_kernel_ctx *ctx, et_value *slot, int64_t value) {
  ET_TRY(writable_slot(ctx, slot));
  slot->tag = ET_INT;
  slot->as.i = value;
  return ET_OK;
}

static et_status write_double(const et_kernel_ctx *ctx, et_value *slot, double value) {
  ET_TRY(writable_slot(ctx, slot));
  slot->tag = ET_DOUBLE;
  slot->as.d = value;
  return ET_OK;
}

static et_status write_bool(const et_kernel_ctx *ctx, et_value *slot, bool value) {
  ET_TRY(writable_slot(ctx, slot));
  slot->tag = ET_BOOL;
  slot->as.b = value;
  return ET_OK;
}

static int64_t wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t wrap_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static double add_f64(double a, double b) {
  return a + b;
}
static double sub_f64(double a, double b) {
  return a - b;
}
static double mul_f64(double a, double b) {
  return a * b;
}

static et_status run_arithmetic(et_kernel_ctx *ctx, et_value *const *args,
                                int64_t (*ints)(int64_t, int64_t),
                                double (*doubles)(double, double)) {
  number a, b;
  ET_TRY(read_arithmetic(ctx, args, &a, &b));
  if (a.tag == ET_INT && b.tag == ET_INT) return write_int(ctx, args[2], ints(a.i, b.i));
  return write_double(ctx, args[2], doubles(a.d, b.d));
}

et_status op_prim_add(et_kernel_ctx *ctx, et_value *const *args) {
  return run_arithmetic(ctx, args, wrap_add, add_f64);
}
et_status op_prim_sub(et_kernel_ctx *ctx, et_value *const *args) {
  return run_arithmetic(ctx, args, wrap_sub, sub_f64);
}
et_status op_prim_mul(et_kernel_ctx *ctx, et_value *const *args) {
  return run_arithmetic(ctx, args, wrap_mul, mul_f64);
}

// Python's a // b for floats: the quotient without fmod's remainder, rounded down.
static double floor_divide(double a, double b) {
  if (b == 0.0) return a / b;
  double mod = fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0.0 && (b < 0.0) != (mod < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return copysign(0.0, a / b);
  const double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

static et_status check_divisor(const et_kernel_ctx *ctx, int64_t b) {
  ET_CHECK(b != 0, ctx->err, ET_INVALID_ARGUMENT, "integer division by zero");
  return ET_OK;
}

et_status op_prim_floordiv(et_kernel_ctx *ctx, et_value *const *args) {
  number a, b;
  ET_TRY(read_arithmetic(ctx, args, &a, &b));
  if (a.tag != ET_INT || b.tag != ET_INT) return write_double(ctx, args[2], floor_divide(a.d, b.d));
  ET_TRY(check_divisor(ctx, b.i));
  if (b.i == -1) return write_int(ctx, args[2], wrap_sub(0, a.i));
  const int64_t quotient = a.i / b.i;
  return write_int(ctx, args[2], quotient - (a.i % b.i != 0 && (a.i < 0) != (b.i < 0)));
}

// Upstream's .int overload truncates, unlike .Scalar. Kept, because exporters choose between them.
et_status op_prim_floordiv_int(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t a = 0, b = 0;
  ET_TRY(read_int(ctx, args, 0, &a));
  ET_TRY(read_int(ctx, args, 1, &b));
  ET_TRY(check_divisor(ctx, b));
  return write_int(ctx, args[2], b == -1 ? wrap_sub(0, a) : a / b);
}

et_status op_prim_mod(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t a = 0, b = 0;
  ET_TRY(read_int(ctx, args, 0, &a));
  ET_TRY(read_int(ctx, args, 1, &b));
  ET_TRY(check_divisor(ctx, b));
  return write_int(ctx, args[2], b == -1 ? 0 : a % b);
}

et_status op_prim_truediv(et_kernel_ctx *ctx, et_value *const *args) {
  number a, b;
  ET_TRY(read_arithmetic(ctx, args, &a, &b));
  return write_double(ctx, args[2], a.d / b.d);
}

// ---- comparisons: -1, 0, 1, or 2 when a NaN makes the two unordered

static int compare_numbers(const number *a, const number *b) {
  if (a->tag != ET_DOUBLE && b->tag != ET_DOUBLE) return a->i < b->i ? -1 : a->i > b->i;
  return a->d < b->d ? -1 : a->d > b->d ? 1 : a->d == b->d ? 0 : 2;
}

static et_status read_order(const et_kernel_ctx *ctx, et_value *const *args, int *order) {
  number a, b;
  ET_TRY(read_number(ctx, args, 0, &a));
  ET_TRY(read_number(ctx, args, 1, &b));
  ET_CHECK((a.tag == ET_BOOL) == (b.tag == ET_BOOL), ctx->err, ET_INVALID_TYPE,
           "expected two Bools or two numbers, got one Bool");
  *order = compare_numbers(&a, &b);
  return ET_OK;
}

et_status op_prim_eq(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order == 0);
}

et_status op_prim_ne(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order != 0);
}

et_status op_prim_gt(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order == 1);
}

et_status op_prim_lt(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order == -1);
}

et_status op_prim_ge(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order == 0 || order == 1);
}

et_status op_prim_le(et_kernel_ctx *ctx, et_value *const *args) {
  int order;
  ET_TRY(read_order(ctx, args, &order));
  return write_bool(ctx, args[2], order == 0 || order == -1);
}

et_status op_prim_sym_max(et_kernel_ctx *ctx, et_value *const *args) {
  number a, b;
  ET_TRY(read_arithmetic(ctx, args, &a, &b));
  if (a.tag == ET_INT && b.tag == ET_INT) return write_int(ctx, args[2], a.i > b.i ? a.i : b.i);
  return write_double(ctx, args[2], a.d > b.d ? a.d : b.d);
}

et_status op_prim_sym_min(et_kernel_ctx *ctx, et_value *const *args) {
  number a, b;
  ET_TRY(read_arithmetic(ctx, args, &a, &b));
  if (a.tag == ET_INT && b.tag == ET_INT) return write_int(ctx, args[2], a.i < b.i ? a.i : b.i);
  return write_double(ctx, args[2], a.d < b.d ? a.d : b.d);
}

// ---- one operand

et_status op_prim_neg(et_kernel_ctx *ctx, et_value *const *args) {
  number a;
  ET_TRY(read_number(ctx, args, 0, &a));
  ET_CHECK(a.tag != ET_BOOL, ctx->err, ET_INVALID_TYPE, "expected Int or Double, got Bool");
  if (a.tag == ET_INT) return write_int(ctx, args[1], wrap_sub(0, a.i));
  return write_double(ctx, args[1], -a.d);
}

// Writes a rounded double as an Int; one that no Int can hold is an error, as in Python.
static et_status write_whole(const et_kernel_ctx *ctx, et_value *slot, double value) {
  ET_CHECK(value >= -0x1p63 && value < 0x1p63, ctx->err, ET_INVALID_ARGUMENT,
           "%g does not fit an Int", value);
  return write_int(ctx, slot, (int64_t)value);
}

static et_status run_rounding(et_kernel_ctx *ctx, et_value *const *args,
                              double (*round_fn)(double)) {
  ET_TRY(expect_kind(ctx, args, 0, ET_DOUBLE, "Double"));
  return write_whole(ctx, args[1], round_fn(args[0]->as.d));
}

static double round_half_even(double x) {
  const double whole = floor(x), rest = x - whole;
  if (rest < 0.5) return whole;
  if (rest > 0.5) return whole + 1.0;
  return fmod(whole, 2.0) == 0.0 ? whole : whole + 1.0;
}

et_status op_prim_ceil(et_kernel_ctx *ctx, et_value *const *args) {
  return run_rounding(ctx, args, ceil);
}
et_status op_prim_round(et_kernel_ctx *ctx, et_value *const *args) {
  return run_rounding(ctx, args, round_half_even);
}
et_status op_prim_trunc(et_kernel_ctx *ctx, et_value *const *args) {
  return run_rounding(ctx, args, trunc);
}

et_status op_prim_sym_float(et_kernel_ctx *ctx, et_value *const *args) {
  number a;
  ET_TRY(read_number(ctx, args, 0, &a));
  return write_double(ctx, args[1], a.d);
}

et_status op_prim_sym_int(et_kernel_ctx *ctx, et_value *const *args) {
  number a;
  ET_TRY(read_number(ctx, args, 0, &a));
  return a.tag == ET_DOUBLE ? write_whole(ctx, args[1], trunc(a.d)) : write_int(ctx, args[1], a.i);
}

et_status op_prim_sym_not(et_kernel_ctx *ctx, et_value *const *args) {
  ET_TRY(expect_kind(ctx, args, 0, ET_BOOL, "Bool"));
  return write_bool(ctx, args[1], !args[0]->as.b);
}

et_status op_prim_sym_ite(et_kernel_ctx *ctx, et_value *const *args) {
  ET_TRY(expect_kind(ctx, args, 0, ET_BOOL, "Bool"));
  number chosen;
  ET_TRY(read_number(ctx, args, args[0]->as.b ? 1 : 2, &chosen));
  if (chosen.tag == ET_INT) return write_int(ctx, args[3], chosen.i);
  if (chosen.tag == ET_BOOL) return write_bool(ctx, args[3], chosen.i != 0);
  return write_double(ctx, args[3], chosen.d);
}

// ---- a tensor's facts

// Arguments (tensor, dimension).
static et_status read_dim(const et_kernel_ctx *ctx, et_value *const *args, const et_tensor **t,
                          size_t *out) {
  ET_TRY(expect_kind(ctx, args, 0, ET_TENSOR, "Tensor"));
  *t = args[0]->as.tensor;
  const int64_t rank = (*t)->rank;
  int64_t dim = 0;
  ET_TRY(read_int(ctx, args, 1, &dim));
  ET_CHECK(dim >= -rank && dim < rank, ctx->err, ET_INVALID_ARGUMENT,
           "expected a dimension of a tensor of rank %lld, got %lld", (long long)rank,
           (long long)dim);
  *out = (size_t)(dim < 0 ? dim + rank : dim);
  return ET_OK;
}

et_status op_sym_size_int(et_kernel_ctx *ctx, et_value *const *args) {
  const et_tensor *t;
  size_t dim;
  ET_TRY(read_dim(ctx, args, &t, &dim));
  return write_int(ctx, args[2], t->sizes[dim]);
}

et_status op_sym_stride_int(et_kernel_ctx *ctx, et_value *const *args) {
  const et_tensor *t;
  size_t dim;
  ET_TRY(read_dim(ctx, args, &t, &dim));
  return write_int(ctx, args[2], t->strides[dim]);
}

// Storage offset is 0: tensors of a program begin at their memory's first element.
et_status op_sym_storage_offset(et_kernel_ctx *ctx, et_value *const *args) {
  ET_TRY(expect_kind(ctx, args, 0, ET_TENSOR, "Tensor"));
  return write_int(ctx, args[1], 0);
}

et_status op_sym_numel(et_kernel_ctx *ctx, et_value *const *args) {
  ET_TRY(expect_kind(ctx, args, 0, ET_TENSOR, "Tensor"));
  return write_int(ctx, args[1], (int64_t)args[0]->as.tensor->numel);
}

et_status op_local_scalar_dense(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &t));
  ET_CHECK(t->numel >= 1, ctx->err, ET_INVALID_ARGUMENT,
           "expected a tensor of 1 element or more, got 0");
  const et_dtype dtype = (et_dtype)t->dtype;
  if (eti_is_float(dtype)) {
    double d;
    eti_casts[dtype][ET_F64](&d, 0, t->data, 0, 1);
    return write_double(ctx, args[1], d);
  }
  ET_CHECK(eti_is_integral(dtype), ctx->err, ET_INVALID_TYPE,
           "expected a dtype that converts to a number, got %s", et_dtype_name(dtype));
  int64_t i;
  eti_casts[dtype][ET_I64](&i, 0, t->data, 0, 1);
  return dtype == ET_B8 ? write_bool(ctx, args[1], i != 0) : write_int(ctx, args[1], i);
}

// ---- tensors without arithmetic

et_status op_prim_et_view(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(expect_kind(ctx, args, 2, ET_TENSOR, "Tensor"));
  et_tensor *out = args[2]->as.tensor;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "view"));
  eti_shape shape = {0};
  ET_TRY(eti_arg_reshape(ctx, args, 1, self->numel, &shape));
  // The view has self's memory, so self's capacity bounds every later resize of it. Both change
  // together or not at all.
  const size_t old_capacity = out->capacity;
  out->capacity = self->capacity;
  const et_status status = eti_resize(ctx, out, &shape);
  if (status != ET_OK) {
    out->capacity = old_capacity;
    return status;
  }
  out->data = self->data;
  return ET_OK;
}

et_status op_prim_et_copy_index(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *dst, *src;
  int64_t index = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &dst));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &src));
  ET_TRY(read_int(ctx, args, 2, &index));
  ET_TRY(eti_check_same_dtype(ctx, dst, src, "copy of one row"));
  ET_CHECK(dst->rank == src->rank + 1, ctx->err, ET_INVALID_ARGUMENT,
           "rows of rank %d do not match a tensor of rank %d", (int)src->rank, (int)dst->rank);
  ET_CHECK(index >= 0 && index < INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "expected a row from 0 to %ld, got row %lld", (long)INT32_MAX - 1, (long long)index);
  ET_TRY(eti_check_contiguous(ctx, dst, ET_INVALID_ARGUMENT, "argument 0"));
  ET_TRY(eti_check_contiguous(ctx, src, ET_INVALID_ARGUMENT, "argument 1"));
  eti_shape shape = {.rank = dst->rank, .sizes = {(int32_t)index + 1}};
  for (size_t d = 0; d < src->rank; d++) shape.sizes[d + 1] = src->sizes[d];
  ET_TRY(eti_resize(ctx, dst, &shape));
  const size_t bytes = et_tensor_bytes(src);
  if (bytes == 0) return ET_OK;
  ET_CHECK(dst->data != NULL, ctx->err, ET_INVALID_STATE,
           "argument 0: the tensor has no memory yet");
  eti_copy_bytes((char *)dst->data + (size_t)index * bytes, src->data, bytes);
  return ET_OK;
}
