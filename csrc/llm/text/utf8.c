#include "llm/text/text.h"

#include <string.h>

size_t eti_utf8_write(uint32_t code_point, uint8_t *to) {
  if (code_point < 0x80) {
    to[0] = (uint8_t)code_point;
    return 1;
  }
  const size_t n = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (size_t i = n; i-- > 1; code_point >>= 6) to[i] = (uint8_t)(0x80 | (code_point & 0x3F));
  to[0] = (uint8_t)((n == 2 ? 0xC0u : n == 3 ? 0xE0u : 0xF0u) | code_point);
  return n;
}

// The least and the greatest second byte are those of table 3-7 of the Unicode standard.
size_t eti_utf8_beginning_bytes(eti_string text) {
  const uint8_t *const p = text.bytes;
  if (text.n == 0 || (p[0] >= 0x80 && (p[0] < 0xC2 || p[0] > 0xF4))) return 0;
  const size_t bytes = eti_utf8_bytes(p[0]), n = bytes < text.n ? bytes : text.n;
  const uint8_t least = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
  const uint8_t greatest = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
  if (n > 1 && (p[1] < least || p[1] > greatest)) return 1;
  for (size_t i = 2; i < n; i++)
    if ((p[i] & 0xC0) != 0x80) return i;
  return n;
}

size_t eti_utf8_valid_bytes(eti_string text) {
  size_t i = 0;
  while (i < text.n) {
    uint64_t eight;
    if (text.n - i >= sizeof eight) {
      memcpy(&eight, text.bytes + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    if (text.bytes[i] < 0x80) {
      i++;
      continue;
    }
    const eti_string rest = {text.bytes + i, text.n - i};
    const size_t n = eti_utf8_beginning_bytes(rest);
    if (n == 0 || n < eti_utf8_bytes(rest.bytes[0])) return i;
    i += n;
  }
  return i;
}

const char *eti_text_shown(eti_string text, char shown[ETI_SHOWN_BYTES]) {
  size_t n = 0;
  while (n < text.n) {
    const size_t bytes = eti_utf8_bytes(text.bytes[n]);
    if (n + bytes > text.n || n + bytes >= ETI_SHOWN_BYTES) break;
    memcpy(shown + n, text.bytes + n, bytes);
    if (text.bytes[n] < 0x20 || text.bytes[n] == 0x7F) shown[n] = '?';
    n += bytes;
  }
  shown[n] = 0;
  return shown;
}

int eti_byte_of_name(eti_string text) {
  int value = 0;
  if (text.n != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
  for (size_t i = 3; i < 5; i++) {
    const uint8_t c = text.bytes[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'A' && c <= 'F')) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}
