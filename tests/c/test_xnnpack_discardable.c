// test_xnnpack_discardable.c — tests that a load reports packed constants to its caller: their
// bytes are not read any more, and the reports come during packing.
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_packed_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_packed_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "xnn_subject.h"
#include "xnn_writer.h"

enum { MAX_REPORTS = 64, FILTER = 1024 };

typedef struct reports {
  uint8_t *data[MAX_REPORTS];
  size_t bytes[MAX_REPORTS], n, total;
} reports;

static void add_report(void *ctx, const void *data, size_t bytes) {
  reports *const t = ctx;
  if (t->n == MAX_REPORTS) abort();
  t->data[t->n] = (uint8_t *)(uintptr_t)data;
  t->bytes[t->n++] = bytes;
  t->total += bytes;
}

// Named data, consecutive in memory.
static uint8_t *row;
static size_t row_bytes, each_bytes, row_used;

static et_status get_next(const void *ctx, const char *key, et_blob *out, et_error *err) {
  static et_source memory;
  (void)ctx;
  (void)key;
  (void)err;
  if (row_used + each_bytes > row_bytes) abort();
  memory = et_source_from_memory(row, row_bytes);
  *out = (et_blob){.data = row + row_used, .size = each_bytes, .source = &memory};
  row_used += each_bytes;
  return ET_OK;
}

static const et_named_data in_a_row = {NULL, get_next, NULL};

static void begin_row(size_t n, size_t bytes) {
  row = aligned_alloc(64, n * bytes);
  if (row == NULL) abort();
  memset(row, 0x3c, n * bytes);
  row_bytes = n * bytes;
  each_bytes = bytes;
  row_used = 0;
}

static et_status run(subject *s) {
  return subject_call(s, s->shapes, false);
}

// Checks that reported bytes may change without effect on a run, that they can be packed again
// after they were restored, and that at least `least` bytes are reported.
static bool reads_no_reported_bytes(const char *name, size_t least) {
  if (subject_lacks_halves(name)) return true;
  reports t = {.n = 0};
  subject s;
  begin_row(64, 1 << 16);
  const et_xnnpack_options options = {.on_spent = add_report, .on_spent_ctx = &t};
  bool is_good = subject_begin_with(&s, rig_read(name), &options, &in_a_row);
  row_used = 0;
  is_good = is_good && run(&s) == ET_OK && t.total >= least;
  const uint64_t wanted = subject_sum(&s);
  uint8_t *kept[MAX_REPORTS];
  for (size_t i = 0; i < t.n; i++) {
    kept[i] = malloc(t.bytes[i]);
    if (kept[i] == NULL) abort();
    memcpy(kept[i], t.data[i], t.bytes[i]);
    memset(t.data[i], 0xff, t.bytes[i]);
  }
  is_good = is_good && run(&s) == ET_OK && subject_sum(&s) == wanted;
  for (size_t i = t.n; i-- > 0;) {
    memcpy(t.data[i], kept[i], t.bytes[i]);
    free(kept[i]);
  }
  subject_forget(&s);
  t.n = row_used = 0;
  is_good = is_good && run(&s) == ET_OK && subject_sum(&s) == wanted;
  if (!is_good) printf("  %s, %zu bytes reported: %s\n", name, t.total, s.r.err.message);
  subject_end(&s);
  free(row);
  return is_good;
}

static void reported_bytes_are_not_read_any_more(void) {
  EXPECT(reads_no_reported_bytes("xnnpack/static_channel.payload", 100));
  EXPECT(reads_no_reported_bytes("xnnpack/convolutions.payload", 100));
  EXPECT(reads_no_reported_bytes("xnnpack/linears_f16.payload", 100));
  EXPECT(reads_no_reported_bytes("xnnpack/group_linears.payload", 100));
  EXPECT(reads_no_reported_bytes("xnnpack/products.payload", 0));
  EXPECT(reads_no_reported_bytes("xnnpack/normalised.payload", 0));
}

// Two linear layers, and an addition whose constant lies between their filters.
static rig two_linears(void) {
  const x_graph g = {
      .values = {{.datatype = 1, .flags = 1, .rank = 2, .dims = {1, FILTER}},
                 {.datatype = 1, .rank = 2, .dims = {FILTER, FILTER}, .constant = 1},
                 {.datatype = 1, .rank = 2, .dims = {1, FILTER}},
                 {.datatype = 1, .rank = 2, .dims = {1, FILTER}, .constant = 2},
                 {.datatype = 1, .rank = 2, .dims = {1, FILTER}},
                 {.datatype = 1, .rank = 2, .dims = {FILTER, FILTER}, .constant = 3},
                 {.datatype = 1, .flags = 2, .external = 1, .rank = 2, .dims = {1, FILTER}}},
      .nodes = {{.code = 2, .n_slots = 5, .slots = {0, 1, XNN_NO_ID, 2}},
                {.code = 1, .n_slots = 4, .slots = {2, 3, 4}},
                {.code = 2, .n_slots = 5, .slots = {4, 5, XNN_NO_ID, 6}}},
      .constants = {{.key = ""}, {.key = "w"}, {.key = "c"}, {.key = "v"}},
      .n_values = 7,
      .n_nodes = 3,
      .n_constants = 4,
      .n_externs = 2,
  };
  writer w = x_write(&g);
  return rig_take(w.bytes, w.size);
}

static void filters_are_reported_as_they_are_packed_and_nothing_else(void) {
  enum { BYTES = FILTER * FILTER * sizeof(float) };
  reports t = {.n = 0};
  subject s;
  begin_row(4, BYTES);
  const et_xnnpack_options options = {.on_spent = add_report, .on_spent_ctx = &t};
  EXPECT(subject_begin_with(&s, two_linears(), &options, &in_a_row));
  row_used = 0;
  EXPECT(run(&s) == ET_OK);
  EXPECT(t.n == 4 && t.data[0] == row && t.data[1] == row + 2 * BYTES);  // then both once more
  EXPECT(t.data[2] == t.data[0] && t.data[3] == t.data[1]);
  for (size_t i = 0; i < t.n; i++) EXPECT(t.bytes[i] == BYTES);
  subject_end(&s);
  free(row);
}

static const et_test tests[] = {
    ET_CASE(reported_bytes_are_not_read_any_more),
    ET_CASE(filters_are_reported_as_they_are_packed_and_nothing_else),
};
ET_TEST_MAIN(tests)

#endif
