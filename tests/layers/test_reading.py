"""Who reads which row of a context: gathered side by side, put back, narrowed."""

from __future__ import annotations

import torch

from regard.layers.blocks import Reading

CPU = torch.device("cpu")


def rows(count: int) -> torch.Tensor:
    return torch.arange(1.0, count + 1)[:, None, None]


def test_lines_of_different_length() -> None:
    reading = Reading.of(torch.tensor([0, 0, 0, 1, 2, 2]), 3)
    gathered = reading.gather(rows(6))
    assert gathered[..., 0].tolist() == [[1, 2, 3], [4, 0, 0], [5, 6, 0]]
    assert torch.equal(reading.scatter(gathered), rows(6))


def test_any_order_and_contexts_without_a_reader() -> None:
    reading = Reading.of(torch.tensor([2, 0, 2]), 3)
    gathered = reading.gather(rows(3))
    assert gathered[..., 0].tolist() == [[2, 0], [0, 0], [1, 3]]
    assert torch.equal(reading.scatter(gathered), rows(3))


def test_whole_lines_are_views() -> None:
    for reading in (Reading.one_each(4, device=CPU), Reading.of(torch.tensor([0, 0, 1, 1]), 2)):
        assert reading.place is None
        x = rows(4)
        assert reading.gather(x).data_ptr() == x.data_ptr()
        assert torch.equal(reading.scatter(reading.gather(x)), x)


def test_contexts_stay_while_most_are_read() -> None:
    four = Reading.one_each(4, device=CPU).select(torch.tensor([0, 0, 1, 2, 3]))
    assert four.kept is None
    assert four.reading.width == 2
    three = four.reading.select(torch.tensor([4, 0, 2]))
    assert three.kept is not None
    assert three.kept.tolist() == [0, 1, 3]
    assert three.reading.reader.tolist() == [2, 0, 1]
    assert three.reading.num_contexts == 3
