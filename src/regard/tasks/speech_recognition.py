"""Speech recognition: recordings to characters, by an encoder–decoder or CTC.

    ▁▂▅▇▅▂▁▃▆▃▁   →  three one four

With `join`, the recordings of a speaker are joined with pauses into strings of words, such as digits, so
that word borders are known and alignments can be scored: `alignment_accuracy` is the share of the
characters of the reference whose attention (or CTC posterior) has its peak within their word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from pydantic import AfterValidator, Field, model_validator

from regard.core.errors import RegardError
from regard.core.options import NonNegativeFloat, PositiveInt, Probability
from regard.core.protocols import Decode
from regard.core.traits import TargetKind
from regard.data.audio.clips import AudioClip, joined_clips
from regard.data.batching import evaluation_batches
from regard.data.examples import Examples, Ragged
from regard.data.preprocessor import Encoded, Preprocessor, Rows, blocks
from regard.data.readers.audio_folder import AudioFolderReader
from regard.data.readers.text_file import Reader, Row, RowErrors
from regard.data.splits import SPLIT_ORDER, EvalSplit, Split, split_of
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.tasks.audio import AudioOptions, AudioPreprocessor, AudioTask
from regard.tasks.metrics import (
    CharacterErrorRate,
    CosineSimilarity,
    DamerauLevenshteinSimilarity,
    ExactMatch,
    JaccardSimilarity,
    Loss,
    WordErrorRate,
)
from regard.tasks.sequence import SequenceTask
from regard.tasks.task import EvalResult, device_of

JOIN_SEED = 20  # of the strings, whatever the seed of the run: all runs have the same data
ALIGNED_ITEMS = 500  # alignments are scored on the first items of a split


def _validate_join(counts: tuple[int, int] | None) -> tuple[int, int] | None:
    if counts is not None and not 1 <= counts[0] <= counts[1]:
        raise ValueError("give the least and the largest number of recordings, as [3, 7].")
    return counts


WordCounts = Annotated[tuple[int, int], Field(strict=False), AfterValidator(_validate_join)]


class SpeechOptions(AudioOptions):
    """As `AudioOptions`; `train_file` is a folder with transcripts.

    Args:
        lowercase: Lower-case all transcripts.
        max_length: Maximum number of frames; longer recordings are malformed.
        max_characters: Longer transcripts are malformed, and longer outputs are cut off.
        label_smoothing: Probability mass spread over all characters (Szegedy et al. 2016); not of CTC.
        beam_size: Beam width in decoding; 1 is greedy.
        length_penalty: Hypotheses are ranked by log-probability / length**length_penalty; not of CTC.
        join: Least and largest number of recordings of a speaker that are joined to a string.
        num_strings, num_validation_strings, num_test_strings: Number of joined strings of each split.
        min_pause, max_pause: Range of the pause between two recordings, in seconds.
    """

    lowercase: bool = True
    max_characters: PositiveInt = 400
    label_smoothing: Probability = 0.1
    beam_size: PositiveInt = 1
    length_penalty: NonNegativeFloat = 1.0
    join: WordCounts | None = None
    num_strings: PositiveInt = 4000
    num_validation_strings: PositiveInt = 300
    num_test_strings: PositiveInt = 500
    min_pause: NonNegativeFloat = 0.05
    max_pause: NonNegativeFloat = 0.3

    @model_validator(mode="after")
    def _validate_pauses(self) -> Self:
        if self.min_pause > self.max_pause:
            raise RegardError(
                f"task.min_pause={self.min_pause} is above task.max_pause={self.max_pause}. Exchange them."
            )
        return self


class TranscribedAudio(AudioPreprocessor):
    """Recordings with transcripts, in characters. Truncated ones would not match their transcripts."""

    truncates: ClassVar[bool] = False
    has_target_vocabulary: ClassVar[bool] = True

    @classmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """Build the vocabulary of characters."""
        del path
        if known is not None:
            return known
        texts = (row.target for row in rows())
        target = build_vocabulary("characters", texts, lowercase=options.lowercase)
        return cls(
            options,
            input=cls.fit_inputs(options, (row.input for row in rows())),
            target=target,
        )

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Frames and characters; a transcript or a recording that is too long is malformed."""
        limit = self.options.max_characters
        for block in blocks(rows):
            targets = self.target.encode_all(row.target for row in block)
            for row, target in zip(block, targets, strict=True):
                frames, removed = self.cut(self.features(row.input))
                reason = ""
                if len(target) > limit:
                    reason = f"{len(target)} characters, but task.max_characters is {limit}"
                elif removed:
                    longest = self.options.max_length
                    reason = f"{len(frames) + removed} frames, but task.max_length is {longest}"
                if reason:
                    errors.report(path=path, line=row.line, reason=f"too long: {reason}")
                    continue
                yield Encoded(row, frames, target, None, removed)

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """Training examples at all speeds."""
        return self.audio_examples(encoded)

    def encoded_targets(self, targets: list[Any]) -> Any:
        """Sequences of characters."""
        return Ragged.of(targets)

    def encode_split(self, split: EvalSplit) -> Examples:
        """Each recording with its transcript."""
        targets = self.target.encode_all(references[0] for references in split.references)
        return replace(self.encode_inputs(split.inputs), targets=Ragged.of(targets))

    def notes(self, split: EvalSplit) -> list[str]:
        """Truncated recordings, whose transcripts are scored whole."""
        note = self.truncation_note(self.truncation(split.inputs))
        return [note] if note else []

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """Items whose reference is the transcript, in the case of the outputs."""
        found = super().split(rows, path=path)
        lower = self.options.lowercase
        return replace(
            found,
            references=tuple((text.lower() if lower else text,) for text in found.references),
        )


@dataclass(frozen=True, kw_only=True)
class JoinedReader:
    """Strings of recordings for a split; with `is_whole` False, of those that a hash puts into it."""

    reader: AudioFolderReader
    options: Any
    num_strings: int
    split: Split
    is_whole: bool = True

    @property
    def path(self) -> Path:
        """The folder."""
        return self.reader.path

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All strings, with their transcripts."""
        options, by_speaker = self.options, dict[str, list[AudioClip]]()
        for row in self.reader.rows(errors=errors):
            clip = row.input
            key = TranscribedAudio.key(options, clip)
            own = split_of(key, validation=options.validation_fraction, test=0.0)
            if self.is_whole or own == self.split:
                by_speaker.setdefault(clip.speaker, []).append(clip)
        shortest, longest = options.join
        if not by_speaker:
            raise RegardError(
                f"task.join={list(options.join)}: no recording of '{self.path}' is in the {self.split} "
                "split. Give more recordings, or change task.validation_fraction, which is "
                f"{options.validation_fraction}."
            )
        strings = joined_clips(
            by_speaker,
            num_strings=self.num_strings,
            min_words=shortest,
            max_words=longest,
            pause_range=(options.min_pause, options.max_pause),
            # With one seed, the splits would have the same strings, spoken in other takes.
            seed=(JOIN_SEED, SPLIT_ORDER.index(self.split)),
        )
        for number, clip in enumerate(strings, start=1):
            yield Row(clip, clip.transcript, number)


class SpeechRecognition(AudioTask, SequenceTask):
    """Speech recognition in characters; the default metric is CER."""

    options_class = SpeechOptions
    preprocessor_class: ClassVar[type[Preprocessor]] = TranscribedAudio
    target_kind: ClassVar[TargetKind] = "sequence"
    audio_target = "text"
    metrics = (
        CharacterErrorRate(),
        WordErrorRate(),
        JaccardSimilarity(),
        CosineSimilarity(),
        DamerauLevenshteinSimilarity(),
        ExactMatch(),
        Loss(),
    )

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """The reader of a folder or its test split, whose recordings are joined as in training."""
        found = cls.evaluation_reader(options, file)
        if options.join is None:
            return found
        count = options.num_test_strings
        return JoinedReader(reader=found, options=options, num_strings=count, split="test")

    @classmethod
    def readers(cls, options: Any) -> dict[Split, Reader]:
        """The splits of a folder; joined to strings, with recordings held out for validation."""
        found = cls.audio_readers(options)
        if options.join is None:
            return dict(found)
        if (layout := found["train"].layout().name) != "fsdd":
            raise RegardError(
                f"task.join={list(options.join)}: '{options.train_file}' has the layout {layout}. Only "
                "recordings of single words are joined, those of the layout fsdd. Leave the option out."
            )
        has_validation = "validation" in found
        joined = partial(JoinedReader, options=options)
        readers: dict[Split, Reader] = {
            "train": joined(
                reader=found["train"],
                num_strings=options.num_strings,
                split="train",
                is_whole=has_validation,
            ),
            "validation": joined(
                reader=found.get("validation", found["train"]),
                num_strings=options.num_validation_strings,
                split="validation",
                is_whole=has_validation,
            ),
        }
        if "test" in found:
            readers["test"] = joined(
                reader=found["test"], num_strings=options.num_test_strings, split="test"
            )
        return readers

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[str]:
        """The transcript of each recording."""
        # Frames are many more than characters: an untrained decoder would not end.
        limited: Any = partial(decode, max_length=preprocessor.options.max_characters + 1)  # type: ignore[call-arg]
        return super().predict(model, inputs, preprocessor, limited)

    def details(self, model: Any, split: EvalSplit, result: EvalResult) -> dict[str, Any]:
        """Alignment accuracy of every head, where word borders are known."""
        del result
        found = self.alignment_accuracies(model, split)
        if not found:
            return {}
        on_validation = self.alignment_accuracies(model, self.dataset.validation)
        # The head is chosen on validation, never on the split that is scored.
        best = max(on_validation, key=on_validation.__getitem__) if on_validation else ""
        return {
            "alignment": {
                "accuracy": found.get(best),
                "head": best,
                "chance": self._chance(split),
                "heads": found,
            }
        }

    def alignment_accuracies(self, model: Any, split: EvalSplit) -> dict[str, float]:
        """The percentage of characters whose peak lies within their word, of every cross-attention head.

        Spaces, which are between words, do not count. Weights are computed with teacher forcing.
        """
        clips = [clip for clip in split.inputs[:ALIGNED_ITEMS] if isinstance(clip, AudioClip)]
        if not clips or not all(len(clip.words) > 1 for clip in clips):
            return {}
        preprocessor = self.dataset.preprocessor
        part = EvalSplit(inputs=tuple(clips), references=split.references[: len(clips)])
        examples = preprocessor.encode_split(part)
        batches = evaluation_batches(examples)
        stem = getattr(model, "stem", None)
        stride, offset = getattr(stem, "frame_stride", 1), getattr(stem, "frame_offset", 0.0)
        hits: dict[str, int] = {}
        total = 0
        for number in range(len(batches)):
            rows = batches.indices(number)
            batch = examples.collate(rows).to(device_of(model))
            with torch.inference_mode():
                weights = model.weights(batch.input, batch.target.decoder_input)
            cross = {name: each for name, each in weights.items() if name.startswith("cross")}
            if not cross:  # a decoder without attention
                return {}
            peaks = {
                f"{name}, head {head + 1}" if each.shape[1] > 1 else name: each[:, head].argmax(-1)
                for name, each in cross.items()
                for head in range(each.shape[1])
            }
            for within, row in enumerate(rows.tolist()):
                clip = clips[row]
                starts, ends = self._frame_bounds(clip)
                total += len(starts)
                for name, peak in peaks.items():
                    position = peak[within, self._letters(clip)].cpu().numpy()
                    own = position * stride + offset
                    hits[name] = hits.get(name, 0) + int(((own >= starts) & (own <= ends)).sum())
        return {name: 100 * count / max(1, total) for name, count in hits.items()}

    def _letters(self, clip: AudioClip) -> list[int]:
        """The positions of the letters in the transcript, without the spaces between words."""
        return [at for at, letter in enumerate(clip.transcript) if letter != " "]

    def _frame_bounds(self, clip: AudioClip) -> tuple[np.ndarray, np.ndarray]:
        """Where the word of each letter begins and ends, in frames: frame t is centred at t · hop."""
        options = self.options
        intervals = clip.word_intervals(sample_rate=options.sample_rate, trim_db=options.trim_db)
        hop = options.hop_seconds
        bounds = [(each.start / hop, each.end / hop) for each in intervals for _ in each.word]
        starts, ends = np.array(bounds).T
        return starts, ends

    def _chance(self, split: EvalSplit) -> float:
        """The accuracy of a uniformly random peak, in percent."""
        shares = []
        for clip in split.inputs[:ALIGNED_ITEMS]:
            starts, ends = self._frame_bounds(clip)
            preprocessor = self.dataset.preprocessor
            frames = len(preprocessor.cut(preprocessor.features(clip))[0])
            inside = np.minimum(ends, frames) - np.minimum(starts, frames)
            shares.append((inside / frames).mean())
        return float(100 * np.mean(shares))
