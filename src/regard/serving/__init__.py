"""A local server for trained runs: a live page, and a small typed API. Not a production server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.serving.app import create_app as create_app
    from regard.serving.limits import Limits as Limits
    from regard.serving.models import served_models as served_models
    from regard.serving.queue import WorkQueue as WorkQueue

__all__, __getattr__, __dir__ = lazy_exports(__name__)
