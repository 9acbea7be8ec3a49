// tiktoken.c — files of tiktoken: a line for each token, "base64 rank". The pattern and the special
// tokens are not in the file.
#include "llm/formats/formats.h"
#include "llm/formats/ranks.h"

// The pattern of Llama 3, which GPT-4's cl100k_base has, too.
static const char DEFAULT_PATTERN[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

typedef struct line_reader {
  eti_string file;
  size_t at, i_line;
  et_error *err;
} line_reader;

// The next token and its rank; false at the end, and after an error, which is then in *status.
static bool next_line(line_reader *r, eti_ranked *token, size_t *rank, et_status *status) {
  *status = ET_OK;
  while (r->at < r->file.n && (r->file.bytes[r->at] == '\n' || r->file.bytes[r->at] == '\r'))
    r->at++;
  if (r->at == r->file.n) return false;
  r->i_line++;
  const uint8_t *const begin = r->file.bytes + r->at, *p = begin;
  const uint8_t *const end = r->file.bytes + r->file.n;
  while (p < end && *p != ' ' && *p != '\n') p++;
  *token = (eti_ranked){begin, (size_t)(p - begin)};
  size_t n_digits = 0;
  *rank = 0;
  if (p < end && *p == ' ') p++;
  for (; p < end && *p >= '0' && *p <= '9' && n_digits < 9; p++, n_digits++)
    *rank = *rank * 10 + (size_t)(*p - '0');
  const bool ends = p == end || *p == '\n' || *p == '\r';
  r->at = (size_t)(p - r->file.bytes);
  if (token->n > 0 && n_digits > 0 && ends) return true;
  *status =
      ET_FAIL(r->err, ET_INVALID_EXTERNAL_DATA,
              "tiktoken file: expected \"base64 rank\" in line %zu, got another text", r->i_line);
  return false;
}

static et_status count(const et_tokenizer_source *s, size_t *n_tokens, size_t *text_bytes,
                       et_error *err) {
  line_reader r = {.file = {s->file, s->bytes}, .err = err};
  eti_ranked token;
  size_t rank;
  et_status status;
  *n_tokens = *text_bytes = 0;
  while (next_line(&r, &token, &rank, &status)) {
    if (rank >= *n_tokens) *n_tokens = rank + 1;
    *text_bytes += token.n;
  }
  ET_TRY(status);
  ET_CHECK(r.i_line > 0 && *n_tokens <= 2 * r.i_line + 65536, err, ET_INVALID_EXTERNAL_DATA,
           "tiktoken file: expected ranks about as many as lines, got %zu ranks and %zu lines",
           *n_tokens, r.i_line);
  return ET_OK;
}

static size_t special_bytes(const et_tokenizer_source *s) {
  size_t sum = 0;
  for (size_t i = 0; i < s->n_special; i++) sum += strlen(s->special[i]);
  return sum;
}

et_status eti_tiktoken_measure(const et_tokenizer_source *s, et_tokenizer_needs *needs,
                               et_error *err) {
  size_t n_tokens, text_bytes;
  ET_TRY(count(s, &n_tokens, &text_bytes, err));
  eti_ranks_sizes(n_tokens, text_bytes, s->n_special, special_bytes(s), &needs->image_bytes,
                  &needs->work_bytes);
  return ET_OK;
}

et_status eti_tiktoken_read(const et_tokenizer_source *s, const et_tokenizer_needs *needs,
                            et_span image, et_span work, size_t *bytes, et_error *err) {
  (void)needs;
  eti_builder b;
  eti_rank_file file = {.n_special = s->n_special};
  const char *const pattern = s->pattern == NULL ? DEFAULT_PATTERN : s->pattern;
  file.pattern = (eti_string){(const uint8_t *)pattern, strlen(pattern)};
  size_t text_bytes, rank;
  ET_TRY(count(s, &file.n_tokens, &text_bytes, err));
  ET_TRY(eti_builder_begin(&b, image, work, err));
  eti_ranked *tokens, token;
  eti_string *special;
  ET_TRY(eti_builder_temporary(&b, file.n_tokens, sizeof *tokens, &tokens));
  ET_TRY(eti_builder_temporary(&b, s->n_special + 1, sizeof *special, &special));
  memset(tokens, 0, file.n_tokens * sizeof *tokens);
  line_reader r = {.file = {s->file, s->bytes}, .err = err};
  et_status status;
  while (next_line(&r, &token, &rank, &status)) {
    ET_CHECK(tokens[rank].n == 0, err, ET_INVALID_EXTERNAL_DATA,
             "tiktoken file: expected one token of rank %zu, got two", rank);
    tokens[rank] = token;
  }
  ET_TRY(status);
  for (size_t i = 0; i < s->n_special; i++)
    special[i] = (eti_string){(const uint8_t *)s->special[i], strlen(s->special[i])};
  file.tokens = tokens;
  file.special = special;
  return eti_ranks_read(&file, &b, bytes);
}
