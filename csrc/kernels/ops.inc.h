// ops.inc.h — one line per operator overload, sorted by name (strcmp order): the whole support matrix at a glance.
//   ET_OP(name, run, n_args, in_dtypes, out_dtypes, …)                    plain operator
//   ET_OP_PREPARED(name, run, prepare, n_args, in_dtypes, out_dtypes, …)  with a prepare step
// n_args counts the schema's arguments (out arguments included) plus the repeated result; trailing designators set what is
// rare: .max_rank = 5, .writes = 1u << 0. Dtype sets cover what is possible over all tensor arguments; run checks the rest.
ET_OP_PREPARED("aten::as_strided_copy.out", op_as_strided_copy_out, prepare_as_strided_copy_out, 6, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::diagonal_copy.out", op_diagonal_copy_out, prepare_diagonal_copy_out, 6, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::expand_copy.out", op_expand_copy_out, prepare_expand_copy_out, 5, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::narrow_copy.out", op_narrow_copy_out, prepare_narrow_copy_out, 6, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::permute_copy.out", op_permute_copy_out, prepare_permute_copy_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::select_copy.int_out", op_select_copy_int_out, prepare_select_copy_int_out, 5, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::slice_copy.Tensor_out", op_slice_copy_tensor_out, prepare_slice_copy_tensor_out, 7, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::split_copy.Tensor_out", op_split_copy_tensor_out, prepare_split_copy_tensor_out, 5, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::split_with_sizes_copy.out", op_split_with_sizes_copy_out, prepare_split_with_sizes_copy_out, 5, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::squeeze_copy.dim_out", op_squeeze_copy_dim_out, prepare_squeeze_copy_dim_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::squeeze_copy.dims_out", op_squeeze_copy_dims_out, prepare_squeeze_copy_dims_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::t_copy.out", op_t_copy_out, prepare_t_copy_out, 3, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::transpose_copy.int_out", op_transpose_copy_int_out, prepare_transpose_copy_int_out, 5, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::unbind_copy.int_out", op_unbind_copy_int_out, prepare_unbind_copy_int_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::unfold_copy.out", op_unfold_copy_out, prepare_unfold_copy_out, 6, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::unsqueeze_copy.out", op_unsqueeze_copy_out, prepare_unsqueeze_copy_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
ET_OP_PREPARED("aten::view_as_real_copy.out", op_view_as_real_copy_out, prepare_view_as_real_copy_out, 3, ET_DTYPE_BIT(ET_C32) | ET_TYPES_COMPLEX, ET_TYPES_FLOAT | ET_DTYPE_BIT(ET_F16))
ET_OP_PREPARED("aten::view_copy.out", op_view_copy_out, prepare_view_copy_out, 4, ET_TYPES_ALL, ET_TYPES_ALL)
