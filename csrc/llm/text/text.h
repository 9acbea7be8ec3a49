// text.h — UTF-8 text as a range of bytes, and its code points.
#ifndef ET_LLM_TEXT_H
#define ET_LLM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct eti_string {
  const uint8_t *bytes;
  size_t n;
} eti_string;

enum { ETI_CODE_POINTS = 0x110000 };

static inline eti_string eti_string_of(const char *text) {
  return (eti_string){(const uint8_t *)text, strlen(text)};
}

static inline bool eti_string_equal(eti_string a, eti_string b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.bytes, b.bytes, a.n) == 0);
}

// The byte of a token's name <0xHH>; -1 for other texts.
int eti_byte_of_name(eti_string text);

// Bytes of the code point that begins with this byte of valid UTF-8.
static inline size_t eti_utf8_bytes(uint8_t first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// The code point at p, in valid UTF-8.
static inline uint32_t eti_utf8_at(const uint8_t *p) {
  if (p[0] < 0x80) return p[0];
  if (p[0] < 0xE0) return (uint32_t)(p[0] & 0x1F) << 6 | (uint32_t)(p[1] & 0x3F);
  if (p[0] < 0xF0)
    return (uint32_t)(p[0] & 0xF) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (uint32_t)(p[2] & 0x3F);
  return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
         (uint32_t)(p[3] & 0x3F);
}

// Writes a code point; the bytes written, 1 to 4. Surrogates are written as they are.
size_t eti_utf8_write(uint32_t code_point, uint8_t *to);

// The bytes of valid UTF-8 at the beginning of a text: n if all of it is. Overlong forms,
// surrogates and code points above U+10FFFF are invalid.
size_t eti_utf8_valid_bytes(eti_string text);

// The bytes at the beginning of a text that begin a letter, or are one: 0 if its first byte begins
// none.
size_t eti_utf8_beginning_bytes(eti_string text);

// A text for a message, in `shown`: its first bytes, with '?' for control characters.
enum { ETI_SHOWN_BYTES = 32 };
const char *eti_text_shown(eti_string text, char shown[ETI_SHOWN_BYTES]);

#endif  // ET_LLM_TEXT_H
