"""Initialisation by name, and dropout by layer and step."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.factories.sounds import write_digits
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.errors import RegardError
from regard.layers import Dropout
from regard.runs.spec import RunSpec, merge_sections
from regard.studies import StudySpec, read_study
from regard.studies.spec import builtin_studies
from regard.training.checkpoint import model_state
from regard.training.seeding import RandomStreams, build_seeded


class Example(nn.Module):
    """Draws in every way that constructors here do."""

    def __init__(self, *, extra: bool = False, width: int = 4) -> None:
        super().__init__()
        if extra:
            self.extra = nn.Parameter(torch.randn(3))
        self.linear = nn.Linear(width, 5)
        for part in self.linear.weight.split_with_sizes((2, 3)):
            nn.init.xavier_uniform_(part)
        self.scaled = nn.Parameter(torch.randn(6) * 0.5)
        self.orthogonal = nn.Parameter(torch.empty(4, 4))
        nn.init.orthogonal_(self.orthogonal)
        self.recurrent = nn.LSTM(width, 3)
        self.embedding = nn.Embedding(7, 2, padding_idx=0)
        self.register_buffer("noise", torch.rand(2))


def differing(first: nn.Module, second: nn.Module) -> set[str]:
    """Tensors of equal name and shape with different values."""
    one, other = model_state(first), model_state(second)
    return {
        name
        for name in one.keys() & other.keys()
        if one[name].shape == other[name].shape and not torch.equal(one[name], other[name])
    }


def test_one_more_parameter_changes_no_other() -> None:
    plain = build_seeded(Example, seed=0)
    extended = build_seeded(lambda: Example(extra=True), seed=0)
    assert model_state(extended).keys() - model_state(plain).keys() == {"extra"}
    assert not differing(plain, extended)


def test_a_wider_input_changes_only_tensors_whose_distribution_depends_on_it() -> None:
    plain = build_seeded(Example, seed=0)
    wider = build_seeded(lambda: Example(width=6), seed=0)
    # nn.Linear draws its bias within 1/√width.
    assert differing(plain, wider) == {"linear.bias"}


def test_every_tensor_depends_on_the_seed_and_its_name() -> None:
    first, second = (build_seeded(Example, seed=seed) for seed in (0, 1))
    assert differing(first, second) == model_state(first).keys()
    pair = build_seeded(lambda: nn.ModuleList(nn.Linear(3, 3) for _ in range(2)), seed=0)
    assert not torch.equal(pair[0].weight, pair[1].weight)  # type: ignore[index]


def test_constructors_keep_their_distribution_and_the_random_state() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    model = build_seeded(lambda: nn.Linear(100, 1000), seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    weight: Tensor = model.weight  # type: ignore[assignment]
    assert weight.abs().max() <= 0.1
    assert weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    embedding = build_seeded(lambda: nn.Embedding(7, 2, padding_idx=0), seed=0)
    assert not embedding.weight[0].any()  # type: ignore[index]


def test_a_model_on_the_meta_device_is_built_once() -> None:
    built = []

    def build() -> nn.Module:
        built.append(nn.Linear(2, 2))
        return built[-1]

    with torch.device("meta"):
        build_seeded(build, seed=0)
    assert len(built) == 1


def mechanism_pairs() -> list[tuple[str, str, str]]:
    """Study and names of two variants that differ in the mechanism alone."""
    found = []
    for name in builtin_studies():
        variants = StudySpec.from_sections(read_study(name)).variants
        groups: dict[str, str] = {}
        for variant in variants:
            model = dict(variant.changes.get("model", {}))
            has_mechanism = model.pop("mechanism", "none") != "none"
            model.pop("mechanism_options", None)
            if has_mechanism:
                rest = repr({**variant.changes, "model": model})
                first = groups.setdefault(rest, variant.name)
                if first != variant.name:
                    found.append((name, first, variant.name))
    return found


@pytest.mark.parametrize(("study", "first", "second"), mechanism_pairs())
def test_variants_of_another_mechanism_share_every_other_tensor(
    study: str, first: str, second: str, preprocessors: Callable
) -> None:
    spec = StudySpec.from_sections(read_study(study))
    one, other = (preprocessors(spec, spec.variant(name)) for name in (first, second))
    assert not differing(one, other)
    states = model_state(one), model_state(other)
    for own, rest in (states, states[::-1]):
        unshared = {name for name in own if name not in rest or rest[name].shape != own[name].shape}
        assert all(".mechanism." in name or ".extras." in name for name in unshared)


@pytest.fixture(scope="module")
def preprocessors(tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """Builds the model of a variant; data is read once per study, and speech is synthesised."""
    from regard.runs.build import build_spec_model
    from regard.studies.prepare import _DataCache

    cache = _DataCache()
    digits = write_digits(tmp_path_factory.mktemp("digits"))
    few = dict.fromkeys(("num_strings", "num_validation_strings", "num_test_strings"), 4)
    speech = {"task": {"train_file": str(digits), "validation_fraction": 0.3, **few}}

    def build(study: StudySpec, variant) -> nn.Module:  # type: ignore[no-untyped-def]
        run = study.run_spec(variant, seed=3)
        if run.task == "speech_recognition":
            run = RunSpec.from_sections(merge_sections(run.as_sections(), speech))
        return build_spec_model(run, cache.get(run).task.dataset.preprocessor)

    return build


class Layers(nn.Module):
    def __init__(self, *, extra: bool = False) -> None:
        super().__init__()
        self.extra = Dropout(0.5) if extra else nn.Identity()
        self.ours = Dropout(0.5)
        self.torchs = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> list[Tensor]:
        self.extra(x)
        return [self.ours(x), self.torchs(x), self.ours(x)]


def masks(model: nn.Module, streams: RandomStreams, step: int) -> list[Tensor]:
    streams.begin_step(step)
    return model(torch.ones(4096))


def test_dropout_depends_on_seed_layer_step_and_call_alone() -> None:
    plain, extended, other_seed = Layers(), Layers(extra=True), Layers()
    streams = RandomStreams(plain, seed=0)
    first = masks(plain, streams, step=1)
    again = masks(extended, RandomStreams(extended, seed=0), step=1)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    different = [
        *first,
        *masks(plain, streams, step=2),
        *masks(other_seed, RandomStreams(other_seed, seed=1), step=1),
    ]
    for index, one in enumerate(different):
        assert 0.4 < float((one == 0).float().mean()) < 0.6
        for other in different[:index]:
            # Half of the features agree by chance: 2048 ± 32.
            assert 1700 < int((one == other).sum()) < 2400


def test_hooks_are_removed_and_evaluation_draws_nothing() -> None:
    model = Layers()
    streams = RandomStreams(model, seed=0)
    with streams.closed():
        model.eval()
        torch.manual_seed(5)
        before = torch.get_rng_state()
        model(torch.ones(8))
        assert torch.equal(torch.get_rng_state(), before)
    assert not model.ours._forward_pre_hooks


class Checkpointed(nn.Module):
    """Two layers with dropout, each called twice, with or without activation checkpointing."""

    def __init__(self, *, use_reentrant: bool | None) -> None:
        super().__init__()
        self.use_reentrant = use_reentrant
        self.linears = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.dropout = Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        for linear in self.linears:

            def body(x: Tensor, linear: nn.Module = linear) -> Tensor:
                return self.dropout(self.dropout(linear(x)).tanh())

            if self.use_reentrant is None:
                x = body(x)
            else:
                x = checkpoint(body, x, use_reentrant=self.use_reentrant)
        return x.square().sum()


def test_activation_checkpointing_draws_the_same_numbers_again() -> None:
    gradients = []
    for use_reentrant in (None, False, True):
        model = build_seeded(lambda kind=use_reentrant: Checkpointed(use_reentrant=kind), seed=0)  # type: ignore[misc]
        streams = RandomStreams(model, seed=0)
        streams.begin_step(3)
        x = torch.ones(4, 8, requires_grad=True)
        model(x).backward()
        gradients.append([one.grad for one in (x, *model.parameters())])
    for other in gradients[1:]:
        assert all(torch.equal(one, two) for one, two in zip(gradients[0], other, strict=True))  # type: ignore[arg-type]


def test_draws_of_numpy_and_random_are_seeded() -> None:
    def build() -> nn.Module:
        module = nn.Module()
        values = [random.random(), *np.random.randn(3)]  # noqa: NPY002
        module.register_buffer("noise", torch.tensor(values), persistent=False)
        module.register_parameter("scale", nn.Parameter(torch.randn(2)))
        return module

    before = random.getstate()
    first, again, other = (build_seeded(build, seed=seed) for seed in (0, 0, 1))
    assert random.getstate() == before
    assert torch.equal(first.noise, again.noise)  # type: ignore[arg-type]
    assert not torch.equal(first.noise, other.noise)  # type: ignore[arg-type]


def test_lazy_parameters_and_draws_that_depend_on_draws_are_refused() -> None:
    with pytest.raises(RegardError, match=r"'weight' .* lazy"):
        build_seeded(lambda: nn.LazyLinear(3), seed=0)

    def build() -> nn.Module:
        linear = nn.Linear(2, 2)
        while linear.weight.norm() < 0.9:
            nn.init.uniform_(linear.weight, -0.71, 0.71)
        return linear

    counted = []
    for seed in range(40):
        try:
            build_seeded(build, seed=seed)
        except RegardError as error:
            counted.append(str(error))
    assert any("drew" in text for text in counted)


def test_layers_with_other_names_of_dropout_are_random() -> None:
    class Rate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop_prob = np.float32(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return x * torch.rand(x.shape)

    plain, extended = nn.ModuleDict({"a": Rate()}), nn.ModuleDict({"b": Rate(), "a": Rate()})
    outputs = []
    for model in (plain, extended):
        RandomStreams(model, seed=0).begin_step(1)
        outputs.append({name: layer(torch.ones(4)) for name, layer in model.items()})
    assert torch.equal(outputs[0]["a"], outputs[1]["a"])
    assert not torch.equal(outputs[1]["a"], outputs[1]["b"])
