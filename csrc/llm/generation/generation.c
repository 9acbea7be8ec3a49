// generation.c — the loop: read the prompt, draw a token, give its text, read it, draw the next
// one. With drafts, several tokens are read at once, and the rows of logits behind them are used as
// far as the tokens that are drawn agree with the draft.
#include "llm/generation/pace.h"
#include "llm/generation/stop_text.h"
#include "runtime/arena.h"

#include "llm/et_llm.h"

enum { END_BYTES = 16 };  // U+FFFD for each byte of a letter that is not complete

// ---- memory

typedef struct layout {
  uint32_t *context;
  et_token_logprob *best;
  char *held, *scratch;
  size_t held_bytes, scratch_bytes;
} layout;

static layout claim_layout(et_arena *arena, const et_llm_parts *parts,
                           const et_llm_options *options) {
  const size_t piece = et_tokenizer_piece_bytes(parts->tokenizer);
  const size_t stop = eti_stop_longest((eti_stop_strings){options->stop, options->n_stop});
  layout l = {.held_bytes = stop + 3 * piece + END_BYTES, .scratch_bytes = 2 * piece};
  l.context = ETI_CLAIM(arena, uint32_t, parts->decoder->capacity);
  l.best = ETI_CLAIM(arena, et_token_logprob, parts->sampler->options.n_best);
  l.held = ETI_CLAIM(arena, char, l.held_bytes);
  l.scratch = ETI_CLAIM(arena, char, l.scratch_bytes);
  return l;
}

size_t et_llm_generation_bytes(const et_llm_parts *parts, const et_llm_options *options) {
  et_arena arena = eti_arena_counting();
  (void)claim_layout(&arena, parts, options);
  return arena.used + ET_MEMORY_ALIGN;
}

static et_status check(const et_llm_parts *parts, const et_llm_options *options, size_t n,
                       et_error *err) {
  const size_t words = et_tokenizer_vocab_size(parts->tokenizer);
  ET_CHECK(n > 0, err, ET_INVALID_ARGUMENT, "prompt: expected 1 token or more, got none");
  ET_CHECK(n <= parts->decoder->capacity, err, ET_INVALID_ARGUMENT,
           "prompt: expected at most %zu tokens, the size of the context, got %zu",
           parts->decoder->capacity, n);
  ET_CHECK(words <= parts->decoder->vocab_size, err, ET_INVALID_ARGUMENT,
           "tokenizer: expected at most %zu ids, as many as the program has words, got %zu: it is "
           "another model's",
           parts->decoder->vocab_size, words);
  ET_CHECK(parts->sampler->vocab_size <= words, err, ET_INVALID_ARGUMENT,
           "sampler: expected at most %zu words, those of the tokenizer, got %zu", words,
           parts->sampler->vocab_size);
  ET_CHECK(options->max_draft <= ET_LLM_MAX_DRAFT, err, ET_INVALID_ARGUMENT,
           "max_draft: expected at most %d tokens, got %zu", ET_LLM_MAX_DRAFT, options->max_draft);
  return ET_OK;
}

et_status et_llm_generation_begin(et_llm_generation *g, const et_llm_parts *parts,
                                  const et_llm_options *options, const uint32_t *prompt, size_t n,
                                  et_span memory, et_error *err) {
  ET_TRY(check(parts, options, n, err));
  for (size_t i = 0; i < n; i++)
    ET_CHECK(prompt[i] < parts->decoder->vocab_size, err, ET_INVALID_ARGUMENT,
             "prompt[%zu]: expected an id below %zu, got %u", i, parts->decoder->vocab_size,
             prompt[i]);
  et_arena arena = eti_arena_over(memory);
  const layout l = claim_layout(&arena, parts, options);
  ET_TRY(eti_arena_status(&arena, err));
  eti_arena_end(&arena);
  *g = (et_llm_generation){.parts = *parts,
                           .options = *options,
                           .sample = {.best = l.best},
                           .context = l.context,
                           .n_context = n,
                           .n_prompt = n,
                           .held = l.held,
                           .held_bytes = l.held_bytes,
                           .scratch = {l.scratch, l.scratch_bytes}};
  memcpy(l.context, prompt, n * sizeof *prompt);
  g->stats.n_prompt = n;
  return ET_OK;
}

// ---- facts

static uint64_t now(const et_llm_generation *g) {
  return g->options.clock_ns == NULL ? 0 : g->options.clock_ns();
}

static bool stop_requested(const et_llm_generation *g) {
  return __atomic_load_n(&g->stop_requested, __ATOMIC_RELAXED) != 0;
}

void et_llm_stop(et_llm_generation *g) {
  __atomic_store_n(&g->stop_requested, 1, __ATOMIC_RELAXED);
  const et_llm_decoder *const decoder = g->parts.decoder;
  if (decoder->interrupt != NULL) decoder->interrupt(decoder->ctx);
}

const uint32_t *et_llm_tokens(const et_llm_generation *g, size_t *n) {
  *n = g->n_context - g->n_prompt;
  return g->context + g->n_prompt;
}

static bool is_eos(const et_llm_generation *g, uint32_t token) {
  for (size_t i = 0; i < g->options.n_eos; i++)
    if (g->options.eos[i] == token) return true;
  return false;
}

// ---- text

// Adds a token's text to the held text; gives out what no stop string can begin in.
static et_status add_text(et_llm_generation *g, uint32_t token, bool *stopped, et_error *err) {
  size_t n = 0;
  if (g->options.special || !et_tokenizer_is_special(g->parts.tokenizer, token))
    ET_TRY(et_text_decoder_push(&g->decoder, g->parts.tokenizer, token, g->held + g->n_held,
                                g->held_bytes - g->n_held, &n, g->scratch, err));
  g->n_held += n;
  const eti_string text = {(const uint8_t *)g->held, g->n_held};
  g->n_given =
      eti_stop_safe_bytes((eti_stop_strings){g->options.stop, g->options.n_stop}, text, stopped);
  if (*stopped) g->n_held = g->n_given;
  return ET_OK;
}

static void drop_given(et_llm_generation *g) {
  g->n_held -= g->n_given;
  memmove(g->held, g->held + g->n_given, g->n_held);
  g->n_given = 0;
}

// ---- reading

static et_status read_prompt(et_llm_generation *g, et_error *err) {
  const et_llm_decoder *const decoder = g->parts.decoder;
  g->stats.begin_ns = now(g);
  if (g->parts.counts != NULL) {
    et_token_counts_clear(g->parts.counts);
    ET_TRY(et_token_counts_add(g->parts.counts, ET_TOKEN_PROMPT, g->context, g->n_prompt, err));
  }
  ET_TRY(decoder->keep(decoder->ctx, g->context, g->n_prompt, &g->n_read, err));
  g->stats.n_cached = g->n_read;
  while (g->n_read < g->n_prompt) {
    if (stop_requested(g)) return ET_INTERRUPTED;
    const size_t left = g->n_prompt - g->n_read;
    const size_t n = left < decoder->longest ? left : decoder->longest;
    ET_TRY(decoder->read(decoder->ctx, g->context + g->n_read, n, 1, &g->rows, err));
    g->n_read += n;
  }
  g->stats.prompt_end_ns = now(g);
  return ET_OK;
}

// The draft is checked as far as it goes: what follows the context of the text is taken back.
static et_status end_draft(et_llm_generation *g, et_error *err) {
  if (g->draft_tokens == 0) return ET_OK;
  const et_llm_decoder *const decoder = g->parts.decoder;
  const double time =
      g->options.clock_ns == NULL ? eti_pace_usual_time(g->draft_tokens) : (double)g->draft_ns;
  eti_pace_draft(&g->pace, g->draft_tokens, g->draft_accepted, time);
  g->draft_tokens = g->draft_accepted = 0;
  if (g->n_draft == 0) return ET_OK;
  g->n_draft = 0;
  return decoder->rewind(decoder->ctx, g->n_read, err);
}

// Tokens that a draft behind the context may have.
static size_t draft_room(const et_llm_generation *g) {
  const et_llm_decoder *const decoder = g->parts.decoder;
  if (g->options.drafter == NULL || decoder->most_rows < 2) return 0;
  size_t most = g->options.max_draft;
  const size_t rows = decoder->most_rows < decoder->longest ? decoder->most_rows : decoder->longest;
  const size_t room = decoder->capacity - g->n_context;
  size_t wanted = g->options.max_new_tokens - (g->n_context - g->n_prompt);
  if (wanted > room) wanted = room;
  if (most > rows - 1) most = rows - 1;
  if (most > wanted - 1) most = wanted - 1;  // the last token of a text is not read
  return eti_pace_length(&g->pace, most);
}

// Reads the last token of the context, and a draft of what follows it.
static et_status read_next(et_llm_generation *g, et_error *err) {
  const et_llm_decoder *const decoder = g->parts.decoder;
  const et_llm_drafter *const drafter = g->options.drafter;
  uint32_t ids[1 + ET_LLM_MAX_DRAFT] = {g->context[g->n_context - 1]};
  const uint64_t began = now(g);
  const size_t room = draft_room(g);
  size_t n = 0;
  if (room > 0)
    ET_TRY(drafter->draft(drafter->ctx, g->context, g->n_context, g->parts.sampler, g->parts.counts,
                          ids + 1, room, &n, err));
  ET_TRY(decoder->read(decoder->ctx, ids, 1 + n, 1 + n, &g->rows, err));
  g->n_read++;
  g->stats.n_reads++;
  g->stats.n_drafted += n;
  g->n_draft = g->draft_tokens = n;
  memcpy(g->draft, ids + 1, n * sizeof *ids);
  g->draft_ns = now(g) - began;
  if (n == 0) eti_pace_step(&g->pace, g->options.clock_ns == NULL ? 1 : (double)g->draft_ns);
  return ET_OK;
}

// Makes the logits behind the last token of the context the current row.
static et_status advance(et_llm_generation *g, et_error *err) {
  if (g->n_draft > 0 && g->draft[0] == g->context[g->n_context - 1]) {
    memmove(g->draft, g->draft + 1, --g->n_draft * sizeof *g->draft);
    g->rows += g->parts.decoder->vocab_size;
    g->n_read++;
    g->draft_accepted++;
    g->stats.n_accepted++;
    return ET_OK;
  }
  ET_TRY(end_draft(g, err));
  return read_next(g, err);
}

// ---- drawing

static et_status end_text(et_llm_generation *g, et_llm_finish finish, et_error *err) {
  ET_TRY(end_draft(g, err));
  if (finish != ET_LLM_STOP_STRING) {
    size_t n;
    ET_TRY(
        et_text_decoder_end(&g->decoder, g->held + g->n_held, g->held_bytes - g->n_held, &n, err));
    g->n_held += n;
    g->n_given = g->n_held;
  }
  g->stats.end_ns = now(g);
  g->finish = finish;
  return ET_OK;
}

static et_status draw(et_llm_generation *g, uint32_t *token, et_error *err) {
  const uint64_t began = now(g);
  ET_TRY(
      et_sampler_draw(g->parts.sampler, g->rows, g->parts.counts, g->n_context, &g->sample, err));
  const uint64_t ended = now(g);
  g->stats.sampling_ns += ended - began;
  if (g->stats.n_generated++ == 0) g->stats.first_token_ns = ended;
  *token = g->sample.id;
  return ET_OK;
}

static et_status take(et_llm_generation *g, uint32_t token, et_error *err) {
  if (g->parts.counts != NULL)
    ET_TRY(et_token_counts_add(g->parts.counts, ET_TOKEN_GENERATED, &token, 1, err));
  g->context[g->n_context++] = token;
  bool stopped;
  ET_TRY(add_text(g, token, &stopped, err));
  const bool full = g->n_context - g->n_prompt >= g->options.max_new_tokens ||
                    g->n_context == g->parts.decoder->capacity;
  if (stopped) return end_text(g, ET_LLM_STOP_STRING, err);
  if (stop_requested(g)) return end_text(g, ET_LLM_STOPPED, err);
  return full ? end_text(g, ET_LLM_LENGTH, err) : ET_OK;
}

static et_status next_piece(et_llm_generation *g, bool *has_token, et_error *err) {
  if (g->rows == NULL)
    ET_TRY(read_prompt(g, err));
  else
    ET_TRY(advance(g, err));
  if (stop_requested(g)) return ET_INTERRUPTED;
  if (g->options.max_new_tokens == 0 || g->n_context == g->parts.decoder->capacity)
    return end_text(g, ET_LLM_LENGTH, err);
  uint32_t token;
  ET_TRY(draw(g, &token, err));
  if (is_eos(g, token)) return end_text(g, ET_LLM_EOS, err);
  *has_token = true;
  return take(g, token, err);
}

et_status et_llm_next(et_llm_generation *g, et_llm_piece *piece, et_error *err) {
  if (g->failed || g->finish != ET_LLM_GOES_ON) return ET_END_OF_METHOD;
  drop_given(g);
  bool has_token = false;
  et_status status = next_piece(g, &has_token, err);
  if (status == ET_INTERRUPTED && stop_requested(g)) status = end_text(g, ET_LLM_STOPPED, err);
  g->failed = status != ET_OK;
  if (g->failed) return status;
  *piece = (et_llm_piece){.text = g->held,
                          .n = g->n_given,
                          .has_token = has_token,
                          .token = has_token ? g->sample.id : 0,
                          .sample = has_token ? &g->sample : NULL,
                          .finish = g->finish};
  return ET_OK;
}

et_status et_llm_generate(et_llm_generation *g, et_llm_on_piece on_piece, void *ctx,
                          et_error *err) {
  et_llm_piece piece = {.finish = ET_LLM_GOES_ON};
  while (piece.finish == ET_LLM_GOES_ON) {
    ET_TRY(et_llm_next(g, &piece, err));
    const et_status status = piece.n > 0 ? on_piece(ctx, &piece) : ET_OK;
    if (status == ET_OK) continue;
    if (piece.finish == ET_LLM_GOES_ON) ET_TRY(end_text(g, ET_LLM_STOPPED, err));
    return status;
  }
  return ET_OK;
}
