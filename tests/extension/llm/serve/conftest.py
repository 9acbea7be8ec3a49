"""Files of a small model for the tests of the server, and a runner of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.llm_server import model_files, runners

from executorch_py.extension.llm.runner import TextRunner


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return model_files(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def runner(files: tuple[Path, Path]) -> TextRunner:
    """A runner beside the server's."""
    made: TextRunner = runners(files, 1)[0]
    return made
