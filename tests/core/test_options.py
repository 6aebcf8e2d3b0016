"""Options: strict types, conversions, errors, and the identity of options that were added later."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pytest
from tests.factories.introduced import option_classes

from regard.core.errors import RegardError
from regard.core.options import (
    Introduced,
    Options,
    PositiveFloat,
    PositiveInt,
    Probability,
    introduced_defaults,
    options_of,
    validated,
)
from regard.training.options import TrainingOptions


class First(Options):
    """The options of a first release."""

    SECTION: ClassVar[str] = "model"

    width: PositiveInt = 8
    cell: str | None = None
    kernels: tuple[int, ...] = (3, 5)


class Later(First):
    """An option was added."""

    dropout: Probability = 0.0


class Changed(First):
    """Its default changed afterwards."""

    dropout: Annotated[Probability, Introduced(0.0)] = 0.1


class Layer:
    """Its constructor is a schema too."""

    @validated
    def __init__(
        self, *, source: int = 3, width: PositiveInt, drop: Annotated[float, Introduced(0.0)] = 0.5
    ) -> None:
        self.width = width


def test_added_option_changes_no_key_and_a_changed_default_does() -> None:
    assert First(width=3).identity() == Later(width=3).identity()
    assert Later(dropout=0.2).identity() != Later().identity()
    assert Changed().identity() != Later().identity()
    assert Changed(dropout=0.0).identity() == First().identity()


class AddedTraining(TrainingOptions):
    """Training options with one more."""

    OWNER = "TrainingOptions"
    nesterov: Probability = 0.5


class ChangedTraining(TrainingOptions):
    """Training options with another default."""

    OWNER = "TrainingOptions"
    learning_rate: PositiveFloat = 5e-3


def test_defaults_of_introduction_are_recorded() -> None:
    own = TrainingOptions(steps=3)
    assert AddedTraining(steps=3).identity() == own.identity() == {"steps": 3}
    assert AddedTraining(steps=3, nesterov=0.9).identity() != own.identity()
    assert ChangedTraining(steps=3).identity() != own.identity()
    assert ChangedTraining.from_record({"steps": 3}).learning_rate == own.learning_rate
    missing = {
        f"{owner}.{name}"
        for owner, kind in option_classes().items()
        for name in kind.introduced()
        if name not in introduced_defaults().get(owner, {})
    }
    assert not missing, "run: python -m tests.factories.introduced"


def test_record_without_an_option_has_the_default_of_its_introduction() -> None:
    stored = First(width=3).as_dict()
    assert Changed.from_record(stored).dropout == 0.0
    assert Changed(**stored).dropout == 0.1
    assert Changed.from_record(stored).identity() == First(width=3).identity()


def test_options_of_a_signature_have_an_identity_too() -> None:
    kind = options_of(Layer, section="model", reserved=("source",))
    assert kind(width=2).as_kwargs() == {"width": 2, "drop": 0.5}
    assert kind.from_record({"width": 2}).as_kwargs() == {"width": 2, "drop": 0.0}
    assert kind.from_record({"width": 2}).identity() == {"width": 2}


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"width": 1e3}, 1000), ({"cell": "none"}, "none"), ({"kernels": [1, 2]}, (1, 2))],
)
def test_plain_values_are_converted(given: dict[str, Any], expected: Any) -> None:
    (name,) = given
    assert getattr(First(**given), name) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, r"model\.width=0: .*greater than or equal to 1.* default is 8"),
        ({"width": True}, r"model\.width=True"),
        ({"width": "3"}, r"model\.width=3: .*integer"),
        ({"widht": 3}, r"Unknown option 'model\.widht'\. Did you mean 'model\.width'"),
        ({"kernels": ["a"]}, r"model\.kernels=\['a'\]"),
    ],
)
def test_errors_name_option_value_and_rule(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        First(**given)


def test_signature_is_a_schema() -> None:
    kind = options_of(Layer, section="model", reserved=("source",))
    assert kind(width=4.0).as_kwargs()["width"] == 4
    with pytest.raises(RegardError, match=r"model\.width=0"):
        kind(width=0)
    with pytest.raises(RegardError, match=r"model\.width is missing"):
        kind()
    with pytest.raises(RegardError, match=r"'model\.nam'.*Did you mean 'model\.name'"):
        kind.validate_names({"nam": "x"}, section_keys=("name",))
    with pytest.raises(RegardError, match=r"Unknown option 'model\.source'"):
        kind.validate_names({"source": 3})


def test_validated_constructor() -> None:
    assert Layer(width=3).width == 3
    with pytest.raises(RegardError, match=r"Layer\.width=0"):
        Layer(width=0)


class Kinds(Options):
    """Options of every kind."""

    SECTION: ClassVar[str] = "model"

    count: int = 1
    rate: float | None = None
    flag: bool = False
    name: str = "a"
    sizes: tuple[int, ...] = ()
    table: dict[str, Any] | None = None
    column: int | str | None = None


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("count", "x", "it must be an integer. The default is 1."),
        ("rate", "x", "it must be a number."),
        ("flag", "maybe", "it must be true or false. The default is false."),
        ("name", 3, "it must be text. The default is a."),
        ("sizes", 3, "it must be a list."),
        ("column", 1.5, "it must be an integer or text."),
    ],
)
def test_wrong_type_is_named_in_our_words(option: str, value: Any, rule: str) -> None:
    with pytest.raises(RegardError) as raised:
        Kinds(**{option: value})
    assert str(raised.value) == f"model.{option}={value}: {rule}"
