"""Four claims about numbers, one for each verdict."""

from __future__ import annotations

from regard.claims.engine import claim
from regard.core.errors import MissingDependencyError
from regard.core.records.claim import Curve, CurveFigure, Finding, MatrixFigure

TOPIC = "claims"
LINES = CurveFigure(
    title="Squares & <cubes>",
    x_label="n",
    y_label="size",
    curves=(
        Curve(
            label="n² < n³",
            x=(1.0, 2.0, 3.0),
            y=(1.0, 4.0, 9.0),
            low=(0.5, 3.0, 8.0),
            high=(2.0, 5.0, 10.0),
        ),
        Curve(label="n³", x=(1.0, 2.0, 3.0), y=(1.0, 8.0, 27.0), dashed=True),
        Curve(label="seen", x=(2.0,), y=(4.0,), points_only=True),
    ),
    marks=((2.0, "from here"),),
)
TABLE = MatrixFigure(
    title="A <table>",
    values=((0.0, 1.0), (-4.0, 0.25)),
    row_labels=("a < b", "c"),
    column_labels=("left", "right"),
)


@claim(statement="Squares are <even>.", formula="n² & 1 = 0", source="nobody", proof="numeric")
def squares_are_even(*, n: int = 4, name: str = "4", scale: float = 1.0) -> Finding:
    """Holds for even n."""
    return Finding(
        verdict="fails" if n % 2 else "holds",
        reason=f"{n}² is {n * n} & {name} < {scale}.",
        values={"square": n * n, "kl_equal": 0.125},
        figure=LINES,
        counter_example=f"{n * n} is odd",
    )


@claim(
    statement="Squares are odd.",
    formula="n² = 1",
    source="nobody",
    proof="counted",
    known_false=True,
)
def squares_are_odd() -> Finding:
    """A false claim."""
    return Finding(
        verdict="fails",
        reason="4 is not.",
        values={},
        figure=TABLE,
        counter_example="2² = 4 <is> even",
    )


@claim(statement="Squares are large.", formula="n² > n", source="nobody", proof="measured")
def squares_are_large() -> Finding:
    """Under a condition."""
    values = {f"figure {number}": number for number in range(10)}
    return Finding(
        verdict="holds if", reason="1² = 1.", values=values, figure=LINES, condition="n > 1"
    )


@claim(
    statement="Squares are learned.", formula="–", source="nobody", proof="measured", trained=True
)
def squares_are_learned() -> Finding:
    """A claim with training whose data is missing."""
    raise MissingDependencyError("There are no squares in this folder. Fetch them.")


CLAIMS = (squares_are_even, squares_are_odd, squares_are_large, squares_are_learned)
