"""The vocabulary of a task on texts, and the labels it tells apart, if any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from regard.core.errors import RegardError
from regard.data.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.tasks.text_options import TextOptions

# kind → by which keyword its size is told
SIZED_KINDS = {
    "subwords": "size",
    "wordpiece": "size",
    "words": "max_size",
    "running_words": "max_size",
}
COUNTED_KINDS = ("words", "running_words")


@dataclass(frozen=True, kw_only=True)
class TextVocabularies:
    """How texts become token numbers; label i has the class number i."""

    text: Vocabulary
    labels: tuple[str, ...] = ()

    @classmethod
    def build(
        cls, options: TextOptions, *, kind: str, texts: Iterable[str], min_count: int = 1
    ) -> Self:
        """The vocabulary of these texts, which are read once; it has no labels yet."""
        size = {SIZED_KINDS[kind]: options.vocabulary_size} if kind in SIZED_KINDS else {}
        counted = {"min_count": min_count} if kind in COUNTED_KINDS else {}
        try:
            text = build_vocabulary(kind, texts, lowercase=options.lowercase, **size, **counted)
        except RegardError as error:
            for word, value in size.items():  # the option's name for a vocabulary's own word
                if str(error).startswith(own := f"{word}={value}"):
                    said = str(error).removeprefix(own)
                    raise RegardError(f"task.vocabulary_size={value}{said}") from error
            raise
        return cls(text=text)

    def to_start_with(self) -> Self:
        """What another task takes over: how texts are cut, and not the labels, which are a task's own."""
        return replace(self, labels=())

    def sizes(self) -> dict[str, int]:
        """The sizes a model is built with, by their keywords."""
        classes = {"classes": len(self.labels)} if self.labels else {}
        return {"vocabulary": self.text.size, **classes}

    def as_json(self) -> dict[str, Any]:
        """Both as JSON values."""
        return {"text": self.text.as_json(), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """The vocabularies that `as_json` wrote."""
        match record:
            case {"text": text, "labels": [*labels]} if all(
                isinstance(label, str) for label in labels
            ) and len(set(labels)) == len(labels):
                return cls(text=load_vocabulary(text), labels=tuple(labels))
        raise RegardError(
            "The vocabulary file has no 'text' and 'labels' in it, or a label stands there twice. "
            "Restore it as it was written, or train anew."
        )
