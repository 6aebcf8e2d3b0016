"""`check`, `overview` and `list_mechanisms`: what every mechanism is, does and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.errors import RegardError
from regard.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from regard.api.options import File, Settings
    from regard.conformance.suite import Report
    from regard.core.mechanism import Mechanism
    from regard.core.records.overview import MechanismRecord, Overview
    from regard.mechanisms import Entry

    Target = str | type[Mechanism] | Callable[..., Mechanism]

DEFAULT_OUT = Path("build/overview.html")
STANDARD_OUTPUT = Path("-")  # a common convention, not supported


def check(
    targets: Target | Iterable[Target],
    *,
    only: Iterable[str] = (),
    set: Settings | None = None,  # noqa: A002
    seed: int = 0,
    device: str | None = None,
    threads: int | None = None,
) -> Report:
    """Run the conformance suite on mechanisms: names, FILE.py:CLASS, classes, or regard.mechanisms for all.

    A check that does not apply has the reason, a failure the worst element and the command that runs it
    again.
    """
    from regard.api.options import constructor_options, torch_threads, validate_seed
    from regard.conformance.subject import find_subjects, subject_of
    from regard.conformance.suite import Report, check_subject
    from regard.core.device import validate_cpu

    validate_cpu(device, what="the checks run on")
    seed, options = validate_seed(seed), constructor_options(set)
    chosen = [targets] if isinstance(targets, str) or callable(targets) else targets
    subjects = [
        subject
        for each in chosen
        for subject in (
            find_subjects(each, options=options)
            if isinstance(each, str)
            else [subject_of(each, options=options)]
        )
    ]
    report = Report(())
    with torch_threads(threads):
        for subject in subjects:
            report += check_subject(subject, only=list(only), seed=seed)
    return report


def overview(
    *,
    out: File | None = DEFAULT_OUT,
    only: Iterable[str] = (),
    sentence: str | None = None,
    seed: int = 0,
    device: str | None = None,
    threads: int = 1,
    json: bool = False,
    on_start: Callable[[str], None] = lambda _: None,
    on_done: Callable[[MechanismRecord], None] = lambda _: None,
) -> Overview:
    """Attention weights, costs and checks of every mechanism, written as a page, or as JSON, to `out`."""
    from regard.api.options import optional_path, torch_threads, validate_seed, validate_utf8
    from regard.conformance.overview import DEFAULT_SENTENCE, build_overview
    from regard.core.atomic_write import atomic_write, validate_writable
    from regard.core.device import validate_cpu
    from regard.views.pages.overview import overview_page

    path, seed = optional_path(out), validate_seed(seed)
    # Validate before the work starts.
    validate_cpu(device, what="costs and weights on the page are of")
    if path == STANDARD_OUTPUT:
        raise RegardError(
            f"--out {path}: standard output is not supported. Use a file, such as "
            "--out overview.html, or print JSON with --json and without --out."
        )
    if path is not None:
        validate_writable(path)
    if sentence is not None:
        validate_utf8(sentence, what="--sentence")
    with torch_threads(threads):  # 1: the tensors are tiny: more threads are slower
        found = build_overview(
            only=list(only),
            sentence=DEFAULT_SENTENCE if sentence is None else sentence,
            seed=seed,
            begin=on_start,
            done=on_done,
        )
    if path is not None:
        atomic_write(path, found.as_json() if json else overview_page(found))
    return found


def list_mechanisms() -> dict[str, Entry]:
    """Every mechanism by name: its family, summary and reference. This does not import torch."""
    return dict(MECHANISMS)
