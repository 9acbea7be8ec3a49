// hf_json.c — the tokens, pairs and added tokens of a tokenizer.json.
#include "llm/formats/hf_json.h"

#include "llm/formats/byte_letters.h"
#include "llm/formats/formats.h"

#include <assert.h>

#define NAME "tokenizer.json"

// The counts must still hold where memory depends on them.
static et_status check_count(bool holds, et_error *err) {
  ET_CHECK(holds, err, ET_INVALID_ARGUMENT,
           NAME ": expected the file that was measured, got another one");
  return ET_OK;
}

// ---- tokens

typedef struct token_source {
  eti_string raw;
  double score;
  eti_string normalized;  // of an added token that is searched in the normalized text
  bool listed, added, special;
} token_source;

static et_status collect_tokens(const eti_hf_parts *p, eti_builder *b, token_source *tokens,
                                eti_hf_added *added) {
  et_status status;
  eti_json json = eti_json_over(eti_hf_list_text(p, &p->vocab), NAME ", vocab", b->err);
  const bool listed = eti_json_peek(&json) == '[';
  ET_TRY(eti_json_begin(&json, listed ? '[' : '{'));
  for (size_t i = 0; eti_json_next(&json, listed ? ']' : '}', &status); i++) {
    token_source token = {.listed = true};
    int64_t id = 0;
    ET_TRY(eti_hf_vocab_entry(&json, listed, i, &token.raw, &id, &token.score));
    ET_TRY(check_count(id >= 0 && id < p->n_ids, b->err));
    ET_CHECK(!tokens[id].listed, b->err, ET_INVALID_EXTERNAL_DATA,
             NAME ": expected one token of id %lld, got two", (long long)id);
    tokens[id] = token;
  }
  ET_TRY(status);
  if (p->added.n == 0) return ET_OK;
  json = eti_json_over(eti_hf_list_text(p, &p->added), NAME ", added_tokens", b->err);
  ET_TRY(eti_json_begin(&json, '['));
  for (size_t i = 0; eti_json_next(&json, ']', &status); i++) {
    ET_TRY(eti_hf_added_entry(&json, &added[i]));
    ET_TRY(check_count(i < p->added.n && added[i].id >= 0 && added[i].id < p->n_ids, b->err));
    token_source *const token = &tokens[added[i].id];
    token->added = true;
    token->special = added[i].special;
    token->raw = added[i].content;
    if (!added[i].normalized) continue;
    ET_TRY(eti_hf_text(b, token->raw, &token->normalized));
    ET_TRY(eti_builder_normalize(b, token->normalized, &token->normalized));
  }
  return status;
}

static et_status write_tokens(const eti_hf_parts *p, eti_builder *b, const token_source *tokens) {
  const bool byte_level = (b->header->flags & ETI_BYTE_LEVEL) != 0;
  size_t text_bytes = p->text_bytes;
  for (uint32_t id = 0; id < p->n_ids; id++) text_bytes += tokens[id].normalized.n;
  ET_TRY(eti_builder_tokens(b, p->n_ids, text_bytes));
  for (uint32_t id = 0; id < p->n_ids; id++) {
    const token_source *const token = &tokens[id];
    uint8_t *const text = eti_builder_token_text(b);
    size_t n = 0;
    ET_TRY(check_count(token->raw.n <= b->size - b->used, b->err));
    if (token->normalized.bytes == NULL) {
      ET_TRY(eti_json_unescape(token->raw, text, &n, b->err));
    } else {
      n = token->normalized.n;
      memcpy(text, token->normalized.bytes, n);
    }
    eti_token_kind kind = ETI_TOKEN_NORMAL;
    if (token->special)
      kind = ETI_TOKEN_SPECIAL;
    else if (!token->listed)
      kind = token->added ? ETI_TOKEN_ADDED : ETI_TOKEN_UNUSED;
    else if (p->byte_fallback && eti_byte_of_name((eti_string){text, n}) >= 0)
      kind = ETI_TOKEN_BYTE;
    if (byte_level) n = eti_letters_to_bytes(text, n);
    eti_builder_end_token(b, id, n, kind);
  }
  return eti_builder_index(b);
}

// The tokens of single bytes: themselves at the level of bytes, else those named <0xHH>.
static et_status write_byte_ids(const eti_hf_parts *p, eti_builder *b) {
  if ((b->header->flags & ETI_BYTE_LEVEL) != 0) return eti_builder_byte_ids(b);
  if (!p->byte_fallback) return ET_OK;
  uint32_t *ids;
  ET_TRY(eti_builder_section(b, ETI_SECTION_BYTE_IDS, 256, &ids));
  const eti_vocab vocab = eti_builder_vocab(b);
  for (size_t i = 0; i < 256; i++) {
    static const char DIGITS[] = "0123456789ABCDEF";
    const uint8_t name[] = {'<', '0', 'x', (uint8_t)DIGITS[i >> 4], (uint8_t)DIGITS[i & 15], '>'};
    ids[i] = eti_vocab_find(&vocab, (eti_string){name, sizeof name});
  }
  return ET_OK;
}

// The id of a token by its raw string, special ones included; ETI_NO_TOKEN if there is none.
static et_status id_of_raw(eti_builder *b, eti_string raw, uint32_t *id) {
  *id = ETI_NO_TOKEN;
  if (raw.bytes == NULL) return ET_OK;
  const et_arena before = b->work;
  eti_string text;
  ET_TRY(eti_hf_text(b, raw, &text));
  const eti_vocab vocab = eti_builder_vocab(b);
  for (uint32_t i = 0; i < vocab.n && *id == ETI_NO_TOKEN; i++) {
    const eti_string token = eti_vocab_text(&vocab, i);
    if (eti_string_equal(token, text)) *id = i;
  }
  b->work = before;
  return ET_OK;
}

// The scores of a Unigram model, and that of an unknown letter: 10 below the least.
static et_status write_scores(eti_builder *b, const token_source *tokens) {
  const uint32_t n = b->header->n_tokens;
  double *scores, least = 0;
  ET_TRY(eti_builder_section(b, ETI_SECTION_SCORES, n + 1u, &scores));
  for (uint32_t id = 0; id < n; id++) {
    scores[id] = tokens[id].score;
    if (tokens[id].listed && scores[id] < least) least = scores[id];
  }
  scores[n] = least - 10;
  return ET_OK;
}

// The prefix of a word's parts or the suffix of its last letter.
static et_status write_affix(eti_builder *b, eti_string raw) {
  eti_string text;
  if (raw.n == 0) return ET_OK;
  ET_TRY(eti_hf_text(b, raw, &text));
  b->header->affix_bytes = (uint32_t)text.n;
  return eti_builder_text(b, text, &b->header->affix);
}

// ---- pairs

// Reads a merge, "left right" or ["left", "right"], to its two parts, one behind the other.
static et_status read_merge(eti_json *json, uint8_t *to, size_t *n_left, size_t *n_right) {
  eti_string raw[2] = {{NULL, 0}, {NULL, 0}};
  et_status status;
  if (eti_json_peek(json) == '"') {
    ET_TRY(eti_json_string(json, &raw[0]));
    const uint8_t *const space = memchr(raw[0].bytes, ' ', raw[0].n);
    ET_CHECK(space != NULL, json->err, ET_INVALID_EXTERNAL_DATA,
             NAME ": expected a space in a merge, got none");
    const size_t n = (size_t)(space - raw[0].bytes);
    raw[1] = (eti_string){space + 1, raw[0].n - n - 1};
    raw[0].n = n;
  } else {
    ET_TRY(eti_json_begin(json, '['));
    size_t n = 0;
    for (; eti_json_next(json, ']', &status); n++) {
      ET_CHECK(n < 2, json->err, ET_INVALID_EXTERNAL_DATA,
               NAME ": expected merges of two, got more");
      ET_TRY(eti_json_string(json, &raw[n]));
    }
    ET_TRY(status);
  }
  ET_TRY(eti_json_unescape(raw[0], to, n_left, json->err));
  return eti_json_unescape(raw[1], to + *n_left, n_right, json->err);
}

// The bytes of a merge, both parts together; with the hashes of left, right and both.
typedef struct merge {
  uint8_t *text;
  size_t n_left, n_right;
  uint64_t hashes[3];
} merge;

static eti_string merge_part(const merge *m, size_t i) {
  return i == 0   ? (eti_string){m->text, m->n_left}
         : i == 1 ? (eti_string){m->text + m->n_left, m->n_right}
                  : (eti_string){m->text, m->n_left + m->n_right};
}

static et_status begin_merge(eti_json *json, const eti_vocab *vocab, bool byte_level, merge *m) {
  ET_TRY(read_merge(json, m->text, &m->n_left, &m->n_right));
  if (byte_level) {
    uint8_t *const right = m->text + m->n_left;
    m->n_left = eti_letters_to_bytes(m->text, m->n_left);
    m->n_right = eti_letters_to_bytes(right, m->n_right);
    memmove(m->text + m->n_left, right, m->n_right);
  }
  for (size_t i = 0; i < 3; i++) m->hashes[i] = eti_vocab_fetch(vocab, merge_part(m, i));
  return ET_OK;
}

// Adds the pairs of n merges, of which the first one has the rank `first`.
static et_status add_pairs(eti_builder *b, const eti_vocab *vocab, const merge *merges, size_t n,
                           uint32_t first) {
  uint32_t ids[ETI_AHEAD][3];
  for (size_t i = 0; i < n; i++) {
    for (size_t part = 0; part < 3; part++) {
      const uint64_t hash = merges[i].hashes[part];
      ids[i][part] = eti_vocab_find_hash(vocab, merge_part(&merges[i], part), hash);
      ET_CHECK(ids[i][part] != ETI_NO_TOKEN, b->err, ET_INVALID_EXTERNAL_DATA,
               NAME
               ": expected the parts of merge %u and both together in the vocabulary, got a merge "
               "of others",
               first + (uint32_t)i);
    }
    eti_builder_fetch_pair(b, ids[i][0], ids[i][1]);
  }
  for (size_t i = 0; i < n; i++)
    eti_builder_add_pair(b, ids[i][0], ids[i][1], first + (uint32_t)i, ids[i][2]);
  return ET_OK;
}

static et_status write_pairs(const eti_hf_parts *p, eti_builder *b) {
  const bool byte_level = (b->header->flags & ETI_BYTE_LEVEL) != 0;
  ET_TRY(eti_builder_pairs(b, p->merges.n));
  const et_arena before = b->work;
  uint8_t *text;
  ET_TRY(eti_builder_temporary(b, p->merges.end - p->merges.begin, 1, &text));
  const eti_vocab vocab = eti_builder_vocab(b);
  eti_json json = eti_json_over(eti_hf_list_text(p, &p->merges), NAME ", merges", b->err);
  et_status status;
  merge merges[ETI_AHEAD];
  uint32_t rank = 0;
  size_t n = 0, used = 0;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    ET_TRY(check_count(rank + n < p->merges.n, b->err));
    merges[n].text = text + used;
    ET_TRY(begin_merge(&json, &vocab, byte_level, &merges[n]));
    used += merges[n].n_left + merges[n].n_right;
    if (++n < ETI_AHEAD) continue;
    ET_TRY(add_pairs(b, &vocab, merges, n, rank));
    rank += ETI_AHEAD;
    n = used = 0;
  }
  ET_TRY(status);
  b->work = before;
  return add_pairs(b, &vocab, merges, n, rank);
}

// ---- added tokens

static et_status write_added(const eti_hf_parts *p, eti_builder *b, const eti_hf_added *entries,
                             const token_source *tokens) {
  if (p->added.n == 0) return ET_OK;
  eti_added_token *added;
  ET_TRY(eti_builder_temporary(b, p->added.n, sizeof *added, &added));
  size_t n = 0;
  for (size_t i = 0; i < p->added.n; i++) {
    const eti_hf_added *const entry = &entries[i];
    eti_string text = tokens[entry->id].normalized;
    if (!entry->normalized) ET_TRY(eti_hf_text(b, entry->content, &text));
    if (text.n == 0) continue;
    added[n] = (eti_added_token){.id = (uint32_t)entry->id,
                                 .flags = (entry->special ? ETI_ADDED_SPECIAL : 0u) |
                                          (entry->normalized ? ETI_ADDED_NORMALIZED : 0u) |
                                          (entry->single_word ? ETI_ADDED_SINGLE_WORD : 0u) |
                                          (entry->lstrip ? ETI_ADDED_LSTRIP : 0u) |
                                          (entry->rstrip ? ETI_ADDED_RSTRIP : 0u),
                                 .text_bytes = (uint32_t)text.n};
    ET_TRY(eti_builder_text(b, text, &added[n++].text));
  }
  return eti_builder_added(b, added, n);
}

// ---- the whole file

static et_status model_of(const eti_hf_parts *p, eti_builder *b) {
  static const char *const NAMES[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
  // Old files have no type: merges are BPE's.
  size_t model = ETI_MODEL_COUNT;
  char shown[ETI_SHOWN_BYTES];
  if (p->type.n == 0 && p->merges.n > 0) model = ETI_BPE;
  for (size_t i = 0; i < ETI_MODEL_COUNT; i++)
    if (eti_json_is(p->type, NAMES[i])) model = i;
  ET_CHECK(model < ETI_MODEL_COUNT, b->err, ET_NOT_SUPPORTED,
           NAME ": expected a model of type BPE, Unigram, WordPiece or WordLevel, got '%s'",
           eti_text_shown(p->type, shown));
  ET_CHECK(p->prefix.n == 0 || model != ETI_BPE, b->err, ET_NOT_SUPPORTED,
           NAME ": expected BPE without continuing_subword_prefix, got one of %zu bytes",
           p->prefix.n);
  b->header->model = (uint32_t)model;
  b->header->max_letters = (uint32_t)(p->max_letters < 0 ? 0 : p->max_letters & INT32_MAX);
  if (model == ETI_UNIGRAM) b->header->flags |= ETI_FUSE_UNKNOWN;
  if (p->fuse_unk) b->header->flags |= ETI_FUSE_UNKNOWN;
  if (p->ignore_merges) b->header->flags |= ETI_WHOLE_WORDS;
  return ET_OK;
}

// Letters that are left out make those beside them neighbours, wherever tokens end; and Unigram
// scores bytes, of which letters say nothing.
static et_status write_letters(eti_builder *b) {
  const bool unigram = b->header->model == ETI_UNIGRAM;
  const bool byte_level = (b->header->flags & ETI_BYTE_LEVEL) != 0;
  const bool has_bytes = eti_image_count(b->header, ETI_SECTION_BYTE_IDS) > 0;
  if (b->header->model == ETI_BPE && byte_level) ET_TRY(eti_builder_letters(b));
  if (unigram && byte_level) return ET_OK;
  if (!unigram && b->header->unknown == ETI_NO_TOKEN && !has_bytes) return ET_OK;
  return eti_builder_spans(b);
}

static et_status read_parts(const eti_hf_parts *p, et_span image, et_span work, size_t *bytes,
                            et_error *err) {
  eti_builder b;
  ET_TRY(eti_builder_begin(&b, image, work, err));
  ET_TRY(model_of(p, &b));
  ET_TRY(eti_hf_steps(p, &b));
  token_source *tokens;
  eti_hf_added *added;
  ET_TRY(eti_builder_temporary(&b, p->n_ids, sizeof *tokens, &tokens));
  ET_TRY(eti_builder_temporary(&b, p->added.n + 1, sizeof *added, &added));
  memset(tokens, 0, p->n_ids * sizeof *tokens);
  ET_TRY(collect_tokens(p, &b, tokens, added));
  ET_TRY(write_tokens(p, &b, tokens));
  ET_TRY(write_byte_ids(p, &b));
  ET_TRY(id_of_raw(&b, p->unk_token, &b.header->unknown));
  if (p->unk_id >= 0 && p->unk_id < p->n_ids) b.header->unknown = (uint32_t)p->unk_id;
  ET_TRY(write_affix(&b, b.header->model == ETI_BPE ? p->suffix : p->prefix));
  if (b.header->model == ETI_UNIGRAM) ET_TRY(write_scores(&b, tokens));
  if (b.header->model == ETI_BPE) ET_TRY(write_pairs(p, &b));
  ET_TRY(write_letters(&b));
  ET_TRY(write_added(p, &b, added, tokens));
  ET_TRY(eti_hf_template(p, &b));
  return eti_builder_end(&b, bytes);
}

// The lists that measuring found are kept in the needs of the caller.
static_assert(sizeof(eti_hf_known) <= sizeof((et_tokenizer_needs *)0)->found, "private fields");

et_status eti_hf_measure(const et_tokenizer_source *source, et_tokenizer_needs *needs,
                         et_error *err) {
  eti_hf_parts parts;
  const eti_hf_known none = {0};
  ET_TRY(eti_hf_scan((eti_string){source->file, source->bytes}, &none, &parts, err));
  eti_hf_sizes(&parts, &needs->image_bytes, &needs->work_bytes);
  const eti_hf_known known = {parts.vocab, parts.merges};
  memcpy(needs->found, &known, sizeof known);
  return ET_OK;
}

et_status eti_hf_json_read(const et_tokenizer_source *source, const et_tokenizer_needs *needs,
                           et_span image, et_span work, size_t *bytes, et_error *err) {
  eti_hf_parts parts;
  eti_hf_known known;
  memcpy(&known, needs->found, sizeof known);
  ET_TRY(eti_hf_scan((eti_string){source->file, source->bytes}, &known, &parts, err));
  return read_parts(&parts, image, work, bytes, err);
}
