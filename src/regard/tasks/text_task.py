"""A task on texts to be understood: what is the same whether tokens are to be told or labels."""

from __future__ import annotations

from typing import ClassVar

from regard.core.text_batch import TextBatch
from regard.tasks.run_task import RunTask
from regard.tasks.text_vocabularies import TextVocabularies


class TextTask(RunTask):
    """Nothing is written token by token, so decoding is taken and not used."""

    vocabularies_class: ClassVar[type[TextVocabularies]] = TextVocabularies

    @classmethod
    def cost_words(cls, batch: TextBatch) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`."""
        return {
            "batch_size": batch.tokens.shape[0],
            "length": batch.tokens.shape[1],
            "places": int(batch.predicted.sum()),
        }
