// kernel.h — the include of every kernel file (csrc/kernels/op/*.c): the public types, the checks,
// argument unpacking, shapes, type promotion and strided iteration. Knows no operator.
#ifndef ET_KERNEL_H
#define ET_KERNEL_H

#include "runtime/check.h"
#include "runtime/et.h"

#include "kernels/lib/args.h"
#include "kernels/dtype_sets.h"
#include "kernels/lib/iter.h"
#include "kernels/ops.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"
#include "kernels/stack.h"

#endif  // ET_KERNEL_H
