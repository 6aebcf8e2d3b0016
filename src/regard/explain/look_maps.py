"""Packing attention maps for a page: a tile for every head, exact maps, or the largest entries of each row.

A map of 2,000×2,000 entries becomes a tile of 63×63 cells and 16 entries per row: 132 KB instead of 16 MB.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.core.records.look import MAX_TILE, TOP_ENTRIES, LayerMaps

# Little-endian, on every machine.
HALF, INDEX, CELL = "<f2", "<u2", "i1"


def pack_maps(
    values: Float[Tensor, "heads queries keys"],
    *,
    layer: str,
    method: str,
    queries: str,
    keys: str,
    heads: Sequence[str],
    exact: Collection[str],
) -> LayerMaps:
    """The maps of a layer by a method; `exact` are the heads that keep all of their entries.

    A head at a time, so that little memory is needed.
    """
    tiles, full, indices, tops = (list[bytes]() for _ in range(4))
    limits = []
    size = (values.shape[1], values.shape[2])
    for name, value in zip(heads, values, strict=True):
        limit = float(value.abs().max())
        # A limit that is not finite is an error of `LayerMaps`.
        shares = value.float().cpu() / limit if 0 < limit < math.inf else torch.zeros(size)
        limits.append(limit)
        tiles.append(_packed((127 * tile(shares)).round(), CELL))
        if name in exact:
            full.append(_packed(shares, HALF))
        else:
            columns, kept = largest_entries(shares)
            indices.append(_packed(columns, INDEX))
            tops.append(_packed(kept, HALF))
    return LayerMaps(
        layer=layer,
        method=method,
        queries=queries,
        keys=keys,
        heads=tuple(heads),
        shape=size,
        limits=tuple(limits),
        tile_shape=tuple(math.ceil(side / block_size(side)) for side in size),  # type: ignore[arg-type]
        tiles=_text(tiles),
        exact=tuple(name for name in heads if name in exact),
        exact_values=_text(full),
        top_indices=_text(indices),
        top_values=_text(tops),
    )


def packed_bytes(heads: int, queries: int, keys: int, *, is_exact: bool) -> int:
    """Bytes of the packed maps of a layer in a page, base64 included."""
    per_row = 2 * keys if is_exact else 4 * TOP_ENTRIES
    return heads * (queries * per_row + min(queries, MAX_TILE) * min(keys, MAX_TILE)) * 4 // 3


def block_size(side: int) -> int:
    """Entries of a side that are one cell of a tile.

    >>> block_size(64), block_size(65), block_size(2000)
    (1, 2, 32)
    """
    return math.ceil(side / MAX_TILE)


def tile(values: Float[Tensor, "queries keys"]) -> Float[Tensor, "rows columns"]:
    """The entry of largest absolute value in each block.

    >>> tile(torch.tensor([[0.5, -1.0]]))
    tensor([[ 0.5000, -1.0000]])
    """
    blocks = tuple(map(block_size, values.shape))
    if blocks == (1, 1):
        return values
    short = [-side % block for side, block in zip(values.shape, blocks, strict=True)]
    padded = F.pad(values, (0, short[1], 0, short[0]))[None, None]
    highest, lowest = F.max_pool2d(padded, blocks), -F.max_pool2d(-padded, blocks)
    return torch.where(highest >= -lowest, highest, lowest)[0, 0]


def largest_entries(
    values: Float[Tensor, "queries keys"],
) -> tuple[Tensor, Float[Tensor, "queries entries"]]:
    """Columns and values of the entries of largest absolute value in each row, largest first."""
    count = min(TOP_ENTRIES, values.shape[1])
    columns = values.abs().topk(count, dim=1).indices
    short = (0, TOP_ENTRIES - count)
    return F.pad(columns, short), F.pad(values.gather(1, columns), short)


def _packed(values: Tensor, kind: str) -> bytes:
    packed: bytes = values.numpy().astype(kind).tobytes()
    return packed


def _text(parts: Sequence[bytes]) -> str:
    return base64.b64encode(b"".join(parts)).decode("ascii")
