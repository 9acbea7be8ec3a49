// machine_rates.body.h — the two loops of machine_rates.c for one instruction set. The includer
// defines SUFFIX, TARGET (a function attribute or nothing), VECTOR, LANES and the macros SET1, FMA,
// ADD and LOAD; all of them are undefined here again.
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

// 2 · CHAINS · LANES operations a step, none of them waiting for memory.
static TARGET float JOIN(fma_loop, SUFFIX)(size_t steps) {
  const VECTOR x = SET1(0.5f);
  VECTOR acc[CHAINS];
  for (int i = 0; i < CHAINS; i++) acc[i] = SET1((float)i);
  for (; steps > 0; steps--)
    for (int i = 0; i < CHAINS; i++) acc[i] = FMA(acc[i], x, x);
  for (int i = 1; i < CHAINS; i++) acc[0] = ADD(acc[0], acc[i]);
  float lanes[LANES];
  memcpy(lanes, &acc[0], sizeof lanes);
  return lanes[0];
}

// Reads n floats, a multiple of READ_FLOATS.
static TARGET float JOIN(read_loop, SUFFIX)(const float *p, size_t n) {
  enum { CHUNK = READ_CHAINS * LANES };
  static_assert(READ_FLOATS % CHUNK == 0, "a whole number of chunks");
  VECTOR acc[READ_CHAINS];
  for (int i = 0; i < READ_CHAINS; i++) acc[i] = SET1(0.0f);
  for (const float *const end = p + n; p != end; p += CHUNK)
    for (int i = 0; i < READ_CHAINS; i++) acc[i] = ADD(acc[i], LOAD(p + i * LANES));
  for (int i = 1; i < READ_CHAINS; i++) acc[0] = ADD(acc[0], acc[i]);
  float lanes[LANES];
  memcpy(lanes, &acc[0], sizeof lanes);
  return lanes[0];
}

#undef JOIN
#undef JOIN_
#undef SUFFIX
#undef TARGET
#undef VECTOR
#undef LANES
#undef SET1
#undef FMA
#undef ADD
#undef LOAD
