"""Reasons for which tests of upstream's suites fail here; upstream_suites.py checks them."""

from __future__ import annotations

_PRIVATE = "it uses a private name of upstream's"
_ATTRIBUTE = "it uses a private attribute of upstream's"
_MOCKS = "it replaces parts of upstream's code by mocks"
_DEVICES = "programs for other devices than the CPU are not part of this package"
_COMPLEX = "operators take complex numbers"
_FOLDED = "constants are folded and converted at export"
_LOOPS = "a loop over a static size needs no sym_size"
_ORDER = "values of a plan have another order: constants first, equal numbers once"
_LINEAR = "a linear layer makes its input contiguous by _clone_dim_order, without expand_copy"
_OLD_MANAGER = "transform() leaves the manager that it is called on as it is"
_EXAMPLES = "upstream's examples of language models are not part of this package"
_ROWS = "the body of a loop reads and writes rows of the outer tensors, and needs no copies"
_CONTENTS = "the check of a plan knows that an input inside of another one overwrites it"
_MOE = "llama::quantized_moe_ffn has no kernel: only torchao knows its packed weights"
_WORDING = "the error is of upstream's class, its message is worded otherwise"
_NO_MODULE = "it uses a module that is not in upstream's wheel"
_MOVES = "moves alone stay with kernels; with delegate_moves the test passes"
_DELEGATED = "XNNPACK computes it here, equal to eager, and upstream leaves it"
_WHOLE_LINEAR = "a decomposed linear layer with quantized weights is delegated in floats as well"
_SCALES = "QuantizationError, a ValueError, names node and number in other words"
_PER_TENSOR = "weights with one scale are delegated, with equal scales for the rows"

_GRID_F16 = "*GridSampler2DExecutorchTest::test_different_dtypes"
_GROUPS_F16 = "*::TestLinear::test_linear_qd8_f16_per_token_weight_per_channel_group_int4"
_GROUPS_F32 = "*::TestLinear::test_linear_qd8_f32_per_token_weight_per_channel_group_int4"

_OFFLINE = r"urllib\.error\.URLError"

# Patterns that no failure may have on some runs: inputs without a seed, machines with a network.
OF_CHANCE = frozenset({_GRID_F16, _GROUPS_F16, _GROUPS_F32, _OFFLINE})
# Reasons that hold only if the test itself failed, not code of this package that it called.
OF_TESTS = frozenset({_ATTRIBUTE, _WORDING})
# The reason that holds only if upstream's wheel does not have the module of the first group.
OF_MISSING_MODULES = _NO_MODULE

# Pattern of a failure's text (re) → reason. The first group, if there is one, is the reason.
MESSAGES: tuple[tuple[str, str], ...] = (
    (r"executorch_py has no [\w.]+: (.*? is not part of this package: .*)", "a refused name"),
    (r"executorch_py has no (?:[\w.]+\.)?_\w+:", _PRIVATE),
    (
        r"custom_ops_generated_lib|et_quant_test|'(?:my_awesome_3rdparty_ns|et_test)' object",
        "a test library in C++ is not in upstream's wheel",
    ),
    (r"(?:has|have) no attribute '_[a-z]\w*'", _ATTRIBUTE),
    (r"TypeError: \w+\._[a-z]\w*\(\) (?:takes|got|missing)", _ATTRIBUTE),
    (
        r"""AssertionError: (?:Regex pattern did not match|".*" does not match ")""",
        _WORDING,
    ),
    (  # in the text of an error, not in that of a graph
        r"""\bstr\([\w.]*(?:exception|value|err|error|e)\)[^\n]*\n(?:[^\n]*\n)*?"""
        r"""E +AssertionError: (["']).*\1 not found in ["']""",
        _WORDING,
    ),
    (
        r"No module named '(?:torchvision|timm|torchaudio|transformers|omegaconf|parameterized"
        r"|pandas)'",
        "a package that the suites need is not installed",
    ),
    (r"No module named 'executorch_py\.examples'", "it uses upstream's scripts of examples"),
    (r"No module named '(executorch\.[\w.]+)'", _NO_MODULE),
    (r"(?:(?:a|an) |')Mock\b|unittest\.mock\.Mock", _MOCKS),
    (r"this version records no ETDump", "ETDump is not recorded by this version"),
    (_OFFLINE, "it downloads weights, and this machine has no network"),
    (r"no available backend for: ExecutorBackend", "its backend is not in upstream's wheel either"),
    (
        r"'channels_last' object has no attribute|torch knows no channels_last::",
        "backends.transforms.channels_last_ops is refused; it defines the operator",
    ),
    (r"exir\.capture\(\) is gone", "exir.capture is refused; torch.export replaces it"),
    (r"has no upper bound, so no memory can be planned", "a Dim without max is refused"),
    (r"observers saw no data", "a conversion with observers that saw no data is refused"),
    (
        r"is a memory function of a program that is already lowered",
        "a program that is lowered for the runtime is saved as a .pte, not as a .pt2",
    ),
    (
        r'find "(?:executorch_exir_memory_alloc|executorch_exir_dialects_backend__)',
        "functions have other names in printed graphs",
    ),
)

# Pattern of tests (fnmatch) → reason.
DIFFERENCES: tuple[tuple[str, str], ...] = (
    (
        "exir/backend/*::test_buffer_mutation_unsupported",
        "a delegate may return a buffer it writes",
    ),
    (
        "exir/backend/*::test_multi_method_to_backend_constants",
        "copies of a constant, one per partition and not per user, have other numbers",
    ),
    ("export/*::TestExportRecipeGetRecipe::test_get_recipe_unsupported_recipe_*", _WORDING),
    ("export/*::TestExportSessionErrorHandling::test_access_results_before_export", _WORDING),
    ("export/*::TestExportSessionErrorHandling::test_empty_example_inputs_list", _WORDING),
    ("export/*::test_export_stage_invalid_aten_transform_pass", _WORDING),
    ("export/*::TestQuantizeStage::test_run_empty_example_inputs", _WORDING),
    ("export/*::TestRecipeRegistry::test_create_recipe_unsupported_backend", _WORDING),
    ("extension/pybindings/*_rejects_input_on_unrepresentable_device", _WORDING),
    ("export/*::test_a_rejected_pipeline_leaves_the_previous_run_intact", _ATTRIBUTE),
    (
        "extension/pybindings/*::test_program_data_separation",
        "a file that holds no tensors is refused when it is loaded, not at the first call",
    ),
    ("extension/flat_tensor/*::test_serialize_*align*", _PRIVATE),
    ("extension/flat_tensor/*::test_deserialize_refuses_newer_version", _MOCKS),
    ("extension/llm/custom_ops/test_quantized_moe.py::*::test_sentinel_op_*registered", _MOE),
    (
        "*::SDPATestForSpeculativeDecode::test_sdpa_with_cache_seq_len_130",
        "sums have another order; as near to float64 as the reference, which is not within 1e-6",
    ),
    (
        _GRID_F16,
        "halves are rounded once; eager rounds each step and is farther from float64",
    ),
    ("*::TestArgValidator::test_edge_dialect_fails", _COMPLEX),
    ("*::TestEdgeVerification::test_edge_sad_with_edge_ops", _COMPLEX),
    ("*::test_edge_dialect_non_core_aten_ops", "operators that have a kernel here are accepted"),
    ("exir/program/*::test_while", "while_loop is supported"),
    (
        "*::TestExirCommon::test_get_schema_for_operators",
        "upstream fails it as well: torch has no operator _caffe2::RoIAlign",
    ),
    ("*::TestJointGraph::test_joint_graph", "the memory plan has other offsets"),
    ("*::TestMisc::test_multiple_pools_*", _OLD_MANAGER),
    ("*::TestMisc::test_mutation_not_double_allocated", "a buffer is written in place, no copy_"),
    ("*::TestMap::test_custom_kv_cache_shared_buffers", _EXAMPLES),
    ("*::TestMap::test_map", _ROWS),
    ("*::TestMap::test_multi_map", _ROWS),
    ("*::TestDeviceAwareMemoryPlanning::*", _DEVICES),
    ("*::test_set_alloc_node_spec_uses_shared_alloc_offset", _PRIVATE),
    ("*::test_verifier_allows_*storage_base_overlap", _CONTENTS),
    ("*::test_channels_last_linear_inserts_copy_before_expand_copy", _LINEAR),
    ("*::test_issue_11086_runtime_regressions", _LINEAR),
    (
        "*::test_issue_16507_runtime_regressions",
        "the kernel of mean takes channels-last inputs, so they are not copied",
    ),
    (
        "*::test_constant_prop_pass_after_delegation",
        "the constants were folded, or belong to the delegate, before the pass runs",
    ),
    (
        "*::test_constant_prop_pass_for_control_flow",
        "the pass folds what is outside of control flow; it logs no warning",
    ),
    ("*::test_debug_handle_generator_pass_generate_same*", "nodes have other names"),
    ("*::test_pass_no_user_inputs", "lifted constants come after the buffers"),
    (
        "*::test_replace_view_copy_with_view_pass",
        "the views are replaced; printed code has the name of this package's `memory.view`",
    ),
    (
        "*::test_to_edge_quantized_dropout",
        "upstream fails it as well with the same torch",
    ),
    ("*::TestPropagateDevicePass::*", _DEVICES),
    ("*::TestEmit::test_emit_*device*", _DEVICES),
    ("*::test_program_loads_when_one_method_is_device_planned", _DEVICES),
    ("*::TestQuantFusionPass::test_slice", "fused operators have another order; values are equal"),
    ("*::TestQuantIOPass::*", _OLD_MANAGER),
    (
        "*::TestRemoveViewCopy::test_spec",
        "lifetimes count the nodes of another graph: constants are folded",
    ),
    (
        "*::test_program_with_a_fake_state_dict_round_trips",
        "a fake tensor of a state dict is refused: a saved program has numbers",
    ),
    ("*::TestEmit::test_constant_tagged_mutable_tensors", _FOLDED),
    ("*::TestEmit::test_emit_lifted_constant", _FOLDED),
    ("*::TestEmit::test_emit_weight_view", _FOLDED),
    ("*::TestEmit::test_non_const_buffer_sizes", _FOLDED),
    ("*::TestEmit::test_non_persistent_buffer", _FOLDED),
    ("*::TestEmit::test_operators_unique", "a product with ones is left out"),
    ("*::TestEmit::test_emit_map", _LOOPS),
    ("*::TestEmit::test_emit_scan_*", _LOOPS),
    (
        "*::TestEmit::test_final_graph_module_update_debug_handle",
        "nodes keep the debug handles of the Edge program",
    ),
    ("*::TestEmit::test_infinity_in_model", _ORDER),
    ("*::TestEmit::test_kwargs1", _ORDER),
    ("*::TestEmit::test_upper_bound_memory_planning_respect_input_constraints", _ORDER),
    (
        "backends/xnnpack/*::test_fp32_conv3d_batch_norm_doesnt_partition",
        "a batch norm that follows no convolution of XNNPACK's is delegated",
    ),
    (
        "backends/xnnpack/*::test_deprecation_warning_for_to_backend_workflow",
        "to_edge() and to_backend() are not deprecated: they take what the one call takes",
    ),
    (
        "backends/xnnpack/*::test_validate_recipe_kwargs_int4_tensor_with_invalid_group_size",
        _WORDING,
    ),
    (
        "backends/xnnpack/*::test_transform_passes_remove_same_shape_expand_copy",
        "to_executorch() turns the expand_copy into a view; no pass before it removes it",
    ),
    ("*::TestXNNPACKQuantizer::test_*gru", "the products inside of a GRU are quantized, too"),
    (
        "*::TestXNNPACKQuantizer::test_obs_sharing_ops",
        "a mean over all dimensions is not delegated, so its result is not quantized",
    ),
    (
        "*::TestXnnpackPartitioner::test_multi_method_partitioning_with_shared_weights",
        "the output node is named output, not output_1; weights are shared and results equal",
    ),
    ("*/ops/test_add.py::TestAdd::test_add_with_alpha", _DELEGATED),
    ("*/ops/test_sub.py::TestSub::test_add_with_alpha", _DELEGATED),
    ("*/ops/test_batch_norm.py::TestBatchNorm::test_fp32_batch_norm3d_not_partitioned", _DELEGATED),
    ("*/ops/test_gelu.py::TestGelu::test_fp16_gelu", _DELEGATED),
    ("*/ops/test_max_dim.py::TestMaxDim::test_fp16_max_dim_with_indicies", _DELEGATED),
    ("*/ops/test_max_dim.py::TestMaxDim::test_fp32_max_dim_with_indices", _DELEGATED),
    ("*/ops/test_mean_dim.py::TestMeanDim::test_fp32_mean_dim_unsupported", _DELEGATED),
    ("*/ops/test_mean_dim.py::TestMeanDim::test_fp32_mean_dim_unsupported_3d", _DELEGATED),
    (
        "*/ops/test_mean_dim.py::TestMeanDim::test_fp32_mean_dim_unsupported_keepdim_false",
        _DELEGATED,
    ),
    ("*/ops/test_pow.py::TestPow::test_fp32_pow_unsupported", _DELEGATED),
    ("*/ops/test_cat.py::TestCat::test_fp32_cat_negative_dim", _MOVES),
    ("*/ops/test_clone.py::TestClone::test_fp16_clone", _MOVES),
    ("*/ops/test_clone.py::TestClone::test_fp32_clone", _MOVES),
    ("*/ops/test_clone.py::TestClone::test_fp32_clone_2d", _MOVES),
    ("*/ops/test_clone.py::TestClone::test_fp32_clone_3d", _MOVES),
    (
        "*/ops/test_clone.py::TestClone::test_fp32_clone_default_partitions_with_skip_dim_order",
        _MOVES,
    ),
    ("*/ops/test_clone.py::TestClone::test_fp32_clone_with_contiguous_format", _MOVES),
    (
        "*/ops/test_quantize_per_tensor.py::TestQuantizePerTensor::test_qs8_dequantize_per_tenstor",
        _MOVES,
    ),
    (
        "*/ops/test_quantize_per_tensor.py::TestQuantizePerTensor::test_qs8_quantize_per_tensor",
        _MOVES,
    ),
    ("*/ops/test_slice_copy.py::TestSliceCopy::test_fp16_slice_copy", _MOVES),
    ("*/ops/test_slice_copy.py::TestSliceCopy::test_fp32_slice_copy", _MOVES),
    ("*/ops/test_slice_copy.py::TestSliceCopy::test_fp32_slice_copy_default_start", _MOVES),
    ("*::TestCheckQuantParams::test_in_per_channel_quant", _SCALES),
    ("*::TestCheckQuantParams::test_in_per_tensor_quant", _SCALES),
    ("*::TestCheckQuantParams::test_inject_invalid_zp", _SCALES),
    (
        "*::TestConv2d::test_qs8_conv_transpose_2d_quantize_per_channel_multi_axis",
        "scales along other axes are computed, equal to eager, where upstream raises",
    ),
    (
        "*/ops/test_hardtanh.py::TestHardTanh::test_qs8_hardtanh",
        "a hardtanh is the clamp of the sum before it, so one quantization is left out",
    ),
    ("*::TestLinear::test_linear_qc8_as_fp32", _WHOLE_LINEAR),
    ("*::TestLinear::test_linear_qd8_as_fp32", _WHOLE_LINEAR),
    ("*::TestLinear::test_linear_qs8_as_fp32", _WHOLE_LINEAR),
    (
        _GROUPS_F16,
        "inputs have no seed; eager in float16 is farther from float64 than the delegate",
    ),
    (_GROUPS_F32, "inputs have no seed; upstream's own runtime exceeds the limit for some of them"),
    (
        "*::TestLinear::test_linear_qd8_per_token_groupwise_unsupported_groupsize",
        "groups of 30 stay with kernels, equal to eager, where upstream raises",
    ),
    ("*::TestLinear::test_qd8_f16_per_tensor_linear", _PER_TENSOR),
    ("*::TestLinear::test_qd8_f32_per_tensor_linear", _PER_TENSOR),
)
