"""Upstream's import paths and names that this package does not have, each with the reason.

An entry names paths ("devtools.visualization", with all below it) or names of a path
("exir.tracer:dispatch_trace"). Importing one raises an ImportError that gives the reason and the
replacement. `_upstream_paths.py` looks entries up by `refuse_path` and `refuse_name`. A path that
gets a module loses its entry.
"""

from __future__ import annotations

from typing import NamedTuple

_PACKAGE = "executorch_py"


class RefusedNameError(ImportError):
    """A name of upstream's that this package does not have; the message has the replacement."""


class RefusedPathError(RefusedNameError, ModuleNotFoundError):
    """An import path of upstream's that this package does not have."""


class Refusal(NamedTuple):
    """Paths and names, separated by spaces, that are refused for one reason."""

    names: str
    reason: str
    instead: str


_DEVICES = (
    "backends.aoti backends.apple backends.arm backends.cadence backends.cortex_m backends.cuda "
    "backends.mediatek backends.mlx backends.mps backends.nxp backends.openvino backends.qualcomm "
    "backends.samsung backends.vulkan backends.webgpu"
)

_REWRITES = (
    "backends.transforms.addmm_mm_to_linear "
    "backends.transforms.canonicalize_view_copy_permute_pass "
    "backends.transforms.channels_last_layout backends.transforms.channels_last_ops "
    "backends.transforms.convert_conv1d_to_conv2d_pass "
    "backends.transforms.decompose_channels_last_pass backends.transforms.decompose_sdpa "
    "backends.transforms.dim_maps backends.transforms.enforce_contiguous_dim_order "
    "backends.transforms.fuse_cascaded_transpose_or_permute_ops "
    "backends.transforms.fuse_conv_with_clamp backends.transforms.fuse_duplicate_users_pass "
    "backends.transforms.fuse_identical_input_transforms_pass "
    "backends.transforms.fuse_transpose_or_permute_op_pairs_pass "
    "backends.transforms.permute_pass_utils backends.transforms.permute_view_meta "
    "backends.transforms.postpone_permute_below_squeeze_view "
    "backends.transforms.propagate_view_copy_permute_pass "
    "backends.transforms.quantize_fused_convbn_bias_pass "
    "backends.transforms.remove_permutes_around_elementwise_ops "
    "backends.transforms.replace_channels_last_input_clones "
    "backends.transforms.replace_nop_transpose_or_permute_with_view "
    "backends.transforms.replace_ops_with_channels_last_variants "
    "backends.transforms.replace_squeeze_unsqueeze_with_view"
)

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        _REWRITES,
        "it rewrites graphs for delegates of other hardware, which this package does not have",
        "executorch_py.exir.pass_base.ExportPass for a rewrite of one's own; to_executorch() "
        "simplifies what is not delegated",
    ),
    Refusal(
        "backends.xnnpack._passes",
        "partitions for XNNPACK are rewritten by passes of this package",
        "executorch_py.backends.xnnpack.XnnpackPartitioner, which runs them",
    ),
    Refusal(
        _DEVICES,
        "this package has no delegate for that hardware",
        "executorch_py.backends.xnnpack on CPUs; executorch_py.backends.reference is the example "
        "of a backend of one's own",
    ),
    Refusal(
        "backends.example",
        "the example backend of this package is another",
        "executorch_py.backends.reference",
    ),
    Refusal(
        "backends.native",
        "no runtime reads the files of this backend",
        "executorch_py.backends.xnnpack",
    ),
    Refusal(
        "backends.xnnpack.operators backends.xnnpack.serialization",
        "XNNPACK payloads are built by code of this package, in tables of its own",
        "executorch_py.backends.xnnpack.XnnpackPartitioner",
    ),
    Refusal(
        "backends.xnnpack.partition.graphs",
        "patterns are found by matchers, and no pattern is a graph",
        "executorch_py.backends.xnnpack.XnnpackPartitioner",
    ),
    Refusal(
        "data",
        "no file is written or read with flatc",
        "executorch_py.exir._serialize._program",
    ),
    Refusal(
        "devtools.etdump",
        "ETDump files are neither recorded nor read",
        "the command `executorch_py run FILE --profile` for times",
    ),
    Refusal(
        "devtools.inspector._inspector devtools.inspector._inspector_utils "
        "devtools.inspector._intermediate_output_capturer devtools.inspector.inspector_cli "
        "devtools.inspector.numerical_comparator devtools.inspector.vgf_neural_statistics "
        "devtools.inspector:Event devtools.inspector:EventBlock devtools.inspector:PerfData",
        "ETDump files are neither recorded nor read",
        "the command `executorch_py run FILE --profile` for times, and `program.verify(model, "
        "*inputs)` for the accuracy of outputs",
    ),
    Refusal(
        "devtools.debug_format devtools.visualization devtools.scripts",
        "graphs are not drawn",
        "executorch_py.exir.print_program and the command `executorch_py inspect FILE`",
    ),
    Refusal(
        "devtools.intermediate_output_tap",
        "programs have no taps for values inside them",
        "`program.verify(model, *inputs)` and executorch_py.quantizer.compare",
    ),
    Refusal(
        "devtools.pte_tool devtools.size_analysis_tool",
        "files are listed by a command",
        "`executorch_py inspect FILE`, which gives the bytes of every part",
    ),
    Refusal(
        "devtools.bundled_program.serialize.generate_bundled_program "
        "exir._serialize.generate_program exir._serialize._flatbuffer "
        "exir._serialize._flatbuffer_program exir._serialize.generated exir._serialize._dataclass",
        "upstream's private writer of flatbuffers; this package has its own and needs no flatc",
        "serialize_pte_binary and deserialize_pte_binary of executorch_py.exir._serialize._program",
    ),
    Refusal(
        "exir._program_utils exir.capture._unlift exir.program._fake_program exir.wrap exir.types "
        "exir.graph exir.capture._capture:patch_forward",
        "a private helper of upstream's exporter",
        "executorch_py.exir.to_edge",
    ),
    Refusal(
        "exir._serialize._program:_ExtendedHeader exir._serialize._program:_get_extended_header "
        "exir._serialize._program:_program_to_json",
        "a private helper of upstream's writer",
        "deserialize_pte_binary of executorch_py.exir._serialize._program",
    ),
    Refusal(
        "exir.dialects._ops:_DialectNamespace exir.dialects._ops:_OpNamespace "
        "exir.dialects._ops:_Ops exir.dialects.edge._ops:AllowedDtypeSet "
        "exir.dialects.edge._ops:FunctionDtypeConstraint "
        "exir.dialects.edge._ops:_edge_dialect_info exir.dialects.edge.arg "
        "exir.dialects.edge.dtype exir.dialects.edge.op exir.dialects.edge.spec",
        "upstream's private description of the edge dialect",
        "executorch_py.exir.dialects._ops.ops for operators, and EXIREdgeDialectVerifier of "
        "executorch_py.exir.verification.verifier for their rules",
    ),
    Refusal(
        "exir.emit._emitter",
        "a private class of upstream's exporter",
        "executorch_py.exir.emit.emit_program",
    ),
    Refusal(
        "exir.graph_module:_get_submodule exir.lowered_backend_module:arrange_graph_outputs "
        "exir.lowered_backend_module:arrange_graph_placeholders "
        "exir.lowered_backend_module:create_submodule_from_nodes",
        "a private helper of upstream's partitioning",
        "executorch_py.exir.backend.backend_api.to_backend",
    ),
    Refusal(
        "exir.memory_planning:_do_user_inputs_exist "
        "exir.memory_planning:_extend_storage_base_lifetimes "
        "exir.memory_planning:_is_inplace_node",
        "a private helper of upstream's planner",
        "executorch_py.exir.memory_planning.apply_algo",
    ),
    Refusal(
        "exir.native",
        "its packages are for upstream's NativeBackend, and no runtime reads them",
        "executorch_py.exir.EdgeProgramManager.to_executorch",
    ),
    Refusal(
        "exir.operator.manip exir.operator.util exir.operator.convert:output_to_aliased_input_map "
        "exir.operator.convert:_get_overload_schema exir.operator.convert:schema_to_opoverload",
        "a private helper of upstream's",
        "to_out_variant of executorch_py.exir.operator.convert",
    ),
    Refusal(
        "exir.passes._quant_patterns_and_replacements exir.passes.executorch_prim_ops_registry",
        "a private registry of upstream's",
        "executorch_py.kernels.quantized, which registers the quantized operators",
    ),
    Refusal(
        "exir.passes.dynamic_shape_prop_pass exir.passes.replace_broken_ops_with_function_ops_pass",
        "upstream's exporter does not run it any more",
        "executorch_py.exir.to_edge",
    ),
    Refusal(
        "exir.passes:to_scratch_op_pass exir.passes:make_alloc_node exir.passes:update_args "
        "exir.passes:to_out_var_skiplist exir.passes:base_pre_op_replace_passes "
        "exir.passes:base_post_op_replace_passes",
        "a private part of upstream's exporter; kernels get scratch memory from the runtime",
        "executorch_py.exir.edge_to_executorch_passes for the passes of a lowering",
    ),
    Refusal(
        "exir.passes.quant_fusion_pass:_get_node_value_dict "
        "exir.passes.remove_noop_pass:eliminate_dq_q "
        "exir.passes.replace_aten_with_edge_pass:DISALLOW_LIST",
        "a private helper of upstream's passes",
        "the public passes in executorch_py.exir.passes",
    ),
    Refusal(
        "exir.passes.propagate_device_pass:PropagateDevicePass "
        "exir.passes.propagate_device_pass:_get_target_device_from_compile_specs "
        "exir.passes.propagate_device_pass:_parse_device_spec_value",
        "memory of other devices than the CPU is not planned",
        "executorch_py.exir.to_edge_transform_and_lower with a backend that copies itself",
    ),
    Refusal(
        "exir.verification.interpreter",
        "it needs an extension module of upstream's that its packages do not have, either",
        "executorch_py.exir.ExecutorchProgramManager.run, which runs the file's bytes",
    ),
    Refusal(
        "exir:ExecutorchProgram exir:ExirExportedProgram "
        "exir.program._program:ExecutorchProgram exir.program._program:ExirExportedProgram",
        "these are results of upstream's first capture path",
        "executorch_py.exir.EdgeProgramManager and executorch_py.exir.ExecutorchProgramManager",
    ),
    Refusal(
        "exir.program._program:_transform exir.program._program:HackedUpExportedProgramDONOTUSE "
        "exir.program._program:_remove_invalid_ops_for_not_decompose",
        "a private helper of upstream's exporter",
        "executorch_py.exir.EdgeProgramManager.transform",
    ),
    Refusal(
        "exir.serde.export_serialize exir.serde.schema exir.serde.schema_check exir.serde.union",
        "a private copy of torch's serializer",
        "executorch_py.exir.save and executorch_py.exir.load",
    ),
    Refusal(
        "exir.tracer:_default_decomposition_table exir.tracer:dispatch_trace "
        "exir.tracer:dynamo_trace exir.tracer:flattened_dispatch_trace exir.tracer:using_tracer "
        "exir.tracer:DispatchTracer exir.tracer:PythonTensor",
        "models are traced by torch.export",
        "torch.export.export",
    ),
    Refusal(
        "exir.verification.dev_html",
        "a private helper of upstream's",
        "executorch_py.exir.print_program",
    ),
    Refusal(
        "export.target_recipes export.utils",
        "its recipes are for Core ML and Qualcomm's processors, of which there are no delegates",
        "executorch_py.export.ExportRecipe.get_recipe with a type of recipe such as "
        "executorch_py.backends.xnnpack.recipes.XNNPackRecipeType.FP32",
    ),
    Refusal(
        "extension.audio extension.gguf_util",
        "no models or converters are part of this package",
        "executorch_py.exir.to_edge on a model of one's own",
    ),
    Refusal(
        "extension.flat_tensor.serialize.serialize:_FLATBUFFER_ALIGNMENT "
        "extension.flat_tensor.serialize.serialize:_FLAT_TENSOR_VERSION "
        "extension.flat_tensor.serialize.serialize:_deserialize_to_flat_tensor",
        "a private helper of upstream's writer",
        "executorch_py.extension.flat_tensor.serialize.serialize.FlatTensorSerializer",
    ),
    Refusal(
        "extension.llm.runner:Image extension.llm.runner:MultimodalInput "
        "extension.llm.runner:MultimodalRunner extension.llm.runner:make_audio_input "
        "extension.llm.runner:make_image_input extension.llm.runner:make_raw_audio_input "
        "extension.llm.runner:make_text_input extension.llm.runner:make_token_input",
        "models of several modalities are not part of this version",
        "executorch_py.extension.llm.runner.TextLLMRunner for text",
    ),
    Refusal(
        "extension.llm.cache extension.llm.modules",
        "parts of upstream's models are not part of this version",
        "executorch_py.extension.llm.session.Session, which generates with a program",
    ),
    Refusal(
        "extension.llm.export.builder extension.llm.export.export_passes "
        "extension.llm.export.gguf extension.llm.export.int4 extension.llm.export.load "
        "extension.llm.export.mx extension.llm.export.nvfp4 extension.llm.export.partitioner_lib "
        "extension.llm.export.quant extension.llm.export.quantize "
        "extension.llm.export.quantizer_lib",
        "upstream's steps of this export are not part of this version",
        "executorch_py.extension.llm.export.export_llm with an LlmConfig, or export_folder",
    ),
    Refusal(
        "extension.llm.tokenizers",
        "tokenizers are a package of their own",
        "executorch_py.extension.llm.tokenizer, which has the classes of pytorch_tokenizers",
    ),
    Refusal(
        "extension.pybindings.aten_lib",
        "it runs ATen's kernels, and this runtime has its own and needs no torch",
        "executorch_py.extension.pybindings.portable_lib, with the same functions",
    ),
    Refusal(
        "util.collect_env",
        "versions and features are listed by a command",
        "`executorch_py doctor`",
    ),
)

# "path" or "path:name" below the package -> its entry.
_ENTRIES = {name: entry for entry in REFUSALS for name in entry.names.split()}
REFUSED_PATHS = frozenset(name for name in _ENTRIES if ":" not in name)
REFUSED_NAMES = frozenset(name for name in _ENTRIES if ":" in name)


def message_of(entry: str) -> str:
    """The message for "path" or "path:name", an entry of REFUSED_PATHS or REFUSED_NAMES."""
    refusal = _ENTRIES[entry]
    full = f"{_PACKAGE}.{entry.replace(':', '.')}"
    return f"{full} is not part of this package: {refusal.reason}. Use {refusal.instead}."


def refuse_path(path: str) -> None:
    """RefusedPathError if the full path is one that this package does not have."""
    below = path.removeprefix(f"{_PACKAGE}.")
    if below in REFUSED_PATHS:
        raise RefusedPathError(message_of(below))


def refuse_name(module: str, name: str) -> None:
    """RefusedNameError if the name is one that the module at the full path does not have."""
    entry = f"{module.removeprefix(f'{_PACKAGE}.')}:{name}"
    if entry in REFUSED_NAMES:
        raise RefusedNameError(message_of(entry))
