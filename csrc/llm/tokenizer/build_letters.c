// build_letters.c — what encoding knows of the letters of tokens: ETI_SECTION_SPANS and
// ETI_SECTION_LETTERS.
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/build.h"

// ---- letters side by side

static bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

// The letter of a token that ends at `end`, and whether it is whole: a token of bytes may begin
// within a letter.
static eti_letter letter_before(eti_string text, size_t end, bool *whole) {
  size_t first = end - 1;
  while (first > 0 && is_continuation(text.bytes[first])) first--;
  const eti_letter letter = eti_letter_at((eti_string){text.bytes, end}, first);
  *whole = !is_continuation(text.bytes[first]) && letter.bytes == end - first;
  return letter;
}

static void set_bit(uint32_t *bits, uint32_t bit) {
  bits[bit / 32] |= 1u << (bit % 32);
}

et_status eti_builder_spans(eti_builder *b) {
  uint32_t *bits;
  ET_TRY(eti_builder_section(b, ETI_SECTION_SPANS, ETI_SPAN_BITS / 32, &bits));
  const eti_tokenizer_image image = eti_image_parts(b->header);
  for (uint32_t id = 0; id < image.vocab.n; id++) {
    const eti_string text = eti_vocab_text(&image.vocab, id);
    if (image.kinds[id] == ETI_TOKEN_SPECIAL) continue;
    for (size_t at = 1; at < text.n; at++) {
      if (is_continuation(text.bytes[at])) continue;
      bool whole;
      const eti_letter left = letter_before(text, at, &whole), right = eti_letter_at(text, at);
      if (whole && right.bytes == eti_utf8_bytes(text.bytes[at]))
        set_bit(bits, eti_span_bit(left.value, right.value));
      else
        set_bit(bits, eti_part_bit(text.bytes[at - 1], text.bytes[at]));
    }
  }
  return ET_OK;
}

// ---- letters that are joined first of all

// A letter is joined from its bytes in steps. At each step its first symbol could be joined with
// the letter before, and its last one with the letter behind. Encoding may begin with the whole
// letter if no letter beside it matters:
//   - at each step, the pair within the letter has a lower rank than all pairs over its borders;
//   - so have all of its steps than all pairs of the whole letter, which exist earlier then.

enum { LETTER_BYTES = 4 };                        // of UTF-8, at most
enum { RANK_BITS = 16, RANKS = 1 << RANK_BITS };  // of tables of ranks

// The least ranks of pairs over a border of letters, by the hash of the side's bytes: a letter, or
// a part of it, as the left or as the right side. Sides of one hash share the least rank of all,
// which can only leave out a letter. of_token: the least rank of the pairs that make a token, by
// id.
typedef struct border_ranks {
  uint32_t *as_left, *as_right;
  uint32_t *of_token;
} border_ranks;

static uint32_t side_hash(const uint8_t *bytes, size_t n) {
  uint32_t side = 0;
  for (size_t i = 0; i < n; i++) side = side << 8 | bytes[i];
  return (uint32_t)(eti_mix(side) >> (64 - RANK_BITS));
}

static void lower(uint32_t *rank, uint32_t other) {
  if (other < *rank) *rank = other;
}

// A pair over a border of letters makes a token that has the border inside: behind its first
// letter, or before its last one, if one side of the pair is a letter of several bytes or a part of
// it.
static void ranks_of_token(eti_string text, uint32_t rank, const border_ranks *ranks) {
  size_t first = text.n > 0 && text.bytes[0] >= 0x80, last = text.n;
  while (first > 0 && first < text.n && is_continuation(text.bytes[first])) first++;
  while (last > 0 && is_continuation(text.bytes[last - 1])) last--;
  if (last > 0) last--;
  if (first > 0 && first < text.n && first <= LETTER_BYTES)
    lower(&ranks->as_left[side_hash(text.bytes, first)], rank);
  if (last > 0 && text.bytes[last] >= 0x80 && text.n - last <= LETTER_BYTES)
    lower(&ranks->as_right[side_hash(text.bytes + last, text.n - last)], rank);
}

static void find_ranks(const eti_vocab *v, const eti_pair_slot *pairs, const border_ranks *ranks) {
  memset(ranks->as_right, 0xFF, RANKS * sizeof *ranks->as_right);
  memset(ranks->as_left, 0xFF, RANKS * sizeof *ranks->as_left);
  memset(ranks->of_token, 0xFF, v->n * sizeof *ranks->of_token);
  for (size_t i = 0; v->n_pairs > 0 && i <= v->pair_mask; i++)
    if (pairs[i].joined != ETI_NO_TOKEN) lower(&ranks->of_token[pairs[i].joined], pairs[i].rank);
  for (uint32_t id = 0; v->n_pairs == 0 && id < v->n; id++)
    ranks->of_token[id] = v->ranks == NULL ? id : v->ranks[id];
  for (uint32_t id = 0; id < v->n; id++)
    if (ranks->of_token[id] != ETI_NEVER)
      ranks_of_token(eti_vocab_text(v, id), ranks->of_token[id], ranks);
}

// Whether the bytes of a letter become this one token, whatever is beside them.
static bool joins_first(const eti_tokenizer_image *image, eti_string letter, uint32_t id,
                        const border_ranks *ranks) {
  eti_symbol s[LETTER_BYTES];
  size_t n = letter.n;
  uint32_t greatest = 0;  // rank of the steps
  for (size_t i = 0; i < n; i++) {
    s[i] = (eti_symbol){image->byte_ids[letter.bytes[i]], (uint32_t)i + 1};
    if (s[i].id == ETI_NO_TOKEN) return false;
  }
  while (n > 1) {
    eti_joining least = {ETI_NEVER, ETI_NO_TOKEN};
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      const uint32_t begin = i == 0 ? 0 : s[i - 1].end;
      const eti_joining next = eti_joining_of(&image->vocab, letter.bytes, begin, s[i], s[i + 1]);
      if (next.rank < least.rank) {
        least = next;
        at = i;
      }
    }
    const uint32_t right = side_hash(letter.bytes, s[0].end);
    const uint32_t left = side_hash(letter.bytes + s[n - 2].end, letter.n - s[n - 2].end);
    if (least.rank >= ranks->as_right[right] || least.rank >= ranks->as_left[left]) return false;
    if (least.rank > greatest) greatest = least.rank;
    s[at] = (eti_symbol){least.id, s[at + 1].end};
    n--;
    for (size_t i = at + 1; i < n; i++) s[i] = s[i + 1];
  }
  const uint32_t whole = side_hash(letter.bytes, letter.n);
  return s[0].id == id && greatest < ranks->as_right[whole] && greatest < ranks->as_left[whole];
}

size_t eti_letters_work_bytes(size_t n_tokens) {
  return (n_tokens + 2 * RANKS) * sizeof(uint32_t) + 3 * sizeof(uint64_t);
}

et_status eti_builder_letters(eti_builder *b) {
  uint32_t *bits;
  border_ranks ranks;
  const et_arena before = b->work;
  const uint32_t n = b->header->n_tokens;
  ET_TRY(eti_builder_section(b, ETI_SECTION_LETTERS, (n + 31) / 32, &bits));
  ET_TRY(eti_builder_temporary(b, RANKS, sizeof *ranks.as_right, &ranks.as_right));
  ET_TRY(eti_builder_temporary(b, RANKS, sizeof *ranks.as_left, &ranks.as_left));
  ET_TRY(eti_builder_temporary(b, n, sizeof *ranks.of_token, &ranks.of_token));
  const eti_tokenizer_image image = eti_image_parts(b->header);
  find_ranks(&image.vocab, eti_image_section(b->header, ETI_SECTION_PAIRS), &ranks);
  for (uint32_t id = 0; id < n; id++) {
    const eti_string text = eti_vocab_text(&image.vocab, id);
    if (text.n < 2 || text.n > LETTER_BYTES || eti_utf8_bytes(text.bytes[0]) != text.n) continue;
    if (eti_utf8_valid_bytes(text) == text.n && joins_first(&image, text, id, &ranks))
      set_bit(bits, id);
  }
  b->work = before;
  return ET_OK;
}
