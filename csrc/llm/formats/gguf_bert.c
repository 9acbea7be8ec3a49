// gguf_bert.c — the model "bert" of GGUF files: WordPiece. Tokens that begin a word have U+2581
// before them there; here those that go on with one have "##", as in BERT's own vocabulary.
#include "llm/formats/gguf.h"

#define NAME "GGUF"

static const uint8_t SIGN[] = {0xE2, 0x96, 0x81};

static et_status add_split(eti_builder *b, const char *pattern, uint32_t flags) {
  const eti_new_step step = {
      .id = ETI_STEP_SPLIT, .flags = flags, .pattern = eti_string_of(pattern)};
  return eti_builder_step(b, ETI_SECTION_SPLITTERS, &step);
}

static et_status write_steps(const eti_gguf_vocab *v, eti_builder *b) {
  bool lowercase = true;
  ET_TRY(eti_gguf_bool(&v->file, ETI_GGUF_LOWERCASE, &lowercase, b->err));
  bool strip_accents = lowercase;
  ET_TRY(eti_gguf_bool(&v->file, ETI_GGUF_STRIP_ACCENTS, &strip_accents, b->err));
  const eti_new_step normalizer = {.id = ETI_STEP_BERT,
                                   .flags = 3u | (strip_accents ? 4u : 0u) | (lowercase ? 8u : 0u)};
  const eti_new_step decoder = {.id = ETI_STEP_WORDPIECES, .flags = 1, .text = eti_string_of("##")};
  ET_TRY(eti_builder_step(b, ETI_SECTION_NORMALIZERS, &normalizer));
  ET_TRY(add_split(b, "\\s", ETI_SPLIT_REMOVED));
  ET_TRY(add_split(b, "[\\p{P}!-/:-@\\[-`{-~]", ETI_SPLIT_ISOLATED));
  ET_TRY(eti_builder_step(b, ETI_SECTION_DECODERS, &decoder));
  return eti_builder_lists(b);
}

static et_status write_tokens(const eti_gguf_vocab *v, const eti_piece *pieces, eti_builder *b) {
  ET_TRY(eti_builder_tokens(b, v->tokens.n, v->counts.text_bytes));
  for (size_t i = 0; i < v->tokens.n; i++) {
    uint8_t *const to = eti_builder_token_text(b);
    eti_string text = pieces[i].text;
    const bool begins = text.n >= sizeof SIGN && memcmp(text.bytes, SIGN, sizeof SIGN) == 0;
    const bool special = pieces[i].kind == ETI_PIECE_CONTROL || pieces[i].kind == ETI_PIECE_UNKNOWN;
    const size_t n_prefix = begins || pieces[i].kind != ETI_PIECE_NORMAL ? 0 : 2;
    if (begins) text = (eti_string){text.bytes + sizeof SIGN, text.n - sizeof SIGN};
    memcpy(to, "##", n_prefix);
    if (text.n > 0) memcpy(to + n_prefix, text.bytes, text.n);
    const bool unused = pieces[i].kind == ETI_PIECE_UNUSED;
    eti_builder_end_token(b, (uint32_t)i, n_prefix + text.n,
                          special  ? ETI_TOKEN_SPECIAL
                          : unused ? ETI_TOKEN_UNUSED
                                   : ETI_TOKEN_NORMAL);
  }
  return eti_builder_index(b);
}

et_status eti_gguf_bert(const eti_gguf_vocab *v, eti_builder *b) {
  eti_piece *pieces;
  b->header->model = ETI_WORDPIECE;
  b->header->max_letters = INT32_MAX;
  b->header->unknown = v->unknown;
  b->header->affix_bytes = 2;
  ET_TRY(eti_builder_text(b, eti_string_of("##"), &b->header->affix));
  ET_TRY(write_steps(v, b));
  ET_TRY(eti_gguf_pieces(v, b, &pieces));
  ET_TRY(write_tokens(v, pieces, b));
  return eti_gguf_added(v, pieces, b);
}
