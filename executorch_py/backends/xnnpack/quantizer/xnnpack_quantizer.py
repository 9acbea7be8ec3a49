"""The quantizer for XNNPACK, with upstream's methods: which operators, and what each is given.

What is set for a module's name counts before what is set for its type, that before an operator's
type, and that before what is set for all. None leaves float what it is set for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e.quantizer import (
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
    get_module_name_filter,
)

from executorch_py.backends.xnnpack.quantizer.recurrent import unroll_recurrent
from executorch_py.backends.xnnpack.quantizer.validate import (
    WHY,
    check,
    has_integers,
    how_of,
    note_left_float,
    refusal,
    rows_within,
    warn_if_nothing,
    warn_of_unknown,
)
from executorch_py.backends.xnnpack.support.quantized_support import integer_reason
from executorch_py.quantizer.annotate import (
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
    TABLES,
    connect,
    is_groupwise,
    is_weight_only,
    leave_tables,
    take,
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
    """Marks what XNNPACK computes in integers: products, convolutions, sums, products of elements,
    means, concatenations, and what moves or limits their results."""

    def __init__(self) -> None:
        super().__init__()
        self.global_config: QuantizationConfig | None = None
        self._leaves_rest = False  # without a word about the rest, other quantizers may have it
        self.operator_type_config: dict[Any, QuantizationConfig | None] = {}
        self.module_type_config: dict[Callable[..., Any], QuantizationConfig | None] = {}
        self.module_name_config: dict[str, QuantizationConfig | None] = {}
        self.filter_fn: NodeFilter | None = None

    # ---- What is set

    def set_global(self, quantization_config: QuantizationConfig | None) -> XNNPACKQuantizer:
        """For all that nothing else is set for."""
        self.global_config = quantization_config
        self._leaves_rest = quantization_config is None
        return self

    def set_operator_type(
        self, operator_type: Any, quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """For an operator: `torch.ops.aten.linear.default`, or with all its overloads
        `torch.ops.aten.linear`. One that cannot be quantized is refused."""
        if not _patterns_of(operator_type) and not _overloads(operator_type) & (CAT | TABLES):
            raise ValueError(
                f"{operator_type} cannot be quantized for XNNPACK; these can: {_supported()}"
            )
        if _overloads(operator_type) & TABLES:
            _check_tables(quantization_config, str(operator_type))
        self.operator_type_config[operator_type] = quantization_config
        return self

    def set_module_type(
        self, module_type: Callable[..., Any], quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """For all modules of a class, with what they contain."""
        if isinstance(module_type, type) and issubclass(module_type, torch.nn.Embedding):
            _check_tables(quantization_config, module_type.__name__)
        self.module_type_config[module_type] = quantization_config
        return self

    def set_module_name(
        self, module_name: str, quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """For a module by its path, `features.0`, with what it contains."""
        self.module_name_config[module_name] = quantization_config
        return self

    def set_filter_function(self, filter_fn: NodeFilter) -> XNNPACKQuantizer:
        """Quantize only nodes that `filter_fn` says yes to."""
        self.filter_fn = filter_fn
        return self

    # ---- What `prepare_pt2e` calls

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Numbers that are added or multiplied become constants; recurrent layers of which the
        products are to be quantized become these and what is between them."""
        unroll_recurrent(model, self._is_unrolled, WHY)
        scalars_to_constants(model, {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor})
        return model

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Writes on every node how it is quantized."""
        data = data_of(model)
        for config, is_there in self._rules():
            self._take(model, config, is_there, data)
        _share(model)
        return model

    def _rules(self) -> Iterator[tuple[QuantizationConfig | None, NodeFilter]]:
        """Each setting with the nodes that it is for, in the order in which they count."""
        named = [get_module_name_filter(name) for name in self.module_name_config]
        typed = [_of_type(module_type) for module_type in self.module_type_config]
        yield from zip(self.module_name_config.values(), named, strict=True)
        for is_there, config in zip(typed, self.module_type_config.values(), strict=True):
            yield config, _but(named, is_there)
        rest = _but([*named, *typed])
        operators: frozenset[Any] = frozenset()
        for operator, config in self.operator_type_config.items():
            yield config, _of(_overloads(operator) - operators, rest)
            operators |= _overloads(operator)
        if self.global_config is not None or self._leaves_rest:
            yield self.global_config, _but([_of(operators, rest)], rest)

    def validate(self, model: fx.GraphModule) -> None:
        """Refuses what XNNPACK cannot compute, whichever quantizer asked for it, and warns of what
        was set for nothing."""
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
        for what, is_there in self._asked_for(unknown):
            within = set(filter(is_there, nodes))
            if quantized.isdisjoint(within):
                warn_if_nothing(rows_within(rows, within), what)

    def _asked_for(self, unknown: Sequence[str]) -> Iterator[tuple[str, NodeFilter]]:
        """What is to be quantized by name, type or operator, but for names of nothing."""
        for name, config in self.module_name_config.items():
            if name not in unknown and config is not None:
                yield f"module {name}", get_module_name_filter(name)
        for module_type, config in self.module_type_config.items():
            if config is not None:
                yield f"modules of {module_type.__qualname__}", _of_type(module_type)
        for operator, config in self.operator_type_config.items():
            if config is not None:
                yield f"calls of {operator}", _of(_overloads(operator), lambda node: True)

    def prepare_obs_or_fq_callback(
        self, model: fx.GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]
    ) -> None:
        watch(edge_or_node_to_obs_or_fq)
        connect(edge_or_node_to_obs_or_fq)

    def _is_unrolled(self, layer: fx.Node) -> bool:
        return self._is_wanted(layer, lambda node: self._config_of_products(node) is not None)

    def _config_of_products(self, layer: fx.Node) -> QuantizationConfig | None:
        """What is set for the linear layers that a recurrent layer is made of."""
        for name, config in self.module_name_config.items():
            if get_module_name_filter(name)(layer):
                return config
        for module_type, config in self.module_type_config.items():
            if _of_type(module_type)(layer):
                return config
        for operator, config in self.operator_type_config.items():
            if aten.linear.default in _overloads(operator):
                return config
        return self.global_config

    # ---- Upstream's questions

    @classmethod
    def get_supported_quantization_configs(cls) -> list[QuantizationConfig]:
        """The four static ones: with and without channels and training."""
        return [
            get_symmetric_quantization_config(is_per_channel=channels, is_qat=training)
            for channels in (False, True)
            for training in (False, True)
        ]

    @classmethod
    def get_supported_operator_for_quantization_config(
        cls, quantization_config: QuantizationConfig | None
    ) -> list[list[Any]]:
        """The operators that such a configuration is for."""
        only_dynamic = quantization_config is not None and is_dynamic(quantization_config)
        return [sorted(p.targets, key=str) for p in PATTERNS if p.is_dynamic or not only_dynamic]

    # ---- Patterns

    def _take(
        self,
        model: fx.GraphModule,
        config: QuantizationConfig | None,
        is_there: NodeFilter,
        data: Collection[fx.Node],
    ) -> None:
        """Annotates all matches within, of which no node is yet."""

        def is_wanted(node: fx.Node) -> bool:
            return self._is_wanted(node, is_there)

        if config is not None and is_groupwise(config):
            take(model, config, is_wanted)
            return
        if config is None:
            leave_tables(model, is_wanted)
        for pattern in PATTERNS:
            for match in find(model, pattern, config is not None and config.is_qat, data):
                nodes = match.nodes
                if is_annotated(*nodes) or not self._is_wanted(match.anchor, is_there):
                    continue
                if config is None:
                    mark(*nodes)
                    match.anchor.meta[WHY] = "it was set to stay float"
                elif pattern.is_dynamic or not is_dynamic(config):
                    why = refusal(match, config)
                    match.anchor.meta[WHY] = why
                    if why is None:
                        annotate_match(match, config)
                else:
                    match.anchor.meta[WHY] = "scales found at run time are for products"
        if config is None or not is_dynamic(config):
            self._take_lists(model, config, is_there, data)

    def _is_wanted(self, node: fx.Node, is_there: NodeFilter) -> bool:
        return is_there(node) and (self.filter_fn is None or self.filter_fn(node))

    def _take_lists(
        self,
        model: fx.GraphModule,
        config: QuantizationConfig | None,
        is_there: NodeFilter,
        data: Collection[fx.Node],
    ) -> None:
        for node in model.graph.nodes:
            if node.target not in CAT or node not in data or is_annotated(node):
                continue
            if not self._is_wanted(node, is_there):
                continue
            if config is None:
                mark(node)
            elif all(is_float(n) for n in node.args[0]):
                _annotate_list(node, config.input_activation)


def _annotate_list(node: fx.Node, how: QuantizationSpecBase | None) -> None:
    """A concatenation: its operands and its result have one scale, that of the first operand that
    has been given one, else a new one."""
    operands = list(dict.fromkeys(node.args[0]))
    owner = next((n for n in operands if _has_scale(n)), operands[0])
    like = SharedQuantizationSpec((owner, node))
    for operand in operands:
        quantize_input(node, operand, how if operand is owner else like)
    quantize_output(node, like)


def _has_scale(node: Any) -> bool:
    """Whether a value is quantized, or moved from one that is."""
    while output_spec(node) is None:
        if node.target not in SHARING or not isinstance(node.args[0], fx.Node):
            return False
        node = node.args[0]
    return True


def _share(model: fx.GraphModule) -> None:
    """What moves or limits a quantized value has its scale."""
    for node in model.graph.nodes:
        operand = node.args[0] if node.args else None
        if node.target not in SHARING or is_annotated(node) or not isinstance(operand, fx.Node):
            continue
        how = how_of(output_spec(operand))
        if how is None or not is_float(operand):
            continue
        why = integer_reason(node, {operand: how}, how, is_constant)
        node.meta[WHY] = why
        if why is None:
            share_input(node, operand)


# ---- Filters


def _of_type(module_type: Callable[..., Any]) -> NodeFilter:
    """Nodes of modules of a class, or of what they contain."""
    wanted = f"{module_type.__module__}.{module_type.__qualname__}"

    def is_there(node: fx.Node) -> bool:
        stack = node.meta.get("nn_module_stack", {})
        kinds = (kind for _, kind in stack.values())
        names = (k if isinstance(k, str) else f"{k.__module__}.{k.__qualname__}" for k in kinds)
        return wanted in names

    return is_there


def _of(operators: frozenset[Any], is_there: NodeFilter) -> NodeFilter:
    """Calls of these operators among what is there."""
    return lambda node: node.target in operators and is_there(node)


def _but(others: Iterable[NodeFilter], is_there: NodeFilter | None = None) -> NodeFilter:
    """What is there and in none of the others."""
    unwanted = list(others)

    def is_left(node: fx.Node) -> bool:
        return (is_there is None or is_there(node)) and not any(f(node) for f in unwanted)

    return is_left


def _overloads(operator: Any) -> frozenset[Any]:
    """An operator as a set; of a packet all its overloads."""
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return frozenset(getattr(operator, name) for name in operator.overloads())
    return frozenset({operator})


def _patterns_of(operator: Any) -> list[Pattern]:
    return [p for p in PATTERNS if p.targets & _overloads(operator)]


def _supported() -> str:
    every = frozenset().union(CAT, TABLES, *(p.targets for p in PATTERNS))
    return ", ".join(sorted(map(str, every)))


def _check_tables(config: QuantizationConfig | None, what: str) -> None:
    """Tables are looked up, not computed with."""
    if config is not None and not (is_groupwise(config) and is_weight_only(config)):
        raise ValueError(
            f"{what}: of embeddings the weights alone are quantized; "
            "give it get_weight_only_quantization_config(bits=8)"
        )


__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]
