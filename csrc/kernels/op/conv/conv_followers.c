// conv_followers.c — absorption of a relu, hardtanh or clamp after a convolution, in place on its
// result: the convolution clamps its sums, and the call is absorbed (et_absorb_fn in et.h). Relies
// on conv.h. Calls no operator, and recognises them by name: a reference would keep them in every
// selective build.
#include "kernels/lib/args.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"
#include "kernels/op/conv/conv.h"
#include "kernels/ops.h"

#include <string.h>

enum { CONV_OUT = 9 };  // position of the convolution's out argument

typedef struct follower {
  const char *name;
  uint8_t i_out;    // position of its out argument
  bool has_bounds;  // arguments 1 and 2; else it is relu
} follower;

static const follower followers[] = {
    {"aten::clamp.out", 3, true}, {"aten::hardtanh.out", 3, true}, {"aten::relu.out", 1, false}};

// True if every run can give `to` the sizes of `from`, and both then have the same layout.
static bool keeps_layout(const et_tensor *from, const et_tensor *to) {
  if ((to->flags & ET_TENSOR_DYNAMIC) == 0)
    return (from->flags & ET_TENSOR_DYNAMIC) == 0 && eti_same_layout(from, to);
  return to->rank == from->rank && memcmp(to->dim_order, from->dim_order, to->rank) == 0 &&
         to->capacity >= from->capacity;
}

// The result of a call that overwrites the convolution's result in place; NULL for another call.
// Both are f32.
static et_tensor *result_in_place(const et_call *call, const et_call *next, size_t i_out) {
  const et_value *const in = next->args[0], *const out = next->args[i_out];
  const et_tensor *const from = call->args[CONV_OUT]->as.tensor;
  if (in->tag != ET_TENSOR || in->as.tensor != from || out->tag != ET_TENSOR) return NULL;
  et_tensor *const to = out->as.tensor;
  return from->dtype == ET_F32 && to->dtype == ET_F32 && to->data == from->data &&
                 keeps_layout(from, to)
             ? to
             : NULL;
}

// Sets a bound of f32, unless the argument is None. False: no number.
static bool read_bound(et_value *const *args, size_t i, float *bound) {
  const et_kernel_ctx quiet = {.err = NULL};
  bool present;
  eti_scalar value;
  return eti_arg_optional_scalar(&quiet, args, i, &present, &value) == ET_OK &&
         (!present || eti_scalar_store(&value, ET_F32, bound));
}

// Reads the bounds; a NaN bound makes everything NaN, as in clamp.
static bool read_range(et_value *const *args, eti_clamp_range *range) {
  *range = ETI_CLAMP_NONE;
  if (!read_bound(args, 1, &range->low) || !read_bound(args, 2, &range->high)) return false;
  if (isnan(range->low) || isnan(range->high)) range->plus = NAN;
  return true;
}

bool eti_conv_absorb(const et_call *call, const et_call *next) {
  eti_conv_state *const state = call->state;
  const follower *f = followers, *const end = f + sizeof followers / sizeof followers[0];
  while (f < end && strcmp(f->name, next->op->name) != 0) f++;
  if (state == NULL || f == end) return false;
  et_tensor *const to = result_in_place(call, next, f->i_out);
  eti_clamp_range range;
  if (to == NULL || (f->has_bounds && !read_range(next->args, &range))) return false;
  state->follows = f->has_bounds ? ETI_CONV_CLAMP : ETI_CONV_RELU;
  state->followed = to;
  state->bounds = next->args;
  return true;
}

et_status eti_conv_follow(const et_kernel_ctx *ctx, const eti_conv_state *state,
                          const et_tensor *out, eti_conv *c) {
  if (state == NULL || state->follows == ETI_CONV_NO_FOLLOWER) return ET_OK;
  c->is_limited = true;
  c->range = ETI_CLAMP_RELU;
  ET_CHECK(state->follows == ETI_CONV_RELU || read_range(state->bounds, &c->range), ctx->err,
           ET_INVALID_PROGRAM,
           "convolution: expected numbers as bounds of the clamp after it, got %s and %s",
           eti_kind_name(state->bounds[1]), eti_kind_name(state->bounds[2]));
  return eti_resize_like(ctx, state->followed, out);
}
