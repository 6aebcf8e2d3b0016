"""What a task on texts to be understood can be told."""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options that are the same whatever is asked about a text.

    dev, test           held-out files; without them, parts of what is learned from, chosen by a hash
    dev_share           the part held out where `dev` is not given
    test_share          the part held out for testing where neither `dev` nor `test` is given
    skip_bad_rows       leave bad rows out, and list them, instead of stopping at the first
    vocabulary_size     of a vocabulary of word pieces, subwords or words; characters are all there
    lowercase           whether all texts are put into lower case
    max_length          places in a row at most, START and END included
    batch_tokens        places in a batch, padding included
    metric              the score that decides which weights are kept
    """

    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.05
    test_share: float = 0.05
    skip_bad_rows: bool = False
    vocabulary_size: int = 8000
    lowercase: bool = True
    max_length: int = 128
    batch_tokens: int = 4096
    metric: str = ""

    def __post_init__(self) -> None:
        for name, least in (("vocabulary_size", 1), ("max_length", 8), ("batch_tokens", 1)):
            if getattr(self, name) < least:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be {least} or more.")
        if self.batch_tokens <= self.max_length:
            raise RegardError(
                f"task.batch_tokens={self.batch_tokens} does not hold a row of "
                f"task.max_length={self.max_length}. Make it larger than that."
            )
