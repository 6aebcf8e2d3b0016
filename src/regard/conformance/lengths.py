"""What holds for a hundred tokens holds for several hundred.

The other checks stop at a length a little beyond the usual chunks and blocks. Here a cache has grown a
few times, and blocks follow one another that are neither the first nor the last.
"""

from __future__ import annotations

from regard.conformance.case import Case
from regard.conformance.inputs import Inputs, extend, forward, start, step, weights
from regard.conformance.verdict import NotApplicable, close
from regard.core.masks import Causal

# A multiple of no chunk size.
LONGEST = 419
# Few and large, so that the state grows as it does for a long prompt, and then token by token.
PIECES = (137, 200, 78)


def forward_when_long(case: Case) -> None:
    """`forward` is `weights @ value` at every place of a long sequence, under every mask."""
    sized = _narrow(case)
    inputs = _tokens(sized)
    for mask in sized.masks(inputs):
        expected = weights(sized.mechanism, inputs, mask) @ inputs.value
        what = f"forward against weights @ value, {LONGEST} tokens, under {mask}"
        close(forward(sized.mechanism, inputs, mask), expected, what)


def decoding_when_long(case: Case) -> None:
    """After a long prompt in large pieces, steps and a read give the last rows of `forward`."""
    sized = _narrow(case)
    inputs = _tokens(sized)
    expected = forward(sized.mechanism, inputs, sized.open_mask)
    state, end = start(sized.mechanism, inputs), 0
    for piece in PIECES:
        state = extend(sized.mechanism, state, inputs.keys(slice(end, end + piece)))
        end += piece
    after = state
    if "causal" in sized.promised.masks:
        causal = forward(sized.mechanism, inputs, Causal())
        for place in range(end, LONGEST):
            token = slice(place, place + 1)
            output, after = step(sized.mechanism, after, inputs.tokens(token))
            close(output, causal[:, :, token], f"position {place} decoded after a long prompt")
    else:
        after = extend(sized.mechanism, after, inputs.keys(slice(end, None)))
    last = inputs.query[:, :, -1:]
    got = sized.mechanism.read(after, last)
    close(got, expected[:, :, -1:], f"a read of {LONGEST} tokens against the last row of forward")


def _narrow(case: Case) -> Case:
    """The same subject, built long and narrow."""
    sized = case.sized(num_heads=2, key_dim=4, query_dim=4, value_dim=3, max_length=LONGEST)
    if not sized.fits(LONGEST):
        raise NotApplicable(f"it takes no more than {sized.promised.max_length} keys")
    return sized


def _tokens(case: Case) -> Inputs:
    return case.draw_tokens(LONGEST, batch_size=1)
