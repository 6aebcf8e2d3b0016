"""Dummy records of a document and a deletion test, for charts and pages."""

from __future__ import annotations

from typing import Any

from regard.core.records.document import DeletionRecord, DocumentRecord, Estimate, OrderRecord

FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SENTENCES = (
    "<start> a friend had told me that this was the film of the year .",
    "it is a dull and lifeless picture , and nobody in it seems to want to be there .",
    "the music is fine .",
    "two hours that I shall never get back . <end>",
)
# Attention weight of these words, relative to the others.
HEAVY = {"dull": 30.0, "lifeless": 22.0, "fine": 4.0, "never": 6.0, "nobody": 3.0}


def make_deletion_record(*, texts: int = 200, **change: Any) -> DeletionRecord:
    def order(*drops: float, spread: float | None = 0.03) -> OrderRecord:
        def about(mean: float) -> Estimate:
            if spread is None:
                return Estimate(mean=mean)
            return Estimate(mean=mean, low=mean - spread, high=mean + spread)

        return OrderRecord(
            drops=tuple(map(about, drops)),
            flips=tuple(about(max(fall, 0.05) * 0.8) for fall in drops),
            area=about(sum(drops) / len(drops)),
        )

    one = texts == 1
    top = order(0.10, 0.16, 0.27, 0.38, 0.47, 0.52, spread=None if one else 0.03)
    random = order(0.01, 0.01, 0.02, 0.04, 0.09, 0.21)
    values: dict[str, Any] = {
        "fractions": FRACTIONS,
        "removed": (1.0, 2.0, 3.0, 5.0, 10.0, 24.0) if one else (1.4, 2.6, 6.1, 12.0, 23.7, 59.0),
        "texts": texts,
        "skipped_texts": 0 if one else 3,
        "draws": 5,
        "probability": 0.93,
        "top": top,
        "random": random,
        "least": order(-0.01, -0.02, -0.02, -0.03, 0.0, 0.03, spread=None if one else 0.01),
        "differences": tuple(
            Estimate(mean=a.mean - b.mean, low=a.mean - b.mean - 0.03, high=a.mean - b.mean + 0.03)
            for a, b in zip(top.drops, random.drops, strict=True)
        ),
        "area_difference": Estimate(mean=0.25, low=0.21, high=0.29),
    }
    return DeletionRecord(**values | change)


def make_document_record(*, hops: int = 1, weighed: bool = True, **change: Any) -> DocumentRecord:
    """Four sentences; the second is decisive."""
    tokens = [word for sentence in SENTENCES for word in sentence.split()]
    segments = [number for number, text in enumerate(SENTENCES) for _ in text.split()]
    rows = []
    for hop in range(hops):
        weights = [
            HEAVY.get(token, 1.0) ** (1 + 0.3 * hop) / (1 + (position + 5 * hop) % 3)
            for position, token in enumerate(tokens)
        ]
        total = [
            sum(weight for weight, other in zip(weights, segments, strict=True) if other == segment)
            if weighed
            else sum(weights)
            for segment in segments
        ]
        rows.append(
            tuple(weight / normaliser for weight, normaliser in zip(weights, total, strict=True))
        )
    values: dict[str, Any] = {
        "tokens": tuple(tokens),
        "segments": tuple(segments),
        "hops": tuple(rows),
        "sentence_weights": (0.06, 0.72, 0.04, 0.18) if weighed else None,
        "label": "negative",
        "probabilities": {"positive": 0.07, "negative": 0.93},
        "title": "films/han-1",
        "reference": "negative",
        "deletion": make_deletion_record(texts=1),
        "drops": tuple(
            None if token.startswith("<") else HEAVY.get(token, 0.1) / 100 for token in tokens
        ),
        "kendall_tau": 0.41,
    }
    return DocumentRecord(**values | change)
