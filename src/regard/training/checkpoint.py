"""Everything a run needs to go on, in one file that is replaced as a whole.

Tensors by name, and facts (counters, options) as JSON in the file's metadata, with a checksum over
both: a run never goes on from a file that was cut off or has changed. Nothing in it can be run.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.whole_file import write_whole
from regard.training.weights import pack, unpack

FACTS, CHECKSUM = "facts", "checksum"


class Checkpoint(NamedTuple):
    """What was saved."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with `prefix`, without it."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file at `path`; killed in the middle, the old one stays."""
    facts = json.dumps(checkpoint.facts, sort_keys=True)
    metadata = {FACTS: facts, CHECKSUM: _checksum(checkpoint.tensors, facts)}
    write_whole(path, pack(checkpoint.tensors, metadata))


def read_checkpoint(path: Path) -> Checkpoint:
    """What `write_checkpoint` wrote, or an error that says what to do."""
    way_out = f"Remove it to begin the run anew, or put back a copy of '{path.name}' that is whole."
    tensors, metadata = unpack(path, way_out=way_out)
    if FACTS not in metadata or CHECKSUM not in metadata:
        raise RegardError(f"'{path}' holds tensors but is no checkpoint. {way_out}")
    facts = metadata[FACTS]
    if _checksum(tensors, facts) != metadata[CHECKSUM]:
        raise RegardError(f"'{path}' has changed since it was written. {way_out}")
    return Checkpoint(tensors, json.loads(facts))


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    value = zlib.crc32(facts.encode())
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        content = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        value = zlib.crc32(content.numpy().tobytes(), value)
    return f"{value:08x}"
