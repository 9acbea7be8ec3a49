"""Tensors of the file format that scripts make: independent of their specs, and never hashed."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from executorch_py.exir import schema
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.ir.tensor_values import make_tensor_value


def test_a_tensor_on_a_device_leaves_its_spec_alone() -> None:
    shared = schema.ExtraTensorInfo(fully_qualified_name="w")
    spec = TensorSpec(torch.int8, torch.Size([4]), extra_tensor_info=shared)
    spec.device, spec.device_index = schema.DeviceType.CUDA, 1
    made = make_tensor_value(0, None, spec).extra_tensor_info
    assert made == dataclasses.replace(shared, device_type=spec.device, device_index=1)
    assert shared == schema.ExtraTensorInfo(fully_qualified_name="w")


def test_tables_that_may_change_have_no_hash() -> None:
    for table in (schema.Int(1), schema.Buffer(b""), schema.ExtraTensorInfo(), schema.Null()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(table)
