"""Where the task `classify` finds labelled texts: a file, or a set that an installed package holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.data.film_languages import FilmLanguages
from regard.data.labelled_rows import LabelledSource
from regard.data.movie_reviews import MovieReviews
from regard.data.pair_rows import as_column
from regard.tasks.classify_options import DEFAULT_LABELS, ClassifyOptions

Source = LabelledSource | FilmLanguages | MovieReviews

SETS: dict[str, Callable[[], Source]] = {
    "film-languages": FilmLanguages,
    "movie-reviews": MovieReviews,
    "movie-sentences": lambda: MovieReviews(name="rotten_tomatoes"),
}


def source_of(options: ClassifyOptions, text: str | None) -> Source:
    """What an option names: a set by its name, or a file, with the columns of the task."""
    name = DEFAULT_LABELS if text is None else text
    if name in SETS:
        return SETS[name]()
    text_column, label_column = (
        None if column is None else as_column(column)
        for column in (options.text_column, options.label_column)
    )
    return LabelledSource(
        path=Path(name),
        format=options.format,
        text_column=text_column,
        label_column=label_column,
        header=options.header,
        max_line_bytes=options.max_line_bytes,
    )
