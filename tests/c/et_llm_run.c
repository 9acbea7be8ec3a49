// et_llm_run.c — a C program that writes the text that follows a prompt:
//   et_llm_run MODEL.pte PROMPT [TOKENS] [TEMPERATURE]
// MODEL.pte is made by `executorch_py llm export`, and has its tokenizer with it. Ctrl-C ends the
// text; a second one ends the program.
#include "llm/et_llm.h"
#include "runtime/signature/et_named_data.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static et_llm_generation generation;
static et_error err;

static void stop(int number) {
  signal(number, SIG_DFL);
  et_llm_stop(&generation);
}

// Ends the program with the message of a failed call.
static void check(et_status status) {
  if (status == ET_OK) return;
  fprintf(stderr, "%s: %s\n", et_status_name(status), err.message);
  exit(1);
}

static et_span allocate(size_t bytes) {
  const size_t rounded = (bytes + ET_MEMORY_ALIGN) / ET_MEMORY_ALIGN * ET_MEMORY_ALIGN;
  const et_span span = {aligned_alloc(ET_MEMORY_ALIGN, rounded), rounded};
  if (span.data == NULL) exit(1);
  return span;
}

static et_status write_piece(void *ctx, const et_llm_piece *piece) {
  fwrite(piece->text, 1, piece->n, ctx);
  return fflush(ctx) == 0 ? ET_OK : ET_ACCESS_FAILED;
}

static et_span encode(const et_tokenizer *tokenizer, const char *text, size_t *n) {
  const size_t bytes = strlen(text), most = et_tokenizer_max_ids(tokenizer, bytes);
  const et_encode_options options = {.around = true};
  const et_span ids = allocate(most * sizeof(uint32_t));
  const et_span scratch = allocate(et_tokenizer_scratch_bytes(tokenizer, bytes));
  check(et_tokenizer_encode(tokenizer, text, bytes, &options, ids.data, most, n, scratch, &err));
  free(scratch.data);
  return ids;
}

static et_llm_facts facts_of(const et_program *program) {
  size_t bytes;
  et_llm_facts facts;
  check(et_llm_facts_bytes(program, &bytes, &err));
  const et_span scratch = allocate(bytes);
  check(et_llm_facts_read(program, NULL, scratch, &facts, &err));
  free(scratch.data);
  return facts;
}

// Begins a session with the program's own decoder; returns its memory.
static et_span begin(et_llm_session *session, const et_program *program, const et_pool *pool) {
  const et_method_config config = {
      .ops = &et_ops_portable, .backends = &et_backends_builtin, .pool = pool};
  const et_llm_facts facts = facts_of(program);
  size_t bytes;
  check(et_llm_session_bytes(program, &facts, &config, &bytes, &err));
  const et_span memory = allocate(bytes);
  check(et_llm_session_begin(session, program, &facts, &config, memory, &err));
  return memory;
}

// Writes the text behind a prompt to standard output, and times to standard error.
static void write_text(et_llm_session *session, const et_tokenizer *tokenizer, char **arguments,
                       int n_arguments) {
  const size_t words = et_tokenizer_vocab_size(tokenizer);
  et_sampler_options sampling = et_sampler_defaults();
  sampling.temperature = n_arguments > 2 ? atof(arguments[2]) : 0;
  et_sampler sampler;
  const et_span weights = allocate(et_sampler_scratch_bytes(words));
  check(et_sampler_init(&sampler, &sampling, words, weights, &err));

  const et_llm_decoder decoder = et_llm_session_decoder(session);
  const et_llm_lookup lookup = {.least = 2, .most = 8};
  const et_llm_drafter drafter = et_llm_lookup_drafter(&lookup);
  const et_llm_parts parts = {&decoder, tokenizer, &sampler, NULL};
  const et_llm_options options = {
      .max_new_tokens = n_arguments > 1 ? (size_t)atoll(arguments[1]) : SIZE_MAX,
      .eos = session->facts.eos,
      .n_eos = session->facts.n_eos,
      .drafter = &drafter,
      .max_draft = 8,
      .clock_ns = et_clock_ns};
  size_t n;
  const et_span prompt = encode(tokenizer, arguments[0], &n);
  const et_span memory = allocate(et_llm_generation_bytes(&parts, &options));
  check(et_llm_generation_begin(&generation, &parts, &options, prompt.data, n, memory, &err));
  signal(SIGINT, stop);
  check(et_llm_generate(&generation, write_piece, stdout, &err));
  putchar('\n');

  const et_llm_stats *const stats = &generation.stats;
  fprintf(stderr, "prompt: %zu tokens in %.1f ms; text: %zu tokens in %.1f ms\n", stats->n_prompt,
          (double)(stats->prompt_end_ns - stats->begin_ns) * 1e-6, stats->n_generated,
          (double)(stats->end_ns - stats->prompt_end_ns) * 1e-6);
  free(memory.data);
  free(prompt.data);
  free(weights.data);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return fprintf(stderr, "usage: et_llm_run MODEL PROMPT [TOKENS] [TEMPERATURE]\n"), 2;
  et_file_map file;
  static et_program program;
  check(et_file_map_open(&file, argv[1], &err));
  const et_source source = et_source_from_memory(file.data, file.size);
  check(et_program_open(&program, &source, ET_VERIFY_FULL, &err));
  et_blob image;
  et_tokenizer tokenizer;
  check(et_program_named_data_load(&program, "tokenizer", &image, &err));
  check(et_tokenizer_open(&tokenizer, image.data, image.size, &err));

  const size_t n_threads = et_cpu_count();
  const et_span workers = allocate(et_thread_pool_bytes(n_threads));
  et_thread_pool *threads;
  check(et_thread_pool_init(&threads, workers, n_threads, &err));
  const et_pool pool = et_thread_pool_handle(threads);
  static et_llm_session session;
  const et_span memory = begin(&session, &program, &pool);
  write_text(&session, &tokenizer, argv + 2, argc - 2);

  et_llm_session_end(&session);
  et_thread_pool_deinit(threads);
  et_program_named_data_release(&image);
  et_program_close(&program);
  et_file_map_close(&file);
  free(memory.data);
  free(workers.data);
  return 0;
}
