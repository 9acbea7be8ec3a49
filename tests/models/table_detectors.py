"""Architectures of torchvision's detectors: whole, and the part before boxes are selected.

The wheel's compiled operators are for another torch build (`vision.py`); the two that detectors
call have kernels here, so that eager torch runs them and torch.export sees them as operators.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import nn

from models.table_entry import Architecture, every, image
from models.vision import torchvision_models

DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": 64,
    "fcos_resnet50_fpn": 64,
    "keypointrcnn_resnet50_fpn": 64,
    "maskrcnn_resnet50_fpn": 64,
    "retinanet_resnet50_fpn": 64,
    "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
}
ALIGN = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio, bool aligned) -> Tensor"
)


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The boxes that overlap no better one, best first."""
    overlap = import_module("torchvision.ops.boxes").box_iou(boxes, boxes)
    kept: list[int] = []
    for i in scores.argsort(descending=True).tolist():
        if all(overlap[i, j] <= iou_threshold for j in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


@functools.cache
def detection() -> Any:
    """torchvision's detectors with kernels for their two operators."""
    found = torchvision_models().detection
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(ALIGN)
    align = import_module("torchvision.ops.roi_align")
    library.impl("nms", nms, "CPU")
    library.impl("roi_align", align._roi_align, "CPU")
    detection.library = library  # type: ignore[attr-defined]  # keeps the kernels alive

    @torch.library.register_fake("torchvision::roi_align")
    def shape(x: Any, rois: Any, _scale: float, height: int, width: int, *_: Any) -> Any:
        return x.new_empty(rois.size(0), x.size(1), height, width)

    for module in (align, import_module("torchvision.ops.boxes")):
        module._assert_has_ops = lambda: None  # type: ignore[attr-defined]
    align._has_ops = lambda: True  # type: ignore[attr-defined]
    return found


def detector(name: str) -> nn.Module:
    made = getattr(detection(), name)
    size = {} if name.startswith("ssd") else {"min_size": 64, "max_size": 64}
    model: nn.Module = made(weights=None, weights_backbone=None, num_classes=4, **size)
    return model


class WholeDetector(nn.Module):
    """A detector from a picture to selected boxes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return every(self.model([x[0]])[0])


class BeforeSelection(nn.Module):
    """Backbone and heads of a detector: scores and offsets for every anchor."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.head = model.rpn.head if hasattr(model, "rpn") else model.head

    def forward(self, x: torch.Tensor) -> Any:
        return every(self.head(list(self.backbone(x).values())))


def rows() -> list[Architecture]:
    found = []
    for name, size in DETECTORS.items():
        for title, wrap in ((f"{name}, before selection", BeforeSelection), (name, WholeDetector)):
            make = functools.partial(lambda n, w: w(detector(n)), name, wrap)
            found.append(Architecture(title, "torchvision", "detection", make, image(size)))
    return found


ARCHITECTURES = tuple(rows())
