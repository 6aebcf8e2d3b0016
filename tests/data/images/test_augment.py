"""Augmentation: pencil examples of every operation, reproducibility, independence of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.images.augment import (
    AffineMap,
    ImageAugmentOptions,
    augment_images,
    erase_images,
    flip_images,
    move_images,
    row_uniforms,
)

ALL: dict[str, Any] = {
    "shift": 2,
    "rotate": 20.0,
    "scale": 0.1,
    "flip": 0.5,
    "erase": 0.3,
    "noise": 0.1,
}


def image(rows: list[list[float]]) -> Tensor:
    return torch.tensor([[rows]])


def moved(x: Tensor, **given: float) -> list[list[float]]:
    values = {"right": 0.0, "down": 0.0, "degrees": 0.0, "factor": 1.0, **given}
    move = AffineMap(**{name: torch.tensor([value]) for name, value in values.items()})
    rows: list[list[float]] = (move_images(x, move)[0, 0] * 1000).round().div(1000).tolist()
    return rows


NINE = image([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])


def test_shift_repeats_the_border() -> None:
    assert moved(NINE, right=1) == [[1, 1, 2], [4, 4, 5], [7, 7, 8]]
    assert moved(NINE, right=-1) == [[2, 3, 3], [5, 6, 6], [8, 9, 9]]
    assert moved(NINE, down=1) == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    wide = image([[1.0, 2.0, 3.0, 4.0]])
    assert moved(wide, right=2) == [[1, 1, 1, 2]]


def test_rotation_is_counterclockwise() -> None:
    assert moved(NINE, degrees=90) == [[3, 6, 9], [2, 5, 8], [1, 4, 7]]
    assert moved(NINE, degrees=180) == [[9, 8, 7], [6, 5, 4], [3, 2, 1]]
    # First turned, then shifted.
    assert moved(NINE, degrees=90, right=1) == [[3, 3, 6], [2, 2, 5], [1, 1, 4]]


def test_rotation_keeps_angles_in_wide_images() -> None:
    x = torch.zeros(1, 1, 5, 9)
    x[0, 0, 2, 2:7] = 1.0  # a horizontal line of five pixels
    expected = torch.zeros(5, 9)
    expected[:, 4] = 1.0
    assert moved(x, degrees=90) == expected.tolist()


def test_scale_doubles() -> None:
    x = image([[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0] * 4])
    found = torch.tensor(moved(x, factor=2))
    assert found[1:3, 1:3].tolist() == [[1, 1], [1, 1]]
    assert found.mean() > 2 * x.mean()
    assert torch.tensor(moved(x, factor=0.5)).mean() < x.mean()


def test_flip() -> None:
    both = torch.cat([NINE, NINE])
    found = flip_images(both, torch.tensor([True, False]))
    assert found[0, 0].tolist() == [[3, 2, 1], [6, 5, 4], [9, 8, 7]]
    assert torch.equal(found[1], both[1])


def test_erase_fills_with_the_mean() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    quarter = {name: torch.tensor([value]) for name, value in (("area", 0.25), ("aspect", 1.0))}
    found = erase_images(x, **quarter, across=torch.tensor([1.0]), along=torch.tensor([0.0]))
    expected = x.clone()
    expected[0, 0, :2, 2:] = 7.5
    assert torch.equal(found, expected)
    nothing = torch.zeros(1)
    same = erase_images(x, area=nothing, aspect=torch.ones(1), across=nothing, along=nothing)
    assert torch.equal(same, x)


@pytest.mark.parametrize("name", ALL)
def test_each_option_changes_images_and_is_off_by_default(name: str) -> None:
    x = torch.rand(20, 3, 8, 6, generator=torch.Generator().manual_seed(0))
    options = ImageAugmentOptions(**{name: ALL[name]})
    assert ImageAugmentOptions().is_off
    assert not options.is_off
    found = augment_images(x, options, seed=(1, 2), rows=range(20))
    assert found.shape == x.shape
    changed = (found != x).flatten(1).any(dim=1).float().mean()
    assert changed == pytest.approx(0.5, abs=0.3) if name == "flip" else changed > 0.7
    again = augment_images(x, ImageAugmentOptions(), seed=(1, 2), rows=range(20))
    assert torch.equal(again, x)


def test_an_image_depends_on_seed_and_row_only() -> None:
    x = torch.rand(6, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    options = ImageAugmentOptions(**ALL)
    rows = [4, 0, 9, 2, 7, 1]
    whole = augment_images(x, options, seed=(0, 5), rows=rows)
    for number, row in enumerate(rows):
        alone = augment_images(x[number : number + 1], options, seed=(0, 5), rows=[row])
        torch.testing.assert_close(alone[0], whole[number])
    other = augment_images(x, options, seed=(0, 6), rows=rows)
    assert (other != whole).flatten(1).any(dim=1).all()


def test_random_numbers_are_uniform_and_independent() -> None:
    table = row_uniforms((3, 1), range(2000), 10)
    assert table.min() >= 0
    assert table.max() < 1
    bins = np.stack([np.bincount((8 * column).astype(int), minlength=8) for column in table.T])
    assert np.abs(bins - 250).max() < 80  # five deviations
    correlation = np.corrcoef(np.hstack([table, np.roll(table, 1, axis=0)]).T)
    assert np.abs(correlation - np.eye(20)).max() < 0.12
    assert np.array_equal(row_uniforms((3, 1), [7], 4)[0], table[7, :4])
    assert not np.isclose(row_uniforms((3, 2), range(2000), 10), table).any()


def test_noise_is_normal() -> None:
    x = torch.full((200, 1, 20, 20), 0.5)
    noise = augment_images(x, ImageAugmentOptions(noise=0.1), seed=(0,), rows=range(200)) - x
    assert noise.mean() == pytest.approx(0.0, abs=2e-3)
    assert noise.std() == pytest.approx(0.1, abs=2e-3)
    assert (noise.abs() < 0.1).float().mean() == pytest.approx(0.683, abs=0.01)


def test_shifts_are_whole_pixels_of_equal_probability() -> None:
    x = torch.zeros(900, 1, 5, 5)
    x[:, :, 2, 2] = 1.0
    found = augment_images(x, ImageAugmentOptions(shift=1), seed=(0,), rows=range(900))
    assert torch.allclose(found, found.round(), atol=1e-5)
    counts = found.sum(dim=(0, 1))[1:4, 1:4]
    assert counts.min() > 70  # of 100 expected
    assert counts.sum() == pytest.approx(900)
