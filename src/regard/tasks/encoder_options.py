"""What the task `encoder` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.tasks.text_options import TextOptions


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(TextOptions):
    """As `TextOptions`, and:

    text           a file with a document a line; without it, pages about films are learned from
    pairs          whether it is also told if the second half of a row follows the first
    masked_share   the share of the tokens that are to be told
    """

    text: str | None = None
    pairs: bool = True
    masked_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.masked_share <= 1:
            raise RegardError(
                f"task.masked_share={self.masked_share}: a share is above 0 and at most 1. "
                "Use such as 0.15."
            )
