#include "llm/formats/byte_letters.h"

// The byte that a letter of the alphabet of byte-level tokens stands for; -1 for other letters.
// Printable bytes of Latin-1 stand for themselves, the others have the letters from U+0100 on.
static int byte_of_letter(uint32_t letter) {
  const bool plain = (letter >= 0x21 && letter <= 0x7E) || (letter >= 0xA1 && letter <= 0xAC) ||
                     (letter >= 0xAE && letter <= 0xFF);
  if (plain) return (int)letter;
  if (letter < 0x100 || letter > 0x143) return -1;
  const int i = (int)letter - 0x100;
  return i < 0x21 ? i : i < 0x43 ? i - 0x21 + 0x7F : 0xAD;
}

size_t eti_letters_to_bytes(uint8_t *text, size_t n) {
  for (size_t at = 0; at < n; at += eti_utf8_bytes(text[at]))
    if (byte_of_letter(eti_utf8_at(text + at)) < 0) return n;
  size_t end = 0;
  for (size_t at = 0, bytes; at < n; at += bytes) {
    bytes = eti_utf8_bytes(text[at]);
    text[end++] = (uint8_t)byte_of_letter(eti_utf8_at(text + at));
  }
  return end;
}
