// image.h — a tokenizer in one block of bytes, read where it lies: the form that a program carries,
// and that the readers of other formats make.
//
// A header, then sections, each aligned to 8. Little-endian. Offsets are from the beginning of the
// image. Lists of steps (normalizers, splitters and decoders) are in the order of their use.
#ifndef ET_LLM_IMAGE_H
#define ET_LLM_IMAGE_H

#include "llm/tokenizer/vocab.h"
#include "runtime/et.h"

enum {
  ETI_IMAGE_MAGIC = 0x4B545445,  // "ETTK"
  ETI_IMAGE_VERSION = 2,
  ETI_MAX_STEPS = 16,  // of one list
};

typedef enum eti_model {
  ETI_BPE,        // joins neighbours
  ETI_UNIGRAM,    // the path of the greatest sum of scores
  ETI_WORDPIECE,  // the longest token from the left, again and again
  ETI_WORDLEVEL,  // whole words
  ETI_MODEL_COUNT,
} eti_model;

// X(enumerator, bytes of an item)
#define ETI_SECTION_LIST(X)                                                                   \
  X(ENDS, 4)         /* of tokens in BYTES */                                                 \
  X(BYTES, 1)        /* of all tokens, in the order of ids */                                 \
  X(KINDS, 1)        /* eti_token_kind, by id */                                              \
  X(SLOTS, 12)       /* eti_token_slot */                                                     \
  X(PAIRS, 16)       /* eti_pair_slot */                                                      \
  X(RANKS, 4)        /* by id; left out if a token's rank is its id */                        \
  X(SPANS, 4)        /* bits of eti_span_bit: some token has these letters side by side */    \
  X(LETTERS, 4)      /* bits by id: a letter that BPE joins first of all (build_letters.c) */ \
  X(BYTE_IDS, 4)     /* the token of each byte; none if BPE begins with letters */            \
  X(SCORES, 8)       /* f64, by id, and that of an unknown letter (unigram) */                \
  X(PIECES, 16)      /* eti_pair_slot: a trie of user-defined pieces (pieces.h) */            \
  X(ADDED, 16)       /* eti_added_token */                                                    \
  X(ADDED_SLOTS, 12) /* eti_token_slot, whose ids are places in ADDED */                      \
  X(ADDED_SIZES, 4)  /* the different numbers of bytes of added tokens, greatest first */     \
  X(ADDED_PAIRS, 4)  /* bits, by the two bytes that an added token begins with */             \
  X(NORMALIZERS, 32) /* eti_step_record */                                                    \
  X(SPLITTERS, 32)   /* eti_step_record */                                                    \
  X(DECODERS, 32)    /* eti_step_record */                                                    \
  X(PREFIX, 4)       /* ids before a text */                                                  \
  X(SUFFIX, 4)       /* ids behind it */

typedef enum eti_section {
#define ETI_SECTION(name, bytes) ETI_SECTION_##name,
  ETI_SECTION_LIST(ETI_SECTION)
#undef ETI_SECTION
      ETI_SECTION_COUNT,
} eti_section;

typedef enum eti_token_kind {
  ETI_TOKEN_NORMAL,
  ETI_TOKEN_UNKNOWN,
  ETI_TOKEN_SPECIAL,  // never made from a user's text, and left out of decoded text
  ETI_TOKEN_ADDED,    // found in a text before it is split only
  ETI_TOKEN_UNUSED,   // an id without a token
  ETI_TOKEN_BYTE,     // <0xHH>: a byte of a character that is no token
  ETI_TOKEN_KIND_COUNT,
} eti_token_kind;

// A token that is found in the text before it is split.
typedef struct eti_added_token {
  uint32_t id, flags;         // eti_added_flag
  uint32_t text, text_bytes;  // that is searched: normalized if the token is
} eti_added_token;

typedef enum eti_added_flag {
  ETI_ADDED_SPECIAL = 1,
  ETI_ADDED_NORMALIZED = 2,   // found in the normalized text
  ETI_ADDED_SINGLE_WORD = 4,  // not beside a letter
  ETI_ADDED_LSTRIP = 8,       // with the spaces before it
  ETI_ADDED_RSTRIP = 16,      // with the spaces behind it
} eti_added_flag;

typedef enum eti_step_id {
  // normalizers
  ETI_STEP_NFC = 1,
  ETI_STEP_NFD,
  ETI_STEP_NFKC,
  ETI_STEP_NFKD,
  ETI_STEP_LOWERCASE,
  ETI_STEP_STRIP,  // spaces; flags 1: on the left, 2: on the right
  ETI_STEP_STRIP_ACCENTS,
  ETI_STEP_REPLACE,      // matches of `pattern`, or `text`, become `other`; also a decoder
  ETI_STEP_PREPEND,      // `text`
  ETI_STEP_CHARSMAP,     // `text` is the map
  ETI_STEP_BERT,         // flags 1: clean, 2: spaces around CJK, 4: strip accents, 8: lowercase
  ETI_STEP_PIECES_TEXT,  // SentencePiece's: flags eti_pieces_flag, `text` is a charsmap, if any
  // splitters
  ETI_STEP_SPLIT,         // at `pattern`, or `text`; flags: eti_split
  ETI_STEP_PREFIX_SPACE,  // before a piece that begins without one
  ETI_STEP_METASPACE,     // spaces become `text`; flags: eti_metaspace; also a decoder
  ETI_STEP_PIECES,        // user-defined pieces, and what is between them
  // decoders
  ETI_STEP_BYTE_FALLBACK,  // <0xHH> becomes a byte
  ETI_STEP_FUSE,
  ETI_STEP_STRIP_TEXT,  // `text`, up to `flags & 0xFFFF` times on the left, `flags >> 16` on the
                        // right
  ETI_STEP_WORDPIECES,  // a space before tokens without the prefix `text`; flags 1: clean up
  ETI_STEP_BPE_SUFFIX,  // `text` becomes a space
  ETI_STEP_PIECES_DECODER,  // SentencePiece's: flags eti_pieces_flag; unknown tokens become `other`
} eti_step_id;

typedef enum eti_split {
  ETI_SPLIT_REMOVED,
  ETI_SPLIT_ISOLATED,
  ETI_SPLIT_WITH_PREVIOUS,
  ETI_SPLIT_WITH_NEXT,
  ETI_SPLIT_CONTIGUOUS,
  ETI_SPLIT_INVERT = 8,  // what does not match is the delimiter
} eti_split;

typedef enum eti_metaspace {
  ETI_METASPACE_ALWAYS = 1,  // one is put before each piece that begins without one
  ETI_METASPACE_FIRST = 2,   // before the first piece of a text only
  ETI_METASPACE_SPLIT = 4,
} eti_metaspace;

typedef enum eti_pieces_flag {
  ETI_PIECES_DUMMY = 1,   // a space is put before the text
  ETI_PIECES_TRIM = 2,    // spaces at both ends are dropped, and all but one of those between words
  ETI_PIECES_ESCAPE = 4,  // spaces become U+2581
  ETI_PIECES_PAIRS = 16,  // a piece of the charsmap begins with two letters of ASCII
  ETI_PIECES_RAW = 32,    // user-defined pieces are decoded as they are
  ETI_PIECES_SUFFIX = 8,  // the space of ETI_PIECES_DUMMY is put behind the text
} eti_pieces_flag;

typedef struct eti_step_record {
  uint32_t id, flags;
  uint32_t pattern, pattern_bytes;  // a compiled pattern; none if 0 bytes
  uint32_t text, text_bytes;
  uint32_t other, other_bytes;
} eti_step_record;

typedef struct eti_image_header {
  uint32_t magic, version, bytes, model;
  uint32_t n_tokens, longest, n_pairs;
  uint32_t unknown, bos, eos;   // ETI_NO_TOKEN if there is none
  uint32_t flags;               // eti_image_flag
  uint32_t max_letters;         // a longer word is unknown (WordPiece)
  uint32_t affix, affix_bytes;  // before the parts of a word but the first (WordPiece), or at its
                                // end (BPE)
  struct {
    uint32_t offset, count;
  } sections[ETI_SECTION_COUNT];
} eti_image_header;

typedef enum eti_image_flag {
  ETI_BYTE_LEVEL = 1,    // tokens are bytes of the text
  ETI_FUSE_UNKNOWN = 2,  // unknown characters that follow each other are one token
  ETI_WHOLE_WORDS = 4,   // a word that is a token is not joined from its parts
  ETI_JOIN_UNKNOWN = 8,  // letters that are no tokens are joined like others (BPE without pairs)
  ETI_NO_JOINS = 16,     // letters are not joined (BPE)
  ETI_F32_SUMS = 32,     // scores are f32, and added as such (unigram)
} eti_image_flag;

enum { ETI_SPAN_BITS = 1 << 18, ETI_PAIR_BITS = 1 << 16 };

// The parts of a verified image.
typedef struct eti_tokenizer_image {
  const eti_image_header *header;
  eti_vocab vocab;
  const uint8_t *kinds;
  const uint32_t *byte_ids;
  const uint32_t *spans;    // NULL: any token may span any two units
  const uint32_t *letters;  // NULL: BPE begins with bytes
  const double *scores;
} eti_tokenizer_image;

// The parts of an image that is known to be right.
eti_tokenizer_image eti_image_parts(const eti_image_header *header);
// Verifies an image, which may come from a damaged file, and finds its parts. It is borrowed.
et_status eti_image_open(eti_string bytes, eti_tokenizer_image *image, et_error *err);

static inline const void *eti_image_section(const eti_image_header *header, eti_section section) {
  return (const uint8_t *)header + header->sections[section].offset;
}
static inline uint32_t eti_image_count(const eti_image_header *header, eti_section section) {
  return header->sections[section].count;
}

// The bit of two letters of a text that are side by side, and that of two bytes where a token holds
// only a part of a letter. If both are 0, no token spans the border between the letters, so that
// both sides can be encoded alone.
static inline uint32_t eti_span_bit(uint32_t left, uint32_t right) {
  return (uint32_t)eti_mix((uint64_t)left << 32 | right) & (ETI_SPAN_BITS - 1);
}
static inline uint32_t eti_part_bit(uint8_t left, uint8_t right) {
  return eti_span_bit(UINT32_MAX - left, right);
}
static inline bool eti_bit_of(const uint32_t *bits, uint32_t bit) {
  return (bits[bit / 32] >> (bit % 32) & 1) != 0;
}

#endif  // ET_LLM_IMAGE_H
