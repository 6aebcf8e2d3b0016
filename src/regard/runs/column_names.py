"""Columns as the command line calls them, and as a task does: a label is the target of a text."""

from __future__ import annotations

from collections.abc import Container

OF_LABELLED_TEXTS = {"source_column": "text_column", "target_column": "label_column"}


def renamed(option: str, known: Container[str]) -> str:
    """The task's own word for an option.

    >>> renamed("source_column", {"text_column", "label_column"})
    'text_column'
    >>> renamed("source_column", {"source_column"})
    'source_column'
    """
    return option if option in known else OF_LABELLED_TEXTS.get(option, option)
