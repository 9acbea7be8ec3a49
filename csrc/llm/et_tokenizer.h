// et_tokenizer.h — text to the ids of tokens and back, beside et.h:
//   1 prepared tokenizers   2 encoding   3 decoding
//
// A tokenizer is prepared once from the file that it came in (tokenizer.json, …): the result is a
// block of bytes that is read where it lies, in a program or a file beside it. All memory is the
// caller's. Compiles as C11 and C++17.
#ifndef ET_TOKENIZER_H
#define ET_TOKENIZER_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 · Prepared tokenizers

// An opened tokenizer. Fields private.
typedef struct et_tokenizer {
  const void *image;
} et_tokenizer;

// The formats of tokenizers' files.
typedef enum et_tokenizer_format {
  ET_TOKENIZER_ANY,            // is found by the first bytes; that of llama2.c by the whole file
  ET_TOKENIZER_HF,             // tokenizer.json of Hugging Face's tokenizers
  ET_TOKENIZER_TIKTOKEN,       // lines "base64 rank"
  ET_TOKENIZER_TEKKEN,         // tekken.json of Mistral
  ET_TOKENIZER_SENTENCEPIECE,  // tokenizer.model of SentencePiece
  ET_TOKENIZER_GGUF,           // the vocabulary of a GGUF file
  ET_TOKENIZER_LLAMA2C,        // tokenizer.bin of llama2.c
  ET_TOKENIZER_FORMAT_COUNT,
} et_tokenizer_format;

// A tokenizer's file. A tiktoken file has neither pattern nor special tokens: without a pattern it
// is split as Llama 3 does, and the ids of special tokens follow its ranks.
typedef struct et_tokenizer_source {
  et_tokenizer_format format;
  const void *file;
  size_t bytes;
  const char *pattern;
  const char *const *special;
  size_t n_special;
} et_tokenizer_source;

// Memory that preparing a file needs: of the result, and for the time of the call. Other fields are
// private: parts that measuring found, which are not searched again.
typedef struct et_tokenizer_needs {
  size_t image_bytes, work_bytes;
  size_t found[12];
} et_tokenizer_needs;

// Measures, then prepares a tokenizer from a file; `needs` are those of the same source, whose
// bytes have not changed. *bytes is the size of the result, which may be moved and kept.
// ET_INVALID_EXTERNAL_DATA for a damaged file, ET_NOT_SUPPORTED for a part that is not known, by
// name.
ET_API et_status et_tokenizer_measure(const et_tokenizer_source *source, et_tokenizer_needs *needs,
                                      et_error *err);
ET_API et_status et_tokenizer_prepare(const et_tokenizer_source *source,
                                      const et_tokenizer_needs *needs, et_span image, et_span work,
                                      size_t *bytes, et_error *err);

// Opens a prepared tokenizer, which is verified and borrowed; its address is a multiple of 8.
ET_API et_status et_tokenizer_open(et_tokenizer *tokenizer, const void *image, size_t bytes,
                                   et_error *err);

ET_API size_t et_tokenizer_vocab_size(const et_tokenizer *tokenizer);

// ---- 2 · Encoding

typedef struct et_encode_options {
  bool special;  // special tokens are found in the text; else they are text like any other
  bool around;   // the tokens of the template are put before and behind
} et_encode_options;

// Ids and bytes of scratch that a text of n bytes needs at most.
ET_API size_t et_tokenizer_max_ids(const et_tokenizer *tokenizer, size_t n);
ET_API size_t et_tokenizer_scratch_bytes(const et_tokenizer *tokenizer, size_t n);

// Encodes a text of UTF-8 to *n_ids ids. ET_INVALID_ARGUMENT for other bytes, with their place;
// ET_OUT_OF_RESOURCES if there are more than `capacity`.
ET_API et_status et_tokenizer_encode(const et_tokenizer *tokenizer, const char *text, size_t n,
                                     const et_encode_options *options, uint32_t *ids,
                                     size_t capacity, size_t *n_ids, et_span scratch,
                                     et_error *err);

// ---- 3 · Decoding

// The bytes of a token in the vocabulary, not NUL-terminated; NULL for an id that is too great.
ET_API const char *et_tokenizer_token(const et_tokenizer *tokenizer, uint32_t id, size_t *n);

// Whether a token is special: never made from a user's text, and left out of decoded text.
ET_API bool et_tokenizer_is_special(const et_tokenizer *tokenizer, uint32_t id);

// The text of ids, as the tokenizer's decoders make it; at most 3 bytes for each byte of a token,
// and 2 more. Special tokens are left out unless `special`. Bytes that are no UTF-8 become U+FFFD.
// Scratch: 2 * et_tokenizer_piece_bytes.
ET_API et_status et_tokenizer_decode(const et_tokenizer *tokenizer, const uint32_t *ids, size_t n,
                                     bool special, char *text, size_t size, size_t *n_text,
                                     et_span scratch, et_error *err);

// Bytes of the longest piece that one token can give.
ET_API size_t et_tokenizer_piece_bytes(const et_tokenizer *tokenizer);

// A text that comes token by token, as zeros before the first one. Pieces are whole letters: the
// bytes of a letter wait for its last one. Fields private.
typedef struct et_text_decoder {
  bool pushed, begun, space, each_byte;
  uint8_t n_pending, pending[4];
  uint16_t n_stripped;
} et_text_decoder;

// The text that a token adds, *n bytes, which may be 0. A failure changes nothing.
ET_API et_status et_text_decoder_push(et_text_decoder *decoder, const et_tokenizer *tokenizer,
                                      uint32_t id, char *text, size_t size, size_t *n,
                                      et_span scratch, et_error *err);
// The end of the text: U+FFFD if a letter is not complete.
ET_API et_status et_text_decoder_end(et_text_decoder *decoder, char *text, size_t size, size_t *n,
                                     et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_TOKENIZER_H
