"""`train` and `predict`, and their results as text."""

from __future__ import annotations

import json as json_format
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from regard.api.options import (
    File,
    Log,
    Plugins,
    RunOptions,
    given_options,
    load_plugins,
    optional_path,
    run_spec,
    silent,
    takes_run_options,
    torch_threads,
    validate_seed,
    validate_utf8,
)
from regard.core.atomic_write import open_atomic, validate_writable
from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.formatting import counted, duration_text, integer_text, score_text
from regard.core.malloc import keep_freed_memory
from regard.core.records.document import DeletionRecord
from regard.data.readers.text_file import RowErrors, TextFile
from regard.data.tokenizers.vocabulary import UnknownTokens
from regard.explain.text_classifier import (
    TruncationCounter,
)
from regard.models.generation.sampling import validate_sampling
from regard.runs.folder import RunFolder
from regard.runs.load import PREDICT_BATCH, EvaluationReport, Example, TrainedRun, load
from regard.runs.plugins import registered_plugins
from regard.runs.train import begin_run, read_spec, resume_run
from regard.tasks import task_class
from regard.tasks.metrics.classification import Calibration, ConfusionMatrix, ReliabilityBin
from regard.training.callbacks import Callback, TensorBoard, score_name
from regard.views.charts.deletion import deletion_sentence, deletion_verdict


@takes_run_options
def train(
    task: str | None = None,
    *,
    init_from: File | None = None,
    seed: int | None = None,
    out: File | None = None,
    resume: File | None = None,
    extend: int | None = None,
    plugin: Plugins = (),
    tensorboard: bool = False,
    callbacks: Sequence[Callback] = (),
    log: Log | None = None,
    **options: Unpack[RunOptions],
) -> TrainedRun | None:
    """Train a model, or resume a run; returns None if interrupted (Ctrl-C), after saving a checkpoint.

    `extend` trains the finished run of `resume` for as many more steps. `callbacks` see every step,
    evaluation and checkpoint, `log` receives a line about each stage.
    """
    given, log = given_options(options), log or silent
    load_plugins(plugin)
    keep_freed_memory()
    if extend is not None and resume is None:
        raise RegardError(f"--extend {extend}: name the run to extend: --resume RUN.")
    if resume is None:
        spec = run_spec(task, given, seed=seed, init_from=init_from)
        folder = RunFolder.next_free(spec.task) if out is None else RunFolder(Path(out))
    else:
        others = {"init_from": init_from, "seed": seed, "out": out, **given}
        names = [
            *([] if task is None else ["TASK"]),
            *(f"--{name.replace('_', '-')}" for name in others if others[name] is not None),
        ]
        if names:
            raise RegardError(
                f"--resume {resume} continues the run with the settings of its spec.json. Remove "
                f"{', '.join(names)}, or start a new run without --resume."
            )
        folder = RunFolder.existing(Path(resume))
        spec = read_spec(folder)
    observers = [*callbacks, *([TensorBoard(folder.tensorboard)] if tensorboard else [])]
    with torch_threads(spec.threads):
        if resume is None:
            record = begin_run(spec, folder, callbacks=observers, log=log)
        else:
            record = resume_run(folder, extend=extend, callbacks=observers, log=log)
    if record is None:
        plugins = "".join(f" --plugin {one.target}" for _, one in registered_plugins())
        log(f"stopped and saved; resume with: regard train --resume {folder.path}{plugins}")
        return None
    return load(folder.path)


# For `file`, if the task has no limit of its own.
MAX_LINE_BYTES = 100_000


def predict(
    run: File | TrainedRun,
    texts: str | Iterable[str] | None = None,
    *,
    file: File | None = None,
    out: File | None = None,
    score: File | None = None,
    format: str | None = None,  # noqa: A002
    source_column: str | int | None = None,
    target_column: str | int | None = None,
    header: bool = False,
    skip_bad_rows: bool = False,
    max_line_bytes: int | None = None,
    examples: int = 0,
    seed: int = 0,
    beam: int | None = None,
    length_penalty: float | None = None,
    tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugin: Plugins = (),
    json: bool = False,
    log: Log | None = None,
    write: Callable[[str], object] | None = None,
    progress: Callable[[int, int | None], None] = lambda *_: None,
) -> list[Any] | EvaluationReport:
    """Predictions for texts or for the lines of a file, in order, or the evaluation on the file `score`.

    The output of a language model is the text with its continuation. Output lines, JSON if `json`, go to
    the file `out`, or else to `write` piece by piece while they are made. `log` receives caveats, such as
    skipped rows or unknown words, `progress` how many texts are done, and of how many if that is known.
    """
    log, texts = log or silent, [texts] if isinstance(texts, str) else list(texts or ())
    name = run.folder.path if isinstance(run, TrainedRun) else run
    if sum((bool(texts), file is not None, score is not None)) != 1:
        raise RegardError(
            "Give one of three: texts, --file with one text per line, or --score with references. "
            f'For example: regard predict {name} "some text"'
        )
    columns = {"source_column": source_column, "target_column": target_column}
    file_options = given_options({"format": format, **columns, "header": header})
    if score is None and (file_options or skip_bad_rows):
        raise RegardError(
            "--format, --source-column, --target-column, --header and --skip-bad-rows need --score. "
            "Remove them, or evaluate on a file."
        )
    if max_line_bytes is not None:
        if max_line_bytes < 1 or (file is None and score is None):
            raise RegardError(
                f"--max-line-bytes {max_line_bytes}: the maximum length of a line is 1 or more, and needs "
                "--file or --score."
            )
        file_options["max_line_bytes"] = max_line_bytes
    if examples < 0 or (examples and score is None):
        raise RegardError(
            f"--examples {examples}: the number of examples is 0 or more, and needs --score."
        )
    seed = validate_seed(seed)
    for text in texts:
        validate_utf8(text, what="The text")
    target = optional_path(out)
    if target is not None:
        validate_writable(target)
    load_plugins(plugin)
    trained = run if isinstance(run, TrainedRun) else load(run, device=device or "cpu")
    if device is not None:
        trained.model.to(resolve_device(device))
    trained_on = f"The run '{name}' was trained on the task '{trained.spec.task}'. Remove them."
    if (beam is not None or length_penalty is not None) and not trained.is_seq2seq:
        raise RegardError(
            f"--beam and --length-penalty are for sequence-to-sequence models. {trained_on}"
        )
    decode_kwargs: dict[str, Any] = {"beam_size": beam, "length_penalty": length_penalty}
    sampling = given_options(
        {"max_tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    )
    if sampling and (score is not None or not trained.is_generative):
        raise RegardError(
            "--tokens, --temperature, --top-k and --top-p are for text generation with a language model. "
            f"{trained_on}"
        )
    _validate_sampling(**sampling)
    if not trained.folder.record.is_file():
        log(_unfinished_note(trained))
    count = _default_threads(trained) if threads is None else threads
    with _writer(target, write) as emit, torch_threads(count):
        if score is not None:
            errors = RowErrors(skip=skip_bad_rows)
            report = trained.evaluate(
                score, errors=errors, progress=progress, **file_options, **decode_kwargs
            )
            for note in (*([errors.summary()] if errors.count else []), *report.notes):
                log(note)
            log(f"scored {counted(len(report.predictions), 'item')}")
            for line in score_lines(report, report.examples(examples, seed=seed), json=json):
                emit(f"{line}\n")
            return report
        own_limit = getattr(trained.spec.task_options, "max_line_bytes", MAX_LINE_BYTES)
        limit = own_limit if max_line_bytes is None else max_line_bytes
        inputs = iter(texts or _read_lines(file, max_line_bytes=limit))
        truncation, unknown = TruncationCounter(trained), UnknownTokens(trained.preprocessor.input)
        outputs: list[Any] = []
        while block := list(islice(inputs, PREDICT_BATCH)):
            truncation.add(block)
            unknown.add(block)
            if trained.is_generative:
                for text in block:
                    chunks = trained.generate(text, seed=seed, **sampling)
                    outputs.append(_emit_generated(text.strip(), chunks, emit, json=json))
                    progress(len(outputs), len(texts) or None)
            else:
                for output in trained.predict_each(block, **decode_kwargs):
                    outputs.append(output)
                    emit(f"{_output_line(output, json=json)}\n")
                progress(len(outputs), len(texts) or None)
    for note in filter(None, (truncation.summary(), unknown.describe())):
        log(note)
    return outputs


def _validate_sampling(max_tokens: int = 1, temperature: float = 1.0, **more: Any) -> None:
    """Raise if an option of generation is invalid, under its name on the command line."""
    options = {"top_k": None, "top_p": None, **more}
    try:
        validate_sampling(max_tokens=max_tokens, temperature=temperature, **options)
    except RegardError as error:
        option, _, rest = str(error).partition("=")
        flag = option.removeprefix("max_").replace("_", "-")
        raise RegardError(f"--{flag} {rest}") from error


def _unfinished_note(trained: TrainedRun) -> str:
    steps, rows = trained.spec.training.steps, trained.metrics
    step = f"step {integer_text(rows[-1]['step'])}" if rows else "no step"
    of = f" of {integer_text(steps)}" if steps else ""
    return f"the run is not finished: {step}{of}; its best checkpoint so far is used"


# A language model of fewer parameters generates faster, and with less CPU time, on one thread.
SMALL_MODEL = 20_000_000


def _default_threads(trained: TrainedRun) -> int | None:
    """One thread to generate a text with a small model, token by token; else all cores."""
    parameters = sum(each.numel() for each in trained.model.parameters())
    return 1 if trained.is_generative and parameters < SMALL_MODEL else None


def _emit_generated(
    text: str, chunks: Iterable[str], emit: Callable[[str], object], *, json: bool
) -> str:
    """Write a text and its continuation, as a line, while it is generated; returns both together."""
    if json:
        continuation = "".join(chunks)
        record = {"text": text, "continuation": continuation}
        emit(f"{json_format.dumps(record, ensure_ascii=False)}\n")
        return text + continuation
    whole = ""
    for chunk in chain([text], chunks):
        whole += chunk
        emit(chunk.replace("\n", " "))
    emit("\n")
    return whole


@contextmanager
def _writer(
    out: Path | None, write: Callable[[str], object] | None
) -> Iterator[Callable[[str], object]]:
    """Write to a file, atomically, or with `write`."""
    if out is None:
        yield write or silent
        return
    with open_atomic(out) as target:
        yield lambda piece: target.write(piece.encode())


def _read_lines(file: File | None, *, max_line_bytes: int) -> Iterator[str]:
    """The lines of a file or of standard input, one at a time."""
    if file is None or str(file) == "-":
        for number, raw in enumerate(sys.stdin.buffer, start=1):
            try:
                yield raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise RegardError(
                    f"Line {number} of the input is not UTF-8. Convert the input."
                ) from error
        return
    errors = RowErrors(skip=True)
    for line in TextFile(path=Path(file), max_line_bytes=max_line_bytes).lines(errors=errors):
        if line.text is None:
            reason = errors.rows[0].reason
            way_out = ", or raise --max-line-bytes" if reason.startswith("line too long") else ""
            raise RegardError(
                f"{errors.rows[0]}. Every line gets an output, so fix the line{way_out}."
            )
        yield line.text


def _output_line(output: Any, *, json: bool) -> str:
    if json:
        return json_format.dumps({"output": output}, ensure_ascii=False)
    shown = f"{output:.6g}" if isinstance(output, float) else str(output)
    return shown.replace("\n", " ")  # one line per output


def score_lines(
    report: EvaluationReport, examples: Sequence[Example] = (), *, json: bool = False
) -> Iterator[str]:
    """The scores of an evaluation, with details and examples."""
    if json:
        # NaN is not valid JSON.
        scores = {
            name: value if math.isfinite(value) else None for name, value in report.scores.items()
        }
        record: dict[str, Any] = {**scores, "signatures": report.signatures}
        if report.details:
            record["details"] = report.details
        if examples:
            record["examples"] = [example._asdict() for example in examples]
        yield json_format.dumps(record, ensure_ascii=False)
        return
    values = ["-" if math.isnan(value) else f"{value:.4f}" for value in report.scores.values()]
    widths = [max(map(len, column)) for column in (report.scores, values)]
    for name, value in zip(report.scores, values, strict=True):
        unit = "" if value == "-" else report.units.get(name, "")
        signature = report.signatures.get(name, "")
        shown = f"{name:>{widths[0]}}  {value:>{widths[1]}} {unit}".rstrip()
        yield f"{shown}  {signature}".rstrip()
    yield from _details_lines(report.details)
    for example in examples:
        yield ""
        yield f"     input  {example.input}"
        yield f"prediction  {example.prediction}"
        references = example.references
        shown = " | ".join(references) if isinstance(references, tuple) else str(references)
        yield f" reference  {shown}"


def _details_lines(details: dict[str, Any]) -> Iterator[str]:
    """Confusion matrix, calibration and deletion test of a classifier, alignment of joined recordings."""
    if found := details.get("confusion"):
        counts = np.array(found["counts"], dtype=np.int64)
        yield ""
        yield ConfusionMatrix(labels=tuple(found["labels"]), counts=counts).table()
    if found := details.get("calibration"):
        bins = tuple(ReliabilityBin(**each) for each in found["bins"])
        yield ""
        yield f"calibration: {Calibration(**{**found, 'bins': bins}).describe()}"
    if found := details.get("deletion"):
        record = DeletionRecord.from_dict(found)
        yield ""
        yield f"deletion: {deletion_sentence(record)} {deletion_verdict(record)}"
    if found := details.get("alignment"):
        accuracy, chance = (score_text(found[name], decimals=1) for name in ("accuracy", "chance"))
        yield ""
        yield (
            f"alignment: {accuracy} % of the characters have the peak of {found['head']} within their "
            f"word (chance {chance} %)"
        )


def predict_command(run: TrainedRun) -> str:
    """The command that uses a trained run, with the plug-ins that it needs."""
    kind = task_class(run.spec.task).input_kind
    used = run.record["spec"].get("plugins", {}).values()
    plugins = "".join(f" --plugin {record['target']}" for record in used)
    file = run.spec.task_options.train_file
    is_folder = file is not None and Path(file).is_dir()
    files = {"frames": "clip.wav", "images": "image.png"}
    given = '"some text"' if kind == "tokens" else files[kind] if is_folder else "--score FILE.npz"
    return f"regard predict {run.folder.path} {given}{plugins}"


def run_lines(run: TrainedRun) -> Iterator[str]:
    """The outcome and the scores of a finished run."""
    record, kind, threads = run.record, task_class(run.spec.task), run.record["threads"]
    units = {each.name: each.unit for each in kind.all_metrics(run.spec.task_options)}

    def line(scores: dict[str, float], split: str) -> str:
        return "  ".join(
            f"{score_name(name, split)} {value:.4g} {units.get(name, '')}".rstrip()
            for name, value in scores.items()
        )

    for name, outcome in (("pre-training: ", record.get("pretraining")), ("", record["outcome"])):
        if outcome is not None:
            yield (
                f"{name}{counted(outcome['steps'], 'step')}, {counted(outcome['tokens'], 'token')}, "
                f"{duration_text(outcome['seconds'])} on {counted(threads, 'thread')}"
            )
    if record["data"].get("validation_is_train"):
        yield "no validation split: these are scores on training texts"
    for split, scores in record["scores"].items():
        yield f"{split:>10}  {line(scores, split)}"
        for name, found in record["baselines"].get(split, {}).items():
            yield f"            {name}: {line(found['scores'], split)}  ({duration_text(found['seconds'])})"
    if details := record.get("details"):
        split = next(reversed(details))  # the test split, if there is one
        yield f"\n{split} split"
        yield from _details_lines(details[split])
        yield ""
