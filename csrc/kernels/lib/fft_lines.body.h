// fft_lines.body.h — the typed part of fft_lines.c, for parts of type T. The including file sets,
// and this file undefines: T, SUFFIX.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

typedef struct FN(complex) {
  T re, im;
} FN(complex);

static FN(complex) FN(root)(size_t k, size_t n) {
  double re, im;
  root_of_unity(k, n, &re, &im);
  return (FN(complex)){(T)re, (T)im};
}

// ---- complex transforms of lines side by side: element i of line l is at i · lanes + l

// Two planes for the input and two for the output of a pass; the next pass swaps them.
typedef struct FN(work) {
  T *re, *im, *other_re, *other_im;
  size_t lanes;
  unsigned order;  // order of the numbers in re and im: see eti_fft_place
} FN(work);

// Planes for `lanes` lines of n numbers within the given bytes, as far apart as they allow.
static FN(work) FN(split_work)(void *work, size_t n, size_t lanes, size_t bytes) {
  T *const at = work;
  const size_t apart = plane_bytes(n * lanes * sizeof(T));
  const size_t plane = 4 * apart <= bytes ? apart / sizeof(T) : (n + 1) * lanes;
  return (FN(work)){at, at + plane, at + 2 * plane, at + 3 * plane, lanes, 0};
}

// Runs the passes from number `first` on over m numbers.
static void FN(passes_from)(const eti_fft_plan *plan, const eti_fft_part *part, size_t first,
                            size_t m, const FN(complex) * table, FN(work) * w) {
  size_t s = w->lanes;
  for (size_t i = first; i < part->n_passes; i++) {
    const size_t radix = part->radix[i];
    m /= radix;
    const eti_fft_pass pass = {
        .radix = radix, .m = m, .s = s, .twiddles = table, .roots = table + m * (radix - 1)};
    plan->micro->pass(&pass, (eti_fft_planes){w->other_re, w->other_im},
                      (eti_fft_planes){w->re, w->im});
    table += m * (radix - 1) + radix;
    s *= radix;
    *w = (FN(work)){w->other_re, w->other_im, w->re, w->im, w->lanes, 0};
  }
}

static void FN(part_passes)(const eti_fft_plan *plan, const eti_fft_part *part,
                            const FN(complex) * table, FN(work) * w) {
  FN(passes_from)(plan, part, 0, part->n, table, w);
}

// Runs the same arithmetic in another order: the first pass leaves as many shorter lines as its
// radix, and each goes through the other passes while it is in the L1 cache. Results keep their
// positions.
static void FN(near_passes)(const eti_fft_plan *plan, FN(work) * w) {
  const eti_fft_part *const part = &plan->parts[0];
  const FN(complex) *const table = (const FN(complex) *)(const void *)plan->tables;
  const size_t radix = part->radix[0], m = part->n / radix, step = m * w->lanes;
  const eti_fft_pass pass = {.radix = radix,
                             .m = m,
                             .s = w->lanes,
                             .keeps_parts = true,
                             .twiddles = table,
                             .roots = table + m * (radix - 1)};
  plan->micro->pass(&pass, (eti_fft_planes){w->other_re, w->other_im},
                    (eti_fft_planes){w->re, w->im});
  for (size_t k = 0; k < radix; k++) {
    const size_t at = k * step;
    FN(work) part_work = {w->other_re + at, w->other_im + at, w->re + at, w->im + at, w->lanes, 0};
    FN(passes_from)(plan, part, 1, m, table + m * (radix - 1) + radix, &part_work);
  }
  if (part->n_passes % 2 == 1) *w = (FN(work)){w->other_re, w->other_im, w->re, w->im, w->lanes, 0};
  w->order = radix == 8 ? 3 : 2;
}

// True if lines side by side exceed the L1 cache.
static bool FN(is_far)(const eti_fft_plan *plan, const FN(work) * w) {
  const eti_fft_part *const part = &plan->parts[0];
  return plan->n_parts == 1 && part->n_passes > 2 && (part->radix[0] == 4 || part->radix[0] == 8) &&
         w->lanes > 1 && 4 * part->n * w->lanes * sizeof(T) > NEAREST;
}

static void FN(copy_rows)(T *to, size_t to_step, const T *from, size_t from_step, size_t lanes,
                          size_t n) {
  for (size_t i = 0; i < n; i++, to += to_step, from += from_step) {
    if (lanes == COLUMNS) {
      memcpy(to, from, COLUMNS * sizeof(T));
    } else {
      for (size_t l = 0; l < lanes; l++) to[l] = from[l];
    }
  }
}

// A line as a matrix, stored as complex numbers; `room` is work memory for COLUMNS columns. Each
// thread has its own room.
typedef struct FN(matrix_job) {
  const eti_fft_plan *plan;
  const FN(work) * w;
  T *matrix;
  void *room;
} FN(matrix_job);

static void *FN(room_of)(const FN(matrix_job) * job, size_t i) {
  return i == 0 ? job->room : job->plan->rooms + (i - 1) * job->plan->room_bytes;
}

static void FN(matrix_columns)(const FN(matrix_job) * job, size_t begin, size_t end, void *room) {
  const eti_fft_plan *const plan = job->plan;
  const size_t n_rows = plan->parts[0].n, n_columns = plan->parts[1].n;
  const FN(complex) *const tables = (const FN(complex) *)(const void *)plan->tables;
  const size_t bytes = 4 * COLUMNS * n_columns * sizeof(T) + SPREAD;
  for (size_t j = begin; j < end; j += COLUMNS) {
    const size_t lanes = end - j < COLUMNS ? end - j : COLUMNS;
    FN(work) c = FN(split_work)(room, n_rows, lanes, bytes);
    void *lines[COLUMNS];
    for (size_t l = 0; l < c.lanes; l++) lines[l] = job->matrix + 2 * (j + l) * n_rows;
    FN(copy_rows)(c.re, c.lanes, job->w->re + j, n_columns, c.lanes, n_rows);
    FN(copy_rows)(c.im, c.lanes, job->w->im + j, n_columns, c.lanes, n_rows);
    FN(part_passes)(plan, &plan->parts[0], tables, &c);
    plan->micro->write(lines, (eti_fft_planes){c.re, c.im}, c.lanes, n_rows, 1.0, 0);
  }
}

static void FN(matrix_rows)(const FN(matrix_job) * job, size_t begin, size_t end, void *room) {
  const eti_fft_plan *const plan = job->plan;
  const size_t n_rows = plan->parts[0].n, n_columns = plan->parts[1].n;
  const FN(complex) *const row_tables =
      (const FN(complex) *)(const void *)plan->tables + part_numbers(&plan->parts[0]);
  const FN(complex) *const twiddles = row_tables + part_numbers(&plan->parts[1]);
  const size_t bytes = 4 * COLUMNS * n_columns * sizeof(T) + SPREAD;
  for (size_t k = begin; k < end; k += COLUMNS) {
    const size_t lanes = end - k < COLUMNS ? end - k : COLUMNS;
    FN(work) c = FN(split_work)(room, n_columns, lanes, bytes);
    plan->micro->read_twiddled((eti_fft_planes){c.re, c.im}, job->matrix + 2 * k, twiddles + k,
                               n_rows, c.lanes, n_columns);
    FN(part_passes)(plan, &plan->parts[1], row_tables, &c);
    FN(copy_rows)(job->w->re + k, n_rows, c.re, c.lanes, c.lanes, n_columns);
    FN(copy_rows)(job->w->im + k, n_rows, c.im, c.lanes, c.lanes, n_columns);
  }
}

// Each item is a room; rooms share n columns, and every share but the last is whole blocks.
static void FN(share_columns)(void *ctx, size_t begin, size_t end) {
  const FN(matrix_job) *const job = ctx;
  const size_t n = job->plan->parts[1].n;
  for (size_t i = begin; i < end; i++)
    FN(matrix_columns)(job, share_of(n, i, job->plan->n_rooms),
                       share_of(n, i + 1, job->plan->n_rooms), FN(room_of)(job, i));
}

static void FN(share_rows)(void *ctx, size_t begin, size_t end) {
  const FN(matrix_job) *const job = ctx;
  const size_t n = job->plan->parts[0].n;
  for (size_t i = begin; i < end; i++)
    FN(matrix_rows)(job, share_of(n, i, job->plan->n_rooms), share_of(n, i + 1, job->plan->n_rooms),
                    FN(room_of)(job, i));
}

static void FN(matrix_passes)(const eti_fft_plan *plan, const FN(work) * w, T *matrix, void *room) {
  FN(matrix_job) job = {plan, w, matrix, room};
  et_parallel_for(plan->pool, FN(share_columns), &job, plan->n_rooms, 1);
  et_parallel_for(plan->pool, FN(share_rows), &job, plan->n_rooms, 1);
}

static void FN(passes)(const eti_fft_plan *plan, FN(work) * w) {
  if (plan->n_parts == 1) {
    FN(part_passes)(plan, &plan->parts[0], (const FN(complex) *)(const void *)plan->tables, w);
    return;
  }
  // The four planes follow each other in memory, in pairs that are swapped or not.
  T *const a = w->re < w->im ? w->re : w->im;
  T *const b = w->other_re < w->other_im ? w->other_re : w->other_im;
  FN(matrix_passes)(plan, w, b, (a < b ? a : b) + 4 * (plan->padded + 1));
}

static void FN(clear)(FN(work) * w, size_t first, size_t end) {
  const size_t bytes = (end - first) * w->lanes * sizeof(T);
  memset(w->re + first * w->lanes, 0, bytes);
  memset(w->im + first * w->lanes, 0, bytes);
}

static void FN(exchange)(FN(work) * w) {
  *w = (FN(work)){w->im, w->re, w->other_im, w->other_re, w->lanes, w->order};
}

// Bluestein's algorithm: with the chirp c[j] = exp(-πi·j²/n), result k is c[k] · Σ (x[j]·c[j]) ·
// conj c[k - j], a convolution, computed by transforms of a convenient length.
static void FN(transform)(const eti_fft_plan *plan, FN(work) * w, bool in_any_order) {
  const size_t n = plan->length;
  if (plan->padded == n) {
    in_any_order &&FN(is_far)(plan, w) ? FN(near_passes)(plan, w) : FN(passes)(plan, w);
    return;
  }
  const FN(complex) *const chirp =
      (const FN(complex) *)(const void *)plan->tables + pass_numbers(plan);
  const FN(complex) *const filter = chirp + n;
  plan->micro->multiply((eti_fft_planes){w->re, w->im}, chirp, n, w->lanes);
  FN(clear)(w, n, plan->padded);
  FN(passes)(plan, w);
  plan->micro->multiply((eti_fft_planes){w->re, w->im}, filter, plan->padded, w->lanes);
  FN(exchange)(w);
  FN(passes)(plan, w);
  FN(exchange)(w);
  plan->micro->multiply((eti_fft_planes){w->re, w->im}, chirp, n, w->lanes);
}

// ---- tables

static FN(complex) * FN(fill_part)(const eti_fft_part *part, FN(complex) * table) {
  size_t n = part->n;
  for (size_t i = 0; i < part->n_passes; i++) {
    const size_t radix = part->radix[i], m = n / radix;
    for (size_t p = 0; p < m; p++) {
      for (size_t k = 1; k < radix; k++) *table++ = FN(root)(p * k, n);
    }
    for (size_t k = 0; k < radix; k++) *table++ = FN(root)(k, radix);
    n = m;
  }
  return table;
}

static FN(complex) * FN(fill_passes)(const eti_fft_plan *plan) {
  FN(complex) *table = FN(fill_part)(&plan->parts[0], (FN(complex) *)(void *)plan->tables);
  if (plan->n_parts == 1) return table;
  table = FN(fill_part)(&plan->parts[1], table);
  for (size_t j = 0; j < plan->parts[1].n; j++) {
    for (size_t k = 0; k < plan->parts[0].n; k++) *table++ = FN(root)(j * k, plan->padded);
  }
  return table;
}

// The filter: the transform of the chirp's conjugate, wrapped around, including the backward
// transform's factor 1 / padded.
static void FN(fill_chirp)(const eti_fft_plan *plan, FN(complex) * chirp) {
  const size_t n = plan->length, padded = plan->padded;
  FN(complex) *const filter = chirp + n;
  for (size_t j = 0; j < n; j++) {
    const uint64_t square = (uint64_t)j * (uint64_t)j % (2 * (uint64_t)n);
    chirp[j] = FN(root)((size_t)square, 2 * n);
  }
  for (size_t k = 0; k < padded; k++) {
    const size_t j = k < n ? k : padded - k < n ? padded - k : n;
    filter[k] = j < n ? (FN(complex)){chirp[j].re, -chirp[j].im} : (FN(complex)){0, 0};
  }
}

static void FN(transform_filter)(const eti_fft_plan *plan, FN(complex) * filter, void *work) {
  FN(work) w = FN(split_work)(work, plan->padded, 1, 0);
  const T scale = (T)(1.0 / (double)plan->padded);
  for (size_t k = 0; k < plan->padded; k++) {
    w.re[k] = filter[k].re;
    w.im[k] = filter[k].im;
  }
  FN(passes)(plan, &w);
  for (size_t k = 0; k < plan->padded; k++)
    filter[k] = (FN(complex)){w.re[k] * scale, w.im[k] * scale};
}

static void FN(fill)(const eti_fft_plan *plan, void *work) {
  FN(complex) *table = FN(fill_passes)(plan);
  if (plan->padded != plan->length) {
    FN(fill_chirp)(plan, table);
    FN(transform_filter)(plan, table + plan->length, work);
    table += plan->length + plan->padded;
  }
  if (is_halved(plan)) {
    for (size_t k = 0; k <= plan->length; k++) table[k] = FN(root)(k, plan->n);
  }
}

// exp(-2πi·k/n) for the halves of a real transform.
static const FN(complex) * FN(half_roots)(const eti_fft_plan *plan) {
  const FN(complex) *const table =
      (const FN(complex) *)(const void *)plan->tables + pass_numbers(plan);
  return plan->padded == plan->length ? table : table + plan->length + plan->padded;
}

// ---- lines in and out

// A job that reads and writes rows: lines whose numbers are adjacent.
typedef struct FN(line_job) {
  const eti_fft_plan *plan;
  const FN(work) * w;
  const FN(complex) * in;
  FN(complex) * out;
  double scale;
} FN(line_job);

static void FN(read_range)(void *ctx, size_t begin, size_t end) {
  const FN(line_job) *const job = ctx;
  job->plan->micro->read_rows((eti_fft_planes){job->w->re + begin, job->w->im + begin},
                              job->in + begin, 0, end - begin, 1);
}

static void FN(write_range)(void *ctx, size_t begin, size_t end) {
  const FN(line_job) *const job = ctx;
  job->plan->micro->write_rows(job->out + begin, 0,
                               (eti_fft_planes){job->w->re + begin, job->w->im + begin},
                               end - begin, 1, job->scale, 0);
}

static void FN(read_line)(const eti_fft_plan *plan, const FN(work) * w, const void *in, size_t n) {
  FN(line_job) job = {.plan = plan, .w = w, .in = in};
  et_parallel_for(plan->pool, FN(read_range), &job, n, LINE_GRAIN);
}

static void FN(write_line)(const eti_fft_plan *plan, const FN(work) * w, void *out, size_t n,
                           double scale) {
  FN(line_job) job = {.plan = plan, .w = w, .out = out, .scale = scale};
  et_parallel_for(plan->pool, FN(write_range), &job, n, LINE_GRAIN);
}

static void FN(read_complex)(const eti_fft_plan *plan, const eti_fft_lines *lines, FN(work) * w,
                             size_t n) {
  const eti_fft_planes to = {w->re, w->im};
  if (lines->in_rows) {
    plan->micro->read_rows(to, lines->in[0], lines->in_step, w->lanes, n);
    return;
  }
  if (lines->in_step == 1 && w->lanes == 1) {
    FN(read_line)(plan, w, lines->in[0], n);
    return;
  }
  if (lines->in_step == 1) {
    plan->micro->read(to, lines->in, w->lanes, n);
    return;
  }
  for (size_t l = 0; l < w->lanes; l++) {
    const FN(complex) *x = lines->in[l];
    for (size_t i = 0; i < n; i++, x += lines->in_step) {
      w->re[i * w->lanes + l] = x->re;
      w->im[i * w->lanes + l] = x->im;
    }
  }
}

static void FN(write_complex)(const eti_fft_plan *plan, const eti_fft_lines *lines,
                              const FN(work) * w, size_t n) {
  const eti_fft_planes from = {w->re, w->im};
  if (lines->out_rows) {
    plan->micro->write_rows(lines->out[0], lines->out_step, from, w->lanes, n, lines->scale,
                            w->order);
    return;
  }
  if (lines->out_step == 1 && w->lanes == 1) {
    FN(write_line)(plan, w, lines->out[0], n, lines->scale);
    return;
  }
  if (lines->out_step == 1) {
    plan->micro->write(lines->out, from, w->lanes, n, lines->scale, w->order);
    return;
  }
  const T scale = (T)lines->scale;
  for (size_t l = 0; l < w->lanes; l++) {
    FN(complex) *y = lines->out[l];
    for (size_t i = 0; i < n; i++, y += lines->out_step) {
      const size_t at = eti_fft_place(i, n, w->order) * w->lanes + l;
      *y = (FN(complex)){w->re[at] * scale, w->im[at] * scale};
    }
  }
}

// Reads lines of real numbers that are side by side, singly or as pairs that form complex numbers.
static void FN(read_real_rows)(const eti_fft_lines *lines, FN(work) * w, size_t n, bool pairs) {
  const T *x = lines->in[0];
  const size_t bytes = w->lanes * sizeof(T);
  for (size_t i = 0; i < n; i++, x += lines->in_step) {
    memcpy(w->re + i * w->lanes, x, bytes);
    if (pairs) {
      x += lines->in_step;
      memcpy(w->im + i * w->lanes, x, bytes);
    } else {
      memset(w->im + i * w->lanes, 0, bytes);
    }
  }
}

static void FN(write_real_rows)(const eti_fft_lines *lines, const FN(work) * w, size_t n,
                                bool pairs) {
  const T scale = (T)lines->scale;
  T *y = lines->out[0];
  for (size_t i = 0; i < n; i++, y += lines->out_step) {
    for (size_t l = 0; l < w->lanes; l++) y[l] = w->re[i * w->lanes + l] * scale;
    if (!pairs) continue;
    y += lines->out_step;
    for (size_t l = 0; l < w->lanes; l++) y[l] = w->im[i * w->lanes + l] * scale;
  }
}

static void FN(read_real)(const eti_fft_plan *plan, const eti_fft_lines *lines, FN(work) * w,
                          size_t n, bool pairs) {
  if (lines->in_rows) {
    FN(read_real_rows)(lines, w, n, pairs);
    return;
  }
  if (pairs && lines->in_step == 1 && w->lanes == 1) {
    FN(read_line)(plan, w, lines->in[0], n);
    return;
  }
  if (pairs && lines->in_step == 1) {
    plan->micro->read((eti_fft_planes){w->re, w->im}, lines->in, w->lanes, n);
    return;
  }
  for (size_t l = 0; l < w->lanes; l++) {
    const T *x = lines->in[l];
    for (size_t i = 0; i < n; i++) {
      w->re[i * w->lanes + l] = *x;
      x += lines->in_step;
      w->im[i * w->lanes + l] = 0;
      if (!pairs) continue;
      w->im[i * w->lanes + l] = *x;
      x += lines->in_step;
    }
  }
}

static void FN(write_real)(const eti_fft_plan *plan, const eti_fft_lines *lines, const FN(work) * w,
                           size_t n, bool pairs) {
  if (lines->out_rows) {
    FN(write_real_rows)(lines, w, n, pairs);
    return;
  }
  if (pairs && lines->out_step == 1 && w->lanes == 1) {
    FN(write_line)(plan, w, lines->out[0], n, lines->scale);
    return;
  }
  if (pairs && lines->out_step == 1) {
    plan->micro->write(lines->out, (eti_fft_planes){w->re, w->im}, w->lanes, n, lines->scale, 0);
    return;
  }
  const T scale = (T)lines->scale;
  for (size_t l = 0; l < w->lanes; l++) {
    T *y = lines->out[l];
    for (size_t i = 0; i < n; i++) {
      *y = w->re[i * w->lanes + l] * scale;
      y += lines->out_step;
      if (!pairs) continue;
      *y = w->im[i * w->lanes + l] * scale;
      y += lines->out_step;
    }
  }
}

// ---- real lines

// Makes the transform of n numbers from that of their n / 2 pairs. Result k is the sum of the
// results of the even numbers and, rotated, of the odd ones; both follow from results k and n / 2 -
// k.
static void FN(unfold)(const eti_fft_plan *plan, FN(work) * w) {
  plan->micro->unfold((eti_fft_planes){w->other_re, w->other_im}, (eti_fft_planes){w->re, w->im},
                      FN(half_roots)(plan), plan->length, w->lanes, w->order);
  *w = (FN(work)){w->other_re, w->other_im, w->re, w->im, w->lanes, 0};
}

static void FN(fold)(const eti_fft_plan *plan, FN(work) * w) {
  plan->micro->fold((eti_fft_planes){w->other_re, w->other_im}, (eti_fft_planes){w->re, w->im},
                    FN(half_roots)(plan), plan->length, w->lanes);
  *w = (FN(work)){w->other_re, w->other_im, w->re, w->im, w->lanes, 0};
}

// Results beyond n / 2 mirror those before.
static void FN(mirror)(const eti_fft_plan *plan, FN(work) * w) {
  for (size_t k = plan->n / 2 + 1; k < plan->n; k++) {
    for (size_t l = 0; l < w->lanes; l++) {
      w->re[k * w->lanes + l] = w->re[(plan->n - k) * w->lanes + l];
      w->im[k * w->lanes + l] = -w->im[(plan->n - k) * w->lanes + l];
    }
  }
}

static void FN(forward)(const eti_fft_plan *plan, const eti_fft_lines *lines, FN(work) * w) {
  const bool halved = is_halved(plan);
  FN(read_real)(plan, lines, w, plan->length, halved);
  FN(transform)(plan, w, halved);
  if (halved) {
    FN(unfold)(plan, w);
  } else {
    memset(w->im, 0, w->lanes * sizeof(T));  // the sum of all numbers is real, even if it is NaN
  }
  FN(write_complex)(plan, lines, w, plan->n / 2 + 1);
  if (!lines->twosided) return;
  for (size_t k = plan->n / 2 + 1; k < plan->n; k++) {
    for (size_t l = 0; l < w->lanes; l++) {
      const FN(complex) *const from =
          (const FN(complex) *)lines->out[l] + (ptrdiff_t)(plan->n - k) * lines->out_step;
      FN(complex) *const to = (FN(complex) *)lines->out[l] + (ptrdiff_t)k * lines->out_step;
      *to = (FN(complex)){from->re, -from->im};
    }
  }
}

// Transforms back to real lines; ignores imaginary parts that must be zero.
static void FN(back)(const eti_fft_plan *plan, const eti_fft_lines *lines, FN(work) * w) {
  const size_t half = plan->n / 2;
  const bool halved = is_halved(plan);
  FN(read_complex)(plan, lines, w, half + 1);
  memset(w->im, 0, w->lanes * sizeof(T));
  if (halved) {
    memset(w->im + half * w->lanes, 0, w->lanes * sizeof(T));
    FN(fold)(plan, w);
  } else {
    FN(mirror)(plan, w);
  }
  FN(exchange)(w);
  FN(transform)(plan, w, false);
  FN(exchange)(w);
  FN(write_real)(plan, lines, w, plan->length, halved);
}

static void FN(run)(const eti_fft_plan *plan, const eti_fft_lines *lines, void *work) {
  const size_t bytes = plan->n_parts == 1 ? lines->n_lines * plan->lane_bytes : 0;
  FN(work) w = FN(split_work)(work, plan->padded, lines->n_lines, bytes);
  if (plan->kind == ETI_FFT_FORWARD) {
    FN(forward)(plan, lines, &w);
  } else if (plan->kind == ETI_FFT_BACK) {
    FN(back)(plan, lines, &w);
  } else {
    FN(read_complex)(plan, lines, &w, plan->n);
    if (lines->backward) FN(exchange)(&w);
    FN(transform)(plan, &w, true);
    if (lines->backward) FN(exchange)(&w);
    FN(write_complex)(plan, lines, &w, plan->n);
  }
}

#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
