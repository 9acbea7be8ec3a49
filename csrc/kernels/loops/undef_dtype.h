// undef_dtype.h — ends one type's round of each_dtype.inc.h.
#undef CTYPE
#undef UTYPE
#undef SUFFIX
#undef DTYPE
#undef LOOP_IS_BOOL
#undef LOOP_IS_FLOAT
#undef LOOP_IS_NEGATIVE
