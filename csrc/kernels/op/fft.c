// fft.c — discrete Fourier transforms along any dimensions: _fft_c2c, _fft_r2c, _fft_c2r.
// Dimensions are transformed in turn, their lines in blocks; threads split the blocks, or a single
// long line. Prepare claims the tables of dimensions of known size, which the first run fills, and
// scratch for blocks. Relies on fft_lines.h. Without scratch, short lines are transformed on the
// stack, and longer ones are refused.
#include "kernels/lib/fft_lines.h"
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"
#include "kernels/lib/promote.h"

#include <math.h>

enum { STACK_BYTES = ETI_ON_STACK(32768, 256), NEAR_BYTES = 16 * 1024, BLOCK_BYTES = 512 * 1024 };

// The prepared state of one dimension.
typedef struct known_axis {
  size_t n;
  void *tables;
  bool is_filled;
} known_axis;

typedef struct fft_state {
  known_axis axes[ET_MAX_RANK];  // in the order of the argument
} fft_state;

typedef enum direction { REAL_TO_COMPLEX, COMPLEX_TO_REAL, COMPLEX_TO_COMPLEX } direction;

typedef struct fft {
  et_tensor *in, *out;
  direction direction;
  bool flag;                    // onesided, or forward
  size_t n_axes;                // the last one is the real one
  size_t axes[ET_MAX_RANK];     // dimensions
  size_t lengths[ET_MAX_RANK];  // of the lines along them
  int type;                     // ETI_FFT_F32 or ETI_FFT_F64
  double scale;
} fft;

static eti_fft_kind kind_of(const fft *f, size_t i) {
  if (i + 1 < f->n_axes || f->direction == COMPLEX_TO_COMPLEX) return ETI_FFT_COMPLEX;
  return f->direction == REAL_TO_COMPLEX ? ETI_FFT_FORWARD : ETI_FFT_BACK;
}

static et_status read_axes(const et_kernel_ctx *ctx, et_value *const *args, fft *f) {
  int64_t dims[ET_MAX_RANK];
  uint32_t seen = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, dims, ET_MAX_RANK, &f->n_axes));
  for (size_t i = 0; i < f->n_axes; i++) {
    ET_TRY(eti_wrap_dim(ctx, dims[i], f->in->rank, &f->axes[i]));
    ET_CHECK(f->in->rank > 0 && (seen >> f->axes[i] & 1u) == 0, ctx->err, ET_INVALID_ARGUMENT,
             "fft: expected distinct dimensions, of rank 1 or more, got dimension %lld at rank %d",
             (long long)dims[i], (int)f->in->rank);
    seen |= 1u << f->axes[i];
    f->lengths[i] = (size_t)f->in->sizes[f->axes[i]];
  }
  return ET_OK;
}

static et_status check_types(const et_kernel_ctx *ctx, const fft *f) {
  static const uint8_t real[] = {ET_F32, ET_F64}, complex[] = {ET_C64, ET_C128};
  const uint8_t in = (f->direction == REAL_TO_COMPLEX ? real : complex)[f->type],
                out = (f->direction == COMPLEX_TO_REAL ? real : complex)[f->type];
  ET_CHECK(f->in->dtype == in && f->out->dtype == out, ctx->err, ET_NOT_SUPPORTED,
           "fft: not defined for input %s and out %s", et_dtype_name((et_dtype)f->in->dtype),
           et_dtype_name((et_dtype)f->out->dtype));
  return ET_OK;
}

// (self, dim, normalization, …, out)
static et_status read_fft(const et_kernel_ctx *ctx, et_value *const *args, direction d, fft *f) {
  int64_t norm, last = 0;
  *f = (fft){.direction = d};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &f->in));
  ET_TRY(eti_arg_int(ctx, args, 2, &norm));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &f->out));
  ET_TRY(read_axes(ctx, args, f));
  f->type = f->in->dtype == ET_F64 || f->in->dtype == ET_C128 ? ETI_FFT_F64 : ETI_FFT_F32;
  ET_TRY(check_types(ctx, f));
  ET_CHECK(f->n_axes > 0 || d == COMPLEX_TO_COMPLEX, ctx->err, ET_INVALID_ARGUMENT,
           "fft: expected 1 dimension or more, got none");
  ET_CHECK(norm >= 0 && norm <= 2, ctx->err, ET_INVALID_ARGUMENT,
           "fft: normalization: expected 0, 1 or 2, got %lld", (long long)norm);
  if (d != COMPLEX_TO_REAL) {
    ET_TRY(eti_arg_bool(ctx, args, 3, &f->flag));
  } else if (!eti_is_preparing(ctx) || args[3]->tag == ET_INT) {
    ET_TRY(eti_arg_int(ctx, args, 3, &last));
    ET_CHECK(last >= 1 && last <= INT32_MAX && (size_t)last / 2 + 1 <= f->lengths[f->n_axes - 1],
             ctx->err, ET_INVALID_ARGUMENT,
             "fft: last dimension: expected %lld numbers for %lld results, got %zu",
             (long long)last / 2 + 1, (long long)last, f->lengths[f->n_axes - 1]);
    f->lengths[f->n_axes - 1] = (size_t)last;
  } else {
    f->lengths[f->n_axes - 1] *= 2;  // the complex numbers of n real ones
  }
  double product = 1.0;
  for (size_t i = 0; i < f->n_axes; i++) product *= (double)f->lengths[i];
  f->scale = norm == 0 ? 1.0 : norm == 1 ? 1.0 / sqrt(product) : 1.0 / product;
  return ET_OK;
}

static eti_shape shape_of(const fft *f) {
  eti_shape shape = eti_shape_of(f->in);
  if (f->direction == COMPLEX_TO_COMPLEX) return shape;
  const size_t n = f->lengths[f->n_axes - 1];
  const bool half = f->direction == REAL_TO_COMPLEX && f->flag;
  shape.sizes[f->axes[f->n_axes - 1]] = (int32_t)(half ? n / 2 + 1 : n);
  return shape;
}

// ---- one dimension

// One side of a transform: memory with elements at `strides`.
typedef struct side {
  char *data;
  size_t bytes;
  ptrdiff_t strides[ET_MAX_RANK];
} side;

static side side_of(const et_tensor *t) {
  side s = {.data = t->data, .bytes = et_dtype_bytes((et_dtype)t->dtype)};
  for (size_t d = 0; d < t->rank; d++) s.strides[d] = t->strides[d];
  return s;
}

typedef struct axis_run {
  const eti_fft_plan *plan;
  side in, out;
  eti_shape lines;            // the shape, less the dimension
  size_t order[ET_MAX_RANK];  // of its dimensions, the fastest last
  size_t axis, n_lines, lanes;
  size_t n_slots, slot_bytes;
  char *work;
  bool backward, twosided;
  double scale;
} axis_run;

// True if each line starts one element after the one before.
static bool is_side_by_side(const void *const *starts, size_t n, size_t bytes) {
  if (n < 2) return false;
  for (size_t l = 1; l < n; l++) {
    if ((const char *)starts[l] != (const char *)starts[l - 1] + bytes) return false;
  }
  return true;
}

static void run_block(const axis_run *r, size_t first, size_t n, void *work) {
  eti_fft_lines lines = {.n_lines = n,
                         .in_step = r->in.strides[r->axis],
                         .out_step = r->out.strides[r->axis],
                         .backward = r->backward,
                         .twosided = r->twosided,
                         .scale = r->scale};
  size_t at[ET_MAX_RANK];
  ptrdiff_t in = 0, out = 0;
  for (size_t i = r->lines.rank; i-- > 0;) {
    const size_t d = r->order[i], size = (size_t)r->lines.sizes[d];
    at[d] = first % size;
    first /= size;
    in += (ptrdiff_t)at[d] * r->in.strides[d];
    out += (ptrdiff_t)at[d] * r->out.strides[d];
  }
  for (size_t l = 0; l < n; l++) {
    lines.in[l] = r->in.data + in * (ptrdiff_t)r->in.bytes;
    lines.out[l] = r->out.data + out * (ptrdiff_t)r->out.bytes;
    for (size_t i = r->lines.rank; i-- > 0;) {
      const size_t d = r->order[i];
      in += r->in.strides[d];
      out += r->out.strides[d];
      if (++at[d] < (size_t)r->lines.sizes[d]) break;
      in -= (ptrdiff_t)at[d] * r->in.strides[d];
      out -= (ptrdiff_t)at[d] * r->out.strides[d];
      at[d] = 0;
    }
  }
  lines.in_rows = is_side_by_side(lines.in, n, r->in.bytes);
  lines.out_rows = is_side_by_side((const void *const *)lines.out, n, r->out.bytes);
  eti_fft_run(r->plan, &lines, work);
}

// Orders lines as in memory, so that those of a block are side by side if possible.
static void order_dims(axis_run *r) {
  for (size_t d = 0; d < r->lines.rank; d++) {
    size_t i = d;
    for (; i > 0 && r->in.strides[r->order[i - 1]] < r->in.strides[d]; i--)
      r->order[i] = r->order[i - 1];
    r->order[i] = d;
  }
}

// Each item is a slot, with work memory of its own and a share of the blocks.
static void run_slots(void *ctx, size_t begin, size_t end) {
  const axis_run *const r = ctx;
  const size_t n_blocks = (r->n_lines + r->lanes - 1) / r->lanes;
  for (size_t slot = begin; slot < end; slot++) {
    const size_t to = n_blocks * (slot + 1) / r->n_slots;
    for (size_t b = n_blocks * slot / r->n_slots; b < to; b++) {
      const size_t first = b * r->lanes;
      const size_t n = r->n_lines - first < r->lanes ? r->n_lines - first : r->lanes;
      run_block(r, first, n, r->work + slot * r->slot_bytes);
    }
  }
}

// Number of lines in a block: sixteen, more for short lines, fewer for those that exceed the
// caches.
static size_t lanes_for(const eti_fft_plan *plan) {
  const size_t few = 16, near = NEAR_BYTES / plan->lane_bytes / few * few;
  const size_t n = near >= few ? near : BLOCK_BYTES / plan->lane_bytes;
  const size_t most = near >= few || plan->most_lanes < few ? plan->most_lanes : few;
  return n < 1 ? 1 : n < most ? n : most;
}

typedef struct memory {
  char *at;
  size_t bytes;
} memory;

static bool claim_bytes(memory *m, size_t bytes, void **out) {
  const size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded > m->bytes) return false;
  *out = m->at;
  m->at += rounded;
  m->bytes -= rounded;
  return true;
}

// Transforms along axis i of f.
static et_status run_axis(const et_kernel_ctx *ctx, const fft *f, size_t i, axis_run *r,
                          memory room) {
  eti_fft_plan plan;
  fft_state *const state = ctx->state;
  known_axis *const known =
      state != NULL && state->axes[i].n == f->lengths[i] ? &state->axes[i] : NULL;
  void *tables = known == NULL ? NULL : known->tables;
  eti_fft_plan_init(&plan, f->type, kind_of(f, i), f->lengths[i]);
  if (!(tables != NULL || claim_bytes(&room, plan.table_bytes, &tables)) ||
      room.bytes < plan.lane_bytes)
    ET_CHECK(false, ctx->err, ET_OUT_OF_RESOURCES,
             "fft: lines of %zu: expected %zu bytes of scratch, got %zu; prepare requests them",
             f->lengths[i], plan.table_bytes + plan.lane_bytes, ctx->scratch_bytes);
  if (known != NULL && known->is_filled) {
    plan.tables = tables;
  } else {
    eti_fft_fill(&plan, tables, room.at);
    if (known != NULL) known->is_filled = true;
  }
  const size_t fit = room.bytes / plan.lane_bytes, wanted = lanes_for(&plan);
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  r->plan = &plan;
  r->axis = f->axes[i];
  r->lanes = fit < wanted ? fit : wanted;
  r->slot_bytes = r->lanes * plan.lane_bytes;
  r->n_slots = room.bytes / r->slot_bytes < threads ? room.bytes / r->slot_bytes : threads;
  if (r->n_lines * f->lengths[i] < 4 * ETI_GRAIN_MATH / 8) r->n_slots = 1;
  if (r->n_lines == 1 && plan.room_bytes > 0) {  // threads share the line
    const size_t rooms = 1 + (room.bytes - r->slot_bytes) / plan.room_bytes;
    r->n_slots = 1;
    plan.pool = ctx->pool;
    plan.n_rooms = rooms < threads ? rooms : threads;
    plan.rooms = room.at + r->slot_bytes;
  }
  r->work = room.at;
  r->lines.sizes[r->axis] = 1;
  order_dims(r);
  et_parallel_for(ctx->pool, run_slots, r, r->n_slots, 1);
  return ET_OK;
}

// ---- all dimensions

static size_t n_lines_of(const eti_shape *shape, size_t axis) {
  size_t n = 1;
  for (size_t d = 0; d < shape->rank; d++) n *= d == axis ? 1 : (size_t)shape->sizes[d];
  return n;
}

// Runs the first n dimensions of the argument, which are complex: the first one reads from `from`,
// the others work in `to`.
static et_status run_complex(const et_kernel_ctx *ctx, const fft *f, size_t n,
                             const eti_shape *shape, side from, side to, bool backward,
                             double scale, memory room) {
  for (size_t i = 0; i < n; i++) {
    axis_run r = {.in = i == 0 ? from : to,
                  .out = to,
                  .lines = *shape,
                  .n_lines = n_lines_of(shape, f->axes[i]),
                  .backward = backward,
                  .scale = i + 1 == n ? scale : 1.0};
    ET_TRY(run_axis(ctx, f, i, &r, room));
  }
  return ET_OK;
}

static et_status run_forward(const et_kernel_ctx *ctx, const fft *f, memory room) {
  const size_t last = f->n_axes - 1;
  const eti_shape shape = eti_shape_of(f->out);
  axis_run r = {.in = side_of(f->in),
                .out = side_of(f->out),
                .lines = shape,
                .n_lines = n_lines_of(&shape, f->axes[last]),
                .twosided = !f->flag,
                .scale = last == 0 ? f->scale : 1.0};
  ET_TRY(run_axis(ctx, f, last, &r, room));
  return run_complex(ctx, f, last, &shape, r.out, r.out, false, f->scale, room);
}

// Runs the backward transform: complex dimensions leave their results in scratch for the real one.
static et_status run_back(const et_kernel_ctx *ctx, const fft *f, memory room) {
  const size_t last = f->n_axes - 1;
  const eti_shape shape = eti_shape_of(f->in);
  side from = side_of(f->in);
  if (last > 0) {
    side between = {.bytes = from.bytes};
    void *data;
    size_t numel = 1;
    for (size_t d = shape.rank; d-- > 0; numel *= (size_t)shape.sizes[d])
      between.strides[d] = (ptrdiff_t)numel;
    ET_CHECK(
        claim_bytes(&room, numel * from.bytes, &data), ctx->err, ET_OUT_OF_RESOURCES,
        "fft: several dimensions: expected %zu bytes of scratch, got %zu; prepare requests them",
        numel * from.bytes, ctx->scratch_bytes);
    between.data = data;
    ET_TRY(run_complex(ctx, f, last, &shape, from, between, true, 1.0, room));
    from = between;
  }
  axis_run r = {
      .in = from, .out = side_of(f->out), .lines = eti_shape_of(f->out), .scale = f->scale};
  r.n_lines = n_lines_of(&r.lines, f->axes[last]);
  return run_axis(ctx, f, last, &r, room);
}

static et_status run_fft(et_kernel_ctx *ctx, et_value *const *args, direction d) {
  fft f;
  _Alignas(64) char stack[STACK_BYTES];
  ET_TRY(read_fft(ctx, args, d, &f));
  ET_CHECK(f.in != f.out, ctx->err, ET_INVALID_ARGUMENT, "fft: out is also the input");
  const eti_shape shape = shape_of(&f);
  ET_TRY(eti_resize(ctx, f.out, &shape));
  if (f.out->numel == 0) return ET_OK;
  ET_CHECK(f.in->numel > 0, ctx->err, ET_INVALID_ARGUMENT,
           "fft: expected 1 element or more along each dimension, got none");
  if (f.n_axes == 0) return eti_copy_tensor(ctx, f.out, f.in);
  memory room = {ctx->scratch, ctx->scratch_bytes};
  if (room.bytes < sizeof stack) room = (memory){stack, sizeof stack};
  if (d == REAL_TO_COMPLEX) return run_forward(ctx, &f, room);
  if (d == COMPLEX_TO_REAL) return run_back(ctx, &f, room);
  return run_complex(ctx, &f, f.n_axes, &shape, side_of(f.in), side_of(f.out), !f.flag, f.scale,
                     room);
}

// ---- prepare

// Claims the tables of a dimension of known size, else counts them as scratch.
static void prepare_axis(et_prepare_ctx *ctx, const fft *f, size_t i, fft_state *state,
                         bool is_known, size_t *scratch) {
  size_t tables, lane, lanes_bytes, rooms = 0;
  if (is_known) {
    eti_fft_plan plan;
    eti_fft_plan_init(&plan, f->type, kind_of(f, i), f->lengths[i]);
    tables = plan.table_bytes;
    lane = plan.lane_bytes;
    void *const claimed = et_prepare_alloc(ctx, tables, 64);
    if (state != NULL) state->axes[i] = (known_axis){.n = f->lengths[i], .tables = claimed};
    tables = 0;
    lanes_bytes = lanes_for(&plan) * lane;
    rooms = plan.room_bytes;
  } else {
    eti_fft_bounds(f->type, f->lengths[i], &tables, &lane);
    lanes_bytes = lane > BLOCK_BYTES ? lane : BLOCK_BYTES;
  }
  const size_t n_lines = f->in->numel / (size_t)f->in->sizes[f->axes[i]];
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads;
  const size_t bytes = tables + lanes_bytes * (n_lines < threads ? n_lines : threads) +
                       (n_lines == 1 ? rooms * (threads - 1) : 0);
  if (bytes > *scratch) *scratch = bytes;
}

static et_status prepare_fft(et_prepare_ctx *ctx, et_value *const *args, direction d) {
  et_kernel_ctx silent = eti_silent_args(ctx);
  fft f;
  size_t scratch = STACK_BYTES;
  if (read_fft(&silent, args, d, &f) != ET_OK || f.in->numel == 0) return ET_OK;
  const bool is_known = !eti_is_dynamic(f.in) && (d != COMPLEX_TO_REAL || args[3]->tag == ET_INT);
  fft_state *state = NULL;
  if (is_known) {
    state = et_prepare_alloc(ctx, sizeof *state, _Alignof(fft_state));
    if (state != NULL) *state = (fft_state){0};
  }
  for (size_t i = 0; i < f.n_axes; i++) prepare_axis(ctx, &f, i, state, is_known, &scratch);
  if (is_known && et_prepare_status(ctx) != ET_OK) return et_prepare_status(ctx);
  if (d == COMPLEX_TO_REAL && f.n_axes > 1)
    scratch += f.in->numel * et_dtype_bytes((et_dtype)f.in->dtype) + 64;
  if (scratch > ctx->scratch_bytes) ctx->scratch_bytes = scratch;
  ctx->state = state;
  return ET_OK;
}

#define FFT(name, direction)                                             \
  et_status op_##name(et_kernel_ctx *ctx, et_value *const *args) {       \
    return run_fft(ctx, args, direction);                                \
  }                                                                      \
  et_status prepare_##name(et_prepare_ctx *ctx, et_value *const *args) { \
    return prepare_fft(ctx, args, direction);                            \
  }
FFT(fft_c2c_out, COMPLEX_TO_COMPLEX)
FFT(fft_c2r_out, COMPLEX_TO_REAL)
FFT(fft_r2c_out, REAL_TO_COMPLEX)
