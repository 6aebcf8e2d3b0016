"""`--plugin`: a user's mechanism on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

from regard.cli.main import main
from regard.core.errors import RegardError
from regard.mechanisms import mechanism_class, register_plugin
from regard.mechanisms.scores.dot_product import DotAttention

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'my_attention.py'}:CosineAttention"


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
        register_plugin(pretender)
    assert mechanism_class("dot") is DotAttention
