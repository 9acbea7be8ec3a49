#include "llm/tokenizer/encode.h"

#include "llm/et_tokenizer.h"
#include "llm/text/unicode.h"

// ---- added tokens

typedef struct added_search {
  const eti_image_header *header;
  const eti_added_token *tokens;
  const eti_token_slot *slots;
  const uint32_t *sizes;
  const uint32_t *pairs;  // bits, by the two bytes that a token begins with
  uint32_t n_sizes, slot_mask;
} added_search;

static added_search begin_search(const eti_image_header *h) {
  return (added_search){.header = h,
                        .tokens = eti_image_section(h, ETI_SECTION_ADDED),
                        .slots = eti_image_section(h, ETI_SECTION_ADDED_SLOTS),
                        .sizes = eti_image_section(h, ETI_SECTION_ADDED_SIZES),
                        .pairs = eti_image_section(h, ETI_SECTION_ADDED_PAIRS),
                        .n_sizes = eti_image_count(h, ETI_SECTION_ADDED_SIZES),
                        .slot_mask = eti_image_count(h, ETI_SECTION_ADDED_SLOTS) - 1};
}

// The added token with exactly this text; NULL if there is none.
static const eti_added_token *find_added(const added_search *s, eti_string text) {
  const uint64_t hash = eti_token_hash(text);
  for (uint32_t at = (uint32_t)hash;; at++) {
    const eti_token_slot slot = s->slots[at & s->slot_mask];
    if (slot.id == ETI_NO_TOKEN) return NULL;
    const eti_added_token *const token = &s->tokens[slot.id];
    if (eti_slot_has(slot, hash) && token->text_bytes == text.n &&
        memcmp((const uint8_t *)s->header + token->text, text.bytes, text.n) == 0)
      return token;
  }
}

static bool is_word_letter(uint32_t code_point) {
  const eti_unicode_category category = eti_unicode_category_of(code_point);
  return category <= ETI_UNICODE_Nd || category == ETI_UNICODE_Nl || category == ETI_UNICODE_Pc;
}

static size_t letter_before(eti_string text, size_t at) {
  do at--;
  while (at > 0 && (text.bytes[at] & 0xC0) == 0x80);
  return at;
}

static bool stands_alone(eti_string text, size_t begin, size_t end) {
  const bool before =
      begin > 0 && is_word_letter(eti_utf8_at(text.bytes + letter_before(text, begin)));
  return !before && (end == text.n || !is_word_letter(eti_utf8_at(text.bytes + end)));
}

typedef struct added_match {
  const eti_added_token *token;
  size_t begin, end;
} added_match;

// The first added token at or behind `from` whose flags have the bits `flags` of `mask`, the
// longest one of its place; its token is NULL if there is none.
static added_match next_added(const added_search *s, eti_string text, size_t from, uint32_t mask,
                              uint32_t flags) {
  for (size_t at = from; at < text.n && s->n_sizes > 0; at++) {
    const uint32_t second = at + 1 < text.n ? text.bytes[at + 1] : 0;
    if ((s->pairs[text.bytes[at] * 8 + second / 32] >> (second % 32) & 1) == 0) continue;
    for (uint32_t i = 0; i < s->n_sizes; i++) {
      const uint32_t n = s->sizes[i];
      if (n > text.n - at) continue;
      const eti_added_token *const token = find_added(s, (eti_string){text.bytes + at, n});
      if (token == NULL || (token->flags & mask) != flags) continue;
      if ((token->flags & ETI_ADDED_SINGLE_WORD) != 0 && !stands_alone(text, at, at + n)) break;
      return (added_match){token, at, at + n};
    }
  }
  return (added_match){NULL, text.n, text.n};
}

// Widens a match over the spaces that its token takes away, not below `from`.
static added_match with_spaces(added_match m, eti_string text, size_t from) {
  while ((m.token->flags & ETI_ADDED_LSTRIP) != 0 && m.begin > from) {
    const size_t before = letter_before(text, m.begin);
    if (!eti_unicode_is_space(eti_utf8_at(text.bytes + before))) break;
    m.begin = before;
  }
  while ((m.token->flags & ETI_ADDED_RSTRIP) != 0 && m.end < text.n &&
         eti_unicode_is_space(eti_utf8_at(text.bytes + m.end)))
    m.end += eti_utf8_bytes(text.bytes[m.end]);
  return m;
}

typedef et_status part_encoder(eti_encoder *e, const added_search *s, eti_string part, bool first,
                               bool special);

// Encodes added tokens of a kind, and the parts of the text between them by `rest`.
static et_status encode_around(eti_encoder *e, const added_search *s, eti_string text, bool first,
                               bool special, uint32_t normalized, part_encoder *rest) {
  const uint32_t mask = ETI_ADDED_NORMALIZED | (special ? 0u : (uint32_t)ETI_ADDED_SPECIAL);
  for (size_t at = 0; at < text.n;) {
    added_match m = next_added(s, text, at, mask, normalized);
    if (m.token != NULL) m = with_spaces(m, text, at);
    if (m.begin > at)
      ET_TRY(rest(e, s, (eti_string){text.bytes + at, m.begin - at}, first && at == 0, special));
    if (m.token != NULL) ET_TRY(eti_encoder_emit(e, m.token->id));
    at = m.end;
  }
  return ET_OK;
}

static et_status encode_part(eti_encoder *e, const added_search *s, eti_string part, bool first,
                             bool special) {
  (void)s, (void)special;
  return eti_encode_piece(e, part, first);
}

static et_status encode_raw(eti_encoder *e, const added_search *s, eti_string part, bool first,
                            bool special) {
  const et_arena before = e->scratch;
  eti_string text;
  ET_TRY(eti_encode_normalize(e, part, &text));
  ET_TRY(encode_around(e, s, text, first, special, ETI_ADDED_NORMALIZED, encode_part));
  e->scratch = before;
  return ET_OK;
}

static et_status emit_all(eti_encoder *e, eti_section section) {
  const uint32_t *const ids = eti_image_section(e->image.header, section);
  for (uint32_t i = 0; i < eti_image_count(e->image.header, section); i++)
    ET_TRY(eti_encoder_emit(e, ids[i]));
  return ET_OK;
}

// A cache of words, in proportion to the text: clearing it must cost less than it saves.
static et_status begin_cache(eti_encoder *e, size_t n) {
  size_t slots = ETI_CACHE_SLOTS;
  while (slots > n / 16) slots /= 2;
  if (slots < 16) return ET_OK;
  ET_TRY(eti_encoder_scratch(e, slots * sizeof *e->cache, &e->cache));
  memset(e->cache, 0, slots * sizeof *e->cache);
  e->cache_mask = slots - 1;
  return ET_OK;
}

et_status et_tokenizer_encode(const et_tokenizer *t, const char *text, size_t n,
                              const et_encode_options *options, uint32_t *ids, size_t capacity,
                              size_t *n_ids, et_span scratch, et_error *err) {
  const eti_string in = {(const uint8_t *)text, n};
  const size_t valid = eti_utf8_valid_bytes(in);
  ET_CHECK(valid == n, err, ET_INVALID_ARGUMENT, "text: expected UTF-8, got byte %d at byte %zu",
           in.bytes[valid], valid);
  const eti_image_header *const h = t->image;
  eti_encoder e = {.image = eti_image_parts(h),
                   .ids = ids,
                   .capacity = capacity,
                   .scratch = eti_arena_over(scratch),
                   .err = err};
  const eti_step_record *const splitters = eti_image_section(h, ETI_SECTION_SPLITTERS);
  for (uint32_t i = 0; i < eti_image_count(h, ETI_SECTION_SPLITTERS); i++)
    e.searches[i] = eti_search_of(h, &splitters[i]);
  e.splits = eti_splits_words(&e.image);
  ET_TRY(begin_cache(&e, n));
  const added_search search = begin_search(h);
  if (options->around) ET_TRY(emit_all(&e, ETI_SECTION_PREFIX));
  ET_TRY(encode_around(&e, &search, in, true, options->special, 0, encode_raw));
  if (options->around) ET_TRY(emit_all(&e, ETI_SECTION_SUFFIX));
  *n_ids = e.n_ids;
  return ET_OK;
}
