#include "llm/tokenizer/pieces.h"

#include "llm/text/charsmap.h"
#include "llm/tokenizer/bpe.h"

static const uint8_t SIGN[] = {0xE2, 0x96, 0x81};  // U+2581, which stands for a space

// ---- user-defined pieces

static const eti_pair_slot *step_from(const eti_pieces *p, uint32_t state, uint8_t byte) {
  for (uint32_t at = eti_pair_hash(state, byte);; at++) {
    const eti_pair_slot *const slot = &p->slots[at & p->mask];
    if (slot->joined == ETI_NO_TOKEN) return NULL;
    if (slot->left == state && slot->right == byte) return slot;
  }
}

eti_pieces eti_pieces_of(const eti_image_header *h) {
  eti_pieces p = {.slots = eti_image_section(h, ETI_SECTION_PIECES),
                  .mask = eti_image_count(h, ETI_SECTION_PIECES) - 1};
  if (eti_image_count(h, ETI_SECTION_PIECES) == 0) return p;
  for (size_t byte = 0; byte < 256; byte++) p.first[byte] = step_from(&p, 0, (uint8_t)byte) != NULL;
  return p;
}

size_t eti_pieces_longest(const eti_pieces *p, eti_string text, uint32_t *id) {
  size_t longest = 0;
  uint32_t state = 0;
  if (text.n == 0 || !p->first[text.bytes[0]]) return 0;
  for (size_t i = 0; i < text.n; i++) {
    const eti_pair_slot *const slot = step_from(p, state, text.bytes[i]);
    if (slot == NULL) break;
    state = slot->joined;
    const bool whole = i + 1 == text.n || (text.bytes[i + 1] & 0xC0) != 0x80;
    if (slot->rank == ETI_NO_TOKEN || !whole) continue;
    longest = i + 1;
    *id = slot->rank;
  }
  return longest;
}

// ---- the normalizer

typedef struct normalizer {
  eti_pieces pieces;
  eti_charsmap map;
  bool has_map;
  bool plain[128];  // letters of ASCII that stay as they are, unless another letter extends them
  eti_string in;
  size_t at;
  uint8_t *to;
  size_t size, n;
  et_error *err;
} normalizer;

static normalizer normalizer_of(const eti_encoder *e, const eti_step_record *step, eti_string in) {
  const eti_image_header *const h = e->image.header;
  normalizer z = {.pieces = eti_pieces_of(h), .in = in, .err = e->err};
  const bool pairs = (step->flags & ETI_PIECES_PAIRS) != 0;
  z.has_map = step->text_bytes > 0;
  if (z.has_map)
    z.map = eti_charsmap_parts((eti_string){(const uint8_t *)h + step->text, step->text_bytes});
  for (size_t i = 0; i < sizeof z.plain; i++)
    z.plain[i] = i != ' ' && !z.pieces.first[i] && !(z.has_map && (pairs || z.map.ascii[i]));
  return z;
}

// The next part of the text: a user-defined piece, a rule of the map or a letter.
static et_status next_part(normalizer *z, eti_string *part) {
  const eti_string rest = {z->in.bytes + z->at, z->in.n - z->at};
  uint32_t id;
  size_t n = eti_pieces_longest(&z->pieces, rest, &id);
  *part = (eti_string){rest.bytes, n};
  if (n == 0 && z->has_map) ET_TRY(eti_charsmap_longest(&z->map, rest, &n, part, z->err));
  if (n == 0) part->n = n = eti_utf8_bytes(rest.bytes[0]);
  z->at += n;
  return ET_OK;
}

static et_status put(normalizer *z, const uint8_t *bytes, size_t n) {
  ET_CHECK(n <= z->size - z->n, z->err, ET_OUT_OF_MEMORY,
           "tokenizer: expected a normalized text of at most %zu bytes, got more", z->size);
  memcpy(z->to + z->n, bytes, n);
  z->n += n;
  return ET_OK;
}

static et_status put_part(normalizer *z, eti_string part, eti_string space) {
  for (size_t i = 0; i < part.n; i++) {
    if (part.bytes[i] == ' ')
      ET_TRY(put(z, space.bytes, space.n));
    else
      ET_TRY(put(z, part.bytes + i, 1));
  }
  return ET_OK;
}

static et_status skip_spaces(normalizer *z) {
  while (z->at < z->in.n) {
    const size_t before = z->at;
    eti_string part;
    ET_TRY(next_part(z, &part));
    if (part.n == 1 && part.bytes[0] == ' ') continue;
    z->at = before;
    break;
  }
  return ET_OK;
}

// The end of the letters that stay as they are. In a map, the last one may be extended.
static size_t plain_end(const normalizer *z) {
  const uint8_t *const p = z->in.bytes;
  size_t end = z->at;
  while (end < z->in.n && p[end] < 0x80 && z->plain[p[end]]) end++;
  return z->has_map && end > z->at && end < z->in.n && p[end] >= 0x80 ? end - 1 : end;
}

static et_status write_parts(normalizer *z, bool trim, eti_string space) {
  bool after_space = trim;
  while (z->at < z->in.n) {
    const size_t end = plain_end(z);
    if (end > z->at) {
      ET_TRY(put(z, z->in.bytes + z->at, end - z->at));
      z->at = end;
      after_space = false;
      continue;
    }
    eti_string part;
    ET_TRY(next_part(z, &part));
    while (after_space && part.n > 0 && part.bytes[0] == ' ')
      part = (eti_string){part.bytes + 1, part.n - 1};
    if (part.n == 0) continue;
    ET_TRY(put_part(z, part, space));
    after_space = trim && part.bytes[part.n - 1] == ' ';
  }
  while (trim && z->n >= space.n && memcmp(z->to + z->n - space.n, space.bytes, space.n) == 0)
    z->n -= space.n;
  return ET_OK;
}

et_status eti_pieces_normalize(eti_encoder *e, const eti_step_record *step, eti_string in,
                               eti_string *out) {
  const bool trim = (step->flags & ETI_PIECES_TRIM) != 0;
  const bool dummy = (step->flags & ETI_PIECES_DUMMY) != 0;
  const bool behind = (step->flags & ETI_PIECES_SUFFIX) != 0;
  const eti_string space = (step->flags & ETI_PIECES_ESCAPE) != 0
                               ? (eti_string){SIGN, sizeof SIGN}
                               : (eti_string){(const uint8_t *)" ", 1};
  const et_arena before = e->scratch;
  normalizer z = normalizer_of(e, step, in);
  z.size = eti_pieces_normalized_bytes(step, in.n);
  ET_TRY(eti_encoder_scratch(e, z.size, &z.to));
  if (trim) ET_TRY(skip_spaces(&z));
  if (z.at < in.n) {
    if (dummy && !behind) ET_TRY(put(&z, space.bytes, space.n));
    ET_TRY(write_parts(&z, trim, space));
    if (dummy && behind) ET_TRY(put(&z, space.bytes, space.n));
  }
  // The rest of the memory is given back.
  e->scratch = before;
  ET_TRY(eti_encoder_scratch(e, z.n, &z.to));
  *out = (eti_string){z.to, z.n};
  return ET_OK;
}

size_t eti_pieces_normalized_bytes(const eti_step_record *step, size_t n) {
  const bool escape = (step->flags & ETI_PIECES_ESCAPE) != 0;
  return n * (step->text_bytes > 0 ? ETI_CHARSMAP_GROWTH : escape ? sizeof SIGN : 1) + sizeof SIGN;
}

// ---- the splitter

static et_status encode_part(eti_encoder *e, eti_string text) {
  return text.n == 0 ? ET_OK : eti_encode_word(e, text);
}

static et_status encode_around_pieces(eti_encoder *e, eti_string text) {
  const eti_pieces pieces = eti_pieces_of(e->image.header);
  size_t begin = 0;
  for (size_t at = 0; at < text.n;) {
    uint32_t id;
    const size_t n = eti_pieces_longest(&pieces, (eti_string){text.bytes + at, text.n - at}, &id);
    if (n > 0) {
      ET_TRY(encode_part(e, (eti_string){text.bytes + begin, at - begin}));
      ET_TRY(eti_encoder_emit(e, id));
      begin = at + n;
    }
    at += n > 0 ? n : eti_utf8_bytes(text.bytes[at]);
  }
  return encode_part(e, (eti_string){text.bytes + begin, text.n - begin});
}

// Words begin at the sign of a space.
static et_status encode_words(eti_encoder *e, eti_string text) {
  size_t begin = 0;
  for (size_t at = 1; at < text.n; at++) {
    if (text.n - at < sizeof SIGN || memcmp(text.bytes + at, SIGN, sizeof SIGN) != 0) continue;
    ET_TRY(eti_encode_word(e, (eti_string){text.bytes + begin, at - begin}));
    begin = at;
  }
  return eti_encode_word(e, (eti_string){text.bytes + begin, text.n - begin});
}

// Unknown tokens that follow each other become one. Cached words lose their places then.
static void fuse_unknown(eti_encoder *e, size_t first) {
  const uint32_t unknown = e->image.header->unknown;
  size_t n = first;
  for (size_t i = first; i < e->n_ids; i++)
    if (e->ids[i] != unknown || n == first || e->ids[n - 1] != unknown) e->ids[n++] = e->ids[i];
  if (n < e->n_ids && e->cache != NULL) memset(e->cache, 0, (e->cache_mask + 1) * sizeof *e->cache);
  e->n_ids = n;
}

et_status eti_encode_pieces(eti_encoder *e, eti_string text) {
  const eti_image_header *const h = e->image.header;
  const size_t first = e->n_ids;
  if (h->model == ETI_BPE && eti_image_count(h, ETI_SECTION_PIECES) > 0)
    ET_TRY(encode_around_pieces(e, text));
  else if (h->model == ETI_WORDLEVEL)
    ET_TRY(encode_words(e, text));
  else
    ET_TRY(encode_part(e, text));
  if ((h->flags & ETI_FUSE_UNKNOWN) != 0) fuse_unknown(e, first);
  return ET_OK;
}
