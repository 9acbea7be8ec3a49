// letters.h — normalizers that look at one code point at a time, and BERT's, which also
// decomposes. Relies on valid UTF-8 and on the tables of unicode.h.
#ifndef ET_LLM_LETTERS_H
#define ET_LLM_LETTERS_H

#include "llm/text/normalize.h"

// The text without the white space at its ends.
eti_string eti_strip(eti_string in, bool left, bool right);

// Lower case of each code point, as Rust's char::to_lowercase: U+0130 becomes two, and a sigma at
// the end of a word is no special case. `out` has eti_lowercase_bytes(in.n) bytes.
static inline size_t eti_lowercase_bytes(size_t n) {
  return n + n / 2;  // U+023A of 2 bytes becomes U+2C65 of 3
}
bool eti_lowercase_is_identity(eti_string in);
et_status eti_lowercase(eti_string in, et_span out, size_t *n_out, et_error *err);

// Removes marks: code points of the categories Mn, Mc and Me. `out` has in.n bytes.
bool eti_strip_accents_is_identity(eti_string in);
et_status eti_strip_accents(eti_string in, et_span out, size_t *n_out, et_error *err);

// The steps of BERT's normalizer, in this order.
typedef struct eti_bert_options {
  bool clean_text;            // removes controls, U+0000, U+FFFD; white space becomes ' '
  bool handle_chinese_chars;  // puts ' ' before and behind each
  bool strip_accents;         // NFD without Mn; in tokenizer.json, null means as `lowercase`
  bool lowercase;
} eti_bert_options;

// Bytes of `out` and `scratch` for a text of n bytes. `scratch` is aligned to 4.
static inline size_t eti_bert_bytes(size_t n) {
  return 3 * n;
}
static inline size_t eti_bert_scratch_bytes(size_t n) {
  return eti_normalize_scratch_bytes(n) + n + eti_normalize_bytes(ETI_NFD, n);
}
bool eti_bert_is_identity(eti_bert_options options, eti_string in);
et_status eti_bert_normalize(eti_bert_options options, eti_string in, et_span out, size_t *n_out,
                             et_span scratch, et_error *err);

#endif  // ET_LLM_LETTERS_H
