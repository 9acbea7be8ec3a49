// normalizers.c — the normalizers of a tokenizer, in turn. A text that a normalizer leaves as it is
// is not copied.
#include "llm/text/charsmap.h"
#include "llm/text/letters.h"
#include "llm/text/normalize.h"
#include "llm/tokenizer/pieces.h"

static eti_string step_text(const eti_encoder *e, uint32_t offset, uint32_t bytes) {
  return (eti_string){(const uint8_t *)e->image.header + offset, bytes};
}

static et_status prepend(eti_encoder *e, eti_string text, eti_string in, eti_string *out) {
  if (in.n == 0) return ET_OK;
  uint8_t *to;
  ET_TRY(eti_encoder_scratch(e, text.n + in.n, &to));
  memcpy(to, text.bytes, text.n);
  memcpy(to + text.n, in.bytes, in.n);
  *out = (eti_string){to, text.n + in.n};
  return ET_OK;
}

// Replaces what a search finds; `to` is NULL while the bytes of the result are counted.
static size_t replace(const eti_search *search, eti_string other, eti_string in, uint8_t *to) {
  size_t n = 0, at = 0, begin, end;
  while (eti_search_next(search, in, at, &begin, &end)) {
    if (to != NULL) memcpy(to + n, in.bytes + at, begin - at);
    n += begin - at;
    if (to != NULL) memcpy(to + n, other.bytes, other.n);
    n += other.n;
    at = end;
  }
  if (to != NULL) memcpy(to + n, in.bytes + at, in.n - at);
  return n + in.n - at;
}

static et_status replace_all(eti_encoder *e, const eti_step_record *step, eti_string in,
                             eti_string *out) {
  const eti_search search = eti_search_of(e->image.header, step);
  const eti_string other = step_text(e, step->other, step->other_bytes);
  size_t begin, end;
  if (!eti_search_next(&search, in, 0, &begin, &end)) return ET_OK;
  const size_t n = replace(&search, other, in, NULL);
  uint8_t *to;
  ET_TRY(eti_encoder_scratch(e, n, &to));
  (void)replace(&search, other, in, to);
  *out = (eti_string){to, n};
  return ET_OK;
}

static et_status normal_form(eti_encoder *e, eti_normal_form form, eti_string in, eti_string *out) {
  if (eti_normalize_is_identity(form, in)) return ET_OK;
  et_span to = {NULL, eti_normalize_bytes(form, in.n)};
  et_span scratch = {NULL, eti_normalize_scratch_bytes(in.n)};
  ET_TRY(eti_encoder_scratch(e, to.size, &to.data));
  const et_arena before = e->scratch;
  ET_TRY(eti_encoder_scratch(e, scratch.size, &scratch.data));
  *out = (eti_string){to.data, 0};
  ET_TRY(eti_normalize(form, in, to, &out->n, scratch, e->err));
  e->scratch = before;
  return ET_OK;
}

static et_status bert(eti_encoder *e, uint32_t flags, eti_string in, eti_string *out) {
  const eti_bert_options options = {.clean_text = (flags & 1) != 0,
                                    .handle_chinese_chars = (flags & 2) != 0,
                                    .strip_accents = (flags & 4) != 0,
                                    .lowercase = (flags & 8) != 0};
  if (eti_bert_is_identity(options, in)) return ET_OK;
  et_span to = {NULL, eti_bert_bytes(in.n)}, scratch = {NULL, eti_bert_scratch_bytes(in.n)};
  ET_TRY(eti_encoder_scratch(e, to.size, &to.data));
  const et_arena before = e->scratch;
  ET_TRY(eti_encoder_scratch(e, scratch.size, &scratch.data));
  *out = (eti_string){to.data, 0};
  ET_TRY(eti_bert_normalize(options, in, to, &out->n, scratch, e->err));
  e->scratch = before;
  return ET_OK;
}

static et_status lowercase(eti_encoder *e, eti_string in, eti_string *out) {
  if (eti_lowercase_is_identity(in)) return ET_OK;
  et_span to = {NULL, eti_lowercase_bytes(in.n)};
  ET_TRY(eti_encoder_scratch(e, to.size, &to.data));
  *out = (eti_string){to.data, 0};
  return eti_lowercase(in, to, &out->n, e->err);
}

static et_status strip_accents(eti_encoder *e, eti_string in, eti_string *out) {
  if (eti_strip_accents_is_identity(in)) return ET_OK;
  et_span to = {NULL, in.n};
  ET_TRY(eti_encoder_scratch(e, to.size, &to.data));
  *out = (eti_string){to.data, 0};
  return eti_strip_accents(in, to, &out->n, e->err);
}

static et_status charsmap(eti_encoder *e, const eti_step_record *step, eti_string in,
                          eti_string *out) {
  eti_charsmap map;
  ET_TRY(eti_charsmap_open(step_text(e, step->text, step->text_bytes), &map, e->err));
  if (eti_charsmap_is_identity(&map, in)) return ET_OK;
  et_span to = {NULL, 0};
  ET_TRY(eti_charsmap_normalize(&map, in, to, &to.size, e->err));
  ET_TRY(eti_encoder_scratch(e, to.size, &to.data));
  *out = (eti_string){to.data, 0};
  return eti_charsmap_normalize(&map, in, to, &out->n, e->err);
}

static et_status normalize(eti_encoder *e, const eti_step_record *step, eti_string in,
                           eti_string *out) {
  *out = in;
  switch (step->id) {
    case ETI_STEP_NFC:
      return normal_form(e, ETI_NFC, in, out);
    case ETI_STEP_NFD:
      return normal_form(e, ETI_NFD, in, out);
    case ETI_STEP_NFKC:
      return normal_form(e, ETI_NFKC, in, out);
    case ETI_STEP_NFKD:
      return normal_form(e, ETI_NFKD, in, out);
    case ETI_STEP_LOWERCASE:
      return lowercase(e, in, out);
    case ETI_STEP_STRIP_ACCENTS:
      return strip_accents(e, in, out);
    case ETI_STEP_BERT:
      return bert(e, step->flags, in, out);
    case ETI_STEP_CHARSMAP:
      return charsmap(e, step, in, out);
    case ETI_STEP_PREPEND:
      return prepend(e, step_text(e, step->text, step->text_bytes), in, out);
    case ETI_STEP_REPLACE:
      return replace_all(e, step, in, out);
    case ETI_STEP_PIECES_TEXT:
      return eti_pieces_normalize(e, step, in, out);
    case ETI_STEP_STRIP:
      *out = eti_strip(in, (step->flags & 1) != 0, (step->flags & 2) != 0);
      return ET_OK;
    default:
      return ET_FAIL(e->err, ET_NOT_SUPPORTED, "tokenizer: expected a known normalizer, got %u",
                     step->id);
  }
}

et_status eti_encode_normalize(eti_encoder *e, eti_string in, eti_string *out) {
  const eti_step_record *const steps = eti_image_section(e->image.header, ETI_SECTION_NORMALIZERS);
  *out = in;
  for (uint32_t i = 0; i < eti_image_count(e->image.header, ETI_SECTION_NORMALIZERS); i++) {
    eti_string next;
    ET_TRY(normalize(e, &steps[i], *out, &next));
    *out = next;
  }
  return ET_OK;
}

// ---- sizes

// Bytes for each byte of a text: matches of one byte or more become `other`.
static size_t replaced_growth(const eti_step_record *step) {
  const size_t least = step->pattern_bytes > 0 || step->text_bytes == 0 ? 1 : step->text_bytes;
  return 1 + step->other_bytes / least;
}

// Makes *n the greatest size of a result; returns the bytes of working memory for each byte before.
static size_t form_growth(const eti_step_record *step, size_t *n) {
  const size_t before = *n;
  switch (step->id) {
    case ETI_STEP_NFC:
    case ETI_STEP_NFD:
      *n = eti_normalize_bytes(ETI_NFD, before);
      return 5;
    case ETI_STEP_NFKC:
    case ETI_STEP_NFKD:
      *n = eti_normalize_bytes(ETI_NFKD, before);
      return 5;
    case ETI_STEP_BERT:
      *n = eti_bert_bytes(before);
      return 9;
    case ETI_STEP_LOWERCASE:
      *n = eti_lowercase_bytes(before);
      return 0;
    case ETI_STEP_CHARSMAP:
      *n = before * ETI_CHARSMAP_GROWTH;
      return 0;
    case ETI_STEP_PIECES_TEXT:
      *n = eti_pieces_normalized_bytes(step, before);
      return 0;
    default:
      return 0;
  }
}

size_t eti_normalized_bytes(const eti_image_header *h, size_t n, size_t *scratch) {
  const eti_step_record *const steps = eti_image_section(h, ETI_SECTION_NORMALIZERS);
  *scratch = 0;
  for (uint32_t i = 0; i < eti_image_count(h, ETI_SECTION_NORMALIZERS); i++) {
    if (steps[i].id == ETI_STEP_PREPEND) n += steps[i].text_bytes;
    if (steps[i].id == ETI_STEP_REPLACE) n *= replaced_growth(&steps[i]);
    const size_t before = n, working = form_growth(&steps[i], &n);
    *scratch += n + before * working + 64;
  }
  return n;
}
