"""A dataset: training examples, evaluation splits, leakage between them, and row errors.

    reader (rows)  →  Dataset.read  →  preprocessor, train, validation, test

The training data is streamed: once or twice to fit the preprocessor, and once to encode it. Evaluation
splits are kept as they were read, since predictions are scored against what was read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from regard.core.errors import RegardError
from regard.data.examples import Examples, Ragged
from regard.data.preprocessor import Encoded, Preprocessor, Truncation
from regard.data.readers.text_file import Reader, Row, RowErrors
from regard.data.splits import EvalSplit, Split, content_key, holdout_fractions, split_of

EMPTY_SPLIT = EvalSplit(inputs=(), references=())
NO_EXAMPLES = Examples(inputs=Ragged(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)))


class _Watch:
    """Counts truncation, and the evaluation inputs among the training rows, which it hashes."""

    def __init__(self, kind: type[Preprocessor], options: Any) -> None:
        self.kind, self.options = kind, options
        self.truncation: dict[str, Truncation] = {}
        self.inputs: dict[str, set[str]] = {}
        self.leaked: dict[str, set[str]] = {}
        self.digest = hashlib.blake2b(digest_size=16)

    def truncated(self, split: str, encoded: Iterable[Encoded]) -> Iterator[Encoded]:
        texts = of_texts = tokens = of_tokens = 0
        for each in encoded:
            texts += each.removed > 0
            of_texts += 1
            tokens += each.removed
            of_tokens += each.removed + len(each.input)
            yield each
        self.truncation[split] = Truncation(texts, of_texts, tokens, of_tokens)

    def add_split(self, name: str, split: EvalSplit) -> None:
        self.inputs[name] = {self.kind.key(self.options, value) for value in split.inputs}
        self.leaked[name] = set()

    def train(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            key = self.kind.key(self.options, row.input)
            for name, inputs in self.inputs.items():
                if key in inputs:
                    self.leaked[name].add(key)
            text = row.input if isinstance(row.input, str) else content_key(row.input)
            self.digest.update(json.dumps([text, row.target]).encode("ascii"))
            yield row


def train_rows(
    kind: type[Preprocessor],
    options: Any,
    readers: Mapping[Split, Reader],
    errors: RowErrors,
    *,
    split: Split = "train",
) -> Iterator[Row]:
    """The training rows; or those of a split that is held out from them by the hash of the input."""
    validation, test = holdout_fractions(
        options, validation="validation" in readers, test="test" in readers
    )
    if not (validation or test):
        return readers["train"].rows(errors=errors) if split == "train" else iter(())
    return (
        row
        for row in readers["train"].rows(errors=errors)
        if split_of(kind.key(options, row.input), validation=validation, test=test) == split
    )


def read_split(
    preprocessor: Any, options: Any, readers: Mapping[Split, Reader], split: Split
) -> EvalSplit:
    """One split as `Dataset.read` has it, but nothing is encoded, so rows that cannot be are in it too."""
    own, errors = readers.get(split), RowErrors(skip=True)
    rows = (
        train_rows(type(preprocessor), options, readers, errors, split=split)
        if own is None
        else own.rows(errors=errors)
    )
    found: EvalSplit = preprocessor.split(rows, path=(own or readers["train"]).path)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Data splits and the preprocessor fitted on the training split.

    extra             further training examples, such as question–answer pairs beside texts
    rows_fingerprint  a hash of the training rows as they were read, in order
    leakage           inputs of each evaluation split that also occur in training
    notice            a note on the origin of the data
    details           further facts
    """

    preprocessor: Any
    validation: EvalSplit
    test: EvalSplit = EMPTY_SPLIT
    train: Examples = NO_EXAMPLES
    extra: Examples | None = None
    rows_fingerprint: str = ""
    leakage: dict[str, int] = field(default_factory=dict)
    truncation: dict[str, Truncation] = field(default_factory=dict)
    errors: RowErrors = field(default_factory=RowErrors)
    notice: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        kind: type[Preprocessor],
        options: Any,
        readers: Mapping[Split, Reader],
        *,
        preprocessor: Any = None,
    ) -> Self:
        """Read the splits; a split without a reader is held out from the training rows by hash.

        A given `preprocessor` is reused, as when a run is resumed; labels that it lacks are fitted.
        """
        errors = RowErrors(skip=options.skip_bad_rows)
        reader = readers["train"]
        passes = iter([errors])

        def again() -> Iterator[Row]:
            # The first pass over the training rows reports their errors.
            return train_rows(kind, options, readers, next(passes, RowErrors(skip=True)))

        if preprocessor is None or not preprocessor.is_fitted:
            preprocessor = kind.fit(options, again, path=reader.path, known=preprocessor)
        watch = _Watch(kind, options)
        splits: dict[str, EvalSplit] = {}
        names: tuple[Split, Split] = ("validation", "test")
        for name in names:
            own = readers.get(name)
            path = reader.path if own is None else own.path
            before = errors.count
            rows = (
                train_rows(kind, options, readers, RowErrors(skip=True), split=name)
                if own is None
                else own.rows(errors=errors)
            )
            encoded = watch.truncated(name, preprocessor.encode(rows, path=path, errors=errors))
            splits[name] = preprocessor.split((each.row for each in encoded), path=path)
            watch.add_split(name, splits[name])
            if errors.count > before and not len(splits[name]) and (own or name == "validation"):
                raise RegardError(
                    f"No row of the {name} split can be used; the first error: "
                    f"{errors.rows[before] if before < len(errors.rows) else errors.rows[-1]}."
                )
        encoded = preprocessor.encode(watch.train(again()), path=reader.path, errors=errors)
        train = preprocessor.examples(watch.truncated("train", encoded))
        if not len(train):
            raise RegardError(
                f"The training split of '{reader.path}' is empty. Give more {kind.unit}, or lower "
                f"task.validation_fraction={options.validation_fraction} and "
                f"task.test_fraction={options.test_fraction}."
            )
        counted = watch.truncation if kind.truncates else {}
        return cls(
            preprocessor=preprocessor,
            train=train,
            validation=splits["validation"],
            test=splits["test"],
            rows_fingerprint=watch.digest.hexdigest(),
            leakage={name: len(keys) for name, keys in watch.leaked.items()},
            truncation={name: counted[name] for name in ("train", *names) if name in counted},
            errors=errors,
            notice=getattr(reader, "notice", ""),
        )

    def facts(self) -> dict[str, Any]:
        """Sizes and fingerprints of the splits, for a run's record.

        The training split has two fingerprints: of its rows as they were read, and as they are encoded.
        """
        unit, owners = self.preprocessor.unit, self.train.owners
        facts: dict[str, Any] = {f"train_{unit}": len(self.train)}
        if owners is not None:
            chunks = np.unique(owners, return_counts=True)[1]
            facts = {
                f"train_{unit}": len(chunks),
                "train_chunks": len(self.train),
                f"chunked_{unit}": int((chunks > 1).sum()),
            }
        extra = self.extra
        return {
            **facts,
            "train_fingerprint": self.train.fingerprint(),
            **({"train_rows_fingerprint": self.rows_fingerprint} if self.rows_fingerprint else {}),
            "validation_items": len(self.validation),
            "validation_fingerprint": self.validation.fingerprint(),
            "test_items": len(self.test),
            "test_fingerprint": self.test.fingerprint(),
            **self.preprocessor.target_facts(self.train),
            **(
                {
                    "truncated_texts": {name: one.texts for name, one in self.truncation.items()},
                    "truncated_tokens": {name: one.tokens for name, one in self.truncation.items()},
                }
                if self.truncation
                else {}
            ),
            **(
                {"extra_examples": len(extra), "extra_fingerprint": extra.fingerprint()}
                if extra is not None
                else {}
            ),
            "leakage": self.leakage,
            "row_errors": self.errors.count,
            **self.details,
        }

    def describe(self) -> str:
        """Sizes, truncation, leakage and targets in one line."""
        unit, facts = self.preprocessor.unit, self.facts()
        length = getattr(self.preprocessor.options, "max_length", 0)
        chunks = facts.get("train_chunks", 0)
        parts = [
            f"{facts[f'train_{unit}']:,} training {unit}"
            + (f" in {chunks:,} chunks" if chunks > facts[f"train_{unit}"] else "")
            + (f" and {len(self.extra):,} pairs" if self.extra is not None else ""),
            "no validation texts: evaluated on training texts"
            if self.details.get("validation_is_train")
            else f"{len(self.validation):,} validation {unit}",
            f"{len(self.test):,} test {unit}; {self.preprocessor.describe()}",
        ]
        truncated = "".join(
            f"; {name} split: {text}"
            for name, counts in self.truncation.items()
            if (text := counts.describe(length, unit=unit, piece=self.preprocessor.piece))
        )
        leaked = "".join(
            f"; {count:,} {name} inputs also occur in training"
            for name, count in self.leakage.items()
            if count
        )
        remarks = f"{self.preprocessor.describe_targets(self.train)} {self.notice}".strip()
        return ", ".join(parts) + truncated + leaked + f". {remarks}".rstrip(" .")
