"""Explaining models: their attention by several methods, changes of it, and the trees of an autoencoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.explain.attribution import (
        Attribution as Attribution,
        attribute as attribute,
        input_importance as input_importance,
    )
    from regard.explain.faithfulness import measure_faithfulness as measure_faithfulness
    from regard.explain.head_patterns import PATTERNS as PATTERNS, score_patterns as score_patterns
    from regard.explain.interventions import (
        HeadEdit as HeadEdit,
        KnockOut as KnockOut,
        MeanHead as MeanHead,
        PatchWeights as PatchWeights,
        SetWeights as SetWeights,
        ZeroHead as ZeroHead,
    )
    from regard.explain.look import LookInput as LookInput, LookSource as LookSource
    from regard.explain.media_classifier import (
        explain_image as explain_image,
        explain_recording as explain_recording,
    )
    from regard.explain.methods import (
        METHODS as METHODS,
        contributions as contributions,
        method_maps as method_maps,
        rollout as rollout,
    )
    from regard.explain.model_source import ModelSource as ModelSource
    from regard.explain.run_source import RunSource as RunSource
    from regard.explain.text_classifier import (
        builds_trees as builds_trees,
        explain_text as explain_text,
        find_phrases as find_phrases,
        parse_tree as parse_tree,
    )
    from regard.explain.trace import (
        AttentionCall as AttentionCall,
        Intervention as Intervention,
        Trace as Trace,
        trace_attention as trace_attention,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
