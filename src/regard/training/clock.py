"""How long a run has taken, and how quick its steps are."""

from __future__ import annotations

import time


class Clock:
    """Seconds of all sessions of a run together, `before` of them in earlier ones."""

    def __init__(self, *, before: float) -> None:
        """Start."""
        now = time.monotonic()
        self._zero = now - before
        self._saved = now
        self._tokens = 0
        self._spent = 0.0

    def seconds(self) -> float:
        """All that has passed, evaluations and checkpoints counted."""
        return time.monotonic() - self._zero

    def stepped(self, *, began: float, tokens: int) -> None:
        """Count a step that began at that reading of `time.monotonic`."""
        self._tokens += tokens
        self._spent += time.monotonic() - began

    def row(self) -> dict[str, float]:
        """For the timing file: the rate is that of the steps since the last row, nothing else counted."""
        rate = self._tokens / self._spent if self._spent > 0 else 0.0
        self._tokens, self._spent = 0, 0.0
        return {"seconds": round(self.seconds(), 3), "tokens_per_second": round(rate, 1)}

    def saved(self) -> None:
        """A checkpoint was written just now."""
        self._saved = time.monotonic()

    def since_saved(self) -> float:
        """Seconds since then, or since the start."""
        return time.monotonic() - self._saved
