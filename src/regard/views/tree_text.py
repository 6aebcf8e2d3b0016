"""A tree over a text as text: in brackets, and as an HTML list inside lists, which opens and closes.

    ((very good) film)

The list needs no script and no drawing, so it can be read aloud and searched; every node says its class,
how sure it is, and how badly its children are told from it.
"""

from __future__ import annotations

from regard.core.tree_record import TreeRecord
from regard.views.markup import Markup, element

# Lists are open down to this depth at first.
OPEN_LEVELS = 3


def tree_brackets(record: TreeRecord) -> str:
    """The tree on one line: a bracket around every join.

    A bracket that is a word is told from one of the tree by a backslash before it.
    """
    texts = [_escaped(leaf) for leaf in record.leaves]
    for left, right in record.joins:
        texts.append(f"({texts[left]} {texts[right]})")
    return texts[-1]


def tree_html(record: TreeRecord) -> Markup:
    """The tree from its root down. A join is a summary that opens on its two children."""
    words, depths = len(record.leaves), _depths(record)
    # From the leaves up, so that a deep tree needs no deep recursion.
    items: list[Markup] = [
        element("li", leaf, _note(record, node), class_="leaf")
        for node, leaf in enumerate(record.leaves)
    ]
    for node, (left, right) in enumerate(record.joins, start=words):
        inside = element("ul", items[left], items[right])
        summary = element("summary", record.phrase(node), _note(record, node))
        opened = element("details", summary, inside, open=depths[node] < OPEN_LEVELS)
        items.append(element("li", opened, class_="join"))
    return element("ul", items[-1], class_="tree", aria_label=f"Tree of: {record.title}")


def _depths(record: TreeRecord) -> list[int]:
    """How far below the root each node is."""
    depths = [0] * record.num_nodes
    for node in range(record.num_nodes - 1, len(record.leaves) - 1, -1):
        for child in record.joins[node - len(record.leaves)]:
            depths[child] = depths[node] + 1
    return depths


def _note(record: TreeRecord, node: int) -> Markup:
    note = f" {record.said[node]} {record.sure[node]:.0%}"
    if node >= len(record.leaves):
        note += f", error {record.errors[node - len(record.leaves)]:.2f}"
    return element("small", note)


def _escaped(leaf: str) -> str:
    return leaf.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
