"""A graph of torch.export that computes other numbers than its model: then the file is right.

Models may ask whether they are traced, as transformers' masks do, and then take another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from executorch_py.testing.comparison import compare_values
from executorch_py.testing.reference import as_exported
from executorch_py.testing.verdicts import cloned


def export_difference(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A sentence, if torch.export's graph of the model does not give its numbers; else empty.

    The model is traced anew, so this takes as long as an export. A model that is no module or
    that cannot be traced has no graph to compare.
    """
    if not isinstance(model, torch.nn.Module):
        return ""
    try:
        with torch.no_grad():
            exported = torch.export.export(
                model, tuple(cloned(args)), kwargs=dict(kwargs), strict=False
            )
        found = as_exported(exported.module(), cloned(args), kwargs)
    except Exception:
        return ""
    expected = as_exported(model, cloned(args), kwargs)
    if len(found) != len(expected):
        return ""
    for i, (graph, eager) in enumerate(zip(found, expected, strict=True)):
        compared = compare_values(f"output {i}", "the given sizes", graph, eager, None, None, None)
        if not compared.ok:
            return (
                "The graph that torch.export makes of this model does not give its numbers in "
                f"eager torch either: output {i} differs by {compared.max_abs_error:.3g}. Look for "
                "code that asks whether it is traced, such as torch.compiler.is_exporting(), and "
                "for values that are read while the model is traced. To check the file alone, "
                "verify it against exported.module()."
            )
    return ""
