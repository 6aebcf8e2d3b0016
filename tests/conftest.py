"""What every test runs under: checked shapes, one torch thread, data only where it is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import jaxtyping
import pytest
from shape_checker import jaxtyped_lightly

# Before any of our modules is imported: calls then check the shapes in their signatures. By now
# pytest has imported our plug-in, so that module may import nothing of ours (test_startup.py).
jaxtyping.install_import_hook("regard", "shape_checker.check")
jaxtyping.jaxtyped = jaxtyped_lightly

# Before torch is imported, and inherited by the commands that tests start: with several workers,
# more threads than cores make everything slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (the two lines above must come first)

torch.set_num_threads(1)

DATA_VARIABLE = "REGARD_DATA"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `data` where no data folder was named."""
    if os.environ.get(DATA_VARIABLE):
        return
    skip = pytest.mark.skip(reason=f"{DATA_VARIABLE} names no folder")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.fixture
def data_folder() -> Path:
    """The folder of corpora, for tests marked `data`."""
    return Path(os.environ[DATA_VARIABLE])
