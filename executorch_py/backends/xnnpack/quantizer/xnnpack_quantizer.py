"""XNNPACKQuantizer: configurations by module name, module type, operator or for the whole model.

The methods are upstream's. A configuration for a module's name takes precedence over one for its
type, that over one for an operator, and that over the global one. None leaves its nodes float.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import fx
from torchao.quantization.pt2e.quantizer import (
    OperatorConfig,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
    get_module_name_filter,
)

from executorch_py.backends.xnnpack.quantizer.recurrent import unroll_recurrent
from executorch_py.backends.xnnpack.quantizer.validate import (
    check,
    has_integers,
    note_left_float,
    quantization_of,
    refusal,
    rows_within,
    warn_if_nothing,
    warn_of_unknown,
)
from executorch_py.backends.xnnpack.support.quantized_support import integer_reason
from executorch_py.quantizer.annotate import (
    LEFT_FLOAT,
    data_of,
    is_annotated,
    is_float,
    mark,
    output_spec,
    quantize_input,
    quantize_output,
    scalars_to_constants,
    share_input,
)
from executorch_py.quantizer.groupwise import (
    EMBEDDINGS,
    annotate_groupwise,
    connect,
    is_groupwise,
    is_weight_only,
    leave_embeddings,
)
from executorch_py.quantizer.observers import is_constant, watch
from executorch_py.quantizer.patterns import (
    CAT,
    PATTERNS,
    SHARING,
    NodeFilter,
    Pattern,
    annotate_match,
    find,
)
from executorch_py.quantizer.spec import (
    QuantizationConfig,
    get_symmetric_quantization_config,
    is_dynamic,
)

aten = torch.ops.aten


class XNNPACKQuantizer(Quantizer):
    """Annotates the operators that XNNPACK computes with integers.

    These are linear layers, matrix products, convolutions, element-wise sums and products, means
    and concatenations, and operators that move or clamp their results.
    """

    # Groups of operators in the order in which they are looked for; a subclass may leave some out.
    SUPPORTED_PATTERNS: ClassVar[list[Pattern]] = list(PATTERNS)

    def __init__(self) -> None:
        super().__init__()
        self.global_config: QuantizationConfig | None = None
        self._leaves_rest = False  # otherwise other quantizers may annotate the remaining nodes
        self.operator_type_config: dict[Any, QuantizationConfig | None] = {}
        self.module_type_config: dict[Callable[..., Any], QuantizationConfig | None] = {}
        self.module_name_config: dict[str, QuantizationConfig | None] = {}
        self.filter_fn: NodeFilter | None = None

    # ---- settings

    def set_global(self, quantization_config: QuantizationConfig | None) -> XNNPACKQuantizer:
        """Set the configuration of all nodes without a more specific one."""
        _check_config(quantization_config)
        self.global_config = quantization_config
        self._leaves_rest = quantization_config is None
        return self

    def set_operator_type(
        self, operator_type: Any, quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of an operator.

        operator_type: `torch.ops.aten.linear.default`, or `torch.ops.aten.linear` for all overloads
        of an operator. Raises ValueError for an operator that cannot be quantized.
        """
        _check_config(quantization_config)
        if not _patterns_of(operator_type) and not _overloads(operator_type) & (CAT | EMBEDDINGS):
            raise ValueError(
                "operator_type: expected an operator that XNNPACK runs quantized, one of "
                f"{_supported()}, got {operator_type}"
            )
        if _overloads(operator_type) & EMBEDDINGS:
            _check_embeddings(quantization_config, str(operator_type))
        self.operator_type_config[operator_type] = quantization_config
        return self

    def set_module_type(
        self, module_type: Callable[..., Any], quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of all modules of a class, with their submodules."""
        _check_config(quantization_config)
        if not callable(module_type):
            raise TypeError(
                f"module_type: expected a class such as torch.nn.Linear, got {module_type!r}"
            )
        if isinstance(module_type, type) and issubclass(module_type, torch.nn.Embedding):
            _check_embeddings(quantization_config, module_type.__name__)
        self.module_type_config[module_type] = quantization_config
        return self

    def set_module_name(
        self, module_name: str, quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of a module by its path, `features.0`, with its submodules."""
        _check_config(quantization_config)
        if not isinstance(module_name, str):
            raise TypeError(
                f"module_name: expected the path of a module, 'features.0', got {module_name!r}"
            )
        self.module_name_config[module_name] = quantization_config
        return self

    def set_filter_function(self, filter_fn: NodeFilter) -> XNNPACKQuantizer:
        """Quantize only nodes for which `filter_fn` returns True."""
        if not callable(filter_fn):
            raise TypeError(f"filter_fn: expected a function of a node, got {filter_fn!r}")
        self.filter_fn = filter_fn
        return self

    # ---- methods that `prepare_pt2e` calls

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Rewrite number operands as constants, and recurrent layers as linear layers and cells.

        Only recurrent layers whose linear layers are to be quantized are rewritten.
        """
        unroll_recurrent(model, self._is_unrolled, LEFT_FLOAT)
        scalars_to_constants(model, {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor})
        return model

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Annotate every node with the quantization of its operands and result."""
        data = data_of(model)
        for config, is_selected in self._settings():
            self._annotate_selected(model, config, is_selected, data)
        _share_scales(model)
        return model

    def _settings(self) -> Iterator[tuple[QuantizationConfig | None, NodeFilter]]:
        """Each configuration with a filter for its nodes, in the order of precedence."""
        named = [get_module_name_filter(name) for name in self.module_name_config]
        typed = [_module_type_filter(module_type) for module_type in self.module_type_config]
        yield from zip(self.module_name_config.values(), named, strict=True)
        for of_type, config in zip(typed, self.module_type_config.values(), strict=True):
            yield config, _except(named, of_type)
        rest = _except([*named, *typed])
        operators: frozenset[Any] = frozenset()
        for operator, config in self.operator_type_config.items():
            yield config, _operator_filter(_overloads(operator) - operators, rest)
            operators |= _overloads(operator)
        if self.global_config is not None or self._leaves_rest:
            yield self.global_config, _except([_operator_filter(operators, rest)], rest)

    def validate(self, model: fx.GraphModule) -> None:
        """Check the annotations of all quantizers, and warn about settings that match nothing.

        Raises AnnotationError for annotations that XNNPACK cannot compute.
        """
        check(model)
        rows = note_left_float(model)
        nodes = [node for node in model.graph.nodes if node.op == "call_function"]
        quantized = {node for node in nodes if has_integers(node)}
        names = self.module_name_config
        unknown = [n for n in names if not any(map(get_module_name_filter(n), nodes))]
        for name in unknown:
            warn_of_unknown(name, model)
        if not quantized and not unknown:
            warn_if_nothing(rows, "in the whole model")
        if not quantized:
            return
        for what, is_selected in self._named_settings(unknown):
            within = set(filter(is_selected, nodes))
            if quantized.isdisjoint(within):
                warn_if_nothing(rows_within(rows, within), what)

    def _named_settings(self, unknown: Sequence[str]) -> Iterator[tuple[str, NodeFilter]]:
        """The settings by name, type or operator, with words for messages; not unknown names."""
        for name, config in self.module_name_config.items():
            if name not in unknown and config is not None:
                yield f"module {name}", get_module_name_filter(name)
        for module_type, config in self.module_type_config.items():
            if config is not None:
                yield f"modules of {module_type.__qualname__}", _module_type_filter(module_type)
        for operator, config in self.operator_type_config.items():
            if config is not None:
                calls = _operator_filter(_overloads(operator), lambda node: True)
                yield f"calls of {operator}", calls

    def prepare_obs_or_fq_callback(
        self, model: fx.GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]
    ) -> None:
        watch(edge_or_node_to_obs_or_fq)
        connect(edge_or_node_to_obs_or_fq)

    def _is_unrolled(self, layer: fx.Node) -> bool:
        return self._is_wanted(layer, lambda node: self._config_of_linears(node) is not None)

    def _config_of_linears(self, layer: fx.Node) -> QuantizationConfig | None:
        """The configuration of the linear layers that a recurrent layer consists of."""
        for name, config in self.module_name_config.items():
            if get_module_name_filter(name)(layer):
                return config
        for module_type, config in self.module_type_config.items():
            if _module_type_filter(module_type)(layer):
                return config
        for operator, config in self.operator_type_config.items():
            if aten.linear.default in _overloads(operator):
                return config
        return self.global_config

    # ---- supported configurations and operators

    @classmethod
    def get_supported_quantization_configs(cls) -> list[QuantizationConfig]:
        """The four static configurations: per tensor or per channel, with or without training."""
        return [
            get_symmetric_quantization_config(is_per_channel=channels, is_qat=training)
            for channels in (False, True)
            for training in (False, True)
        ]

    @classmethod
    def get_supported_operator_for_quantization_config(
        cls, quantization_config: QuantizationConfig | None
    ) -> list[list[Any]]:
        """The operators that a configuration can quantize, a list per pattern."""
        only_dynamic = quantization_config is not None and is_dynamic(quantization_config)
        patterns = [p for p in cls.SUPPORTED_PATTERNS if p.is_dynamic or not only_dynamic]
        return [sorted(p.targets, key=str) for p in patterns]

    @classmethod
    def get_supported_operators(cls) -> list[OperatorConfig]:
        """The static configurations, each with the operators that it can quantize."""
        return [
            OperatorConfig(config, cls.get_supported_operator_for_quantization_config(config))
            for config in cls.get_supported_quantization_configs()
        ]

    # ---- annotation

    def _annotate_selected(
        self,
        model: fx.GraphModule,
        config: QuantizationConfig | None,
        is_selected: NodeFilter,
        data: Collection[fx.Node],
    ) -> None:
        """Annotate the selected matches of which no node is annotated yet.

        data: the nodes that depend on the model's inputs.
        """

        def is_wanted(node: fx.Node) -> bool:
            return self._is_wanted(node, is_selected)

        if config is not None and is_groupwise(config):
            annotate_groupwise(model, config, is_wanted)
            return
        if config is None:
            leave_embeddings(model, is_wanted)
        for pattern in self.SUPPORTED_PATTERNS:
            for match in find(model, pattern, config is not None and config.is_qat, data):
                nodes = match.nodes
                if is_annotated(*nodes) or not is_wanted(match.anchor):
                    continue
                if config is None:
                    mark(*nodes)
                    match.anchor.meta[LEFT_FLOAT] = "its configuration is None"
                elif pattern.is_dynamic or not is_dynamic(config):
                    why = refusal(match, config)
                    match.anchor.meta[LEFT_FLOAT] = why
                    if why is None:
                        annotate_match(match, config)
                else:
                    match.anchor.meta[LEFT_FLOAT] = "scales found at run time are for products"
        if config is None or not is_dynamic(config):
            for node in model.graph.nodes:
                if node.target in CAT and node in data and is_wanted(node):
                    _annotate_concatenation(node, config)

    def _is_wanted(self, node: fx.Node, is_selected: NodeFilter) -> bool:
        return is_selected(node) and (self.filter_fn is None or self.filter_fn(node))


def _annotate_concatenation(node: fx.Node, config: QuantizationConfig | None) -> None:
    """Annotate operands and result of a concatenation with one scale.

    The scale is that of the first operand that has one, or a new one.
    """
    if is_annotated(node):
        return
    if config is None:
        mark(node)
        return
    if not all(is_float(n) for n in node.args[0]):
        return
    how: QuantizationSpecBase | None = config.input_activation
    operands = list(dict.fromkeys(node.args[0]))
    owner = next((n for n in operands if _has_scale(n)), operands[0])
    like = SharedQuantizationSpec((owner, node))
    for operand in operands:
        quantize_input(node, operand, how if operand is owner else like)
    quantize_output(node, like)


def _has_scale(node: Any) -> bool:
    """Whether a value is quantized, directly or before it was moved or clamped."""
    while output_spec(node) is None:
        if node.target not in SHARING or not isinstance(node.args[0], fx.Node):
            return False
        node = node.args[0]
    return True


def _share_scales(model: fx.GraphModule) -> None:
    """Annotate operators that move or clamp a quantized value with the scale of the value."""
    for node in model.graph.nodes:
        operand = node.args[0] if node.args else None
        if node.target not in SHARING or is_annotated(node) or not isinstance(operand, fx.Node):
            continue
        how = quantization_of(output_spec(operand))
        if how is None or not is_float(operand):
            continue
        why = integer_reason(node, {operand: how}, how, is_constant)
        node.meta[LEFT_FLOAT] = why
        if why is None:
            share_input(node, operand)


# ---- filters


def _module_type_filter(module_type: Callable[..., Any]) -> NodeFilter:
    """A filter for the nodes of modules of a class and of their submodules."""
    wanted = f"{module_type.__module__}.{module_type.__qualname__}"

    def is_of_type(node: fx.Node) -> bool:
        stack = node.meta.get("nn_module_stack", {})
        kinds = (kind for _, kind in stack.values())
        names = (k if isinstance(k, str) else f"{k.__module__}.{k.__qualname__}" for k in kinds)
        return wanted in names

    return is_of_type


def _operator_filter(operators: frozenset[Any], is_selected: NodeFilter) -> NodeFilter:
    """A filter for the selected nodes that call one of the operators."""
    return lambda node: node.target in operators and is_selected(node)


def _except(excluded: Iterable[NodeFilter], is_selected: NodeFilter | None = None) -> NodeFilter:
    """A filter for the selected nodes that no other filter accepts."""
    others = list(excluded)

    def is_left(node: fx.Node) -> bool:
        return (is_selected is None or is_selected(node)) and not any(f(node) for f in others)

    return is_left


def _overloads(operator: Any) -> frozenset[Any]:
    """The overloads of an operator packet; a set of one for an overload."""
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return frozenset(getattr(operator, name) for name in operator.overloads())
    return frozenset({operator})


def _patterns_of(operator: Any) -> list[Pattern]:
    return [p for p in PATTERNS if p.targets & _overloads(operator)]


def _supported() -> str:
    every = frozenset().union(CAT, EMBEDDINGS, *(p.targets for p in PATTERNS))
    return ", ".join(sorted(map(str, every)))


def _check_config(config: Any) -> None:
    """Raise unless a configuration is one, or None."""
    if config is None or hasattr(config, "weight"):
        return
    call = f"; call it: {config.__name__}()" if hasattr(config, "__name__") else ""
    raise TypeError(f"quantization_config: expected a QuantizationConfig, got {config!r}{call}")


def _check_embeddings(config: QuantizationConfig | None, what: str) -> None:
    """Raise unless a configuration for embeddings quantizes weights alone."""
    if config is not None and not (is_groupwise(config) and is_weight_only(config)):
        raise ValueError(
            f"{what}: expected a configuration of weights alone, such as "
            "get_weight_only_quantization_config(bits=8), got one that quantizes activations"
        )


__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]
