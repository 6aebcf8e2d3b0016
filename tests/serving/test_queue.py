"""The queue: batches of equal work and similar length, its limit, cancellation, faults, the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.serving.limits import Limits, RequestError
from regard.serving.queue import Job, WorkQueue

WAIT = 10.0


@dataclass(frozen=True)
class Echo:
    """Returns its inputs in upper case, when it is let; remembers its batches."""

    name: str = ""
    is_batched: bool = True
    batches: list[list[Any]] = field(default_factory=list, compare=False)
    begun: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(0), compare=False
    )
    let: threading.Event = field(default_factory=threading.Event, compare=False)

    def run(self, values: list[Any], *, is_wanted: Callable[[], bool]) -> Sequence[Any]:
        self.batches.append(values)
        self.begun.release()
        while is_wanted() and not self.let.wait(0.01):
            pass
        if "bad" in values:
            raise RegardError("bad is no input. Give another.")
        return [value.upper() for value in values]


@pytest.fixture
def make() -> Iterator[Callable[..., WorkQueue]]:
    made: list[WorkQueue] = []

    def queue(**limits: Any) -> WorkQueue:
        made.append(WorkQueue(Limits(**limits)))
        return made[-1]

    yield queue
    for each in made:
        each.close(timeout=WAIT)


def submit(queue: WorkQueue, work: Echo, *values: str) -> list[Job]:
    return queue.submit(work, [(value, len(value)) for value in values])


def occupied(queue: WorkQueue) -> Echo:
    """Work that keeps the thread busy until it is let."""
    work = Echo("busy", is_batched=False)
    submit(queue, work, "x")
    assert work.begun.acquire(timeout=WAIT)
    return work


def answers(jobs: list[Job]) -> list[Any]:
    return [job.answer.result(WAIT) for job in jobs]


def test_batches_have_equal_work_and_similar_lengths(make: Callable[..., WorkQueue]) -> None:
    queue = make(max_batch=3)
    busy, one, other = occupied(queue), Echo("one"), Echo("other")
    for each in (one, other):
        each.let.set()
    jobs = [
        *submit(queue, one, "a", "b" * 40, "c"),
        *submit(queue, other, "d"),
        *submit(queue, one, "e", "f"),
    ]
    busy.let.set()
    assert answers(jobs) == ["A", "B" * 40, "C", "D", "E", "F"]
    # At most three; the long one waits for a batch of its own, to which shorter ones may belong.
    assert one.batches == [["a", "c", "e"], ["b" * 40, "f"]]
    assert other.batches == [["d"]]


def test_work_that_takes_one_input(make: Callable[..., WorkQueue]) -> None:
    queue = make()
    busy, single = occupied(queue), Echo(is_batched=False)
    single.let.set()
    jobs = submit(queue, single, "a", "b")
    busy.let.set()
    assert answers(jobs) == ["A", "B"]
    assert single.batches == [["a"], ["b"]]


def test_full_queue(make: Callable[..., WorkQueue]) -> None:
    queue, work = make(max_waiting=3), Echo()
    busy = occupied(queue)
    submit(queue, work, "a", "b")
    with pytest.raises(RequestError, match=r"2 inputs wait .* maximum is 3.*Try again") as raised:
        submit(queue, work, "c", "d")
    assert raised.value.status == 429
    assert queue.num_waiting == 2  # all or none
    submit(queue, work, "c")
    work.let.set()
    busy.let.set()


def test_cancelled_inputs_leave_the_queue(make: Callable[..., WorkQueue]) -> None:
    queue, work = make(max_waiting=2), Echo()
    busy = occupied(queue)
    work.let.set()
    gone = submit(queue, work, "a", "b")
    queue.cancel(gone)
    assert queue.num_waiting == 0
    kept = submit(queue, work, "c", "d")
    busy.let.set()
    assert answers(kept) == ["C", "D"]
    assert work.batches == [["c", "d"]]
    with pytest.raises(CancelledError):
        gone[0].answer.result(WAIT)


def test_running_work_ends_when_nobody_waits(make: Callable[..., WorkQueue]) -> None:
    queue, endless = make(), Echo("endless")
    jobs = submit(queue, endless, "a")
    assert endless.begun.acquire(timeout=WAIT)
    queue.cancel(jobs)  # it is never let
    work = Echo()
    work.let.set()
    assert answers(submit(queue, work, "b")) == ["B"]


def test_an_input_that_fails_does_not_spoil_the_batch(make: Callable[..., WorkQueue]) -> None:
    queue, work = make(), Echo()
    busy = occupied(queue)
    work.let.set()
    good, bad, other = submit(queue, work, "good", "bad", "other")
    busy.let.set()
    assert answers([good, other]) == ["GOOD", "OTHER"]
    with pytest.raises(RegardError, match="bad is no input"):
        bad.answer.result(WAIT)
    assert work.batches == [["good", "bad", "other"], ["good"], ["bad"], ["other"]]


def test_close_answers_what_waits(make: Callable[..., WorkQueue]) -> None:
    queue, work = make(), Echo()
    busy = occupied(queue)
    (waiting,) = submit(queue, work, "a")
    queue.refuse()
    with pytest.raises(RequestError, match="shutting down"):
        submit(queue, work, "b")
    queue.close()
    with pytest.raises(RequestError, match="shutting down") as raised:
        waiting.answer.result(WAIT)
    assert raised.value.status == 503
    busy.let.set()


def test_the_thread_is_prepared() -> None:
    prepared = threading.Event()
    queue = WorkQueue(Limits(), prepare=prepared.set)
    assert prepared.wait(WAIT)
    queue.close(timeout=WAIT)
