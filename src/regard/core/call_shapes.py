"""What the tensors of an attention call must agree on, and the error when they do not."""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import Mask

LAYOUT = ("batch", "heads", "length", "width")


def refuse_misshapen(query: Tensor, key: Tensor, value: Tensor | None, mask: object) -> None:
    """Refuse tensors that are not (batch, heads, length, width) or do not belong together."""
    if not isinstance(mask, Mask):
        raise RegardError(
            f"mask is a {type(mask).__name__}; it must be a Mask, such as Causal(), "
            "Padding(lengths) or Allowed(boolean tensor)."
        )
    tensors = {"query": query, "key": key} | ({} if value is None else {"value": value})
    for name, tensor in tensors.items():
        if tensor.dim() != len(LAYOUT):
            raise RegardError(
                f"{name} has shape {tuple(tensor.shape)}; it must be ({', '.join(LAYOUT)}). "
                "A layer such as MultiHead takes (batch, length, width) and makes the heads."
            )
        if tensor.shape[0] != query.shape[0]:
            raise RegardError(
                f"{name} has {tensor.shape[0]} rows and query has {query.shape[0]}: "
                "all must have the same batch."
            )
        if query.shape[1] % max(tensor.shape[1], 1) != 0:
            raise RegardError(
                f"{name} has {tensor.shape[1]} heads and query has {query.shape[1]}: "
                "key/value heads must divide query heads."
            )
    if value is not None and value.shape[1:3] != key.shape[1:3]:
        raise RegardError(
            f"key has {key.shape[1]} heads of length {key.shape[2]} and value {value.shape[1]} of "
            f"length {value.shape[2]}: every key needs one value."
        )
    refuse_wrong_lengths(mask, batch_size=query.shape[0], key_length=key.shape[2])
    if mask.allowed is not None:
        wanted = (*query.shape[:3], key.shape[2])
        given = tuple(mask.allowed.shape)
        if any(size not in (1, whole) for size, whole in zip(given, wanted, strict=True)):
            raise RegardError(
                f"Allowed has shape {given}; it must broadcast to (batch, heads, n_q, n_k) = {wanted}."
            )


def refuse_wrong_lengths(mask: Mask, *, batch_size: int, key_length: int) -> None:
    """Refuse a padding that does not give every row a length within the sequence."""
    if mask.lengths is None:
        return
    if len(mask.lengths) != batch_size:
        raise RegardError(
            f"Padding has {len(mask.lengths)} lengths for {batch_size} rows: give one a row."
        )
    if batch_size and int(mask.lengths.max()) > key_length:
        raise RegardError(
            f"Padding has a length of {int(mask.lengths.max())} and there are {key_length} keys: "
            "a row cannot be longer than the sequence."
        )


def refuse_misextended(key: Tensor, value: Tensor, mask: object) -> None:
    """Refuse what a decoding state cannot take in; of masks it takes padding alone."""
    refuse_misshapen(key, key, value, mask)
    assert isinstance(mask, Mask)
    foreign = mask.kinds - {"padding"}
    if foreign:
        raise RegardError(
            f"extend was given the mask {mask}; a state takes Padding(lengths) alone, and reads "
            "everything that it has taken in."
        )
