// training_state.c — parameters and the state of their optimizer as entries of a data file: saving
// and loading. An entry of the state has a prefix before the parameter's name.
#include "runtime/check.h"
#include "runtime/training/et_train.h"

// The parameter whose slots were asked for last, and their memory: entries are walked in order.
typedef struct cursor {
  size_t parameter;
  float *slots;
} cursor;

typedef struct state {
  const et_training *training;
  const et_optimizer *optimizer;  // NULL without one
  size_t n_slots;
  cursor *last;
} state;

static state state_of(const et_training *training, const et_optimizer *optimizer, cursor *last) {
  state s = {.training = training, .optimizer = optimizer, .last = last};
  *last = (cursor){.slots = optimizer == NULL ? NULL : optimizer->state};
  if (optimizer != NULL) s.n_slots = et_optimizer_slots(&optimizer->options);
  return s;
}

// Entries of one parameter: itself, its slots, its step.
static size_t entries_each(const state *s) {
  return s->optimizer == NULL ? 1 : 2 + s->n_slots;
}

static const char *prefix_of(const et_optimizer_options *options, size_t part) {
  static const char *const prefixes[][ET_OPTIMIZER_SLOTS + 1] = {
      [ET_SGD] = {"sgd/step/", "sgd/momentum_buffer/"},
      [ET_ADAM] = {"adam/step/", "adam/exp_avg/", "adam/exp_avg_sq/", "adam/max_exp_avg_sq/"},
      [ET_ADAMW] = {"adamw/step/", "adamw/exp_avg/", "adamw/exp_avg_sq/", "adamw/max_exp_avg_sq/"},
  };
  return prefixes[options->kind][part];
}

// The memory of a slot, behind the slots of the parameters before.
static float *slot_at(const state *s, size_t parameter, size_t slot) {
  cursor *const c = s->last;
  if (parameter < c->parameter) *c = (cursor){.slots = s->optimizer->state};
  for (; c->parameter < parameter; c->parameter++)
    c->slots += s->n_slots * et_training_parameter(s->training, c->parameter)->numel;
  return c->slots + slot * et_training_parameter(s->training, parameter)->numel;
}

// Entry i: parameters first, then slot by slot, then steps.
static void get_entry(const void *ctx, size_t i, et_data_entry *entry) {
  const state *s = ctx;
  const size_t n = s->training->n, part = i / n, parameter = i % n;
  *entry = (et_data_entry){.prefix = "",
                           .name = et_training_name(s->training, parameter),
                           .tensor = *et_training_parameter(s->training, parameter)};
  if (part == 0) return;
  if (part <= s->n_slots) {
    entry->prefix = prefix_of(&s->optimizer->options, part);
    entry->tensor.data = slot_at(s, parameter, part - 1);
    return;
  }
  entry->prefix = prefix_of(&s->optimizer->options, 0);
  entry->tensor = (et_tensor){
      .data = (void *)(uintptr_t)&s->optimizer->step, .numel = 1, .capacity = 1, .dtype = ET_I64};
}

et_status et_training_save(const et_training *training, const et_optimizer *optimizer,
                           const et_sink *sink, et_error *err) {
  cursor last;
  const state s = state_of(training, optimizer, &last);
  const et_data_list list = {.ctx = &s, .n = training->n * entries_each(&s), .get = get_entry};
  return et_data_write(&list, sink, err);
}

// ---- Loading

static void get_step(const void *ctx, size_t i, et_data_entry *entry) {
  (void)i;
  *entry = *(const et_data_entry *)ctx;
}

// Reads the step of every parameter; they are equal in a file that et_training_save wrote.
static et_status read_step(const et_data_map *map, const state *s, uint64_t *step, et_error *err) {
  const size_t n = s->training->n;
  for (size_t k = 0; k < n; k++) {
    et_data_entry entry;
    int64_t value = 0;
    get_entry(s, n * (1 + s->n_slots) + k, &entry);
    entry.tensor.data = &value;
    const et_data_list one = {.ctx = &entry, .n = 1, .get = get_step};
    ET_TRY(et_data_load(&one, map, err));
    ET_CHECK(value >= 0, err, ET_INVALID_ARGUMENT,
             "data file, '%s%s': expected a step of 0 or more, got %lld", entry.prefix, entry.name,
             (long long)value);
    ET_CHECK(k == 0 || (uint64_t)value == *step, err, ET_NOT_SUPPORTED,
             "data file, '%s%s': expected step %llu, as of the other parameters, got %lld",
             entry.prefix, entry.name, (unsigned long long)*step, (long long)value);
    *step = (uint64_t)value;
  }
  return ET_OK;
}

et_status et_training_load(const et_training *training, et_optimizer *optimizer,
                           const et_data_map *map, et_error *err) {
  cursor last;
  const state s = state_of(training, optimizer, &last);
  const et_data_list tensors = {.ctx = &s, .n = training->n * (1 + s.n_slots), .get = get_entry};
  uint64_t step = 0;
  if (optimizer != NULL) ET_TRY(read_step(map, &s, &step, err));
  ET_TRY(et_data_load(&tensors, map, err));
  if (optimizer != NULL) optimizer->step = step;
  return ET_OK;
}
