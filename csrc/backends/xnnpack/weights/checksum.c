// checksum.c — the checksum of packed weights and of their file's index: see checksum.h.
#include "backends/xnnpack/weights/checksum.h"

#include "runtime/bytes.h"

// Eight independent lanes: one lane would wait for its own multiplications.
uint64_t eti_xnn_checksum(const void *data, size_t bytes) {
  const uint8_t *at = data;
  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  size_t left = bytes;
  for (; left >= 64; left -= 64, at += 64) {
    for (size_t k = 0; k < 8; k++) {
      const uint64_t mixed = (lanes[k] ^ eti_u64(at + 8 * k)) * 0x9e3779b97f4a7c15u;
      lanes[k] = mixed ^ mixed >> 29;
    }
  }
  uint64_t sum = bytes;
  for (; left > 0; left--, at++) sum = (sum ^ *at) * 0x100000001b3u;
  for (size_t k = 0; k < 8; k++) sum = (sum ^ lanes[k] ^ sum >> 31) * 0xff51afd7ed558ccdu;
  return sum ^ sum >> 32;
}
