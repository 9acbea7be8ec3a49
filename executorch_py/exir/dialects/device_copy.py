"""`et_copy::_h2d_copy` and `_d2h_copy`: copies to a device and back, registered with torch on
import.

On the CPU both are copies. Names and schemas are upstream's; this runtime plans no memory of other
devices and has no kernels for them.
"""

from __future__ import annotations

import torch
from torch.library import Library

# The key of the compile spec that names a delegate's device, `cuda:0` for example.
TARGET_DEVICE_COMPILE_SPEC_KEY = "target_device"

_LIBRARY = Library("et_copy", "FRAGMENT")


def _copy(self: torch.Tensor) -> torch.Tensor:
    return self.clone()


def _copy_out(self: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(self)


def _register(name: str) -> None:
    if torch._C._jit_get_schemas_for_operator(f"et_copy::{name}"):
        return  # upstream's package is imported, too
    _LIBRARY.define(f"{name}(Tensor self) -> Tensor")
    _LIBRARY.define(f"{name}.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
    _LIBRARY.impl(name, _copy, "CompositeImplicitAutograd")
    _LIBRARY.impl(f"{name}.out", _copy_out, "CompositeImplicitAutograd")


for _name in ("_h2d_copy", "_d2h_copy"):
    _register(_name)

__all__ = ["TARGET_DEVICE_COMPILE_SPEC_KEY"]
