// chat.c — conversations between constant parts. A prompt is encoded as one text, with the ids that
// other libraries give; if a message then made a special token, piece by piece.
//
//   parts:  version | flags | number of texts | offset of each text, and of the end | texts
#include "llm/et_chat.h"

#include "llm/text/unicode.h"
#include "llm/tokenizer/vocab.h"
#include "runtime/arena.h"

#define NAME "chat_parts"

enum { VERSION = 1, N_TEXTS = 6, HEAD_WORDS = 3 + N_TEXTS + 1 };
enum { HAS_SYSTEM = 1, FIRST_TRIMMED = 2 };  // flags: a role's messages lose their blanks
enum {
  BEFORE_SYSTEM,
  SYSTEM_TO_USER,
  BEFORE_USER,
  USER_TO_ASSISTANT,
  ASSISTANT_TO_USER,
  USER_TO_ANSWER,
};

et_status et_chat_open(et_chat *chat, const void *parts, size_t bytes, et_error *err) {
  const uint32_t *const head = parts;
  ET_CHECK(((uintptr_t)parts & 3) == 0 && bytes >= HEAD_WORDS * sizeof *head, err,
           ET_INVALID_PROGRAM, NAME ": expected %zu bytes or more at a multiple of 4, got %zu",
           HEAD_WORDS * sizeof *head, bytes);
  ET_CHECK(head[0] == VERSION && head[2] == N_TEXTS, err, ET_INVALID_PROGRAM,
           NAME ": expected version %d with %d texts, got version %u with %u", VERSION, N_TEXTS,
           head[0], head[2]);
  uint32_t before = HEAD_WORDS * sizeof *head;
  for (size_t i = 0; i <= N_TEXTS; i++) {
    const uint32_t offset = head[3 + i];
    const eti_string text = {(const uint8_t *)parts + before, offset - before};
    ET_CHECK(offset >= before && offset <= bytes && (i > 0 || offset == before) &&
                 eti_utf8_valid_bytes(text) == text.n,
             err, ET_INVALID_PROGRAM, NAME ": expected texts of UTF-8 in %zu bytes, got offset %u",
             bytes, offset);
    before = offset;
  }
  chat->parts = parts;
  return ET_OK;
}

static eti_string part(const et_chat *chat, int which) {
  const uint32_t *const offsets = (const uint32_t *)chat->parts + 3;
  return (eti_string){(const uint8_t *)chat->parts + offsets[which],
                      offsets[which + 1] - offsets[which]};
}

// ---- messages

static bool is_blank(uint32_t letter) {  // of Python's strip, as templates trim
  return eti_unicode_is_space(letter) || (letter >= 0x1C && letter <= 0x1F);
}

static eti_string trimmed(eti_string text) {
  while (text.n > 0 && is_blank(eti_utf8_at(text.bytes))) {
    const size_t n = eti_utf8_bytes(text.bytes[0]);
    text.bytes += n;
    text.n -= n;
  }
  while (text.n > 0) {
    size_t last = text.n - 1;
    while ((text.bytes[last] & 0xC0) == 0x80) last--;
    if (!is_blank(eti_utf8_at(text.bytes + last))) break;
    text.n = last;
  }
  return text;
}

static et_status content(const et_chat *chat, const et_chat_message *messages, size_t i,
                         eti_string *text, et_error *err) {
  const et_chat_message m = messages[i];
  const uint32_t flags = ((const uint32_t *)chat->parts)[1];
  *text = (eti_string){(const uint8_t *)m.text, m.n};
  const size_t valid = eti_utf8_valid_bytes(*text);
  ET_CHECK(valid == m.n, err, ET_INVALID_ARGUMENT,
           "messages[%zu]: expected UTF-8, got another byte at %zu", i, valid);
  if ((flags & (uint32_t)FIRST_TRIMMED << m.role) != 0) *text = trimmed(*text);
  ET_CHECK(text->n > 0, err, ET_INVALID_ARGUMENT,
           "messages[%zu]: expected a text that is not empty, got an empty one", i);
  return ET_OK;
}

static et_status check_roles(const et_chat *chat, const et_chat_message *messages, size_t n,
                             et_error *err) {
  static const char *const ROLES[] = {"system", "user", "assistant"};
  const uint32_t flags = ((const uint32_t *)chat->parts)[1];
  ET_CHECK(n > 0, err, ET_INVALID_ARGUMENT, "messages: expected 1 or more, got none");
  const bool has_system = messages[0].role == ET_CHAT_SYSTEM;
  ET_CHECK(!has_system || (flags & HAS_SYSTEM) != 0, err, ET_INVALID_ARGUMENT,
           "messages[0]: expected the role 'user', as the model has no system messages, got "
           "'system'");
  for (size_t i = has_system; i < n; i++) {
    const et_chat_role wanted = (i - has_system) % 2 == 0 ? ET_CHAT_USER : ET_CHAT_ASSISTANT;
    ET_CHECK(messages[i].role == wanted, err, ET_INVALID_ARGUMENT,
             "messages[%zu]: expected the role '%s', got '%s'", i, ROLES[wanted],
             messages[i].role <= ET_CHAT_ASSISTANT ? ROLES[messages[i].role] : "?");
  }
  ET_CHECK(messages[n - 1].role == ET_CHAT_USER, err, ET_INVALID_ARGUMENT,
           "messages[%zu]: expected the role 'user' at the end, got '%s'", n - 1,
           ROLES[messages[n - 1].role]);
  return ET_OK;
}

// The constant text before message i.
static eti_string before(const et_chat *chat, const et_chat_message *messages, size_t i) {
  if (i == 0) return part(chat, messages[0].role == ET_CHAT_SYSTEM ? BEFORE_SYSTEM : BEFORE_USER);
  const et_chat_role last = messages[i - 1].role;
  return part(chat, last == ET_CHAT_SYSTEM ? SYSTEM_TO_USER
                    : last == ET_CHAT_USER ? USER_TO_ASSISTANT
                                           : ASSISTANT_TO_USER);
}

// ---- encoding

typedef struct encoder {
  const et_tokenizer *tokenizer;
  uint32_t *ids;
  size_t capacity, n;
  et_span scratch;
  et_error *err;
} encoder;

static et_status encode(encoder *e, eti_string text, bool special) {
  const et_encode_options options = {.special = special};
  size_t n;
  ET_TRY(et_tokenizer_encode(e->tokenizer, (const char *)text.bytes, text.n, &options,
                             e->ids + e->n, e->capacity - e->n, &n, e->scratch, e->err));
  e->n += n;
  return ET_OK;
}

static size_t text_bytes(const et_chat *chat, const et_chat_message *messages, size_t n) {
  size_t bytes = part(chat, USER_TO_ANSWER).n;
  for (size_t i = 0; i < n; i++) bytes += before(chat, messages, i).n + messages[i].n;
  return bytes;
}

typedef struct layout {
  uint8_t *text;
  uint32_t *pieces;  // ids of the pieces, [max_ids]
  et_span scratch;
} layout;

static layout claim_layout(et_arena *arena, const et_tokenizer *tokenizer, size_t bytes,
                           size_t max_ids) {
  layout l;
  l.text = ETI_CLAIM(arena, uint8_t, bytes);
  l.pieces = ETI_CLAIM(arena, uint32_t, max_ids);
  l.scratch.size = et_tokenizer_scratch_bytes(tokenizer, bytes);
  l.scratch.data = eti_arena_claim(arena, l.scratch.size, 1, ET_MEMORY_ALIGN);
  return l;
}

et_chat_needs et_chat_measure(const et_chat *chat, const et_tokenizer *tokenizer,
                              const et_chat_message *messages, size_t n) {
  const size_t bytes = text_bytes(chat, messages, n);
  // Each of the pieces may need as many more ids as an empty text.
  const size_t max_ids =
      et_tokenizer_max_ids(tokenizer, bytes) + (2 * n + 1) * et_tokenizer_max_ids(tokenizer, 0);
  et_arena arena = eti_arena_counting();
  (void)claim_layout(&arena, tokenizer, bytes, max_ids);
  return (et_chat_needs){max_ids, arena.used + ET_MEMORY_ALIGN};
}

// The next special token of ids from *at on; ETI_NO_TOKEN at the end.
static uint32_t next_special(const et_tokenizer *tokenizer, const uint32_t *ids, size_t n,
                             size_t *at) {
  while (*at < n && !et_tokenizer_is_special(tokenizer, ids[*at])) ++*at;
  return *at < n ? ids[(*at)++] : ETI_NO_TOKEN;
}

static bool equal_special(const et_tokenizer *tokenizer, const uint32_t *a, size_t n_a,
                          const uint32_t *b, size_t n_b) {
  size_t at_a = 0, at_b = 0;
  for (;;) {
    const uint32_t left = next_special(tokenizer, a, n_a, &at_a);
    if (left != next_special(tokenizer, b, n_b, &at_b)) return false;
    if (left == ETI_NO_TOKEN) return true;
  }
}

et_status et_chat_encode(const et_chat *chat, const et_tokenizer *tokenizer,
                         const et_chat_message *messages, size_t n, uint32_t *ids, size_t capacity,
                         size_t *n_ids, et_span scratch, et_error *err) {
  ET_TRY(check_roles(chat, messages, n, err));
  const et_chat_needs needs = et_chat_measure(chat, tokenizer, messages, n);
  et_arena arena = eti_arena_over(scratch);
  const layout l = claim_layout(&arena, tokenizer, text_bytes(chat, messages, n), needs.max_ids);
  ET_TRY(eti_arena_status(&arena, err));
  eti_arena_end(&arena);
  encoder pieces = {tokenizer, l.pieces, needs.max_ids, 0, l.scratch, err};
  encoder whole = {tokenizer, ids, capacity, 0, l.scratch, err};
  eti_string text = {l.text, 0};
  for (size_t i = 0; i <= n; i++) {
    const eti_string constant = i < n ? before(chat, messages, i) : part(chat, USER_TO_ANSWER);
    memcpy(l.text + text.n, constant.bytes, constant.n);
    text.n += constant.n;
    ET_TRY(encode(&pieces, constant, true));
    if (i == n) break;
    eti_string message;
    ET_TRY(content(chat, messages, i, &message, err));
    memcpy(l.text + text.n, message.bytes, message.n);
    text.n += message.n;
    ET_TRY(encode(&pieces, message, false));
  }
  ET_TRY(encode(&whole, text, true));
  *n_ids = whole.n;
  if (equal_special(tokenizer, l.pieces, pieces.n, ids, whole.n)) return ET_OK;
  ET_CHECK(pieces.n <= capacity, err, ET_OUT_OF_RESOURCES,
           "messages: expected at most %zu ids, got %zu", capacity, pieces.n);
  memcpy(ids, l.pieces, pieces.n * sizeof *ids);
  *n_ids = pieces.n;
  return ET_OK;
}
