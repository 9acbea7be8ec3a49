// hf_json.h — reads tokenizer.json, the format of Hugging Face's tokenizers, to a prepared image.
//
// The parts of the file are found first; then the image is made from them in the order steps,
// tokens, pairs, added tokens, template.
#ifndef ET_LLM_HF_JSON_H
#define ET_LLM_HF_JSON_H

#include "llm/formats/json.h"
#include "llm/tokenizer/build.h"

// The parts of a tokenizer.json, as values of JSON; empty if they are missing or null.
typedef struct eti_hf_parts {
  eti_string added_tokens, normalizer, pre_tokenizer, post_processor, decoder;
  // of the model
  eti_string type, vocab, merges, unk_token, suffix, prefix;
  bool byte_fallback, fuse_unk, ignore_merges;
  int64_t unk_id, max_letters;
  // counted
  size_t n_vocab, n_merges, n_added, text_bytes, longest;
  int64_t greatest_id;
  uint32_t n_ids;
} eti_hf_parts;

// Finds and counts the parts.
et_status eti_hf_scan(eti_string json, eti_hf_parts *parts, et_error *err);
// Bytes that the image and the temporary memory need at most.
void eti_hf_sizes(const eti_hf_parts *parts, size_t *image_bytes, size_t *work_bytes);
// An entry of the vocabulary: "token": id, or ["token", score] whose id is its place i.
et_status eti_hf_vocab_entry(eti_json *json, bool listed, size_t i, eti_string *raw, int64_t *id,
                             double *score);

typedef struct eti_hf_added {
  eti_string content;
  int64_t id;
  bool special, normalized, single_word, lstrip, rstrip;
} eti_hf_added;
et_status eti_hf_added_entry(eti_json *json, eti_hf_added *entry);

// The lists of steps: normalizers, splitters and decoders (hf_steps.c); sets ETI_BYTE_LEVEL.
et_status eti_hf_steps(const eti_hf_parts *parts, eti_builder *b);
// The ids before and behind a text (hf_template.c).
et_status eti_hf_template(const eti_hf_parts *parts, eti_builder *b);

// Copies a raw string, unescaped, to temporary memory.
et_status eti_hf_text(eti_builder *b, eti_string raw, eti_string *text);

#endif  // ET_LLM_HF_JSON_H
