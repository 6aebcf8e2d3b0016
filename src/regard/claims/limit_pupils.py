"""The pupils of the claims about limits: small Transformers and LSTMs, taught drawn strings."""

from __future__ import annotations

from typing import Any

from regard.claims.string_lessons import Lesson, Pupil, Settings, taught
from regard.data.bad_rows import BadRows
from regard.data.strings.brackets import Brackets, depth_of
from regard.data.strings.drawing import DrawnLabels
from regard.tasks.held_out import HeldOut

DEPTH = 4  # to which brackets are nested in what is taught
SOFTMAX, LINEAR, LSTM = "softmax Transformer", "linear Transformer (elu + 1)", "LSTM"
PUPILS = (SOFTMAX, LINEAR, LSTM)

ENCODER: dict[str, Any] = {
    "model_dim": 32,
    "num_heads": 4,
    "num_layers": 2,
    "feed_forward_dim": 64,
    "dropout": 0.0,
    "norm_first": True,
    "embedding_scaled": True,
    "pretraining_heads": False,
}
LAYER: dict[str, Any] = {"model_dim": 8, "take": "last", "dropout": 0.0, "word_dropout": 0.0}

NESTED_TRIED = 40  # times as many strings are drawn as are kept of one depth


def parity_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught PARITY to this length.

    Without positions, since the answer is a function of two numbers then, and not of every string.
    """
    return taught(
        Lesson(
            task="parity",
            task_options=_settings(strings=6000, batch_tokens=1280),
            stages=_stages(longest),
            steps=steps,
            seed=seed,
            **_model(kind, position="none", hidden_dim=16),
        )
    )


def bracket_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught two kinds of brackets, `DEPTH` deep, to this length."""
    return taught(
        Lesson(
            task="brackets",
            task_options=_settings(strings=8000, batch_tokens=1536, kinds=2, depth=DEPTH),
            stages=_stages(longest),
            steps=steps,
            seed=seed,
            **_model(kind, position="sinusoidal", hidden_dim=32),
        )
    )


def nested(length: int, depth: int, *, count: int = 400) -> HeldOut:
    """Strings of brackets of one length in which exactly so many are open at once, balanced or not."""
    drawn = DrawnLabels(
        rule=Brackets(kinds=2, depth=depth),
        shortest=length,
        longest=length,
        count=NESTED_TRIED * count,
        seed=1,
    )
    rows = (row for row in drawn.rows(bad=BadRows()) if depth_of(row.text) == depth)
    some = [(row.text, row.label) for row, _ in zip(rows, range(count), strict=False)]
    return HeldOut.of(some, group=False)


def _stages(longest: int) -> tuple[int, ...]:
    """A quarter, a half, all of the length: short strings first."""
    return tuple(sorted({max(2, longest // 4), max(2, longest // 2), longest}))


def _model(kind: str, *, position: str, hidden_dim: int) -> dict[str, Any]:
    if kind == LSTM:
        return {
            "model": "recurrent_text",
            "model_options": _settings(**LAYER, hidden_dim=hidden_dim),
            "learning_rate": 1e-2,
            # What is left of a doubt adds up over a long string.
            "sure": 3e-4,
        }
    mechanism = "scaled_dot" if kind == SOFTMAX else "elu"
    return {
        "model": "text_encoder",
        "model_options": _settings(**ENCODER, position=position, mechanism=mechanism),
        "learning_rate": 3e-3,
    }


def _settings(**options: Any) -> Settings:
    return tuple(options.items())
