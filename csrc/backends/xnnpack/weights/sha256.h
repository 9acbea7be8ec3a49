// sha256.h — SHA-256 (FIPS 180-4) of bytes in memory. Keys of constants are this hash in hex, so it
// proves that a key belongs to its bytes. Uses the processor's SHA instructions where it has them.
#ifndef ET_XNNPACK_SHA256_H
#define ET_XNNPACK_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_SHA256_BYTES = 32 };

void eti_sha256(const void *data, size_t bytes, uint8_t digest[ETI_SHA256_BYTES]);

// SHA-256 without special instructions, for tests to compare.
void eti_sha256_portable(const void *data, size_t bytes, uint8_t digest[ETI_SHA256_BYTES]);

// Whether a key is the hash of the bytes as 64 lower-case hex digits.
bool eti_sha256_is_key_of(const char *key, const void *data, size_t bytes);

#endif  // ET_XNNPACK_SHA256_H
