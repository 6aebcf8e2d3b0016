"""`look`: what a model attends to on one input, as a page, as figures and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import escape
from torch import nn

from regard.api.options import (
    File,
    Log,
    Plugins,
    compute_on,
    load_plugins,
    silent,
    validate_utf8,
)
from regard.core.atomic_write import atomic_write
from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.formatting import integer_text
from regard.core.records.look import LookRecord
from regard.explain.look import LookSource, look as look_at
from regard.explain.model_source import ModelSource, Names
from regard.explain.run_source import RunSource
from regard.explain.trace import Intervention
from regard.integrations.pretrained import PretrainedModel, load_pretrained, names_pretrained
from regard.integrations.pretrained_source import PretrainedSource
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun, load
from regard.tasks import task_class

if TYPE_CHECKING:
    from regard.views.charts.look_maps import Choice

Looked = File | TrainedRun | nn.Module | PretrainedModel | LookSource
DEFAULT_PAGE = Path("look.html")
MAX_MODELS = 2
FRAME_HEIGHT = 820  # of the page in a notebook, in pixels


@dataclass(frozen=True, eq=False)
class LookView:
    """What one or two models attend to; a notebook shows it as the page.

    records    one per model
    """

    records: tuple[LookRecord, ...]

    @property
    def record(self) -> LookRecord:
        """The record of the first model."""
        return self.records[0]

    def page(self) -> str:
        """The page as self-contained HTML."""
        from regard.views.pages.look import look_page

        return look_page(self.records)

    def save(
        self,
        path: File,
        *,
        view: str | None = None,
        method: str | None = None,
        head: str | None = None,
        query: int | None = None,
        width: str | None = None,
    ) -> None:
        """Write the page to a .html file, or a view to an .svg or .png file.

        head     "LAYER.HEAD", such as "cross/0.1", or only a layer
        query    the number of the row, from 1, of the view "row"
        width    in print, such as "85mm" or "3.5in"
        """
        from regard.views.charts.figure_file import PaperWidth
        from regard.views.charts.look import draw_look

        file = Path(path)
        if file.suffix.lower() == ".html":
            atomic_write(file, self.page().encode())
            return
        draw_look(
            self.records,
            path=file,
            view=view,
            choice=_choice(self.record, method=method, head=head, query=query),
            width=None if width is None else PaperWidth.parse(width),
        )

    def as_json(self) -> str:
        """The record as JSON, or a list of two."""
        if len(self.records) == 1:
            return self.record.as_json()
        return f"[{', '.join(record.as_json() for record in self.records)}]"

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{FRAME_HEIGHT}px;border:0"
        # In a frame of its own, the page cannot reach the notebook.
        return (
            f'<iframe style="{style}" sandbox="allow-scripts" title="regard look" '
            f'srcdoc="{escape(self.page())}"></iframe>'
        )


def _choice(
    record: LookRecord, *, method: str | None, head: str | None, query: int | None
) -> Choice:
    from regard.views.charts.look_maps import Choice

    layer, number = head, None
    if head is not None and head not in {each.layer for each in record.maps}:
        layer, _, number = head.rpartition(".")
    return Choice(method=method, layer=layer, head=number, query=query)


def _validate_inputs(sources: Sequence[LookSource]) -> None:
    """Raise an error for two runs that take inputs of different kinds."""
    kinds = {
        each.name: task_class(each.run.spec.task).input_kind
        for each in sources
        if isinstance(each, RunSource)
    }
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"'{name}' takes {kind}" for name, kind in kinds.items())
        raise RegardError(
            f"{listed}: two models are compared on one input. Look at each by itself."
        )


def look(
    run: Looked | Sequence[Looked],
    input: Any = None,
    *,
    item: int | None = None,
    method: str | Sequence[str] | None = None,
    head: str | Sequence[str] = (),
    target: str | None = None,
    tokens: int | None = None,
    interventions: Sequence[Intervention] = (),
    names: Names = (),
    explain: Callable[[Any], Any] | None = None,
    faithfulness: bool = True,
    validation_file: File | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugin: Plugins = (),
    log: Log | None = None,
) -> LookView:
    """What a model attends to on one input: a text, a file of sound or an image, an array.

    run               the folder of a run, a loaded one, a pretrained model ("hf:FOLDER", "minilm",
                      "smollm2") or a module in Python; two of them are compared on the same input
    input             for a module its arguments, as a tensor, a tuple or a dict
    item              instead of an input: the number, from 1, of an item of the run's test split
    method            one or several, such as "value_zeroing"; by default all that fit into a page
    head              one or several "LAYER.HEAD": heads whose maps keep all entries of a long input
    target            another label, or output, to explain instead of the predicted one
    tokens            maximum number of new tokens of a language model
    interventions     changes of the attention, such as `ZeroHead("encoder/0", 2)`
    names, explain    of a module: the names of the positions, and from its output to what is explained
    faithfulness      whether to measure how faithful the methods are, once per run, if it is not known
    validation_file   inputs to measure faithfulness on, for a model without a run
    """
    load_plugins(plugin)
    chosen: list[Any] = list(run) if isinstance(run, list | tuple) else [run]
    if not 1 <= len(chosen) <= MAX_MODELS:
        raise RegardError(f"{len(chosen)} models: give one, or two to compare.")
    if (input is None) == (item is None):
        raise RegardError(
            "Give one of two: an input, or --item with the number of an item of the test split."
        )
    if isinstance(input, str):
        validate_utf8(input, what="The text")
    log = log or silent
    with compute_on(device, threads):
        sources = [_source(each, names=names, explain=explain, device=device) for each in chosen]
        _validate_inputs(sources)
        reference = None
        if item is not None:
            input, reference = _item(sources[0], item)
        records: list[LookRecord] = []
        for source in sources:
            if (
                records
                and target is None
                and all(getattr(each, "writes", False) for each in sources)
            ):
                # So that both have the same tokens, and can be compared.
                target = records[0].prediction or None
            record = look_at(
                source,
                input,
                methods=_list(method),
                heads=_list(head) or (),
                target=target,
                max_tokens=tokens,
                interventions=interventions,
                with_faithfulness=faithfulness,
                validation_file=None if validation_file is None else str(validation_file),
                log=log,
            )
            records.append(replace(record, reference=reference))
    for record in records:
        for note in record.notes:
            log(note)
    return LookView(tuple(records))


def _list(values: str | Sequence[str] | None) -> list[str] | None:
    """Names, also of texts with commas between them."""
    if values is None:
        return None
    given = [values] if isinstance(values, str) else values
    return [name.strip() for each in given for name in each.split(",") if name.strip()]


def _source(
    given: Looked, *, names: Names, explain: Callable[[Any], Any] | None, device: str | None
) -> LookSource:
    """What is looked at."""
    if isinstance(given, nn.Module):
        return ModelSource(given, names=names, explain=explain)
    if names or explain:
        raise RegardError(
            "names and explain are those of a module in Python; a run has its own. Remove them."
        )
    if isinstance(given, TrainedRun):
        return RunSource(given)
    if isinstance(given, str) and names_pretrained(given):
        pretrained = load_pretrained(given)
        pretrained.model.to(resolve_device(device or "cpu"))
        return PretrainedSource(pretrained)
    if isinstance(given, PretrainedModel):
        return PretrainedSource(given)
    if isinstance(given, str | PathLike):
        return RunSource(load(given, device=device or "cpu"), name=str(given))
    return given


def _item(source: LookSource, number: int) -> tuple[Any, str]:
    if not isinstance(source, RunSource):
        raise RegardError(
            f"--item {number}: {source.name} is no run, so it has no test split. Give an input."
        )
    return source.run.item(number)


def looked_at(arguments: Sequence[str], *, item: int | None = None) -> tuple[list[str], str | None]:
    """The models and the input of the command line: RUN INPUT, or RUN RUN INPUT; no input with an item."""
    example = 'For example: regard look runs/quick "attention"'
    given = list(arguments)
    value = None if item is not None or not given else given.pop()
    if not given:
        missing = f"and an input: regard look {value} …" if value and _is_model(value) else "."
        raise RegardError(f"Give the folder of a run {missing} {example}")
    for each in given:
        if item is not None and given.index(each) and not _is_model(each):
            raise RegardError(
                f"'{each}' is no run folder and no pretrained model. The input is "
                f"that of --item {item}: remove '{each}', or --item."
            )
        if not _is_model(each):
            quoted = " ".join([*given[given.index(each) :], *([value] if value else [])])
            raise RegardError(
                f"'{each}' is no run folder and no pretrained model. A text of several words is one "
                f'argument: regard look {given[0]} "{quoted}". {example}'
                if given.index(each)
                else f"'{each}' is no run folder and no pretrained model. Give the folder printed by "
                f"`regard train`, such as runs/pronounce-1. {example}"
            )
    if len(given) > MAX_MODELS:
        raise RegardError(
            f"{integer_text(len(given))} models are given: one is shown, or two side by side. Remove some."
        )
    return given, value


def _is_model(argument: str) -> bool:
    return names_pretrained(argument) or RunFolder(Path(argument)).spec.is_file()
