"""One upstream for the tests of this folder, per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peer import Upstream


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    peer = Upstream()
    yield peer
    peer.stop()
