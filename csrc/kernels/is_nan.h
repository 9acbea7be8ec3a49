// is_nan.h — the test for NaN in code that is included for each element type. Integers are never
// NaN; compilers that warn of x != x for them do not look into a macro.
#ifndef ET_IS_NAN_H
#define ET_IS_NAN_H

// Evaluates x twice. An operator, unlike isnan, is the same in vectors, and constant for integers.
#define ETI_IS_NAN(x) ((x) != (x))

#endif  // ET_IS_NAN_H
