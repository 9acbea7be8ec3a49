// test_xnnpack_weights_cache.c — tests the file of packed weights: it is used, it is replaced if it
// is damaged or of another machine, and kernels never use damaged weights.
#define _GNU_SOURCE  // mkstemp
#include "rig.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_packed_without_xnnpack(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(nothing_is_packed_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/weights/checksum.h"
#include "backends/xnnpack/weights/weights_cache.h"
#include "xnn_bench.h"

#include <unistd.h>

// Changes the identity of a file to that of another machine or XNNPACK; the checksum is right.
static void change_identity(const char *path) {
  enum { HEADER = 56, CHECKSUM_AT = 48 };  // the layout of weights_cache_file.c
  static uint8_t bytes[4096];
  uint32_t identity_bytes;
  uint64_t index_bytes, sum;
  FILE *file = fopen(path, "r+b");
  if (file == NULL || fread(bytes, 1, sizeof bytes, file) < HEADER) abort();
  bytes[HEADER + 3] ^= 1;
  memcpy(&identity_bytes, bytes + 12, sizeof identity_bytes);
  memcpy(&index_bytes, bytes + 24, sizeof index_bytes);
  sum = eti_xnn_checksum(bytes + HEADER, (identity_bytes + 7) / 8 * 8 + (size_t)index_bytes);
  memcpy(bytes + CHECKSUM_AT, &sum, sizeof sum);
  sum = eti_xnn_checksum(bytes, HEADER);
  memcpy(bytes + CHECKSUM_AT, &sum, sizeof sum);
  rewind(file);
  fwrite(bytes, 1, HEADER + 8, file);
  fclose(file);
}

typedef enum damage_kind { POKE, CUT, OTHER_MACHINE } damage_kind;

// at: the byte that changes, or the new end of the file.
static void damage(const char *path, damage_kind kind, long at) {
  if (kind == POKE) bench_poke(path, at, 0x7b);
  if (kind == CUT && truncate(path, at) != 0) abort();
  if (kind == OTHER_MACHINE) change_identity(path);
}

static void a_file_keeps_weights_packed(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  bench_path(path);
  EXPECT(bench_use_file(path, &facts, &note) && note.message[0] == '\0');
  EXPECT(facts.n_packed == 2 && facts.n_mapped == 0 && facts.n_weights == 2);
  EXPECT(bench_use_file(path, &facts, &note) && note.message[0] == '\0');
  EXPECT(facts.n_packed == 0 && facts.n_mapped == 2 && facts.n_shared == 2);
  (void)unlink(path);
}

static void a_damaged_file_is_packed_anew_and_replaced(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  bench_path(path);
  EXPECT(bench_use_file(path, &facts, &note));
  static const struct {
    damage_kind kind;
    long at;
    const char *words;  // NULL: does not matter
  } damages[] = {{POKE, 0, "it is not a file of packed weights"},
                 {POKE, 8, "it has another version"},
                 {POKE, 40, "it is truncated"},  // the size in the header
                 {POKE, 48, "it is damaged"},    // the checksum itself
                 {POKE, 66, "it is damaged"},    // the identity
                 {POKE, 150, "it is damaged"},   // the index
                 {POKE, -1, NULL},               // the padding after the last weights
                 {CUT, 20, "it is too short"},
                 {CUT, 400, "it is truncated"},
                 {OTHER_MACHINE, 0, "it was written by another XNNPACK or for another CPU"}};
  for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    const bool is_harmless = damages[i].words == NULL;
    damage(path, damages[i].kind, damages[i].at);
    EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == (is_harmless ? 0 : 2));
    EXPECT(note.status == ET_OK);
    EXPECT(is_harmless || strstr(note.message, damages[i].words) != NULL);
    EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == 0 && note.message[0] == '\0');
  }
  (void)unlink(path);
}

// Weights in the file are verified by the first run, before XNNPACK reads them: a load does not
// notice damage, and each of two methods that were loaded with them packs again or uses the weights
// that the other has packed.
static void damaged_weights_are_never_computed_with(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_options options = {.workspace = NULL};
  et_xnnpack_facts facts;
  et_error note;
  bench benches[2];
  bench_path(path);
  EXPECT(bench_use_file(path, &facts, &note));
  bench_damage_linear(path);
  EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
  for (int i = 0; i < 2; i++) {
    bench_begin(&benches[i], &bench_plain, &options);
    EXPECT(rig_start(&benches[i].r, "forward"));
  }
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 0 && facts.n_damaged == 0 && facts.n_mapped == 2);
  for (int i = 0; i < 4; i++) EXPECT(bench_gives(&benches[i % 2], i < 2 ? 8 : 3));
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 1 && facts.n_damaged == 1 && facts.n_mapped == 1);
  EXPECT(et_xnnpack_weights_save(options.weights, path, &note) == ET_OK);
  for (int i = 0; i < 2; i++) rig_end(&benches[i].r);
  et_xnnpack_weights_close(options.weights);
  EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == 0 && facts.n_damaged == 0);
  (void)unlink(path);
}

// The runtime that replaces one with damaged weights needs memory, which may run out at any
// allocation: that call fails, and the next one makes the runtime or fails again.
static void memory_may_run_out_where_damaged_weights_are_packed_anew(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  bench_path(path);
  EXPECT(bench_use_file(path, &facts, &note));
  bench_damage_linear(path);
  bool is_enough = false;
  size_t n_short = 0;
  for (size_t fail_at = 1; !is_enough; fail_at++) {
    et_xnnpack_options options = {.workspace = NULL};
    bench b;
    EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
    bench_begin(&b, &bench_plain, &options);
    eti_xnn_alloc_fail_nth(fail_at, false);
    const bool is_loaded = rig_start(&b.r, "forward");
    is_enough = is_loaded && bench_gives(&b, 8);
    eti_xnn_alloc_fail_nth(0, false);
    et_xnnpack_weights_facts(options.weights, &facts);
    n_short += is_loaded && !is_enough && facts.n_damaged > 0;
    EXPECT(!is_loaded || is_enough || b.r.err.status == ET_DELEGATE_OUT_OF_MEMORY);
    rig_end(&b.r);
    et_xnnpack_weights_close(options.weights);
  }
  EXPECT(n_short > 0);
  (void)unlink(path);
}

// Depthwise filters are packed by every load, which then sees that the file's are others.
static void a_load_drops_weights_that_differ_from_those_it_packed(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_facts facts;
  et_error note;
  bench_path(path);
  EXPECT(bench_use_file(path, &facts, &note));
  bench_poke(path, -200, 0x7b);
  EXPECT(bench_use_file(path, &facts, &note));
  EXPECT(facts.n_packed == 1 && facts.n_damaged == 1 && facts.n_weights == 2);
  EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == 0 && facts.n_damaged == 0);
  (void)unlink(path);
}

static void a_file_that_cannot_be_written_is_an_error_in_words(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  bench b;
  EXPECT(et_xnnpack_weights_open(&options.weights, "/nowhere/at/all", &err) == ET_OK);
  bench_begin(&b, &bench_plain, &options);
  EXPECT(rig_start(&b.r, "forward"));
  EXPECT(et_xnnpack_weights_save(options.weights, "/nowhere/at/all", &err) == ET_ACCESS_FAILED);
  EXPECT_ERROR(&err, ET_ACCESS_FAILED, "cannot write packed weights '/nowhere/at/all': No such");
  EXPECT(bench_gives(&b, 8));
  rig_end(&b.r);
  et_xnnpack_weights_close(options.weights);
}

// ---- Files that claim keys of other bytes

// Loads programs in turn with entries of their own and shared weights; each must give its results.
static void run_together(const et_xnnpack_options *options, const change *const changes[2]) {
  bench benches[2];
  for (int i = 0; i < 2; i++) {
    bench_begin(&benches[i], changes[i], options);
    EXPECT(rig_start(&benches[i].r, "forward"));
  }
  for (int i = 0; i < 4; i++) EXPECT(bench_gives(&benches[i % 2], i < 2 ? 8 : 3));
  for (int i = 0; i < 2; i++) rig_end(&benches[i].r);
}

static void programs_with_other_bytes_under_equal_keys_do_not_share_them(void) {
  const change *const orders[][2] = {{&bench_plain, &bench_false}, {&bench_false, &bench_plain}};
  for (int i = 0; i < 2; i++) {
    et_xnnpack_options options = {.workspace = NULL};
    et_xnnpack_facts facts;
    et_error err;
    EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
    run_together(&options, orders[i]);
    et_xnnpack_weights_facts(options.weights, &facts);
    EXPECT(facts.n_packed == 4 && facts.n_shared == 0);
    et_xnnpack_weights_close(options.weights);
  }
}

static void programs_with_equal_bytes_share_them(void) {
  const change *const both[] = {&bench_plain, &bench_plain};
  et_xnnpack_options options = {.workspace = NULL};
  et_xnnpack_facts facts;
  et_error err;
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  run_together(&options, both);
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 2 && facts.n_shared == 2);
  et_xnnpack_weights_close(options.weights);
}

// Memory of an entry may be used for another one as soon as its methods are closed.
static void an_entry_in_the_place_of_another_is_not_taken_for_it(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  bench kept, reused;
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  bench_begin(&reused, &bench_false, &options);
  EXPECT(rig_start(&reused.r, "forward"));
  bench_begin(&kept, &bench_false, &options);  // holds the weights that both share
  EXPECT(rig_start(&kept.r, "forward"));
  rig_end(&reused.r);
  bench_begin(&reused, &bench_plain, &options);
  EXPECT(rig_start(&reused.r, "forward"));
  EXPECT(bench_gives(&reused, 8) && bench_gives(&kept, 8));
  rig_end(&reused.r);
  rig_end(&kept.r);
  et_xnnpack_weights_close(options.weights);
}

static void a_file_keeps_no_weights_under_keys_that_are_not_their_hashes(void) {
  char path[] = "/tmp/et_packed_XXXXXX";
  et_xnnpack_options options = {.workspace = NULL};
  et_xnnpack_facts facts;
  et_error note;
  bench b;
  bench_path(path);
  EXPECT(et_xnnpack_weights_open(&options.weights, path, &note) == ET_OK);
  bench_begin(&b, &bench_false, &options);
  EXPECT(rig_start(&b.r, "forward") && bench_gives(&b, 8));
  et_xnnpack_weights_facts(options.weights, &facts);
  EXPECT(facts.n_packed == 2 && facts.n_unproven == 2);
  EXPECT(et_xnnpack_weights_save(options.weights, path, &note) == ET_OK);
  EXPECT(access(path, F_OK) != 0);
  rig_end(&b.r);
  et_xnnpack_weights_close(options.weights);
  EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == 2 && facts.n_unproven == 0);
  EXPECT(bench_use_file(path, &facts, &note) && facts.n_packed == 0 && facts.n_mapped == 2);
  (void)unlink(path);
}

static void a_store_without_a_path_cannot_be_saved(void) {
  et_xnnpack_options options = {.workspace = NULL};
  et_error err;
  EXPECT(et_xnnpack_weights_open(&options.weights, NULL, &err) == ET_OK);
  EXPECT(et_xnnpack_weights_save(options.weights, "/tmp/et_never", &err) == ET_INVALID_STATE);
  EXPECT_ERROR(&err, ET_INVALID_STATE, "expected a store that was opened with a path");
  et_xnnpack_weights_close(options.weights);
}

static const et_test tests[] = {
    ET_CASE(programs_with_other_bytes_under_equal_keys_do_not_share_them),
    ET_CASE(programs_with_equal_bytes_share_them),
    ET_CASE(an_entry_in_the_place_of_another_is_not_taken_for_it),
    ET_CASE(a_file_keeps_no_weights_under_keys_that_are_not_their_hashes),
    ET_CASE(a_store_without_a_path_cannot_be_saved),
    ET_CASE(a_file_keeps_weights_packed),
    ET_CASE(a_damaged_file_is_packed_anew_and_replaced),
    ET_CASE(damaged_weights_are_never_computed_with),
    ET_CASE(a_load_drops_weights_that_differ_from_those_it_packed),
    ET_CASE(memory_may_run_out_where_damaged_weights_are_packed_anew),
    ET_CASE(a_file_that_cannot_be_written_is_an_error_in_words),
};
ET_TEST_MAIN(tests)

#endif
