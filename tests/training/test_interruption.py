"""The first signal is a wish, the second is obeyed at once."""

from __future__ import annotations

import signal

import pytest

from regard.training.process import SIGNALS, AbandonedError, Interruption


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_is_noted_and_the_second_ends_it(number: signal.Signals) -> None:
    with Interruption() as interruption:
        found = [interruption.wanted]
        signal.raise_signal(number)
        found.append(interruption.wanted)
        assert found == [False, True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_can_be_done_again_is_abandoned() -> None:
    with Interruption() as interruption:
        with interruption.abandoning():
            pass
        with pytest.raises(AbandonedError), interruption.abandoning():
            signal.raise_signal(signal.SIGINT)
        assert interruption.wanted
        with pytest.raises(AbandonedError), interruption.abandoning():
            pytest.fail("a signal had come")
