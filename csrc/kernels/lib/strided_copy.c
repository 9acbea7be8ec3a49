// strided_copy.c — see strided_copy.h. The axes of a finished plan are in the destination's memory
// order, outermost first, so that writes stream; the innermost loop is the best of five kinds for
// the strides.
#include "kernels/lib/strided_copy.h"

#include <string.h>

#include "kernels/micro/transpose.h"

#define UNIT_BYTES 65536u  // least work of a thread
#define MIN_CHUNK 64u      // least columns of a transpose in one unit

enum kind {
  NOTHING,    // no element
  ROWS,       // innermost axis contiguous on both sides
  FILL,       // innermost axis repeats one element
  TRANSPOSE,  // innermost axis contiguous in dst, the one before it in src
  STRIDED,    // anything else
  CAST        // elements change type
};

void eti_plan_begin(eti_copy_plan *plan, size_t bytes) {
  plan->dst_offset = 0;
  plan->src_offset = 0;
  plan->cast = NULL;
  plan->dst_bytes = (uint8_t)bytes;
  plan->src_bytes = (uint8_t)bytes;
  plan->rank = 0;
}

et_status eti_plan_begin_cast(eti_copy_plan *plan, et_dtype to, et_dtype from, et_error *err) {
  eti_plan_begin(plan, et_dtype_bytes(to));
  if (to == from) return ET_OK;
  plan->cast = eti_casts[from][to];
  plan->src_bytes = (uint8_t)et_dtype_bytes(from);
  ET_CHECK(plan->cast != NULL, err, ET_NOT_SUPPORTED, "no conversion from %s to %s",
           et_dtype_name(from), et_dtype_name(to));
  return ET_OK;
}

// ---- Finishing a plan

static size_t stride_magnitude(ptrdiff_t stride) {
  return stride < 0 ? (size_t)0 - (size_t)stride : (size_t)stride;
}

// Keeps the axes with more than one item, strides in bytes, sorted by destination stride. False
// when there is no element.
static bool sort_axes(eti_copy_plan *plan) {
  size_t rank = 0;
  for (size_t i = 0; i < plan->rank; i++) {
    eti_axis a = plan->axis[i];
    if (a.n == 0) return false;
    if (a.n == 1) continue;
    a.dst *= plan->dst_bytes;
    a.src *= plan->src_bytes;
    size_t at = rank++;
    while (at > 0 && stride_magnitude(plan->axis[at - 1].dst) < stride_magnitude(a.dst)) {
      plan->axis[at] = plan->axis[at - 1];
      at--;
    }
    plan->axis[at] = a;
  }
  plan->rank = (uint8_t)rank;
  return true;
}

// Merges neighbouring axes that are contiguous on both sides.
static void merge_axes(eti_copy_plan *plan) {
  if (plan->rank == 0) {
    plan->axis[plan->rank++] = (eti_axis){.n = 1, .dst = plan->dst_bytes, .src = plan->src_bytes};
    return;
  }
  size_t last = 0;
  for (size_t i = 1; i < plan->rank; i++) {
    eti_axis *outer = &plan->axis[last];
    const eti_axis inner = plan->axis[i];
    if (outer->dst == (ptrdiff_t)inner.n * inner.dst &&
        outer->src == (ptrdiff_t)inner.n * inner.src) {
      *outer = (eti_axis){.n = outer->n * inner.n, .dst = inner.dst, .src = inner.src};
    } else {
      plan->axis[++last] = inner;
    }
  }
  plan->rank = (uint8_t)(last + 1);
}

// Copies an innermost contiguous run of 2, 4, 8 or 16 bytes as one larger element.
static void widen_elements(eti_copy_plan *plan) {
  const eti_axis *inner = &plan->axis[plan->rank - 1];
  const ptrdiff_t bytes = plan->dst_bytes;
  if (plan->rank < 2 || inner->dst != bytes || inner->src != bytes || inner->n > 16) return;
  const size_t run = inner->n * plan->dst_bytes;
  if (run != 2 && run != 4 && run != 8 && run != 16) return;
  plan->dst_bytes = (uint8_t)run;
  plan->src_bytes = (uint8_t)run;
  plan->rank--;
}

static void move_axis(eti_copy_plan *plan, size_t from, size_t to) {
  const eti_axis a = plan->axis[from];
  for (size_t i = from; i < to; i++) plan->axis[i] = plan->axis[i + 1];
  plan->axis[to] = a;
}

static enum kind choose_kind(eti_copy_plan *plan) {
  const size_t last = plan->rank - 1u;
  const eti_axis *inner = &plan->axis[last];
  const ptrdiff_t bytes = plan->dst_bytes;
  if (plan->cast == NULL && inner->dst == bytes) {
    if (inner->src == bytes) return ROWS;
    if (inner->src == 0) return FILL;
    for (size_t i = 0; i < last; i++) {
      if (plan->axis[i].src != bytes) continue;
      move_axis(plan, i, last - 1);
      return TRANSPOSE;
    }
  }
  // A short innermost axis makes the loop around it costly, so the two are exchanged.
  if (last > 0 && inner->n < 8 && inner[-1].n > inner->n) move_axis(plan, last - 1, last);
  return plan->cast == NULL ? STRIDED : CAST;
}

static size_t n_inner_axes(const eti_copy_plan *plan) {
  return plan->kind == TRANSPOSE ? 2 : 1;
}

void eti_plan_finish(eti_copy_plan *plan) {
  plan->dst_offset *= plan->dst_bytes;
  plan->src_offset *= plan->src_bytes;
  plan->n_units = 0;
  if (!sort_axes(plan)) {
    plan->kind = NOTHING;
    plan->rank = 0;
    return;
  }
  merge_axes(plan);
  if (plan->cast == NULL) widen_elements(plan);
  plan->kind = (uint8_t)choose_kind(plan);

  const size_t n_outer = plan->rank - n_inner_axes(plan);
  const size_t n = plan->axis[n_outer].n;  // the axis that is split into chunks
  size_t item = plan->dst_bytes;
  if (plan->kind == TRANSPOSE) item *= plan->axis[plan->rank - 1u].n;
  size_t chunk = item < UNIT_BYTES ? UNIT_BYTES / item : 1;
  if (chunk < MIN_CHUNK) chunk = MIN_CHUNK;
  plan->chunk = chunk < n ? chunk : n;
  plan->n_chunks = (n + plan->chunk - 1) / plan->chunk;
  plan->n_units = plan->n_chunks;
  for (size_t i = 0; i < n_outer; i++) plan->n_units *= plan->axis[i].n;
  const size_t unit = plan->chunk * item;
  plan->grain = unit < UNIT_BYTES ? UNIT_BYTES / unit : 1;
}

// ---- Inner loops: m times (steps dm, sm) n items of the innermost axes

static inline void move_element(char *dst, const char *src, size_t bytes) {
  char value[16];
  memcpy(value, src, bytes);
  memcpy(dst, value, bytes);
}

// All loads come before the stores, as in memmove. size is a constant, half < bytes <= 2 * half.
static inline void move_ends(char *dst, const char *src, size_t bytes, size_t half) {
  char head[16], tail[16];
  memcpy(head, src, half);
  memcpy(tail, src + bytes - half, half);
  memcpy(dst, head, half);
  memcpy(dst + bytes - half, tail, half);
}

static void copy_rows(char *dst, ptrdiff_t dm, const char *src, ptrdiff_t sm, size_t m,
                      size_t bytes) {
  if (bytes > 32 || m < 4) {
    for (; m > 0; m--, dst += dm, src += sm) memmove(dst, src, bytes);
  } else if (bytes >= 16) {
    for (; m > 0; m--, dst += dm, src += sm) move_ends(dst, src, bytes, 16);
  } else if (bytes >= 8) {
    for (; m > 0; m--, dst += dm, src += sm) move_ends(dst, src, bytes, 8);
  } else if (bytes >= 4) {
    for (; m > 0; m--, dst += dm, src += sm) move_ends(dst, src, bytes, 4);
  } else {
    for (; m > 0; m--, dst += dm, src += sm) {
      for (size_t i = 0; i < bytes; i++) dst[i] = src[i];
    }
  }
}

static inline void fill_row(char *dst, const char *src, size_t n, size_t bytes) {
  char value[16];
  memcpy(value, src, bytes);
  for (size_t i = 0; i < n; i++) memcpy(dst + i * bytes, value, bytes);
}

static inline void strided_row(char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss, size_t n,
                               size_t bytes) {
  for (; n > 0; n--, dst += ds, src += ss) move_element(dst, src, bytes);
}

static void fill_by_size(char *dst, const char *src, size_t n, size_t bytes) {
  switch (bytes) {
    case 1:
      memset(dst, *src, n);
      break;
    case 2:
      fill_row(dst, src, n, 2);
      break;
    case 4:
      fill_row(dst, src, n, 4);
      break;
    case 8:
      fill_row(dst, src, n, 8);
      break;
    default:
      fill_row(dst, src, n, 16);
      break;
  }
}

static void strided_by_size(char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss, size_t n,
                            size_t bytes) {
  if (ds == (ptrdiff_t)bytes && ss == -ds) {
    eti_reverse(dst, src + (ptrdiff_t)(n - 1) * ss, n, bytes);
    return;
  }
  switch (bytes) {
    case 1:
      strided_row(dst, ds, src, ss, n, 1);
      break;
    case 2:
      strided_row(dst, ds, src, ss, n, 2);
      break;
    case 4:
      strided_row(dst, ds, src, ss, n, 4);
      break;
    case 8:
      strided_row(dst, ds, src, ss, n, 8);
      break;
    default:
      strided_row(dst, ds, src, ss, n, 16);
      break;
  }
}

static void run_inner(const eti_copy_plan *plan, char *dst, ptrdiff_t dm, const char *src,
                      ptrdiff_t sm, size_t m, size_t n) {
  const eti_axis *a = &plan->axis[plan->rank - 1u];
  const size_t bytes = plan->dst_bytes;
  switch (plan->kind) {
    case ROWS:
      copy_rows(dst, dm, src, sm, m, n * bytes);
      break;
    case FILL:
      for (; m > 0; m--, dst += dm, src += sm) fill_by_size(dst, src, n, bytes);
      break;
    case TRANSPOSE:
      for (; m > 0; m--, dst += dm, src += sm)
        eti_transpose(dst, a[-1].dst, src, a->src, a->n, n, bytes);
      break;
    case STRIDED:
      for (; m > 0; m--, dst += dm, src += sm) strided_by_size(dst, a->dst, src, a->src, n, bytes);
      break;
    default:
      for (; m > 0; m--, dst += dm, src += sm) plan->cast(dst, a->dst, src, a->src, n);
      break;
  }
}

// ---- Outer loops

typedef struct job {
  const eti_copy_plan *plan;
  char *dst;
  const char *src;
} job;

typedef struct cursor {
  char *dst;
  const char *src;
  size_t index[ETI_PLAN_AXES];
} cursor;

static void cursor_seek(cursor *at, const job *j, size_t n_outer, size_t position) {
  at->dst = j->dst;
  at->src = j->src;
  for (size_t d = n_outer; d-- > 0;) {
    const eti_axis *a = &j->plan->axis[d];
    at->index[d] = position == 0 ? 0 : position % a->n;
    position = position == 0 ? 0 : position / a->n;
    at->dst += (ptrdiff_t)at->index[d] * a->dst;
    at->src += (ptrdiff_t)at->index[d] * a->src;
  }
}

// Moves m ≥ 1 items along the last outer axis, never past its end, and carries.
static void cursor_advance(cursor *at, const eti_copy_plan *plan, size_t n_outer, size_t m) {
  size_t d = n_outer - 1;
  at->index[d] += m;
  at->dst += (ptrdiff_t)m * plan->axis[d].dst;
  at->src += (ptrdiff_t)m * plan->axis[d].src;
  while (d > 0 && at->index[d] == plan->axis[d].n) {
    const eti_axis *a = &plan->axis[d];
    at->dst -= (ptrdiff_t)a->n * a->dst;
    at->src -= (ptrdiff_t)a->n * a->src;
    at->index[d--] = 0;
    at->index[d]++;
    at->dst += plan->axis[d].dst;
    at->src += plan->axis[d].src;
  }
}

static void run_units(void *ctx, size_t begin, size_t end) {
  const job *j = ctx;
  const eti_copy_plan *plan = j->plan;
  const size_t n_outer = plan->rank - n_inner_axes(plan);
  const eti_axis *split = &plan->axis[n_outer];
  cursor at;
  cursor_seek(&at, j, n_outer, plan->n_chunks == 1 ? begin : begin / plan->n_chunks);

  if (plan->n_chunks == 1 && n_outer > 0) {  // several units along the last outer axis at once
    const eti_axis *last = split - 1;
    while (begin < end) {
      const size_t left = last->n - at.index[n_outer - 1];
      const size_t m = end - begin < left ? end - begin : left;
      run_inner(plan, at.dst, last->dst, at.src, last->src, m, split->n);
      cursor_advance(&at, plan, n_outer, m);
      begin += m;
    }
    return;
  }
  size_t c = begin % plan->n_chunks;
  for (; begin < end; begin++) {
    const size_t first = c * plan->chunk;
    const size_t n = split->n - first < plan->chunk ? split->n - first : plan->chunk;
    run_inner(plan, at.dst + (ptrdiff_t)first * split->dst, 0,
              at.src + (ptrdiff_t)first * split->src, 0, 1, n);
    if (++c == plan->n_chunks) {
      c = 0;
      if (n_outer > 0) cursor_advance(&at, plan, n_outer, 1);
    }
  }
}

void eti_plan_run(const eti_copy_plan *plan, const et_pool *pool, void *dst, const void *src) {
  if (plan->n_units == 0) return;
  job j = {.plan = plan,
           .dst = (char *)dst + plan->dst_offset,
           .src = (const char *)src + plan->src_offset};
  if (plan->n_units == 1 && plan->kind == ROWS) {
    if (j.dst != j.src) memmove(j.dst, j.src, plan->axis[0].n * plan->dst_bytes);
    return;
  }
  et_parallel_for(pool, run_units, &j, plan->n_units, plan->grain);
}

// ---- Plans over tensors

void eti_plan_windows(eti_copy_plan *plan, const eti_window *dst, const eti_window *src) {
  plan->dst_offset = dst->offset;
  plan->src_offset = src->offset;
  for (size_t d = 0; d < dst->shape.rank; d++) {
    eti_plan_axis(plan, (size_t)dst->shape.sizes[d], dst->strides[d], src->strides[d]);
  }
  eti_plan_finish(plan);
}

void eti_copy_windows(const et_pool *pool, void *dst, const eti_window *to, const void *src,
                      const eti_window *from, size_t bytes) {
  eti_copy_plan plan;
  eti_plan_begin(&plan, bytes);
  eti_plan_windows(&plan, to, from);
  eti_plan_run(&plan, pool, dst, src);
}

void eti_fill_window(const et_pool *pool, void *dst, const eti_window *to, const void *value,
                     size_t bytes) {
  eti_copy_plan plan;
  eti_plan_begin(&plan, bytes);
  plan.dst_offset = to->offset;
  for (size_t d = 0; d < to->shape.rank; d++)
    eti_plan_axis(&plan, (size_t)to->shape.sizes[d], to->strides[d], 0);
  eti_plan_finish(&plan);
  eti_plan_run(&plan, pool, dst, value);
}

// Dimensions of one tensor from the innermost outwards; those that logical order walks as one are
// merged.
typedef struct run_list {
  size_t n;
  struct {
    size_t n;
    ptrdiff_t stride;
  } run[ET_MAX_RANK];
} run_list;

static void logical_runs(run_list *runs, const et_tensor *t) {
  runs->n = 0;
  for (size_t d = t->rank; d-- > 0;) {
    if (t->sizes[d] == 1) continue;
    const size_t n = (size_t)t->sizes[d];
    if (runs->n > 0 &&
        t->strides[d] == (ptrdiff_t)runs->run[runs->n - 1].n * runs->run[runs->n - 1].stride) {
      runs->run[runs->n - 1].n *= n;
      continue;
    }
    runs->run[runs->n].n = n;
    runs->run[runs->n++].stride = t->strides[d];
  }
}

bool eti_plan_reshape(eti_copy_plan *plan, const et_tensor *dst, const et_tensor *src) {
  if (dst->numel == 0) {
    eti_plan_axis(plan, 0, 0, 0);
    eti_plan_finish(plan);
    return true;
  }
  run_list a, b;
  logical_runs(&a, dst);
  logical_runs(&b, src);
  // Split the longer of the two innermost runs at the length of the shorter, if that divides it.
  size_t i = 0, k = 0;
  while (i < a.n && k < b.n) {
    const size_t n = a.run[i].n < b.run[k].n ? a.run[i].n : b.run[k].n;
    if (a.run[i].n % n != 0 || b.run[k].n % n != 0) return false;
    eti_plan_axis(plan, n, a.run[i].stride, b.run[k].stride);
    a.run[i].n /= n;
    a.run[i].stride *= (ptrdiff_t)n;
    b.run[k].n /= n;
    b.run[k].stride *= (ptrdiff_t)n;
    if (a.run[i].n == 1) i++;
    if (b.run[k].n == 1) k++;
  }
  if (ET_NEVER(i < a.n || k < b.n)) return false;
  eti_plan_finish(plan);
  return true;
}

// A position in a tensor that advances in logical order.
typedef struct walk {
  const et_tensor *t;
  ptrdiff_t offset;  // elements
  int32_t index[ET_MAX_RANK];
} walk;

static void walk_seek(walk *w, const et_tensor *t, size_t position) {
  w->t = t;
  w->offset = 0;
  for (size_t d = t->rank; d-- > 0;) {
    w->index[d] = (int32_t)(position % (size_t)t->sizes[d]);
    position /= (size_t)t->sizes[d];
    w->offset += w->index[d] * t->strides[d];
  }
}

// Advances by one element; after the last it starts over.
static void walk_next(walk *w) {
  for (size_t d = w->t->rank; d-- > 0;) {
    w->offset += w->t->strides[d];
    if (++w->index[d] < w->t->sizes[d]) return;
    w->offset -= w->index[d] * w->t->strides[d];
    w->index[d] = 0;
  }
}

void eti_copy_in_order(const et_tensor *dst, const et_tensor *src, size_t shift) {
  if (dst->numel == 0) return;
  const size_t bytes = et_dtype_bytes((et_dtype)dst->dtype);
  if (eti_is_contiguous(dst) && eti_is_contiguous(src)) {
    const size_t head = (src->numel - shift) * bytes;
    eti_copy_bytes((char *)dst->data + shift * bytes, src->data, head);
    eti_copy_bytes(dst->data, (const char *)src->data + head, shift * bytes);
    return;
  }
  walk to, from;
  walk_seek(&to, dst, shift);
  walk_seek(&from, src, 0);
  for (size_t k = 0; k < src->numel; k++) {
    eti_copy_bytes((char *)dst->data + to.offset * (ptrdiff_t)bytes,
                   (const char *)src->data + from.offset * (ptrdiff_t)bytes, bytes);
    walk_next(&to);
    walk_next(&from);
  }
}

et_status eti_copy_tensor(const et_kernel_ctx *ctx, const et_tensor *dst, const et_tensor *src) {
  eti_copy_plan plan;
  ET_TRY(eti_plan_begin_cast(&plan, (et_dtype)dst->dtype, (et_dtype)src->dtype, ctx->err));
  const eti_window to = eti_window_of(dst), from = eti_window_of(src);
  eti_plan_windows(&plan, &to, &from);
  eti_plan_run(&plan, ctx->pool, dst->data, src->data);
  return ET_OK;
}
