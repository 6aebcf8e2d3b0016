"""`regard VERB ...`: finds the verb in a table, imports that one verb, and runs it.

A verb is a module with a function `run`, whose signature is its command line and whose docstring is
its help (Typer reads both). To add one, write its file here and add its line to `VERBS`. Nothing
is imported for the verbs that were not asked for, so `regard --help` needs neither Typer nor torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from regard import __version__
from regard.core.errors import RegardError
from regard.core.registry import look_up


class Verb(NamedTuple):
    """Where a verb lives, and what is said of it before it is imported."""

    module: str
    help: str
    example: str


VERBS: dict[str, Verb] = {
    "study": Verb(
        module="regard.cli.study",
        help="Compare variants on equal terms, over seeds, and write a page with the verdict.",
        example="regard study --recipe pronounce-quick --over cell=lstm,gru",
    ),
    "report": Verb(
        module="regard.cli.report",
        help="Compare the runs of a study anew, and draw its page again.",
        example="regard report studies/scores --out scores.html",
    ),
    "survey": Verb(
        module="regard.cli.overview",
        help="Write one page that shows every mechanism: what it reads, costs and fulfils.",
        example='regard survey --sentence "a rose is a rose is a rose"',
    ),
    "train": Verb(
        module="regard.cli.train",
        help="Train a model on a task, or go on with a run that was stopped.",
        example="regard train pronounce --recipe pronounce-quick --out runs/quick",
    ),
    "plan": Verb(
        module="regard.cli.plan",
        help="Say what a training would take here, and which models fit a time and a memory.",
        example="regard plan pronounce --recipe pronounce-quick --time 10min",
    ),
    "predict": Verb(
        module="regard.cli.predict",
        help="Use a trained model: on texts, on a file, or to score it.",
        example='regard predict runs/quick "attention" --attention attention.svg',
    ),
    "data": Verb(
        module="regard.cli.data",
        help="Describe a file of pairs: rows, lengths, vocabulary, what is wrong with it.",
        example="regard data describe my.tsv",
    ),
    "check": Verb(
        module="regard.cli.check",
        help="Hold a mechanism, ours or yours, to the contract.",
        example="regard check my_attention.py:MyAttention --seed 1",
    ),
    "cost": Verb(
        module="regard.cli.cost",
        help="Price every mechanism on a shape: operations, memory, time, where one beats another.",
        example="regard cost --length 2048 --heads 4 --head-dim 32 --causal",
    ),
    "claims": Verb(
        module="regard.cli.claims",
        help="Run statements about attention: which hold, which fail, and why.",
        example="regard claims show shifting-is-one-linear-map --set width=64",
    ),
    "list": Verb(
        module="regard.cli.list",
        help="Show every mechanism, family by family.",
        example="regard list --json",
    ),
}


def overview() -> str:
    """The text of `regard --help`, from the table alone."""
    width = max(len(name) for name in VERBS)
    lines = [
        "Usage: regard VERB [OPTIONS]",
        "",
        "Build, train, check, price and look into attention mechanisms, on evidence.",
        "",
        "Verbs:",
        *(f"  {name:<{width}}  {verb.help}" for name, verb in VERBS.items()),
        "",
        "`regard VERB --help` shows the options of a verb, with an example.",
        "`regard --version` shows the version.",
    ]
    return "\n".join(lines)


def run_verb(name: str, arguments: Sequence[str]) -> None:
    """Run one verb on its own arguments; leaves through SystemExit if its exit code is not 0.

    A mistake in an option is a RegardError, as every other mistake is.
    """
    verb = look_up("verb", name, VERBS)
    import typer

    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # rich would double the start-up time of every verb
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(name=name, epilog=f"Example: {verb.example}")(import_module(verb.module).run)
    try:
        code = app(args=list(arguments), prog_name=f"regard {name}", standalone_mode=False)
    except Exception as error:
        # Only Typer's own errors can do this; the module they come from changes with its version.
        say = getattr(error, "format_message", None)
        if say is None:
            raise
        message = " ".join(say().split()).removesuffix(".")
        raise RegardError(f"{message}. `regard {name} --help` shows the options.") from error
    if code:
        sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    """The `regard` command. Exit codes: 0 done, 2 a mistake in what was asked, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not words or words[0] in {"--help", "-h"}:
            print(overview())
        elif words[0] == "--version":
            print(f"regard {__version__}")
        else:
            run_verb(words[0], words[1:])
    except RegardError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
