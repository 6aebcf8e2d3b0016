"""Batches come in order, from any place on."""

from __future__ import annotations

import pytest
from tests.factories.toy_training import ToyTask

from regard.core.errors import RegardError
from regard.training.loop import BatchStream


def test_epoch_follows_epoch() -> None:
    stream = BatchStream(ToyTask(batches=3), epoch=0, batch=0)
    assert [batch.number for batch in stream.take(7)] == [0, 1, 2, 1000, 1001, 1002, 2000]
    assert (stream.epoch, stream.batch) == (2, 1)
    assert stream.epochs == pytest.approx(2 + 1 / 3)


@pytest.mark.parametrize("taken", range(8))
def test_it_goes_on_where_it_was(taken: int) -> None:
    first = BatchStream(ToyTask(batches=3), epoch=0, batch=0)
    first.take(taken)
    second = BatchStream(ToyTask(batches=3), epoch=first.epoch, batch=first.batch)
    assert [one.number for one in first.take(5)] == [one.number for one in second.take(5)]


def test_an_empty_epoch_is_refused() -> None:
    with pytest.raises(RegardError, match=r"Epoch 0 has no batches, so there is nothing to train"):
        BatchStream(ToyTask(batches=0), epoch=0, batch=0)
