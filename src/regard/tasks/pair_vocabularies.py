"""The two vocabularies of a task on pairs, which may be one and the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from regard.core.errors import RegardError
from regard.data.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.tasks.pair_options import PairOptions


@dataclass(frozen=True, kw_only=True)
class PairVocabularies:
    """How texts become token numbers on either side."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def build(cls, options: PairOptions, *, sources: Iterable[str], targets: Iterable[str]) -> Self:
        """The vocabularies of these texts; each side is read once."""
        if options.shared_vocabulary:
            both = (text for side in (sources, targets) for text in side)
            shared = _vocabulary(options, options.source_tokens, both, options.lowercase == "both")
            return cls(source=shared, target=shared)
        return cls(
            source=_vocabulary(options, options.source_tokens, sources, options.lowercase != "no"),
            target=_vocabulary(
                options, options.target_tokens, targets, options.lowercase == "both"
            ),
        )

    def to_start_with(self) -> Self:
        """What another task takes over of them: both."""
        return self

    def sizes(self) -> dict[str, int]:
        """The sizes a model is built with."""
        return {"source_vocabulary": self.source.size, "target_vocabulary": self.target.size}

    def as_json(self) -> dict[str, Any]:
        """Both as JSON values; a shared one is written once."""
        if self.source is self.target:
            return {"shared": self.source.as_json()}
        return {"source": self.source.as_json(), "target": self.target.as_json()}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """The vocabularies that `as_json` wrote."""
        match record:
            case {"shared": shared}:
                vocabulary = load_vocabulary(shared)
                return cls(source=vocabulary, target=vocabulary)
            case {"source": source, "target": target}:
                return cls(source=load_vocabulary(source), target=load_vocabulary(target))
        raise RegardError(
            "The vocabulary file has neither 'shared' nor 'source' and 'target' in it. Restore it as "
            "it was written, or train anew."
        )


def _vocabulary(
    options: PairOptions, kind: str, texts: Iterable[str], lowercase: bool
) -> Vocabulary:
    size = {"size": options.vocabulary_size} if kind == "subwords" else {}
    return build_vocabulary(kind, texts, lowercase=lowercase, **size)
