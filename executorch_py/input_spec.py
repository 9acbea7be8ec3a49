"""Shapes and types of inputs as the command line has them: `images=1x3x224x224:float32`."""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(
    r"(?:(?P<name>[^=]+)=)?(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<dtype>[a-z]\w*))?", re.ASCII
)


class InputSpec(NamedTuple):
    """The shape of an input; its name and dtype if they are given."""

    name: str | None
    shape: tuple[int, ...]
    dtype: str | None

    def __str__(self) -> str:
        name = "" if self.name is None else f"{self.name}="
        return f"{name}{'x'.join(map(str, self.shape)) or 'scalar'}"


def parse_input_spec(text: str, option: str) -> InputSpec:
    """The spec that a text of an option has; ValueError shows the form."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{option}: expected a shape such as 1x3x224x224, images=1x3x224x224, ids=1x128:int64 "
            f"or scalar, got {text!r}"
        )
    shape = found["shape"]
    sizes = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    return InputSpec(found["name"], sizes, found["dtype"])
