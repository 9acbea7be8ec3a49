// Tests of data files that are written from C: parameters and optimizers saved, restored, refused.
#include "train_rig.h"

typedef struct buffer {
  uint8_t bytes[8192];
  size_t size, room;
} buffer;

static et_status append(void *ctx, const void *data, size_t size, et_error *err) {
  buffer *b = ctx;
  if (size > b->room - b->size) {
    if (err != NULL) err->status = ET_OUT_OF_RESOURCES;
    return ET_OUT_OF_RESOURCES;
  }
  memcpy(b->bytes + b->size, data, size);
  b->size += size;
  return ET_OK;
}

// A training with its optimizer, and a file of its state in memory that sources accept.
typedef struct bench {
  rig r;
  et_training t;
  et_optimizer optimizer;
  float state[9];
} bench;

static bool bench_start(bench *b, const et_optimizer_options *options) {
  const et_span span = {b->state, sizeof b->state};
  return train_start(&b->r, &b->t) &&
         et_optimizer_init(&b->optimizer, options, &b->t, span, &b->r.err) == ET_OK;
}

static bool bench_step(bench *b, int n) {
  for (int i = 0; i < n; i++) {
    if (train_run(&b->r) != ET_OK || et_optimizer_step(&b->optimizer, &b->r.err) != ET_OK)
      return false;
  }
  return true;
}

static bool save(bench *b, bool with_optimizer, buffer *file) {
  file->size = 0;
  file->room = sizeof file->bytes;
  const et_sink sink = {.ctx = file, .write = append};
  return et_training_save(&b->t, with_optimizer ? &b->optimizer : NULL, &sink, &b->r.err) == ET_OK;
}

// Opens the file in memory of exactly its size and loads it.
static et_status load(bench *b, bool with_optimizer, const buffer *file) {
  void *bytes = rig_claim(&b->r, file->size);
  memcpy(bytes, file->bytes, file->size);
  const et_source source = et_source_from_memory(bytes, file->size);
  et_data_map map;
  et_status status = et_data_map_open(&map, &source, &b->r.err);
  if (status != ET_OK) return status;
  status = et_training_load(&b->t, with_optimizer ? &b->optimizer : NULL, &map, &b->r.err);
  et_data_map_close(&map);
  return status;
}

static et_optimizer_options adam(void) {
  et_optimizer_options options = et_adam_options();
  options.lr = 0.05;
  options.amsgrad = true;
  return options;
}

static void training_goes_on_from_a_file_as_if_never_stopped(void) {
  et_optimizer_options all[] = {et_sgd_options(0.1), et_sgd_options(0.1), adam(),
                                et_adamw_options()};
  all[1].momentum = 0.9;
  for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
    static bench straight, resumed;
    static buffer file;
    EXPECT(bench_start(&straight, &all[k]) && bench_step(&straight, 3));
    EXPECT(save(&straight, true, &file));
    EXPECT(bench_step(&straight, 3));
    EXPECT(bench_start(&resumed, &all[k]));
    EXPECT(load(&resumed, true, &file) == ET_OK);
    EXPECT(resumed.optimizer.step == 3);
    EXPECT(bench_step(&resumed, 3));
    EXPECT(memcmp(train_weights(&resumed.t), train_weights(&straight.t), 8) == 0);
    const size_t bytes = 12 * et_optimizer_slots(&all[k]);
    EXPECT(memcmp(resumed.state, straight.state, bytes) == 0);
    rig_end(&straight.r);
    rig_end(&resumed.r);
  }
}

static void the_file_has_the_measured_size_and_names(void) {
  static bench b;
  static buffer file;
  const et_optimizer_options options = adam();
  const char *const keys[] = {"weight",
                              "bias",
                              "adam/exp_avg/weight",
                              "adam/exp_avg/bias",
                              "adam/exp_avg_sq/weight",
                              "adam/exp_avg_sq/bias",
                              "adam/max_exp_avg_sq/weight",
                              "adam/max_exp_avg_sq/bias",
                              "adam/step/weight",
                              "adam/step/bias"};
  EXPECT(bench_start(&b, &options) && save(&b, true, &file));
  void *bytes = rig_claim(&b.r, file.size);
  memcpy(bytes, file.bytes, file.size);
  const et_source source = et_source_from_memory(bytes, file.size);
  et_data_map map;
  EXPECT(et_data_map_open(&map, &source, &b.r.err) == ET_OK);
  EXPECT(et_data_map_count(&map) == sizeof keys / sizeof keys[0]);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    EXPECT(strcmp(et_data_map_key(&map, i), keys[i]) == 0);
  et_data_map_close(&map);
  rig_end(&b.r);
}

static void parameters_alone_come_from_a_file_with_an_optimizer(void) {
  static bench b, other;
  static buffer file;
  const et_optimizer_options options = adam();
  EXPECT(bench_start(&b, &options) && bench_step(&b, 2) && save(&b, true, &file));
  EXPECT(bench_start(&other, &options) && load(&other, false, &file) == ET_OK);
  EXPECT(memcmp(train_weights(&other.t), train_weights(&b.t), 8) == 0);
  EXPECT(other.optimizer.step == 0);
  rig_end(&b.r);
  rig_end(&other.r);
}

static void a_file_without_the_optimizer_is_refused_and_changes_nothing(void) {
  static bench b;
  static buffer file;
  const et_optimizer_options options = adam();
  EXPECT(bench_start(&b, &options) && save(&b, false, &file) && bench_step(&b, 1));
  const float before = train_weights(&b.t)[0];
  EXPECT(load(&b, true, &file) == ET_NOT_FOUND);
  EXPECT_ERROR(&b.r.err, ET_NOT_FOUND, "expected an entry 'adam/step/weight', got none among 2");
  EXPECT(train_weights(&b.t)[0] == before && b.optimizer.step == 1);
  rig_end(&b.r);
}

// Programs and files of four parameters, of which one differs, are the subject of the tests in
// Python; here lists of entries are.
static void get_tensor(const void *ctx, size_t i, et_data_entry *entry) {
  const et_data_entry *entries = ctx;
  *entry = entries[i];
}

static void steps_that_differ_are_refused(void) {
  static bench b;
  static buffer file;
  int64_t steps[] = {3, 4};
  const et_optimizer_options options = et_sgd_options(0.1);
  EXPECT(bench_start(&b, &options));
  et_data_entry entries[] = {
      {"", "weight", *et_training_parameter(&b.t, WEIGHT)},
      {"", "bias", *et_training_parameter(&b.t, BIAS)},
      {"sgd/step/", "weight", {.data = &steps[0], .numel = 1, .dtype = ET_I64}},
      {"sgd/step/", "bias", {.data = &steps[1], .numel = 1, .dtype = ET_I64}},
  };
  const et_data_list list = {.ctx = entries, .n = 4, .get = get_tensor};
  const et_sink sink = {.ctx = &file, .write = append};
  file.room = sizeof file.bytes;
  EXPECT(et_data_write(&list, &sink, &b.r.err) == ET_OK);
  EXPECT(load(&b, true, &file) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&b.r.err, ET_NOT_SUPPORTED, "expected step 3, as of the other parameters, got 4");
  steps[0] = steps[1] = -5;
  file.size = 0;
  EXPECT(et_data_write(&list, &sink, &b.r.err) == ET_OK);
  EXPECT(load(&b, true, &file) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&b.r.err, ET_INVALID_ARGUMENT, "expected a step of 0 or more, got -5");
  rig_end(&b.r);
}

static void a_receiver_that_is_full_ends_the_writing(void) {
  static bench b;
  static buffer file, whole;
  const et_optimizer_options options = adam();
  EXPECT(bench_start(&b, &options) && save(&b, true, &whole));
  const et_sink sink = {.ctx = &file, .write = append};
  for (size_t room = 0; room < whole.size; room++) {
    file.size = 0;
    file.room = room;
    EXPECT(et_training_save(&b.t, &b.optimizer, &sink, &b.r.err) == ET_OUT_OF_RESOURCES);
    EXPECT(memcmp(file.bytes, whole.bytes, file.size) == 0);
  }
  rig_end(&b.r);
}

static void damaged_files_are_refused_or_load_within_their_bounds(void) {
  static bench b;
  static buffer file, damaged;
  const et_optimizer_options options = et_sgd_options(0.1);
  EXPECT(bench_start(&b, &options) && save(&b, true, &file));
  void *bytes = rig_claim(&b.r, file.size);
  for (size_t bit = 0; bit < 8 * file.size; bit++) {
    damaged = file;
    damaged.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    memcpy(bytes, damaged.bytes, file.size);
    const et_source source = et_source_from_memory(bytes, file.size);
    et_data_map map;
    if (et_data_map_open(&map, &source, &b.r.err) != ET_OK) continue;
    const et_status status = et_training_load(&b.t, &b.optimizer, &map, &b.r.err);
    EXPECT(status == ET_OK || b.r.err.status == status);
    et_data_map_close(&map);
  }
  rig_end(&b.r);
}

static void a_list_without_entries_is_a_file(void) {
  static buffer file;
  et_error err = {.status = ET_OK};
  uint64_t bytes;
  const et_data_list none = {.get = get_tensor};
  const et_sink sink = {.ctx = &file, .write = append};
  file.room = sizeof file.bytes;
  EXPECT(et_data_measure(&none, &bytes, &err) == ET_OK);
  EXPECT(et_data_write(&none, &sink, &err) == ET_OK && file.size == bytes);
}

static const et_test tests[] = {
    ET_CASE(training_goes_on_from_a_file_as_if_never_stopped),
    ET_CASE(the_file_has_the_measured_size_and_names),
    ET_CASE(parameters_alone_come_from_a_file_with_an_optimizer),
    ET_CASE(a_file_without_the_optimizer_is_refused_and_changes_nothing),
    ET_CASE(steps_that_differ_are_refused),
    ET_CASE(a_receiver_that_is_full_ends_the_writing),
    ET_CASE(damaged_files_are_refused_or_load_within_their_bounds),
    ET_CASE(a_list_without_entries_is_a_file),
};

ET_TEST_MAIN(tests)
