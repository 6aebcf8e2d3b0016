"""Data: readers, tokenizers, audio, images, embedded datasets, splits, preprocessors, storage and batching.

reader (rows)  →  Dataset.read (splits, leakage, row errors)  →  preprocessor  →  Examples  →  token_batches
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports
from regard.core.registry import lookup

if TYPE_CHECKING:
    from regard.data.audio.augment import AugmentOptions as AugmentOptions, augment as augment
    from regard.data.audio.cache import (
        FeatureCache as FeatureCache,
        cached_features as cached_features,
        default_cache as default_cache,
    )
    from regard.data.audio.clips import (
        AudioClip as AudioClip,
        Part as Part,
        WordInterval as WordInterval,
        joined_clips as joined_clips,
    )
    from regard.data.audio.features import (
        FeatureOptions as FeatureOptions,
        log_mel as log_mel,
        mfcc as mfcc,
        normalize_level as normalize_level,
        normalize_utterance as normalize_utterance,
    )
    from regard.data.audio.samples import resample as resample, trim_silence as trim_silence
    from regard.data.audio.wav import (
        AudioFileError as AudioFileError,
        read_header as read_header,
        read_wav as read_wav,
    )
    from regard.data.batching import (
        Batches as Batches,
        evaluation_batches as evaluation_batches,
        token_batches as token_batches,
    )
    from regard.data.dataset import Dataset as Dataset
    from regard.data.datasets import DATASETS as DATASETS
    from regard.data.datasets.cmudict import (
        cmudict_pairs as cmudict_pairs,
        g2p_alignments as g2p_alignments,
        word_syllables as word_syllables,
    )
    from regard.data.datasets.digits import digits as digits, mnist5000 as mnist5000
    from regard.data.datasets.films import (
        FilmDocuments as FilmDocuments,
        FilmLanguages as FilmLanguages,
        FilmQuestions as FilmQuestions,
    )
    from regard.data.datasets.movie_reviews import MovieReviews as MovieReviews
    from regard.data.examples import Examples as Examples, Ragged as Ragged
    from regard.data.folds import Folds as Folds
    from regard.data.images.augment import (
        ImageAugmentOptions as ImageAugmentOptions,
        augment_images as augment_images,
    )
    from regard.data.images.pixels import (
        ImageFile as ImageFile,
        ImageFileError as ImageFileError,
        read_image as read_image,
    )
    from regard.data.item_preprocessor import ItemPreprocessor as ItemPreprocessor
    from regard.data.labels import ClassBalance as ClassBalance, Labels as Labels
    from regard.data.noising import (
        corrupt_spans as corrupt_spans,
        corrupt_texts as corrupt_texts,
        mask_tokens as mask_tokens,
    )
    from regard.data.preprocessor import (
        PairPreprocessor as PairPreprocessor,
        Preprocessor as Preprocessor,
        Standardizer as Standardizer,
    )
    from regard.data.readers.arrays import (
        ArrayReader as ArrayReader,
        spoken_digits as spoken_digits,
    )
    from regard.data.readers.audio_folder import AudioFolderReader as AudioFolderReader
    from regard.data.readers.describe import Description as Description
    from regard.data.readers.image_arrays import ImageArrayReader as ImageArrayReader
    from regard.data.readers.image_folder import ImageFolderReader as ImageFolderReader
    from regard.data.readers.text_file import (
        GeneratedRows as GeneratedRows,
        Reader as Reader,
        Row as Row,
        RowErrors as RowErrors,
    )
    from regard.data.readers.text_reader import TextReader as TextReader
    from regard.data.sentences import split_sentences as split_sentences
    from regard.data.splits import (
        EvalSplit as EvalSplit,
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
    )
    from regard.data.tokenizers.vocabulary import (
        VOCABULARIES as VOCABULARIES,
        Vocabulary as Vocabulary,
        build_vocabulary as build_vocabulary,
        load_vocabulary as load_vocabulary,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["describe"]


def describe(
    file: str | PathLike[str],
    *,
    target: str | None = None,
    format: str | None = None,  # noqa: A002
    source_column: str | int | None = None,
    target_column: str | int | None = None,
    header: bool = False,
) -> Description:
    """Descriptive statistics of any data that a task reads.

    `file` is a text file, two parallel files FIRST,SECOND, arrays (.npz), a folder of audio or images, or
    the name of an embedded dataset. `target` is what a text or a recording has beside it: text, label,
    number or none; by default it is inferred. Row errors are counted and listed with line and reason; they
    do not stop it.
    """
    from regard.data.readers.describe import describe_file
    from regard.data.readers.text_reader import FORMATS_OF

    if target is not None:
        lookup("choice for --target", target, FORMATS_OF)
    return describe_file(
        str(file),
        target=target,
        format=format,
        source_column=source_column,
        target_column=target_column,
        header=header,
    )
