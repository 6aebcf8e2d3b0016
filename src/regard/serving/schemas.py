"""Requests and answers of the server, as pydantic models: the schemas of /openapi.json."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from regard.core.errors import RegardError

MAX_NAME, MAX_TARGET, MAX_SEED, MAX_BEAM, MAX_CHANGES = 200, 1000, 2**63 - 1, 16, 64
MAX_KEYS = 64


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("have no lone surrogates, which are no text") from error
    return text


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError("be the bytes of a file in base64") from error


String = Annotated[str, AfterValidator(_encodable)]
Name = Annotated[String, Field(max_length=MAX_NAME)]
Text = Annotated[String, Field(examples=["attention"])]
Content = Annotated[
    bytes,
    PlainValidator(_decoded),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 1}),
    Field(description="The bytes of a file."),
]
ModelName = Annotated[
    Name | None, Field(description="A name of /models; default: the first.", examples=[None])
]
Position = Annotated[int, Field(ge=0, lt=1 << 31)]
LayerName = Annotated[Name, Field(examples=["encoder/0"])]
HeadName = Annotated[
    Annotated[str, Field(pattern=r"^[1-9]\d{0,4}$")] | None,
    Field(description="From 1, as in the maps of a record; default: all.", examples=["1"]),
]


class Request(BaseModel):
    """A body: no unknown keys, no numbers in strings."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, given: object) -> object:
        """An error for each of a million unknown keys would hold up all other requests."""
        if isinstance(given, dict) and len(given) > MAX_KEYS:
            raise RegardError(f"it has {len(given):,} keys, the maximum is {MAX_KEYS}")
        return given


class PredictRequest(Request):
    """Texts, or the bytes of sounds or images, to predict for."""

    model: ModelName = None
    inputs: Annotated[list[Text] | None, Field(min_length=1, fail_fast=True)] = None
    data: Annotated[list[Content] | None, Field(min_length=1, fail_fast=True)] = None
    beam_size: Annotated[
        int | None, Field(ge=1, le=MAX_BEAM, description="Of sequence models; 1 is greedy.")
    ] = None
    length_penalty: Annotated[
        float | None, Field(ge=0, le=10, description="Of sequence models.")
    ] = None
    max_new_tokens: Annotated[int | None, Field(ge=1, description="Of language models.")] = None
    temperature: Annotated[
        float | None, Field(ge=0, le=100, description="Of language models; 0 is greedy.")
    ] = None
    top_k: Annotated[int | None, Field(ge=1, description="Of language models.")] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, description="Of language models.")] = None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED, description="Of language models.")] = 0

    @model_validator(mode="after")
    def _one_kind(self) -> PredictRequest:
        _validate_one(inputs=self.inputs, data=self.data)
        return self


class Prediction(BaseModel):
    """The prediction for one input: a label, an output text, or a number."""

    output: str | float


class PredictResponse(BaseModel):
    """The predictions, in the order of the inputs."""

    model: str
    predictions: list[Prediction]


class HeadChange(Request):
    """Change the weights of a head of an attention layer: to zero, or to the mean over the keys."""

    kind: Literal["zero_head", "mean_head"]
    layer: LayerName
    head: HeadName


class EdgeChange(Request):
    """Set the weights of a key to zero, for one query or for all."""

    kind: Literal["knock_out"]
    layer: LayerName
    head: HeadName
    query: Annotated[Position | None, Field(description="From 0; default: all.")] = None
    key: Annotated[Position, Field(description="From 0.")]


Change = Annotated[HeadChange | EdgeChange, Field(discriminator="kind")]


class ExplainRequest(Request):
    """One input, what to compute for it, and what to change in the model's attention."""

    model: ModelName = None
    input: Text | None = None
    data: Content | None = None
    method: Annotated[
        Name | None, Field(description="One method; default: all that fit.", examples=["weights"])
    ] = None
    heads: Annotated[
        list[Name],
        Field(
            fail_fast=True,
            max_length=MAX_CHANGES,
            description='With exact maps if the input is long: "encoder/0.1".',
        ),
    ] = []
    target: Annotated[
        Annotated[String, Field(max_length=MAX_TARGET)] | None,
        Field(description="The label or output to explain; default: the prediction."),
    ] = None
    interventions: Annotated[list[Change], Field(max_length=MAX_CHANGES, fail_fast=True)] = []

    @model_validator(mode="after")
    def _one_kind(self) -> ExplainRequest:
        _validate_one(input=self.input, data=self.data)
        return self


def _validate_one(**given: Any) -> None:
    if sum(each is not None for each in given.values()) != 1:
        names = " or ".join(given)
        raise RegardError(f"give {names}, one of the two.")


class ModelInfo(BaseModel):
    """A model that the server has."""

    name: str
    task: str
    model: str
    input: Literal["text", "sound", "image", "frames"]
    output: Literal["text", "label", "number"]
    labels: list[str]
    parameters: int
    continues_text: bool


class ModelsResponse(BaseModel):
    """The models, the default one first."""

    models: list[ModelInfo]


class HealthResponse(BaseModel):
    """Whether the server takes requests, and how many inputs wait."""

    status: Literal["ready"]
    version: str
    waiting: int


class ErrorResponse(BaseModel):
    """Why there is no answer: the value, the limit or rule, and the way out."""

    status: int
    detail: str
