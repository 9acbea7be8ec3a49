// facts.c — how to call the program of a decoder. Three kinds of programs have a method that
// returns logits: with a start position as second input (this project's and ExecuTorch's
// export_llm), with a position for each token (optimum-executorch), and without caches.
#include "llm/session/constants.h"

enum { MAX_LAYERS = 1024 };

static bool has_method(const et_program *program, const char *name) {
  const char *found;
  for (size_t i = 0; (found = et_program_method_name(program, i)) != NULL; i++)
    if (strcmp(found, name) == 0) return true;
  return false;
}

// ---- shapes of a method

typedef struct shapes {
  size_t longest;  // tokens of a call
  bool is_dynamic, all_logits;
  et_llm_positions positions;
  et_tensor_info tokens, logits;
} shapes;

static et_status tensor_info(const et_program *program, const char *method, et_slot_kind kind,
                             size_t i, et_tensor_info *info, et_error *err) {
  et_tag tag;
  ET_TRY(et_program_slot_info(program, method, kind, i, &tag, info, err));
  ET_CHECK(tag == ET_TENSOR, err, ET_INVALID_PROGRAM,
           "expected %s(tokens) or %s(tokens, positions) -> logits of tensors, got a value of "
           "another kind",
           method, method);
  return ET_OK;
}

static et_status read_shapes(const et_program *program, const char *method, shapes *s,
                             et_error *err) {
  et_method_info info;
  ET_TRY(et_program_method_info(program, method, &info, err));
  ET_CHECK((info.n_inputs == 1 || info.n_inputs == 2) && info.n_outputs > 0, err,
           ET_INVALID_PROGRAM,
           "expected %s(tokens) or %s(tokens, positions) -> logits, got %zu inputs and %zu outputs",
           method, method, info.n_inputs, info.n_outputs);
  ET_TRY(tensor_info(program, method, ET_SLOT_INPUT, 0, &s->tokens, err));
  ET_TRY(tensor_info(program, method, ET_SLOT_OUTPUT, 0, &s->logits, err));
  const et_dtype ids = s->tokens.dtype, out = s->logits.dtype;
  ET_CHECK(s->tokens.rank == 2 && s->tokens.sizes[0] == 1 && s->tokens.sizes[1] > 0 &&
               (ids == ET_I64 || ids == ET_I32),
           err, ET_INVALID_PROGRAM, "tokens of %s: expected i64 [1, length], got %s of rank %zu",
           method, et_dtype_name(ids), s->tokens.rank);
  ET_CHECK((s->logits.rank == 2 || s->logits.rank == 3) && s->logits.sizes[0] == 1 &&
               (out == ET_F32 || out == ET_F16 || out == ET_BF16),
           err, ET_INVALID_PROGRAM,
           "logits of %s: expected floats [1, vocabulary] or [1, length, vocabulary], got %s of "
           "rank %zu",
           method, et_dtype_name(out), s->logits.rank);
  s->longest = (size_t)s->tokens.sizes[1];
  s->is_dynamic = s->tokens.is_dynamic;
  s->all_logits = s->logits.rank == 3;
  s->positions = ET_LLM_POSITION_NONE;
  if (info.n_inputs == 1) return ET_OK;
  et_tensor_info positions;
  ET_TRY(tensor_info(program, method, ET_SLOT_INPUT, 1, &positions, err));
  ET_CHECK(positions.dtype == ET_I64 && positions.rank == 1, err, ET_INVALID_PROGRAM,
           "positions of %s: expected i64 [1] or [length], got %s of rank %zu", method,
           et_dtype_name(positions.dtype), positions.rank);
  s->positions = positions.sizes[0] > 1 ? ET_LLM_POSITION_EACH : ET_LLM_POSITION_START;
  return ET_OK;
}

// ---- constant methods

static et_status read_ids(eti_constants *c, const char *const *names, size_t n_names, uint32_t *ids,
                          size_t *n_ids, et_error *err) {
  *n_ids = 0;
  for (size_t k = 0; k < n_names && *n_ids == 0; k++) {
    if (!has_method(c->program, names[k])) continue;
    int64_t found[ET_LLM_MAX_IDS];
    size_t n;
    ET_TRY(eti_constants_read(c, names[k], found, ET_LLM_MAX_IDS, &n, err));
    for (size_t i = 0; i < n; i++) {
      ET_CHECK(found[i] >= 0 && found[i] < UINT32_MAX, err, ET_INVALID_PROGRAM,
               "%s: expected ids of 0 or more, got %lld", names[k], (long long)found[i]);
      ids[(*n_ids)++] = (uint32_t)found[i];
    }
  }
  return ET_OK;
}

static et_status read_number(eti_constants *c, const char *name, size_t *number, et_error *err) {
  if (!has_method(c->program, name)) return ET_OK;
  int64_t found;
  size_t n;
  ET_TRY(eti_constants_read(c, name, &found, 1, &n, err));
  if (n == 1 && found > 0 && found < INT32_MAX) *number = (size_t)found;
  return ET_OK;
}

static et_status add_ring(et_llm_facts *facts, et_llm_ring ring, et_error *err) {
  if (ring.slots >= facts->capacity) return ET_OK;
  for (size_t i = 0; i < facts->n_rings; i++) {
    const et_llm_ring known = facts->rings[i];
    if (known.window == ring.window && known.slots == ring.slots && known.sinks == ring.sinks)
      return ET_OK;
  }
  ET_CHECK(facts->n_rings < ET_LLM_MAX_RINGS, err, ET_NOT_SUPPORTED,
           "get_cache_windows: expected at most %d kinds of caches with windows, got more",
           ET_LLM_MAX_RINGS);
  facts->rings[facts->n_rings++] = ring;
  return ET_OK;
}

// The caches that keep fewer positions than the context.
static et_status read_rings(eti_constants *c, et_llm_facts *facts, et_error *err) {
  static const char *const NAMES[] = {"get_cache_windows", "get_cache_slots", "get_cache_sinks"};
  if (!has_method(c->program, "get_cache_kind") || !has_method(c->program, NAMES[0]) ||
      !has_method(c->program, NAMES[1]))
    return ET_OK;
  int64_t *const numbers = c->numbers;
  size_t n[3] = {0};
  for (size_t k = 0; k < 3; k++) {
    if (!has_method(c->program, NAMES[k])) continue;
    ET_TRY(eti_constants_read(c, NAMES[k], numbers + k * MAX_LAYERS, MAX_LAYERS, &n[k], err));
    ET_CHECK(n[k] == n[0], err, ET_INVALID_PROGRAM,
             "%s: expected %zu numbers as of get_cache_windows, got %zu", NAMES[k], n[0], n[k]);
  }
  for (size_t i = 0; i < n[0]; i++) {
    const int64_t window = numbers[i], slots = numbers[MAX_LAYERS + i];
    const int64_t sinks = n[2] > 0 ? numbers[2 * MAX_LAYERS + i] : 0;
    ET_CHECK(window >= 0 && slots >= 0 && sinks >= 0, err, ET_INVALID_PROGRAM,
             "get_cache_slots: expected 0 or more, got %lld", (long long)slots);
    ET_TRY(add_ring(facts, (et_llm_ring){(size_t)window, (size_t)slots, (size_t)sinks}, err));
  }
  facts->knows_caches = true;
  return ET_OK;
}

et_status et_llm_facts_bytes(const et_program *program, size_t *bytes, et_error *err) {
  static const char *const NAMES[] = {
      "get_max_context_len", "get_max_seq_len", "get_vocab_size",
      "get_eos_ids",         "get_eos_id",      "get_bos_id",
      "get_cache_windows",   "get_cache_slots", "get_cache_sinks",
  };
  size_t most = 0;
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
    if (!has_method(program, NAMES[i])) continue;
    size_t needed;
    ET_TRY(eti_constants_bytes(program, NAMES[i], &needed, err));
    if (needed > most) most = needed;
  }
  *bytes = most + 3 * MAX_LAYERS * sizeof(int64_t) + 2 * ET_MEMORY_ALIGN;
  return ET_OK;
}

// ---- all facts

static et_status choose_methods(const et_program *program, const char *method, et_llm_facts *facts,
                                et_error *err) {
  facts->method = facts->step_method = method == NULL ? "forward" : method;
  if (method == NULL && !has_method(program, "forward") && has_method(program, "prefill") &&
      has_method(program, "decode")) {
    facts->method = "prefill";
    facts->step_method = "decode";
  }
  ET_CHECK(has_method(program, facts->method), err, ET_INVALID_PROGRAM,
           "expected a method '%s' of a decoder, got a program without it", facts->method);
  return ET_OK;
}

static et_status read_capacity(eti_constants *c, const shapes *s, et_llm_facts *facts,
                               et_error *err) {
  if (s->positions == ET_LLM_POSITION_NONE) {
    facts->capacity = s->longest;
  } else {
    ET_TRY(read_number(c, "get_max_context_len", &facts->capacity, err));
    if (facts->capacity == 0) ET_TRY(read_number(c, "get_max_seq_len", &facts->capacity, err));
    ET_CHECK(facts->capacity > 0, err, ET_INVALID_PROGRAM,
             "expected a constant method 'get_max_context_len' or 'get_max_seq_len', which says "
             "how long the context can be, got neither");
  }
  facts->longest = s->longest < facts->capacity ? s->longest : facts->capacity;
  return ET_OK;
}

// The method that returns logits of several tokens. Drafts must be taken back, so the program says
// which positions its caches keep.
static et_status choose_verify(const et_program *program, const shapes *s, et_llm_facts *facts,
                               et_error *err) {
  facts->most_rows = 1;
  if (!facts->knows_caches && facts->positions != ET_LLM_POSITION_NONE) return ET_OK;
  shapes found = *s;
  const char *name = facts->method;
  if (!s->all_logits) {
    name = "verify";
    if (!has_method(program, name)) return ET_OK;
    ET_TRY(read_shapes(program, name, &found, err));
    ET_CHECK(found.all_logits && found.is_dynamic && found.positions == facts->positions &&
                 found.tokens.dtype == facts->token_dtype &&
                 found.logits.dtype == facts->logits_dtype,
             err, ET_INVALID_PROGRAM,
             "expected verify to be as %s, with the logits of each token, got other inputs or "
             "outputs",
             facts->method);
  }
  facts->verify_method = name;
  facts->most_rows = found.longest < facts->longest ? found.longest : facts->longest;
  return ET_OK;
}

et_status et_llm_facts_read(const et_program *program, const char *method, et_span scratch,
                            et_llm_facts *facts, et_error *err) {
  *facts = (et_llm_facts){.method = NULL};
  ET_TRY(choose_methods(program, method, facts, err));
  shapes first, step;
  ET_TRY(read_shapes(program, facts->method, &first, err));
  ET_TRY(read_shapes(program, facts->step_method, &step, err));
  ET_CHECK(first.longest == 1 || first.is_dynamic, err, ET_INVALID_PROGRAM,
           "tokens: expected 1 or a range of lengths, got the fixed length %zu", first.longest);
  ET_CHECK(step.positions == first.positions && step.tokens.dtype == first.tokens.dtype &&
               step.logits.dtype == first.logits.dtype,
           err, ET_INVALID_PROGRAM, "expected %s to be called as %s, got other inputs or outputs",
           facts->step_method, facts->method);
  facts->positions = first.positions;
  facts->token_dtype = first.tokens.dtype;
  facts->logits_dtype = first.logits.dtype;
  facts->vocab_size = (size_t)first.logits.sizes[first.logits.rank - 1];
  facts->knows_caches = first.positions == ET_LLM_POSITION_NONE;

  eti_constants c;
  ET_TRY(eti_constants_begin(&c, program, scratch, 3 * MAX_LAYERS, err));
  ET_TRY(read_capacity(&c, &first, facts, err));
  size_t words = facts->vocab_size;
  ET_TRY(read_number(&c, "get_vocab_size", &words, err));
  ET_CHECK(words == facts->vocab_size, err, ET_INVALID_PROGRAM,
           "get_vocab_size: expected %zu, the size of the logits, got %zu", facts->vocab_size,
           words);
  static const char *const EOS[] = {"get_eos_ids", "get_eos_id"}, *const BOS[] = {"get_bos_id"};
  ET_TRY(read_ids(&c, EOS, 2, facts->eos, &facts->n_eos, err));
  ET_TRY(read_ids(&c, BOS, 1, facts->bos, &facts->n_bos, err));
  if (first.positions != ET_LLM_POSITION_NONE) ET_TRY(read_rings(&c, facts, err));
  return choose_verify(program, &first, facts, err);
}
