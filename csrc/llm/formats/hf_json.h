// hf_json.h — reads tokenizer.json, the format of Hugging Face's tokenizers, to a prepared image.
//
// The parts of the file are found first; then the image is made from them in the order steps,
// tokens, pairs, added tokens, template.
#ifndef ET_LLM_HF_JSON_H
#define ET_LLM_HF_JSON_H

#include "llm/formats/json.h"
#include "llm/tokenizer/build.h"

// The vocabulary or the merges: the place of the list in the file, and what was counted in it.
typedef struct eti_hf_list {
  size_t begin, end, n, text_bytes, longest, end_id;  // end_id: the greatest id and 1
} eti_hf_list;

// The lists of a file that was scanned before.
typedef struct eti_hf_known {
  eti_hf_list vocab, merges;
} eti_hf_known;

// The parts of a tokenizer.json, as values of JSON; empty if they are missing or null.
typedef struct eti_hf_parts {
  eti_string file, normalizer, pre_tokenizer, post_processor, decoder;
  eti_hf_list added;
  // of the model
  eti_string type, unk_token, suffix, prefix;
  eti_hf_list vocab, merges;
  bool byte_fallback, fuse_unk, ignore_merges;
  int64_t unk_id, max_letters;
  // of the vocabulary and added tokens
  size_t text_bytes, longest;
  uint32_t n_ids;
} eti_hf_parts;

// Finds and counts the parts. Lists that begin where those of `known` begin are not read again.
et_status eti_hf_scan(eti_string json, const eti_hf_known *known, eti_hf_parts *parts,
                      et_error *err);
// Bytes that the image and the temporary memory need at most.
void eti_hf_sizes(const eti_hf_parts *parts, size_t *image_bytes, size_t *work_bytes);
static inline eti_string eti_hf_list_text(const eti_hf_parts *p, const eti_hf_list *list) {
  return (eti_string){p->file.bytes + list->begin, list->end - list->begin};
}
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
