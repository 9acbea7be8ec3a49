// args.h — unpacks the boxed arguments of a kernel, with messages that name the argument by its
// position. Relies on et.h values only. Readers return a status because the file decides what an
// argument is.
#ifndef ET_ARGS_H
#define ET_ARGS_H

#include "runtime/check.h"
#include "runtime/et.h"
#include "runtime/message_text.h"

// A number argument ("Scalar" in schemas), kept exact: is_float selects the field; Bool is an
// integer 0 or 1.
typedef struct eti_scalar {
  bool is_float;
  bool is_bool;
  int64_t i;
  double d;  // always set, rounded when the integer does not fit
} eti_scalar;

// Readers of argument i; the position is for the message. All fail with ET_INVALID_PROGRAM for a
// value of another kind. A tensor with elements has memory (checked here), except in prepare.
et_status eti_arg_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         et_tensor **out);
et_status eti_arg_optional_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  et_tensor **out);  // NULL for None
et_status eti_arg_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                      int64_t *out);  // Int or Bool
et_status eti_arg_optional_int(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                               bool *present, int64_t *out);
et_status eti_arg_double(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         double *out);  // any number
et_status eti_arg_optional_double(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  bool *present, double *out);
et_status eti_arg_bool(const et_kernel_ctx *ctx, et_value *const *args, size_t i, bool *out);
et_status eti_arg_scalar(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         eti_scalar *out);
et_status eti_arg_optional_scalar(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                  bool *present, eti_scalar *out);
et_status eti_arg_string(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         const char **out);  // NULL for None

// Copies an Int list of at most `capacity` elements; n receives its length. None is an empty list
// (*n = 0) when optional.
et_status eti_arg_ints(const et_kernel_ctx *ctx, et_value *const *args, size_t i, int64_t *out,
                       size_t capacity, size_t *n);
// Reads one integer for all of `spatial` dimensions or one for each, at least `least`, into the
// last `spatial` of three. An allowed empty list leaves `out` unchanged.
et_status eti_arg_spatial(const et_kernel_ctx *ctx, et_value *const *args, size_t i, const char *op,
                          const char *what, size_t spatial, int64_t least, bool may_be_empty,
                          int64_t out[3]);
et_status eti_arg_optional_ints(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                bool *present, int64_t *out, size_t capacity, size_t *n);
et_status eti_arg_optional_doubles(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                   bool *present, double *out, size_t capacity, size_t *n);
et_status eti_arg_bools(const et_kernel_ctx *ctx, et_value *const *args, size_t i, bool *out,
                        size_t capacity, size_t *n);

// A tensor list: *list has *n entries, each readable with eti_list_tensor (NULL for an absent
// member of an optional list).
et_status eti_arg_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                          et_value *const **list, size_t *n);

static inline et_tensor *eti_list_tensor(et_value *const *list, size_t i) {
  return (list[i] != NULL && list[i]->tag == ET_TENSOR) ? list[i]->as.tensor : NULL;
}

// The kernel context of a prepare step, so that prepare and run unpack arguments with the same
// functions. Its scratch size tells readers that tensors have no memory yet.
static inline et_kernel_ctx eti_prepare_args(const et_prepare_ctx *ctx) {
  const et_kernel_ctx k = {.err = ctx->err, .scratch_bytes = SIZE_MAX};
  return k;
}

static inline bool eti_is_preparing(const et_kernel_ctx *ctx) {
  return ctx->scratch_bytes == SIZE_MAX;
}

#endif  // ET_ARGS_H
