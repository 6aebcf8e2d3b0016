"""Pytest configuration: shape checks, one torch thread, and tests that need a data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from shape_checker import fast_jaxtyped

# Before `regard` is imported: its functions then check the shapes in their signatures. Pytest has
# already imported the plug-in, which therefore imports nothing else of `regard` (test_startup.py).
jaxtyping.install_import_hook("regard", "shape_checker.check")
jaxtyping.jaxtyped = fast_jaxtyped

# Before torch is imported, and inherited by subprocesses: with several workers, more threads than
# cores are slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (the two lines above must come first)

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

DATA_VARIABLE = "REGARD_DATA"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `data` unless REGARD_DATA names a folder."""
    if os.environ.get(DATA_VARIABLE):
        return
    skip = pytest.mark.skip(reason=f"{DATA_VARIABLE} is not set")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.fixture
def data_folder() -> Path:
    """The folder of corpora, for tests marked `data`."""
    return Path(os.environ[DATA_VARIABLE])


@pytest.fixture
def no_plugins() -> Iterator[None]:
    """Plug-ins of other tests are unknown, and those of this one are forgotten."""
    from regard.runs.plugins import REGISTRIES

    for registry in REGISTRIES:
        registry.plugins.clear()
    yield
    for registry in REGISTRIES:
        registry.plugins.clear()
