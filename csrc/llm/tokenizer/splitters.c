// splitters.c — the splitters, one inside of the other: each piece of one is split by the next, and
// the pieces of the last are words.
#include "llm/tokenizer/pieces.h"
#include "llm/text/unicode.h"

typedef struct split {
  eti_encoder *e;
  size_t level;
  eti_string text;
  bool first;  // the text begins the text of the user
  uint32_t behavior;
  // A part that may grow yet: [begin, end).
  bool held, held_match;
  size_t begin, end;
} split;

static et_status split_level(eti_encoder *e, size_t level, eti_string piece, bool first);

static et_status give(split *s, size_t begin, size_t end) {
  const eti_string piece = {s->text.bytes + begin, end - begin};
  return split_level(s->e, s->level + 1, piece, s->first && begin == 0);
}

static et_status give_held(split *s) {
  if (!s->held) return ET_OK;
  s->held = false;
  return give(s, s->begin, s->end);
}

// Takes the next part of the text, a delimiter if it matched.
static et_status take_part(split *s, size_t begin, size_t end, bool match) {
  if (begin == end) return ET_OK;
  if (s->behavior == ETI_SPLIT_REMOVED) return match ? ET_OK : give(s, begin, end);
  if (s->behavior == ETI_SPLIT_ISOLATED) return give(s, begin, end);
  const bool grows = s->behavior == ETI_SPLIT_CONTIGUOUS      ? match == s->held_match
                     : s->behavior == ETI_SPLIT_WITH_PREVIOUS ? match && !s->held_match
                                                              : s->held_match && !match;
  if (s->held && grows) {
    s->end = end;
  } else {
    ET_TRY(give_held(s));
    s->held = true;
    s->begin = begin;
    s->end = end;
  }
  s->held_match = match;
  return ET_OK;
}

static et_status split_piece(eti_encoder *e, size_t level, const eti_step_record *step,
                             eti_string piece, bool first) {
  split s = {.e = e, .level = level, .text = piece, .first = first, .behavior = step->flags & 7};
  const bool inverted = (step->flags & ETI_SPLIT_INVERT) != 0;
  const eti_search *const search = &e->searches[level];
  size_t at = 0, begin, end;
  while (eti_search_next(search, piece, at, &begin, &end)) {
    ET_TRY(take_part(&s, at, begin, inverted));
    ET_TRY(take_part(&s, begin, end, !inverted));
    at = end;
  }
  ET_TRY(take_part(&s, at, piece.n, inverted));
  return give_held(&s);
}

// Puts a text before a piece, and spaces become this text if `replace`.
static et_status with_prefix(eti_encoder *e, eti_string prefix, bool put, bool replace,
                             eti_string in, eti_string *out) {
  size_t n = put ? prefix.n : 0;
  for (size_t i = 0; i < in.n; i++) n += replace && in.bytes[i] == ' ' ? prefix.n : 1;
  uint8_t *to;
  ET_TRY(eti_encoder_scratch(e, n, &to));
  *out = (eti_string){to, n};
  if (put) to = (uint8_t *)memcpy(to, prefix.bytes, prefix.n) + prefix.n;
  for (size_t i = 0; i < in.n; i++) {
    if (replace && in.bytes[i] == ' ')
      to = (uint8_t *)memcpy(to, prefix.bytes, prefix.n) + prefix.n;
    else
      *to++ = in.bytes[i];
  }
  return ET_OK;
}

static et_status metaspace(eti_encoder *e, size_t level, const eti_step_record *step,
                           eti_string piece, bool first) {
  const eti_string sign = {(const uint8_t *)e->image.header + step->text, step->text_bytes};
  const bool begins =
      piece.bytes[0] == ' ' || (piece.n >= sign.n && memcmp(piece.bytes, sign.bytes, sign.n) == 0);
  const bool wanted = (step->flags & ETI_METASPACE_ALWAYS) != 0 ||
                      ((step->flags & ETI_METASPACE_FIRST) != 0 && first);
  eti_string text;
  ET_TRY(with_prefix(e, sign, wanted && !begins, true, piece, &text));
  if ((step->flags & ETI_METASPACE_SPLIT) == 0) return split_level(e, level + 1, text, first);
  eti_step_record at_signs = *step;
  at_signs.flags = ETI_SPLIT_WITH_NEXT;
  return split_piece(e, level, &at_signs, text, first);
}

static et_status split_level(eti_encoder *e, size_t level, eti_string piece, bool first) {
  const eti_image_header *const h = e->image.header;
  if (piece.n == 0) return ET_OK;
  if (level == eti_image_count(h, ETI_SECTION_SPLITTERS)) return eti_encode_word(e, piece);
  const eti_step_record *const step =
      (const eti_step_record *)eti_image_section(h, ETI_SECTION_SPLITTERS) + level;
  const et_arena before = e->scratch;
  et_status status = ET_OK;
  if (step->id == ETI_STEP_SPLIT) {
    status = split_piece(e, level, step, piece, first);
  } else if (step->id == ETI_STEP_PIECES) {
    status = eti_encode_pieces(e, piece);
  } else if (step->id == ETI_STEP_METASPACE) {
    status = metaspace(e, level, step, piece, first);
  } else {
    static const uint8_t SPACE[] = " ";
    eti_string text = piece;
    if (piece.bytes[0] != ' ')
      ET_TRY(with_prefix(e, (eti_string){SPACE, 1}, true, false, piece, &text));
    status = split_level(e, level + 1, text, first);
  }
  e->scratch = before;
  return status;
}

et_status eti_encode_piece(eti_encoder *e, eti_string piece, bool first) {
  return split_level(e, 0, piece, first);
}
