"""The `regard` command: looks up a verb (sub-command), imports its module and runs it.

The function `run_VERB` takes the options of a verb, calls the function of `regard.api` that has the same
name and keywords, and prints the result; Typer takes the options from its signature and the help from its
docstring. To add a verb, write both and add it to `VERBS`. Other modules are not imported, so
`regard --help` needs neither Typer nor torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from regard import __version__
from regard.core.errors import RegardError, printable_lines
from regard.core.registry import lookup


class Verb(NamedTuple):
    """Module of a verb, and its help and example in `regard --help`."""

    module: str
    help: str
    example: str


VERBS: dict[str, Verb] = {
    "study": Verb(
        module="regard.cli.studies",
        help="Compare variants under one budget over several seeds, and write a page.",
        example="regard study --recipe pronounce-quick --sweep cell=lstm,gru",
    ),
    "report": Verb(
        module="regard.cli.studies",
        help="Write the page of a run, of runs side by side, or of a study.",
        example="regard report runs/pronounce-1 runs/pronounce-2 --out report.html",
    ),
    "overview": Verb(
        module="regard.cli.mechanisms",
        help="Write a page with attention weights, costs and checks of every mechanism.",
        example='regard overview --sentence "a rose is a rose is a rose"',
    ),
    "train": Verb(
        module="regard.cli.training",
        help="Train a model on a task, or resume a run.",
        example="regard train pronounce --recipe pronounce-quick --out runs/quick",
    ),
    "plan": Verb(
        module="regard.cli.training",
        help="Predict time and memory of a training run, and find models that fit a limit.",
        example="regard plan pronounce --recipe pronounce-quick --time 10min",
    ),
    "predict": Verb(
        module="regard.cli.training",
        help="Predict with a trained model, or evaluate it on a file.",
        example='regard predict runs/quick "attention"',
    ),
    "look": Verb(
        module="regard.cli.look",
        help="Show what a model attends to on a text, a sound or an image, as a page or a figure.",
        example='regard look runs/quick "attention" --svg attention.svg',
    ),
    "serve": Verb(
        module="regard.cli.serve",
        help="Serve trained runs on this machine: a live page and a small API.",
        example="regard serve runs/quick runs/other",
    ),
    "data": Verb(
        module="regard.cli.training",
        help="Describe a data file: rows, columns, lengths, vocabulary, class balance, malformed rows.",
        example="regard data describe my.csv --target label",
    ),
    "check": Verb(
        module="regard.cli.mechanisms",
        help="Run the conformance suite on a mechanism, built-in or your own.",
        example="regard check my_attention.py:MyAttention --seed 1",
    ),
    "cost": Verb(
        module="regard.cli.mechanisms",
        help="Compare mechanisms on one shape: FLOPs, memory, time, crossover lengths.",
        example="regard cost --length 2048 --heads 4 --head-dim 32 --causal",
    ),
    "claims": Verb(
        module="regard.cli.claims",
        help="Test claims about attention: which hold, which fail, and why.",
        example="regard claims show shifting-is-one-linear-map --set model_dim=64",
    ),
    "list": Verb(
        module="regard.cli.mechanisms",
        help="List mechanisms, models, tasks, metrics, recipes, studies, datasets and plug-ins.",
        example="regard list models --json",
    ),
}


def help_text() -> str:
    """The output of `regard --help`."""
    width = max(len(name) for name in VERBS)
    lines = [
        "Usage: regard VERB [OPTIONS]",
        "",
        "Build, train, compare, inspect and cost attention mechanisms.",
        "",
        "Verbs:",
        *(f"  {name:<{width}}  {verb.help}" for name, verb in VERBS.items()),
        "",
        "`regard VERB --help` shows the options of a verb, with an example.",
        "`regard --version` shows the version.",
    ]
    return "\n".join(lines)


def verb_function(name: str) -> Callable[..., None]:
    """The function of a verb: its options are the arguments."""
    from regard.cli.options import typer_command

    return typer_command(getattr(import_module(VERBS[name].module), f"run_{name}"))


def run_verb(name: str, arguments: Sequence[str]) -> None:
    """Run one verb; raises SystemExit if its exit code is not 0, and RegardError on invalid options."""
    verb = lookup("verb", name, VERBS)
    import typer

    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # rich would double the start-up time of every verb
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(name=name, epilog=f"Example: {verb.example}")(verb_function(name))
    try:
        code = app(args=list(arguments), prog_name=f"regard {name}", standalone_mode=False)
    except Exception as error:
        # Only Typer's usage errors have this method; their module depends on its version.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        message = " ".join(format_message().split()).removesuffix(".")
        raise RegardError(f"{message}. `regard {name} --help` shows the options.") from error
    if code:
        sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    """The `regard` command. Exit codes: 0 success, 2 usage error, 130 interrupted."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not argv or argv[0] in {"--help", "-h"}:
            print(help_text())
        elif argv[0] == "--version":
            print(f"regard {__version__}")
        else:
            run_verb(argv[0], argv[1:])
    except RegardError as error:
        print(f"error: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
