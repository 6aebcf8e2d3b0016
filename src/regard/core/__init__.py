"""The mechanism contract, masks, costs, the FLOP counter, protocols, records and name lookup.

Imports no other package of `regard`. Exported is what a user's model, task or metric needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.core.batches import (
        FrameInput as FrameInput,
        FrameSpec as FrameSpec,
        ImageInput as ImageInput,
        ImageSpec as ImageSpec,
        TokenInput as TokenInput,
        TokenSpec as TokenSpec,
    )
    from regard.core.options import (
        Introduced as Introduced,
        Options as Options,
        PositiveInt as PositiveInt,
        Probability as Probability,
    )
    from regard.core.protocols import ClassifierOutput as ClassifierOutput
    from regard.core.traits import Size as Size, Slot as Slot, Traits as Traits

__all__, __getattr__, __dir__ = lazy_exports(__name__)
