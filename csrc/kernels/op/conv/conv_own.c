// conv_own.c — executorch_py::convolution and packed_convolution: a convolution with an epilogue,
// with plain weights and with weights that a file stores in panels. Relies on conv.h; all work is
// conv.c's.
#include "kernels/kernel.h"
#include "kernels/lib/packed_weight.h"
#include "kernels/op/conv/conv.h"
#include "kernels/ops.h"

// ---- executorch_py::convolution

enum { PLAIN_ARGS = 9 };

// Separates the plain arguments from those of the epilogue.
static void plain_args(et_value *const *args, et_value *plain[PLAIN_ARGS + 1]) {
  for (size_t i = 0; i < PLAIN_ARGS; i++) plain[i] = args[i];
  plain[PLAIN_ARGS] = args[PLAIN_ARGS + ETI_EPILOGUE_ARGS];
}

et_status op_convolution_epilogue_out(et_kernel_ctx *ctx, et_value *const *args) {
  const eti_conv_state *const state = ctx->state;
  et_value *plain[PLAIN_ARGS + 1];
  plain_args(args, plain);
  eti_conv c = {.range = ETI_CLAMP_NONE};
  eti_epilogue_call epilogue;
  ET_TRY(eti_conv_read(ctx, plain, &c));
  const et_tensor *const out = plain[PLAIN_ARGS]->as.tensor;
  ET_TRY(eti_epilogue_bind(ctx, args, PLAIN_ARGS, state == NULL ? NULL : state->epilogue, out,
                           &epilogue));
  c.is_limited = state->epilogue->is_range;
  if (c.is_limited) c.range = state->epilogue->range;
  eti_conv_run(ctx, &c, c.is_limited ? NULL : &epilogue, out);
  return ET_OK;
}

et_status prepare_convolution_epilogue_out(et_prepare_ctx *ctx, et_value *const *args) {
  et_value *plain[PLAIN_ARGS + 1];
  plain_args(args, plain);
  eti_conv_state ready = {.panels = NULL};
  ET_TRY(eti_epilogue_prepare(ctx, args, PLAIN_ARGS, &ready.epilogue));
  return eti_conv_prepare(ctx, plain, NULL, ready);
}

// ---- executorch_py::packed_convolution: weights in panels, their sizes before, then an epilogue,
// which may be absent

enum { PACKED_SIZES = PLAIN_ARGS, PACKED_EPILOGUE };

// Describes the weight before it was packed, and separates the arguments of a plain convolution.
// *stored stays NULL if the weight is depthwise, which is read like a plain one.
static et_status unpack_args(const et_kernel_ctx *ctx, et_value *const *args,
                             eti_unpacked_weight *w, et_value *plain[PLAIN_ARGS + 1],
                             const et_tensor **stored) {
  int64_t groups;
  et_tensor *panels;
  int64_t sizes[5];
  size_t rank = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 1, &panels));
  ET_TRY(eti_arg_ints(ctx, args, PACKED_SIZES, sizes, 5, &rank));
  ET_TRY(eti_arg_int(ctx, args, PLAIN_ARGS - 1, &groups));
  ET_TRY(eti_unpacked_weight_init(ctx, "convolution", sizes, rank, panels, w));
  if (rank > 2 && groups > 1 && sizes[0] == groups && sizes[1] == 1) {
    ET_TRY(eti_unpacked_weight_taps_first(ctx, "convolution", panels, w));
  } else {
    *stored = panels;
  }
  for (size_t i = 0; i < PLAIN_ARGS; i++) plain[i] = args[i];
  plain[1] = &w->value;
  plain[PLAIN_ARGS] = args[PACKED_EPILOGUE + ETI_EPILOGUE_ARGS];
  return ET_OK;
}

et_status op_packed_convolution_out(et_kernel_ctx *ctx, et_value *const *args) {
  const eti_conv_state *const state = ctx->state;
  et_value *plain[PLAIN_ARGS + 1];
  eti_unpacked_weight w;
  eti_epilogue_call call;
  const eti_epilogue_call *epilogue;
  eti_conv c = {.range = ETI_CLAMP_NONE};
  ET_TRY(unpack_args(ctx, args, &w, plain, &c.stored));
  ET_TRY(eti_conv_read(ctx, plain, &c));
  const et_tensor *const out = plain[PLAIN_ARGS]->as.tensor;
  ET_TRY(eti_epilogue_bind_optional(ctx, args, PACKED_EPILOGUE,
                                    state == NULL ? NULL : state->epilogue, out, &call, &epilogue));
  c.is_limited = epilogue != NULL && epilogue->epilogue->is_range;
  if (c.is_limited) c.range = epilogue->epilogue->range;
  eti_conv_run(ctx, &c, c.is_limited ? NULL : epilogue, out);
  return ET_OK;
}

et_status prepare_packed_convolution_out(et_prepare_ctx *ctx, et_value *const *args) {
  et_value *plain[PLAIN_ARGS + 1] = {NULL};
  eti_unpacked_weight w;
  eti_conv_state ready = {.panels = NULL};
  ET_TRY(eti_epilogue_prepare_optional(ctx, args, PACKED_EPILOGUE, &ready.epilogue));
  if (ctx->is_minimal) return eti_conv_prepare(ctx, plain, NULL, ready);
  const et_kernel_ctx k = eti_prepare_args(ctx);
  const et_tensor *stored = NULL;
  ET_TRY(unpack_args(&k, args, &w, plain, &stored));
  return eti_conv_prepare(ctx, plain, stored, ready);
}
