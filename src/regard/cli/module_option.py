"""The options `--module` and `--input` of `regard cost`: cost of a user's nn.Module."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import RegardError
from regard.core.records.cost import KindRow, ModuleReport

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.costs.calibration import Calibration

    Built = tuple[nn.Module, list[Any]]


INPUT = re.compile(r"(?:int(?P<high>[1-9]\d*):)?(?P<shape>[1-9]\d*(?:x[1-9]\d*)*)")


def estimate_module(
    target: str, *, inputs: list[str], calibrate: Callable[[], Calibration | None]
) -> ModuleReport:
    """Estimate the module that FILE.py:FUNCTION returns. `calibrate` is called once the module has run."""
    from collections import Counter

    from regard.costs.predict import predict
    from regard.costs.workloads import trace_module

    build = _builder(target, inputs)
    name = target.rpartition(":")[2]
    shapes: list[str] = []
    parameters = 0

    def build_and_describe() -> Built:
        nonlocal parameters
        module, values = build()
        shapes[:] = [_shape(each) for each in values]
        parameters = sum(each.numel() for each in module.parameters() if each.requires_grad)
        return module, values

    try:
        forward = trace_module(name, "forward", build_and_describe)
        training = trace_module(name, "train", build_and_describe)
    except RegardError:
        raise
    except Exception as error:
        raise _failure(target, "cannot run on these inputs", error) from error
    calibration = calibrate()
    predicted = None if calibration is None else predict(forward, calibration)
    training_seconds = None if calibration is None else predict(training, calibration).seconds
    calls: Counter[str] = Counter()
    for call, count in forward.calls.items():
        calls[call.kind] += count
    has_backward = training.num_calls > forward.num_calls
    kinds = [
        KindRow(
            kind=kind,
            calls=count,
            seconds=None if predicted is None else predicted.by_kind.get(kind, 0.0),
        )
        for kind, count in calls.items()
    ]
    if predicted is not None and (overhead := predicted.by_kind.get("calls")):
        kinds.append(KindRow(kind="call overhead", calls=forward.num_calls, seconds=overhead))
    kinds.sort(key=lambda row: (-(row.seconds or 0.0), -row.calls))
    return ModuleReport(
        name=target,
        inputs=tuple(shapes),
        parameters=parameters,
        forward_flops=forward.flops,
        backward_flops=training.flops - forward.flops if has_backward else None,
        peak_bytes=forward.peak_bytes,
        training_peak_bytes=training.peak_bytes if has_backward else None,
        traffic_bytes=forward.traffic_bytes,
        calls=forward.num_calls,
        seconds=None if predicted is None else predicted.seconds,
        training_seconds=training_seconds if has_backward else None,
        kinds=tuple(kinds),
    )


def _read_input(text: str) -> Callable[[], Tensor]:
    """Parse a shape such as 2x16x64, or int100:2x16 for integers; returns a tensor factory."""
    import torch

    found = INPUT.fullmatch(text)
    if found is None:
        raise RegardError(
            f"--input {text}: use a shape such as 2x16x64, or int100:2x16 for integers below 100."
        )
    shape = [int(size) for size in found["shape"].split("x")]
    if found["high"] is not None:
        return lambda: torch.randint(int(found["high"]), shape)
    return lambda: torch.randn(shape)


def _builder(target: str, inputs: list[str]) -> Callable[[], Built]:
    """A function that calls the user's and replaces its inputs by those of the command line."""
    from torch import nn

    function = _load_function(target)
    input_factories = [_read_input(text) for text in inputs]

    def build() -> Built:
        try:
            returned = function()
        except Exception as error:
            raise _failure(target, "failed", error) from error
        module, own = returned if isinstance(returned, tuple) else (returned, None)
        if not isinstance(module, nn.Module):
            raise RegardError(
                f"'{target}' returned a {type(module).__name__}. Return an nn.Module, or (module, inputs)."
            )
        if input_factories:
            return module, [make() for make in input_factories]
        if own is None:
            raise RegardError(
                f"'{target}' returned a module without inputs. Give their shapes, such as "
                "--input 2x16x64, or return (module, inputs)."
            )
        return module, list(own) if isinstance(own, tuple | list) else [own]

    return build


def _load_function(target: str) -> Callable[[], Any]:
    from regard.conformance.subject import load_module

    path, colon, name = target.rpartition(":")
    if not (colon and path.endswith(".py") and name.isidentifier()):
        raise RegardError(f"--module {target}: use FILE.py:FUNCTION, such as model.py:build.")
    if not Path(path).is_file():
        raise RegardError(
            f"--module {target}: no file '{path}' in {Path.cwd()}. Use an existing file."
        )
    function = getattr(load_module(path), name, None)
    if not callable(function):
        problem = "has no function" if function is None else "defines no function"
        raise RegardError(f"--module {target}: '{path}' {problem} '{name}'. Name a function.")
    return function


def _failure(target: str, problem: str, error: Exception) -> RegardError:
    """The user's error, with the last line of the user's file in the traceback."""
    file = Path(target.rpartition(":")[0])
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == file.name
    ]
    where = f", line {lines[-1]} of '{file}'" if lines else ""
    message = " ".join(str(error).split())
    return RegardError(
        f"'{target}' {problem}: {type(error).__name__}: {message}{where}. Fix it there."
    )


def _shape(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else "×".join(map(str, shape)) or "1"
