// slot_names.c — see et_names.h. The structure is JSON, [version, {…, "signature": {"inputs":
// [{"name": …}, …], "outputs": […]}}]. The text comes from a file and may hold anything but ends at
// a NUL: values on the way are skipped by their strings and brackets, without recursion.
#include "runtime/signature/et_names.h"

#include "runtime/check.h"

#include <string.h>

// The rest of the text; NULL once it is damaged.
typedef struct reader {
  const char *at;
} reader;

static char peek(reader *r) {
  if (r->at == NULL) return '\0';
  while (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t') r->at++;
  return *r->at;
}

// Takes one character behind spaces; another one is damage.
static void take(reader *r, char c) {
  if (peek(r) != c || r->at == NULL)
    r->at = NULL;
  else
    r->at++;
}

static bool takes(reader *r, char c) {
  if (peek(r) != c) return false;
  take(r, c);
  return r->at != NULL;
}

// Skips a string; its bytes, between the quotes, are [*begin, *begin + result).
static size_t take_string(reader *r, const char **begin) {
  take(r, '"');
  if (r->at == NULL) return 0;
  *begin = r->at;
  for (; *r->at != '"'; r->at++) {
    if (*r->at == '\\') r->at++;
    if ((unsigned char)*r->at < 0x20) {
      r->at = NULL;
      return 0;
    }
  }
  return (size_t)(r->at++ - *begin);
}

// The place of a character in a text; SIZE_MAX if it has none.
static size_t place_of(char c, const char *text) {
  size_t i = 0;
  while (text[i] != '\0' && text[i] != c) i++;
  return text[i] == '\0' ? SIZE_MAX : i;
}

// Skips the characters of a number, true, false or null; none are damage.
static void skip_word(reader *r) {
  const char *const begin = r->at;
  if (begin == NULL) return;
  while (*r->at != '\0' && place_of(*r->at, " \n\r\t,:[]{}\"") == SIZE_MAX) r->at++;
  if (r->at == begin) r->at = NULL;
}

static void skip_value(reader *r) {
  size_t depth = 0;
  const char *unused;
  do {
    const char c = peek(r);
    if (c == '"') {
      (void)take_string(r, &unused);
    } else if (c == '{' || c == '[') {
      depth++;
      r->at++;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      depth--;
      r->at++;
    } else if (depth > 0 && (c == ',' || c == ':')) {
      r->at++;
    } else {
      skip_word(r);
    }
  } while (r->at != NULL && depth > 0);
}

// Enters an object and goes to the value of a key. False if there is no such key.
static bool find_key(reader *r, const char *key) {
  take(r, '{');
  while (r->at != NULL && peek(r) != '}') {
    const char *found = NULL;
    const size_t n = take_string(r, &found);
    take(r, ':');
    if (r->at == NULL) return false;
    if (n == strlen(key) && memcmp(found, key, n) == 0) return true;
    skip_value(r);
    if (!takes(r, ',')) break;
  }
  take(r, '}');
  return false;
}

// Enters an array and goes to element i.
static void find_element(reader *r, size_t i) {
  take(r, '[');
  for (; i > 0 && r->at != NULL; i--) {
    skip_value(r);
    take(r, ',');
  }
}

// ---- Text

typedef struct text {
  char *bytes;
  size_t n, room;
} text;

static void put(text *t, unsigned byte) {
  if (t->n + 1 < t->room) t->bytes[t->n] = (char)byte;
  t->n++;
}

static void put_character(text *t, uint32_t c) {
  if (c < 0x80) {
    put(t, c);
    return;
  }
  const unsigned further = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned heads[] = {0, 0xC0, 0xE0, 0xF0};
  put(t, heads[further] | c >> 6 * further);
  for (unsigned k = further; k-- > 0;) put(t, 0x80 | (c >> 6 * k & 0x3F));
}

// The number of four hexadecimal digits; UINT32_MAX if they are others.
static uint32_t hex_number(const char *digits, const char *end) {
  static const char all[] = "0123456789abcdef0123456789ABCDEF";
  uint32_t number = 0;
  if (end - digits < 4) return UINT32_MAX;
  for (size_t k = 0; k < 4; k++) {
    const size_t place = place_of(digits[k], all);
    if (place == SIZE_MAX) return UINT32_MAX;
    number = number << 4 | (uint32_t)(place % 16);
  }
  return number;
}

// The character of an escape at *at, behind its backslash; UINT32_MAX if there is none.
static uint32_t read_escape(const char **at, const char *end) {
  static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const char name = *(*at)++;
  if (name != 'u') {
    const size_t place = place_of(name, names);
    return place == SIZE_MAX ? UINT32_MAX : (uint32_t)meanings[place];
  }
  const uint32_t high = hex_number(*at, end);
  if (high == UINT32_MAX || high == 0 || (high >= 0xDC00 && high < 0xE000)) return UINT32_MAX;
  *at += 4;
  if (high < 0xD800 || high >= 0xE000) return high;
  if (end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u') return UINT32_MAX;
  const uint32_t low = hex_number(*at + 2, end);
  if (low < 0xDC00 || low >= 0xE000) return UINT32_MAX;
  *at += 6;
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

// False if an escape is damaged.
static bool unescape(text *t, const char *at, const char *end) {
  while (at < end) {
    if (*at != '\\') {
      put(t, (unsigned char)*at++);
      continue;
    }
    at++;
    const uint32_t c = read_escape(&at, end);
    if (c == UINT32_MAX) return false;
    put_character(t, c);
  }
  return true;
}

// Goes to the text of a name. False if the structure has no names.
static bool find_name(reader *r, bool is_output, size_t i) {
  if (peek(r) != '[') return false;  // another exporter's text, or none
  find_element(r, 1);
  if (!find_key(r, "signature") || !find_key(r, is_output ? "outputs" : "inputs")) return false;
  find_element(r, i);
  return find_key(r, "name");
}

static et_status read_name(const et_method_info *info, et_slot_kind kind, size_t i, text *name,
                           et_error *err) {
  const bool is_output = kind == ET_SLOT_OUTPUT;
  const size_t n = is_output ? info->n_outputs : info->n_inputs;
  const char *const what = is_output ? "output" : "input";
  reader r = {info->input_structure};
  const char *begin = NULL;
  ET_CHECK(kind != ET_SLOT_ATTRIBUTE && i < n, err, ET_INVALID_ARGUMENT,
           "method '%s': expected an input or output, got %s %zu of %zu", info->name,
           kind == ET_SLOT_ATTRIBUTE ? "attribute" : what, i, n);
  const bool has_names = find_name(&r, is_output, i);
  ET_CHECK(has_names || r.at == NULL, err, ET_NOT_FOUND,
           "method '%s': the file has no names of inputs and outputs", info->name);
  const size_t bytes = take_string(&r, &begin);
  ET_CHECK(r.at != NULL && unescape(name, begin, begin + bytes), err, ET_INVALID_PROGRAM,
           "method '%s', %s %zu: expected a name in the input structure, got damaged text",
           info->name, what, i);
  ET_CHECK(name->n < name->room, err, ET_INVALID_ARGUMENT,
           "method '%s', %s %zu: expected room for %zu bytes, got %zu", info->name, what, i,
           name->n + 1, name->room);
  return ET_OK;
}

et_status et_method_slot_name(const et_method_info *info, et_slot_kind kind, size_t i, char *name,
                              size_t room, et_error *err) {
  text t = {.bytes = name, .room = room};
  const et_status status = read_name(info, kind, i, &t, err);
  if (room > 0) name[status == ET_OK ? t.n : 0] = '\0';
  return status;
}
