// qconv.c — executorch_py::qconvolution: convolutions of i8 images with packed 8-bit weights,
// grouped and dilated, channels-last on both sides. Every convolution is a product of its patches
// (taps, then channels of the group) with the weights. In depthwise convolutions a panel is 16
// channels, and taps are read in place. Relies on kernels/lib/qgemm_driver.h; micro/qgemm/ defines
// the layout of weights and the arithmetic. Padding has the input's zero point.
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/lib/qgemm_driver.h"
#include "kernels/lib/window_walk.h"

#include <string.h>

enum {
  NR = ETI_QGEMM_NR,
  I_INPUT_ZERO = 1,
  I_WEIGHT = 2,
  I_CHANNELS = 6,
  I_LIMITS = 7,
  I_KERNEL = 10,
  I_GROUPS = 14,
  I_OUT = 15,
};

typedef struct qconv {
  const eti_qgemm_micro *micro;
  eti_windows windows;
  int8_t pad;
  size_t n_images, c_in;  // channels of a group
  bool depthwise;
  eti_qgemm_job product;
} qconv;

// ---- reading the arguments

static et_status read_images(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *out) {
  ET_CHECK(x->rank == 4 && x->dtype == ET_I8 && eti_is_channels_last(x), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected channels-last images of i8, got %s of rank %d",
           et_dtype_name((et_dtype)x->dtype), (int)x->rank);
  ET_CHECK(out->dtype == ET_I8, ctx->err, ET_INVALID_ARGUMENT, "out: expected i8, got %s",
           et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status read_groups(const et_kernel_ctx *ctx, et_value *const *args, qconv *c,
                             int64_t *c_out) {
  int64_t groups;
  const int64_t channels = (int64_t)c->windows.channels;
  ET_TRY(eti_arg_int(ctx, args, I_CHANNELS, c_out));
  ET_TRY(eti_arg_int(ctx, args, I_GROUPS, &groups));
  ET_CHECK(groups >= 1 && channels % groups == 0 && *c_out >= 0 && *c_out <= INT32_MAX &&
               *c_out % groups == 0,
           ctx->err, ET_INVALID_ARGUMENT,
           "%lld input and %lld output channels do not divide into %lld groups",
           (long long)channels, (long long)*c_out, (long long)groups);
  const size_t taps = (size_t)(c->windows.kernel[0] * c->windows.kernel[1]);
  c->c_in = (size_t)(channels / groups);
  c->depthwise = c->c_in == 1 && *c_out == groups && taps <= ETI_QGEMM_MAX_TAPS;
  c->product.groups = c->depthwise ? 1 : (size_t)groups;
  c->product.n = (size_t)*c_out / c->product.groups;
  c->product.k = taps * c->c_in;
  return ET_OK;
}

static void patch_rows(const void *ctx, size_t group, size_t first, size_t n, char *to,
                       size_t step);
static void patch_piece(const void *ctx, size_t group, size_t row, size_t k0, size_t n, int8_t *to);

static et_status read_conv(const et_kernel_ctx *ctx, et_value *const *args, qconv *c) {
  et_tensor *x, *out;
  int64_t pad, c_out;
  *c = (qconv){0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_int(ctx, args, I_INPUT_ZERO, &pad));
  ET_TRY(eti_arg_tensor(ctx, args, I_OUT, &out));
  ET_TRY(read_images(ctx, x, out));
  ET_CHECK(pad >= INT8_MIN && pad <= INT8_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "zero point of the input: expected a number of i8, got %lld", (long long)pad);
  c->pad = (int8_t)pad;
  c->n_images = (size_t)x->sizes[0];
  c->windows = (eti_windows){.images = x->data,
                             .channels = (size_t)x->sizes[1],
                             .pixel_bytes = (size_t)x->sizes[1],
                             .height = x->sizes[2],
                             .width = x->sizes[3]};
  ET_TRY(eti_windows_read(ctx, args, I_KERNEL, "qconvolution", &c->windows));
  ET_TRY(read_groups(ctx, args, c, &c_out));
  eti_qgemm_job *const p = &c->product;
  ET_TRY(eti_qgemm_job_read(ctx, args, I_WEIGHT, false, p));
  ET_TRY(eti_qlimits_read(ctx, args, I_LIMITS, p));
  const eti_shape shape = {.rank = 4,
                           .sizes = {x->sizes[0], (int32_t)c_out, (int32_t)c->windows.rows,
                                     (int32_t)c->windows.columns}};
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_channels_last(ctx, out, ET_INVALID_ARGUMENT, "out"));
  c->micro = p->micro;
  p->m = c->n_images * (size_t)(c->windows.rows * c->windows.columns);
  p->rows = patch_rows;
  p->piece = patch_piece;
  if (eti_windows_are_pixels(&c->windows) && c->c_in == c->windows.channels)
    p->terms = (const int8_t *)c->windows.images;
  p->ctx = c;
  p->out = out->data;
  p->out_step = (size_t)c_out;
  return ET_OK;
}

// ---- patches

// Channels of the taps of one row of a kernel are adjacent.
static bool is_adjacent(const qconv *c) {
  return c->c_in == c->windows.channels && c->windows.dilation[1] == 1;
}

// Terms are written one after the other, in the form of the micro-kernels.
typedef struct writer {
  const eti_qgemm_micro *micro;
  size_t each;  // bytes of a term
  char *to;
} writer;

static void copy_terms(writer *w, const int8_t *from, size_t n) {
  w->micro->copy(w->to, from, n);
  w->to += n * w->each;
}

static void fill_terms(writer *w, int8_t value, size_t n) {
  if (w->each == 1) {
    memset(w->to, w->micro->form == ETI_QROWS_U8 ? value + 128 : value, n);
  } else {
    int16_t *const words = (int16_t *)(void *)w->to;
    for (size_t i = 0; i < n; i++) words[i] = value;
  }
  w->to += n * w->each;
}

static void copy_inner(const qconv *c, size_t group, const eti_corner *at, size_t n, char *to,
                       size_t step) {
  const eti_windows *const all = &c->windows;
  const eti_qwindows w = {
      .to = to,
      .to_step = step,
      .from = (const int8_t *)eti_corner_pixel(all, at, at->y, at->x) + group * c->c_in,
      .step = (size_t)all->stride[1] * all->channels,
      .n = n,
      .piece_step = (size_t)(all->dilation[0] * all->width) * all->channels,
      .pieces = (size_t)all->kernel[0],
      .bytes = (size_t)all->kernel[1] * c->c_in,
  };
  c->micro->copy_windows(&w);
}

// Copies the window of any pixel.
static void copy_patch(const qconv *c, size_t group, const eti_corner *at, char *to) {
  writer w = {c->micro, eti_qterm_bytes(c->micro->form), to};
  const eti_windows *const all = &c->windows;
  const size_t columns = (size_t)all->kernel[1];
  const bool joined = is_adjacent(c) && at->x >= 0 && at->x + all->kernel[1] <= all->width;
  for (int64_t ty = 0; ty < all->kernel[0]; ty++) {
    const int64_t y = at->y + ty * all->dilation[0];
    if (y < 0 || y >= all->height) {
      fill_terms(&w, c->pad, columns * c->c_in);
      continue;
    }
    if (joined) {
      copy_terms(&w, (const int8_t *)eti_corner_pixel(all, at, y, at->x), columns * c->c_in);
      continue;
    }
    for (int64_t tx = 0; tx < all->kernel[1]; tx++) {
      const int64_t x = at->x + tx * all->dilation[1];
      if (x >= 0 && x < all->width) {
        copy_terms(&w, (const int8_t *)eti_corner_pixel(all, at, y, x) + group * c->c_in, c->c_in);
      } else {
        fill_terms(&w, c->pad, c->c_in);
      }
    }
  }
}

static void patch_rows(const void *ctx, size_t group, size_t first, size_t n, char *to,
                       size_t step) {
  const qconv *const c = ctx;
  const eti_windows *const all = &c->windows;
  if (eti_windows_are_pixels(all) && c->c_in == all->channels) {
    eti_qcopy_rows(c->micro, (const int8_t *)all->images + first * all->channels, all->channels, n,
                   to, step);
    return;
  }
  eti_corner at = eti_corner_of(all, first);
  for (size_t i = 0, count; i < n; i += count) {
    count = is_adjacent(c) ? eti_corner_inner(all, &at, n - i) : 0;
    if (count > 0) {
      copy_inner(c, group, &at, count, to + i * step, step);
    } else {
      copy_patch(c, group, &at, to + i * step);
      count = 1;
    }
    eti_corner_skip(all, &at, count);
  }
}

static void patch_piece(const void *ctx, size_t group, size_t row, size_t k0, size_t n,
                        int8_t *to) {
  const qconv *const c = ctx;
  const eti_windows *const all = &c->windows;
  const eti_corner at = eti_corner_of(all, row);
  for (size_t k = k0, count; k < k0 + n; k += count, to += count) {
    const int64_t tap = (int64_t)(k / c->c_in);
    const size_t channel = k % c->c_in, left = c->c_in - channel;
    count = left < k0 + n - k ? left : k0 + n - k;
    const int64_t y = at.y + tap / all->kernel[1] * all->dilation[0],
                  x = at.x + tap % all->kernel[1] * all->dilation[1];
    if (eti_windows_has(all, y, x)) {
      memcpy(to, eti_corner_pixel(all, &at, y, x) + group * c->c_in + channel, count);
    } else {
      memset(to, c->pad, count);
    }
  }
}

// ---- depthwise

enum { ADDRESSES = ETI_ON_STACK(1024, 128), GRAIN = 16 * 1024 };

// Finds the taps of n pixels, from channel `channel` on; padding points to `pads`.
static void find_taps(const qconv *conv, size_t first, size_t n, size_t channel, const int8_t *pads,
                      const int8_t **taps) {
  const eti_windows *const c = &conv->windows;
  const size_t n_taps = conv->product.k;
  const int64_t height = (c->kernel[0] - 1) * c->dilation[0],
                width = (c->kernel[1] - 1) * c->dilation[1];
  size_t offsets[ETI_QGEMM_MAX_TAPS];  // from the first tap of a window in the image
  for (size_t t = 0; t < n_taps; t++) {
    const int64_t y = (int64_t)t / c->kernel[1] * c->dilation[0],
                  x = (int64_t)t % c->kernel[1] * c->dilation[1];
    offsets[t] = ((size_t)y * (size_t)c->width + (size_t)x) * c->channels;
  }
  eti_corner at = eti_corner_of(c, first);
  for (size_t i = 0; i < n; i++, eti_corner_skip(c, &at, 1), taps += n_taps) {
    if (eti_windows_has(c, at.y, at.x) && eti_windows_has(c, at.y + height, at.x + width)) {
      const int8_t *const base = (const int8_t *)eti_corner_pixel(c, &at, at.y, at.x) + channel;
      for (size_t t = 0; t < n_taps; t++) taps[t] = base + offsets[t];
      continue;
    }
    for (int64_t ty = 0, t = 0; ty < c->kernel[0]; ty++) {
      for (int64_t tx = 0; tx < c->kernel[1]; tx++, t++) {
        const int64_t y = at.y + ty * c->dilation[0], x = at.x + tx * c->dilation[1];
        taps[t] = eti_windows_has(c, y, x)
                      ? (const int8_t *)eti_corner_pixel(c, &at, y, x) + channel
                      : pads;
      }
    }
  }
}

typedef struct depthwise_run {
  const qconv *c;
  const int8_t *pads;    // of all channels, or NULL: each panel finds its own addresses
  const void *arranged;  // data of all channels, or NULL
} depthwise_run;

// Channels from `channel` on.
static eti_qdepthwise channels_of(const qconv *c, size_t channel, size_t channels, size_t first) {
  const eti_qgemm_job *const p = &c->product;
  return (eti_qdepthwise){
      .n_taps = p->k,
      .w = p->weight + channel / NR * eti_qpanel_bytes(eti_div_up(p->k, ETI_QGEMM_QUAD)),
      .start = p->starts + channel,
      .scale = p->scales + channel,
      .add = p->adds + channel,
      .channels = channels,
      .out = (int8_t *)p->out + first * p->out_step + channel,
      .out_step = p->out_step,
      .low = p->low,
      .high = p->high,
      .zero = p->zero,
  };
}

static void run_pixels(void *ctx, size_t begin, size_t end) {
  const depthwise_run *const r = ctx;
  const qconv *const c = r->c;
  const int8_t *taps[ADDRESSES];
  int8_t pads[NR];
  memset(pads, c->pad, sizeof pads);
  const size_t at_once = ADDRESSES / c->product.k, channels = c->product.n;
  for (size_t first = begin, n; first < end; first += n) {
    n = end - first < at_once ? end - first : at_once;
    const size_t step = r->pads != NULL ? channels : NR;
    for (size_t channel = 0; channel < channels; channel += step) {
      const size_t count = channels - channel < step ? channels - channel : step;
      eti_qdepthwise d = channels_of(c, channel, count, first);
      find_taps(c, first, n, channel, r->pads != NULL ? r->pads : pads, taps);
      d.taps = taps;
      d.arranged = r->arranged;
      d.n = n;
      c->micro->depthwise(&d);
    }
  }
}

// Scratch: a pixel of padding, then the data of channels as the micro-kernel arranges them.
static size_t padding_bytes(const qconv *c) {
  return eti_div_up(c->windows.channels, 64) * 64;
}

static size_t depthwise_scratch(const qconv *c) {
  const size_t arranged = c->micro->arranged_bytes == NULL
                              ? 0
                              : c->micro->arranged_bytes(c->windows.channels, c->product.k);
  return padding_bytes(c) + arranged;
}

static void run_depthwise(const et_kernel_ctx *ctx, const qconv *c) {
  depthwise_run r = {.c = c};
  if (ctx->scratch_bytes >= depthwise_scratch(c) && ctx->scratch != NULL) {
    memset(ctx->scratch, c->pad, c->windows.channels);
    r.pads = ctx->scratch;
    if (c->micro->arrange_channels != NULL) {
      char *const arranged = (char *)ctx->scratch + padding_bytes(c);
      const eti_qdepthwise d = channels_of(c, 0, c->product.n, 0);
      c->micro->arrange_channels(&d, arranged);
      r.arranged = arranged;
    }
  }
  et_parallel_for(ctx->pool, run_pixels, &r, c->product.m,
                  GRAIN / (c->windows.channels * c->product.k + 1) + 1);
}

// ---- entries

et_status op_qconvolution_out(et_kernel_ctx *ctx, et_value *const *args) {
  qconv c;
  ET_TRY(read_conv(ctx, args, &c));
  if (c.depthwise && c.product.m > 0 && c.product.n > 0) {
    run_depthwise(ctx, &c);
  } else if (!c.depthwise) {
    eti_qgemm_job_run(ctx, &c.product);
  }
  return ET_OK;
}

et_status prepare_qconvolution_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  qconv c;
  ET_TRY(read_conv(&k, args, &c));
  const size_t bytes =
      c.depthwise ? depthwise_scratch(&c) : eti_qgemm_job_scratch(&c.product, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
