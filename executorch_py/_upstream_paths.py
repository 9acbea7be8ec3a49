"""Upstream's import paths that no module here has, each with the modules that define its names.

Scripts written for ExecuTorch import from the paths of its source tree. A path without a file here
is an entry of UPSTREAM_PATHS. Importing it gives a module whose names are looked up in the modules
of the entry when they are first used. `_path_finder.py` calls this module. Paths of
`_refused_paths.py` raise an error that names the replacement.
"""

from __future__ import annotations

import importlib
import types
import warnings
from importlib.machinery import ModuleSpec
from typing import Any

from executorch_py._former_paths import FORMER_PATHS
from executorch_py._refused_paths import refuse_name, refuse_path

_PACKAGE = "executorch_py"

# Path below the package -> modules of its names: "module" for all names of a module, "module:A B"
# for A and B, "module:A>B" for A under the name B. All modules but torch's are below the package.
UPSTREAM_PATHS: dict[str, tuple[str, ...]] = {
    "backends.transforms.aten_to_dialect_pass": (
        "backends.transforms.dialect_substitution:AtenToDialectPass DialectNodeSpec SubstitutionFn",
    ),
    "backends.transforms.collapse_view_copy": (
        "backends.transforms.view_passes:CollapseViewCopyPass",
    ),
    "backends.transforms.convert_dtype_pass": (
        "backends.transforms.dtype_passes:ConvertDtypePass I64toI32",
    ),
    "backends.transforms.fuse_batch_norm_with_conv": (
        "backends.transforms.operator_passes:FuseBatchNormWithConvPass",
    ),
    "backends.transforms.fuse_cascaded_view_ops": (
        "backends.transforms.view_passes:FuseCascadedViewOps",
    ),
    "backends.transforms.fuse_view_copy": (
        "backends.transforms.view_passes:FuseViewCopyTransform",
    ),
    "backends.transforms.mean_to_sum_div": ("backends.transforms.operator_passes:MeanToSumDiv",),
    "backends.transforms.rank_0_to_rank_1": ("backends.transforms.view_passes:Rank0ToRank1Pass",),
    "backends.transforms.remove_clone_ops": (
        "backends.transforms.operator_passes:RemoveCloneOpsTransform",
    ),
    "backends.transforms.remove_getitem_op": (
        "backends.transforms.operator_passes:RemoveGetItemPass",
    ),
    "backends.transforms.replace_scalar_with_tensor": (
        "backends.transforms.operator_passes:ReplaceScalarWithTensorArgPass",
    ),
    "backends.transforms.view_copy_to_squeeze_unsqueeze": (
        "backends.transforms.view_passes:ViewCopyToSqueezeUnsqueezePass",
    ),
    "backends.transforms.utils": (
        "exir.ir.program_constants:create_constant_placeholder create_mutable_buffer",
        "exir.ir.program_constants:delete_constant_placeholder get_param_tensor is_get_attr_node",
        "exir.ir.program_constants:is_param_node set_param_tensor",
    ),
    "backends.xnnpack.quantizer.xnnpack_quantizer_utils": (
        "torchao.quantization.pt2e.quantizer:OperatorConfig OperatorPatternType get_bias_qspec",
        "torchao.quantization.pt2e.quantizer:get_input_act_qspec get_output_act_qspec",
        "torchao.quantization.pt2e.quantizer:get_weight_qspec",
        "quantizer.spec:QuantizationConfig QuantizationSpec",
    ),
    "backends.xnnpack.utils.quant_utils": ("backends.xnnpack.utils.quantize_nodes",),
    "backends.xnnpack.utils.utils": (
        "backends.xnnpack.utils.node_arguments",
        "exir.ir.program_constants:get_param_tensor get_tensor_name is_get_attr_node is_param_node",
    ),
    "backends.xnnpack.xnnpack_preprocess": ("backends.xnnpack.preprocess:XnnpackBackend",),
    "devtools.backend_debug": (
        "exir.inspect:DelegationBreakdown DelegationInfo get_delegation_info print_delegation_info",
    ),
    "devtools.backend_debug.delegation_info": (
        "exir.inspect:DelegationBreakdown DelegationInfo get_delegation_info print_delegation_info",
    ),
    "exir._serialize": (
        "exir.serialize.cord:Cord",
        "exir.serialize.named_data:NamedDataStoreOutput NamedDataStore>_NamedDataStore",
        "exir.serialize.pte:PTEFile PTEFile>_PTEFile",
        "exir.serialize.pte:deserialize_pte_binary>_deserialize_pte_binary",
        "exir.serialize.pte:serialize_pte_binary>_serialize_pte_binary deserialize_pte_binary",
        "exir.serialize.pte:serialize_pte_binary",
    ),
    "exir._serialize._cord": ("exir.serialize.cord:Cord CordBuffer FileBackedData",),
    "exir._serialize._named_data_store": (
        "exir.serialize.named_data:NamedDataStore NamedDataStoreOutput",
    ),
    "exir._serialize._program": (
        "exir.serialize.pte:PTEFile deserialize_pte_binary serialize_pte_binary",
    ),
    "exir._serialize._ptn": ("exir.serialize.tensor_package",),
    "exir._serialize._serialize": ("exir.emit.artifacts:serialize_for_executorch",),
    "exir._serialize.data_serializer": ("exir.serialize.data_serializer",),
    "exir._serialize.padding": ("exir.serialize.padding",),
    "exir.backend.compile_spec_schema": ("exir.schema:CompileSpec",),
    "exir.backend.test": (),
    "exir.backend.test.backend_with_compiler_demo": (
        "testing.backends.backend_with_compiler_demo",
    ),
    "exir.backend.test.op_partitioner_demo": ("testing.backends.op_partitioner_demo",),
    "exir.backend.utils": (
        "exir.backend.debug_map:DelegateMappingBuilder",
        "exir.backend.graph_checks:is_identical_graph is_shape_dynamic",
        "exir.backend.reports:WhyNoPartition WhyNoPartitionReporter format_delegated_graph",
        "exir.backend.reports:get_delegated_payload get_delegates get_non_lowered_nodes",
        "exir.backend.reports:print_delegated_graph",
        "exir.backend.tagging:remove_first_quant_and_last_dequant tag_constant_data",
        "exir.backend.tagging:tag_mutated_buffer",
    ),
    "exir.banked_memory_planning": (
        "exir.memory.banks",
        "exir.passes.lower.memory_planning:banked_memory_planning_pass",
    ),
    "exir.capture._capture": ("exir.capture:CallSpec CaptureConfig capture",),
    "exir.capture._config": (
        "exir.capture:CaptureConfig",
        "exir.program.config:EdgeCompileConfig ExecutorchBackendConfig",
    ),
    "exir.common": ("exir.ir.operator_schemas",),
    "exir.debug_handle_utils": (
        "exir.passes.lower.debug_handle_generator:DEBUG_HANDLE_KEY FROM_NODE_KEY",
        "exir.passes.lower.debug_handle_generator:UNSET_DEBUG_HANDLE",
        "exir.passes.lower.debug_handle_generator:get_greatest_ancestor_node_identifier",
    ),
    "exir.delegate": (
        "torch._higher_order_ops.executorch_call_delegate:executorch_call_delegate",
        "torch._higher_order_ops.executorch_call_delegate:get_lowered_module_name",
        "torch._higher_order_ops.executorch_call_delegate:is_lowered_module",
    ),
    "exir.dialects._ops": ("exir.dialects.edge_ops:bind_pattern_to_op ops",),
    "exir.dialects.backend": (),
    "exir.dialects.backend._ops": (
        "exir.dialects.edge_ops:BackendOpOverload BackendOpOverloadPacket",
    ),
    "exir.dialects.edge": (),
    "exir.dialects.edge._ops": (
        "exir.dialects.edge_ops:EdgeDialectArgument EdgeDialectFunctionSchema EdgeOpOverload",
        "exir.dialects.edge_ops:EdgeOpOverloadPacket",
    ),
    "exir.dim_order_utils": ("exir.dialects.dim_order_utils",),
    "exir.dynamic_shape": ("exir.program.config:DynamicMemoryPlanningMode",),
    "exir.emit._emit_program": ("exir.emit.emitter_output:EmitterOutput emit_program",),
    "exir.graph_module": ("exir.ir.graph_modules",),
    "exir.lowered_backend_module": ("exir.backend.lowered_module",),
    "exir.memory_planning": (
        "exir.memory.planning",
        "exir.memory.graph_queries",
        "exir.memory.shared_objects",
    ),
    "exir.operator": (),
    "exir.operator.convert": ("exir.ir.op_conversion",),
    "exir.pass_base": (
        "torch.fx.passes.infra.pass_base:PassBase PassResult",
        "exir.passes.user.export_pass:ArgSchema Argument ExportPass ExportPassBaseError",
        "exir.passes.user.export_pass:ExportedProgramPassBase ExportedProgramPassResult Fn",
        "exir.passes.user.export_pass:NodeMetadata NodeMetadataValue PassType ProxyValue Value",
        "exir.passes.user.export_pass:map_args",
        "exir.passes.user.pass_values:PROTECTED_KEYS",
    ),
    "exir.pass_manager": ("exir.passes.user.pass_manager",),
    "exir.passes._device_copy_ops_registry": ("exir.dialects.device_copy",),
    "exir.passes.const_prop_pass": ("exir.passes.user.upstream_passes:ConstPropPass",),
    "exir.passes.constant_prop_pass": ("exir.passes.simplify.fold_constants:constant_prop_pass",),
    "exir.passes.convert_constant_dim_order_pass": (
        "exir.passes.to_edge.convert_constant_dim_order:convert_constant_dim_order_pass",
    ),
    "exir.passes.cse_pass": ("exir.passes.simplify.cse",),
    "exir.passes.debug_handle_generator_pass": (
        "exir.passes.lower.debug_handle_generator:DebugHandleGeneratorPass",
        "exir.passes.lower.debug_handle_generator:generate_missing_debug_handles",
    ),
    "exir.passes.dim_order_ops_registry": (
        "exir.dialects.dim_order:DimOrderOpsMap MemoryFormatOpsMap",
    ),
    "exir.passes.external_constants_pass": ("exir.passes.lower.external_constants",),
    "exir.passes.fold_redundant_qdq_pass": (
        "exir.passes.to_edge.remove_noop:FoldRedundantDequantizeQuantizePass",
    ),
    "exir.passes.init_mutable_pass": ("exir.passes.inplace.init_mutable",),
    "exir.passes.insert_write_back_for_buffers_pass": ("exir.passes.inplace.insert_write_back",),
    "exir.passes.legalize_portable_dim_order_pass": (
        "exir.passes.user.hooked_passes:LegalizePortableDimOrderPass",
    ),
    "exir.passes.memory_format_ops_pass": (
        "exir.passes.to_edge.memory_format_ops:DimOrderOpsRevertPass",
        "exir.passes.user.hooked_passes:MemoryFormatOpsPass",
    ),
    "exir.passes.memory_planning_pass": ("exir.passes.lower.memory_planning",),
    "exir.passes.normalize_transpose_pass": (
        "exir.passes.user.upstream_passes:NormalizeTransposePass",
    ),
    "exir.passes.normalize_view_copy_base_pass": ("exir.passes.inplace.normalize_view_base",),
    "exir.passes.pass_registry": ("exir.passes.user.pass_registry",),
    "exir.passes.propagate_device_config": ("exir.program.config:PropagateDeviceConfig",),
    "exir.passes.propagate_device_pass": (
        "exir.dialects.device_copy:TARGET_DEVICE_COMPILE_SPEC_KEY",
        "exir.program.config:PropagateDeviceConfig",
    ),
    "exir.passes.prune_empty_tensors_pass": (
        "exir.passes.to_edge.prune_empty_tensors:PruneEmptyTensorsPass",
    ),
    "exir.passes.quant_fusion_pass": (
        "exir.passes.fusion_passes:quant_fusion_and_const_prop_pass",
        "exir.passes.quantized.quant_fusion:QuantFusionPass",
    ),
    "exir.passes.quantize_io_pass": ("exir.passes.quantized.quantize_io",),
    "exir.passes.reinplace": ("exir.passes.inplace.reinplace",),
    "exir.passes.remove_graph_asserts_pass": (
        "exir.passes.lower.remove_graph_asserts:RemoveGraphAssertsPass",
        "exir.passes.to_edge.remove_tensor_metadata_asserts:RemoveNonCoreAtenOpGraphAssertsPass",
    ),
    "exir.passes.remove_mixed_type_operators": ("exir.passes.to_edge.remove_mixed_type_operators",),
    "exir.passes.remove_noop_pass": (
        "exir.passes.to_edge.remove_noop:RemoveNoopPass RemoveToCopyPass",
    ),
    "exir.passes.remove_unused_parameters_pass": (
        "exir.passes.to_edge.remove_unused_parameters:remove_unused_parameters_pass",
    ),
    "exir.passes.replace_aten_with_edge_pass": (
        "exir.passes.to_edge.replace_aten_with_edge:OpReplacePass aten_to_edge",
        "exir.passes.to_edge.replace_aten_with_edge:should_lower_to_edge",
    ),
    "exir.passes.replace_edge_with_backend_pass": ("exir.passes.lower.replace_edge_with_backend",),
    "exir.passes.replace_sym_size_op_pass": (
        "exir.passes.to_edge.replace_sym_size_ops:ReplaceSymSizeOpPass",
    ),
    "exir.passes.replace_view_copy_with_view_pass": ("exir.passes.inplace.replace_view_copy",),
    "exir.passes.scalar_to_tensor_pass": ("exir.passes.user.hooked_passes:ScalarToTensorPass",),
    "exir.passes.spec_prop_pass": ("exir.passes.lower.spec_prop",),
    "exir.passes.sym_shape_eval_pass": ("exir.passes.lower.sym_shape_eval",),
    "exir.passes.sym_to_tensor_pass": ("exir.passes.user.hooked_passes:SymToTensorPass",),
    "exir.passes.to_device_pass": ("exir.passes.user.upstream_passes:ToDevicePass",),
    "exir.passes.weights_to_outputs_pass": ("exir.passes.lower.weights_to_outputs",),
    "exir.program._program": (
        "exir.passes.to_edge.lift_constants:lift_constant_tensor_pass",
        "exir.program.config:EdgeCompileConfig ExecutorchBackendConfig",
        "exir.program.edge:to_edge",
        "exir.program.executorch:ExecutorchProgramManager edge_to_executorch_passes",
        "exir.program.lower:to_edge_transform_and_lower",
        "exir.program.managers:EdgeProgramManager",
    ),
    "exir.scalar_type": ("exir.schema:ScalarType",),
    "exir.serde": (),
    "exir.serde.serialize": (
        "exir.program.save_load:load save",
        "exir.program.serialized_artifact:deserialize serialize",
    ),
    "exir.sym_util": ("exir.ir.symbolic_sizes",),
    "exir.tensor": ("exir.ir.tensor_enums", "exir.ir.tensor_values"),
    "exir.tensor_layout": ("exir.ir.tensor_layout",),
    "exir.tracer": ("exir.capture:ExirDynamoConfig", "exir.passes.user.pass_values:Value"),
    "exir.verification": (),
    "exir.verification.arg_validator": ("exir.dialects.arg_validator",),
    "exir.verification.verifier": (
        "torch._export.verifier:SpecViolationError",
        "exir.dialects.verifier:EXIRATenDialectVerifier EXIRATenDialectVerifierBase",
        "exir.dialects.verifier:EXIREdgeDialectVerifier get_aten_verifier",
    ),
    "exir.version": ("exir.schema:EXECUTORCH_SCHEMA_VERSION",),
    "extension.flat_tensor.serialize.flat_tensor_schema": (
        "exir.schema:DataSegment",
        "exir.serialize.ptd:FlatTensor NamedData",
    ),
    "extension.llm.custom_ops.preprocess_custom_ops": (
        "extension.llm.custom_ops.op_tile_crop_aot:tile_crop",
    ),
    "extension.pybindings._portable_lib": ("extension.pybindings.portable_lib",),
    "extension.pytree": (
        "exir.ir.tree_text:TreeSpec",
        "torch.utils._pytree:_broadcast_to_and_flatten>broadcast_to_and_flatten",
        "torch.utils._pytree:treespec_loads>from_str _register_pytree_node>register_custom",
        "torch.utils._pytree:tree_flatten tree_map tree_unflatten",
    ),
    "extension.training.pybindings": (),
    "extension.training.pybindings._training_lib": (
        "extension.training.optimizers:ExecuTorchSGD get_sgd_optimizer",
    ),
    "extension.training.pybindings._training_module": (
        "extension.training.training_module:TrainingModule _load_for_executorch_for_training",
        "extension.training.training_module:_load_for_executorch_for_training_from_buffer",
    ),
}


# Paths whose modules register a backend or operators when they are imported: scripts import them
# for that alone, and use no name of theirs.
REGISTERING_PATHS = frozenset(
    {
        "backends.xnnpack.xnnpack_preprocess",
        "exir.backend.test.backend_with_compiler_demo",
        "exir.backend.test.op_partitioner_demo",
        "exir.passes._device_copy_ops_registry",
        "exir.passes.dim_order_ops_registry",
        "exir.passes.propagate_device_pass",
        "extension.llm.custom_ops.preprocess_custom_ops",
        "extension.pytree",
    }
)


class UpstreamModule(types.ModuleType):
    """A module at a path of upstream's; its names are those of the modules of its entry."""

    def __init__(self, name: str, homes: tuple[str, ...]) -> None:
        super().__init__(name, f"Names at upstream's path {name}, defined in: {', '.join(homes)}.")
        self._homes = [_Home(home) for home in homes]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted({n for home in self._homes for n in home.public_names()})
        # Importing looks up `__path__` and the like, which would import the modules of the entry.
        homes = () if name.startswith("__") else self._homes
        for home in homes:
            if (found := home.own_name(name)) is not None:
                value = getattr(home.module(), found)
                setattr(self, name, value)
                return value
        refuse_name(self.__name__, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


class FormerModule(UpstreamModule):
    """A module at a path of an earlier version; the first use of each of its names warns."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        path = self.__name__.removeprefix(f"{_PACKAGE}.")
        modules = dict.fromkeys(home.partition(":")[0] for home in FORMER_PATHS[path])
        homes = " or ".join(f"{_PACKAGE}.{module}" for module in modules)
        message = f"{self.__name__} is deprecated: import from {homes}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return value


class _Home:
    """One module of an entry of UPSTREAM_PATHS, and the names that come from it."""

    def __init__(self, entry: str) -> None:
        module, _, names = entry.partition(":")
        self._path = module if module.startswith("torch") else f"{_PACKAGE}.{module}"
        self._names: dict[str, str] | None = None  # name at upstream's path -> name in the module
        if names:
            pairs = [name.partition(">") for name in names.split()]
            self._names = {shown or own: own for own, _, shown in pairs}

    def module(self) -> types.ModuleType:
        return importlib.import_module(self._path)

    def public_names(self) -> list[str]:
        if self._names is not None:
            return [name for name in self._names if not name.startswith("__")]
        module = self.module()
        listed = getattr(module, "__all__", None)
        return list(listed or (name for name in vars(module) if not name.startswith("_")))

    def own_name(self, name: str) -> str | None:
        """The module's own name for `name`, or None where the name is not from this module."""
        if self._names is not None:
            return self._names.get(name)
        return name if hasattr(self.module(), name) else None


def _homes(entry: str) -> tuple[str, ...] | None:
    return FORMER_PATHS.get(entry, UPSTREAM_PATHS.get(entry))


class _Loader:
    """Makes the modules of UPSTREAM_PATHS and FORMER_PATHS."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        entry = spec.name.removeprefix(f"{_PACKAGE}.")
        homes = _homes(entry)
        assert homes is not None  # it has a spec
        return (FormerModule if entry in FORMER_PATHS else UpstreamModule)(spec.name, homes)

    def exec_module(self, module: types.ModuleType) -> None:
        """Import modules that register something; other names are looked up when they are used."""
        path = module.__name__.removeprefix(f"{_PACKAGE}.")
        if path in REGISTERING_PATHS:
            for home in UPSTREAM_PATHS[path]:
                _Home(home).module()


def spec_of_entry(fullname: str) -> ModuleSpec | None:
    """The spec of a path of the tables, None for others. RefusedPathError for a refused path."""
    entry = fullname.removeprefix(f"{_PACKAGE}.")
    if _homes(entry) is None:
        refuse_path(fullname)
        return None
    is_package = any(other.startswith(f"{entry}.") for other in UPSTREAM_PATHS | FORMER_PATHS)
    return ModuleSpec(fullname, _Loader(), is_package=is_package)  # type: ignore[arg-type]
