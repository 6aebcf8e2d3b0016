"""Statements about attention that can be run, by topic, each with a verdict.

    import regard

    record = regard.claims.show("self-attention-is-permutation-equivariant", set={"causal": True})
    print(record.finding.verdict)

`run` decides all claims, or those of some topics, and `show` one, as `regard claims` does. `TOPICS` maps
each topic to its module. Listing the topics imports neither these modules nor torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import RegardError
from regard.core.exports import lazy_exports
from regard.core.registry import lookup

if TYPE_CHECKING:
    from regard.claims.engine import (
        Claim as Claim,
        claim as claim,
        run_claims as run_claims,
        run_with_settings as run_with_settings,
    )
    from regard.core.records.claim import (
        ClaimRecord as ClaimRecord,
        Curve as Curve,
        CurveFigure as CurveFigure,
        Finding as Finding,
        MatrixFigure as MatrixFigure,
        read_records as read_records,
        records_as_json as records_as_json,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["TOPICS", "all_claims", "get_claim", "list_claims", "run", "show"]

# topic → module, in the order in which topics are run and shown
TOPICS: dict[str, str] = {
    module.replace("_", " "): module
    for module in (
        "penalties",
        "layer_costs",
        "positions",
        "masking",
        "architectures",
        "kernel_features",
        "kernel_costs",
        "selection",
        "hierarchy",
        "autoencoders",
        "decoders",
        "speech",
        "images",
        "limits",
        "closed_book_qa",
    )
}


def list_claims(topic: str) -> list[Claim]:
    """The claims of one topic, in the order of its file."""
    from regard.claims.engine import Claim

    lookup("topic", topic, TOPICS)
    module = importlib.import_module(f"{__name__}.{TOPICS[topic]}")
    return [value for value in vars(module).values() if isinstance(value, Claim)]


def all_claims() -> dict[str, Claim]:
    """Every claim by its name."""
    return {claim.name: claim for topic in TOPICS for claim in list_claims(topic)}


def get_claim(name: str) -> Claim:
    """The claim with this name."""
    known = all_claims()
    lookup("claim", name, known)
    return known[name]


File = str | PathLike[str]


def run(
    *,
    topic: str | Iterable[str] = (),
    trained: bool = False,
    out: File | None = None,
    source: File | None = None,
    page: File | None = None,
    device: str | None = None,
    threads: int = 1,
    on_start: Callable[[Claim], None] = lambda _: None,
    on_done: Callable[[ClaimRecord], None] = lambda _: None,
) -> list[ClaimRecord]:
    """Run all claims, or those of some topics; those that train models (minutes) only with `trained`.

    The records are saved to `out` after every claim, and written as a page to `page`. `source` is a file
    of saved records to load instead of running. An error in one claim does not stop the others.
    """
    from regard.claims.engine import num_threads, run_claims
    from regard.core.atomic_write import atomic_write, validate_writable
    from regard.core.device import validate_cpu
    from regard.core.records.claim import read_records, records_as_json
    from regard.views.pages.claims import claim_page

    validate_cpu(device, what="claims are about counts and values on")
    if source is not None and (trained or out is not None):
        raise RegardError(
            f"--from {source} loads saved records and runs nothing: it cannot be combined with "
            "--trained or --out. Remove --from, or remove these."
        )
    if page is not None:
        _validate_page_path(Path(page), {"--out": out, "--from": source})
    for path in (out, page):
        if path is not None:
            validate_writable(Path(path))
    topics = [topic] if isinstance(topic, str) else list(dict.fromkeys(topic))
    for name in topics:
        lookup("topic", name, TOPICS)
    finished: list[ClaimRecord] = []

    def save(record: ClaimRecord) -> None:
        finished.append(record)
        on_done(record)
        if out is not None:
            # After each claim, so that an interrupted run keeps its records.
            atomic_write(Path(out), records_as_json(finished))

    if source is None:
        claims = [claim for name in topics or TOPICS for claim in list_claims(name)]
        with num_threads(threads):  # 1: tensors are small, and timings vary less
            records = run_claims(claims, trained=trained, on_start=on_start, on_done=save)
    else:
        saved = read_records(Path(source))
        records = [record for record in saved if not topics or record.topic in topics]
        if not records:
            available = ", ".join(dict.fromkeys(record.topic for record in saved))
            raise RegardError(
                f"'{source}' has no records of the topic {', '.join(topics)}. Choose from: {available}."
            )
    if page is not None:
        atomic_write(Path(page), claim_page(records))
    return records


def show(
    name: str,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    plot: File | None = None,
    device: str | None = None,
    threads: int = 1,
) -> ClaimRecord:
    """Run one claim with changed settings, and draw its figure to `plot`."""
    from regard.claims.engine import num_threads, run_with_settings
    from regard.core.atomic_write import validate_writable
    from regard.core.device import validate_cpu
    from regard.views.charts.claims import draw_claim
    from regard.views.charts.figure_file import validate_figure_suffix

    validate_cpu(device, what="claims are about counts and values on")
    if plot is not None:
        validate_figure_suffix(Path(plot))
        validate_writable(Path(plot))
    with num_threads(threads):
        record = run_with_settings(get_claim(name), **(set or {}))
    if plot is not None and record.finding is not None:
        draw_claim(record.finding.figure, path=Path(plot))
    return record


def _validate_page_path(page: Path, files: Mapping[str, File | None]) -> None:
    """Raise an error if the page would overwrite the records."""
    for option, file in files.items():
        if file is not None and _is_same(page, Path(file)):
            raise RegardError(
                f"The page '{page}' and {option} {file} are the same file: the page would overwrite the "
                "records. Choose another name for the page, such as claims.html."
            )


def _is_same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()
