// gguf_file.h — the metadata of a GGUF file: the values that describe its tokenizer.
#ifndef ET_LLM_GGUF_FILE_H
#define ET_LLM_GGUF_FILE_H

#include "llm/text/text.h"
#include "runtime/et.h"

// X(enumerator, key behind "tokenizer.ggml.")
#define ETI_GGUF_KEY_LIST(X)           \
  X(MODEL, "model")                    \
  X(PRE, "pre")                        \
  X(TOKENS, "tokens")                  \
  X(SCORES, "scores")                  \
  X(TYPES, "token_type")               \
  X(MERGES, "merges")                  \
  X(BOS, "bos_token_id")               \
  X(EOS, "eos_token_id")               \
  X(UNKNOWN, "unknown_token_id")       \
  X(SEPARATOR, "seperator_token_id")   \
  X(ADD_BOS, "add_bos_token")          \
  X(ADD_EOS, "add_eos_token")          \
  X(ADD_SPACE, "add_space_prefix")     \
  X(TRIM, "remove_extra_whitespaces")  \
  X(CHARSMAP, "precompiled_charsmap")  \
  X(LOWERCASE, "normalizer.lowercase") \
  X(STRIP_ACCENTS, "normalizer.strip_accents")

typedef enum eti_gguf_key {
#define ETI_GGUF_KEY(name, key) ETI_GGUF_##name,
  ETI_GGUF_KEY_LIST(ETI_GGUF_KEY)
#undef ETI_GGUF_KEY
      ETI_GGUF_KEY_COUNT,
} eti_gguf_key;

typedef enum eti_gguf_type {
  ETI_GGUF_U8,
  ETI_GGUF_I8,
  ETI_GGUF_U16,
  ETI_GGUF_I16,
  ETI_GGUF_U32,
  ETI_GGUF_I32,
  ETI_GGUF_F32,
  ETI_GGUF_BOOL,
  ETI_GGUF_STRING,
  ETI_GGUF_ARRAY,
  ETI_GGUF_U64,
  ETI_GGUF_I64,
  ETI_GGUF_F64,
  ETI_GGUF_TYPE_COUNT,
} eti_gguf_type;

// A value, whose bytes are known to be in the file: of an array the items, one behind the other.
typedef struct eti_gguf_value {
  bool found, is_array;
  eti_gguf_type type;  // of an array: of its items
  size_t n;            // items; 1 if it is no array
  eti_string bytes;
} eti_gguf_value;

typedef struct eti_gguf_file {
  eti_gguf_value values[ETI_GGUF_KEY_COUNT];
} eti_gguf_file;

// Finds the values of a file. Tensors are not looked at.
et_status eti_gguf_open(eti_string bytes, eti_gguf_file *file, et_error *err);

// A value of a type, or of an array of items of a type; ET_INVALID_EXTERNAL_DATA if it has another.
// Missing values are left alone, and arrays of no items have n 0.
et_status eti_gguf_array(const eti_gguf_file *file, eti_gguf_key key, eti_gguf_type type,
                         eti_gguf_value *value, et_error *err);
et_status eti_gguf_text(const eti_gguf_file *file, eti_gguf_key key, eti_string *text,
                        et_error *err);
et_status eti_gguf_bool(const eti_gguf_file *file, eti_gguf_key key, bool *value, et_error *err);
et_status eti_gguf_id(const eti_gguf_file *file, eti_gguf_key key, uint32_t *id, et_error *err);

// The next string of an array of strings, at *at in its bytes.
eti_string eti_gguf_next_string(const eti_gguf_value *value, size_t *at);

#endif  // ET_LLM_GGUF_FILE_H
