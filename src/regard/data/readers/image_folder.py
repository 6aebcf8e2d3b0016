"""Images with a label each, from a folder: folders of labels, or a metadata file.

    reader = ImageFolderReader(path=Path("digits"))
    for row in reader.rows(errors=RowErrors(skip=True)):
        row.input, row.target, row.line          an ImageFile, "three", 1

The layouts are those of Hugging Face's `imagefolder`. Every file is decoded once, to find damaged ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data.images.pixels import ImageFile
from regard.data.readers.folder_layouts import Item, Media
from regard.data.readers.media_folder import MediaFolderReader

IMAGES = Media(
    name="image",
    noun="image",
    suffixes=(
        *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
        *(".ppm", ".pgm", ".pbm"),
    ),
    layouts={
        "metadata": "metadata.csv or metadata.jsonl with columns file_name and label",
        "label_folders": "LABEL/image.png",
    },
)


@dataclass(frozen=True, kw_only=True)
class ImageFolderReader(MediaFolderReader):
    """The images of a folder; `split` is the one to read, by default all."""

    media: ClassVar[Media] = IMAGES

    def read_input(self, item: Item, path: Path) -> ImageFile:
        """The file, which can be decoded."""
        found = ImageFile(item.file, path)
        found.facts()
        return found
