// iter.c — see iter.h. Merging dimensions makes the common cases (equal layouts, one broadcast
// operand) a single row. Rows that need casts go through buffers on the stack, so no operator is
// instantiated per pair of types.
#include "kernels/lib/iter.h"

#include "kernels/lib/promote.h"
#include "kernels/lib/tiled_iter.h"
#include "kernels/stack.h"

// ---- the index space

void eti_iter_add_dim(eti_iter *it, size_t size, const ptrdiff_t *strides) {
  if (size == 1) return;
  if (it->rank > 0) {
    const size_t last = it->rank - 1;
    const ptrdiff_t n = (ptrdiff_t)it->sizes[last];
    bool merges = true;
    for (size_t k = 0; k < it->n_operands; k++) merges &= strides[k] == it->strides[last][k] * n;
    if (merges) {
      it->sizes[last] *= size;
      return;
    }
  }
  it->sizes[it->rank] = size;
  for (size_t k = 0; k < it->n_operands; k++) it->strides[it->rank][k] = strides[k];
  it->rank++;
}

et_status eti_iter_init(const et_kernel_ctx *ctx, eti_iter *it, et_tensor *const *operands,
                        size_t n) {
  const et_tensor *out = operands[0];
  it->rank = 0;
  it->numel = out->numel;
  it->n_operands = n;
  ptrdiff_t bytes[ETI_MAX_OPERANDS];
  for (size_t k = 0; k < n; k++) {
    ET_CHECK(operands[k]->rank <= out->rank, ctx->err, ET_INVALID_ARGUMENT,
             "out: expected rank %d, as its inputs broadcast to, got %d", (int)operands[k]->rank,
             (int)out->rank);
    it->data[k] = operands[k]->data;
    bytes[k] = (ptrdiff_t)et_dtype_bytes((et_dtype)operands[k]->dtype);
  }
  for (size_t i = out->rank; i-- > 0;) {
    const size_t d = out->dim_order[i];
    ptrdiff_t strides[ETI_MAX_OPERANDS];
    for (size_t k = 0; k < n; k++) {
      const et_tensor *t = operands[k];
      const size_t missing = (size_t)out->rank - t->rank;
      const int32_t size = d < missing ? 1 : t->sizes[d - missing];
      ET_CHECK(size == 1 || size == out->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
               "out: dimension %zu: expected size %d, as its inputs broadcast to, got %d", d,
               (int)size, (int)out->sizes[d]);
      strides[k] = size == 1 ? 0 : t->strides[d - missing] * bytes[k];
    }
    eti_iter_add_dim(it, (size_t)out->sizes[d], strides);
  }
  return ET_OK;
}

void eti_iter_rows(const eti_iter *it, size_t begin, size_t end, eti_row_fn row, void *ctx) {
  static const ptrdiff_t no_strides[ETI_MAX_OPERANDS];
  size_t at[ET_MAX_RANK];
  void *p[ETI_MAX_OPERANDS];
  const size_t n_operands = it->n_operands;
  if (begin >= end) return;
  if (it->rank == 0) {
    for (size_t k = 0; k < n_operands; k++) p[k] = it->data[k];
    row(ctx, p, no_strides, 1);
    return;
  }
  size_t rest = begin;
  for (size_t k = 0; k < n_operands; k++) p[k] = it->data[k];
  for (size_t d = 0; d < it->rank; d++) {
    at[d] = rest % it->sizes[d];
    rest /= it->sizes[d];
    for (size_t k = 0; k < n_operands; k++)
      p[k] = (char *)p[k] + (ptrdiff_t)at[d] * it->strides[d][k];
  }
  for (size_t i = begin;;) {
    size_t n = it->sizes[0] - at[0];
    if (n > end - i) n = end - i;
    row(ctx, p, it->strides[0], n);
    i += n;
    if (i >= end) return;
    // Rows after the first begin at index 0 of the innermost dimension: step back, then carry.
    for (size_t k = 0; k < n_operands; k++)
      p[k] = (char *)p[k] - (ptrdiff_t)at[0] * it->strides[0][k];
    at[0] = 0;
    for (size_t d = 1; d < it->rank; d++) {
      if (++at[d] < it->sizes[d]) {
        for (size_t k = 0; k < n_operands; k++) p[k] = (char *)p[k] + it->strides[d][k];
        break;
      }
      at[d] = 0;
      for (size_t k = 0; k < n_operands; k++) {
        p[k] = (char *)p[k] - (ptrdiff_t)(it->sizes[d] - 1) * it->strides[d][k];
      }
    }
  }
}

// ---- rows with casts

#define CAST_BYTES \
  ETI_ON_STACK(6144u, 1152u)  // of the elements of all operands that are cast together
#define CAST_BLOCK 16u        // elements of a vector: their number is a multiple if possible

typedef struct cast_rows {
  eti_loop loop;
  const void *params;
  size_t n_operands;
  size_t block;                        // elements of each operand that fit the room together
  eti_cast_fn cast[ETI_MAX_OPERANDS];  // NULL: used in place
  ptrdiff_t bytes[ETI_MAX_OPERANDS];   // element size in the loop's type
  eti_cast_fn to_half[ETI_MAX_OPERANDS], from_half[ETI_MAX_OPERANDS];  // NULL: not rounded
} cast_rows;

static void plain_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const eti_map *map = ctx;
  map->loop(p, s, n, map->params);
}

// Reads elements of operand k in the loop's type, rounded to a half type if the map requires it.
static void cast_operand(const cast_rows *c, size_t k, void *to, const void *from, ptrdiff_t stride,
                         size_t n) {
  c->cast[k](to, c->bytes[k], from, stride, n);
  if (c->to_half[k] == NULL) return;
  uint16_t halves[CAST_BYTES / sizeof(float)];
  c->to_half[k](halves, sizeof halves[0], to, c->bytes[k], n);
  c->from_half[k](to, c->bytes[k], halves, sizeof halves[0], n);
}

static void cast_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const cast_rows *c = ctx;
  _Alignas(64) unsigned char room[CAST_BYTES];
  unsigned char *buffers[ETI_MAX_OPERANDS];
  void *q[ETI_MAX_OPERANDS];
  ptrdiff_t t[ETI_MAX_OPERANDS];
  for (size_t k = 0, at = 0; k < c->n_operands; k++) {
    buffers[k] = room + at;
    if (c->cast[k] != NULL) at += c->block * (size_t)c->bytes[k];
    q[k] = c->cast[k] != NULL ? (void *)buffers[k] : p[k];
    t[k] = c->cast[k] != NULL ? (k > 0 && s[k] == 0 ? 0 : c->bytes[k]) : s[k];
    if (k > 0 && c->cast[k] != NULL && s[k] == 0) cast_operand(c, k, buffers[k], p[k], 0, 1);
  }
  for (size_t i = 0; i < n; i += c->block) {
    const size_t m = n - i < c->block ? n - i : c->block;
    for (size_t k = 1; k < c->n_operands; k++) {
      if (s[k] == 0) continue;
      char *from = (char *)p[k] + (ptrdiff_t)i * s[k];
      if (c->cast[k] != NULL) {
        cast_operand(c, k, buffers[k], from, s[k], m);
      } else {
        q[k] = from;
      }
    }
    char *to = (char *)p[0] + (ptrdiff_t)i * s[0];
    if (c->cast[0] == NULL) q[0] = to;
    c->loop(q, t, m, c->params);
    if (c->cast[0] != NULL) c->cast[0](to, s[0], buffers[0], c->bytes[0], m);
  }
}

typedef struct range_job {
  const eti_iter *it;
  eti_row_fn row;
  void *row_ctx;
} range_job;

static void range_task(void *ctx, size_t begin, size_t end) {
  const range_job *job = ctx;
  eti_iter_rows(job->it, begin, end, job->row, job->row_ctx);
}

static void run_rows(const et_kernel_ctx *ctx, const eti_iter *it, et_tensor *const *operands,
                     size_t grain, eti_row_fn row, void *row_ctx) {
  eti_tiled_iter tiles;
  if (eti_tiled_iter_init(&tiles, it, operands)) {
    eti_tiled_iter_run(&tiles, ctx->pool, grain, row, row_ctx);
    return;
  }
  range_job job = {it, row, row_ctx};
  et_parallel_for(ctx->pool, range_task, &job, it->numel, grain);
}

static et_status run_cast(const et_kernel_ctx *ctx, const eti_map *map, const eti_iter *it,
                          et_tensor *const *operands, size_t n) {
  cast_rows c = {.loop = map->loop, .params = map->params, .n_operands = n};
  size_t together = 0;
  for (size_t k = 0; k < n; k++) {
    const et_dtype has = (et_dtype)operands[k]->dtype, needs = (et_dtype)map->types[k];
    c.bytes[k] = (ptrdiff_t)et_dtype_bytes(needs);
    const et_dtype via = (et_dtype)map->via[k];
    if (has == needs && via == ET_U8) continue;
    if (via != ET_U8) {
      c.to_half[k] = eti_casts[needs][via];
      c.from_half[k] = eti_casts[via][needs];
    }
    c.cast[k] = k == 0 ? eti_casts[needs][has] : eti_casts[has][needs];
    ET_CHECK(c.cast[k] != NULL, ctx->err, ET_NOT_SUPPORTED,
             "no conversion between dtypes %s and %s", et_dtype_name(has), et_dtype_name(needs));
    together += (size_t)c.bytes[k];
  }
  const size_t fits = CAST_BYTES / together;
  c.block = fits < CAST_BLOCK ? fits : fits / CAST_BLOCK * CAST_BLOCK;
  run_rows(ctx, it, operands, map->grain == 0 ? ETI_GRAIN_CHEAP : map->grain, cast_row, &c);
  return ET_OK;
}

// ---- elementwise

typedef struct flat_job {
  eti_loop loop;
  const void *params;
  size_t n;
  void *p[ETI_MAX_OPERANDS];
  const ptrdiff_t *strides;
} flat_job;

static void flat_task(void *ctx, size_t begin, size_t end) {
  const flat_job *job = ctx;
  void *p[ETI_MAX_OPERANDS];
  for (size_t k = 0; k < job->n; k++) p[k] = (char *)job->p[k] + (ptrdiff_t)begin * job->strides[k];
  job->loop(p, job->strides, end - begin, job->params);
}

et_status eti_map_run(const et_kernel_ctx *ctx, const eti_map *map, et_tensor *const *operands,
                      size_t n) {
  ET_CHECK(map->loop != NULL, ctx->err, ET_NOT_SUPPORTED, "dtype %s is not supported",
           et_dtype_name((et_dtype)operands[n - 1]->dtype));
  et_tensor *out = operands[0];
  if (out->numel == 0) return ET_OK;
  const size_t grain = map->grain == 0 ? ETI_GRAIN_CHEAP : map->grain;
  bool types_match = out->dtype == map->types[0], flat = true;
  ptrdiff_t strides[ETI_MAX_OPERANDS] = {(ptrdiff_t)et_dtype_bytes((et_dtype)out->dtype)};
  for (size_t k = 1; k < n; k++) {
    const et_tensor *t = operands[k];
    types_match &= t->dtype == map->types[k];
    const bool repeats = t->numel == 1 && t->rank <= out->rank;
    flat &= repeats || eti_same_layout(t, out);
    strides[k] = repeats ? 0 : (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  }
  if (flat && types_match) {
    flat_job job = {.loop = map->loop, .params = map->params, .n = n, .strides = strides};
    for (size_t k = 0; k < n; k++) job.p[k] = operands[k]->data;
    if (out->numel <= grain || ctx->pool == NULL) {
      job.loop(job.p, strides, out->numel, job.params);
    } else {
      et_parallel_for(ctx->pool, flat_task, &job, out->numel, grain);
    }
    return ET_OK;
  }
  eti_iter it;
  ET_TRY(eti_iter_init(ctx, &it, operands, n));
  if (!types_match) return run_cast(ctx, map, &it, operands, n);
  eti_map copy = *map;
  run_rows(ctx, &it, operands, grain, plain_row, &copy);
  return ET_OK;
}

// ---- elementwise, decided in prepare

et_status eti_flat_prepare(et_prepare_ctx *ctx, const eti_map *map, et_value *const *args,
                           const uint8_t *arg, size_t n, size_t params_bytes) {
  if (map->loop == NULL || params_bytes > ETI_FLAT_PARAMS) return ET_OK;
  const et_value *out_value = args[arg[0]];
  if (out_value == NULL || out_value->tag != ET_TENSOR) return ET_OK;
  const et_tensor *out = out_value->as.tensor;
  eti_flat flat = {.loop = map->loop, .numel = out->numel, .n = (uint8_t)n};
  flat.grain = map->grain == 0 ? ETI_GRAIN_CHEAP : map->grain;
  for (size_t k = 0; k < n; k++) {
    flat.arg[k] = arg[k];
    if (arg[k] == ETI_ARG_PARAM) continue;
    const et_value *v = args[arg[k]];
    if (v == NULL || v->tag != ET_TENSOR) return ET_OK;
    const et_tensor *t = v->as.tensor;
    if (t->dtype != map->types[k] || (t->flags & ET_TENSOR_DYNAMIC) != 0) return ET_OK;
    flat.repeats[k] = k > 0 && t->numel == 1 && t->rank <= out->rank;
    if (k > 0 && !flat.repeats[k] && !eti_same_layout(t, out)) return ET_OK;
    flat.strides[k] = flat.repeats[k] ? 0 : (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  }
  if (params_bytes > 0) eti_copy_bytes(flat.params, map->params, params_bytes);
  eti_flat *state = et_prepare_alloc(ctx, sizeof *state, _Alignof(eti_flat));
  if (state == NULL) return et_prepare_status(ctx);
  *state = flat;
  ctx->state = state;
  return ET_OK;
}

bool eti_flat_run(const et_kernel_ctx *ctx, et_value *const *args) {
  eti_flat *flat = ctx->state;
  if (flat == NULL) return false;
  flat_job job;
  for (size_t k = 0; k < flat->n; k++) {
    if (flat->arg[k] == ETI_ARG_PARAM) {
      job.p[k] = (char *)flat->params + ETI_PARAM_OPERAND;
      continue;
    }
    const et_value *v = args[flat->arg[k]];
    if (v->tag != ET_TENSOR) return false;
    const et_tensor *t = v->as.tensor;
    if (t->numel != (flat->repeats[k] ? 1 : flat->numel) || t->data == NULL) return false;
    job.p[k] = t->data;
  }
  if (flat->numel == 0) return true;
  if (flat->numel <= flat->grain || ctx->pool == NULL) {
    flat->loop(job.p, flat->strides, flat->numel, flat->params);
    return true;
  }
  job.loop = flat->loop;
  job.params = flat->params;
  job.n = flat->n;
  job.strides = flat->strides;
  et_parallel_for(ctx->pool, flat_task, &job, flat->numel, flat->grain);
  return true;
}
