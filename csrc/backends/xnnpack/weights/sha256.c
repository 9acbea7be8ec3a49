// sha256.c — see sha256.h. One function compresses whole blocks: in C for every processor, and with
// the SHA instructions of x86-64. Both are tested on the examples of FIPS 180-4.
#include "backends/xnnpack/weights/sha256.h"

#include <string.h>

#include "runtime/check.h"

enum { BLOCK = 64, ROUNDS = 64 };

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// ---- In C

static uint32_t rotate(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static uint32_t load_big_endian(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void fill_schedule(uint32_t w[ROUNDS], const uint8_t *block) {
  for (size_t t = 0; t < 16; t++) w[t] = load_big_endian(block + 4 * t);
  for (size_t t = 16; t < ROUNDS; t++) {
    const uint32_t a = w[t - 15], b = w[t - 2];
    const uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
    const uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
}

static void compress_c(uint32_t state[8], const uint8_t *at, size_t n_blocks) {
  for (; n_blocks > 0; n_blocks--, at += BLOCK) {
    uint32_t w[ROUNDS], v[8];
    fill_schedule(w, at);
    memcpy(v, state, sizeof v);
    for (size_t t = 0; t < ROUNDS; t++) {
      const uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
      const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const uint32_t t1 = v[7] + s1 + choice + round_constants[t] + w[t];
      const uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
      const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
      memmove(v + 1, v, 7 * sizeof v[0]);
      v[4] += t1;
      v[0] = t1 + s0 + majority;
    }
    for (size_t i = 0; i < 8; i++) state[i] += v[i];
  }
}

// ---- With the SHA instructions of x86-64

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("sha,sse4.1")))

static bool has_sha(void) {
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_SSE4_1) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1u << 29) != 0;
}

// The instructions keep the state as two vectors, {f, e, b, a} and {h, g, d, c} from low to high.
TARGET static void load_state(const uint32_t state[8], __m128i *feba, __m128i *hgdc) {
  const __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state);
  const __m128i efgh = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
  const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1), hgfe = _mm_shuffle_epi32(efgh, 0x1b);
  *feba = _mm_alignr_epi8(badc, hgfe, 8);
  *hgdc = _mm_blend_epi16(hgfe, badc, 0xf0);
}

TARGET static void store_state(uint32_t state[8], __m128i feba, __m128i hgdc) {
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1b), dchg = _mm_shuffle_epi32(hgdc, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(abef, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, abef, 8));
}

TARGET static void compress_sha(uint32_t state[8], const uint8_t *at, size_t n_blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i feba, hgdc, w[4];
  load_state(state, &feba, &hgdc);
  for (; n_blocks > 0; n_blocks--, at += BLOCK) {
    const __m128i feba_before = feba, hgdc_before = hgdc;
    for (size_t i = 0; i < 4; i++)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i)),
                              big_endian);
    for (size_t i = 0; i < ROUNDS / 4; i++) {  // four rounds, and the words of four later ones
      __m128i *const now = &w[i % 4];
      const __m128i *const next = &w[(i + 1) % 4], *const last = &w[(i + 3) % 4];
      const __m128i constants =
          _mm_loadu_si128((const __m128i *)(const void *)(round_constants + 4 * i));
      const __m128i sums = _mm_add_epi32(*now, constants);
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sums);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sums, 0x0e));
      const __m128i shifted = _mm_alignr_epi8(*last, w[(i + 2) % 4], 4);
      *now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*now, *next), shifted), *last);
    }
    feba = _mm_add_epi32(feba, feba_before);
    hgdc = _mm_add_epi32(hgdc, hgdc_before);
  }
  store_state(state, feba, hgdc);
}

static void compress(uint32_t state[8], const uint8_t *at, size_t n_blocks) {
  if (has_sha()) {
    compress_sha(state, at, n_blocks);
  } else {
    compress_c(state, at, n_blocks);
  }
}

#else

static void compress(uint32_t state[8], const uint8_t *at, size_t n_blocks) {
  compress_c(state, at, n_blocks);
}

#endif

// ---- Whole messages

typedef void (*compress_fn)(uint32_t state[8], const uint8_t *at, size_t n_blocks);

static void hash_with(compress_fn fn, const void *data, size_t bytes, uint8_t *digest) {
  // The first 32 bits of the fractional parts of the square roots of the first 8 primes.
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const size_t whole = bytes / BLOCK, rest = bytes % BLOCK;
  uint8_t tail[2 * BLOCK] = {0};  // the rest, a bit, zeros and the length in bits
  const size_t n_tail = rest + 9 <= BLOCK ? 1 : 2;
  if (whole > 0) fn(state, data, whole);
  if (rest > 0) memcpy(tail, (const uint8_t *)data + whole * BLOCK, rest);
  tail[rest] = 0x80;
  for (size_t i = 0; i < 8; i++)
    tail[n_tail * BLOCK - 1 - i] = (uint8_t)((uint64_t)bytes * 8 >> 8 * i);
  fn(state, tail, n_tail);
  for (size_t i = 0; i < ETI_SHA256_BYTES; i++)
    digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void eti_sha256(const void *data, size_t bytes, uint8_t digest[ETI_SHA256_BYTES]) {
  ET_ASSERT(data != NULL || bytes == 0);
  hash_with(compress, data, bytes, digest);
}

void eti_sha256_portable(const void *data, size_t bytes, uint8_t digest[ETI_SHA256_BYTES]) {
  hash_with(compress_c, data, bytes, digest);
}

bool eti_sha256_is_key_of(const char *key, const void *data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  if (strlen(key) != 2 * ETI_SHA256_BYTES) return false;
  uint8_t digest[ETI_SHA256_BYTES];
  eti_sha256(data, bytes, digest);
  for (size_t i = 0; i < sizeof digest; i++) {
    if (key[2 * i] != digits[digest[i] >> 4] || key[2 * i + 1] != digits[digest[i] & 15])
      return false;
  }
  return true;
}
