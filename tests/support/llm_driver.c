// llm_driver.c — runs the parts of csrc/llm for llm_driver.py. Memory has exactly the size that
// their headers ask for, from malloc, so that sanitizers see every byte beyond it. A shared
// library, because Python drives it; nothing of it ships.
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include "llm/et_chat.h"
#include "llm/et_llm.h"
#include "llm/generation/pace.h"
#include "llm/text/charsmap.h"
#include "llm/text/letters.h"
#include "llm/text/normalize.h"
#include "runtime/check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

// Normalizers by number; the first four are those of eti_normal_form.
typedef enum llm_normalizer {
  LLM_LOWERCASE = 4,
  LLM_STRIP_ACCENTS,
  LLM_STRIP,     // options: 1 left, 2 right
  LLM_BERT,      // options: 1 clean_text, 2 handle_chinese_chars, 4 strip_accents, 8 lowercase
  LLM_CHARSMAP,  // the map is in `map`
} llm_normalizer;

// The memory that a normalizer writes to.
typedef struct llm_memory {
  et_span out, scratch;
} llm_memory;

EXPORT int llm_normalize(int which, unsigned options, const eti_string *map, eti_string in,
                         size_t missing_out, size_t missing_scratch, uint8_t **out, size_t *n_out,
                         bool *identity, et_error *err);
EXPORT double llm_time_normalize(int which, unsigned options, const eti_string *map, eti_string in,
                                 size_t rounds);
EXPORT void llm_free(void *memory);
EXPORT int llm_chat(const void *parts, size_t n_parts, const void *image, size_t n_image,
                    const et_chat_message *messages, size_t n, uint32_t **ids, size_t *n_ids,
                    et_error *err);
EXPORT int llm_prepare(const void *measured, size_t n_measured, const void *file, size_t n,
                       et_error *err);
EXPORT int llm_generate(const void *image, size_t n_image, size_t stop_at, size_t *n_pieces,
                        size_t *n_context, et_error *err);
EXPORT size_t llm_pace_length(const et_llm_pace *pace, size_t most);
EXPORT void llm_pace_step(et_llm_pace *pace, double time);
EXPORT void llm_pace_draft(et_llm_pace *pace, size_t n, size_t accepted, double time);

static eti_bert_options bert_options(unsigned bits) {
  return (eti_bert_options){(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
}

// Sizes for a text of n bytes; the size of a charsmap's result is counted by the normalizer.
static llm_memory sizes(int which, size_t n) {
  llm_memory m = {{NULL, n}, {NULL, 0}};
  if (which < LLM_LOWERCASE) {
    m.out.size = eti_normalize_bytes((eti_normal_form)which, n);
    m.scratch.size = eti_normalize_scratch_bytes(n);
  } else if (which == LLM_LOWERCASE) {
    m.out.size = eti_lowercase_bytes(n);
  } else if (which == LLM_BERT) {
    m.out.size = eti_bert_bytes(n);
    m.scratch.size = eti_bert_scratch_bytes(n);
  }
  return m;
}

static bool is_identity(int which, unsigned options, const eti_charsmap *map, eti_string in) {
  if (which < LLM_LOWERCASE) return eti_normalize_is_identity((eti_normal_form)which, in);
  if (which == LLM_LOWERCASE) return eti_lowercase_is_identity(in);
  if (which == LLM_STRIP_ACCENTS) return eti_strip_accents_is_identity(in);
  if (which == LLM_BERT) return eti_bert_is_identity(bert_options(options), in);
  return which == LLM_CHARSMAP && eti_charsmap_is_identity(map, in);
}

static et_status run(int which, unsigned options, const eti_charsmap *map, eti_string in,
                     llm_memory m, size_t *n_out, et_error *err) {
  if (which < LLM_LOWERCASE)
    return eti_normalize((eti_normal_form)which, in, m.out, n_out, m.scratch, err);
  if (which == LLM_LOWERCASE) return eti_lowercase(in, m.out, n_out, err);
  if (which == LLM_STRIP_ACCENTS) return eti_strip_accents(in, m.out, n_out, err);
  if (which == LLM_BERT)
    return eti_bert_normalize(bert_options(options), in, m.out, n_out, m.scratch, err);
  if (which == LLM_CHARSMAP) return eti_charsmap_normalize(map, in, m.out, n_out, err);
  const eti_string stripped = eti_strip(in, (options & 1) != 0, (options & 2) != 0);
  *n_out = stripped.n;
  if (stripped.n > 0) memcpy(m.out.data, stripped.bytes, stripped.n);
  return ET_OK;
}

// Memory for one call; `missing` bytes less than it needs.
static et_status allocate(int which, const eti_charsmap *map, eti_string in, size_t missing_out,
                          size_t missing_scratch, llm_memory *m, et_error *err) {
  *m = sizes(which, in.n);
  if (which == LLM_CHARSMAP)
    ET_TRY(eti_charsmap_normalize(map, in, (et_span){NULL, 0}, &m->out.size, err));
  m->out.size -= missing_out < m->out.size ? missing_out : m->out.size;
  m->scratch.size -= missing_scratch < m->scratch.size ? missing_scratch : m->scratch.size;
  m->out.data = malloc(m->out.size + (m->out.size == 0));
  m->scratch.data = malloc(m->scratch.size + (m->scratch.size == 0));
  ET_CHECK(m->out.data != NULL && m->scratch.data != NULL, err, ET_OUT_OF_MEMORY,
           "driver: expected %zu bytes, got none", m->out.size);
  return ET_OK;
}

int llm_normalize(int which, unsigned options, const eti_string *map, eti_string in,
                  size_t missing_out, size_t missing_scratch, uint8_t **out, size_t *n_out,
                  bool *identity, et_error *err) {
  eti_charsmap charsmap;
  if (which == LLM_CHARSMAP) {
    const et_status opened = eti_charsmap_open(*map, &charsmap, err);
    if (opened != ET_OK) return (int)opened;
  }
  llm_memory m = {{NULL, 0}, {NULL, 0}};
  et_status status = allocate(which, &charsmap, in, missing_out, missing_scratch, &m, err);
  if (status == ET_OK) status = run(which, options, &charsmap, in, m, n_out, err);
  *identity = status == ET_OK && is_identity(which, options, &charsmap, in);
  free(m.scratch.data);
  *out = m.out.data;
  return (int)status;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The shortest time of a call; a charsmap's includes the count of the bytes.
double llm_time_normalize(int which, unsigned options, const eti_string *map, eti_string in,
                          size_t rounds) {
  eti_charsmap charsmap;
  if (which == LLM_CHARSMAP && eti_charsmap_open(*map, &charsmap, NULL) != ET_OK) return -1;
  llm_memory m = {{NULL, 0}, {NULL, 0}};
  double best = allocate(which, &charsmap, in, 0, 0, &m, NULL) == ET_OK ? 1e9 : -1;
  for (size_t i = 0; i < rounds && best > 0; i++) {
    size_t n = 0;
    const double begin = seconds();
    if (which == LLM_CHARSMAP &&
        eti_charsmap_normalize(&charsmap, in, (et_span){NULL, 0}, &n, NULL) != ET_OK)
      best = -1;
    if (run(which, options, &charsmap, in, m, &n, NULL) != ET_OK) best = -1;
    const double took = seconds() - begin;
    if (took < best) best = took;
  }
  free(m.scratch.data);
  free(m.out.data);
  return best;
}

void llm_free(void *memory) {
  free(memory);
}

size_t llm_pace_length(const et_llm_pace *pace, size_t most) {
  return eti_pace_length(pace, most);
}

void llm_pace_step(et_llm_pace *pace, double time) {
  eti_pace_step(pace, time);
}

void llm_pace_draft(et_llm_pace *pace, size_t n, size_t accepted, double time) {
  eti_pace_draft(pace, n, accepted, time);
}

int llm_chat(const void *parts, size_t n_parts, const void *image, size_t n_image,
             const et_chat_message *messages, size_t n, uint32_t **ids, size_t *n_ids,
             et_error *err) {
  et_chat chat;
  et_tokenizer tokenizer;
  *ids = NULL;
  ET_TRY(et_chat_open(&chat, parts, n_parts, err));
  ET_TRY(et_tokenizer_open(&tokenizer, image, n_image, err));
  const et_chat_needs needs = et_chat_measure(&chat, &tokenizer, messages, n);
  void *const scratch = malloc(needs.scratch_bytes);
  *ids = malloc(needs.max_ids * sizeof **ids);
  const et_status status = et_chat_encode(&chat, &tokenizer, messages, n, *ids, needs.max_ids,
                                          n_ids, (et_span){scratch, needs.scratch_bytes}, err);
  free(scratch);
  return (int)status;
}

// Prepares a file with the needs of another one.
int llm_prepare(const void *measured, size_t n_measured, const void *file, size_t n,
                et_error *err) {
  et_tokenizer_source source = {.file = measured, .bytes = n_measured};
  et_tokenizer_needs needs;
  ET_TRY(et_tokenizer_measure(&source, &needs, err));
  source = (et_tokenizer_source){.file = file, .bytes = n};
  void *const image = malloc(needs.image_bytes), *const work = malloc(needs.work_bytes);
  const et_status status =
      et_tokenizer_prepare(&source, &needs, (et_span){image, needs.image_bytes},
                           (et_span){work, needs.work_bytes}, &n, err);
  free(image);
  free(work);
  return (int)status;
}

// ---- a text of a cycle of tokens, whose callback fails

enum { CYCLE = 5, FIRST = 40, MOST_ROWS = 16 };  // tokens FIRST, FIRST + 1, … and again

typedef struct cycle {
  float *rows;
  size_t n, vocab_size;  // tokens in the context
  size_t stop_at, n_pieces;
} cycle;

static et_status cycle_keep(void *ctx, const uint32_t *ids, size_t n, size_t *kept, et_error *err) {
  cycle *const c = ctx;
  (void)ids, (void)n, (void)err;
  *kept = c->n = 0;
  return ET_OK;
}

static et_status cycle_read(void *ctx, const uint32_t *ids, size_t n, size_t rows,
                            const float **logits, et_error *err) {
  cycle *const c = ctx;
  (void)ids, (void)err;
  memset(c->rows, 0, rows * c->vocab_size * sizeof *c->rows);
  c->n += n;
  for (size_t i = 0; i < rows; i++)
    c->rows[i * c->vocab_size + FIRST + (c->n - rows + i) % CYCLE] = 1;
  *logits = c->rows;
  return ET_OK;
}

static et_status cycle_rewind(void *ctx, size_t n, et_error *err) {
  (void)err;
  ((cycle *)ctx)->n = n;
  return ET_OK;
}

static et_status cycle_piece(void *ctx, const et_llm_piece *piece) {
  cycle *const c = ctx;
  (void)piece;
  return ++c->n_pieces == c->stop_at ? ET_ACCESS_FAILED : ET_OK;
}

int llm_generate(const void *image, size_t n_image, size_t stop_at, size_t *n_pieces,
                 size_t *n_context, et_error *err) {
  et_tokenizer tokenizer;
  ET_TRY(et_tokenizer_open(&tokenizer, image, n_image, err));
  cycle c = {.vocab_size = et_tokenizer_vocab_size(&tokenizer), .stop_at = stop_at};
  c.rows = malloc(MOST_ROWS * c.vocab_size * sizeof *c.rows);
  const et_llm_decoder decoder = {.ctx = &c,
                                  .capacity = 100,
                                  .longest = MOST_ROWS,
                                  .most_rows = MOST_ROWS,
                                  .vocab_size = c.vocab_size,
                                  .keep = cycle_keep,
                                  .read = cycle_read,
                                  .rewind = cycle_rewind};
  et_sampler_options sampling = et_sampler_defaults();
  sampling.temperature = 0;
  const size_t scratch = et_sampler_scratch_bytes(c.vocab_size);
  void *const weights = malloc(scratch);
  et_sampler sampler;
  et_status status =
      et_sampler_init(&sampler, &sampling, c.vocab_size, (et_span){weights, scratch}, err);
  const et_llm_lookup lookup = {1, 4};
  const et_llm_drafter drafter = et_llm_lookup_drafter(&lookup);
  const et_llm_parts parts = {&decoder, &tokenizer, &sampler, NULL};
  const et_llm_options options = {.max_new_tokens = 60, .drafter = &drafter, .max_draft = 8};
  const size_t bytes = et_llm_generation_bytes(&parts, &options);
  void *const memory = malloc(bytes);
  et_llm_generation generation;
  if (status == ET_OK)
    status = et_llm_generation_begin(&generation, &parts, &options, &(uint32_t){FIRST}, 1,
                                     (et_span){memory, bytes}, err);
  if (status == ET_OK) status = et_llm_generate(&generation, cycle_piece, &c, err);
  et_llm_piece piece;
  if (et_llm_next(&generation, &piece, NULL) != ET_END_OF_METHOD) status = ET_INTERNAL;
  *n_pieces = c.n_pieces;
  *n_context = c.n;
  free(memory);
  free(weights);
  free(c.rows);
  return (int)status;
}
