"""The pupils of the claims about limits: small Transformers and LSTMs, taught drawn strings."""

from __future__ import annotations

from typing import Any

from regard.claims.string_lessons import Lesson, Pupil, Settings, taught
from regard.data.bad_rows import BadRows
from regard.data.strings.brackets import Brackets, depth_of
from regard.data.strings.drawing import DrawnLabels
from regard.tasks.held_out import HeldOut

BRACKET_STRINGS = 20_000
DEPTH = 4  # to which brackets are nested in what is taught
SOFTMAX, LINEAR, LSTM = "softmax Transformer", "linear Transformer (elu + 1)", "LSTM"
PUPILS = (SOFTMAX, LINEAR, LSTM)
LEAST_PARITY = 4  # of shorter strings there are too few to hold some out
LEAST_BRACKETS = 2 * (DEPTH + 1)  # brackets deeper than those taught take so many places

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
# Dropout makes it sure of its state; without it, one string in a thousand goes wrong when it is long.
LAYER: dict[str, Any] = {"model_dim": 8, "take": "last", "dropout": 0.2, "word_dropout": 0.0}
LSTM_STEPS = 400  # a stage

NESTED_TRIED = 40  # times as many strings are drawn as are kept of one depth


def parity_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught PARITY to this length.

    Without positions, since the answer is a function of two numbers then, and not of every string.
    """
    return taught(
        Lesson(
            task="parity",
            task_options=_settings(strings=8000),
            # A Transformer learns what is even anew for every length: shorter stages only cost time.
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="none", hidden_dim=16, steps=steps),
        )
    )


def bracket_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught two kinds of brackets, `DEPTH` deep, to this length."""
    return taught(
        Lesson(
            task="brackets",
            task_options=_settings(strings=BRACKET_STRINGS, kinds=2, depth=DEPTH),
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="rotary", hidden_dim=32, steps=steps),
        )
    )


def nested(length: int, depth: int, *, count: int = 400) -> HeldOut:
    """Strings of brackets of one length in which exactly so many are open at once.

    As many are balanced as are not: a pupil that always gives the same answer is right about half.
    """
    drawn = DrawnLabels(
        rule=Brackets(kinds=2, depth=depth),
        shortest=length,
        longest=length,
        count=NESTED_TRIED * count,
        seed=1,
    )
    kept: dict[str, list[tuple[str, str]]] = {"yes": [], "no": []}
    for row in drawn.rows(bad=BadRows()):
        if depth_of(row.text) == depth:
            kept[row.label].append((row.text, row.label))
    of_each = min(count // 2, *(len(rows) for rows in kept.values()))
    return HeldOut.of([*kept["yes"][:of_each], *kept["no"][:of_each]], group=False)


def _stages(longest: int) -> tuple[int, ...]:
    """Short strings first, then ever twice as long ones.

    >>> _stages(12)
    (2, 4, 8, 12)
    """
    powers = (2**power for power in range(1, longest.bit_length()))
    return tuple(sorted({*powers, longest}))


def _model(kind: str, *, position: str, hidden_dim: int, steps: int) -> dict[str, Any]:
    if kind == LSTM:
        return {
            "model": "recurrent_text",
            "model_options": _settings(**LAYER, hidden_dim=hidden_dim),
            "learning_rate": 1e-2,
            # It knows soon, and becomes sure after that: so it is never stopped early.
            "steps": min(steps, LSTM_STEPS),
            "sure": 0.0,
        }
    mechanism = "scaled_dot" if kind == SOFTMAX else "elu"
    return {
        "model": "text_encoder",
        "model_options": _settings(**ENCODER, position=position, mechanism=mechanism),
        "learning_rate": 2e-3,
        "steps": steps,
    }


def _settings(**options: Any) -> Settings:
    return tuple(options.items())
