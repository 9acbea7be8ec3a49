// unicode.h — properties of code points, from the tables that cmake/make_unicode.py writes for the
// build from Python's unicodedata.
#ifndef ET_LLM_UNICODE_H
#define ET_LLM_UNICODE_H

#include "llm/text/text.h"

// X(name of the general category), in the order of their numbers.
#define ETI_UNICODE_CATEGORY_LIST(X) \
  X(Lu)                              \
  X(Ll)                              \
  X(Lt)                              \
  X(Lm)                              \
  X(Lo)                              \
  X(Mn)                              \
  X(Mc)                              \
  X(Me)                              \
  X(Nd)                              \
  X(Nl)                              \
  X(No)                              \
  X(Pc)                              \
  X(Pd)                              \
  X(Ps)                              \
  X(Pe)                              \
  X(Pi)                              \
  X(Pf)                              \
  X(Po)                              \
  X(Sm)                              \
  X(Sc)                              \
  X(Sk)                              \
  X(So)                              \
  X(Zs)                              \
  X(Zl)                              \
  X(Zp)                              \
  X(Cc)                              \
  X(Cf)                              \
  X(Cs)                              \
  X(Co)                              \
  X(Cn)

typedef enum eti_unicode_category {
#define ETI_UNICODE_CATEGORY(name) ETI_UNICODE_##name,
  ETI_UNICODE_CATEGORY_LIST(ETI_UNICODE_CATEGORY)
#undef ETI_UNICODE_CATEGORY
} eti_unicode_category;

// Code points from first to the one before the next run's have one category. first << 8 | category,
// in the order of code points; the first run begins at 0.
extern const uint32_t eti_unicode_runs[];
extern const size_t eti_n_unicode_runs;

// "14.0.0"
extern const char eti_unicode_version[];

eti_unicode_category eti_unicode_category_of(uint32_t code_point);

// The property White_Space.
bool eti_unicode_is_space(uint32_t code_point);

// Properties that normalizers ask for, as bits.
typedef enum eti_unicode_flag {
  // The code point changes in this normal form, or its neighbours may: it is no starter, or
  // composes with the one before it.
  ETI_UNICODE_NFC = 1 << 0,
  ETI_UNICODE_NFD = 1 << 1,
  ETI_UNICODE_NFKC = 1 << 2,
  ETI_UNICODE_NFKD = 1 << 3,
  ETI_UNICODE_SECOND = 1 << 4,      // composes with a code point before it
  ETI_UNICODE_CANONICAL = 1 << 5,   // is in the mapping eti_unicode_canonical
  ETI_UNICODE_COMPATIBLE = 1 << 6,  // is in the mapping eti_unicode_compatible
  ETI_UNICODE_LOWER = 1 << 7,       // is in the mapping eti_unicode_lower
  ETI_UNICODE_NONSPACING = 1 << 8,  // Mn
  ETI_UNICODE_MARK = 1 << 9,        // Mn, Mc, Me
  ETI_UNICODE_UNCLEAN = 1 << 10,    // Cc, Cf, Cs, Co and U+FFFD: BERT's clean_text removes them
  ETI_UNICODE_SPACE = 1 << 11,      // White_Space
  ETI_UNICODE_HAN = 1 << 12,        // what BERT calls a Chinese character
  ETI_UNICODE_GRAPHEME = 1 << 13,   // has a grapheme cluster break other than Other
} eti_unicode_flag;

// Grapheme_Cluster_Break: PICTOGRAPH is Extended_Pictographic, CONSONANT and LINKER are values of
// Indic_Conjunct_Break; a linker extends. Regional indicators are OTHER.
typedef enum eti_grapheme {
  ETI_GRAPHEME_OTHER,
  ETI_GRAPHEME_CR,
  ETI_GRAPHEME_LF,
  ETI_GRAPHEME_CONTROL,
  ETI_GRAPHEME_EXTEND,
  ETI_GRAPHEME_ZWJ,
  ETI_GRAPHEME_SPACING,
  ETI_GRAPHEME_PREPEND,
  ETI_GRAPHEME_L,
  ETI_GRAPHEME_V,
  ETI_GRAPHEME_T,
  ETI_GRAPHEME_LV,
  ETI_GRAPHEME_LVT,
  ETI_GRAPHEME_PICTOGRAPH,
  ETI_GRAPHEME_CONSONANT,
  ETI_GRAPHEME_LINKER,
} eti_grapheme;

// Properties that many code points share.
typedef struct eti_unicode_class {
  uint16_t flags;     // of eti_unicode_flag
  uint8_t combining;  // canonical combining class
  uint8_t grapheme;   // eti_grapheme
} eti_unicode_class;

enum { ETI_UNICODE_PAGE_BITS = 8 };  // a page has 256 code points

extern const eti_unicode_class eti_unicode_classes[];
extern const uint8_t eti_unicode_pages[];        // classes, page after page; equal pages once
extern const uint16_t eti_unicode_page_of[];     // [ETI_CODE_POINTS / 256]
extern const uint16_t eti_unicode_page_flags[];  // [ETI_CODE_POINTS / 256] of all its code points

static inline eti_unicode_class eti_unicode_class_of(uint32_t c) {
  const size_t page = eti_unicode_page_of[c >> ETI_UNICODE_PAGE_BITS];
  return eti_unicode_classes[eti_unicode_pages[page << ETI_UNICODE_PAGE_BITS | (c & 0xFF)]];
}

// The flags of a code point, without those that are not wanted.
static inline unsigned eti_unicode_flags_of(uint32_t c, unsigned wanted) {
  if ((eti_unicode_page_flags[c >> ETI_UNICODE_PAGE_BITS] & wanted) == 0) return 0;
  return eti_unicode_class_of(c).flags & wanted;
}

// The place at or behind `at` of the first code point with one of the flags; text.n if there is
// none. ASCII counts as having none.
size_t eti_unicode_find(eti_string text, size_t at, unsigned flags);

// A mapping from code points to one or more others: values[begins[i]…begins[i + 1] - 1] is that of
// keys[i]. Keys of page p are page_begins[p]…page_begins[p + 1] - 1.
typedef struct eti_unicode_mapping {
  const uint32_t *keys;  // sorted
  const uint16_t *begins;
  const uint32_t *values;
  const uint16_t *page_begins;
} eti_unicode_mapping;

// Full decompositions without Hangul's, in canonical order; those that are not canonical; lower
// case without regard to neighbours.
extern const eti_unicode_mapping eti_unicode_canonical, eti_unicode_compatible, eti_unicode_lower;

// The number of code points that c is mapped to, and the first of them; c has to be in the mapping.
size_t eti_unicode_map(const eti_unicode_mapping *mapping, uint32_t c, const uint32_t **to);

typedef struct eti_unicode_composition {
  uint32_t first, second, composite;
} eti_unicode_composition;

extern const eti_unicode_composition eti_unicode_compositions[];  // sorted by first, second
extern const size_t eti_n_unicode_compositions;

// Hangul syllables: composed by arithmetic of a leading consonant, a vowel, a trailing consonant.
enum {
  ETI_HANGUL_S = 0xAC00,
  ETI_HANGUL_L = 0x1100,
  ETI_HANGUL_V = 0x1161,
  ETI_HANGUL_T = 0x11A7,  // the code point before the first trailing consonant
  ETI_HANGUL_N_L = 19,
  ETI_HANGUL_N_V = 21,
  ETI_HANGUL_N_T = 28,
  ETI_HANGUL_N_S = ETI_HANGUL_N_L * ETI_HANGUL_N_V * ETI_HANGUL_N_T,
};

// The code point that two others are composed to; 0 if there is none.
uint32_t eti_unicode_compose(uint32_t first, uint32_t second);

#endif  // ET_LLM_UNICODE_H
