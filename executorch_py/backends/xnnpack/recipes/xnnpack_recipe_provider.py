"""Provider of recipes for XNNPACK: quantization, then XnnpackPartitioner and its settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.backends.xnnpack.recipes.xnnpack_recipe_types import XNNPackRecipeType
from executorch_py.backends.xnnpack.utils.configs import (
    get_xnnpack_edge_compile_config,
    get_xnnpack_executorch_backend_config,
)
from executorch_py.export import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
)

logger = logging.getLogger(__name__)
_GROUPS = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
_CHANNELS = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL
# Arguments of get_symmetric_quantization_config.
_PT2E: dict[RecipeType, dict[str, bool]] = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"is_per_channel": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {},
}


class XNNPACKRecipeProvider(BackendRecipeProvider):
    """Creates the recipes of XNNPackRecipeType."""

    @property
    def backend_name(self) -> str:
        return XNNPackRecipeType.get_backend_name()

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        return list(XNNPackRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """The recipe of a type; None for other types.

        group_size: for 4-bit weights with scales per group. Other arguments are ignored with a
        warning.
        """
        if recipe_type not in self.get_supported_recipes():
            return None
        group_size = kwargs.pop("group_size", 32) if recipe_type is _GROUPS else 32
        if not isinstance(group_size, int):
            raise ValueError(f"group_size: expected an int, got a {type(group_size).__name__}")
        if kwargs:
            logger.warning("recipe %s ignores %s", recipe_type.value, sorted(kwargs))
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=_quantization(recipe_type, group_size),
            lowering_recipe=LoweringRecipe(
                partitioners=[XnnpackPartitioner()],
                edge_compile_config=get_xnnpack_edge_compile_config(),
            ),
            executorch_backend_config=get_xnnpack_executorch_backend_config(),
        )


def _quantization(recipe_type: RecipeType, group_size: int) -> QuantizationRecipe | None:
    if recipe_type in _PT2E:
        from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )

        config = get_symmetric_quantization_config(**_PT2E[recipe_type])
        return QuantizationRecipe(quantizers=[XNNPACKQuantizer().set_global(config)])
    if recipe_type in (_GROUPS, _CHANNELS):
        from torchao.quantization.granularity import PerAxis, PerGroup
        from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

        weights = PerGroup(group_size) if recipe_type is _GROUPS else PerAxis(0)
        torchao = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=weights
        )
        return QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(torchao)])
    return None
