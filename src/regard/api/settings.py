"""`list_settings`: every key of `--set`, with its type, default and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

from regard.api.options import (
    File,
    Plugins,
    RunOptions,
    given_options,
    load_plugins,
    run_sections,
    takes_run_options,
)
from regard.core.option_help import Setting, settings_of
from regard.core.options import options_of
from regard.mechanisms import mechanism_class
from regard.models import DATA_ARGUMENTS, SHARED_OPTIONS, model_class
from regard.runs.spec import SpecSections
from regard.tasks import task_class
from regard.training.options import TrainingOptions


@takes_run_options
def list_settings(
    task: str | None = None,
    *,
    init_from: File | None = None,
    seed: int | None = None,
    plugin: Plugins = (),
    **options: Unpack[RunOptions],
) -> list[Setting]:
    """The settings of a training run: task, model, training, pre-training, seed and threads.

    Takes the options of `train`. A value of the recipe or of an option stands in place of the default.
    """
    load_plugins(plugin)
    sections = run_sections(task, given_options(options), seed=seed, init_from=init_from)
    model = sections.get("model", {})
    kind: Any = model_class(model.get("name", ""))
    found = [
        *_task_settings(sections, prefix=""),
        *settings_of(
            options_of(kind, section="model", reserved=DATA_ARGUMENTS),
            section="model",
            values=model,
            owner=kind,
            shared=SHARED_OPTIONS,
        ),
        *_mechanism_settings(model),
        *settings_of(TrainingOptions, section="training", values=sections.get("training", {})),
    ]
    if isinstance(before := sections.get("pretraining"), dict):
        found += _task_settings(before, prefix="pretraining.")
        values = before.get("training", {})
        found += settings_of(TrainingOptions, section="pretraining.training", values=values)
    whole = settings_of(SpecSections, section="", values=sections)
    return [*found, *(each for each in whole if each.key in ("seed", "threads"))]


def _task_settings(sections: Mapping[str, Any], *, prefix: str) -> Iterator[Setting]:
    task = sections.get("task", {})
    options = task_class(task.get("name", "")).options_class
    return settings_of(options, section=f"{prefix}task", values=task)


def _mechanism_settings(model: Mapping[str, Any]) -> Iterator[Setting]:
    """The options of the mechanism that the recipe or the command names."""
    if (
        not isinstance(name := model.get("mechanism"), str)
        or not name.isidentifier()
        or name == "none"
    ):
        return
    kind: Any = mechanism_class(name)
    options = options_of(kind, section="mechanism", reserved=("query_dim", "key_dim", "num_heads"))
    values = model.get("mechanism_options") or {}
    yield from settings_of(options, section="model.mechanism_options", values=values, owner=kind)


def settings_text(settings: Iterable[Setting]) -> str:
    """A block per section: key and default, then type and meaning."""
    lines: list[str] = []
    section = None
    for each in settings:
        name = each.key.rpartition(".")[0]
        if name != section:
            lines += ["", f"[{name}]"] if name else [""]
            section = name
        mark = " *" if each.from_recipe else ""
        default = str(each.default)
        if each.default is None or isinstance(each.default, bool):
            default = default.lower()
        lines.append(f"{each.key}={default}{mark}")
        lines.append(f"    {each.type}. {each.meaning}.")
    notes = [
        "* set by the recipe or the command, else the default.",
        "Other models: --set model.name=NAME. A mechanism (see `regard list`) and its options: --set",
        "model.mechanism=NAME lists them here; they are set in one table, as in",
        """--set "model.mechanism_options={'radius': 3}".""",
    ]
    return "\n".join([*lines[1:], "", *notes])
