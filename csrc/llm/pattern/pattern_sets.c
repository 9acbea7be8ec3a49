// pattern_sets.c — classes, escapes and literals of a pattern, to sets of code points.
#include "llm/pattern/pattern_parse.h"
#include "llm/text/unicode.h"

#include <string.h>

#define CATEGORY(name) (1u << ETI_UNICODE_##name)

enum { LAST = ETI_CODE_POINTS - 1 };

static const uint32_t LETTERS =
    CATEGORY(Lu) | CATEGORY(Ll) | CATEGORY(Lt) | CATEGORY(Lm) | CATEGORY(Lo);
static const uint32_t MARKS = CATEGORY(Mn) | CATEGORY(Mc) | CATEGORY(Me);
static const uint32_t EVERY = (CATEGORY(Cn) << 1) - 1;

// Code points with the property White_Space, in runs.
static const uint32_t SPACES[][2] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// The script Han of Unicode 15.1, with the code points between its parts that are unassigned.
static const uint32_t HAN[][2] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF}};
// Letters of the property Alphabetic that have no category of letters: circled ones and the like.
static const uint32_t OTHER_LETTERS[][2] = {
    {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

bool eti_pattern_skip(eti_pattern_parser *p, const char *word) {
  const size_t n = strlen(word);
  if (p->text.n - p->at < n || memcmp(p->text.bytes + p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

// ---- items and sets

static et_status add_item(eti_pattern_parser *p, eti_set_item item) {
  ET_CHECK(p->program->n_items < PATTERN_MAX_ITEMS, p->err, ET_NOT_SUPPORTED,
           "pattern: expected at most %d ranges, got more at byte %zu", PATTERN_MAX_ITEMS, p->at);
  p->program->items[p->program->n_items++] = item;
  return ET_OK;
}

static et_status add_range(eti_pattern_parser *p, uint32_t first, uint32_t last) {
  return add_item(p, (eti_set_item){first, last, EVERY});
}

static et_status add_ranges(eti_pattern_parser *p, const uint32_t (*ranges)[2], size_t n) {
  for (size_t i = 0; i < n; i++) ET_TRY(add_range(p, ranges[i][0], ranges[i][1]));
  return ET_OK;
}

// Code points of some categories outside of sorted ranges.
static et_status add_gaps(eti_pattern_parser *p, const uint32_t (*ranges)[2], size_t n,
                          uint32_t categories) {
  uint32_t next = 0;
  for (size_t i = 0; i < n; i++) {
    if (ranges[i][0] > next)
      ET_TRY(add_item(p, (eti_set_item){next, ranges[i][0] - 1, categories}));
    next = ranges[i][1] + 1;
  }
  return add_item(p, (eti_set_item){next, LAST, categories});
}

static et_status add_categories(eti_pattern_parser *p, uint32_t categories, bool negated) {
  return add_item(p, (eti_set_item){0, LAST, negated ? EVERY & ~categories : categories});
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static et_status add_spaces(eti_pattern_parser *p, bool negated) {
  return negated ? add_gaps(p, SPACES, COUNT(SPACES), EVERY) : add_ranges(p, SPACES, COUNT(SPACES));
}

static et_status add_word(eti_pattern_parser *p, bool negated) {
  const uint32_t categories = LETTERS | MARKS | CATEGORY(Nd) | CATEGORY(Nl) | CATEGORY(Pc);
  if (negated) return add_gaps(p, OTHER_LETTERS, COUNT(OTHER_LETTERS), EVERY & ~categories);
  ET_TRY(add_categories(p, categories, false));
  return add_ranges(p, OTHER_LETTERS, COUNT(OTHER_LETTERS));
}

// The number of the set whose items begin at i_item; an equal one's, if there is one.
static et_status end_set(eti_pattern_parser *p, size_t i_item, bool negated, uint8_t *number) {
  eti_pattern_program *const program = p->program;
  const eti_set set = {(uint16_t)i_item, (uint16_t)(program->n_items - i_item), negated, p->folds};
  for (size_t i = 0; i < program->n_sets; i++) {
    const eti_set other = program->sets[i];
    if (other.n_items != set.n_items || other.negated != negated || other.folds != set.folds)
      continue;
    const eti_set_item *const a = program->items + i_item, *const b = program->items + other.i_item;
    size_t k = 0;
    while (k < set.n_items && a[k].first == b[k].first && a[k].last == b[k].last &&
           a[k].categories == b[k].categories)
      k++;
    if (k < set.n_items) continue;
    program->n_items = i_item;
    *number = (uint8_t)i;
    return ET_OK;
  }
  ET_CHECK(program->n_sets < PATTERN_MAX_SETS, p->err, ET_NOT_SUPPORTED,
           "pattern: expected at most %d different classes, got more at byte %zu", PATTERN_MAX_SETS,
           p->at);
  *number = (uint8_t)program->n_sets;
  program->sets[program->n_sets++] = set;
  return ET_OK;
}

et_status eti_pattern_empty_set(eti_pattern_parser *p, uint8_t *set) {
  return end_set(p, p->program->n_items, false, set);
}

et_status eti_pattern_line_feed_set(eti_pattern_parser *p, uint8_t *set) {
  const size_t first = p->program->n_items;
  ET_TRY(add_range(p, '\n', '\n'));
  return end_set(p, first, false, set);
}

et_status eti_pattern_word_set(eti_pattern_parser *p, uint8_t *set) {
  const size_t first = p->program->n_items;
  ET_TRY(add_word(p, false));
  return end_set(p, first, false, set);
}

// ---- escapes

static int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// n digits, or any number of them in braces.
static et_status hex_number(eti_pattern_parser *p, size_t n, uint32_t *value) {
  const bool braces = eti_pattern_skip(p, "{");
  const size_t first = p->at;
  uint32_t sum = 0;
  while (p->at < p->text.n && (braces || p->at - first < n) && sum <= LAST) {
    const int digit = hex_digit(p->text.bytes[p->at]);
    if (digit < 0) break;
    sum = sum << 4 | (uint32_t)digit;
    p->at++;
  }
  const bool complete = braces ? p->at > first && eti_pattern_skip(p, "}") : p->at - first == n;
  ET_CHECK(complete && sum <= LAST, p->err, ET_INVALID_ARGUMENT,
           "pattern: expected the hexadecimal number of a code point at byte %zu, got another text",
           first);
  *value = sum;
  return ET_OK;
}

static bool named(eti_string name, const char *word) {
  return eti_string_equal(name, eti_string_of(word));
}

// The categories of a name such as L, Lu or LC; 0 if there are none.
static uint32_t categories_of(eti_string name) {
  static const char NAMES[][3] = {
#define NAME(category) #category,
      ETI_UNICODE_CATEGORY_LIST(NAME)
#undef NAME
  };
  uint32_t found = 0;
  for (size_t i = 0; i < COUNT(NAMES); i++) {
    const bool major = name.n == 1 && NAMES[i][0] == name.bytes[0];
    if (major || named(name, NAMES[i])) found |= 1u << i;
  }
  if (named(name, "LC") || named(name, "L&")) return CATEGORY(Lu) | CATEGORY(Ll) | CATEGORY(Lt);
  return found;
}

// The rest of \p{Name}, \pN, \P{Name} or \p{^Name}.
static et_status property(eti_pattern_parser *p, bool negated) {
  const size_t first = p->at;
  const bool braces = eti_pattern_skip(p, "{");
  if (braces && eti_pattern_skip(p, "^")) negated = !negated;
  eti_string name = {p->text.bytes + p->at, 0};
  while (p->at + name.n < p->text.n && (braces ? name.bytes[name.n] != '}' : name.n == 0)) name.n++;
  p->at += name.n;
  ET_CHECK(name.n != 0 && (!braces || eti_pattern_skip(p, "}")), p->err, ET_INVALID_ARGUMENT,
           "pattern: expected \\p{category} at byte %zu, got no name", first);
  if (named(name, "Han") || named(name, "IsHan") || named(name, "Script=Han"))
    return negated ? add_gaps(p, HAN, COUNT(HAN), EVERY) : add_ranges(p, HAN, COUNT(HAN));
  if (named(name, "White_Space")) return add_spaces(p, negated);
  const uint32_t categories = categories_of(name);
  char shown[ETI_SHOWN_BYTES];
  ET_CHECK(
      categories != 0, p->err, ET_NOT_SUPPORTED,
      "pattern: expected a general category, Han or White_Space in \\p{…}, got '%s' at byte %zu",
      eti_text_shown(name, shown), first);
  return add_categories(p, categories, negated);
}

// Reads an escape behind its backslash. A code point goes to *one; a class is added as items, and
// *one is then UINT32_MAX.
static et_status escape(eti_pattern_parser *p, uint32_t *one) {
  ET_CHECK(p->at < p->text.n, p->err, ET_INVALID_ARGUMENT,
           "pattern: expected a character behind '\\' at byte %zu, got the end", p->at);
  const uint8_t c = p->text.bytes[p->at];
  *one = UINT32_MAX;
  if (c < 0x80) p->at++;
  switch (c) {
    case 's':
      return add_spaces(p, false);
    case 'S':
      return add_spaces(p, true);
    case 'd':
      return add_categories(p, CATEGORY(Nd), false);
    case 'D':
      return add_categories(p, CATEGORY(Nd), true);
    case 'w':
      return add_word(p, false);
    case 'W':
      return add_word(p, true);
    case 'p':
      return property(p, false);
    case 'P':
      return property(p, true);
    case 'x':
      return hex_number(p, 2, one);
    case 'u':
      return hex_number(p, 4, one);
    case 'U':
      return hex_number(p, 8, one);
    case 'n':
      *one = '\n';
      return ET_OK;
    case 'r':
      *one = '\r';
      return ET_OK;
    case 't':
      *one = '\t';
      return ET_OK;
    case 'f':
      *one = '\f';
      return ET_OK;
    case 'v':
      *one = '\v';
      return ET_OK;
    case '0':
      *one = 0;
      return ET_OK;
    default:
      break;
  }
  const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  ET_CHECK(
      !letter && !(c >= '1' && c <= '9'), p->err, ET_NOT_SUPPORTED,
      "pattern: expected one of \\s \\S \\d \\D \\w \\W \\p \\P \\x \\u \\n \\r \\t \\f \\v or "
      "an escaped sign, got '\\%c' at byte %zu",
      c, p->at - 1);
  *one = eti_utf8_at(p->text.bytes + p->at - (c < 0x80));
  if (c >= 0x80) p->at += eti_utf8_bytes(c);
  return ET_OK;
}

// ---- classes

static uint32_t next_code_point(eti_pattern_parser *p) {
  const uint8_t *const at = p->text.bytes + p->at;
  p->at += eti_utf8_bytes(*at);
  return eti_utf8_at(at);
}

static et_status member(eti_pattern_parser *p, uint32_t *one) {
  if (eti_pattern_skip(p, "\\")) return escape(p, one);
  *one = next_code_point(p);
  return ET_OK;
}

// The rest of a class behind its '['.
static et_status class_items(eti_pattern_parser *p, size_t begin) {
  // A ']' that comes first is a member.
  for (bool first = true; first || !eti_pattern_skip(p, "]"); first = false) {
    ET_CHECK(p->at < p->text.n, p->err, ET_INVALID_ARGUMENT,
             "pattern: expected ']' behind '[' at byte %zu, got the end", begin);
    const bool nested = p->text.bytes[p->at] == '[' || eti_pattern_skip(p, "&&");
    ET_CHECK(!nested, p->err, ET_NOT_SUPPORTED,
             "pattern: expected a class of ranges, escapes and categories, got another class or "
             "'&&' in it at byte %zu",
             p->at);
    uint32_t from, to;
    const size_t at = p->at;
    ET_TRY(member(p, &from));
    if (from == UINT32_MAX) continue;
    to = from;
    const bool range =
        p->text.n - p->at > 1 && p->text.bytes[p->at] == '-' && p->text.bytes[p->at + 1] != ']';
    if (range) {
      p->at++;
      ET_TRY(member(p, &to));
      ET_CHECK(to != UINT32_MAX && from <= to, p->err, ET_INVALID_ARGUMENT,
               "pattern: expected a range from a lesser to a greater code point at byte %zu, got "
               "another",
               at);
    }
    ET_TRY(add_range(p, from, to));
  }
  return ET_OK;
}

et_status eti_pattern_read_set(eti_pattern_parser *p, uint8_t *set) {
  const size_t begin = p->at, first = p->program->n_items;
  ET_CHECK(begin < p->text.n, p->err, ET_INVALID_ARGUMENT,
           "pattern: expected a code point or a class at byte %zu, got the end", begin);
  bool negated = false;
  if (eti_pattern_skip(p, "[")) {
    negated = eti_pattern_skip(p, "^");
    ET_TRY(class_items(p, p->at));
  } else if (eti_pattern_skip(p, ".")) {
    negated = true;
    ET_TRY(add_range(p, '\n', '\n'));
  } else {
    uint32_t one;
    ET_TRY(member(p, &one));
    if (one != UINT32_MAX) ET_TRY(add_range(p, one, one));
  }
  return end_set(p, first, negated, set);
}
