"""A task without data: pairs of one length with drawn tokens, to plan what is not at hand yet."""

from __future__ import annotations

from functools import partial

import numpy as np

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.token_store import TokenStore
from regard.data.vocabulary import FIRST_TOKEN, Vocabulary
from regard.data.words import WordVocabulary
from regard.models.decoding import decode
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.held_out import HeldOut
from regard.tasks.pair_corpus import PairCorpus
from regard.tasks.pair_options import PairOptions
from regard.tasks.pair_task import PairTask
from regard.tasks.pair_vocabularies import PairVocabularies

# Letters, digits and signs of a European language.
CHARACTERS = 100


def made_up_task(spec: RunSpec, *, length: int) -> PairTask:
    """The task of a spec on one batch of pairs whose source and target have `length` tokens each.

    A vocabulary has the size that the options give, and of characters, CHARACTERS.
    """
    options, kind = spec.task_options, task_class(spec.task)
    if not issubclass(kind, PairTask) or not isinstance(options, PairOptions):
        raise RegardError(
            f"--length makes up pairs of texts, which the task '{spec.task}' does not learn from. Plan it "
            "with its data."
        )
    places = 2 * length + 3  # START once, END twice
    if length < 1 or places > options.batch_tokens:
        raise RegardError(
            f"--length {length}: a pair of such texts takes {places} places, and a batch has "
            f"task.batch_tokens={options.batch_tokens}. Choose a length of at least 1, or larger batches."
        )
    source = _vocabulary(options.source_tokens, options.vocabulary_size)
    target = (
        source
        if options.shared_vocabulary
        else _vocabulary(options.target_tokens, options.vocabulary_size)
    )
    rows = options.batch_tokens // places
    chance = np.random.default_rng(0)
    drawn = [
        chance.integers(FIRST_TOKEN, vocabulary.size, size=(rows, length)).tolist()
        for vocabulary in (source, target)
    ]
    nothing = HeldOut(sources=(), answers=())
    # A task must have something to evaluate on; no plan looks at it.
    one = HeldOut(sources=(source.tokens[0],), answers=((target.tokens[0],),))
    corpus = PairCorpus(
        vocabularies=PairVocabularies(source=source, target=target),
        train=TokenStore.build(zip(*drawn, strict=True)),
        dev=one,
        test=nothing,
        learned_too={},
        bad=BadRows(),
    )
    return kind(corpus=corpus, options=options, seed=spec.seed, decode=partial(decode, beam_size=1))


def _vocabulary(kind: str, size: int) -> Vocabulary:
    count = CHARACTERS if kind == "characters" else size
    return WordVocabulary(
        tokens=[str(number) for number in range(count - FIRST_TOKEN)], lowercase=False
    )
