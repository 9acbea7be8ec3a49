// kernel.h — what every kernel file (csrc/kernels/op/*.c) includes: the public types, the checks,
// argument unpacking, shapes, type promotion and strided iteration. Knows no operator.
#ifndef ET_KERNEL_H
#define ET_KERNEL_H

#include "runtime/check.h"
#include "runtime/et.h"

#include "kernels/args.h"
#include "kernels/dtype_sets.h"
#include "kernels/iter.h"
#include "kernels/ops.h"
#include "kernels/promote.h"
#include "kernels/shape.h"

#endif  // ET_KERNEL_H
