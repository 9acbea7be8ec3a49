// decimal.h — decimal numbers of text files to double.
#ifndef ET_LLM_DECIMAL_H
#define ET_LLM_DECIMAL_H

#include <stdint.h>

// The double nearest to digits * 10^exponent, ties to even, for exponents from -60 to 60; others
// are within a few units in the last place, 0 or infinity.
double eti_decimal(uint64_t digits, int exponent);

#endif  // ET_LLM_DECIMAL_H
