// dtype_sets.h — names for the sets of element types that operators share. Preprocessor constants,
// so that loop templates can test them with #if.
#ifndef ET_DTYPE_SETS_H
#define ET_DTYPE_SETS_H

// One type each. Numbers of et_dtype, repeated as literals for the preprocessor;
// kernels/lib/args.c checks them with static_assert.
#define ET_TYPES_U8 (1u << 0)
#define ET_TYPES_I8 (1u << 1)
#define ET_TYPES_I16 (1u << 2)
#define ET_TYPES_I32 (1u << 3)
#define ET_TYPES_I64 (1u << 4)
#define ET_TYPES_F16 (1u << 5)
#define ET_TYPES_F32 (1u << 6)
#define ET_TYPES_F64 (1u << 7)
#define ET_TYPES_C64 (1u << 9)
#define ET_TYPES_C128 (1u << 10)
#define ET_TYPES_BOOL (1u << 11)
#define ET_TYPES_BF16 (1u << 15)
#define ET_TYPES_U16 (1u << 27)
#define ET_TYPES_U32 (1u << 28)
#define ET_TYPES_U64 (1u << 29)

#define ET_TYPES_INDEX (ET_TYPES_I32 | ET_TYPES_I64)
#define ET_TYPES_INT (ET_TYPES_U8 | ET_TYPES_I8 | ET_TYPES_I16 | ET_TYPES_INDEX)
#define ET_TYPES_UNSIGNED (ET_TYPES_U16 | ET_TYPES_U32 | ET_TYPES_U64)
#define ET_TYPES_HALF (ET_TYPES_F16 | ET_TYPES_BF16)
#define ET_TYPES_COMPLEX (ET_TYPES_C64 | ET_TYPES_C128)
#define ET_TYPES_FLOAT (ET_TYPES_F32 | ET_TYPES_F64)
#define ET_TYPES_FLOAT_HALF (ET_TYPES_FLOAT | ET_TYPES_HALF)
#define ET_TYPES_REAL (ET_TYPES_INT | ET_TYPES_FLOAT)
#define ET_TYPES_REAL_HALF (ET_TYPES_REAL | ET_TYPES_HALF)
#define ET_TYPES_REAL_BOOL (ET_TYPES_REAL | ET_TYPES_BOOL)
#define ET_TYPES_REAL_HALF_BOOL (ET_TYPES_REAL | ET_TYPES_HALF | ET_TYPES_BOOL)
#define ET_TYPES_INT_BOOL (ET_TYPES_INT | ET_TYPES_BOOL)
#define ET_TYPES_ALL 0x3FFFFFFFu  // elements that are only copied as bytes

// Element types of a build. A selective build (executorch_py build-kernels) names the types that
// its programs use. Tables then have no functions for other types, and kernels refuse arguments of
// these types.
#ifndef ET_BUILD_TYPES
#define ET_BUILD_TYPES ET_TYPES_ALL
#endif
#define ETI_BUILT_ANY(set, function) (((ET_BUILD_TYPES) & (set)) != 0 ? (function) : NULL)
#define ETI_BUILT(dtype, function) ETI_BUILT_ANY(1u << (dtype), function)

#endif  // ET_DTYPE_SETS_H
