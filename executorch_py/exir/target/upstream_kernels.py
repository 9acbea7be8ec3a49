"""Kernels that upstream's release 1.5.1 registers, and the dtypes that each accepts.

Upstream's registry lists these names after its quantised and language-model libraries were loaded.
Dtype classes: `I` integers, `R` integers and f32, f64; `F` f32 and f64; `h` f16 and bf16; `b` bool;
`c` complex; `l` i64; `*` any.
"""

from __future__ import annotations

from typing import Any

_INTEGERS = ("u8", "i8", "i16", "i32", "i64")
_CLASSES: dict[str, tuple[str, ...]] = {
    "I": _INTEGERS,
    "R": (*_INTEGERS, "f32", "f64"),
    "F": ("f32", "f64"),
    "h": ("f16", "bf16"),
    "b": ("b8",),
    "c": ("c32", "c64", "c128"),
    "l": ("i64",),
}
_MAX_RANK = 16
# Limits of kernels that accept fewer dimensions than tensors may have.
_RANK_LIMITS = {"aten::convolution.out": 4}

# (dtypes of inputs, dtypes of outputs) -> operators, without "aten::".
_KERNELS: dict[tuple[str, str], str] = {
    ("*", "*"): """
        _conj_physical.out _fft_c2r.out _fft_r2c.out _local_scalar_dense alias_copy.out
        as_strided_copy.out clone.out detach_copy.out diagonal_copy.out
        dim_order_ops::_clone_dim_order.out dim_order_ops::_empty_dim_order.out
        dim_order_ops::_to_dim_order_copy.out embedding.out empty.out et_copy::_d2h_copy.out
        et_copy::_h2d_copy.out executorch_prim::add.Scalar executorch_prim::ceil.Scalar
        executorch_prim::eq.Scalar executorch_prim::et_copy_index.tensor
        executorch_prim::et_view.default executorch_prim::floordiv.Scalar
        executorch_prim::floordiv.int executorch_prim::ge.Scalar executorch_prim::gt.Scalar
        executorch_prim::le.Scalar executorch_prim::lt.Scalar executorch_prim::mod.Scalar
        executorch_prim::mod.int executorch_prim::mul.Scalar executorch_prim::neg.Scalar
        executorch_prim::round.Scalar executorch_prim::sub.Scalar
        executorch_prim::sym_float.Scalar executorch_prim::sym_int.Scalar
        executorch_prim::sym_ite.Scalar executorch_prim::sym_max.Scalar
        executorch_prim::sym_min.Scalar executorch_prim::sym_not.Scalar
        executorch_prim::truediv.Scalar executorch_prim::trunc.Scalar expand_copy.out
        index_select.out lift_fresh_copy.out linear.out
        llama::channelwise_gated_delta_rule.out llama::custom_quantized_sdpa.out
        llama::custom_sdpa.out llama::fallback.out llama::fast_hadamard_transform.out
        llama::gated_delta_rule.out llama::quantized_moe_ffn.out
        llama::sdpa_with_kv_cache.out llama::update_cache.out
        llama::update_cache_with_indices.out masked_select.out narrow_copy.out
        permute_copy.out pixel_shuffle.out pixel_unshuffle.out preprocess::tile_crop.out
        quantized_decomposed::add.out quantized_decomposed::choose_qparams.Tensor_out
        quantized_decomposed::choose_qparams_per_token_asymmetric.out
        quantized_decomposed::dequantize_per_channel.out
        quantized_decomposed::dequantize_per_tensor.Tensor_out
        quantized_decomposed::dequantize_per_tensor.out
        quantized_decomposed::dequantize_per_token.out
        quantized_decomposed::embedding_2bit.dtype_out
        quantized_decomposed::embedding_2bit.out
        quantized_decomposed::embedding_4bit.dtype_out
        quantized_decomposed::embedding_4bit.out
        quantized_decomposed::embedding_byte.dtype_out
        quantized_decomposed::embedding_byte.out quantized_decomposed::mixed_linear.out
        quantized_decomposed::mixed_mm.out quantized_decomposed::quantize_per_channel.out
        quantized_decomposed::quantize_per_tensor.Tensor_out
        quantized_decomposed::quantize_per_tensor.out
        quantized_decomposed::quantize_per_token.out reflection_pad1d.out
        reflection_pad2d.out reflection_pad3d.out repeat.out replication_pad1d.out
        replication_pad2d.out replication_pad3d.out select_copy.int_out
        slice_copy.Tensor_out squeeze_copy.dim_out squeeze_copy.dims_out sym_numel
        sym_size.int t_copy.out transpose_copy.int_out unsqueeze_copy.out
        view_as_real_copy.out view_copy.out zeros.out
    """,
    ("Fh", "Fh"): """
        _cdist_forward.out _log_softmax.out _native_batch_norm_legit.no_stats_out
        _native_batch_norm_legit.out _native_batch_norm_legit_no_training.out
        _pdist_forward.out _softmax.out convolution_backward.out elu.out gelu.out glu.out
        leaky_relu.out max_pool2d_with_indices_backward.grad_input native_group_norm.out
        native_layer_norm.out rand.out randn.out var.correction_out var.out
        var_mean.correction_out
    """,
    ("Fh", "Fhb"): """
        native_dropout.out
    """,
    ("Fhc", "Fhc"): """
        abs.out
    """,
    ("Fhl", "Fhl"): """
        _adaptive_avg_pool2d.out avg_pool2d.out
    """,
    ("Ib", "Ib"): """
        bitwise_and.Scalar_out bitwise_and.Tensor_out bitwise_left_shift.Tensor_Scalar_out
        bitwise_left_shift.Tensor_out bitwise_not.out bitwise_or.Scalar_out
        bitwise_or.Tensor_out bitwise_right_shift.Tensor_Scalar_out
        bitwise_right_shift.Tensor_out bitwise_xor.Scalar_out bitwise_xor.Tensor_out
    """,
    ("R", "R"): """
        repeat_interleave.Tensor_out
    """,
    ("Rh", "R"): """
        argmax.out argmin.out
    """,
    ("Rh", "Rh"): """
        _upsample_bilinear2d_aa.out addmm.out arange.out arange.start_out ceil.out
        convolution.out floor.out grid_sampler_2d.out hardtanh.out mm.out neg.out relu.out
        round.out rsub.Scalar_out sign.out sub.Scalar_out sub.out trunc.out
        upsample_bilinear2d.vec_out upsample_nearest2d.vec_out
    """,
    ("Rh", "Rhb"): """
        max_pool2d_with_indices.out topk.values
    """,
    ("Rhb", "Fh"): """
        acos.out acosh.out asin.out asinh.out atan.out atan2.out atanh.out cos.out cosh.out
        erf.out exp.out expm1.out log.out log10.out log1p.out log2.out mean.dtype_out
        mean.out reciprocal.out rsqrt.out sigmoid.out sin.out sinh.out sqrt.out tan.out
        tanh.out
    """,
    ("Rhb", "Fhc"): """
        div.Scalar_out div.out
    """,
    ("Rhb", "Rhb"): """
        _to_copy.out amax.out amin.out any.all_out any.dims_out any.out clamp.Tensor_out
        clamp.out constant_pad_nd.out copy.out copy_ cumsum.out div.Scalar_mode_out
        div.out_mode eq.Scalar_out eq.Tensor_out fill.Scalar_out fill.Tensor_out flip.out
        floor_divide.out fmod.Scalar_out fmod.Tensor_out full.out full_like.out gather.out
        ge.Scalar_out ge.Tensor_out gt.Scalar_out gt.Tensor_out index.Tensor_out
        index_put.out index_put_ le.Scalar_out le.Tensor_out logical_and.out logical_not.out
        logical_or.out logical_xor.out logit.out lt.Scalar_out lt.Tensor_out
        masked_fill.Scalar_out masked_scatter.out max.dim_max max.unary_out maximum.out
        min.dim_min min.unary_out minimum.out ne.Scalar_out ne.Tensor_out nonzero.out
        ones.out pow.Scalar_out pow.Tensor_Scalar_out pow.Tensor_Tensor_out prod.int_out
        prod.out remainder.Scalar_out remainder.Tensor_out roll.out scalar_tensor.out
        scatter.src_out scatter.value_out scatter_add.out select_scatter.out
        slice_scatter.out split_copy.Tensor_out split_with_sizes_copy.out stack.out tril.out
        unbind_copy.int_out unfold_copy.out where.self_out
    """,
    ("Rhb", "b"): """
        isinf.out isnan.out
    """,
    ("Rhbc", "Rhb"): """
        sum.IntList_out
    """,
    ("Rhbc", "Rhbc"): """
        add.Scalar_out add.out cat.out mul.Scalar_out mul.out
    """,
    ("Rhc", "Rhc"): """
        bmm.out
    """,
}


def _dtypes(code: str) -> tuple[str, ...]:
    return () if code == "*" else tuple(name for letter in code for name in _CLASSES[letter])


def _manifest() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for (inputs, outputs), names in _KERNELS.items():
        for short in names.split():
            name = short if "::" in short else f"aten::{short}"
            table[name] = {
                "inputs": _dtypes(inputs),
                "outputs": _dtypes(outputs),
                "max_rank": _RANK_LIMITS.get(name, _MAX_RANK),
            }
    return table


UPSTREAM_KERNELS = _manifest()
"""Operator → dtypes of inputs and outputs (empty: any) and the largest rank."""
