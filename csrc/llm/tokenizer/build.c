#include "llm/tokenizer/build.h"

#include "llm/pattern/pattern.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/encode.h"
#include "runtime/bytes.h"

et_status eti_builder_begin(eti_builder *b, et_span out, et_span work, et_error *err) {
  const et_span aligned = eti_span_aligned(out);
  *b = (eti_builder){.size = aligned.size, .work = eti_arena_over(work), .err = err};
  ET_CHECK(aligned.size >= sizeof *b->header, err, ET_OUT_OF_MEMORY,
           "tokenizer: expected memory of more than %zu bytes, got %zu", sizeof *b->header,
           aligned.size);
  b->header = aligned.data;
  b->used = sizeof *b->header;
  memset(b->header, 0, sizeof *b->header);
  b->header->magic = ETI_IMAGE_MAGIC;
  b->header->version = ETI_IMAGE_VERSION;
  b->header->unknown = b->header->bos = b->header->eos = ETI_NO_TOKEN;
  for (size_t i = 0; i < ETI_SECTION_COUNT; i++) b->header->sections[i].offset = sizeof *b->header;
  return ET_OK;
}

// ---- claims

static et_status claim(eti_builder *b, size_t bytes, uint32_t *offset) {
  const size_t begin = (b->used + 7) & ~(size_t)7;
  ET_CHECK(begin <= b->size && bytes <= b->size - begin && begin + bytes <= UINT32_MAX, b->err,
           ET_OUT_OF_MEMORY, "tokenizer: expected memory for %zu bytes more, got %zu in all", bytes,
           b->size);
  memset(eti_builder_base(b) + b->used, 0, begin - b->used);  // equal files have equal images
  *offset = (uint32_t)begin;
  b->used = begin + bytes;
  return ET_OK;
}

static et_status claim_section(eti_builder *b, eti_section section, size_t count, size_t bytes,
                               void *memory) {
  size_t size = 0;
  uint32_t offset = 0;
  ET_CHECK(eti_mul(count, bytes, &size) && count <= UINT32_MAX, b->err, ET_OUT_OF_MEMORY,
           "tokenizer: expected sections below 4 GiB, got %zu items", count);
  ET_TRY(claim(b, size, &offset));
  b->header->sections[section].offset = offset;
  b->header->sections[section].count = (uint32_t)count;
  uint8_t *const begin = eti_builder_base(b) + offset;
  memset(begin, 0, size);
  memcpy(memory, &begin, sizeof begin);
  return ET_OK;
}

et_status eti_builder_section(eti_builder *b, eti_section section, size_t count, void *memory) {
  static const size_t BYTES[] = {
#define ITEM_BYTES(name, bytes) bytes,
      ETI_SECTION_LIST(ITEM_BYTES)
#undef ITEM_BYTES
  };
  return claim_section(b, section, count, BYTES[section], memory);
}

static void *section_memory(eti_builder *b, eti_section section) {
  return eti_builder_base(b) + b->header->sections[section].offset;
}

et_status eti_builder_text(eti_builder *b, eti_string text, uint32_t *offset) {
  ET_TRY(claim(b, text.n, offset));
  if (text.n > 0) memcpy(eti_builder_base(b) + *offset, text.bytes, text.n);
  return ET_OK;
}

et_status eti_builder_temporary(eti_builder *b, size_t n, size_t item_bytes, void *memory) {
  void *const begin = eti_arena_claim(&b->work, n, item_bytes, 8);
  ET_CHECK(begin != NULL, b->err, ET_OUT_OF_MEMORY,
           "tokenizer: expected temporary memory for %zu items of %zu bytes more, got %zu bytes in "
           "all",
           n, item_bytes, b->work.size);
  memcpy(memory, &begin, sizeof begin);
  return ET_OK;
}

// ---- steps

static et_status compile(eti_builder *b, eti_string text, bool lines, eti_step_record *record) {
  et_arena rest = b->work;  // is given back
  const size_t work_bytes = eti_pattern_work_bytes();
  void *const work = eti_arena_claim(&rest, work_bytes, 1, 64);
  ET_CHECK(work != NULL, b->err, ET_OUT_OF_MEMORY,
           "tokenizer: expected %zu bytes of temporary memory for a pattern, got less", work_bytes);
  ET_TRY(claim(b, 0, &record->pattern));
  size_t used = 0;
  const et_span out = {eti_builder_base(b) + record->pattern, b->size - b->used};
  ET_TRY(eti_pattern_compile(text, lines, out, &used, (et_span){work, work_bytes}, b->err));
  record->pattern_bytes = (uint32_t)used;
  b->used += used;
  return ET_OK;
}

et_status eti_builder_step(eti_builder *b, eti_section list, const eti_new_step *step) {
  const size_t i_list = (size_t)(list - ETI_SECTION_NORMALIZERS);
  ET_CHECK(b->n_steps[i_list] < ETI_MAX_STEPS, b->err, ET_NOT_SUPPORTED,
           "tokenizer: expected at most %d normalizers, splitters and decoders each, got more",
           ETI_MAX_STEPS);
  eti_step_record record = {.id = (uint32_t)step->id,
                            .flags = step->flags,
                            .text_bytes = (uint32_t)step->text.n,
                            .other_bytes = (uint32_t)step->other.n};
  ET_TRY(eti_builder_text(b, step->text, &record.text));
  ET_TRY(eti_builder_text(b, step->other, &record.other));
  if (step->pattern.n > 0) ET_TRY(compile(b, step->pattern, step->lines, &record));
  b->steps[i_list][b->n_steps[i_list]++] = record;
  return ET_OK;
}

// ---- tokens

et_status eti_builder_tokens(eti_builder *b, size_t n, size_t text_bytes) {
  void *memory;
  ET_CHECK(n >= 1 && n < INT32_MAX, b->err, ET_INVALID_EXTERNAL_DATA,
           "tokenizer: expected 1 token or more, got %zu", n);
  b->header->n_tokens = (uint32_t)n;
  ET_TRY(eti_builder_section(b, ETI_SECTION_ENDS, n, &memory));
  ET_TRY(eti_builder_section(b, ETI_SECTION_KINDS, n, &memory));
  ET_TRY(eti_builder_section(b, ETI_SECTION_BYTES, text_bytes, &memory));
  b->header->sections[ETI_SECTION_BYTES].count = 0;
  b->used = b->header->sections[ETI_SECTION_BYTES].offset;
  return ET_OK;
}

uint8_t *eti_builder_token_text(eti_builder *b) {
  return eti_builder_base(b) + b->used;
}

void eti_builder_end_token(eti_builder *b, uint32_t id, size_t bytes, eti_token_kind kind) {
  eti_image_header *const h = b->header;
  b->used += bytes;
  h->sections[ETI_SECTION_BYTES].count += (uint32_t)bytes;
  uint32_t *const ends = section_memory(b, ETI_SECTION_ENDS);
  uint8_t *const kinds = section_memory(b, ETI_SECTION_KINDS);
  ends[id] = h->sections[ETI_SECTION_BYTES].count;
  kinds[id] = (uint8_t)kind;
  if (bytes > h->longest) h->longest = (uint32_t)bytes;
}

// A power of two that leaves at least a quarter of the slots empty.
static size_t table_slots(size_t n) {
  size_t slots = 4;
  while (slots * 3 < n * 4) slots *= 2;
  return slots;
}

static void insert(eti_token_slot *slots, uint32_t mask, uint64_t hash, uint32_t id) {
  uint32_t at = (uint32_t)hash & mask;
  while (slots[at].id != ETI_NO_TOKEN) at = (at + 1) & mask;
  slots[at] = (eti_token_slot){(uint32_t)hash, (uint32_t)(hash >> 32), id};
}

static bool is_found(const eti_builder *b, eti_token_kind kind) {
  const bool reserved = kind == ETI_TOKEN_BYTE || kind == ETI_TOKEN_UNKNOWN;
  return kind != ETI_TOKEN_SPECIAL && kind != ETI_TOKEN_UNUSED && kind != ETI_TOKEN_ADDED &&
         !(reserved && b->hides_reserved);
}

et_status eti_builder_index(eti_builder *b) {
  const size_t n_slots = table_slots(b->header->n_tokens + 1);
  eti_token_slot *slots;
  ET_TRY(eti_builder_section(b, ETI_SECTION_SLOTS, n_slots, &slots));
  memset(slots, 0xFF, n_slots * sizeof *slots);
  const eti_vocab vocab = eti_builder_vocab(b);
  const uint8_t *const kinds = eti_image_section(b->header, ETI_SECTION_KINDS);
  uint64_t hashes[ETI_AHEAD];
  for (uint32_t i = 0; i < vocab.n + ETI_AHEAD; i++) {
    uint64_t *const hash = &hashes[i % ETI_AHEAD];
    const uint32_t id = i - ETI_AHEAD;  // its hash was made before
    if (i >= ETI_AHEAD && is_found(b, (eti_token_kind)kinds[id])) {
      const eti_string text = eti_vocab_text(&vocab, id);
      if (eti_vocab_find_hash(&vocab, text, *hash) == ETI_NO_TOKEN)
        insert(slots, vocab.slot_mask, *hash, id);
    }
    if (i < vocab.n) *hash = eti_vocab_fetch(&vocab, eti_vocab_text(&vocab, i));
  }
  return ET_OK;
}

size_t eti_builder_hidden_bytes(size_t n_tokens) {
  return table_slots(n_tokens + 1) * sizeof(eti_token_slot) + sizeof(uint64_t);
}

et_status eti_builder_hidden(eti_builder *b, eti_vocab *hidden) {
  const size_t n_slots = table_slots(b->header->n_tokens + 1);
  eti_token_slot *slots;
  ET_TRY(eti_builder_temporary(b, n_slots, sizeof *slots, &slots));
  memset(slots, 0xFF, n_slots * sizeof *slots);
  *hidden = eti_builder_vocab(b);
  hidden->slots = slots;
  hidden->slot_mask = (uint32_t)n_slots - 1;
  const uint8_t *const kinds = eti_image_section(b->header, ETI_SECTION_KINDS);
  for (uint32_t id = 0; id < hidden->n; id++) {
    if (kinds[id] != ETI_TOKEN_SPECIAL && kinds[id] != ETI_TOKEN_UNUSED) continue;
    const eti_string text = eti_vocab_text(hidden, id);
    if (eti_vocab_find(hidden, text) == ETI_NO_TOKEN)
      insert(slots, hidden->slot_mask, eti_token_hash(text), id);
  }
  return ET_OK;
}

eti_vocab eti_builder_vocab(const eti_builder *b) {
  return eti_image_parts(b->header).vocab;
}

// ---- user-defined pieces

// The slot of a step of the trie, which is made if there was none.
static eti_pair_slot *trie_step(eti_pair_slot *slots, uint32_t mask, uint32_t state, uint8_t byte,
                                uint32_t *n_states) {
  uint32_t at = eti_pair_hash(state, byte) & mask;
  for (; slots[at].joined != ETI_NO_TOKEN; at = (at + 1) & mask)
    if (slots[at].left == state && slots[at].right == byte) return &slots[at];
  slots[at] = (eti_pair_slot){state, byte, ETI_NO_TOKEN, (*n_states)++};
  return &slots[at];
}

et_status eti_builder_pieces(eti_builder *b, const bool *wanted) {
  const eti_vocab vocab = eti_builder_vocab(b);
  size_t n_bytes = 0;
  for (uint32_t id = 0; id < vocab.n; id++)
    if (wanted[id]) n_bytes += eti_vocab_text(&vocab, id).n;
  if (n_bytes == 0) return ET_OK;
  const size_t n_slots = table_slots(n_bytes + 1);
  eti_pair_slot *slots;
  ET_TRY(eti_builder_section(b, ETI_SECTION_PIECES, n_slots, &slots));
  memset(slots, 0xFF, n_slots * sizeof *slots);
  uint32_t n_states = 1;
  for (uint32_t id = 0; id < vocab.n; id++) {
    if (!wanted[id]) continue;
    const eti_string text = eti_vocab_text(&vocab, id);
    eti_pair_slot *slot = NULL;
    for (size_t i = 0; i < text.n; i++)
      slot = trie_step(slots, (uint32_t)n_slots - 1, slot == NULL ? 0 : slot->joined, text.bytes[i],
                       &n_states);
    if (slot != NULL && slot->rank == ETI_NO_TOKEN) slot->rank = id;
  }
  return ET_OK;
}

et_status eti_builder_byte_ids(eti_builder *b) {
  uint32_t *ids;
  ET_TRY(eti_builder_section(b, ETI_SECTION_BYTE_IDS, 256, &ids));
  const eti_vocab vocab = eti_builder_vocab(b);
  for (size_t i = 0; i < 256; i++) {
    const uint8_t byte = (uint8_t)i;
    ids[i] = eti_vocab_find(&vocab, (eti_string){&byte, 1});
  }
  return ET_OK;
}

// ---- pairs

et_status eti_builder_pairs(eti_builder *b, size_t n) {
  const size_t n_slots = table_slots(n + 1);
  eti_pair_slot *slots;
  ET_TRY(eti_builder_section(b, ETI_SECTION_PAIRS, n_slots, &slots));
  memset(slots, 0xFF, n_slots * sizeof *slots);
  return ET_OK;
}

void eti_builder_fetch_pair(const eti_builder *b, uint32_t left, uint32_t right) {
  const uint32_t mask = eti_image_count(b->header, ETI_SECTION_PAIRS) - 1;
  const eti_pair_slot *const slots = eti_image_section(b->header, ETI_SECTION_PAIRS);
  __builtin_prefetch(&slots[eti_pair_hash(left, right) & mask]);
}

void eti_builder_add_pair(eti_builder *b, uint32_t left, uint32_t right, uint32_t rank,
                          uint32_t joined) {
  const uint32_t mask = eti_image_count(b->header, ETI_SECTION_PAIRS) - 1;
  eti_pair_slot *const slots = section_memory(b, ETI_SECTION_PAIRS);
  uint32_t at = eti_pair_hash(left, right) & mask;
  for (; slots[at].joined != ETI_NO_TOKEN; at = (at + 1) & mask)
    if (slots[at].left == left && slots[at].right == right) return;
  slots[at] = (eti_pair_slot){left, right, rank, joined};
  b->header->n_pairs++;
}

// ---- added tokens

et_status eti_builder_added(eti_builder *b, const eti_added_token *added, size_t n) {
  eti_added_token *copies;
  eti_token_slot *slots;
  uint32_t *sizes, *pairs;
  const size_t n_slots = table_slots(n + 1);
  ET_TRY(eti_builder_section(b, ETI_SECTION_ADDED, n, &copies));
  ET_TRY(eti_builder_section(b, ETI_SECTION_ADDED_SLOTS, n_slots, &slots));
  ET_TRY(eti_builder_section(b, ETI_SECTION_ADDED_SIZES, n, &sizes));
  ET_TRY(eti_builder_section(b, ETI_SECTION_ADDED_PAIRS, n == 0 ? 0 : ETI_PAIR_BITS / 32, &pairs));
  memcpy(copies, added, n * sizeof *added);
  memset(slots, 0xFF, n_slots * sizeof *slots);
  uint32_t n_sizes = 0;
  for (uint32_t i = 0; i < n; i++) {
    const eti_string text = {eti_builder_base(b) + added[i].text, added[i].text_bytes};
    insert(slots, (uint32_t)n_slots - 1, eti_token_hash(text), i);
    // A token of one byte may have any byte behind it.
    for (uint32_t second = 0; second < 256; second++)
      if (text.n == 1 || text.bytes[1] == second)
        pairs[text.bytes[0] * 8 + second / 32] |= 1u << (second % 32);
    uint32_t at = 0;
    while (at < n_sizes && sizes[at] > text.n) at++;
    if (at < n_sizes && sizes[at] == text.n) continue;
    memmove(sizes + at + 1, sizes + at, (n_sizes - at) * sizeof *sizes);
    sizes[at] = (uint32_t)text.n;
    n_sizes++;
  }
  b->header->sections[ETI_SECTION_ADDED_SIZES].count = n_sizes;
  return ET_OK;
}

et_status eti_builder_lists(eti_builder *b) {
  for (size_t i = 0; i < ETI_LISTS; i++) {
    eti_step_record *steps;
    const eti_section section = (eti_section)(ETI_SECTION_NORMALIZERS + i);
    ET_TRY(eti_builder_section(b, section, b->n_steps[i], &steps));
    memcpy(steps, b->steps[i], b->n_steps[i] * sizeof *steps);
  }
  return ET_OK;
}

et_status eti_builder_normalize(eti_builder *b, eti_string text, eti_string *normalized) {
  eti_encoder e = {.image = {.header = b->header}, .scratch = b->work, .err = b->err};
  ET_TRY(eti_encode_normalize(&e, text, normalized));
  b->work = e.scratch;
  return ET_OK;
}

et_status eti_builder_end(eti_builder *b, size_t *bytes) {
  uint32_t end;
  ET_TRY(claim(b, 0, &end));
  b->header->bytes = (uint32_t)b->used;
  *bytes = b->used;
  return ET_OK;
}
