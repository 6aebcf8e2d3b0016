"""The defaults that options were introduced with: `python -m tests.factories.introduced` adds new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.core import options as module
from regard.core.options import Options, options_of
from regard.models import DATA_ARGUMENTS, MODELS, model_class
from regard.tasks import TASKS, task_class
from regard.training.options import TrainingOptions

FILE = Path(module.__file__).with_name("introduced_defaults.json")


def option_classes() -> dict[str, type[Options]]:
    """The options of training, of every task and of every model, by the class that has them."""
    kinds: list[Any] = [TrainingOptions, *(task_class(name).options_class for name in TASKS)]
    found: dict[str, type[Options]] = {kind.__name__: kind for kind in kinds}
    for name in MODELS:
        kind: Any = model_class(name)
        found[kind.__name__] = options_of(kind, section="model", reserved=DATA_ARGUMENTS)
    return found


if __name__ == "__main__":
    recorded: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    for owner, kind in sorted(option_classes().items()):
        recorded[owner] = {**kind.introduced(), **recorded.get(owner, {})}
    text = json.dumps(recorded, indent=1, sort_keys=True, ensure_ascii=False)
    FILE.write_text(f"{text}\n", encoding="utf-8")
