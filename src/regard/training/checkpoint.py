"""Checkpoints: saving and resuming a run, model files, and the JSONL log of metrics.

`write_checkpoint` and `read_checkpoint` are called by the training loop (`loop.py`). A checkpoint is one
safetensors file, written atomically and never pickled:

    model.<name>                parameters and buffers
    optimizer.<name>.<field>    optimizer state
    average.<...>               weight averaging
    metadata                    training state, options and seed as JSON, with a checksum over all

A truncated or modified file is an error. Checkpoint, model and logs are listed in manifest.json.
"""

from __future__ import annotations

import hashlib
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

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.core.manifest import Manifest, State, validate_no_link
from regard.training.averaging import Averaging
from regard.training.optimizers import load_optimizer_state, optimizer_state
from regard.training.options import BUDGETS, TrainingOptions
from regard.training.schedule import Usage

STEP = "step"


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and persistent buffer of a model; tied tensors once, under their first name."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def load_model_state(model: nn.Module, tensors: Mapping[str, Tensor], *, source: Path) -> None:
    """Copy tensors into a model; names and shapes must match."""
    own = model_state(model)
    missing = [name for name in own if name not in tensors]
    unexpected = [name for name in tensors if name not in own]
    for problem, names in (("missing", missing), ("unexpected", unexpected)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise _model_mismatch(source, f"{problem} tensor '{names[0]}'{more}")
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            was, now = tuple(tensors[name].shape), tuple(tensor.shape)
            raise _model_mismatch(
                source, f"'{name}' has shape {was} in the file and {now} in the model"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def write_parameters(
    path: Path,
    model: nn.Module,
    *,
    averaged: Mapping[str, Tensor] | None,
    step: int,
    manifest: Manifest,
) -> None:
    """Write the parameters of a model, or their average, with the step they belong to."""
    tensors = {**model_state(model), **(averaged or {})}
    manifest.replace(path, pack_safetensors(tensors, {STEP: str(step)}))


def load_parameters(model: nn.Module, path: Path) -> None:
    """Load a file written by `write_parameters` into a model."""
    way_out = f"Restore it, or resume the run: regard train --resume {path.parent}"
    load_model_state(model, read_safetensors(path, way_out=way_out)[0], source=path)


def parameters_step(path: Path) -> int | None:
    """The step at which a model file was saved; None without a file or metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            return int((file.metadata() or {})[STEP])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


def pack_safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(on_cpu, dict(metadata))


def read_safetensors(path: Path, *, way_out: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a safetensors file; `way_out` ends the message of an error."""
    try:
        with safe_open(path, framework="pt") as file:
            # Clone to torch's own memory alignment: the last bit of a matrix product may depend on it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except FileNotFoundError as error:
        raise RegardError(f"'{path}' does not exist. {way_out}") from error
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RegardError(
            f"'{path}' is not a valid safetensors file ({error}). {way_out}"
        ) from error


def _model_mismatch(source: Path, why: str) -> RegardError:
    return RegardError(
        f"'{source}' does not match the model: {why}. Build the model with the options it was trained with."
    )


CONTENT, CHECKSUM = "content", "checksum"


class Checkpoint(NamedTuple):
    """The content of a checkpoint file."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def with_prefix(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with `prefix`, which is removed."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def write_checkpoint(
    path: Path, checkpoint: Checkpoint, *, manifest: Manifest, logs: Mapping[str, State]
) -> None:
    """Write atomically: a crash leaves the previous checkpoint. `logs` are their states at this point."""
    content = json.dumps(checkpoint.metadata, sort_keys=True)
    header = {CONTENT: content, CHECKSUM: _checksum(checkpoint.tensors, content)}
    manifest.replace(path, pack_safetensors(checkpoint.tensors, header), logs=logs)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a file written by `write_checkpoint`."""
    way_out = "Restore it from a copy, or start a new run in another folder."
    tensors, header = read_safetensors(path, way_out=way_out)
    if CONTENT not in header or CHECKSUM not in header:
        raise RegardError(f"'{path}' is a safetensors file but not a checkpoint. {way_out}")
    content = header[CONTENT]
    if _checksum(tensors, content) != header[CHECKSUM]:
        raise RegardError(f"'{path}' was modified: its checksum does not match. {way_out}")
    return Checkpoint(tensors, json.loads(content))


def _checksum(tensors: Mapping[str, Tensor], content: str) -> str:
    value = zlib.crc32(content.encode())
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        data = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        value = zlib.crc32(data.numpy().tobytes(), value)
    return f"{value:08x}"


@dataclass(kw_only=True)
class TrainingState:
    """The training state that is not a tensor. The next batch is number `batch` of epoch `epoch`.

    `seconds` are those of training steps, `evaluation_seconds` those of evaluations.
    `loss_total` and `loss_count` are sums since the last logged row. Learning rate and gradient norm are
    those of the last step. `model_step` is the step saved in model.safetensors, -1 before the first.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    flops: int = 0
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    loss_total: float = 0.0
    loss_count: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0
    best: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    evaluation_due: bool = False
    evaluated_step: int = -1
    model_step: int = -1
    evaluations_since_best: int = 0
    finished: Literal["budget", "patience"] | None = None

    @property
    def used(self) -> Usage:
        """The usage to compare with the budget."""
        return Usage(self.step, self.tokens, self.seconds, self.flops)

    def as_dict(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return asdict(self)

    def update_scores(
        self, scores: dict[str, float], *, metric: str, lower_is_better: bool, keep: str
    ) -> bool:
        """Record an evaluation and whether its parameters are saved; whether it is the best so far."""
        improved = _is_better(
            scores[metric], self.best.get(metric), lower_is_better=lower_is_better
        )
        if improved:
            self.best = scores
        self.evaluations_since_best = 0 if improved else self.evaluations_since_best + 1
        self.last = scores
        self.evaluated_step, self.evaluation_due = self.step, False
        if improved or keep == "last":
            self.model_step = self.step
        return improved


def _is_better(value: float, best: float | None, *, lower_is_better: bool) -> bool:
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value < best if lower_is_better else value > best


def collect_state(
    *, model: nn.Module, optimizers: list[Optimizer], averaging: Averaging
) -> dict[str, Tensor]:
    """All tensors of a run, not copied."""
    sections = {
        "model.": model_state(model),
        "optimizer.": optimizer_state(optimizers, model),
        "average.": averaging.state_dict(),
    }
    return {
        prefix + name: value
        for prefix, tensors in sections.items()
        for name, value in tensors.items()
    }


def restore_state(
    checkpoint: Checkpoint,
    *,
    model: nn.Module,
    optimizers: list[Optimizer],
    averaging: Averaging,
    path: Path,
) -> None:
    """Load all tensors of a run; `path` is named in errors."""
    load_model_state(model, checkpoint.with_prefix("model."), source=path)
    unexpected = load_optimizer_state(optimizers, model, checkpoint.with_prefix("optimizer."))
    if unexpected:
        raise _state_mismatch(path, f"unexpected optimizer state '{unexpected[0]}'")
    try:
        averaging.load_state_dict(checkpoint.with_prefix("average."))
    except (KeyError, RuntimeError, ValueError) as error:
        raise _state_mismatch(path, f"the averaging state does not match ({error})") from error


def _state_mismatch(path: Path, why: str) -> RegardError:
    return RegardError(
        f"'{path}' does not match the run: {why}. Start a new run in another folder."
    )


def resume_state(
    metadata: dict[str, Any], *, options: TrainingOptions, seed: int, path: Path
) -> tuple[TrainingState, dict[str, int]]:
    """The training state of a checkpoint, and the sizes of its JSONL files.

    The options must be those of the run, except that budgets may be raised; one that the checkpoint lacks
    has the default it was introduced with. A run that had exhausted a budget which is now raised is no
    longer finished.
    """
    try:
        stored = TrainingOptions.from_record(metadata["options"])
        before = {**stored.as_dict(), "seed": metadata["seed"]}
        state, log_sizes = TrainingState(**metadata["state"]), dict(metadata["log_sizes"])
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{path}' was written by another version of regard ({error}). Start a new run in another "
            "folder."
        ) from error
    now = {**options.as_dict(), "seed": seed}
    folder = path.parent
    changed = [name for name in now if name not in BUDGETS and before[name] != now[name]]
    if changed:
        differences = ", ".join(
            f"{name} was {before[name]!r}, is {now[name]!r}" for name in changed
        )
        raise RegardError(
            f"The run in '{folder}' has other options: {differences}. On resuming, only the budgets may "
            f"change ({', '.join(BUDGETS)}). Resume with the same options, or start a new run in another "
            "folder."
        )
    for name in BUDGETS:
        old, new = before[name], now[name]
        if old is not None and new is not None and new < old:
            raise RegardError(
                f"The run in '{folder}' has the budget {name}={old}; {name}={new} is lower. On resuming, a "
                "budget may be raised, added or removed, not lowered."
            )
    if state.finished == "budget" and not options.budget.is_exhausted(state.used):
        state.finished = None
    return state, log_sizes


class JsonlFile:
    """An append-only JSON Lines file that can be truncated to its size at a checkpoint.

    Rows are flushed as they are written, so that they can be followed; `synced_state` forces them to disk.
    """

    def __init__(self, path: Path, *, keep_bytes: int) -> None:
        """Open or create the file, and truncate it to `keep_bytes`."""
        self.path = path
        validate_no_link(path)
        try:
            kept = path.read_bytes()[:keep_bytes] if keep_bytes else b""
            if len(kept) < keep_bytes:
                raise RegardError(
                    f"'{path}' has {len(kept)} bytes, but had {keep_bytes} at the checkpoint: rows are "
                    "missing. Restore the file, or start a new run in another folder."
                )
            if path.exists() and not path.is_file():
                raise OSError("it is not a regular file")
            if path.exists() and path.stat().st_nlink > 1:
                atomic_write(
                    path, kept
                )  # a hard link, such as a backup: leave the other name alone
            # Without a buffer: what a full disk did not take is not written again on closing.
            self._file = path.open("ab", buffering=0)
            self._file.truncate(keep_bytes)
        except OSError as error:
            raise self._unwritable(error) from error
        self._digest = hashlib.sha256(kept)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: dict[str, Any]) -> None:
        """Append one row; NaN and infinity become null."""
        text = json.dumps(
            {key: _finite_or_none(value) for key, value in row.items()}, allow_nan=False
        )
        row_bytes = text.encode() + b"\n"
        self._digest.update(row_bytes)
        try:
            if self._file.write(row_bytes) != len(row_bytes):
                raise OSError("the disk is full")
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RegardError:
        return RegardError(
            f"'{self.path}' cannot be written: {error.strerror or error}. Resume the run when it can be: "
            f"regard train --resume {self.path.parent}"
        )

    def synced_state(self) -> dict[str, Any]:
        """Sync to disk, and return the size in bytes and the SHA-256."""
        os.fsync(self._file.fileno())
        return {"size": os.fstat(self._file.fileno()).st_size, "sha256": self._digest.hexdigest()}


def _finite_or_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite_or_none(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
