"""TreeSpec under upstream's path of pytrees: torch's, as text and back."""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree

TreeSpec: Any = pytree.TreeSpec


def _to_str(self: Any, protocol: int | None = None) -> str:
    text: str = pytree.treespec_dumps(self, protocol)
    return text


def _from_str(text: str) -> Any:
    return pytree.treespec_loads(text)


# Methods of upstream's class, which scripts call on the specs that torch made.
TreeSpec.to_str = _to_str
TreeSpec.from_str = staticmethod(_from_str)

__all__ = ["TreeSpec"]
