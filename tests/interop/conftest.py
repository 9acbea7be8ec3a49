from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peer import Upstream


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    peer = Upstream()
    yield peer
    peer.stop()
