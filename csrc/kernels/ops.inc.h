// ops.inc.h — one line per operator overload, sorted by name (strcmp order): the whole support matrix at a glance.
//   ET_OP(name, run, n_args, in_dtypes, out_dtypes, …)                    plain operator
//   ET_OP_PREPARED(name, run, prepare, n_args, in_dtypes, out_dtypes, …)  with a prepare step
// n_args counts the schema's arguments (out arguments included) plus the repeated result; trailing designators set what is
// rare: .max_rank = 5, .writes = 1u << 0. Dtype sets cover what is possible over all tensor arguments; run checks the rest.
