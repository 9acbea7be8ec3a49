// machine_rates.h — upper bounds of a machine's speed: multiply-adds of f32 and of bytes on
// registers, and bytes read, written and copied within a working set, by as many threads as a run
// has. Roofline profiles
// compare their times with these. Relies on the kernels' choice of instruction set; knows no
// operator.
#ifndef ET_MACHINE_RATES_H
#define ET_MACHINE_RATES_H

#include "runtime/et.h"

// Bytes a second of all threads together.
typedef struct eti_memory_rates {
  double read, write, copy;  // a copied byte counts twice: read and written
} eti_memory_rates;

// Operations a second of all threads together; a multiply-add is two.
typedef struct eti_operation_rates {
  double f32;
  double int8;  // by the best instruction that the CPU has; without dot products, sums of 16 bits
} eti_operation_rates;

// Bytes of memory that measuring these working sets takes.
size_t eti_machine_rates_bytes(size_t n_threads, const size_t *sizes, size_t n_sizes);

// Measures on all threads of the pool, in some milliseconds a size. Fills rates[n_sizes], one per
// working set in bytes. data has eti_machine_rates_bytes bytes, aligned to 64, and is overwritten.
eti_operation_rates eti_machine_rates(const et_pool *pool, void *data, const size_t *sizes,
                                      size_t n_sizes, eti_memory_rates *rates);

// True if this CPU multiplies tiles of bytes (AMX) and the system lends them to this process.
bool eti_machine_has_amx(void);

#endif  // ET_MACHINE_RATES_H
