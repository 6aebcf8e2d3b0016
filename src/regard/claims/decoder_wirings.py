"""What changes in a recurrent decoder when a token or its attention is changed: the order of its wiring."""

from __future__ import annotations

import numpy as np
import torch

from regard.models.recurrent import RecurrentEncoderDecoder

TOKENS = 12


def changed_weights(wiring: str, *, steps: int) -> np.ndarray:
    """Row t: by how much the weights of every step change if the token given at step t does."""
    model = _decoder(wiring)
    source, lengths, given = _texts(steps)
    with torch.inference_mode():
        weights = model.weights(source, lengths, given)["cross/0"][0, 0]
        rows = []
        for step in range(steps):
            other = given.clone()
            other[0, step] = 4 + (int(given[0, step]) - 4 + 1) % (TOKENS - 4)
            changed = model.weights(source, lengths, other)["cross/0"][0, 0]
            rows.append((changed - weights).abs().amax(dim=1).numpy())
    return np.stack(rows)


def changed_state(wiring: str, *, steps: int) -> float:
    """By how much the last state changes if the attention reads otherwise, all else being equal."""
    model = _decoder(wiring)
    mechanism = model.decoder.mechanism
    assert mechanism is not None
    states = []
    with torch.no_grad():
        for _ in range(2):
            state = model.start(*_texts(steps)[:2])
            for token in _texts(steps)[2].unbind(1):
                state = model.step(state, token).state
            states.append(state.hidden)
            for parameter in mechanism.parameters():
                parameter.neg_()
    return float((states[1] - states[0]).abs().max())


def _decoder(wiring: str) -> RecurrentEncoderDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = RecurrentEncoderDecoder(
            source_vocabulary=TOKENS,
            target_vocabulary=TOKENS,
            embedding_dim=8,
            hidden_dim=8,
            wiring=wiring,
            mechanism="general",
        )
        # Embeddings start small; larger ones make changes easy to see.
        for table in (model.source_embedding, model.target_embedding):
            torch.nn.init.normal_(table.weight)
    return model.double().eval()


def _texts(steps: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A source of six tokens with its length, and the tokens given to the decoder."""
    drawn = torch.Generator().manual_seed(1)
    source = torch.randint(4, TOKENS, (1, 6), generator=drawn)
    return source, torch.tensor([6]), torch.randint(4, TOKENS, (1, steps), generator=drawn)
