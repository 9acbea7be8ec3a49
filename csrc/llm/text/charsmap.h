// charsmap.h — SentencePiece's precompiled character map, which replaces pieces of text by others.
//
//   u32 bytes of the trie · trie, u32 units · replacements, UTF-8, each with a NUL behind it
//
// A double-array trie of darts-clone leads from a piece's bytes to the place of its replacement.
#ifndef ET_LLM_CHARSMAP_H
#define ET_LLM_CHARSMAP_H

#include "llm/text/text.h"
#include "runtime/et.h"

typedef struct eti_charsmap {
  const uint8_t *units;  // [n_units] of 4 bytes
  size_t n_units;
  eti_string replacements;
  bool ascii[128];  // this byte is a piece, or U+000D of a longer one
} eti_charsmap;

// Opens a map in `bytes`, which are borrowed and may come from a damaged file.
et_status eti_charsmap_open(eti_string bytes, eti_charsmap *map, et_error *err);

// A map that was opened before.
eti_charsmap eti_charsmap_parts(eti_string bytes);

// Bytes that a map makes of one: NFKC's longest is 11, and another map may have a greater one.
enum { ETI_CHARSMAP_GROWTH = 16 };

// The longest piece of the map at the beginning of a text, *n bytes, and its replacement; *n is 0,
// and *to is left alone, if there is none.
et_status eti_charsmap_longest(const eti_charsmap *map, eti_string text, size_t *n, eti_string *to,
                               et_error *err);

// Whether a piece of the map begins with two letters of ASCII.
bool eti_charsmap_has_ascii_pairs(const eti_charsmap *map);

// True if nothing is replaced; false for some texts of which that holds too.
bool eti_charsmap_is_identity(const eti_charsmap *map, eti_string in);

// Replaces pieces as the normalizer Precompiled of HF's tokenizers: a grapheme cluster of less than
// 6 bytes as a whole, by the replacement of its shortest prefix that is in the map; else each code
// point that is in the map. Counts the bytes only if out.data is NULL. ET_OUT_OF_MEMORY if `out` is
// too small, ET_INVALID_EXTERNAL_DATA if the map leads out of its bounds.
et_status eti_charsmap_normalize(const eti_charsmap *map, eti_string in, et_span out, size_t *n_out,
                                 et_error *err);

#endif  // ET_LLM_CHARSMAP_H
