// machine_products.body.h — the loop of machine_rates.c over products of bytes for one instruction
// set. The includer defines SUFFIX, TARGET (a function attribute or nothing), VECTOR, REGISTER (its
// constraint in asm) and the macros SET1, ADD and DOT, which adds the products of a vector's bytes
// to a sum; all of them are undefined here again.
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

// CHAINS DOTs a step, each waiting for its own last one only.
static TARGET uint32_t JOIN(dot_loop, SUFFIX)(size_t steps) {
  VECTOR x = SET1(0x01010101);
  VECTOR sums[CHAINS];
  for (int i = 0; i < CHAINS; i++) sums[i] = SET1(i);
  for (; steps > 0; steps--)
    for (int i = 0; i < CHAINS; i++) {
      __asm__ volatile("" : "+" REGISTER(x));  // or products would be computed once
      sums[i] = DOT(sums[i], x);
    }
  for (int i = 1; i < CHAINS; i++) sums[0] = ADD(sums[0], sums[i]);
  uint32_t first;
  memcpy(&first, &sums[0], sizeof first);
  return first;
}

#undef JOIN
#undef JOIN_
#undef SUFFIX
#undef TARGET
#undef VECTOR
#undef REGISTER
#undef SET1
#undef ADD
#undef DOT
