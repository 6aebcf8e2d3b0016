"""A mechanism of the user's own, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

from regard.cli.main import main
from regard.core.errors import RegardError
from regard.mechanisms import mechanism_class, plug_in
from regard.mechanisms.scores.dot_product import DotAttention

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'my_attention.py'}:CosineAttention"


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_trains_and_predicts_with_it(
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
    asked = ["train", "translate", "--recipe", "translate-characters", "--pairs", str(pairs)]
    asked += [
        "--validation",
        str(pairs),
        "--steps",
        "2",
        "--out",
        str(tmp_path / "run"),
        "--threads",
        "1",
    ]
    asked += [word for setting in settings for word in ("--set", setting)]
    main([*asked, "--plugin", EXAMPLE])
    main(["predict", str(tmp_path / "run"), "ab", "--plugin", EXAMPLE])
    assert capsys.readouterr().out


def test_a_name_that_was_not_plugged_in_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n" * 9)
    asked = ["train", "translate", "--recipe", "translate-characters", "--pairs", str(pairs)]
    asked += ["--validation", str(pairs), "--set", "model.mechanism=SineAttention"]
    assert exit_code([*asked, "--out", str(tmp_path / "run")]) == 2
    assert "SineAttention" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("target", ["nowhere.py:Mine", "my_attention.py", f"{EXAMPLE}s"])
def test_what_names_no_mechanism_is_refused(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["train", "pronounce", "--plugin", target]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_name_of_the_table_cannot_be_taken() -> None:
    pretender = type("dot", (DotAttention,), {})
    with pytest.raises(RegardError, match="'dot'"):
        plug_in(pretender)
    assert mechanism_class("dot") is DotAttention
