// decode.c — ids to text. Each token's text passes the steps before Fuse by itself; what follows
// Fuse, strips the beginning of the whole text. Bytes are given out when their letter is complete.
#include "llm/et_tokenizer.h"
#include "llm/tokenizer/search.h"
#include "runtime/check.h"

static const uint8_t REPLACEMENT[] = {0xEF, 0xBF, 0xBD};  // U+FFFD

// ---- the output

typedef struct output {
  uint8_t *base;
  size_t size, used;
} output;

static et_status append(output *out, eti_string text, et_error *err) {
  ET_CHECK(out->size - out->used >= text.n, err, ET_OUT_OF_RESOURCES,
           "tokenizer: expected room for the text, got %zu bytes", out->size);
  if (text.n > 0) memcpy(out->base + out->used, text.bytes, text.n);
  out->used += text.n;
  return ET_OK;
}

// Gives out the pending bytes that do not wait for more: a letter, or U+FFFD for the beginning of
// one that does not go on, or for each byte of it.
static et_status write_pending(et_text_decoder *d, output *out, et_error *err) {
  while (d->n_pending > 0) {
    const eti_string pending = {d->pending, d->n_pending};
    const size_t n = eti_utf8_beginning_bytes(pending);
    const bool letter = n > 0 && n == eti_utf8_bytes(d->pending[0]);
    if (n == pending.n && !letter) return ET_OK;  // may go on
    const eti_string replacement = {REPLACEMENT, sizeof REPLACEMENT};
    ET_TRY(append(out, letter ? (eti_string){d->pending, n} : replacement, err));
    const size_t taken = n == 0 || (d->each_byte && !letter) ? 1 : n;
    d->n_pending = (uint8_t)(d->n_pending - taken);
    memmove(d->pending, d->pending + taken, d->n_pending);
  }
  return ET_OK;
}

static et_status write_letters(et_text_decoder *d, eti_string text, output *out, et_error *err) {
  for (size_t i = 0; i < text.n;) {
    if (d->n_pending == 0) {
      const size_t valid = eti_utf8_valid_bytes((eti_string){text.bytes + i, text.n - i});
      ET_TRY(append(out, (eti_string){text.bytes + i, valid}, err));
      i += valid;
      if (i == text.n) break;
    }
    d->pending[d->n_pending++] = text.bytes[i++];
    ET_TRY(write_pending(d, out, err));
  }
  return ET_OK;
}

static et_status write_end(et_text_decoder *d, output *out, et_error *err) {
  const size_t n = d->each_byte ? d->n_pending : d->n_pending > 0;
  for (size_t i = 0; i < n; i++)
    ET_TRY(append(out, (eti_string){REPLACEMENT, sizeof REPLACEMENT}, err));
  d->n_pending = 0;
  return ET_OK;
}

// ---- steps

typedef struct piece {
  const eti_image_header *header;
  bool first;
  eti_token_kind kind;
  uint8_t *buffers[2];  // of `size` bytes each
  size_t size;
  eti_string text;
  et_error *err;
} piece;

static eti_string step_text(const piece *p, uint32_t offset, uint32_t bytes) {
  return (eti_string){(const uint8_t *)p->header + offset, bytes};
}

// A buffer that does not hold the piece's text.
static output other_buffer(piece *p) {
  return (output){p->buffers[p->text.bytes == p->buffers[0]], p->size, 0};
}

// Replaces all that a search finds in the piece.
static et_status replace(piece *p, const eti_search *search, eti_string other) {
  size_t at = 0, begin, end;
  if (!eti_search_next(search, p->text, 0, &begin, &end)) return ET_OK;
  output out = other_buffer(p);
  while (eti_search_next(search, p->text, at, &begin, &end)) {
    ET_TRY(append(&out, (eti_string){p->text.bytes + at, begin - at}, p->err));
    ET_TRY(append(&out, other, p->err));
    at = end;
  }
  ET_TRY(append(&out, (eti_string){p->text.bytes + at, p->text.n - at}, p->err));
  p->text = (eti_string){out.base, out.used};
  return ET_OK;
}

static et_status metaspace(piece *p, const eti_step_record *step) {
  const bool dropped =
      p->first && (step->flags & (ETI_METASPACE_ALWAYS | ETI_METASPACE_FIRST)) != 0;
  const eti_search search = eti_search_of(p->header, step);
  return replace(p, &search, (eti_string){(const uint8_t *)" ", dropped ? 0 : 1});
}

// English contractions and signs lose the space before them, one after the other.
static et_status clean_up(piece *p) {
  static const char *const PAIRS[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                         {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                         {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
    const eti_search search = {.text = {(const uint8_t *)PAIRS[i][0], strlen(PAIRS[i][0])}};
    ET_TRY(replace(p, &search, (eti_string){(const uint8_t *)PAIRS[i][1], strlen(PAIRS[i][1])}));
  }
  return ET_OK;
}

static et_status wordpieces(piece *p, const eti_step_record *step) {
  const eti_string prefix = step_text(p, step->text, step->text_bytes);
  const bool goes_on = p->text.n >= prefix.n && memcmp(p->text.bytes, prefix.bytes, prefix.n) == 0;
  if (!p->first && goes_on) {
    p->text = (eti_string){p->text.bytes + prefix.n, p->text.n - prefix.n};
  } else if (!p->first) {
    output out = other_buffer(p);
    ET_TRY(append(&out, (eti_string){(const uint8_t *)" ", 1}, p->err));
    ET_TRY(append(&out, p->text, p->err));
    p->text = (eti_string){out.base, out.used};
  }
  return (step->flags & 1) != 0 ? clean_up(p) : ET_OK;
}

// Takes a text away from the beginning of a piece, at most n times; returns how often.
static uint32_t strip_left(eti_string *text, eti_string content, uint32_t n) {
  uint32_t done = 0;
  while (done < n && text->n >= content.n && content.n > 0 &&
         memcmp(text->bytes, content.bytes, content.n) == 0) {
    *text = (eti_string){text->bytes + content.n, text->n - content.n};
    done++;
  }
  return done;
}

static void strip_right(eti_string *text, eti_string content, uint32_t n) {
  for (uint32_t i = 0; i < n && text->n >= content.n && content.n > 0 &&
                       memcmp(text->bytes + text->n - content.n, content.bytes, content.n) == 0;
       i++)
    text->n -= content.n;
}

// The sign of a space becomes one. At the beginning of a text, that of the normalizer is dropped.
static et_status piece_text(piece *p, et_text_decoder *d, const eti_step_record *step) {
  const eti_search search = eti_search_of(p->header, step);
  const bool raw = (step->flags & ETI_PIECES_RAW) != 0 && p->kind == ETI_TOKEN_ADDED;
  if (raw || p->kind == ETI_TOKEN_SPECIAL) return ET_OK;
  if (p->kind == ETI_TOKEN_UNKNOWN) {
    p->text = step_text(p, step->other, step->other_bytes);
    return ET_OK;
  }
  const bool drops = (step->flags & (ETI_PIECES_DUMMY | ETI_PIECES_TRIM)) != 0;
  if (drops && !d->begun && d->n_stripped == 0) {
    const uint32_t n = strip_left(&p->text, search.text, 1);
    if ((step->flags & ETI_PIECES_TRIM) == 0) d->n_stripped = (uint16_t)n;
  }
  return replace(p, &search, (eti_string){(const uint8_t *)" ", 1});
}

static et_status apply(piece *p, et_text_decoder *d, const eti_step_record *step) {
  const eti_string content = step_text(p, step->text, step->text_bytes);
  const eti_search search = eti_search_of(p->header, step);
  const size_t n = p->text.n;
  switch (step->id) {
    case ETI_STEP_REPLACE:
      return replace(p, &search, step_text(p, step->other, step->other_bytes));
    case ETI_STEP_METASPACE:
      return metaspace(p, step);
    case ETI_STEP_WORDPIECES:
      return wordpieces(p, step);
    case ETI_STEP_PIECES_DECODER:
      return piece_text(p, d, step);
    case ETI_STEP_BPE_SUFFIX:  // a space, which comes with the next token
      strip_right(&p->text, content, 1);
      d->space = p->text.n < n;
      return replace(p, &search, (eti_string){(const uint8_t *)" ", 1});
    case ETI_STEP_STRIP_TEXT:
      (void)strip_left(&p->text, content, step->flags & 0xFFFF);
      strip_right(&p->text, content, step->flags >> 16);
      return ET_OK;
    default:
      return ET_OK;
  }
}

// ---- decoding

static bool has_decoder(const eti_image_header *h, eti_step_id id) {
  const eti_step_record *const steps = eti_image_section(h, ETI_SECTION_DECODERS);
  for (uint32_t i = 0; i < eti_image_count(h, ETI_SECTION_DECODERS); i++)
    if (steps[i].id == (uint32_t)id) return true;
  return false;
}

// The text of a token after the steps of the list.
static et_status token_text(piece *p, et_text_decoder *d, uint32_t id) {
  const eti_tokenizer_image image = eti_image_parts(p->header);
  const eti_step_record *const steps = eti_image_section(p->header, ETI_SECTION_DECODERS);
  const uint32_t n_steps = eti_image_count(p->header, ETI_SECTION_DECODERS);
  p->text = eti_vocab_text(&image.vocab, id);
  p->kind = (eti_token_kind)image.kinds[id];
  const bool is_byte =
      image.kinds[id] == ETI_TOKEN_BYTE && has_decoder(p->header, ETI_STEP_BYTE_FALLBACK);
  if (is_byte) {
    p->buffers[0][0] = (uint8_t)eti_byte_of_name(p->text);
    p->text = (eti_string){p->buffers[0], 1};
  }
  bool fused = false;
  for (uint32_t i = 0; i < n_steps; i++) {
    if (steps[i].id == ETI_STEP_FUSE) {
      fused = true;
    } else if (!fused && !is_byte) {
      ET_TRY(apply(p, d, &steps[i]));
    } else if (fused && steps[i].id == ETI_STEP_STRIP_TEXT && !d->begun) {
      const uint32_t most = (steps[i].flags & 0xFFFF) - d->n_stripped;
      const eti_string content = step_text(p, steps[i].text, steps[i].text_bytes);
      d->n_stripped = (uint16_t)(d->n_stripped + strip_left(&p->text, content, most));
    }
  }
  if (p->text.n > 0) d->begun = true;
  return ET_OK;
}

size_t et_tokenizer_piece_bytes(const et_tokenizer *tokenizer) {
  const eti_image_header *const h = tokenizer->image;
  return 4 * (size_t)h->longest + 64;
}

et_status et_text_decoder_push(et_text_decoder *d, const et_tokenizer *t, uint32_t id, char *text,
                               size_t size, size_t *n, et_span scratch, et_error *err) {
  const eti_image_header *const h = t->image;
  const size_t bytes = et_tokenizer_piece_bytes(t);
  ET_CHECK(id < h->n_tokens, err, ET_INVALID_ARGUMENT, "token: expected an id below %u, got %u",
           h->n_tokens, id);
  ET_CHECK(scratch.size >= 2 * bytes, err, ET_OUT_OF_MEMORY,
           "tokenizer: expected scratch of %zu bytes, got %zu", 2 * bytes, scratch.size);
  uint8_t *const buffers = scratch.data;
  piece p = {.header = h,
             .first = !d->pushed,
             .buffers = {buffers, buffers + bytes},
             .size = bytes,
             .err = err};
  et_text_decoder next = *d;
  output out = {(uint8_t *)text, size, 0};
  if (d->space) ET_TRY(append(&out, (eti_string){(const uint8_t *)" ", 1}, err));
  next.space = false;
  next.each_byte = has_decoder(h, ETI_STEP_PIECES_DECODER);
  next.pushed = true;
  ET_TRY(token_text(&p, &next, id));
  ET_TRY(write_letters(&next, p.text, &out, err));
  *d = next;
  *n = out.used;
  return ET_OK;
}

et_status et_text_decoder_end(et_text_decoder *d, char *text, size_t size, size_t *n,
                              et_error *err) {
  output out = {(uint8_t *)text, size, 0};
  ET_TRY(write_end(d, &out, err));
  *n = out.used;
  return ET_OK;
}

// The end of the byte tokens from `first` on; *valid: together they are letters.
static size_t byte_run(const eti_tokenizer_image *image, const uint32_t *ids, size_t n,
                       size_t first, bool *valid) {
  uint8_t letter[4];
  size_t n_letter = 0, i = first;
  *valid = true;
  for (; i < n && image->kinds[ids[i]] == ETI_TOKEN_BYTE; i++) {
    letter[n_letter++] = (uint8_t)eti_byte_of_name(eti_vocab_text(&image->vocab, ids[i]));
    const eti_string text = {letter, n_letter};
    if (eti_utf8_beginning_bytes(text) != n_letter) *valid = false;
    if (!*valid || n_letter == eti_utf8_bytes(letter[0])) n_letter = 0;
  }
  if (n_letter > 0) *valid = false;
  return i;
}

et_status et_tokenizer_decode(const et_tokenizer *t, const uint32_t *ids, size_t n, bool special,
                              char *text, size_t size, size_t *n_text, et_span scratch,
                              et_error *err) {
  const eti_image_header *const h = t->image;
  const eti_tokenizer_image image = eti_image_parts(h);
  const bool fallback = has_decoder(h, ETI_STEP_BYTE_FALLBACK);
  et_text_decoder d = {.each_byte = has_decoder(h, ETI_STEP_PIECES_DECODER)};
  output out = {(uint8_t *)text, size, 0};
  size_t run_end = 0, n_piece = 0;
  bool valid = true;
  for (size_t i = 0; i < n; i++) {
    ET_CHECK(ids[i] < h->n_tokens, err, ET_INVALID_ARGUMENT,
             "token %zu: expected an id below %u, got %u", i, h->n_tokens, ids[i]);
    const eti_token_kind kind = (eti_token_kind)image.kinds[ids[i]];
    if (kind == ETI_TOKEN_SPECIAL && d.each_byte) ET_TRY(write_end(&d, &out, err));
    if (kind == ETI_TOKEN_UNUSED || (kind == ETI_TOKEN_SPECIAL && !special)) continue;
    if (kind == ETI_TOKEN_BYTE && fallback && !d.each_byte && i >= run_end)
      run_end = byte_run(&image, ids, n, i, &valid);
    if (i < run_end && !valid) {
      d.begun = d.pushed = true;
      ET_TRY(append(&out, (eti_string){REPLACEMENT, sizeof REPLACEMENT}, err));
      continue;
    }
    ET_TRY(et_text_decoder_push(&d, t, ids[i], text + out.used, size - out.used, &n_piece, scratch,
                                err));
    out.used += n_piece;
  }
  ET_TRY(write_end(&d, &out, err));
  *n_text = out.used;
  return ET_OK;
}
