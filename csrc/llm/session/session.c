// session.c — the decoder of a program: its methods, the tokens that their caches hold, and which
// of these can be taken back.
#include <string.h>

#include "llm/et_llm.h"
#include "llm/session/load.h"
#include "runtime/arena.h"
#include "runtime/half.h"

// ---- methods

typedef struct names {
  const char *names[3];
  size_t n;
} names;

static void add_name(names *list, const char *name) {
  if (name == NULL) return;
  for (size_t i = 0; i < list->n; i++)
    if (strcmp(list->names[i], name) == 0) return;
  list->names[list->n++] = name;
}

static names names_of(const et_llm_facts *facts) {
  names list = {.n = 0};
  add_name(&list, facts->method);
  add_name(&list, facts->step_method);
  add_name(&list, facts->verify_method);
  return list;
}

static et_method *method_of(const et_llm_session *s, const char *name) {
  const names list = names_of(&s->facts);
  size_t i = 0;
  while (strcmp(list.names[i], name) != 0) i++;
  return s->methods[i];
}

// ---- memory

typedef struct layout {
  uint32_t *tokens;
  void *ids;
  int64_t *positions;
  float *rows;
  et_span logits, loaded;
} layout;

// Bytes of the greatest logits that a program leaves to the caller; 0 if all are planned.
static et_status own_logits(const et_program *program, const et_llm_facts *facts, size_t *bytes,
                            et_error *err) {
  const names list = names_of(facts);
  *bytes = 0;
  for (size_t i = 0; i < list.n; i++) {
    et_tag tag;
    et_tensor_info info;
    ET_TRY(et_program_slot_info(program, list.names[i], ET_SLOT_OUTPUT, 0, &tag, &info, err));
    if (!info.is_planned && info.bytes > *bytes) *bytes = info.bytes;
  }
  return ET_OK;
}

static et_status claim_layout(et_arena *arena, const et_program *program, const et_llm_facts *facts,
                              const et_method_config *config, layout *l, et_error *err) {
  const names list = names_of(facts);
  const size_t n = facts->positions == ET_LLM_POSITION_NONE ? facts->capacity : facts->longest;
  size_t loaded, logits;
  ET_TRY(eti_methods_bytes(program, list.names, list.n, config, &loaded, err));
  ET_TRY(own_logits(program, facts, &logits, err));
  l->loaded = (et_span){eti_arena_claim(arena, loaded, 1, ET_MEMORY_ALIGN), loaded};
  l->logits = (et_span){eti_arena_claim(arena, logits, 1, ET_MEMORY_ALIGN), logits};
  l->ids = eti_arena_claim(arena, n, et_dtype_bytes(facts->token_dtype), ET_MEMORY_ALIGN);
  l->positions = ETI_CLAIM(arena, int64_t, n);
  l->rows = facts->logits_dtype == ET_F32
                ? NULL
                : ETI_CLAIM(arena, float, facts->most_rows * facts->vocab_size);
  l->tokens = ETI_CLAIM(arena, uint32_t, facts->capacity);
  return ET_OK;
}

et_status et_llm_session_bytes(const et_program *program, const et_llm_facts *facts,
                               const et_method_config *config, size_t *bytes, et_error *err) {
  layout l;
  et_arena arena = eti_arena_counting();
  ET_TRY(claim_layout(&arena, program, facts, config, &l, err));
  *bytes = arena.used + ET_MEMORY_ALIGN;
  return ET_OK;
}

// Loads the methods; the state of the program becomes that of its file.
static et_status load(et_llm_session *s, et_error *err) {
  const names list = names_of(&s->facts);
  ET_TRY(eti_methods_load(s->program, list.names, list.n, &s->config, s->loaded, s->methods, err));
  s->n_methods = list.n;
  et_status status = ET_OK;
  for (size_t i = 0; i < list.n && status == ET_OK; i++) {
    et_tag tag;
    et_tensor_info info;
    status = et_program_slot_info(s->program, list.names[i], ET_SLOT_OUTPUT, 0, &tag, &info, err);
    if (status == ET_OK && !info.is_planned)
      status = et_method_set_output_data(s->methods[i], 0, s->logits_own, err);
  }
  if (status != ET_OK) et_llm_session_end(s);
  return status;
}

et_status et_llm_session_begin(et_llm_session *s, const et_program *program,
                               const et_llm_facts *facts, const et_method_config *config,
                               et_span memory, et_error *err) {
  *s = (et_llm_session){.facts = *facts, .program = program, .config = *config};
  layout l;
  et_arena arena = eti_arena_over(memory);
  ET_TRY(claim_layout(&arena, program, facts, config, &l, err));
  ET_TRY(eti_arena_status(&arena, err));
  eti_arena_end(&arena);
  s->loaded = l.loaded;
  s->tokens = l.tokens;
  s->ids = l.ids;
  s->positions = l.positions;
  s->rows = l.rows;
  s->logits_own = l.logits;
  return load(s, err);
}

void et_llm_session_end(et_llm_session *s) {
  while (s->n_methods > 0) et_method_close(s->methods[--s->n_methods]);
}

const uint32_t *et_llm_session_tokens(const et_llm_session *s, size_t *n) {
  *n = s->n_tokens;
  return s->tokens;
}

// ---- positions that rings keep

// Keys of positions before `end` are written: a ring loses those before end - slots, but for sinks,
// also when it has been longer in the past.
static void note_write(et_llm_session *s, size_t end) {
  for (size_t i = 0; i < s->facts.n_rings; i++) {
    const et_llm_ring ring = s->facts.rings[i];
    if (end > ring.slots && end - ring.slots > ring.sinks && end - ring.slots > s->oldest[i])
      s->oldest[i] = end - ring.slots;
  }
}

// The least position beside 0 to which the context can go back: all windows before it are kept.
static size_t least_position(const et_llm_session *s) {
  if (!s->facts.knows_caches) return s->n_tokens;
  size_t least = 0;
  for (size_t i = 0; i < s->facts.n_rings; i++) {
    const size_t window = s->facts.rings[i].window;
    if (s->oldest[i] > 0 && window > 1 && s->oldest[i] + window - 1 > least)
      least = s->oldest[i] + window - 1;
  }
  return least;
}

static et_status go_to(et_llm_session *s, size_t position, et_error *err) {
  if (position == 0) {
    memset(s->oldest, 0, sizeof s->oldest);
    // State of an unknown kind begins anew with the state of the file.
    if (!s->facts.knows_caches && s->n_tokens > 0) {
      et_llm_session_end(s);
      s->n_tokens = 0;
      return load(s, err);
    }
  }
  s->n_tokens = position;
  return ET_OK;
}

static et_status keep(void *ctx, const uint32_t *ids, size_t n, size_t *kept, et_error *err) {
  et_llm_session *const s = ctx;
  size_t same = 0;
  while (same < s->n_tokens && same + 1 < n && s->tokens[same] == ids[same]) same++;
  if (same < s->n_tokens && same < least_position(s)) same = 0;
  *kept = same;
  return go_to(s, same, err);
}

static et_status rewind(void *ctx, size_t n, et_error *err) {
  et_llm_session *const s = ctx;
  const size_t least = least_position(s);
  ET_CHECK(n <= s->n_tokens && (n == 0 || n == s->n_tokens || n >= least), err, ET_INVALID_ARGUMENT,
           "rewind: expected 0 or a position from %zu to %zu, whose keys the caches keep, got %zu",
           least, s->n_tokens, n);
  return go_to(s, n, err);
}

// ---- reading

static et_status set_numbers(et_method *method, size_t input, et_dtype dtype, void *data, size_t n,
                             et_error *err) {
  const et_value *const in = et_method_input(method, input);
  const uint8_t order[] = {0, 1};
  const size_t rank = in->as.tensor->rank;
  int32_t sizes[2] = {1, (int32_t)n};
  ptrdiff_t strides[2] = {(ptrdiff_t)(n > 0 ? n : 1), 1};
  et_tensor tensor = {.data = data,
                      .sizes = sizes + (2 - rank),
                      .strides = strides + (2 - rank),
                      .dim_order = order,
                      .numel = n,
                      .capacity = n,
                      .dtype = (uint8_t)dtype,
                      .rank = (uint8_t)rank};
  const et_value value = {.tag = ET_TENSOR, .as.tensor = &tensor};
  return et_method_set_input(method, input, &value, err);
}

static void copy_ids(const et_llm_session *s, const uint32_t *ids, size_t n, size_t at) {
  for (size_t i = 0; i < n; i++)
    if (s->facts.token_dtype == ET_I64)
      ((int64_t *)s->ids)[at + i] = ids[i];
    else
      ((int32_t *)s->ids)[at + i] = (int32_t)ids[i];
}

static et_status run(et_llm_session *s, et_method *method, const uint32_t *ids, size_t n,
                     et_error *err) {
  size_t n_ids = n;
  if (s->facts.positions == ET_LLM_POSITION_NONE) {
    copy_ids(s, s->tokens, s->n_tokens, 0);
    copy_ids(s, ids, n, s->n_tokens);
    n_ids += s->n_tokens;
  } else {
    note_write(s, s->n_tokens + n);
    copy_ids(s, ids, n, 0);
  }
  ET_TRY(set_numbers(method, 0, s->facts.token_dtype, s->ids, n_ids, err));
  if (s->facts.positions != ET_LLM_POSITION_NONE) {
    const size_t each = s->facts.positions == ET_LLM_POSITION_EACH ? n : 1;
    for (size_t i = 0; i < each; i++) s->positions[i] = (int64_t)(s->n_tokens + i);
    ET_TRY(set_numbers(method, 1, ET_I64, s->positions, each, err));
  }
  return et_method_execute(method, err);
}

// The last rows of the logits, as f32.
static et_status last_rows(et_llm_session *s, const et_tensor *out, size_t rows,
                           const float **logits, et_error *err) {
  const size_t words = s->facts.vocab_size, wanted = rows * words;
  ET_CHECK(out->numel >= wanted && out->sizes[out->rank - 1] == (int32_t)words, err,
           ET_INVALID_PROGRAM, "logits: expected %zu rows of %zu, got %zu values in rows of %d",
           rows, words, out->numel, (int)out->sizes[out->rank - 1]);
  const size_t first = out->numel - wanted;
  if (out->dtype == ET_F32) {
    *logits = (const float *)out->data + first;
    return ET_OK;
  }
  const uint16_t *const halves = (const uint16_t *)out->data + first;
  for (size_t i = 0; i < wanted; i++)
    s->rows[i] = out->dtype == ET_F16 ? eti_f16_to_f32(halves[i]) : eti_bf16_to_f32(halves[i]);
  *logits = s->rows;
  return ET_OK;
}

static et_status read(void *ctx, const uint32_t *ids, size_t n, size_t rows, const float **logits,
                      et_error *err) {
  et_llm_session *const s = ctx;
  const et_llm_facts *const facts = &s->facts;
  ET_CHECK(s->n_methods > 0, err, ET_INVALID_STATE,
           "session: expected loaded methods, got none: loading them again failed");
  ET_CHECK(n > 0 && n <= facts->longest && rows > 0 && rows <= n, err, ET_INVALID_ARGUMENT,
           "tokens: expected 1 to %zu with logits of at most as many, got %zu and %zu",
           facts->longest, n, rows);
  ET_CHECK(rows == 1 || n <= facts->most_rows, err, ET_INVALID_ARGUMENT,
           "logits: expected 1 row, or at most %zu tokens, got %zu rows of %zu tokens",
           facts->most_rows, rows, n);
  ET_CHECK(n <= facts->capacity - s->n_tokens, err, ET_INVALID_ARGUMENT,
           "tokens: expected at most %zu, for the context has %zu positions and %zu are in use, "
           "got %zu",
           facts->capacity - s->n_tokens, facts->capacity, s->n_tokens, n);
  for (size_t i = 0; i < n; i++)
    ET_CHECK(ids[i] < facts->vocab_size, err, ET_INVALID_ARGUMENT,
             "tokens[%zu]: expected an id from 0 to %zu, got %u", i, facts->vocab_size - 1, ids[i]);
  const bool one = n == 1 && facts->positions != ET_LLM_POSITION_NONE;
  et_method *const method = method_of(s, one        ? facts->step_method
                                         : rows > 1 ? facts->verify_method
                                                    : facts->method);
  ET_TRY(run(s, method, ids, n, err));
  const et_value *const out = et_method_output(method, 0);
  ET_TRY(last_rows(s, out->as.tensor, rows, logits, err));
  memcpy(s->tokens + s->n_tokens, ids, n * sizeof *ids);
  s->n_tokens += n;
  return ET_OK;
}

static void interrupt(void *ctx) {
  const et_llm_session *const s = ctx;
  for (size_t i = 0; i < s->n_methods; i++) et_method_interrupt(s->methods[i]);
}

et_llm_decoder et_llm_session_decoder(et_llm_session *s) {
  return (et_llm_decoder){.ctx = s,
                          .capacity = s->facts.capacity,
                          .longest = s->facts.longest,
                          .most_rows = s->facts.most_rows,
                          .vocab_size = s->facts.vocab_size,
                          .keep = keep,
                          .read = read,
                          .rewind = rewind,
                          .interrupt = interrupt};
}
