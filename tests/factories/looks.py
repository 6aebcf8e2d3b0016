"""Records of `regard look` with realistic attention: texts, short and long, trees, images, sounds."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tests.factories.documents import make_document_record
from tests.factories.pictures import classified
from tests.factories.runs import heard, tree_run
from torch import Tensor

from regard.core.records.document import Estimate
from regard.core.records.look import (
    Axis,
    FaithfulnessCurves,
    HeadScores,
    LayerMaps,
    LookRecord,
    Method,
    OutputToken,
)
from regard.explain.look_maps import pack_maps

WEIGHTS = Method(
    name="weights", title="Attention weights", meaning="How much of each value is read."
)
NORM = Method(
    name="contribution_norm",
    title="Contribution norm",
    meaning="The norm of what each key adds to the output of a head.",
)
GRADIENT = Method(
    name="gradient_attention",
    title="Gradient × attention",
    meaning="The weight times the derivative of the score by it.",
    is_signed=True,
)
ROLLOUT = Method(
    name="rollout",
    title="Rollout",
    meaning="Weights multiplied through the layers.",
    is_heuristic=True,
)
TEXT = ("the", "cat", "sat", "on", "the", "mat", ".", "the", "cat", "sat", "on")
FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.8)


def soft(
    queries: int, keys: int, *, seed: int, is_causal: bool = False, sharpness: float = 4.0
) -> Tensor:
    """Weights of one head: a diagonal, a sink or noise, by seed."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, keys, generator=generator)
    place = torch.arange(keys)[None, :] - torch.arange(queries)[:, None] * keys / max(queries, 1)
    if seed % 3 == 0:
        scores = scores - (place + seed % 2).abs() * sharpness / 4
    elif seed % 3 == 1:
        scores[:, 0] += sharpness
    if is_causal:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), -torch.inf)
    return torch.nan_to_num(scores.softmax(dim=-1))


def maps_of(
    layer: str,
    method: Method,
    *,
    queries: tuple[str, int],
    keys: tuple[str, int],
    heads: int = 4,
    exact: Sequence[str] | None = None,
    is_causal: bool = False,
    seed: int = 0,
) -> LayerMaps:
    """The maps of a layer; those of a signed method have both signs. All heads are `exact` by default."""
    names = [str(number) for number in range(1, heads + 1)]
    values = torch.stack(
        [
            soft(queries[1], keys[1], seed=seed + number, is_causal=is_causal)
            for number in range(heads)
        ]
    )
    if method.is_signed:
        values = values * (torch.arange(keys[1]) % 3 - 1)
    if method is ROLLOUT:
        values, names = values.mean(dim=0, keepdim=True), ["all"]
    return pack_maps(
        values,
        layer=layer,
        method=method.name,
        queries=queries[0],
        keys=keys[0],
        heads=names,
        exact=names if exact is None else exact,
    )


def importance_of(size: int, methods: Sequence[Method]) -> dict[str, tuple[float, ...]]:
    """Some positions stand out; of a signed method, some are negative."""
    return {
        each.name: tuple(
            (1.0 if place % 4 == 1 else 0.15) * (-1 if each.is_signed and place % 5 == 2 else 1)
            for place in range(size)
        )
        for each in methods
    }


def curves_of(method: str) -> FaithfulnessCurves:
    """A method that is better than random."""
    return FaithfulnessCurves(
        method=method,
        fractions=FRACTIONS,
        deletion=(0.7, 0.5, 0.4, 0.3, 0.2),
        random_deletion=(0.88, 0.8, 0.7, 0.5, 0.25),
        sufficiency=(0.4, 0.6, 0.7, 0.8, 0.9),
        random_sufficiency=(0.2, 0.25, 0.4, 0.6, 0.85),
        deletion_gain=Estimate(mean=0.18, low=0.14, high=0.22),
        sufficiency_gain=Estimate(mean=0.16, low=-0.02, high=0.2),
        score="probability of the predicted label",
        items=200,
        data="validation",
    )


def language_model(model: str = "runs/lm", *, seed: int = 0, **change: Any) -> LookRecord:
    """Two layers of four heads over a text and its continuation, by four methods."""
    methods = (WEIGHTS, NORM, GRADIENT, ROLLOUT)
    size, written = len(TEXT), 4
    axis = ("input", size)
    maps = tuple(
        maps_of(
            f"decoder/{layer}", each, queries=axis, keys=axis, is_causal=True, seed=seed + 5 * layer
        )
        for each in methods
        for layer in range(2)
        if not (each is ROLLOUT and layer)
    )
    found = LookRecord(
        title=" ".join(TEXT[: size - written]),
        model=model,
        description="decoder-only language model, 2 layers × 4 heads",
        prediction=" ".join(TEXT[size - written :]),
        probabilities={"mat": 0.62, "floor": 0.2, "sofa": 0.08},
        axes={"input": Axis(tokens=TEXT)},
        methods=methods,
        maps=maps,
        importance=importance_of(size, methods),
        target="log-probability of 'on'",
        completeness_error=3e-7,
        patterns=tuple(
            HeadScores(
                layer=f"decoder/{layer}",
                head=str(head),
                scores={
                    "previous token": 0.1 * head,
                    "first-token sink": 0.9 / head,
                    "same token": 0.05,
                    "induction": 0.2 * layer * head,
                },
            )
            for layer in range(2)
            for head in range(1, 5)
        ),
        faithfulness=(curves_of("weights"), curves_of("contribution_norm")),
        output_tokens=tuple(
            OutputToken(token=token, log_probability=-0.1 * (number + 1))
            for number, token in enumerate(TEXT[size - written :])
        ),
        notes=("Rollout is shown for the first layer only.",),
    )
    return dataclasses.replace(found, **change)


def translation(model: str = "runs/translate", **change: Any) -> LookRecord:
    """An encoder–decoder: self-attention of both sides, and cross-attention that is rectangular."""
    source = ("▁ein", "▁Haus", "▁am", "▁See", "</s>")
    target = ("▁a", "▁house", "▁by", "▁the", "▁la", "ke", "</s>")
    axes = {"input": source, "output": target, "decoder_input": ("<s>", *target[:-1])}
    sides = {name: (name, len(tokens)) for name, tokens in axes.items()}
    methods = (WEIGHTS, GRADIENT)
    layers = {
        "encoder/0": ("input", "input"),
        "decoder/0": ("decoder_input", "decoder_input"),
        "cross/0": ("output", "input"),
        "cross/1": ("output", "input"),
    }
    found = LookRecord(
        title="ein Haus am See",
        model=model,
        description="Transformer, 1 layer × 4 heads",
        prediction="a house by the lake",
        reference="a house on the lake",
        axes={name: Axis(tokens=tokens) for name, tokens in axes.items()},
        methods=methods,
        maps=tuple(
            maps_of(
                layer,
                each,
                queries=sides[queries],
                keys=sides[keys],
                is_causal=layer.startswith("decoder"),
                seed=3 * number,
            )
            for each in methods
            for number, (layer, (queries, keys)) in enumerate(layers.items())
        ),
        importance=importance_of(len(source), methods),
        output_tokens=tuple(
            OutputToken(token=token, log_probability=-0.02 * number)
            for number, token in enumerate(target)
        ),
        faithfulness_note="the model has no run, and no --validation-file was named",
    )
    return dataclasses.replace(found, **change)


def classified_document(**change: Any) -> LookRecord:
    """A document with sentence weights, read by pooling with two hops."""
    document = make_document_record(hops=2)
    tokens = document.tokens
    sides = ("hops", 2), ("input", len(tokens))
    layer = maps_of("pooling/0", WEIGHTS, queries=sides[0], keys=sides[1], heads=1)
    found = LookRecord(
        title=" ".join(tokens),
        model="runs/reviews",
        prediction=document.label,
        probabilities=document.probabilities,
        reference="positive",
        axes={"input": Axis(tokens=tokens), "hops": Axis(tokens=("hop 1", "hop 2"))},
        methods=(WEIGHTS,),
        maps=(layer,),
        importance={"weights": document.importance()},
        faithfulness=(curves_of("weights"),),
        document=document,
    )
    return dataclasses.replace(found, **change)


def parsed_tree(**change: Any) -> LookRecord:
    """A recursive autoencoder: a tree, and no attention."""
    (tree, *_) = tree_run().trees
    found = LookRecord(
        title=tree.title,
        model="runs/trees",
        prediction="positive",
        probabilities={"positive": 0.7, "mixed": 0.3},
        axes={"input": Axis(tokens=tree.leaves)},
        tree=tree,
        faithfulness_note="the model has no attention",
        notes=("The model has no attention.",),
    )
    return dataclasses.replace(found, **change)


def classified_picture(**change: Any) -> LookRecord:
    """A vision transformer: a class token and 2×3 patches, with signed methods too."""
    rows, columns = 2, 3
    places = [
        f"row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)
    ]
    tokens = ("class token", *places)
    side, methods = ("input", len(tokens)), (WEIGHTS, GRADIENT)
    image = classified()
    found = LookRecord(
        title="7.png",
        model="runs/digits",
        prediction="7",
        probabilities=image.probabilities,
        reference="1",
        axes={"input": Axis(tokens=tokens, grid=(rows, columns), prefix=1)},
        methods=methods,
        maps=tuple(
            maps_of(f"encoder/{layer}", each, queries=side, keys=side, seed=layer)
            for each in methods
            for layer in range(2)
        ),
        importance=importance_of(len(tokens), methods),
        faithfulness=(curves_of("weights"),),
        image=image,
    )
    return dataclasses.replace(found, **change)


def recognised_speech(**change: Any) -> LookRecord:
    """Characters of a recording, by cross-attention to its frames."""
    alignment = heard("ann/00000", "three one four")
    output, frames = alignment.output_tokens, alignment.source_tokens
    found = LookRecord(
        title="ann/00000",
        model="runs/strings",
        prediction="three one four",
        reference="three one four",
        axes={"input": Axis(tokens=frames), "output": Axis(tokens=output)},
        methods=(WEIGHTS,),
        maps=(
            maps_of(
                "cross/0",
                WEIGHTS,
                queries=("output", len(output)),
                keys=("input", len(frames)),
                heads=2,
            ),
        ),
        importance=importance_of(len(frames), (WEIGHTS,)),
        output_tokens=tuple(OutputToken(token=token, log_probability=-0.05) for token in output),
        sound=alignment.sound,
        alignment=alignment,
        faithfulness=(curves_of("weights"),),
    )
    return dataclasses.replace(found, **change)


def long_text(
    tokens: int = 200, *, layers: int = 2, heads: int = 4, exact: str = "2", **change: Any
) -> LookRecord:
    """Too long for full maps: the largest entries of each row, and one exact head in the first layer."""
    names = tuple(f"{TEXT[place % len(TEXT)]}{place}" for place in range(tokens))
    side = ("input", tokens)
    # Two layers are computed; further ones have their maps.
    packed = [
        maps_of(
            "",
            WEIGHTS,
            queries=side,
            keys=side,
            heads=heads,
            exact=() if layer or not exact else (exact,),
            seed=3 * layer,
        )
        for layer in range(min(layers, 2))
    ]
    maps = tuple(
        dataclasses.replace(packed[layer % len(packed)], layer=f"encoder/{layer}")
        for layer in range(layers)
    )
    found = LookRecord(
        title=" ".join(names),
        model="runs/long",
        prediction="news",
        probabilities={"news": 0.8, "sport": 0.2},
        axes={"input": Axis(tokens=names)},
        methods=(WEIGHTS,),
        maps=maps,
        importance=importance_of(tokens, (WEIGHTS,)),
        faithfulness_note="it was not asked for",
        notes=("Of heads that are not exact, the 16 largest entries of each row are kept.",),
    )
    return dataclasses.replace(found, **change)


@functools.cache
def huge_text() -> LookRecord:
    """2,000 tokens, 12 layers of 12 heads."""
    return long_text(2000, layers=12, heads=12, exact="")


# Two records are shown side by side.
LOOKS: dict[str, Callable[[], tuple[LookRecord, ...]]] = {
    name: functools.cache(records)
    for name, records in {
        "language-model": lambda: (language_model(),),
        "translation": lambda: (translation(),),
        "document": lambda: (classified_document(),),
        "tree": lambda: (parsed_tree(),),
        "image": lambda: (classified_picture(),),
        "sound": lambda: (recognised_speech(),),
        "long": lambda: (long_text(),),
        "two": lambda: (language_model(), language_model("runs/other", seed=40)),
        "unlike": lambda: (language_model(), classified_document()),
    }.items()
}
