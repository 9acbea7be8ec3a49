"""Models of transformers by the names of optimum-executorch: export, run, generate text.

    from executorch_py.optimum import ExecuTorchModelForCausalLM

`python -m executorch_py.optimum export executorch --model FOLDER …` is its command line.
"""

from __future__ import annotations

from typing import Any

from executorch_py.optimum.causal_lm import ExecuTorchModelForCausalLM

__all__ = ["ExecuTorchModelForCausalLM"]

_OTHER_TASKS = {
    "ExecuTorchModelForImageClassification",
    "ExecuTorchModelForMaskedLM",
    "ExecuTorchModelForMultiModalToText",
    "ExecuTorchModelForObjectDetection",
    "ExecuTorchModelForSeq2SeqLM",
    "ExecuTorchModelForSpeechSeq2Seq",
}


def __getattr__(name: str) -> Any:
    if name in _OTHER_TASKS:
        raise ImportError(
            f"expected ExecuTorchModelForCausalLM, got {name}: this version has the task "
            "text-generation only; export other models with executorch_py.exir"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
