"""Models of other libraries: the attention of Hugging Face models, and pretrained weights on this disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.integrations.hugging_face import trace_hugging_face as trace_hugging_face
    from regard.integrations.pretrained import (
        PretrainedModel as PretrainedModel,
        load_pretrained as load_pretrained,
    )
    from regard.integrations.pretrained_source import PretrainedSource as PretrainedSource

__all__, __getattr__, __dir__ = lazy_exports(__name__)
