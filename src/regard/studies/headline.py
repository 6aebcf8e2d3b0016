"""The verdict of a study in a few sentences, as its page begins."""

from __future__ import annotations

from collections.abc import Sequence

from regard.studies.item_comparison import ItemComparison, ItemPair
from regard.studies.seed_comparison import FEWEST_SEEDS, SeedComparison, SeedPair

MOST_LISTED = 6


def headline(
    over_seeds: SeedComparison, on_items: ItemComparison | None, *, metric: str, part: str
) -> tuple[str, ...]:
    """What may be said of the methods, then what may be said of these models."""
    left_out = [
        f"Left out of every comparison: {arm.arm} ({arm.reason})." for arm in over_seeds.excluded
    ]
    if not over_seeds.arms:
        return ("No arm has been run to its end, so there is nothing to say yet.",)
    sign = 1 if over_seeds.lower_is_better else -1
    ordered = sorted(over_seeds.arms, key=lambda arm: sign * arm.mean)
    best = ordered[0]
    over = f"on {part}, {best.mean:.2f}, over {_counted(len(over_seeds.seeds), 'seed')}"
    if len(ordered) == 1:
        return (
            f"{best.arm} has a mean {metric} {over}; there is nothing to compare it with.",
            *left_out,
        )
    told = [f"{best.arm} has the {'lowest' if sign == 1 else 'highest'} mean {metric} {over}."]
    if len(over_seeds.seeds) < FEWEST_SEEDS:
        told.append(
            f"That is true of these runs only: a claim about the methods takes {FEWEST_SEEDS} seeds."
        )
    else:
        told.append(
            _split(best.arm, _against(best.arm, over_seeds.pairs), "over seeds", "The method")
        )
    if on_items is not None and on_items.pairs:
        leading = min(on_items.arms, key=lambda arm: sign * arm.score).arm
        told.append(
            _split(
                leading,
                _against(leading, on_items.pairs),
                f"on items like these {on_items.items:,}",
                "Of these trained models, those of",
            )
        )
    return (*told, *left_out)


def _against(arm: str, pairs: Sequence[SeedPair] | Sequence[ItemPair]) -> dict[str, str]:
    """Other arm → the verdict on `arm` against it."""
    turned = {"better": "worse", "worse": "better"}
    found: dict[str, str] = {}
    for pair in pairs:
        if pair.first == arm:
            found[pair.second] = pair.verdict
        elif pair.second == arm:
            found[pair.first] = turned.get(pair.verdict, pair.verdict)
    return found


def _split(arm: str, against: dict[str, str], where: str, who: str) -> str:
    better = [other for other, verdict in against.items() if verdict == "better"]
    rest = [other for other in against if other not in better]
    verb = "are" if who.endswith("those of") else "is"
    parts = []
    if better:
        parts.append(f"{verb} better than {_listed(better)}")
    if rest:
        parts.append(f"cannot be told apart from {_listed(rest)}")
    return f"{who} {arm} {' and '.join(parts)} {where}."


def _listed(names: Sequence[str]) -> str:
    """Names in a row; a long row is cut short.

    >>> _listed(["dot", "additive", "location"])
    'dot, additive and location'
    """
    if len(names) > MOST_LISTED:
        return f"{', '.join(names[:MOST_LISTED])} and {len(names) - MOST_LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
