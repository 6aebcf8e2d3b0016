"""`regard look`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard import api
from regard.cli.options import Device, Plugins, Threads, echo, echo_json, keywords, log
from regard.core.atomic_write import validate_writable
from regard.core.device import resolve_device
from regard.core.errors import RegardError

Names = list[str] | None


def run_look(
    arguments: Annotated[list[str], typer.Argument(metavar="RUN [RUN] INPUT")],
    *,
    item: Annotated[
        int | None, "Instead of INPUT: the number, from 1, of an item of the test split."
    ] = None,
    method: Annotated[
        Names, "NAME[,NAME]", "Such as weights or value_zeroing. Default: all that fit into a page."
    ] = None,
    head: Annotated[
        Names, "LAYER.HEAD", "Such as cross/0.1: keep all entries of a long map, or draw it."
    ] = None,
    target: Annotated[str | None, "LABEL", "Explain this label or output instead."] = None,
    tokens: Annotated[int | None, "Language model: maximum number of new tokens."] = None,
    out: Annotated[Path | None, "FILE.html", "The page. Default: look.html."] = None,
    svg: Annotated[Path | None, "FILE", "Draw a view as SVG."] = None,
    png: Annotated[Path | None, "FILE", "Draw a view as PNG."] = None,
    view: Annotated[
        str | None,
        "With --svg or --png: heads, map, heat, row, arcs, tree, alignment or curves. Default: by input.",
    ] = None,
    query: Annotated[int | None, "With --view row: the number of the row, from 1."] = None,
    width: Annotated[str | None, "Width in print of --svg or --png, such as 85mm or 3.5in."] = None,
    validation_file: Annotated[
        Path | None, "FILE", "Inputs to measure faithfulness on, for a model without a run."
    ] = None,
    device: Device = None,
    threads: Threads = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, "Print the record as JSON."] = False,
) -> None:
    """Show what a model attends to on one input: a text, a sound or an image.

    RUN is the folder of a run, or a pretrained model: hf:FOLDER, minilm or smollm2. Two of them are shown
    side by side, with their difference. The page works offline.
    """
    given: dict[str, Any] = keywords(locals())
    from regard.api.looking import DEFAULT_PAGE, looked_at

    page = out if as_json or svg or png else out or DEFAULT_PAGE
    files = {"svg": svg, "png": png, "out": page}
    for option, path in files.items():
        suffix = SUFFIXES[option]
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            raise RegardError(f"--{option} {path}: the name of this file ends in {suffix}.")
        validate_writable(path)
    of_figure: dict[str, Any] = {
        name: given[name] for name in ("view", "query", "width") if name in given
    }
    if of_figure and not (svg or png):
        name, chosen = next(iter(of_figure.items()))
        raise RegardError(f"--{name} {chosen}: it is for figures. Add --svg FILE or --png FILE.")
    if device is not None:
        resolve_device(device)
    runs, value = looked_at(arguments, item=item)
    options = {name: given[name] for name in SHARED if name in given}
    shown = api.look(
        runs,
        value,
        method=method,
        head=head or (),
        # Other figures do not show it.
        faithfulness=bool(page or as_json or view == "curves"),
        log=log,
        **options,
    )
    of_figure["method"] = method[0].split(",")[0] if method else None
    of_figure["head"] = head[0] if head else None
    for option, path in files.items():
        if path is not None:
            shown.save(path, **({} if option == "out" else of_figure))
            log(f"wrote {path}")
    if as_json:
        echo_json(shown.as_json())
        return
    for record in shown.records:
        echo(f"{record.model}: {record.prediction}" if len(runs) > 1 else record.prediction)


SUFFIXES = {"svg": ".svg", "png": ".png", "out": ".html"}
SHARED = (
    *("item", "target", "tokens", "validation_file"),
    *("device", "threads", "plugin"),
)
