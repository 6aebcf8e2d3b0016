"""`list_names`: everything that has a name, from tables of strings, so that torch is not imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.registry import BuiltinConfigs, lookup
from regard.data.datasets import DATASETS
from regard.layers.names import POOLING, POSITIONS
from regard.mechanisms import MECHANISMS, REGISTRY as MECHANISM_REGISTRY
from regard.models import MODELS, REGISTRY as MODEL_REGISTRY
from regard.tasks import REGISTRY as TASK_REGISTRY, TASKS
from regard.tasks.metrics import METRICS, REGISTRY as METRIC_REGISTRY

if TYPE_CHECKING:
    from regard.api.options import Plugins

Record = dict[str, Any]
PACKAGE = Path(__file__).parents[1]
RECIPES = BuiltinConfigs("recipe", PACKAGE / "runs" / "recipes")
STUDIES = BuiltinConfigs("study", PACKAGE / "studies" / "configs")
# The comment of a recipe may begin with what it is the default of.
DEFAULT_OF = re.compile(r"^Default hyper-parameters of `[^`]*`[.:] ")
SENTENCE_END = re.compile(r"\.(?: (?=[A-Z])|$)|: --")


def list_names(kind: str | None = None, *, plugin: Plugins = ()) -> dict[str, list[Record]]:
    """Everything that has a name, by kind; or the names of one kind, such as "models".

    A record has a name, a summary and where it is defined, and further facts by kind: the tasks of a model,
    the models, metrics and datasets of a task, task and model of a recipe. Torch is not imported, unless
    plug-ins are given.
    """
    if plugin:
        from regard.api.options import load_plugins

        load_plugins(plugin)
    chosen = KINDS if kind is None else {kind: lookup("kind", kind, KINDS)}
    return {name: list(records()) for name, records in chosen.items()}


def is_compatible(task: str, model: str) -> bool:
    """Whether a built-in model takes the inputs of a built-in task and predicts its targets."""
    wanted, has = TASKS[task], MODELS[model]
    return (
        wanted.input_kind in has.inputs
        and wanted.target_kind in has.targets
        and (has.is_decoder_only or not wanted.is_generative)
    )


def _classes(table: Any, package: str, *keys: str) -> Iterable[Record]:
    """A record of each class of a table; `keys` are further fields of its entries."""
    for name, entry in table.items():
        yield {
            "name": name,
            **{key: getattr(entry, key) for key in (*keys, "summary")},
            "module": f"regard.{package}.{entry.module}",
            "class_name": entry.class_name,
        }


def _mechanisms() -> Iterable[Record]:
    return _classes(MECHANISMS, "mechanisms", "family", "reference")


def _pooling() -> Iterable[Record]:
    return _classes(POOLING, "layers", "reference")


def _positions() -> Iterable[Record]:
    return _classes(POSITIONS, "layers", "reference", "acts_on")


def _models() -> Iterable[Record]:
    for record in _classes(MODELS, "models", "reference"):
        yield {**record, "tasks": [task for task in TASKS if is_compatible(task, record["name"])]}


def _tasks() -> Iterable[Record]:
    for record in _classes(TASKS, "tasks"):
        name = record["name"]
        yield {
            **record,
            "models": [model for model in MODELS if is_compatible(name, model)],
            "metrics": list(TASKS[name].metrics),
            "datasets": [each for each, entry in DATASETS.items() if entry.task == name],
        }


def _metrics() -> Iterable[Record]:
    return _classes(METRICS, "tasks.metrics")


def _recipes() -> Iterable[Record]:
    for name, path in RECIPES.paths().items():
        sections = RECIPES.read(name)
        yield {
            "name": name,
            "summary": first_sentence(path),
            "task": sections["task"]["name"],
            "model": sections["model"]["name"],
            "path": str(path),
        }


def _studies() -> Iterable[Record]:
    for name, path in STUDIES.paths().items():
        content = STUDIES.read(name)
        summary, recipe = content["question"], content.get("recipe")
        yield {"name": name, "summary": summary, "recipe": recipe, "path": str(path)}


def _datasets() -> Iterable[Record]:
    return _classes(DATASETS, "data", "task")


def _plugins() -> Iterable[Record]:
    """The plug-ins of this process, and the entry points of installed packages, which are not imported."""
    for registry in (MECHANISM_REGISTRY, MODEL_REGISTRY, TASK_REGISTRY, METRIC_REGISTRY):
        of_kind: dict[str, tuple[str, str]] = {
            name: (
                point.value,
                f"entry point of {point.dist.name}" if point.dist else "entry point",
            )
            for name, point in registry.entry_points().items()
        }
        for name, plugin in registry.plugins.items():
            of_kind[name] = (plugin.target, "loaded")
        for name, (target, state) in of_kind.items():
            yield {"name": name, "summary": f"{registry.what}, {state}", "target": target}


KINDS: dict[str, Callable[[], Iterable[Record]]] = {
    "mechanisms": _mechanisms,
    "pooling": _pooling,
    "positions": _positions,
    "models": _models,
    "tasks": _tasks,
    "metrics": _metrics,
    "recipes": _recipes,
    "studies": _studies,
    "datasets": _datasets,
    "plugins": _plugins,
}


def first_sentence(path: Path) -> str:
    """What a config is for: the first sentence of the comment at its top."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return SENTENCE_END.split(DEFAULT_OF.sub("", " ".join(lines)), maxsplit=1)[0]
