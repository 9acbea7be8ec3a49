// models.c — words by the models Unigram, WordPiece and WordLevel.
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/encode.h"

#include <assert.h>

static et_status emit_unknown(eti_encoder *e) {
  const uint32_t id = e->image.header->unknown;
  ET_CHECK(id != ETI_NO_TOKEN, e->err, ET_INVALID_ARGUMENT,
           "tokenizer: expected letters of its vocabulary, as it has no unknown token, got others");
  return eti_encoder_emit(e, id);
}

et_status eti_encode_unknown(eti_encoder *e, eti_string part) {
  const uint32_t *const byte_ids = e->image.byte_ids;
  bool all = byte_ids != NULL;
  for (size_t i = 0; i < part.n && all; i++) all = byte_ids[part.bytes[i]] != ETI_NO_TOKEN;
  if (!all) return emit_unknown(e);
  for (size_t i = 0; i < part.n; i++) ET_TRY(eti_encoder_emit(e, byte_ids[part.bytes[i]]));
  return ET_OK;
}

et_status eti_encode_wordlevel(eti_encoder *e, eti_string word) {
  const uint32_t id = eti_vocab_find(&e->image.vocab, word);
  return id == ETI_NO_TOKEN ? eti_encode_unknown(e, word) : eti_encoder_emit(e, id);
}

// ---- WordPiece

static size_t count_letters(eti_string text) {
  size_t n = 0;
  for (size_t i = 0; i < text.n; i++) n += (text.bytes[i] & 0xC0) != 0x80;
  return n;
}

// The longest token at the beginning of a text, of whole letters; *n is its bytes.
static uint32_t longest_token(const eti_vocab *vocab, eti_string text, size_t least, size_t *n) {
  for (size_t end = text.n < vocab->longest ? text.n : vocab->longest; end > least; end--) {
    if (end < text.n && (text.bytes[end] & 0xC0) == 0x80) continue;
    const uint32_t id = eti_vocab_find(vocab, (eti_string){text.bytes, end});
    *n = end;
    if (id != ETI_NO_TOKEN) return id;
  }
  return ETI_NO_TOKEN;
}

// A word whose parts are not all tokens is unknown as a whole.
et_status eti_encode_wordpiece(eti_encoder *e, eti_string word) {
  const eti_image_header *const h = e->image.header;
  const eti_string prefix = {(const uint8_t *)h + h->affix, h->affix_bytes};
  if (count_letters(word) > h->max_letters) return emit_unknown(e);
  const et_arena before = e->scratch;
  const size_t first_id = e->n_ids;
  uint8_t *text;
  ET_TRY(eti_encoder_scratch(e, prefix.n + word.n, &text));
  memcpy(text + prefix.n, word.bytes, word.n);
  for (size_t at = 0; at < word.n;) {
    // The prefix takes the place of the letters before, which are done.
    const size_t extra = at == 0 ? 0 : prefix.n;
    uint8_t *const rest = text + prefix.n + at - extra;
    memcpy(rest, prefix.bytes, extra);
    size_t n = 0;
    const uint32_t id =
        longest_token(&e->image.vocab, (eti_string){rest, word.n - at + extra}, extra, &n);
    if (id == ETI_NO_TOKEN) {
      e->n_ids = first_id;
      e->scratch = before;
      return emit_unknown(e);
    }
    ET_TRY(eti_encoder_emit(e, id));
    at += n - extra;
  }
  e->scratch = before;
  return ET_OK;
}

// ---- Unigram

#define NO_WAY (UINT32_MAX - 1)  // no token has this id

// The best way to a place of a word: its score, and the last token with its first byte.
typedef struct way {
  double score;
  uint32_t begin, id;
} way;
static_assert(sizeof(way) == ETI_WAY_BYTES, "scratch is measured by it");

static void offer(way *to, double score, size_t begin, uint32_t id) {
  if (to->id == NO_WAY || score > to->score) *to = (way){score, (uint32_t)begin, id};
}

// SentencePiece adds scores as f32: of nearly equal ways, roundings decide.
static double sum(const eti_tokenizer_image *image, double a, double b) {
  const bool f32 = (image->header->flags & ETI_F32_SUMS) != 0;
  return f32 ? (double)((float)a + (float)b) : a + b;
}

// Great sums of f32 begin anew at 0 from time to time, so that their roundings stay small.
static void begin_anew(way *ways, size_t n, size_t at, size_t longest) {
  const float most = 100000.0f, offset = (float)ways[at].score;
  if (offset >= -most && offset <= most) return;
  for (size_t i = at; i <= n && i - at <= longest; i++)
    if (ways[i].id != NO_WAY) ways[i].score = (double)((float)ways[i].score - offset);
}

// Offers the tokens that begin at a place; a letter that is none is the unknown token.
static void tokens_from(const eti_tokenizer_image *image, eti_string word, way *ways,
                        size_t begin) {
  const eti_vocab *const vocab = &image->vocab;
  const double unknown_score = image->scores[vocab->n];
  const double score = ways[begin].score;
  eti_letter letter = eti_letter_at(word, begin);
  const size_t letter_end = begin + letter.bytes;
  bool has_letter = false;
  for (size_t end = letter_end; end - begin <= vocab->longest;) {
    const uint32_t id = eti_vocab_find(vocab, (eti_string){word.bytes + begin, end - begin});
    if (id != ETI_NO_TOKEN) {
      offer(&ways[end], sum(image, score, image->scores[id]), begin, id);
      has_letter |= end == letter_end;
    }
    if (end == word.n) break;
    const eti_letter next = eti_letter_at(word, end);
    const uint32_t bit = eti_span_bit(letter.value, next.value);
    if (image->spans != NULL && !eti_bit_of(image->spans, bit)) break;
    letter = next;
    end += next.bytes;
  }
  if (!has_letter) offer(&ways[letter_end], sum(image, score, unknown_score), begin, ETI_NO_TOKEN);
}

et_status eti_encode_unigram(eti_encoder *e, eti_string word) {
  const et_arena before = e->scratch;
  way *ways;
  ET_TRY(eti_encoder_scratch(e, (word.n + 1) * sizeof *ways, &ways));
  for (size_t i = 0; i <= word.n; i++) ways[i] = (way){0, 0, NO_WAY};
  ways[0].id = ETI_NO_TOKEN;
  const bool f32 = (e->image.header->flags & ETI_F32_SUMS) != 0;
  for (size_t i = 0; i < word.n; i++) {
    if (ways[i].id == NO_WAY) continue;
    if (f32) begin_anew(ways, word.n, i, e->image.vocab.longest);
    tokens_from(&e->image, word, ways, i);
  }
  // The chain from the end is turned round: `begin` becomes the end of the token that begins here.
  uint32_t end = (uint32_t)word.n, next_id = ways[word.n].id, begin = ways[word.n].begin;
  for (uint32_t at = end; at > 0;) {
    const way before_it = ways[begin];
    ways[begin] = (way){0, at, next_id};
    at = begin;
    begin = before_it.begin;
    next_id = before_it.id;
  }
  for (uint32_t at = 0; at < word.n;) {
    end = ways[at].begin;
    if (ways[at].id != ETI_NO_TOKEN) {
      ET_TRY(eti_encoder_emit(e, ways[at].id));
    } else {
      const bool fused = (e->image.header->flags & ETI_FUSE_UNKNOWN) != 0;
      while (fused && end < word.n && ways[end].id == ETI_NO_TOKEN) end = ways[end].begin;
      ET_TRY(eti_encode_unknown(e, (eti_string){word.bytes + at, end - at}));
    }
    at = end;
  }
  e->scratch = before;
  return ET_OK;
}
