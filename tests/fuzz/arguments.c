// arguments.c — see arguments.h.
#include "arguments.h"

#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NUMEL 3000  // of a tensor, unless the caller raises it
#define POOL_BYTES 65536

static const char *const texts[] = {
    "none",  "tanh",    "floor",    "trunc", "mean",    "sum", "prod", "amax",    "amin",   "left",
    "right", "reduced", "complete", "r",     "another", "L",   "U",    "sigmoid", "add:0_", ""};
#define N_TEXTS (sizeof texts / sizeof *texts)

static bool one_in(fuzz_call *c, uint64_t n) {
  return fuzz_choose(c, n) == 0;
}

static int32_t size_of(fuzz_call *c) {
  static const uint8_t sizes[] = {1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 9, 16, 17, 0};
  if (one_in(c, 60)) return 33 + (int32_t)fuzz_choose(c, 600);
  return sizes[fuzz_choose(c, sizeof sizes)];
}

static uint8_t dtype_of(fuzz_call *c, et_dtype_set set) {
  if (set == 0) set = (1u << ET_DTYPE_COUNT) - 1;
  uint8_t dtype = (uint8_t)fuzz_choose(c, ET_DTYPE_COUNT);
  while ((set >> dtype & 1u) == 0) dtype = (uint8_t)((dtype + 1) % ET_DTYPE_COUNT);
  return dtype;
}

void fuzz_call_begin(fuzz_call *c, const et_op *op, uint64_t seed) {
  c->random = seed;
  c->n_tensors = c->n_values = c->n_lists = c->n_texts = 0;
  c->max_rank = op->max_rank == 0 ? ET_MAX_RANK : op->max_rank;
  c->in_dtypes = op->in_dtypes;
  c->out_dtypes = op->out_dtypes;
  c->rank = fuzz_choose(c, 6);
  if (one_in(c, 12)) c->rank = fuzz_choose(c, ET_MAX_RANK + 1);
  if (c->rank > c->max_rank) c->rank = c->max_rank - fuzz_choose(c, 2);
  const bool is_uniform = one_in(c, 3);
  c->sizes[0] = size_of(c);
  for (size_t d = 1; d < ET_MAX_RANK; d++) c->sizes[d] = is_uniform ? c->sizes[0] : size_of(c);
  c->dtype = dtype_of(c, one_in(c, 3) ? 1u << ET_F32 : c->in_dtypes);
  c->contents = (uint8_t)fuzz_choose(c, 8);
  c->rate = one_in(c, 6) ? 0 : 4 + fuzz_choose(c, 30);
  c->dtype_from =
      one_in(c, 3) ? (one_in(c, 3) ? (uint8_t)ET_I64 : (uint8_t)ET_F32) : ET_DTYPE_COUNT;
  c->size_from = one_in(c, 3) ? 1 + (int32_t)fuzz_choose(c, 5) : -1;
  c->size_to = size_of(c);
  c->size_none = -1;
  if (one_in(c, 12)) {  // no elements, yet great
    c->size_from = 1 + (int32_t)fuzz_choose(c, 5);
    c->size_to = INT32_MAX;
    c->size_none = c->size_from == 1 ? 2 : c->size_from - 1 + 2 * (int32_t)fuzz_choose(c, 2);
  }
  c->most_numel = MAX_NUMEL;
  c->is_other_dtype = c->is_blank = false;
  c->overlaps = one_in(c, 5);
  c->pool = c->overlaps ? calloc(1, POOL_BYTES) : NULL;
}

void fuzz_call_end(fuzz_call *c) {
  for (size_t i = 0; i < c->n_tensors; i++) {
    if (!c->tensors[i].is_shared) free(c->tensors[i].memory);
    free(c->tensors[i].before);
  }
  free(c->pool);
}

// ---- Numbers

static int64_t integer_of(fuzz_call *c) {
  static const int64_t extremes[] = {INT64_MIN,
                                     INT64_MAX,
                                     INT32_MIN,
                                     INT32_MAX,
                                     INT64_MIN + 1,
                                     INT64_C(1) << 31,
                                     INT64_C(1) << 32,
                                     INT64_C(1) << 62,
                                     -(INT64_C(1) << 32),
                                     65536,
                                     1000,
                                     -1000};
  const uint64_t kind = fuzz_choose(c, 12);
  if (kind == 0) return extremes[fuzz_choose(c, sizeof extremes / sizeof *extremes)];
  if (kind < 3)
    return c->sizes[fuzz_choose(c, c->rank + 1) % ET_MAX_RANK] - (int64_t)fuzz_choose(c, 3);
  if (kind < 5) return (int64_t)fuzz_choose(c, 40) - 8;
  return (int64_t)fuzz_choose(c, 5) - (kind < 7);
}

static double double_of(fuzz_call *c) {
  static const double values[] = {0.0,
                                  1.0,
                                  -1.0,
                                  0.5,
                                  2.0,
                                  1e-5,
                                  -0.0,
                                  (double)NAN,
                                  (double)INFINITY,
                                  (double)-INFINITY,
                                  1e300,
                                  -1e300,
                                  1e-310,
                                  9.3e18,
                                  3e9,
                                  -3e9,
                                  4e38,
                                  70000.0,
                                  256.0,
                                  -129.0};
  return values[fuzz_choose(c, one_in(c, 2) ? 6 : sizeof values / sizeof *values)];
}

// ---- Tensors

// Bytes of a tensor: small numbers of its dtype, extreme ones, or noise.
static void fill(fuzz_call *c, et_dtype dtype, uint8_t *at, size_t numel) {
  const size_t bytes = et_dtype_bytes(dtype);
  const bool is_noise = c->contents == 0;
  const uint64_t range = 1 + fuzz_choose(c, 9), base = one_in(c, 3) ? 1 : 0;
  for (size_t i = 0; i < numel; i++, at += bytes) {
    uint64_t noise[2] = {fuzz_random(&c->random), fuzz_random(&c->random)};
    const bool is_extreme = c->contents == 1 && noise[0] % 3 == 0;
    double d = (double)(int64_t)(noise[0] / 7 % range) - (double)base;
    int64_t n = (int64_t)d;
    if (is_extreme) d = double_of(c), n = integer_of(c);
    const float f = (float)d;
    if (is_noise) {
      memcpy(at, noise, bytes);
    } else if (dtype == ET_F32 || dtype == ET_C64) {
      for (size_t k = 0; k < bytes; k += sizeof f) memcpy(at + k, &f, sizeof f);
    } else if (dtype == ET_F64 || dtype == ET_C128) {
      for (size_t k = 0; k < bytes; k += sizeof d) memcpy(at + k, &d, sizeof d);
    } else if (dtype == ET_BF16) {
      memcpy(at, (const uint8_t *)&f + 2, 2);
    } else if (dtype == ET_F16) {
      const uint16_t halves[] = {0, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0001};
      memcpy(at, &halves[noise[0] % (is_extreme ? 8 : 3)], 2);
    } else if (dtype == ET_B8) {
      *at = is_extreme ? (uint8_t)noise[0] : (uint8_t)(noise[0] & 1);
    } else {
      memcpy(at, &n, bytes);
    }
  }
}

static size_t count(const int32_t *sizes, size_t rank, size_t most) {
  size_t n = 1;
  for (size_t d = 0; d < rank && n <= most; d++) n *= (size_t)sizes[d];
  for (size_t d = 0; d < rank; d++) n = sizes[d] == 0 ? 0 : n;
  return n;
}

static void shape_of(fuzz_call *c, fuzz_tensor *f) {
  size_t rank = c->rank;
  memcpy(f->sizes, c->sizes, sizeof f->sizes);
  const uint64_t kind = fuzz_choose(c, 16);
  if (kind < 3 && rank > 0) {
    f->sizes[fuzz_choose(c, rank)] = size_of(c);
  } else if (kind == 3 && rank > 0) {  // broadcasts
    f->sizes[fuzz_choose(c, rank)] = 1;
  } else if (kind < 6) {  // the end of the common shape, or its beginning
    rank = fuzz_choose(c, rank + 1);
    if (kind == 4) memmove(f->sizes, c->sizes + (c->rank - rank), rank * sizeof *f->sizes);
  } else if (kind == 6 && rank >= 2) {  // as the factor of a product
    const size_t a = fuzz_choose(c, rank), b = rank - 1;
    f->sizes[a] = c->sizes[b];
    f->sizes[b] = c->sizes[a];
  } else if (kind == 7) {
    rank = fuzz_choose(c, one_in(c, 4) ? c->max_rank + 1 : (c->max_rank < 4 ? c->max_rank : 4) + 1);
    for (size_t d = 0; d < rank; d++) f->sizes[d] = size_of(c);
  } else if (kind == 8 && rank < c->max_rank) {
    f->sizes[rank++] = size_of(c);
  } else if (kind == 9) {
    rank = 1;
  } else if (kind == 10 && rank >= 2 && one_in(c, 4)) {  // no element, yet great
    const size_t zero = fuzz_choose(c, rank);
    f->sizes[(zero + 1) % rank] = INT32_MAX - (int32_t)fuzz_choose(c, 2);
    f->sizes[zero] = 0;
  }
  f->t.rank = (uint8_t)rank;
}

static void order_of(fuzz_call *c, fuzz_tensor *f) {
  const size_t rank = f->t.rank;
  for (size_t d = 0; d < rank; d++) f->order[d] = (uint8_t)d;
  if (one_in(c, 4)) {
    for (size_t d = rank; d > 1; d--) {
      const size_t other = fuzz_choose(c, d);
      const uint8_t kept = f->order[d - 1];
      f->order[d - 1] = f->order[other];
      f->order[other] = kept;
    }
  } else if (rank >= 4 && one_in(c, 4)) {  // channels last
    for (size_t d = 1; d + 1 < rank; d++) f->order[d] = (uint8_t)(d + 1);
    f->order[rank - 1] = 1;
  }
}

// Chooses everything but dtype, rank and sizes, which are chosen already; sizes too great become
// small.
static et_tensor *finish_tensor(fuzz_call *c, fuzz_tensor *f, bool is_written) {
  const size_t element = et_dtype_bytes((et_dtype)f->t.dtype);
  size_t numel;
  for (size_t d = 0; count(f->sizes, f->t.rank, c->most_numel) > c->most_numel; d++)
    f->sizes[d % f->t.rank] = 1 + f->sizes[d % f->t.rank] / 4;
  if (!eti_shape_numel(f->sizes, f->t.rank, element, &numel)) {
    for (size_t d = 0; d < f->t.rank; d++) f->sizes[d] = 1;
    numel = 1;
  }
  f->is_written = is_written;
  f->t.sizes = f->sizes;
  f->t.strides = f->strides;
  f->t.dim_order = f->order;
  f->t.numel = f->t.capacity = numel;
  eti_fill_strides(f->sizes, f->order, f->t.rank, f->strides);
  size_t k = 0;
  while (k < f->t.rank && f->order[k] == k) k++;
  if (k == f->t.rank) f->t.flags |= ET_TENSOR_CONTIGUOUS;
  if (one_in(c, 2)) {
    f->t.flags |= ET_TENSOR_DYNAMIC;
    if (is_written && one_in(c, 2)) f->t.capacity += fuzz_choose(c, 200);
  } else if (!is_written && one_in(c, 2)) {
    f->t.flags |= ET_TENSOR_CONSTANT;
  }
  f->bytes = f->t.capacity * element;
  f->is_shared = c->overlaps && f->bytes <= POOL_BYTES / 2 && !one_in(c, 4);
  const size_t places = one_in(c, 2) ? 2 : POOL_BYTES / 2 / 16;
  f->memory =
      f->is_shared ? c->pool + 16 * fuzz_choose(c, places) : malloc(f->bytes + (f->bytes == 0));
  f->before = malloc(f->bytes + (f->bytes == 0));
  if (f->memory == NULL || f->before == NULL) abort();
  if (!c->is_blank) fill(c, (et_dtype)f->t.dtype, f->memory, f->t.capacity);
  f->t.data = f->bytes == 0 && one_in(c, 2) ? NULL : f->memory;
  return &f->t;
}

// An existing tensor, now and then; otherwise NULL.
static et_tensor *same_tensor(fuzz_call *c, bool is_written) {
  if (c->n_tensors == 0 || !one_in(c, 30)) return NULL;
  fuzz_tensor *again = &c->tensors[fuzz_choose(c, c->n_tensors)];
  const et_dtype_set set = is_written ? c->out_dtypes : c->in_dtypes;
  if (is_written && (again->t.flags & ET_TENSOR_CONSTANT) != 0) return NULL;
  if ((set >> again->t.dtype & 1u) == 0) return NULL;
  again->is_written |= is_written;
  return &again->t;
}

static fuzz_tensor *next_tensor(fuzz_call *c) {
  if (c->n_tensors == MAX_TENSORS) abort();
  fuzz_tensor *f = &c->tensors[c->n_tensors++];
  memset(f, 0, sizeof *f);
  return f;
}

static et_tensor *tensor_of(fuzz_call *c, bool is_written) {
  et_tensor *same = same_tensor(c, is_written);
  if (same != NULL) return same;
  fuzz_tensor *f = next_tensor(c);
  shape_of(c, f);
  order_of(c, f);
  const et_dtype_set set = is_written ? c->out_dtypes : c->in_dtypes;
  const uint64_t kind = fuzz_choose(c, 8);
  f->t.dtype = kind == 0 ? dtype_of(c, set) : kind == 1 ? (uint8_t)ET_I64 : c->dtype;
  if ((set >> f->t.dtype & 1u) == 0) f->t.dtype = dtype_of(c, set);
  return finish_tensor(c, f, is_written);
}

void fuzz_resize(fuzz_call *c) {
  for (size_t i = 0; i < c->n_tensors; i++) {
    fuzz_tensor *f = &c->tensors[i];
    if ((f->t.flags & ET_TENSOR_DYNAMIC) == 0 || f->t.rank == 0 || one_in(c, 2)) continue;
    int32_t sizes[ET_MAX_RANK];
    memcpy(sizes, f->sizes, sizeof sizes);
    const size_t d = fuzz_choose(c, f->t.rank);
    sizes[d] = (int32_t)fuzz_choose(c, (uint64_t)(sizes[d] < 1000 ? sizes[d] : 1000) + 2);
    (void)et_tensor_resize(&f->t, sizes, f->t.rank, NULL);
  }
}

et_value *fuzz_shadow(fuzz_call *c, const et_value *v) {
  if (v == NULL) return NULL;
  if (c->n_shadows == MAX_SHADOWS) abort();
  fuzz_shadow_value *s = &c->shadows[c->n_shadows++];
  s->v = *v;
  if (v->tag == ET_TENSOR) {
    const et_tensor *t = v->as.tensor;
    s->t = *t;
    memcpy(s->sizes, t->sizes, t->rank * sizeof *s->sizes);
    memcpy(s->strides, t->strides, t->rank * sizeof *s->strides);
    s->t.sizes = s->sizes;
    s->t.strides = s->strides;
    if ((t->flags & ET_TENSOR_CONSTANT) == 0) s->t.data = NULL;
    s->v.as.tensor = &s->t;
  } else if (v->tag == ET_INT_LIST || v->tag == ET_TENSOR_LIST ||
             v->tag == ET_OPTIONAL_TENSOR_LIST) {
    for (size_t k = 0; k < v->n; k++) s->list[k] = fuzz_shadow(c, v->as.list[k]);
    s->v.as.list = s->list;
  } else if (v->flags != 0) {  // computed by an instruction before
    memset(&s->v, 0, sizeof s->v);
  }
  return &s->v;
}

void fuzz_remember(fuzz_call *c) {
  for (size_t i = 0; i < c->n_tensors; i++)
    memcpy(c->tensors[i].before, c->tensors[i].memory, c->tensors[i].bytes);
}

const char *fuzz_damage(const fuzz_call *c) {
  for (size_t i = 0; i < c->n_tensors; i++) {
    const fuzz_tensor *f = &c->tensors[i];
    size_t numel;
    ptrdiff_t strides[ET_MAX_RANK];
    if (!f->is_written && !c->overlaps && memcmp(f->before, f->memory, f->bytes) != 0)
      return "an input was written";
    if (!eti_shape_numel(f->sizes, f->t.rank, et_dtype_bytes((et_dtype)f->t.dtype), &numel) ||
        numel != f->t.numel || numel > f->t.capacity)
      return "a tensor has sizes that its memory does not hold";
    eti_fill_strides(f->sizes, f->order, f->t.rank, strides);
    if (memcmp(strides, f->strides, f->t.rank * sizeof *strides) != 0)
      return "a tensor has strides that are not those of its sizes";
  }
  return NULL;
}

// ---- Values

static uint32_t length_of(fuzz_call *c) {
  return (uint32_t)(one_in(c, 20)  ? fuzz_choose(c, MAX_LIST + 1)
                    : one_in(c, 3) ? c->rank
                                   : fuzz_choose(c, 5));
}

static void list_of(fuzz_call *c, et_value *v, bool is_written) {
  const size_t place = c->n_lists++;
  v->n = length_of(c);
  if (place >= sizeof c->lists / sizeof *c->lists) abort();
  if (v->tag == ET_BOOL_LIST || v->tag == ET_DOUBLE_LIST) {
    for (size_t k = 0; k < v->n; k++) {
      const double d = double_of(c);
      c->bytes[place][k] = (uint8_t)fuzz_choose(c, 2);
      if (v->tag == ET_DOUBLE_LIST) memcpy(c->bytes[place] + 8 * k, &d, 8);
    }
    v->as.bools = c->bytes[place];
    return;
  }
  const bool has_ints = v->tag == ET_INT_LIST, is_optional = v->tag == ET_OPTIONAL_TENSOR_LIST;
  const uint32_t most = has_ints ? MAX_LIST : 6;
  if (v->n > most) v->n = one_in(c, 8) ? MAX_LIST / 2 : most;
  et_value *first = NULL;
  for (size_t k = 0; k < v->n; k++) {
    const bool is_odd = one_in(c, 200);  // an instruction may have replaced the value
    if (is_optional && one_in(c, 3)) {
      c->lists[place][k] = one_in(c, 2) ? NULL : fuzz_value(c, ET_NONE, false);
    } else if (first != NULL && one_in(c, 2)) {
      c->lists[place][k] = first;
      if (c->n_values < MAX_VALUES - 64 && has_ints && first->tag == ET_INT) {
        c->lists[place][k] = fuzz_value(c, ET_INT, false);
        c->lists[place][k]->as.i = first->as.i;
      }
    } else {
      c->lists[place][k] = fuzz_value(c,
                                      is_odd     ? ET_STRING
                                      : has_ints ? ET_INT
                                                 : ET_TENSOR,
                                      is_written);
    }
    if (c->lists[place][k] != NULL && k == 0) first = c->lists[place][k];
  }
  v->as.list = c->lists[place];
}

et_value *fuzz_value(fuzz_call *c, et_tag tag, bool is_written) {
  if (c->n_values == MAX_VALUES) abort();
  et_value *v = &c->values[c->n_values++];
  memset(v, 0, sizeof *v);
  v->tag = (uint8_t)tag;
  v->flags = one_in(c, 30);
  if (tag == ET_TENSOR) {
    v->as.tensor = tensor_of(c, is_written);
  } else if (tag == ET_INT) {
    v->as.i = integer_of(c);
  } else if (tag == ET_DOUBLE) {
    v->as.d = double_of(c);
  } else if (tag == ET_BOOL) {
    v->as.b = one_in(c, 2);
  } else if (tag == ET_STRING) {
    v->as.string = texts[fuzz_choose(c, N_TEXTS)];
    v->n = (uint32_t)strlen(v->as.string);
  } else if (tag != ET_NONE) {
    list_of(c, v, is_written);
  }
  return v;
}

// ---- Values from text

static int32_t changed_size(fuzz_call *c, int32_t size) {
  if (c->rate > 0 && one_in(c, c->rate)) return one_in(c, 3) ? size + 1 : size_of(c);
  return size == c->size_from ? c->size_to : size == c->size_none ? 0 : size;
}

static et_tensor *read_tensor(fuzz_call *c, const char **at, bool is_written) {
  const char *p = *at;
  fuzz_tensor *f = next_tensor(c);
  const size_t length = strcspn(p, "[");
  while (f->t.dtype < ET_DTYPE_COUNT &&
         (strncmp(et_dtype_name((et_dtype)f->t.dtype), p, length) != 0 ||
          et_dtype_name((et_dtype)f->t.dtype)[length] != '\0'))
    f->t.dtype++;
  if (f->t.dtype == ET_DTYPE_COUNT) abort();
  const et_dtype_set set = is_written ? c->out_dtypes : c->in_dtypes;
  if (f->t.dtype == c->dtype_from) f->t.dtype = c->dtype;
  c->is_other_dtype |= (set >> f->t.dtype & 1u) == 0;
  if ((set >> f->t.dtype & 1u) == 0 || (c->rate > 0 && one_in(c, c->rate)))
    f->t.dtype = dtype_of(c, set);
  for (p += length + 1; *p != ']'; p += *p == ',')
    f->sizes[f->t.rank++] = changed_size(c, (int32_t)strtol(p, (char **)&p, 10));
  for (size_t d = 0; d < f->t.rank; d++) f->order[d] = (uint8_t)d;
  if (*++p == '/') {
    for (size_t d = 0; d < f->t.rank; d++) f->order[d] = (uint8_t)(*++p - '0');
    p++;
  }
  if (c->rate > 0 && one_in(c, 2 * c->rate)) {
    if (one_in(c, 2) && f->t.rank > 0) {
      f->t.rank--;
    } else if (f->t.rank < c->max_rank) {
      f->sizes[f->t.rank++] = size_of(c);
    }
    order_of(c, f);
  } else if (c->rate > 0 && one_in(c, 4)) {
    order_of(c, f);
  }
  *at = p;
  return finish_tensor(c, f, is_written);
}

static void read_list(fuzz_call *c, et_value *v, const char **at, bool is_written) {
  const size_t place = c->n_lists++;
  if (place >= sizeof c->lists / sizeof *c->lists) abort();
  for (; **at != ')'; *at += **at == ' ') {
    if (v->n == MAX_LIST) abort();
    const bool is_dropped = c->rate > 0 && one_in(c, 4 * c->rate);
    if (v->tag == ET_BOOL_LIST) {
      c->bytes[place][v->n] = (uint8_t)(strtol(*at, (char **)at, 10) != 0);
    } else if (v->tag == ET_DOUBLE_LIST) {
      const double d = strtod(*at, (char **)at);
      memcpy(c->bytes[place] + 8 * v->n, &d, 8);
    } else {
      c->lists[place][v->n] = fuzz_read(c, at, is_written);
    }
    if (!is_dropped) v->n++;
  }
  if (v->n > 0 && v->n < MAX_LIST && c->rate > 0 && one_in(c, 2 * c->rate)) {
    memcpy(c->bytes[place] + 8 * v->n, c->bytes[place], 8);
    c->lists[place][v->n] = c->lists[place][v->n - 1];
    v->n++;
  }
  (*at)++;
  if (v->tag == ET_BOOL_LIST || v->tag == ET_DOUBLE_LIST) {
    v->as.bools = c->bytes[place];
  } else {
    v->as.list = c->lists[place];
  }
}

static et_tag tag_at(const char *p) {
  static const struct {
    char first;
    uint8_t tag;
  } lists[] = {{'i', ET_INT_LIST},
               {'d', ET_DOUBLE_LIST},
               {'b', ET_BOOL_LIST},
               {'t', ET_TENSOR_LIST},
               {'o', ET_OPTIONAL_TENSOR_LIST}};
  for (size_t i = 0; i < 5; i++) {
    if (p[0] == lists[i].first && p[1] == '(') return (et_tag)lists[i].tag;
  }
  const size_t length = strcspn(p, " )\n");
  if (p[0] == '-' && length == 1) return ET_NONE;
  if (p[0] == '\'') return ET_STRING;
  if (memchr(p, '[', length) != NULL) return ET_TENSOR;
  if (strncmp(p, "true", 4) == 0 || strncmp(p, "false", 5) == 0) return ET_BOOL;
  return strspn(p, "-0123456789") == length ? ET_INT : ET_DOUBLE;
}

// A text in quotes, which may contain spaces.
static size_t length_at(const char *p) {
  return p[0] == '\'' ? strcspn(p + 1, "'\n") + 2 : strcspn(p, " )\n");
}

static void read_text(fuzz_call *c, et_value *v, const char *p) {
  const size_t length = length_at(p) - 2;
  if (c->n_texts == MAX_TEXTS || length >= MAX_TEXT) abort();  // calls.txt needs more room
  char *const text = c->texts[c->n_texts++];
  memcpy(text, p + 1, length);
  text[length] = '\0';
  v->as.string = text;
  v->n = (uint32_t)length;
}

et_value *fuzz_read(fuzz_call *c, const char **at, bool is_written) {
  const et_tag tag = tag_at(*at);
  const size_t length = length_at(*at);
  const bool is_changed = c->rate > 0 && one_in(c, c->rate);
  if (tag < ET_BOOL_LIST && tag != ET_TENSOR && is_changed) {
    *at += length;
    return fuzz_value(c, tag == ET_NONE || one_in(c, 20) ? (et_tag)fuzz_choose(c, 6) : tag,
                      is_written);
  }
  if (tag == ET_TENSOR && is_changed) {
    et_tensor *same = one_in(c, 4) ? same_tensor(c, is_written) : NULL;
    if (same != NULL || one_in(c, 12)) {
      *at += length;
      et_value *v = fuzz_value(c, ET_NONE, false);
      if (same != NULL) v->tag = ET_TENSOR, v->as.tensor = same;
      return v;
    }
  }
  et_value *v = fuzz_value(c, ET_NONE, false);
  v->tag = (uint8_t)tag;
  if (tag == ET_TENSOR) {
    v->as.tensor = read_tensor(c, at, is_written);
  } else if (tag >= ET_BOOL_LIST) {
    *at += 2;
    read_list(c, v, at, is_written);
  } else {
    if (tag == ET_INT) v->as.i = strtoll(*at, NULL, 10);
    if (tag == ET_INT && v->as.i == c->size_from) v->as.i = c->size_to;
    if (tag == ET_DOUBLE) v->as.d = strtod(*at, NULL);
    if (tag == ET_BOOL) v->as.b = **at == 't';
    if (tag == ET_STRING) read_text(c, v, *at);
    *at += length;
  }
  return v;
}

// ---- Printing of arguments

static void print_tensor(const et_tensor *t) {
  fprintf(stderr, "%s%s%s[", et_dtype_name((et_dtype)t->dtype),
          t->flags & ET_TENSOR_CONSTANT ? " constant" : "",
          t->flags & ET_TENSOR_DYNAMIC ? " dynamic" : "");
  for (size_t d = 0; d < t->rank; d++)
    fprintf(stderr, "%s%ld", d > 0 ? "," : "", (long)t->sizes[d]);
  fprintf(stderr, "] order ");
  for (size_t d = 0; d < t->rank; d++) fprintf(stderr, "%d", t->dim_order[d]);
  fprintf(stderr, " capacity %zu at %p", t->capacity, t->data);
}

static void print_value(const et_value *v) {
  if (v == NULL || v->tag == ET_NONE) {
    fprintf(stderr, "None");
  } else if (v->tag == ET_TENSOR) {
    print_tensor(v->as.tensor);
  } else if (v->tag == ET_INT) {
    fprintf(stderr, "%lld", (long long)v->as.i);
  } else if (v->tag == ET_DOUBLE) {
    fprintf(stderr, "%g", v->as.d);
  } else if (v->tag == ET_BOOL) {
    fprintf(stderr, v->as.b ? "true" : "false");
  } else if (v->tag == ET_STRING) {
    fprintf(stderr, "'%s'", v->as.string);
  } else {
    fprintf(stderr, "%lu of kind %d (", (unsigned long)v->n, v->tag);
    for (size_t k = 0; k < v->n && v->tag != ET_BOOL_LIST; k++) {
      if (v->tag == ET_DOUBLE_LIST) fprintf(stderr, "%g; ", et_value_double_at(v, k));
      if (v->tag == ET_DOUBLE_LIST) continue;
      print_value(v->as.list[k]);
      fprintf(stderr, "; ");
    }
    fprintf(stderr, ")");
  }
}

void fuzz_print(et_value *const *args, size_t n) {
  for (size_t i = 0; i < n; i++) {
    fprintf(stderr, "  %zu: ", i);
    print_value(args[i]);
    fprintf(stderr, "\n");
  }
}
