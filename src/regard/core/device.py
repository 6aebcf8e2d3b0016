"""Devices by name: cpu, cuda, cuda:N, mps, or auto for the fastest one of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator

from regard.core.errors import RegardError

if TYPE_CHECKING:
    import torch

NAME = re.compile(r"cpu|mps|auto|cuda(:\d+)?")


def validate_device_name(name: str) -> str:
    """The name, if it is that of a device; whether this machine has it is not asked."""
    if not NAME.fullmatch(name):
        raise ValueError("it must be cpu, cuda, cuda:N, mps or auto.")
    return name


DeviceName = Annotated[str, AfterValidator(validate_device_name)]


def resolve_device(name: str, *, option: str = "--device ") -> torch.device:
    """The device of this name; raises, with the names that work here, if this machine has none.

    `option` begins the message: "--device " or "training.device=".
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = {f"cuda:{index}": torch.device("cuda", index) for index in range(count)}
    if count:
        found = {"cuda": torch.device("cuda", 0), **found}
    if torch.backends.mps.is_available():
        found["mps"] = torch.device("mps")
    found["cpu"] = torch.device("cpu")
    found["auto"] = next(iter(found.values()))
    if name not in found:
        known = "this machine has no such device" if NAME.fullmatch(name) else "unknown device"
        raise RegardError(f"{option}{name}: {known}. Choose one of: {', '.join(found)}.")
    return found[name]


def validate_cpu(device: str | None, *, what: str) -> None:
    """Raise unless the device is the CPU; `what` begins the reason, such as "times are those of"."""
    if device is not None and device != "auto" and resolve_device(device).type != "cpu":
        raise RegardError(f"--device {device}: {what} the CPU only. Remove --device.")


def float64_on(device: torch.device) -> torch.dtype:
    """float64; float32 on a device without it (MPS)."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


Result = TypeVar("Result")


def run_in_thread_pool(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run jobs on torch's number of threads, each job on one of them; results in order.

    Threads that share each of many small operations synchronise at every one, and spin while they wait;
    threads with jobs of their own synchronise once, at the end.
    """
    import torch

    threads = torch.get_num_threads()
    if len(jobs) == 1 or threads == 1:
        return [job() for job in jobs]
    try:
        with ThreadPoolExecutor(
            min(len(jobs), threads), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            try:
                return [future.result() for future in [pool.submit(job) for job in jobs]]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        # A thread's setting is the default of new threads.
        torch.set_num_threads(threads)
