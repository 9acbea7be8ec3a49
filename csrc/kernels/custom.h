// custom.h — the single include of a custom operator. The operator is one C file, built to a
// library that a running program loads (executorch_py build-ops), or compiled into a device's
// program, with its table in front of the built-in one. This header and et.h suffice. Sections, in
// reading order:
//   1 arguments   2 shapes and layouts   3 failing with a message   4 the library
// Kernels keep the rules of the built-in ones: no memory of their own (et_prepare_alloc claims some
// at load, the context has scratch), no globals, outputs resized before they are written, results
// that do not depend on threads (et_parallel_for). Knows no operator.
#ifndef ET_CUSTOM_H
#define ET_CUSTOM_H

#include "kernels/lib/args.h"
#include "kernels/dtype_sets.h"
#include "kernels/lib/shape.h"
#include "runtime/check.h"
#include "runtime/et.h"

#ifdef __cplusplus
#error "custom.h is C11: compile kernels as C"
#endif

// ---- 1 · Arguments
//
// args[i] is the schema's argument i, keyword arguments and out arguments included, in the schema's
// order. Each function fails with a message when the file passed another kind of value. An optional
// argument without value is None. A tensor that has elements has memory. et_op.n_args counts the
// arguments and 1 more for the result; an operator that returns nothing says so with
// .returns_nothing, and which arguments it updates with .writes.

static inline et_status et_arg_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                      et_tensor **out) {
  return eti_arg_tensor(ctx, args, i, out);
}
// Reads a tensor or None, which gives NULL.
static inline et_status et_arg_optional_tensor(const et_kernel_ctx *ctx, et_value *const *args,
                                               size_t i, et_tensor **out) {
  return eti_arg_optional_tensor(ctx, args, i, out);
}
static inline et_status et_arg_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                   int64_t *out) {
  return eti_arg_int(ctx, args, i, out);
}
// Reads any number as a double.
static inline et_status et_arg_double(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                      double *out) {
  return eti_arg_double(ctx, args, i, out);
}
static inline et_status et_arg_bool(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                    bool *out) {
  return eti_arg_bool(ctx, args, i, out);
}
// Reads a string or None, which gives NULL.
static inline et_status et_arg_string(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                      const char **out) {
  return eti_arg_string(ctx, args, i, out);
}
// Copies a list of at most `capacity` integers; *n is their number.
static inline et_status et_arg_ints(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                    int64_t *out, size_t capacity, size_t *n) {
  return eti_arg_ints(ctx, args, i, out, capacity, n);
}
// A list of *n tensors, each read by et_list_tensor (NULL for an absent member).
static inline et_status et_arg_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                       et_value *const **list, size_t *n) {
  return eti_arg_tensors(ctx, args, i, list, n);
}
static inline et_tensor *et_list_tensor(et_value *const *list, size_t i) {
  return eti_list_tensor(list, i);
}
// The context with which a prepare step reads its arguments; tensors there have no memory yet.
static inline et_kernel_ctx et_prepare_args(const et_prepare_ctx *ctx) {
  return eti_prepare_args(ctx);
}

// ---- 2 · Shapes and layouts

// Resizes an output to the sizes of another tensor of the same rank.
static inline et_status et_resize_like(const et_kernel_ctx *ctx, et_tensor *out,
                                       const et_tensor *like) {
  return eti_resize_like(ctx, out, like);
}
// Resizes an output to these sizes.
static inline et_status et_resize(const et_kernel_ctx *ctx, et_tensor *out, const int32_t *sizes,
                                  size_t rank) {
  return et_tensor_resize(out, sizes, rank, ctx->err);
}
// True if two tensors have the same sizes and order of elements, so that one linear walk fits both.
static inline bool et_same_layout(const et_tensor *a, const et_tensor *b) {
  return eti_same_layout(a, b);
}
// True if elements are in logical (row-major) order.
static inline bool et_is_contiguous(const et_tensor *t) {
  return eti_is_contiguous(t);
}
// Wraps a dimension that may be negative.
static inline et_status et_wrap_dim(const et_kernel_ctx *ctx, int64_t dim, size_t rank,
                                    size_t *out) {
  return eti_wrap_dim(ctx, dim, rank, out);
}

// ---- 3 · Failing with a message (check.h)
//   ET_TRY(call);                                             returns a failure
//   ET_CHECK(condition, ctx->err, ET_INVALID_ARGUMENT, "cap: expected more than 0, got %g", cap);

// ---- 4 · The library

// Version of the structures that cross the border between runtime and kernel, raised whenever one
// changes its meaning. Libraries with another version are refused at load.
#define ET_OPS_ABI 3u
#define ET_OPS_MAGIC 0x53504F45u  // "EOPS"

// The header that an operator library exports. The struct sizes catch ABI changes that the version
// missed.
typedef struct et_op_library {
  uint32_t magic;
  uint32_t abi;
  uint32_t op_bytes, value_bytes, tensor_bytes, context_bytes, prepare_bytes;
  uint32_t error_bytes;
  et_op_table table;
} et_op_library;

// Exports the operators, once, at the end of the file: ET_OP_LIBRARY(ops); over `static const et_op
// ops[]`, in any order. Rows have sets of types: those of dtype_sets.h, or ET_DTYPE_BIT(ET_I64) and
// the like, with |. A program that links such files names each one and its successor, and passes
// the table of the first to its methods: -DET_OP_LIBRARY_NAME=softcap_ops
// -DET_OP_LIBRARY_NEXT=more_ops. Their rows are not sorted at load, so they must be sorted
// (executorch_py build-kernels --ops checks it).
#ifndef ET_OP_LIBRARY_NAME
#define ET_OP_LIBRARY_NAME et_op_library_v1
#endif
#ifdef ET_OP_LIBRARY_NEXT
extern const et_op_library ET_OP_LIBRARY_NEXT;
#define ET_OP_LIBRARY_BEHIND (&ET_OP_LIBRARY_NEXT.table)
#else
#define ET_OP_LIBRARY_BEHIND NULL
#endif
#define ET_OP_LIBRARY(ops_)                                \
  extern ET_API const et_op_library ET_OP_LIBRARY_NAME;    \
  const et_op_library ET_OP_LIBRARY_NAME = {               \
      .magic = ET_OPS_MAGIC,                               \
      .abi = ET_OPS_ABI,                                   \
      .op_bytes = sizeof(et_op),                           \
      .value_bytes = sizeof(et_value),                     \
      .tensor_bytes = sizeof(et_tensor),                   \
      .context_bytes = sizeof(et_kernel_ctx),              \
      .prepare_bytes = sizeof(et_prepare_ctx),             \
      .error_bytes = sizeof(et_error),                     \
      .table = {.ops = (ops_),                             \
                .n_ops = sizeof(ops_) / sizeof((ops_)[0]), \
                .next = ET_OP_LIBRARY_BEHIND},             \
  }

#endif  // ET_CUSTOM_H
