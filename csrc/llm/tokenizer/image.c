#include "llm/tokenizer/image.h"

#include "llm/pattern/pattern.h"
#include "llm/text/charsmap.h"
#include "runtime/bytes.h"

static const struct {
  const char *name;
  uint32_t bytes;
} SECTIONS[] = {
#define SECTION(name, bytes) {#name, bytes},
    ETI_SECTION_LIST(SECTION)
#undef SECTION
};

#define DAMAGED(condition, err, ...) \
  ET_CHECK(condition, err, ET_INVALID_EXTERNAL_DATA, "tokenizer: " __VA_ARGS__)

static et_status verify_sections(const eti_image_header *h, et_error *err) {
  for (size_t i = 0; i < ETI_SECTION_COUNT; i++) {
    const uint64_t offset = h->sections[i].offset;
    const uint64_t size = (uint64_t)h->sections[i].count * SECTIONS[i].bytes;
    DAMAGED(eti_inside(offset, size, h->bytes) && offset % 8 == 0, err,
            "section %s: expected %llu bytes at a multiple of 8 in %u bytes, got them at %u",
            SECTIONS[i].name, (unsigned long long)size, h->bytes, h->sections[i].offset);
  }
  return ET_OK;
}

// The number of items of a section: `expected`, or 0 if it may be left out.
static et_status verify_count(const eti_image_header *h, eti_section section, uint32_t expected,
                              bool optional, et_error *err) {
  const uint32_t count = eti_image_count(h, section);
  DAMAGED(count == expected || (optional && count == 0), err,
          "section %s: expected %u items, got %u", SECTIONS[section].name, expected, count);
  return ET_OK;
}

// Ids below a limit, or ETI_NO_TOKEN.
static et_status verify_ids(const eti_image_header *h, eti_section section, uint32_t limit,
                            et_error *err) {
  const uint32_t *const ids = eti_image_section(h, section);
  for (uint32_t i = 0; i < eti_image_count(h, section); i++)
    DAMAGED(ids[i] < limit || ids[i] == ETI_NO_TOKEN, err,
            "section %s: expected ids below %u, got %u", SECTIONS[section].name, limit, ids[i]);
  return ET_OK;
}

// A table with ids below a limit and at least one empty slot, where each search ends.
static et_status verify_slots(const eti_image_header *h, eti_section section, uint32_t limit,
                              et_error *err) {
  const uint32_t n = eti_image_count(h, section);
  DAMAGED(n > 0 && (n & (n - 1)) == 0, err, "section %s: expected a power of two of slots, got %u",
          SECTIONS[section].name, n);
  const eti_token_slot *const slots = eti_image_section(h, section);
  uint32_t n_empty = 0, greatest = 0;
  for (uint32_t i = 0; i < n; i++) {
    const bool empty = slots[i].id == ETI_NO_TOKEN;
    n_empty += empty;
    if (!empty && slots[i].id > greatest) greatest = slots[i].id;
  }
  DAMAGED(n_empty > 0 && (n_empty == n || greatest < limit), err,
          "section %s: expected an empty slot and ids below %u, got %u empty ones and %u",
          SECTIONS[section].name, limit, n_empty, greatest);
  return ET_OK;
}

static et_status verify_pairs(const eti_image_header *h, et_error *err) {
  const uint32_t n = eti_image_count(h, ETI_SECTION_PAIRS);
  if (h->n_pairs == 0) return ET_OK;
  DAMAGED(n > 0 && (n & (n - 1)) == 0, err, "section PAIRS: expected a power of two, got %u slots",
          n);
  const eti_pair_slot *const slots = eti_image_section(h, ETI_SECTION_PAIRS);
  uint32_t n_empty = 0, greatest = 0;
  for (uint32_t i = 0; i < n; i++) {
    const bool empty = slots[i].joined == ETI_NO_TOKEN;
    n_empty += empty;
    if (!empty && slots[i].joined > greatest) greatest = slots[i].joined;
  }
  DAMAGED(n_empty > 0 && greatest < h->n_tokens, err,
          "section PAIRS: expected an empty slot and ids below %u, got %u empty ones and %u",
          h->n_tokens, n_empty, greatest);
  return ET_OK;
}

static et_status verify_pieces(const eti_image_header *h, et_error *err) {
  const uint32_t n = eti_image_count(h, ETI_SECTION_PIECES);
  if (n == 0) return ET_OK;
  DAMAGED((n & (n - 1)) == 0, err, "section PIECES: expected a power of two, got %u slots", n);
  const eti_pair_slot *const slots = eti_image_section(h, ETI_SECTION_PIECES);
  uint32_t n_empty = 0;
  for (uint32_t i = 0; i < n; i++) {
    const bool empty = slots[i].joined == ETI_NO_TOKEN;
    n_empty += empty;
    DAMAGED(empty || slots[i].rank < h->n_tokens || slots[i].rank == ETI_NO_TOKEN, err,
            "section PIECES: expected ids below %u, got %u", h->n_tokens, slots[i].rank);
  }
  DAMAGED(n_empty > 0, err, "section PIECES: expected an empty slot in %u, got none", n);
  return ET_OK;
}

static et_status verify_range(const eti_image_header *h, uint32_t offset, uint32_t bytes,
                              et_error *err) {
  DAMAGED(eti_inside(offset, bytes, h->bytes), err,
          "expected texts inside of %u bytes, got one of %u at %u", h->bytes, bytes, offset);
  return ET_OK;
}

static et_status verify_tokens(const eti_image_header *h, et_error *err) {
  const uint32_t *const ends = eti_image_section(h, ETI_SECTION_ENDS);
  const uint8_t *const kinds = eti_image_section(h, ETI_SECTION_KINDS);
  uint32_t begin = 0, longest = 0;
  for (uint32_t i = 0; i < h->n_tokens; i++) {
    DAMAGED(ends[i] >= begin && ends[i] <= eti_image_count(h, ETI_SECTION_BYTES), err,
            "token %u: expected its bytes between %u and %u, got their end at %u", i, begin,
            eti_image_count(h, ETI_SECTION_BYTES), ends[i]);
    DAMAGED(kinds[i] < ETI_TOKEN_KIND_COUNT, err, "token %u: expected a kind below %d, got %d", i,
            ETI_TOKEN_KIND_COUNT, kinds[i]);
    if (ends[i] - begin > longest) longest = ends[i] - begin;
    begin = ends[i];
  }
  DAMAGED(longest == h->longest, err, "expected a longest token of %u bytes, got %u", h->longest,
          longest);
  return ET_OK;
}

static et_status verify_added(const eti_image_header *h, et_error *err) {
  const eti_added_token *const added = eti_image_section(h, ETI_SECTION_ADDED);
  const uint32_t n = eti_image_count(h, ETI_SECTION_ADDED);
  for (uint32_t i = 0; i < n; i++) {
    DAMAGED(added[i].id < h->n_tokens && added[i].text_bytes > 0, err,
            "added token %u: expected some text and an id below %u, got %u bytes and %u", i,
            h->n_tokens, added[i].text_bytes, added[i].id);
    ET_TRY(verify_range(h, added[i].text, added[i].text_bytes, err));
  }
  if (n == 0) return verify_count(h, ETI_SECTION_ADDED_SIZES, 0, false, err);
  ET_TRY(verify_count(h, ETI_SECTION_ADDED_PAIRS, ETI_PAIR_BITS / 32, false, err));
  return verify_slots(h, ETI_SECTION_ADDED_SLOTS, n, err);
}

static et_status verify_steps(const eti_image_header *h, eti_section section, et_error *err) {
  const eti_step_record *const steps = eti_image_section(h, section);
  const uint32_t n = eti_image_count(h, section);
  DAMAGED(n <= ETI_MAX_STEPS, err, "section %s: expected at most %d steps, got %u",
          SECTIONS[section].name, ETI_MAX_STEPS, n);
  for (uint32_t i = 0; i < n; i++) {
    ET_TRY(verify_range(h, steps[i].text, steps[i].text_bytes, err));
    ET_TRY(verify_range(h, steps[i].other, steps[i].other_bytes, err));
    ET_TRY(verify_range(h, steps[i].pattern, steps[i].pattern_bytes, err));
    const bool maps_pieces = steps[i].id == ETI_STEP_PIECES_TEXT && steps[i].text_bytes > 0;
    if (steps[i].id == ETI_STEP_CHARSMAP || maps_pieces) {
      const eti_string text = {(const uint8_t *)h + steps[i].text, steps[i].text_bytes};
      eti_charsmap map;
      ET_TRY(eti_charsmap_open(text, &map, err));
    }
    if (steps[i].pattern_bytes == 0) continue;
    const eti_string bytes = {(const uint8_t *)h + steps[i].pattern, steps[i].pattern_bytes};
    eti_pattern pattern;
    ET_TRY(eti_pattern_open(bytes, &pattern, err));
  }
  return ET_OK;
}

static et_status verify(const eti_image_header *h, et_error *err) {
  const uint32_t n = h->n_tokens;
  DAMAGED(n >= 1 && n < (uint32_t)INT32_MAX && h->model < ETI_MODEL_COUNT, err,
          "expected tokens and a model below %d, got %u tokens and model %u", ETI_MODEL_COUNT, n,
          h->model);
  ET_TRY(verify_sections(h, err));
  ET_TRY(verify_count(h, ETI_SECTION_ENDS, n, false, err));
  ET_TRY(verify_count(h, ETI_SECTION_KINDS, n, false, err));
  ET_TRY(verify_count(h, ETI_SECTION_RANKS, n, true, err));
  ET_TRY(verify_count(h, ETI_SECTION_SPANS, ETI_SPAN_BITS / 32, true, err));
  ET_TRY(verify_count(h, ETI_SECTION_LETTERS, (n + 31) / 32, true, err));
  ET_TRY(verify_count(h, ETI_SECTION_BYTE_IDS, 256, (h->flags & ETI_BYTE_LEVEL) == 0, err));
  ET_TRY(verify_count(h, ETI_SECTION_SCORES, n + 1, h->model != ETI_UNIGRAM, err));
  ET_TRY(verify_range(h, h->affix, h->affix_bytes, err));
  ET_TRY(verify_tokens(h, err));
  ET_TRY(verify_slots(h, ETI_SECTION_SLOTS, n, err));
  ET_TRY(verify_pairs(h, err));
  ET_TRY(verify_ids(h, ETI_SECTION_BYTE_IDS, n, err));
  ET_TRY(verify_ids(h, ETI_SECTION_PREFIX, n, err));
  ET_TRY(verify_ids(h, ETI_SECTION_SUFFIX, n, err));
  const uint32_t special[] = {h->unknown, h->bos, h->eos};
  for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
    DAMAGED(special[i] < n || special[i] == ETI_NO_TOKEN, err,
            "expected ids of special tokens below %u, got %u", n, special[i]);
  ET_TRY(verify_pieces(h, err));
  ET_TRY(verify_added(h, err));
  ET_TRY(verify_steps(h, ETI_SECTION_NORMALIZERS, err));
  ET_TRY(verify_steps(h, ETI_SECTION_SPLITTERS, err));
  return verify_steps(h, ETI_SECTION_DECODERS, err);
}

// A section, or NULL if it is left out.
static const void *optional_section(const eti_image_header *h, eti_section section) {
  return eti_image_count(h, section) == 0 ? NULL : eti_image_section(h, section);
}

eti_tokenizer_image eti_image_parts(const eti_image_header *h) {
  return (eti_tokenizer_image){
      .header = h,
      .kinds = eti_image_section(h, ETI_SECTION_KINDS),
      .byte_ids = optional_section(h, ETI_SECTION_BYTE_IDS),
      .spans = optional_section(h, ETI_SECTION_SPANS),
      .letters = optional_section(h, ETI_SECTION_LETTERS),
      .scores = optional_section(h, ETI_SECTION_SCORES),
      .vocab =
          {
              .ends = eti_image_section(h, ETI_SECTION_ENDS),
              .bytes = eti_image_section(h, ETI_SECTION_BYTES),
              .n = h->n_tokens,
              .longest = h->longest,
              .slots = eti_image_section(h, ETI_SECTION_SLOTS),
              .slot_mask = eti_image_count(h, ETI_SECTION_SLOTS) - 1,
              .pairs = eti_image_section(h, ETI_SECTION_PAIRS),
              .pair_mask = eti_image_count(h, ETI_SECTION_PAIRS) - 1,
              .n_pairs = h->n_pairs,
              .ranks = optional_section(h, ETI_SECTION_RANKS),
          },
  };
}

et_status eti_image_open(eti_string bytes, eti_tokenizer_image *image, et_error *err) {
  const eti_image_header *const h = (const void *)bytes.bytes;
  DAMAGED(bytes.n >= sizeof *h && eti_is_aligned(h, 8), err,
          "expected a header of %zu bytes, aligned to 8, got %zu bytes", sizeof *h, bytes.n);
  DAMAGED(h->magic == ETI_IMAGE_MAGIC && h->version == ETI_IMAGE_VERSION, err,
          "expected a prepared tokenizer of version %d, got other bytes", ETI_IMAGE_VERSION);
  DAMAGED(h->bytes >= sizeof *h && h->bytes <= bytes.n, err, "expected %u bytes, got %zu", h->bytes,
          bytes.n);
  ET_TRY(verify(h, err));
  *image = eti_image_parts(h);
  return ET_OK;
}
