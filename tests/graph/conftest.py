"""Every graph that these tests compile is verified after each pass."""

from __future__ import annotations

import pytest

from prototorch.graph.pipeline import ENV_VERIFY


@pytest.fixture(autouse=True)
def _verify_graphs(monkeypatch):
    monkeypatch.setenv(ENV_VERIFY, "1")
