// pieces.h — texts of SentencePiece: the user-defined pieces in them, which are never joined with
// others, and the normalizer that leaves these as they are.
#ifndef ET_LLM_PIECES_H
#define ET_LLM_PIECES_H

#include "llm/tokenizer/encode.h"

// A trie of the user-defined pieces. A slot is a step: from the state `left` by the byte `right` to
// the state `joined`; `rank` is the piece that ends there, if any. It begins in the state 0.
typedef struct eti_pieces {
  const eti_pair_slot *slots;  // [mask + 1]
  uint32_t mask;
  bool first[256];  // a piece begins with this byte
} eti_pieces;

eti_pieces eti_pieces_of(const eti_image_header *header);
// The bytes of the longest piece at the beginning of a text, and its id; 0 if there is none.
size_t eti_pieces_longest(const eti_pieces *pieces, eti_string text, uint32_t *id);

// The normalizer of ETI_STEP_PIECES_TEXT, and the bytes that it makes of n at most.
et_status eti_pieces_normalize(eti_encoder *e, const eti_step_record *step, eti_string in,
                               eti_string *out);
size_t eti_pieces_normalized_bytes(const eti_step_record *step, size_t n);

// The splitter ETI_STEP_PIECES: encodes a normalized text.
et_status eti_encode_pieces(eti_encoder *e, eti_string text);

#endif  // ET_LLM_PIECES_H
