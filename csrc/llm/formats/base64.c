#include "llm/formats/base64.h"

static int value_of(uint8_t c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t eti_base64(eti_string text, uint8_t *to) {
  if (text.n > 0 && text.n % 4 == 0 && text.bytes[text.n - 1] == '=') {
    text.n--;
    if (text.n % 4 == 3 && text.bytes[text.n - 1] == '=') text.n--;
  }
  if (text.n % 4 == 1) return SIZE_MAX;
  uint32_t bits = 0;
  size_t n_bits = 0, n = 0;
  for (size_t i = 0; i < text.n; i++) {
    const int value = value_of(text.bytes[i]);
    if (value < 0) return SIZE_MAX;
    bits = bits << 6 | (uint32_t)value;
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    to[n++] = (uint8_t)(bits >> n_bits);
  }
  return n;
}
