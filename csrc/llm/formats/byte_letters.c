#include "llm/formats/byte_letters.h"

// Reads the letter at *at, and the byte that it stands for; false for other letters. Printable
// bytes of Latin-1 stand for themselves in the alphabet of byte-level tokens; the others have the
// letters from U+0100 to U+0143, in their order. All have one or two bytes of UTF-8.
static inline bool next_byte(const uint8_t *text, size_t n, size_t *at, uint8_t *byte) {
  const uint8_t first = text[(*at)++];
  *byte = first;
  if (first < 0x80) return first >= 0x21 && first <= 0x7E;
  if (first < 0xC2 || first > 0xC5 || *at == n) return false;
  const uint32_t letter = (uint32_t)(first & 0x1F) << 6 | (text[(*at)++] & 0x3Fu);
  if (letter < 0x100) {
    *byte = (uint8_t)letter;
    return letter >= 0xA1 && letter != 0xAD;
  }
  *byte = (uint8_t)(letter < 0x121 ? letter - 0x100 : letter < 0x143 ? letter - 0xA2 : 0xAD);
  return letter <= 0x143;
}

size_t eti_letters_to_bytes(uint8_t *text, size_t n) {
  size_t end = 0;
  uint8_t byte;
  while (end < n && text[end] >= 0x21 && text[end] <= 0x7E) end++;  // most stand for themselves
  for (size_t at = end; at < n;)
    if (!next_byte(text, n, &at, &byte)) return n;
  for (size_t at = end; at < n;) {
    (void)next_byte(text, n, &at, &byte);
    text[end++] = byte;
  }
  return end;
}
