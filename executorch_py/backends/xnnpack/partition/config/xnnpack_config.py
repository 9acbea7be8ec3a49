"""Which kinds of arithmetic a partitioner is asked to look for; names and values are upstream's."""

from enum import Enum


class ConfigPrecisionType(Enum):
    FP32 = 1
    STATIC_QUANT = 2
    DYNAMIC_QUANT = 3


__all__ = ["ConfigPrecisionType"]
