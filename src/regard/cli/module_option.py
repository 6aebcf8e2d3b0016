"""The options `--module` and `--input`: any module of the user's, and what it is called with."""

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


INPUT = re.compile(r"(?:int(?P<below>[1-9]\d*):)?(?P<shape>[1-9]\d*(?:x[1-9]\d*)*)")


def priced_module(
    target: str, *, inputs: list[str], calibrated: Callable[[], Calibration | None]
) -> ModuleReport:
    """What the module that FILE.py:FUNCTION returns takes on its inputs.

    The machine is `calibrated` last, once the module is known to run.
    """
    from collections import Counter

    from regard.costs.predict import predict
    from regard.costs.workloads import traced_module

    build = _builder(target, inputs)
    name = target.rpartition(":")[2]
    sizes: list[str] = []
    parameters = 0

    def noted() -> Built:
        nonlocal parameters
        module, given = build()
        sizes[:] = [_size(each) for each in given]
        parameters = sum(each.numel() for each in module.parameters() if each.requires_grad)
        return module, given

    try:
        forward = traced_module(name, "forward", noted)
        trains = traced_module(name, "train", noted)
    except RegardError:
        raise
    except Exception as error:
        raise _failure(target, "cannot be run on these inputs", error) from error
    calibration = calibrated()
    predicted = None if calibration is None else predict(forward, calibration)
    trained = None if calibration is None else predict(trains, calibration).seconds
    calls: Counter[str] = Counter()
    for call, times in forward.calls.items():
        calls[call.kind] += times
    has_backward = trains.num_calls > forward.num_calls
    kinds = [
        KindRow(
            kind=kind,
            calls=times,
            seconds=None if predicted is None else predicted.by_kind.get(kind, 0.0),
        )
        for kind, times in calls.items()
    ]
    if predicted is not None and (beside := predicted.by_kind.get("calls")):
        kinds.append(KindRow(kind="calling them", calls=forward.num_calls, seconds=beside))
    kinds.sort(key=lambda row: (-(row.seconds or 0.0), -row.calls))
    return ModuleReport(
        name=target,
        inputs=tuple(sizes),
        parameters=parameters,
        forward_operations=forward.operations,
        backward_operations=trains.operations - forward.operations if has_backward else None,
        peak_bytes=forward.peak_bytes,
        training_peak_bytes=trains.peak_bytes if has_backward else None,
        moved_bytes=forward.moved_bytes,
        calls=forward.num_calls,
        seconds=None if predicted is None else predicted.seconds,
        training_seconds=trained if has_backward else None,
        kinds=tuple(kinds),
    )


def _read_input(text: str) -> Callable[[], Tensor]:
    """What makes the tensor that a text such as 2x16x64 or int100:2x16 asks for."""
    import torch

    found = INPUT.fullmatch(text)
    if found is None:
        raise RegardError(
            f"--input {text}: an input is a shape such as 2x16x64, or int100:2x16 for whole numbers "
            "below 100. Write it so."
        )
    shape = [int(size) for size in found["shape"].split("x")]
    if found["below"] is not None:
        return lambda: torch.randint(int(found["below"]), shape)
    return lambda: torch.randn(shape)


def _builder(target: str, inputs: list[str]) -> Callable[[], Built]:
    """What calls the user's function, and puts the inputs of the command line in place of its own."""
    from torch import nn

    function = _function_at(target)
    makers = [_read_input(text) for text in inputs]

    def build() -> Built:
        try:
            returned = function()
        except Exception as error:
            raise _failure(target, "failed", error) from error
        module, own = returned if isinstance(returned, tuple) else (returned, None)
        if not isinstance(module, nn.Module):
            raise RegardError(
                f"'{target}' returned a {type(module).__name__}, not a module. Return an "
                "nn.Module, or (module, inputs)."
            )
        if makers:
            return module, [make() for make in makers]
        if own is None:
            raise RegardError(
                f"'{target}' returned a module without inputs. Give the shape of each with --input, "
                "such as --input 2x16x64, or return (module, inputs)."
            )
        return module, list(own) if isinstance(own, tuple | list) else [own]

    return build


def _function_at(target: str) -> Callable[[], Any]:
    from regard.conformance.subject import module_at

    place, colon, name = target.rpartition(":")
    if not (colon and place.endswith(".py") and name.isidentifier()):
        raise RegardError(
            f"--module {target}: it is written FILE.py:FUNCTION, such as model.py:build."
        )
    if not Path(place).is_file():
        raise RegardError(
            f"--module {target}: there is no file '{place}' in {Path.cwd()}. Name one that is there."
        )
    function = getattr(module_at(place), name, None)
    if not callable(function):
        what = "has no function" if function is None else "has something else called"
        raise RegardError(f"--module {target}: '{place}' {what} '{name}'. Name a function of it.")
    return function


def _failure(target: str, what: str, error: Exception) -> RegardError:
    """The user's error, with the last line of the user's file on the way to it."""
    file = Path(target.rpartition(":")[0])
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == file.name
    ]
    where = f", line {lines[-1]} of '{file}'" if lines else ""
    told = " ".join(str(error).split())
    return RegardError(
        f"'{target}' {what}: {type(error).__name__}: {told}{where}. Correct it there."
    )


def _size(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return type(given).__name__ if shape is None else "×".join(map(str, shape)) or "1"
