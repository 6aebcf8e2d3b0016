"""Inputs for a run that come from elsewhere, such as over a network: texts, and the bytes of files.

    value, length = text_input(run, "a text", max_tokens=1000)
    value, length = file_input(run, content, max_pixels=25_000_000)

A text never names a file here, and bytes are decoded in memory. Values are inputs of `TrainedRun.predict`,
lengths say which are alike.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from regard.core.errors import RegardError
from regard.core.formatting import counted, integer_text
from regard.data.audio.clips import AudioClip, Part
from regard.data.images.pixels import read_image
from regard.data.media_files import MediaBytes
from regard.runs.load import TrainedRun
from regard.tasks import task_class

InputName = Literal["text", "sound", "image", "frames"]
# More characters than this for each token are not even counted.
MAX_TOKEN_CHARACTERS = 50
UPLOAD = "upload"  # what a file is called, whose name is not sent


class EncodedInput(NamedTuple):
    """An input and its length: tokens, frames, or 1 for an image."""

    value: Any
    length: int


def input_name(run: TrainedRun) -> InputName:
    """What a run takes; "frames" are features that were computed elsewhere, which no file has."""
    kind = task_class(run.spec.task).input_kind
    if kind == "tokens":
        return "text"
    if kind == "images":
        return "image"
    return "sound" if run.preprocessor.has_pictures else "frames"


def text_input(run: TrainedRun, text: str, *, max_tokens: int) -> EncodedInput:
    """A text of at most `max_tokens` tokens."""
    _validate_kind(run, "text")
    most = max_tokens * MAX_TOKEN_CHARACTERS
    if len(text) > most:
        raise RegardError(
            f"The text has {counted(len(text), 'character')}, the maximum is {integer_text(most)} "
            f"({MAX_TOKEN_CHARACTERS} for each of {counted(max_tokens, 'token')}). Send a shorter text."
        )
    length = len(run.preprocessor.input.encode(text.strip()))
    if length > max_tokens:
        raise RegardError(
            f"The text has {counted(length, 'token')}, the maximum is {integer_text(max_tokens)}. Send a "
            "shorter text."
        )
    return EncodedInput(text, length)


def file_input(run: TrainedRun, content: bytes, *, max_pixels: int) -> EncodedInput:
    """The pixels of an image as the model takes them, or the frames of a sound."""
    _validate_kind(run, "file")
    if input_name(run) == "image":
        pixels = read_image(MediaBytes(UPLOAD, content), max_pixels=max_pixels)
        return EncodedInput(run.preprocessor.pixels(pixels), 1)
    frames = run.preprocessor.features(sound_input(run, content))
    kept, _ = run.preprocessor.cut(frames)
    return EncodedInput(kept, len(kept))


def sound_input(run: TrainedRun, content: bytes) -> AudioClip:
    """A recording that can be drawn and played; a long one is refused when it is decoded."""
    _validate_kind(run, "file")
    return AudioClip(
        name=UPLOAD,
        parts=(Part(MediaBytes(UPLOAD, content)),),
        max_seconds=run.preprocessor.options.max_seconds,
    )


_TAKEN = {
    "text": "texts. Send texts.",
    "sound": "sounds. Send the bytes of a WAV file.",
    "image": "images. Send the bytes of an image.",
    "frames": "arrays of frames. Use regard predict with --score FILE.npz.",
}


def _validate_kind(run: TrainedRun, given: Literal["text", "file"]) -> None:
    kind = input_name(run)
    if kind == "frames" or (kind == "text") != (given == "text"):
        raise RegardError(
            f"The input is a {given}, but the model '{run.folder.path.name}' takes {_TAKEN[kind]}"
        )
