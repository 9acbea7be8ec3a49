// conv.h — the geometry of a convolution, read once from the arguments and shared by its files.
// Relies on et.h and micro/gemm/gemm.h. Internal to op/conv*.c.
#ifndef ET_OP_CONV_H
#define ET_OP_CONV_H

#include "kernels/lib/epilogue.h"
#include "kernels/micro/gemm/gemm.h"
#include "runtime/et.h"

// An image; fewer than three spatial dimensions have leading ones of size 1.
typedef struct eti_image {
  const char *data;
  int64_t sizes[3];
  ptrdiff_t n_step, c_step, steps[3];  // in elements
} eti_image;

typedef enum eti_conv_way {
  ETI_CONV_BY_PIXEL,    // product with output channels as rows
  ETI_CONV_BY_CHANNEL,  // product with pixels as rows
  ETI_CONV_DEPTHWISE,   // panels are [taps × channels]
} eti_conv_way;

// Memory from which the product reads an image: its own, or a copy in scratch (conv_stage.c) in
// channels-last order, half types as f32.
typedef enum eti_conv_stage {
  ETI_CONV_IN_PLACE,
  ETI_CONV_TO_PIXELS,  // planes transposed to channels-last pixels
  ETI_CONV_WIDENED,    // half types as f32 in their own layout
} eti_conv_stage;

enum {
  ETI_CONV_FEW_PIXELS = 64,
  ETI_CONV_FEW_CHANNELS = 16,
  ETI_CONV_LONG_SEGMENT = 8,  // values from which reading pixels in place beats packing them
  ETI_CONV_ROW_ROOM = 256,    // largest patch that may be copied at the edges of an image
  ETI_CONV_MAX_BANDS = 8,     // of a dimension of the result (conv_padding.c)
};

// An absorbed clamp of the result (conv_followers.c).
typedef enum eti_conv_follower {
  ETI_CONV_NO_FOLLOWER,
  ETI_CONV_RELU,
  ETI_CONV_CLAMP,
} eti_conv_follower;

// State of a call, made by prepare: room for the packed weights of all groups, and their layout.
// The first run fills it: loading stays cheap, and the run's threads share the packing. Without
// panels (weights that are computed) each run chooses again.
typedef struct eti_conv_state {
  eti_conv_way way;
  bool is_packed;
  void *panels;  // NULL: none
  size_t height;
  void *zeros;  // a segment of zeros, for padding read in place; NULL if none is
  eti_conv_stage stage;
  bool is_checked, is_finite;    // of all weights, once they were checked
  const eti_epilogue *epilogue;  // of executorch_py::convolution; NULL: none
  // The call after this one, when it is absorbed: its kind, result and arguments.
  eti_conv_follower follows;
  et_tensor *followed;
  et_value *const *bounds;
} eti_conv_state;

typedef struct eti_conv {
  et_dtype dtype, x_dtype;  // x_dtype: that of the image, which may be a widened copy
  size_t esize, x_esize;
  eti_image x, out;
  const char *w, *bias;     // bias NULL: none
  const et_tensor *stored;  // w are these panels (lib/packed_weight.h); NULL: w is not packed
  ptrdiff_t w_out_step, w_in_step, w_group_step, w_steps[3];
  int64_t kernel[3], stride[3], padding[3], dilation[3];  // padding of a phase may be negative
  bool transposed;
  size_t n_images, groups, c_in, c_out;  // channels per group
  size_t n_taps, k, pixels;              // k = n_taps · c_in
  size_t head, tail;                     // values of k that the product leaves out
  eti_clamp_range range;                 // of an f32 result, once the sums are whole
  bool is_limited;                       // false: range is ETI_CLAMP_NONE
  const eti_epilogue_call *epilogue;     // applied to finished parts of the result; NULL: none
  bool *epilogue_done;                   // set to true when it was applied
  const char *result;                    // start of the whole result
  eti_conv_state ready;
} eti_conv;

// Bands of outputs in each dimension: band i is [at[d][i], at[d][i + 1]).
typedef struct eti_conv_bands {
  size_t n[3];
  int64_t at[3][ETI_CONV_MAX_BANDS + 1];
} eti_conv_bands;

// Reads the arguments of aten::convolution.out and gives the result its size; c->stored is set.
et_status eti_conv_read(const et_kernel_ctx *ctx, et_value *const *args, eti_conv *c);
// Runs a convolution that was read, then the epilogue (or NULL) on its result `out`.
void eti_conv_run(const et_kernel_ctx *ctx, eti_conv *c, const eti_epilogue_call *epilogue,
                  const et_tensor *out);
// Claims memory for runs with these arguments. `stored` is that of eti_conv; `ready` is the state
// so far: it may have an epilogue.
et_status eti_conv_prepare(et_prepare_ctx *ctx, et_value *const *args, const et_tensor *stored,
                           eti_conv_state ready);

// Number of phases. A transposed convolution is the sum of its phases (conv_phases.c), each a plain
// convolution; a plain one has one phase, itself.
size_t eti_conv_n_phases(const eti_conv *c);
eti_conv eti_conv_phase(const eti_conv *c, size_t i);

// Adds the absorbed clamp to c, if any, and gives the result of the absorbed call the sizes of
// `out`.
et_status eti_conv_follow(const et_kernel_ctx *ctx, const eti_conv_state *state,
                          const et_tensor *out, eti_conv *c);

// Numbers of taps, first and last in their order, that read only padding for every pixel of the
// result.
void eti_conv_padding_taps(const eti_conv *c, size_t *head, size_t *tail);
// Finds rectangles of the result that few taps reach, if their products take clearly less time than
// one product; returns their number, else 1. And rectangle i, as a convolution.
size_t eti_conv_split(const eti_conv *c, eti_conv_bands *b);
eti_conv eti_conv_part(const eti_conv *c, const eti_conv_bands *b, size_t i);
// True if the whole result or a rectangle has such taps.
bool eti_conv_leaves_out(const eti_conv *c);

// True if some weights are not finite; and a transposed convolution for that case.
bool eti_conv_has_nonfinite_weights(const eti_conv *c);
void eti_conv_nonfinite_run(const et_kernel_ctx *ctx, eti_conv *c);

// True if one step leads from each pixel to the next, row after row.
bool eti_conv_pixel_step(const eti_image *im, ptrdiff_t *step);
// The fastest memory to read images from; the bytes of scratch for one image there; the layout of
// such an image; and the copy of c's first image to the beginning of the scratch, from which c then
// reads it.
eti_conv_stage eti_conv_stage_of(const eti_conv *c);
size_t eti_conv_staged_bytes(const eti_conv *c);
void eti_conv_use_stage(eti_conv_stage stage, const char *image, eti_conv *c);
void eti_conv_stage_image(const et_kernel_ctx *ctx, eti_conv_stage stage, eti_conv *c);

// Runs a depthwise convolution (one input channel per group) of one phase, f32 and half types, with
// the panels of c->ready. False if the product must run instead.
bool eti_conv_depthwise_run(const et_kernel_ctx *ctx, const eti_conv *c);
// Claims scratch and room for packed weights of all phases, recorded in *ready; *taken is false if
// the product must run instead.
et_status eti_conv_depthwise_prepare(et_prepare_ctx *ctx, const eti_conv *c, eti_conv_state *ready,
                                     bool *taken);

// Pack and point functions of a product whose ctx is an eti_conv (eti_gemm_operand): the weights of
// the job's group, and the patches of its image and group.
void eti_conv_pack_weights(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                           size_t k0, size_t n_k);
void eti_conv_pack_patches(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                           size_t k0, size_t n_k);
// Values of k that the product reads in place as one segment: the channels of a tap or, if these
// are few, of a row of taps; 0 if patches must be packed. Edges of the image then need row_room.
size_t eti_conv_segment(const eti_conv *c, size_t *row_room);
// Sets the addresses of n pixels, segment by segment; padding points at c->ready.zeros.
void eti_conv_point_pixels(const eti_gemm *g, const void **rows, void *room, size_t first,
                           size_t n);

#endif  // ET_OP_CONV_H
