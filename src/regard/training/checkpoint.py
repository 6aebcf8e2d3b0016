"""Everything a run needs to go on, in one file that is replaced as a whole.

Tensors by name, and facts (counters, options) as JSON in the file's metadata, with a checksum over
both: a run never goes on from a file that was cut off or has changed. Nothing in it can be run.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.core.atomic_write import write_whole
from regard.core.errors import RegardError
from regard.training.averaging import Averaging
from regard.training.optimizers import load_state_tensors, state_tensors
from regard.training.options import BUDGETS, TrainingOptions
from regard.training.schedule import Usage

# The weights of a model as a file of named tensors (safetensors; nothing in it can be run).
#
# A tensor that a model has under several names (tied weights) is written once, under the first.


STEP = "step"


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and saved buffer of a model, each once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], *, source: Path) -> None:
    """Copy tensors into the model they were taken from; the names and shapes must be the same."""
    own = model_tensors(model)
    missing = [name for name in own if name not in tensors]
    strange = [name for name in tensors if name not in own]
    for fault, names in (("lacks", missing), ("has, and the model has not,", strange)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise _misfit(source, f"the file {fault} '{names[0]}'{more}")
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            was, now = tuple(tensors[name].shape), tuple(tensor.shape)
            raise _misfit(source, f"'{name}' has shape {was} in the file and {now} in the model")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def write_weights(
    path: Path, model: nn.Module, *, replaced: Mapping[str, Tensor] | None, step: int
) -> None:
    """Write the weights of a model, some of them `replaced` by an average, and the step they are of."""
    tensors = {**model_tensors(model), **(replaced or {})}
    write_whole(path, pack(tensors, {STEP: str(step)}))


def load_weights(model: nn.Module, path: Path) -> None:
    """Give a model the weights in a file that `write_weights` wrote, at the first evaluation."""
    way_out = f"Restore it, or go on with the run: regard train --resume {path.parent}"
    load_model_tensors(model, unpack(path, way_out=way_out)[0], source=path)


def weights_step(path: Path) -> int | None:
    """The step whose weights a file holds; None where there is no file or it says nothing."""
    try:
        with safe_open(path, framework="pt") as file:
            return int((file.metadata() or {})[STEP])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(held, dict(metadata))


def unpack(path: Path, *, way_out: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; what to do if it is broken is `way_out`."""
    try:
        with safe_open(path, framework="pt") as file:
            # Copied to memory of torch's own alignment, on which the last bit of a product may depend.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except FileNotFoundError as error:
        raise RegardError(f"'{path}' is not there. {way_out}") from error
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RegardError(
            f"'{path}' is not a whole safetensors file ({error}). {way_out}"
        ) from error


def _misfit(source: Path, why: str) -> RegardError:
    return RegardError(
        f"'{source}' does not fit the model: {why}. Build the model with the options it was trained with."
    )


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


# Where a run stands between two steps: all that is not a tensor.


@dataclass(kw_only=True)
class Counters:
    """The next batch is number `batch` of epoch `epoch`.

    `loss_total` and `loss_count` are summed since the last row of metrics; the learning rate and the
    norm of the gradient are those of the last step. `waited` counts evaluations since the best one.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    operations: int = 0
    seconds: float = 0.0
    loss_total: float = 0.0
    loss_count: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0
    best: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    evaluated_step: int = -1
    kept_step: int = -1
    waited: int = 0
    finished: Literal["budget", "patience"] | None = None

    @property
    def used(self) -> Usage:
        """What counts against a budget."""
        return Usage(self.step, self.tokens, self.seconds, self.operations)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def note_scores(
        self, scores: dict[str, float], *, metric: str, lower_is_better: bool, keep: str
    ) -> bool:
        """Take in an evaluation, and whether its weights are to be kept; true if it is the best so far."""
        improved = _is_better(
            scores[metric], self.best.get(metric), lower_is_better=lower_is_better
        )
        if improved:
            self.best = scores
        self.waited = 0 if improved else self.waited + 1
        self.last = scores
        self.evaluated_step = self.step
        if improved or keep == "last":
            self.kept_step = self.step
        return improved


def _is_better(value: float, best: float | None, *, lower_is_better: bool) -> bool:
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value < best if lower_is_better else value > best


# All tensors of a run, gathered for a checkpoint and given back.
#
# model.<name>               weights and buffers optimizer.<name>.<field>   what the optimiser
# remembers of a weight average.<...>              what the averaging keeps generator.cpu
# where torch's random numbers stand


def gather(
    *, model: nn.Module, optimizers: list[Optimizer], averaging: Averaging
) -> dict[str, Tensor]:
    """The tensors as they are now; not copies."""
    parts = {
        "model.": model_tensors(model),
        "optimizer.": state_tensors(optimizers, model),
        "average.": averaging.tensors(),
        "generator.": {"cpu": torch.get_rng_state()},
    }
    return {prefix + name: value for prefix, part in parts.items() for name, value in part.items()}


def give_back(
    checkpoint: Checkpoint,
    *,
    model: nn.Module,
    optimizers: list[Optimizer],
    averaging: Averaging,
    path: Path,
) -> None:
    """Make everything as it was when it was gathered; `path` is for errors."""
    load_model_tensors(model, checkpoint.part("model."), source=path)
    strange = load_state_tensors(optimizers, model, checkpoint.part("optimizer."))
    if strange:
        raise _state_mismatch(path, f"optimiser has no use for '{strange[0]}'")
    try:
        averaging.load(checkpoint.part("average."))
    except (KeyError, RuntimeError, ValueError) as error:
        raise _state_mismatch(path, f"averaging finds no fitting {error}") from error
    generator = checkpoint.part("generator.").get("cpu")
    if generator is None:
        raise _state_mismatch(path, "random numbers have no place to go on from")
    torch.set_rng_state(generator)


def _state_mismatch(path: Path, why: str) -> RegardError:
    return RegardError(f"'{path}' does not fit the run: its {why}. Train anew in another folder.")


# Whether a run may go on from a checkpoint with the options at hand.


def counters_to_go_on(
    facts: dict[str, Any], *, options: TrainingOptions, seed: int, path: Path
) -> tuple[Counters, dict[str, int]]:
    """Where the run stands, and how long its files of rows were.

    Other options are refused: budgets may differ, as long as none of them is lowered; all else must be
    as it was. A run that had used up its budget is not finished any more if that was raised.
    """
    try:
        before = {**facts["options"], "seed": facts["seed"]}
        counters, lengths = Counters(**facts["counters"]), dict(facts["lengths"])
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{path}' was written by another version of regard ({error}). Train anew in another "
            "folder."
        ) from error
    now = {**options.as_dict(), "seed": seed}
    folder = path.parent
    changed = [name for name in now if name not in BUDGETS and before.get(name) != now[name]]
    if changed:
        differences = ", ".join(
            f"{name} was {before.get(name)!r}, is {now[name]!r}" for name in changed
        )
        raise RegardError(
            f"The run in '{folder}' was begun with other options: {differences}. On resuming, only "
            f"the budgets may change ({', '.join(BUDGETS)}). Resume with the options as they were, or "
            "train anew in another folder."
        )
    for name in BUDGETS:
        old, new = before.get(name), now[name]
        if old is not None and new is not None and new < old:
            raise RegardError(
                f"The run in '{folder}' was begun with {name}={old}, and {name}={new} is less. On "
                "resuming, a budget may be raised, added or left away, not lowered."
            )
    if counters.finished == "budget" and not options.budget.is_used(counters.used):
        counters.finished = None
    return counters, lengths


# A file of JSON rows that can be cut back to what it was at a checkpoint.
#
# A row is handed to the system as soon as it is written, so that it can be followed while the run
# goes on; it is on the disk for certain once `length` was asked for.


class RowFile:
    """Rows are added at the end; `kept` bytes stay of what is there, all others are cut off."""

    def __init__(self, path: Path, *, kept: int) -> None:
        """Open the file, or make it."""
        self.path = path
        try:
            there = path.stat().st_size if path.exists() else 0
            if there < kept:
                raise RegardError(
                    f"'{path}' has {there} bytes and had {kept} when the checkpoint beside it was "
                    "written, so rows are lost. Put the file back, or train anew in another folder."
                )
            self._file = path.open("ab")
            self._file.truncate(kept)
        except OSError as error:
            raise RegardError(f"'{path}' cannot be written: {error.strerror or error}.") from error

    def __enter__(self) -> Self:
        """For `with`: closed at the end."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: dict[str, Any]) -> None:
        """Write one row; what is no number is written as null, for JSON has no word for it."""
        text = json.dumps({key: _number(value) for key, value in row.items()}, allow_nan=False)
        self._file.write(text.encode() + b"\n")
        self._file.flush()

    def length(self) -> int:
        """How many bytes the file has, all of them on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _number(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
