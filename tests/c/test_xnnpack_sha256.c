// test_xnnpack_sha256.c — the hash of constants: the examples of FIPS 180-4, and that the
// processor's instructions give what C gives at every length around a block.
#include "et_test.h"

#ifndef ET_HAVE_XNNPACK

static void nothing_is_hashed_without_xnnpack(void) {
  EXPECT(true);
}

static const et_test tests[] = {ET_CASE(nothing_is_hashed_without_xnnpack)};
ET_TEST_MAIN(tests)

#else

#include "backends/xnnpack/weights/sha256.h"

#include <string.h>

static void the_examples_of_the_standard_hold(void) {
  static const struct {
    const char *text, *key;
  } examples[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                  {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                  {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
    const char *const text = examples[i].text, *const key = examples[i].key;
    EXPECT(eti_sha256_is_key_of(key, text, strlen(text)));
    EXPECT(!eti_sha256_is_key_of(key, "xyz", 3));
    EXPECT(!eti_sha256_is_key_of(key + 1, text, strlen(text)));
  }
}

static void all_instruction_sets_give_one_hash(void) {
  uint8_t bytes[300], fast[ETI_SHA256_BYTES], portable[ETI_SHA256_BYTES];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 131 + 7);
  for (size_t n = 0; n < sizeof bytes; n++) {
    eti_sha256(bytes + sizeof bytes - n, n, fast);
    eti_sha256_portable(bytes + sizeof bytes - n, n, portable);
    EXPECT(memcmp(fast, portable, sizeof fast) == 0);
  }
}

static const et_test tests[] = {
    ET_CASE(the_examples_of_the_standard_hold),
    ET_CASE(all_instruction_sets_give_one_hash),
};
ET_TEST_MAIN(tests)

#endif
