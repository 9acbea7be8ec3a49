// decimal.c — a first value by arithmetic on doubles, then the comparison of the exact number with
// the middle between two doubles, in integers.
#include "llm/formats/decimal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { LIMBS = 16, EXACT = 60 };

// An integer below 2^512.
typedef struct integer {
  uint32_t limbs[LIMBS];  // the least one first
} integer;

static integer from_u64(uint64_t value) {
  return (integer){{(uint32_t)value, (uint32_t)(value >> 32)}};
}

static void multiply(integer *x, uint32_t by) {
  uint64_t carry = 0;
  for (size_t i = 0; i < LIMBS; i++) {
    carry += (uint64_t)x->limbs[i] * by;
    x->limbs[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

static void scale(integer *x, int tens, int twos) {
  for (; tens >= 9; tens -= 9) multiply(x, 1000000000);
  for (; tens > 0; tens--) multiply(x, 10);
  for (; twos >= 31; twos -= 31) multiply(x, 1u << 31);
  if (twos > 0) multiply(x, 1u << twos);
}

static int compare(const integer *a, const integer *b) {
  for (size_t i = LIMBS; i-- > 0;)
    if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
  return 0;
}

// Compares digits * 10^exponent with odd * 2^power.
static int compare_with(uint64_t digits, int exponent, uint64_t odd, int power) {
  integer left = from_u64(digits), right = from_u64(odd);
  scale(&left, exponent > 0 ? exponent : 0, power < 0 ? -power : 0);
  scale(&right, exponent < 0 ? -exponent : 0, power > 0 ? power : 0);
  return compare(&left, &right);
}

static double power_of_ten(int exponent) {
  double power = 1, base = 10;
  for (int n = exponent; n > 0; n >>= 1, base *= base)
    if (n & 1) power *= base;
  return power;
}

double eti_decimal(uint64_t digits, int exponent) {
  if (digits == 0) return 0;
  double value = (double)digits;
  if (exponent >= 0)
    value *= power_of_ten(exponent);
  else if (exponent >= -300)
    value /= power_of_ten(-exponent);
  else
    value = value / power_of_ten(300) / power_of_ten(-exponent - 300);
  const int size = exponent < 0 ? -exponent : exponent;
  if (size > EXACT || (size <= 22 && digits <= (uint64_t)1 << 53)) return value;
  for (int i = 0; i < 4; i++) {  // the first value is a few doubles away at most
    int power;
    const uint64_t m = (uint64_t)ldexp(frexp(value, &power), 53);
    power -= 53;
    const int above = compare_with(digits, exponent, 2 * m + 1, power - 1);
    const int below = compare_with(digits, exponent, 2 * m - 1, power - 1);
    if (above > 0 || (above == 0 && (m & 1) != 0))
      value = ldexp((double)(m + 1), power);
    else if (below < 0 || (below == 0 && (m & 1) != 0))
      value = ldexp((double)(m - 1), power);
    else
      return value;
  }
  return value;
}
