// next_call.c — see next_call.h. Calls are known by name: a reference to the operator would keep it
// in every selective build.
#include "kernels/lib/next_call.h"

#include <string.h>

#include "kernels/lib/args.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"

// A bound of f32, or the one that is there already where the argument is None.
static bool read_bound(const et_kernel_ctx *ctx, et_value *const *args, size_t i, float *bound) {
  bool present;
  eti_scalar value;
  if (eti_arg_optional_scalar(ctx, args, i, &present, &value) != ET_OK) return false;
  return !present || (eti_scalar_store(&value, ET_F32, bound) && !isnan(*bound));
}

// The bounds of one of the three operators, whose number of arguments load has checked.
static bool read_range(const et_kernel_ctx *ctx, const et_call *next, eti_range *range) {
  const char *const name = next->op->name;
  if (strcmp(name, "aten::relu.out") == 0) {
    *range = ETI_RELU_RANGE;
    return true;
  }
  *range = ETI_UNBOUNDED;
  return (strcmp(name, "aten::clamp.out") == 0 || strcmp(name, "aten::hardtanh.out") == 0) &&
         read_bound(ctx, next->args, 1, &range->low) &&
         read_bound(ctx, next->args, 2, &range->high);
}

// Whether the call reads `out` and writes its result, *to, into the same memory.
static bool is_in_place(const et_call *next, const et_tensor *out, et_tensor **to) {
  if (next == NULL || next->op->n_args < 2) return false;
  const et_value *const in = next->args[0], *const result = next->args[next->op->n_args - 1];
  if (in->tag != ET_TENSOR || in->as.tensor != out || result->tag != ET_TENSOR) return false;
  *to = result->as.tensor;
  return (*to)->dtype == ET_F32 && (*to)->data == out->data;
}

// Names come last: most calls that follow are known by their tensors to be another's.
bool eti_next_is_clamp(const et_kernel_ctx *ctx, const et_tensor *out, eti_range *range) {
  const et_call *const next = ctx->call == NULL ? NULL : ctx->call->next;
  const et_kernel_ctx quiet = {.err = NULL};
  eti_range found;
  et_tensor *to;
  if (out->dtype != ET_F32 || !is_in_place(next, out, &to) || !read_range(&quiet, next, &found) ||
      eti_resize_like(&quiet, to, out) != ET_OK || !eti_same_layout(to, out))
    return false;
  *range = found;
  return true;
}
