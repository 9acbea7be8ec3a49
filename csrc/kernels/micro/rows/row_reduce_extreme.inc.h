// row_reduce_extreme.inc.h — a reduction of floats to the largest or smallest, by row_reduce.inc.h.
// Its parameters are those of that file, except the ones that follow from EXTREME_BEFORE, > or <.
// NaN wins; of equal numbers the first remains. Comparisons have the form of the instructions,
// whose result is the second operand if one is NaN: then only NaN among the elements needs a
// separate test.
#define CALL(part) ETI_LOOP_NAME(REDUCE_NAME, part)

ETI_INLINE REDUCE_TYPE CALL(number)(REDUCE_TYPE a, REDUCE_TYPE b) {
  return b EXTREME_BEFORE a ? b : a;
}

ETI_INLINE REDUCE_TYPE CALL(of)(REDUCE_TYPE a, REDUCE_TYPE b) {
  const REDUCE_TYPE number = CALL(number)(a, b);
  return b != b ? b : number;
}

ETI_INLINE REDUCE_TYPE CALL(of_eight)(REDUCE_TYPE a, const REDUCE_TYPE *x, ptrdiff_t s) {
  REDUCE_TYPE first = CALL(number)(x[0], x[s]), second = CALL(number)(x[2 * s], x[3 * s]);
  REDUCE_TYPE third = CALL(number)(x[4 * s], x[5 * s]), fourth = CALL(number)(x[6 * s], x[7 * s]);
  first = CALL(number)(first, second);
  third = CALL(number)(third, fourth);
  const int has_nan =
      __builtin_isunordered(x[0], x[s]) | __builtin_isunordered(x[2 * s], x[3 * s]) |
      __builtin_isunordered(x[4 * s], x[5 * s]) | __builtin_isunordered(x[6 * s], x[7 * s]);
  const REDUCE_TYPE number = CALL(number)(a, CALL(number)(first, third));
  return has_nan ? (REDUCE_TYPE)NAN : number;
}

#define REDUCE_EXPR(a, x, c) CALL(of)(a, x)
#define REDUCE_MERGE(a, b) CALL(of)(a, b)
#define REDUCE_EIGHT(a, x, s, c) CALL(of_eight)(a, x, s)
#include "kernels/micro/rows/row_reduce.inc.h"
#undef CALL
#undef EXTREME_BEFORE
