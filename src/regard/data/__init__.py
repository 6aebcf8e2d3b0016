"""Data: readers of text files, tokenizers, datasets, train–test splits, token storage and batching.

A reader streams rows of text (`PairSource`), a vocabulary tokenises them (`build_vocabulary`), a
`TokenStore` holds the tokens of a corpus, and `token_batches` cuts an epoch into padded batches.
"""

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.data.batching import (
        Batches as Batches,
        evaluation_batches as evaluation_batches,
        fixed_batches as fixed_batches,
        token_batches as token_batches,
    )
    from regard.data.datasets.cmudict import (
        cmudict_pairs as cmudict_pairs,
        g2p_alignments as g2p_alignments,
    )
    from regard.data.datasets.films import (
        FilmDocuments as FilmDocuments,
        FilmLanguages as FilmLanguages,
        FilmQuestions as FilmQuestions,
    )
    from regard.data.datasets.movie_reviews import MovieReviews as MovieReviews
    from regard.data.noising import (
        corrupt_span as corrupt_span,
        corrupt_spans as corrupt_spans,
        mask_tokens as mask_tokens,
    )
    from regard.data.readers.describe import describe_pairs as describe_pairs
    from regard.data.readers.formats import PairRow as PairRow
    from regard.data.readers.labelled import (
        LabelledRow as LabelledRow,
        LabelledSource as LabelledSource,
    )
    from regard.data.readers.pairs import PairSource as PairSource
    from regard.data.readers.text_file import RowErrors as RowErrors
    from regard.data.sentences import split_sentences as split_sentences
    from regard.data.splits import (
        EvalSplit as EvalSplit,
        Leakage as Leakage,
        Split as Split,
        split_of as split_of,
    )
    from regard.data.synthetic import (
        AAStar as AAStar,
        Associations as Associations,
        Brackets as Brackets,
        Copying as Copying,
        ListOperations as ListOperations,
        Parity as Parity,
        SyntheticExamples as SyntheticExamples,
        SyntheticLabels as SyntheticLabels,
        SyntheticPairs as SyntheticPairs,
    )
    from regard.data.text_dataset import (
        ChunkDataset as ChunkDataset,
        DocumentDataset as DocumentDataset,
        DocumentFile as DocumentFile,
        TextDataset as TextDataset,
    )
    from regard.data.token_store import TokenStore as TokenStore
    from regard.data.tokenizers.vocabulary import (
        VOCABULARIES as VOCABULARIES,
        Vocabulary as Vocabulary,
        build_vocabulary as build_vocabulary,
        load_vocabulary as load_vocabulary,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
