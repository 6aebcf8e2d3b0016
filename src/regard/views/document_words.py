"""What the pictures of a document say in words, the page and the figure alike."""

from __future__ import annotations

from regard.core.document_record import DocumentRecord
from regard.views.figure_file import shown
from regard.views.numbers import percent_text


def said_of_label(record: DocumentRecord) -> str:
    """How sure the label is, and whether it is right, where that is known."""
    sure = f"said with a probability of {record.probabilities[record.label]:.2f}"
    if record.right is None:
        return f"{sure}."
    if record.right == record.label:
        return f"{sure}, which is right."
    return f"{sure}; right would be {shown(record.right)}."


LONGEST_TITLE = 100


def short_title(record: DocumentRecord) -> str:
    """The title in one line, cut where it is long: the title of a text may be the text."""
    title = shown(" ".join(record.title.split()))
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1].rstrip()}…"


def cut_sentence(record: DocumentRecord) -> str:
    """How much of the text the model did not read; nothing if it read all."""
    count = record.cut_tokens
    if not count:
        return ""
    share = percent_text(count / (count + len(record.tokens)))
    last = "last token" if count == 1 else f"last {count:,} tokens"
    were = "was" if count == 1 else "were"
    return f"The text goes on: its {last}, {share} of it, {were} not read (task.max_length)."


def left_out_sentence(record: DocumentRecord, *, drawn: int) -> str:
    """How many tokens come after those that are drawn, and what they weigh; nothing if none do."""
    count = len(record.tokens) - drawn
    if count <= 0:
        return ""
    importance = record.importance()
    weight = sum(importance[drawn:]) / (sum(importance) or 1.0)
    tokens, carries = ("token", "carries") if count == 1 else ("tokens", "carry")
    return f"… and {count} more {tokens}, not drawn, which {carries} {percent_text(weight)} of the weight."


def agreement_sentence(record: DocumentRecord) -> str:
    """How far the order of the weights is that of the words' own effects; nothing if not measured."""
    if record.agreement is None:
        return ""
    tau = f"{record.agreement:.2f}".replace("-", "−")
    return (
        f"Each word left out by itself: the order of the effects and that of the weights agree with a "
        f"Kendall’s tau of {tau} (1: the same order, 0: unrelated)."
    )
