"""Four statements about numbers, one with each verdict, for tests of what shows and runs claims."""

from __future__ import annotations

from regard.claims.engine import claim
from regard.core.errors import LackingError
from regard.core.records.claim import Curve, CurvePicture, Finding, MatrixPicture

TOPIC = "claims"
LINES = CurvePicture(
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
TABLE = MatrixPicture(
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
        because=f"{n}² is {n * n} & {name} < {scale}.",
        figures={"square": n * n, "kl_equal": 0.125},
        picture=LINES,
        counter_example=f"{n * n} is odd",
    )


@claim(
    statement="Squares are odd.",
    formula="n² = 1",
    source="nobody",
    proof="counted",
    marked_wrong=True,
)
def squares_are_odd() -> Finding:
    """A wrong one."""
    return Finding(
        verdict="fails",
        because="4 is not.",
        figures={},
        picture=TABLE,
        counter_example="2² = 4 <is> even",
    )


@claim(statement="Squares are large.", formula="n² > n", source="nobody", proof="measured")
def squares_are_large() -> Finding:
    """Under a condition."""
    figures = {f"figure {number}": number for number in range(10)}
    return Finding(
        verdict="holds if", because="1² = 1.", figures=figures, picture=LINES, boundary="n > 1"
    )


@claim(
    statement="Squares are learned.", formula="–", source="nobody", proof="measured", trained=True
)
def squares_are_learned() -> Finding:
    """One that would train, and lacks its data."""
    raise LackingError("There are no squares in this folder. Fetch them.")


CLAIMS = (squares_are_even, squares_are_odd, squares_are_large, squares_are_learned)
