"""Models of the transformers library on the C runtime equal eager torch."""

from __future__ import annotations

import pytest

from executorch_py.testing import assert_parity
from models.transformer_models import SUBJECTS


@pytest.mark.filterwarnings("ignore")  # the library's own warnings
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_transformer_equals_eager_torch_at_every_length(name: str) -> None:
    subject = SUBJECTS[name]
    report = assert_parity(subject.build(), subject.inputs(), dynamic_shapes=subject.dynamic_shapes)
    assert len(report.comparisons) >= (4 if subject.dynamic_shapes else 1)
