"""`--plugin`: a user's mechanism, metric, … on the command line; the examples are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.command_line import exit_code

from regard.cli.main import main
from regard.core.batches import TokenInput, TokenSpec
from regard.core.errors import RegardError
from regard.mechanisms import REGISTRY, mechanism_class
from regard.mechanisms.scores.dot_product import DotAttention
from regard.models import model_class
from regard.runs.plugins import load_plugins

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = str(EXAMPLES / "my_attention.py:CosineAttention")


pytestmark = pytest.mark.usefixtures("no_plugins")


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_train_and_predict_with_a_plugin(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word.upper()}\n" for word in ("ab", "ba", "aab", "bb") * 9))
    small = {
        "transformer": [
            "model.model_dim=16",
            "model.num_heads=2",
            "model.num_layers=1",
            "model.tie=target",
        ],
        "recurrent": ["model.hidden_dim=16", "model.embedding_dim=8"],
    }[model]
    settings = [f"model.name={model}", "model.mechanism=CosineAttention", *small]
    command = ["train", "translate", "--recipe", "translate-characters", "--train-file", str(pairs)]
    command += [
        "--validation-file",
        str(pairs),
        "--steps",
        "2",
        "--out",
        str(tmp_path / "run"),
        "--threads",
        "1",
    ]
    command += [word for setting in settings for word in ("--set", setting)]
    main([*command, "--plugin", EXAMPLE])
    main(["predict", str(tmp_path / "run"), "ab", "--plugin", EXAMPLE])
    assert capsys.readouterr().out


def test_metric_of_the_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word.upper()}\n" for word in ("ab", "ba", "aab", "bb") * 9))
    command = ["train", "translate", "--recipe", "translate-characters", "--train-file", str(pairs)]
    command += ["--validation-file", str(pairs), "--steps", "2", "--out", str(tmp_path / "run")]
    command += ["--set", "model.name=recurrent", "--set", "model.hidden_dim=8", "--threads", "1"]
    command += ["--set", "task.metrics=['length_error']", "--set", "task.metric=length_error"]
    main([*command, "--plugin", str(EXAMPLES / "my_metric.py:LengthError")])
    assert "length_error" in capsys.readouterr().out


def test_model_of_the_examples_ignores_padding() -> None:
    (name,) = load_plugins([str(EXAMPLES / "my_model.py:MaxEmbedding")])
    model: Any = model_class(name)(source=TokenSpec(9), outputs=2).eval()
    short = torch.tensor([[3, 4, 5]])
    padded = torch.nn.functional.pad(short, (0, 2))
    lengths = torch.tensor([3])
    expected = model.classify(TokenInput(short, lengths)).logits
    found = model.classify(TokenInput(padded, lengths)).logits
    torch.testing.assert_close(found, expected)
    assert found.shape == (1, 2)


def test_unregistered_plugin_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n" * 9)
    command = ["train", "translate", "--recipe", "translate-characters", "--train-file", str(pairs)]
    command += ["--validation-file", str(pairs), "--set", "model.mechanism=SineAttention"]
    assert exit_code([*command, "--out", str(tmp_path / "run")]) == 2
    assert "SineAttention" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("target", ["nowhere.py:Mine", "my_attention.py", f"{EXAMPLE}s"])
def test_invalid_plugin_raises(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["train", "pronounce", "--plugin", target]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_builtin_name_cannot_be_replaced() -> None:
    pretender = type("dot", (DotAttention,), {})
    with pytest.raises(RegardError, match="'dot'"):
        REGISTRY.add(pretender)
    assert mechanism_class("dot") is DotAttention
