// grid_sample.c — sampling of images at the positions of a grid: grid_sampler_2d and
// grid_sampler_3d, any layout. Positions are rounded as in torch, to f32 unless the images are f64,
// since nearest sampling depends on it; weighted sums of f32 are f32, others f64 and rounded once.
// Relies on micro/sample/grid_sample_kernel.h.
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/micro/sample/grid_sample_kernel.h"
#include "kernels/ops.h"

// Dimensions are depth, height, width; images without a depth have one of size 1 and stride 0.
typedef struct sampler {
  const char *op;
  const et_tensor *x, *grid, *out;
  size_t spatial;
  int64_t in[3];
  ptrdiff_t steps[3];
  int64_t mode, padding;
  bool align_corners, wide, in_f32;
  size_t height, width;  // of the positions, as rows of them
} sampler;

static int type_of(uint8_t dtype) {
  return dtype == ET_F32   ? ETI_GRID_SAMPLE_F32
         : dtype == ET_F64 ? ETI_GRID_SAMPLE_F64
         : dtype == ET_F16 ? ETI_GRID_SAMPLE_F16
                           : ETI_GRID_SAMPLE_BF16;
}

static eti_grid_sample_axis axis_of(const sampler *s, size_t d) {
  return (eti_grid_sample_axis){.size = s->in[2 - d],
                                .step = s->steps[2 - d],
                                .mode = s->mode,
                                .padding = s->padding,
                                .align_corners = s->align_corners,
                                .wide = s->wide,
                                .volume = s->spatial == 3};
}

// Samples n positions of one row, from element `from` of the grid on; `to` and `image` are the
// first elements of the first channel. All channels share the positions.
static void sample_wide(const sampler *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t image, size_t n) {
  const et_tensor *x = s->x, *grid = s->grid, *out = s->out;
  const size_t last = s->spatial + 1;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype);
  const eti_grid_sample_micro *const micro = eti_grid_sample_micro_get();
  eti_grid_sample_taps taps[3];  // depth, height, width
  double values[ETI_GRID_SAMPLE_BLOCK];
  for (size_t d = 0; d < s->spatial; d++) {  // the grid names the width first
    const eti_grid_sample_axis axis = axis_of(s, d);
    eti_casts[grid->dtype][ET_F64](values, 8,
                                   eti_element(grid, from + (ptrdiff_t)d * grid->strides[last]),
                                   grid->strides[last - 1] * item, n);
    micro->place(&taps[2 - d], &axis, values, n);
  }
  for (ptrdiff_t c = 0; c < out->sizes[1]; c++) {
    micro->blend[type_of(x->dtype)](values, eti_element(x, image + c * x->strides[1]),
                                    s->spatial == 3 ? &taps[0] : NULL, &taps[1], &taps[2], s->mode,
                                    n);
    eti_casts[ET_F64][out->dtype](eti_element(out, to + c * out->strides[1]),
                                  out->strides[last] * item, values, 8, n);
  }
}

static void sample_f32(const sampler *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t image, size_t n) {
  const et_tensor *x = s->x, *grid = s->grid, *out = s->out;
  const size_t last = s->spatial + 1;
  const ptrdiff_t step = out->strides[last];
  const eti_grid_sample_micro *const micro = eti_grid_sample_micro_get();
  eti_grid_sample_taps_f32 taps[3];
  eti_grid_sample_corners corners;
  float values[ETI_GRID_SAMPLE_BLOCK];
  for (size_t d = 0; d < s->spatial; d++) {
    const eti_grid_sample_axis axis = axis_of(s, d);
    const ptrdiff_t at = from + (ptrdiff_t)d * grid->strides[last];
    micro->place_f32(&taps[2 - d], &axis, (const float *)grid->data + at, grid->strides[last - 1],
                     n);
  }
  const size_t count =
      micro->join_f32(&corners, s->spatial == 3 ? &taps[0] : NULL, &taps[1], &taps[2], s->mode, n);
  for (ptrdiff_t c = 0; c < out->sizes[1]; c++) {
    const float *const plane = (const float *)x->data + image + c * x->strides[1];
    float *const result = (float *)out->data + to + c * out->strides[1];
    micro->blend_f32(step == 1 ? result : values, plane, &corners, count, n);
    for (size_t i = 0; i < n && step != 1; i++) result[(ptrdiff_t)i * step] = values[i];
  }
}

static size_t blocks_of(const sampler *s) {
  return (s->width + ETI_GRID_SAMPLE_BLOCK - 1) / ETI_GRID_SAMPLE_BLOCK;
}

// Each item is a block of a row of positions: images × depth × rows of the grid × blocks of one.
static void sample_blocks(void *opaque, size_t begin, size_t end) {
  const sampler *const s = opaque;
  const et_tensor *out = s->out, *grid = s->grid;
  const size_t last = s->spatial + 1, blocks = blocks_of(s), height = s->height,
               depth = s->spatial == 3 ? (size_t)out->sizes[2] : 1;
  for (size_t i = begin; i < end; i++) {
    const size_t row = i / blocks, x = i % blocks * ETI_GRID_SAMPLE_BLOCK;
    const ptrdiff_t y = (ptrdiff_t)(row % height), z = (ptrdiff_t)(row / height % depth),
                    n = (ptrdiff_t)(row / height / depth);
    ptrdiff_t from = n * grid->strides[0] + y * grid->strides[last - 2],
              to = n * out->strides[0] + y * out->strides[last - 1];
    if (s->spatial == 3) {
      from += z * grid->strides[1];
      to += z * out->strides[2];
    }
    from += (ptrdiff_t)x * grid->strides[last - 1];
    to += (ptrdiff_t)x * out->strides[last];
    const size_t m = s->width - x < ETI_GRID_SAMPLE_BLOCK ? s->width - x : ETI_GRID_SAMPLE_BLOCK;
    (s->in_f32 ? sample_f32 : sample_wide)(s, from, to, n * s->x->strides[0], m);
  }
}

// Rows of the grid that are contiguous, with contiguous results, become one row.
static void measure_rows(sampler *s) {
  const size_t last = s->spatial + 1;
  const ptrdiff_t *const grid = s->grid->strides, *const out = s->out->strides;
  s->height = (size_t)s->out->sizes[last - 1];
  s->width = (size_t)s->out->sizes[last];
  if (grid[last - 2] == (ptrdiff_t)s->width * grid[last - 1] &&
      out[last - 1] == (ptrdiff_t)s->width * out[last]) {
    s->width *= s->height;
    s->height = 1;
  }
  int64_t span = 0;
  for (size_t d = 0; d < 3; d++) span += (s->in[d] - 1) * s->steps[d];
  s->in_f32 = s->x->dtype == ET_F32 && span < ETI_GRID_SAMPLE_SPAN_F32;
}

static et_status check_grid(const et_kernel_ctx *ctx, const sampler *s) {
  const et_tensor *x = s->x, *grid = s->grid, *out = s->out;
  const size_t rank = s->spatial + 2;
  ET_CHECK(x->rank == rank && eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) &&
               x->dtype == out->dtype && out != x,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point type, rank %zu and another tensor as out, got input %s "
           "of rank %d, out %s",
           s->op, rank, et_dtype_name((et_dtype)x->dtype), (int)x->rank,
           et_dtype_name((et_dtype)out->dtype));
  for (size_t d = 2; d < rank; d++)
    ET_CHECK(x->sizes[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input: expected spatial dimensions of 1 or more, got 0", s->op);
  ET_CHECK(grid->rank == rank && grid->sizes[rank - 1] == (int32_t)s->spatial &&
               grid->sizes[0] == x->sizes[0] && grid->dtype == x->dtype && grid != out,
           ctx->err, ET_INVALID_ARGUMENT, "%s: grid: expected %s[%d, %s%zu], got %s of rank %d",
           s->op, et_dtype_name((et_dtype)x->dtype), (int)x->sizes[0],
           s->spatial == 3 ? "depth, height, width, " : "height, width, ", s->spatial,
           et_dtype_name((et_dtype)grid->dtype), (int)grid->rank);
  const int64_t most = s->spatial == 2 ? ETI_GRID_SAMPLE_BICUBIC : ETI_GRID_SAMPLE_NEAREST;
  ET_CHECK(s->mode >= ETI_GRID_SAMPLE_BILINEAR && s->mode <= most &&
               s->padding >= ETI_GRID_SAMPLE_ZEROS && s->padding <= ETI_GRID_SAMPLE_REFLECTION,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected interpolation of at most %lld and padding of at most 2, got %lld and %lld",
           s->op, (long long)most, (long long)s->mode, (long long)s->padding);
  return ET_OK;
}

// (input, grid, interpolation_mode, padding_mode, align_corners, out)
static et_status grid_sample(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                             const char *op) {
  et_tensor *x = NULL, *grid = NULL, *out = NULL;
  sampler s = {.op = op, .spatial = spatial, .in = {1, 1, 1}};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &grid));
  ET_TRY(eti_arg_int(ctx, args, 2, &s.mode));
  ET_TRY(eti_arg_int(ctx, args, 3, &s.padding));
  ET_TRY(eti_arg_bool(ctx, args, 4, &s.align_corners));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  s.x = x;
  s.grid = grid;
  s.out = out;
  s.wide = x->dtype == ET_F64;
  ET_TRY(check_grid(ctx, &s));
  eti_shape shape = {.rank = spatial + 2, .sizes = {x->sizes[0], x->sizes[1]}};
  for (size_t d = 0; d < spatial; d++) {
    shape.sizes[2 + d] = grid->sizes[1 + d];
    s.in[3 - spatial + d] = x->sizes[2 + d];
    s.steps[3 - spatial + d] = x->strides[2 + d];
  }
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  measure_rows(&s);
  const size_t rows = out->numel / (size_t)shape.sizes[1] / s.width;
  const size_t per_block = (size_t)shape.sizes[1] * ETI_GRID_SAMPLE_BLOCK;
  et_parallel_for(ctx->pool, sample_blocks, &s, rows * blocks_of(&s), 1 + 4096 / per_block);
  return ET_OK;
}

et_status op_grid_sampler_2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return grid_sample(ctx, args, 2, "grid_sampler_2d");
}
et_status op_grid_sampler_3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return grid_sample(ctx, args, 3, "grid_sampler_3d");
}
