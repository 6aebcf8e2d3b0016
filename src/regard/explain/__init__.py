"""Explaining trained models: what a classifier attended to, and the trees of an autoencoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.explain.media_classifier import (
        explain_image as explain_image,
        explain_recording as explain_recording,
    )
    from regard.explain.text_classifier import (
        builds_trees as builds_trees,
        explain_text as explain_text,
        find_phrases as find_phrases,
        parse_tree as parse_tree,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
