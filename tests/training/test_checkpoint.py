"""Checkpoints, model files and JSONL logs: round trips, and refusal of damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from regard.core.errors import RegardError
from regard.core.manifest import Manifest
from regard.training.checkpoint import (
    Checkpoint,
    JsonlFile,
    load_parameters,
    parameters_step,
    read_checkpoint,
    write_checkpoint,
    write_parameters,
)


def example() -> Checkpoint:
    tensors = {
        "model.weight": torch.tensor([[1.0, float("nan")], [-0.0, 1e-40]]),
        "optimizer.weight.step": torch.tensor(3.0),
        "average.count": torch.arange(5, dtype=torch.uint8),
        "empty": torch.empty(0, 3, dtype=torch.float64),
    }
    return Checkpoint(tensors, {"step": 7, "loss": 0.1 + 0.2, "best": {"größe": 1.0}})


def manifest(folder: Path) -> Manifest:
    found = Manifest(folder)
    found.create()
    return found


def test_round_trip_is_bit_exact(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example(), manifest=manifest(tmp_path), logs={})
    back = read_checkpoint(path)
    assert back.metadata == example().metadata
    assert back.tensors.keys() == example().tensors.keys()
    for name, tensor in example().tensors.items():
        assert back.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()
        assert back.tensors[name].dtype == tensor.dtype
    assert back.with_prefix("optimizer.") == {"weight.step": torch.tensor(3.0)}


@pytest.mark.parametrize("size", [0, 4, 9, 200, -1])
def test_truncated_file_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example(), manifest=manifest(tmp_path), logs={})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(RegardError, match=r"checkpoint\.safetensors' is not a valid"):
        read_checkpoint(path)


def test_every_flipped_byte_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example(), manifest=manifest(tmp_path), logs={})
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0x01
        path.write_bytes(bytes(changed))
        try:
            back = read_checkpoint(path)
        except RegardError:
            continue
        assert back.metadata == example().metadata, (
            position
        )  # only padding and the header of the format
        assert all(
            back.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()
            for name, tensor in example().tensors.items()
        ), position


def test_safetensors_file_without_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(RegardError, match="not a checkpoint"):
        read_checkpoint(path)


def test_folder_and_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RegardError, match="folder' is not a valid"):
        read_checkpoint(tmp_path / "folder")
    with pytest.raises(RegardError, match="nothing' does not exist"):
        read_checkpoint(tmp_path / "nothing")


class Tied(nn.Module):
    """Output layer and embedding share one matrix."""

    def __init__(self, *, width: int = 3, bias: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, width)
        self.output = nn.Linear(width, 5, bias=bias)
        self.output.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(4))


def test_tied_parameters_are_written_once(tmp_path: Path) -> None:
    path, model, other = tmp_path / "model.safetensors", Tied(), Tied()
    write_parameters(path, model, averaged=None, step=12, manifest=manifest(tmp_path))
    with safe_open(path, framework="pt") as file:
        assert sorted(file.keys()) == ["count", "embedding.weight", "output.bias"]
    load_parameters(other, path)
    assert torch.equal(other.output.weight, model.embedding.weight)
    assert other.output.weight is other.embedding.weight
    assert parameters_step(path) == 12


def test_averaged_parameters_are_written(tmp_path: Path) -> None:
    path, model, other = tmp_path / "model.safetensors", Tied(), Tied()
    write_parameters(
        path,
        model,
        averaged={"output.bias": torch.arange(5.0)},
        step=1,
        manifest=manifest(tmp_path),
    )
    load_parameters(other, path)
    assert other.output.bias.tolist() == [0, 1, 2, 3, 4]
    assert model.output.bias.tolist() != [0, 1, 2, 3, 4]


def test_mismatched_model_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_parameters(path, Tied(), averaged=None, step=1, manifest=manifest(tmp_path))
    wider = Tied(width=4)
    before = wider.embedding.weight.detach().clone()
    with pytest.raises(RegardError, match=r"'embedding.weight' has shape \(5, 3\) in the file and"):
        load_parameters(wider, path)
    assert torch.equal(wider.embedding.weight, before)
    with pytest.raises(RegardError, match=r"unexpected tensor 'output\.bias'"):
        load_parameters(Tied(bias=False), path)
    write_parameters(path, Tied(bias=False), averaged=None, step=1, manifest=manifest(tmp_path))
    with pytest.raises(RegardError, match=r"missing tensor 'output\.bias'"):
        load_parameters(Tied(), path)


def test_missing_or_broken_file_has_no_step(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"12345678")
    assert parameters_step(tmp_path / "nothing") is None
    assert parameters_step(tmp_path / "broken") is None


def test_rows_after_the_checkpoint_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with JsonlFile(path, keep_bytes=0) as rows:
        rows.add({"step": 1})
        size = rows.synced_state()["size"]
        rows.add({"step": 2})
    assert size == len('{"step": 1}\n')
    with JsonlFile(path, keep_bytes=size) as rows:
        rows.add({"step": 3})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 3]


def test_rows_are_flushed(tmp_path: Path) -> None:
    with JsonlFile(tmp_path / "rows.jsonl", keep_bytes=0) as rows:
        rows.add({"step": 1})
        assert (tmp_path / "rows.jsonl").read_text() == '{"step": 1}\n'


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    with JsonlFile(tmp_path / "rows.jsonl", keep_bytes=0) as rows:
        rows.add({"loss": float("nan"), "validation": {"error": float("inf"), "accuracy": 1.0}})
    text = (tmp_path / "rows.jsonl").read_text()
    assert text == '{"loss": null, "validation": {"error": null, "accuracy": 1.0}}\n'


def test_missing_rows_are_detected(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(RegardError, match=r"rows\.jsonl' has 0 bytes, but had 5"):
        JsonlFile(tmp_path / "rows.jsonl", keep_bytes=5)


def test_other_name_of_a_linked_log_is_left_alone(tmp_path: Path) -> None:
    """A backup by hard links must not grow with the run."""
    (tmp_path / "rows.jsonl").write_text("1\n2\n")
    (tmp_path / "backup.jsonl").hardlink_to(tmp_path / "rows.jsonl")
    with JsonlFile(tmp_path / "rows.jsonl", keep_bytes=2) as rows:
        rows.add({"step": 3})
    assert (tmp_path / "rows.jsonl").read_text() == '1\n{"step": 3}\n'
    assert (tmp_path / "backup.jsonl").read_text() == "1\n2\n"


def test_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").mkdir()
    with pytest.raises(RegardError, match=r"rows\.jsonl' cannot be written"):
        JsonlFile(tmp_path / "rows.jsonl", keep_bytes=0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_is_an_error(tmp_path: Path) -> None:
    with JsonlFile(tmp_path / "metrics.jsonl", keep_bytes=0) as file:
        file._file.close()
        file._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
        with pytest.raises(RegardError, match=r"metrics.jsonl' cannot be written.*--resume"):
            file.add({"step": 1})
