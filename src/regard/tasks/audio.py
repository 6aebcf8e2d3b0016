"""What tasks on recordings share: options, features as input, splits by speaker, augmentation in training.

    folder of WAV files  →  AudioClip  →  log-mel or MFCC frames (cached)  →  normalised  →  model

Training examples are frames before normalisation, so that augmentation, which is of loudness and frequency,
comes first. Every epoch draws a speed and an augmentation for each recording, from the seed, the epoch and
the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from pydantic import Field, model_validator

from regard.core.batches import Batch, FrameInput
from regard.core.errors import RegardError
from regard.core.formatting import counted
from regard.core.options import PositiveFloat, PositiveInt, Probability
from regard.core.records.sound import SoundRecord
from regard.core.traits import InputKind
from regard.data.audio.augment import AugmentOptions, augment
from regard.data.audio.cache import FeatureCache, cached_features, default_cache
from regard.data.audio.clips import AudioClip, Part
from regard.data.audio.features import FeatureOptions, normalize_level, normalize_utterance
from regard.data.audio.picture import sound_record
from regard.data.audio.wav import MAX_SECONDS
from regard.data.batching import Batches
from regard.data.examples import Examples, Ragged
from regard.data.preprocessor import Encoded, Preprocessor, Standardizer, Truncation
from regard.data.readers.audio_folder import AudioFolderReader
from regard.data.readers.text_file import Row
from regard.data.splits import EvalSplit, Split, array_key
from regard.tasks.task import Task, TaskOptions

# Augmentation of mel bands, which other features do not have.
SPECTRAL_OPTIONS = ("freq_masks", "freq_warp", "noise_db", "gain_db", "equalize_db")
AUGMENT_SEED = 7  # apart from the order of the batches, which has the same seed and epoch
Names = Annotated[tuple[str, ...], Field(strict=False)]
Speeds = Annotated[
    tuple[Annotated[float, Field(ge=0.5, le=2.0)], ...], Field(strict=False, min_length=1)
]
Frames = Float32[np.ndarray, "frames features"]
Normalization = Literal["utterance", "level", "dataset"]
NORMALIZE: dict[str, Callable[[Frames], Frames]] = {
    "utterance": normalize_utterance,
    "level": normalize_level,
}  # each utterance by itself


class AudioOptions(AugmentOptions, FeatureOptions, TaskOptions):
    """As `TaskOptions`, with those of features and augmentation; `train_file` is a folder of WAV files.

    Args:
        normalize: Mean 0 and deviation 1: of every feature of each utterance, of every feature of the
            training split ("dataset"), or of all features of an utterance together ("level").
        speeds: Speed perturbation (Ko et al. 2015): every epoch has each recording at one of these speeds.
        max_seconds: Longer recordings are malformed.
        max_length: Maximum number of frames; longer recordings are truncated.
        split_by: What is held out without files of their own: recordings or speakers.
        validation_speakers, test_speakers: The speakers of these splits, and of no other.
    """

    SECTION: ClassVar[str] = "task"

    normalize: Normalization = "utterance"
    speeds: Speeds = (1.0,)
    max_seconds: PositiveFloat = MAX_SECONDS
    max_length: PositiveInt = 3000
    batch_tokens: PositiveInt = 12_000
    validation_fraction: Probability = 0.1
    test_fraction: Probability = 0.1
    split_by: Literal["recording", "speaker"] = "recording"
    validation_speakers: Names = ()
    test_speakers: Names = ()

    @model_validator(mode="after")
    def _validate_augmentation(self) -> Self:
        spectral = [name for name in SPECTRAL_OPTIONS if getattr(self, name)]
        if self.features == "mfcc" and spectral:
            raise RegardError(
                f"task.{spectral[0]}={getattr(self, spectral[0])} varies mel bands, but task.features is "
                "'mfcc'. Use task.features='log_mel', or leave the option out."
            )
        removed = {
            "gain_db": self.normalize != "dataset",
            "equalize_db": self.normalize == "utterance" and self.noise_db is None,
        }
        for name, is_removed in removed.items():
            if is_removed and (value := getattr(self, name)):
                raise RegardError(
                    f"task.{name}={value} has no effect with task.normalize='{self.normalize}', which "
                    "removes it. Leave one of the two out."
                )
        return self

    @model_validator(mode="after")
    def _validate_speakers(self) -> Self:
        if both := set(self.validation_speakers) & set(self.test_speakers):
            raise RegardError(
                f"task.test_speakers: {', '.join(sorted(both))} is in task.validation_speakers too. Name "
                "each speaker once."
            )
        return self

    def feature_options(self) -> FeatureOptions:
        """The options of the features alone, which identify them in the cache."""
        return FeatureOptions(**{name: getattr(self, name) for name in FeatureOptions.model_fields})


@dataclass(frozen=True, kw_only=True, eq=False)
class AudioExamples(Examples):
    """Examples whose inputs exist at several speeds in `copies`; `inputs` are the original ones."""

    copies: tuple[Ragged, ...] = ()

    def at_speeds(self, choice: Int64[np.ndarray, " examples"]) -> Examples:
        """The examples with the inputs of the chosen speed each."""
        chosen = Ragged.of(self.copies[speed][row] for row, speed in enumerate(choice))
        return Examples(inputs=chosen, targets=self.targets)


class AudioPreprocessor(Preprocessor):
    """Recordings as normalised frames; what targets are is left to subclasses.

    An input is a clip, the path of a WAV file, or an array of frames.
    """

    unit: ClassVar[str] = "recordings"
    piece: ClassVar[str] = "frames"
    truncates: ClassVar[bool] = True
    has_pictures: ClassVar[bool] = True
    num_shown: ClassVar[int] = 3  # each has an image and audio

    @classmethod
    def key(cls, options: Any, value: Any) -> str:
        """The content of a recording, or its speaker where speakers are held out."""
        if isinstance(value, np.ndarray):
            return array_key(value)
        clip = as_clip(value)
        return clip.speaker if options.split_by == "speaker" else clip.content_hash()

    @cached_property
    def _cache(self) -> FeatureCache | None:
        return default_cache()

    @cached_property
    def _feature_options(self) -> FeatureOptions:
        return self.options.feature_options()

    def features(self, value: Any, *, speed: float = 1.0) -> Frames:
        """The frames of an input before normalisation."""
        if not isinstance(value, np.ndarray):
            clip = as_clip(value, max_seconds=self.options.max_seconds)
            value = cached_features(clip, self._feature_options, speed=speed, cache=self._cache)
        return value.astype(np.float32, copy=False)

    def normalize(self, frames: Frames) -> Frames:
        """Frames as a model takes them."""
        if function := NORMALIZE.get(self.options.normalize):
            return function(frames)
        return self.input.encode(frames).astype(np.float32)

    @classmethod
    def fit_inputs(cls, options: Any, inputs: Iterable[Any]) -> Standardizer:
        """Mean and deviation of every feature; 0 and 1 where utterances are normalised one by one."""
        plain = cls(options, input=None)
        frames = (plain.features(each) for each in inputs)
        if options.normalize in NORMALIZE:
            features = next((each.shape[1] for each in frames), 1)
            return Standardizer((0.0,) * features, (1.0,) * features)
        return Standardizer.fit(frames)

    def cut(self, frames: Frames) -> tuple[Float32[np.ndarray, "kept features"], int]:
        """At most `max_length` frames, and how many were removed."""
        limit = self.options.max_length
        return frames[:limit], max(0, len(frames) - limit)

    def truncation(self, inputs: Sequence[Any]) -> Truncation:
        """How much of these recordings is beyond `max_length`."""
        cuts = [self.cut(self.features(each)) for each in inputs]
        removed = [count for _, count in cuts]
        kept = sum(len(frames) for frames, _ in cuts)
        truncated = sum(count > 0 for count in removed)
        return Truncation(truncated, len(cuts), sum(removed), kept + sum(removed))

    def audio_examples(self, encoded: Iterable[Encoded]) -> AudioExamples:
        """Training examples: raw frames at all speeds, with the encoded targets beside them."""
        speeds = tuple(dict.fromkeys((1.0, *self.options.speeds)))
        copies: dict[float, list[Frames]] = {speed: [] for speed in speeds}
        targets: list[Any] = []
        for each in encoded:
            targets.append(each.target)
            for speed, copy in copies.items():
                value = each.row.input
                is_original = speed == 1.0 or isinstance(value, np.ndarray)
                frames = each.input if is_original else self.features(value, speed=speed)
                copy.append(self.cut(frames)[0])
        ragged = {speed: Ragged.of(copy) for speed, copy in copies.items()}
        return AudioExamples(
            inputs=ragged[1.0],
            copies=tuple(ragged[speed] for speed in self.options.speeds),
            targets=self.encoded_targets(targets),
        )

    def encoded_targets(self, targets: list[Any]) -> Any:
        """The targets of examples, from those of encoded rows."""
        raise NotImplementedError

    def encode_inputs(self, inputs: Sequence[Any]) -> Examples:
        """Normalised frames."""
        frames = (self.normalize(self.cut(self.features(each))[0]) for each in inputs)
        return Examples(inputs=Ragged.of(frames))

    def picture(self, value: Any, *, name: str) -> SoundRecord:
        """Spectrogram and audio of an input; of an array, the spectrogram alone."""
        frames, _ = self.cut(self.features(value))
        is_array = isinstance(value, np.ndarray)
        clip = None if is_array else as_clip(value, max_seconds=self.options.max_seconds)
        return sound_record(frames, self._feature_options, name=name, clip=clip)

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """Items with the names of their recordings."""
        found = EvalSplit.of(kept := list(rows), path=path)
        names = [
            row.input.name if isinstance(row.input, AudioClip) else name
            for row, name in zip(kept, found.names, strict=True)
        ]
        return replace(found, names=tuple(names))


def as_clip(value: Any, *, max_seconds: float = MAX_SECONDS) -> AudioClip:
    """A clip, or the clip of the file that a path names."""
    if isinstance(value, AudioClip):
        return value
    return AudioClip(name=str(value), parts=(Part(Path(value)),), max_seconds=max_seconds)


class AudioTask(Task):
    """A task whose inputs are recordings."""

    input_kind: ClassVar[InputKind] = "frames"
    # What a folder must have beside each recording.
    audio_target: ClassVar[Literal["label", "text"]] = "label"

    @classmethod
    def audio_reader(cls, options: Any, folder: str | None) -> AudioFolderReader:
        """The reader of a folder of recordings."""
        if folder is None:
            raise RegardError(
                "The task has no embedded data. Name a folder of WAV files with --train-file; see "
                "docs/audio.md."
            )
        path, seconds = Path(folder), options.max_seconds
        return AudioFolderReader(path=path, target=cls.audio_target, max_seconds=seconds)

    @classmethod
    def evaluation_reader(
        cls, options: Any, folder: str | None, *, split: Split = "test"
    ) -> AudioFolderReader:
        """The reader of a folder to evaluate on: of its split of this name, if it has one."""
        whole = cls.audio_reader(options, folder)
        return whole.with_split(split) if split in whole.splits() else whole

    @classmethod
    def audio_readers(cls, options: Any) -> dict[Split, AudioFolderReader]:
        """The splits of a folder: by speakers, by its own splits, or by files of their own."""
        whole = cls.audio_reader(options, options.train_file)
        known = whole.splits()
        train = whole.with_split("train") if known else whole
        held_out = (*options.validation_speakers, *options.test_speakers)
        found = dict[Split, AudioFolderReader]()
        found["train"] = replace(train, without_speakers=held_out)
        names: tuple[Split, Split] = ("validation", "test")
        for name in names:
            file = getattr(options, f"{name}_file")
            speakers = getattr(options, f"{name}_speakers")
            if file and speakers:
                raise RegardError(
                    f"task.{name}_speakers={list(speakers)} and --{name}-file {file}: give one of the two."
                )
            if file:
                found[name] = cls.evaluation_reader(options, file, split=name)
            elif speakers:
                found[name] = replace(whole, speakers=speakers)
            elif name in known:
                if options.split_by == "speaker":
                    raise RegardError(
                        f"task.split_by='speaker': '{whole.path}' has a split {name} of its own, with all "
                        f"speakers. Name those to hold out, as in task.{name}_speakers=['ann']."
                    )
                found[name] = replace(whole.with_split(name), without_speakers=held_out)
        if options.split_by == "speaker" and len(found) < 3:
            speakers = set(whole.all_speakers()) - set(held_out)
            if len(speakers) <= 3 - len(found):
                number = counted(len(speakers), "known speaker")
                raise RegardError(
                    f"task.split_by='speaker': '{whole.path}' has {number} for the splits, each of which "
                    "needs one. Use task.split_by='recording', or name speakers with "
                    "task.validation_speakers and task.test_speakers."
                )
        return found

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, each recording at one of its speeds, augmented and normalised."""
        train = self.dataset.train
        generator = np.random.default_rng([self.seed, number, AUGMENT_SEED])
        examples = train
        if isinstance(train, AudioExamples) and self.options.speeds != (1.0,):
            examples = train.at_speeds(generator.integers(len(train.copies), size=len(train)))
        collate = partial(self._collate, examples, number)
        return self.batches(examples, epoch=number, collate=collate)

    def _collate(self, examples: Examples, epoch: int, rows: Int64[np.ndarray, " rows"]) -> Batch:
        preprocessor = self.dataset.preprocessor
        frames = []
        for row in rows.tolist():
            found = examples.inputs[row]
            if not self.options.is_off:
                generator = np.random.default_rng([self.seed, epoch, row, AUGMENT_SEED])
                found = augment(found, self.options, generator=generator)
            frames.append(preprocessor.normalize(found))
        return Batch(padded_frames(frames), examples.collate_targets(rows))


def padded_frames(frames: Sequence[Float[np.ndarray, "frames features"]]) -> FrameInput:
    """Rows of frames, padded with zeros."""
    lengths = torch.tensor([len(each) for each in frames])
    padded = torch.zeros(len(frames), int(lengths.max()), frames[0].shape[1])
    for row, each in zip(padded, frames, strict=True):
        row[: len(each)] = torch.from_numpy(np.ascontiguousarray(each))
    return FrameInput(padded, lengths)
