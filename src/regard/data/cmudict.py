"""The CMU Pronouncing Dictionary that is already on the machine: real data without a download.

The package `pocketsphinx` (BSD) carries it: about 126,000 English words with 39 phones, no stress.
Only its file is read; the package is not imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from regard.core.errors import LackingError
from regard.data.pair_rows import PairSource

PACKAGE = "pocketsphinx"
FILE = Path("model", "en-us", "cmudict-en-us.dict")


def embedded_dictionary() -> PairSource:
    """The dictionary's pairs: a word in small letters, its phones with spaces between."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        path = Path(folder) / FILE
        if path.is_file():
            return PairSource(path=path, format="dictionary")
    raise LackingError(
        f"The embedded pronouncing dictionary is the file {FILE} of the package '{PACKAGE}', which "
        f"is not installed here. Run: pip install {PACKAGE}"
    )
