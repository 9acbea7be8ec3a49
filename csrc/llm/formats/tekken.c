// tekken.c — tekken.json, the format of Mistral's tokenizers: tokens of bytes with ranks, behind
// special tokens.
#include "llm/formats/formats.h"
#include "llm/formats/hf_json.h"
#include "llm/formats/ranks.h"

#define NAME "tekken.json"

// The first special tokens of files that do not list them; the further ones are <SPECIAL_20> …
static const char *const SPECIAL[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
enum { N_SPECIAL = sizeof SPECIAL / sizeof SPECIAL[0], SPECIAL_BYTES = 32 };

typedef struct tekken_parts {
  eti_string pattern, vocab, special;
  int64_t n_ids, n_special;
} tekken_parts;

static et_status read_config(eti_json *json, tekken_parts *p) {
  et_status status;
  ET_TRY(eti_json_begin(json, '{'));
  while (eti_json_next(json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(json, &key));
    if (eti_json_is(key, "pattern"))
      ET_TRY(eti_json_string(json, &p->pattern));
    else if (eti_json_is(key, "default_vocab_size"))
      ET_TRY(eti_json_integer(json, &p->n_ids));
    else if (eti_json_is(key, "default_num_special_tokens"))
      ET_TRY(eti_json_integer(json, &p->n_special));
    else
      ET_TRY(eti_json_skip(json, NULL));
  }
  return status;
}

static et_status scan(const et_tokenizer_source *s, tekken_parts *p, et_error *err) {
  eti_json json = eti_json_over((eti_string){s->file, s->bytes}, NAME, err);
  et_status status;
  *p = (tekken_parts){.n_ids = 0};
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(&json, &key));
    if (eti_json_is(key, "config"))
      ET_TRY(read_config(&json, p));
    else if (eti_json_is(key, "vocab"))
      ET_TRY(eti_json_skip(&json, &p->vocab));
    else if (eti_json_is(key, "special_tokens") && !eti_json_null(&json))
      ET_TRY(eti_json_skip(&json, &p->special));
    else
      ET_TRY(eti_json_skip(&json, NULL));
  }
  ET_TRY(status);
  const int64_t limit = (int64_t)(s->bytes / 8);
  ET_CHECK(p->pattern.n > 0 && p->vocab.n > 0 && p->n_special >= 0 && p->n_special <= 65536 &&
               p->n_ids > p->n_special && p->n_ids - p->n_special <= limit,
           err, ET_INVALID_EXTERNAL_DATA,
           NAME
           ": expected a pattern, a vocabulary and sizes that agree with it, got %lld ids and "
           "%lld special tokens",
           (long long)p->n_ids, (long long)p->n_special);
  return ET_OK;
}

et_status eti_tekken_measure(const et_tokenizer_source *s, et_tokenizer_needs *needs,
                             et_error *err) {
  tekken_parts p;
  ET_TRY(scan(s, &p, err));
  const size_t n_special = (size_t)p.n_special, n = (size_t)(p.n_ids - p.n_special);
  const size_t names = n_special * SPECIAL_BYTES + p.special.n;
  eti_ranks_sizes(n, p.vocab.n, n_special, names, &needs->image_bytes, &needs->work_bytes);
  needs->work_bytes += names + p.pattern.n + n_special * 8;
  return ET_OK;
}

static et_status read_vocab(const tekken_parts *p, eti_ranked *tokens, size_t n, et_error *err) {
  eti_json json = eti_json_over(p->vocab, NAME ", vocab", err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    int64_t rank = -1;
    eti_string bytes = {NULL, 0}, key;
    ET_TRY(eti_json_begin(&json, '{'));
    while (eti_json_next(&json, '}', &status)) {
      ET_TRY(eti_json_key(&json, &key));
      if (eti_json_is(key, "rank"))
        ET_TRY(eti_json_integer(&json, &rank));
      else if (eti_json_is(key, "token_bytes"))
        ET_TRY(eti_json_string(&json, &bytes));
      else
        ET_TRY(eti_json_skip(&json, NULL));
    }
    ET_TRY(status);
    if (rank >= 0 && rank < (int64_t)n) tokens[rank] = (eti_ranked){bytes.bytes, bytes.n};
  }
  return status;
}

// The names that a file does not list, as "<SPECIAL_20>".
static et_status default_special(eti_builder *b, eti_string *special, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (special[i].n > 0) continue;
    uint8_t *name, digits[8];
    ET_TRY(eti_builder_temporary(b, SPECIAL_BYTES, 1, &name));
    special[i].bytes = name;
    if (i < N_SPECIAL) {
      special[i].n = strlen(SPECIAL[i]);
      memcpy(name, SPECIAL[i], special[i].n);
      continue;
    }
    size_t n_digits = 0, at = sizeof "<SPECIAL_" - 1;
    memcpy(name, "<SPECIAL_", at);
    for (size_t rest = i; rest > 0; rest /= 10) digits[n_digits++] = (uint8_t)('0' + rest % 10);
    while (n_digits > 0) name[at++] = digits[--n_digits];
    name[at++] = '>';
    special[i].n = at;
  }
  return ET_OK;
}

static et_status read_special(const tekken_parts *p, eti_builder *b, eti_string *special,
                              size_t n) {
  if (p->special.n == 0) return ET_OK;
  eti_json json = eti_json_over(p->special, NAME ", special_tokens", b->err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    int64_t rank = -1;
    eti_string raw = {NULL, 0}, key;
    ET_TRY(eti_json_begin(&json, '{'));
    while (eti_json_next(&json, '}', &status)) {
      ET_TRY(eti_json_key(&json, &key));
      if (eti_json_is(key, "rank"))
        ET_TRY(eti_json_integer(&json, &rank));
      else if (eti_json_is(key, "token_str"))
        ET_TRY(eti_json_string(&json, &raw));
      else
        ET_TRY(eti_json_skip(&json, NULL));
    }
    ET_TRY(status);
    if (rank >= 0 && rank < (int64_t)n) ET_TRY(eti_hf_text(b, raw, &special[rank]));
  }
  return status;
}

et_status eti_tekken_read(const et_tokenizer_source *s, const et_tokenizer_needs *needs,
                          et_span image, et_span work, size_t *bytes, et_error *err) {
  (void)needs;
  tekken_parts p;
  eti_builder b;
  ET_TRY(scan(s, &p, err));
  ET_TRY(eti_builder_begin(&b, image, work, err));
  eti_rank_file file = {.n_tokens = (size_t)(p.n_ids - p.n_special),
                        .n_special = (size_t)p.n_special,
                        .special_first = true};
  eti_ranked *tokens;
  eti_string *special;
  ET_TRY(eti_builder_temporary(&b, file.n_tokens, sizeof *tokens, &tokens));
  ET_TRY(eti_builder_temporary(&b, file.n_special + 1, sizeof *special, &special));
  memset(tokens, 0, file.n_tokens * sizeof *tokens);
  memset(special, 0, (file.n_special + 1) * sizeof *special);
  ET_TRY(eti_hf_text(&b, p.pattern, &file.pattern));
  ET_TRY(read_vocab(&p, tokens, file.n_tokens, err));
  ET_TRY(read_special(&p, &b, special, file.n_special));
  ET_TRY(default_special(&b, special, file.n_special));
  file.tokens = tokens;
  file.special = special;
  return eti_ranks_read(&file, &b, bytes);
}

// The first key that only one of the two formats of JSON has decides.
bool eti_is_tekken(const void *file, size_t n) {
  static const char *const TEKKEN[] = {"config", "vocab", "special_tokens"};
  static const char *const HF[] = {"added_tokens", "normalizer", "pre_tokenizer", "model"};
  eti_json json = eti_json_over((eti_string){file, n}, NAME, NULL);
  et_status status = eti_json_begin(&json, '{');
  while (status == ET_OK && eti_json_next(&json, '}', &status)) {
    eti_string key;
    if (eti_json_key(&json, &key) != ET_OK) return false;
    for (size_t i = 0; i < sizeof HF / sizeof HF[0]; i++)
      if (eti_json_is(key, HF[i])) return false;
    for (size_t i = 0; i < sizeof TEKKEN / sizeof TEKKEN[0]; i++)
      if (eti_json_is(key, TEKKEN[i])) return true;
    status = eti_json_skip(&json, NULL);
  }
  return false;
}
