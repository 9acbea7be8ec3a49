"""ExportOptions: modes of linear layers, and refusals before a file of the model is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from executorch_py.errors import InvalidArgument, NotSupported
from executorch_py.optimum import ExecuTorchModelForCausalLM
from executorch_py.optimum.options import ExportOptions, LinearMode

UPSTREAM = {"target": "executorch-1.5"}
MODES: dict[str, tuple[dict[str, Any], list[LinearMode]]] = {
    "none": ({}, []),
    "groups of 32": ({"qlinear": "4w"}, [LinearMode(4, 32, False)]),
    "the delegate's rows": ({"qlinear": "8da8w", **UPSTREAM}, [LinearMode(8, 0, True)]),
    "rows for the rest": (
        {"qlinear": "8da4w, 8w", "qlinear_group_size": 64},
        [LinearMode(4, 64, True), LinearMode(8, 0, False)],
    ),
    "no rest beside rows": (
        {"qlinear": "8w,8da4w", "qlinear_group_size": 0},
        [LinearMode(8, 0, False)],
    ),
}
QLINEAR = (
    'qlinear: expected None or "8da4w" or "8da8w" or "4w" or "8w", or two of them as "a,b", got '
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "bits": ({"qlinear": "2w"}, f"{QLINEAR}'2w'"),
    "second of a pair": ({"qlinear": "8da4w,fp8"}, f"{QLINEAR}'8da4w,fp8'"),
    "half a pair": ({"qlinear": "8da4w,"}, f"{QLINEAR}'8da4w,'"),
    "three": ({"qlinear": "8da4w,8w,4w"}, f"{QLINEAR}'8da4w,8w,4w'"),
    "groups of the delegate": (
        {"qlinear": "8da8w,4w", "qlinear_group_size": 32, **UPSTREAM},
        'qlinear_group_size: expected 0 with qlinear="8da8w,4w" and target="executorch-1.5", '
        "got 32",
    ),
    "dtype": (
        {"dtype": torch.float64},
        'dtype: expected "float32" or "float16" or "bfloat16", got \'float64\'',
    ),
    "halves here": (
        {"dtype": torch.float16},
        'dtype: expected "float32", or target="executorch-1.5", got \'float16\'',
    ),
    "halves of few bits": (
        {"dtype": "bfloat16", "qlinear": "4w", **UPSTREAM},
        "dtype: expected \"float32\" beside qlinear, got 'bfloat16'",
    ),
    "halves beside a table": (
        {"dtype": "float16", "qembedding": "8w", **UPSTREAM},
        "dtype: expected \"float32\" beside qembedding, got 'float16'",
    ),
}


@pytest.mark.parametrize(("options", "modes"), MODES.values(), ids=MODES)
def test_a_pair_is_a_mode_for_groups_and_one_for_rows(
    options: dict[str, Any], modes: list[LinearMode]
) -> None:
    assert ExportOptions(**options).linear_modes == modes


@pytest.mark.parametrize("dtype", ["float16", torch.float16])
def test_a_dtype_is_torchs_or_its_name(dtype: Any) -> None:
    assert ExportOptions(dtype=dtype, **UPSTREAM).dtype_name == "float16"
    assert ExportOptions(dtype=None).dtype_name == "float32"


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_options_are_refused_before_a_file_is_read(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(NotSupported) as raised:
        ExecuTorchModelForCausalLM.from_pretrained(tmp_path, export=True, **options)
    assert str(raised.value).startswith(f"{words} [")


@pytest.mark.parametrize("name", ["qlinear_group_size", "qembedding_group_size"])
def test_negative_groups_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}: expected 0 or more, got -1"):
        ExportOptions(**{name: -1})
