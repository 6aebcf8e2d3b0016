"""The table of models: listed without importing torch, built by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from regard.core.errors import RegardError
from regard.models import MODELS, build_model, model_class
from regard.models.embeddings import TokenEmbedding
from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder


def test_listing_does_not_import_torch() -> None:
    program = (
        "import sys, regard.models; assert 'torch' not in sys.modules; print(*regard.models.MODELS)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names = [
        "transformer",
        "decoder_only",
        "recurrent",
        "transformer_recurrent",
        "ctc",
        "text_encoder",
    ]
    names += ["structured", "hierarchical", "bag_of_words", "bilstm"]
    names += ["recursive_autoencoder", "convolutional", "convnet", "vision_transformer"]
    assert ran.stdout.split() == list(MODELS) == names


def test_every_entry_has_a_summary_and_a_reference() -> None:
    for entry in MODELS.values():
        assert entry.summary
        assert entry.reference


def test_build_model() -> None:
    assert model_class("recurrent") is RecurrentEncoderDecoder
    model = build_model("recurrent", source=9, target_vocabulary=11, hidden_dim=4)
    assert isinstance(model, RecurrentEncoderDecoder)
    assert isinstance(model.stem, TokenEmbedding)
    assert model.stem.table.num_embeddings == 9
    assert model.target_embedding.table.num_embeddings == 11


def test_unknown_names_and_options() -> None:
    with pytest.raises(RegardError, match=r"Unknown model 'recurent'. Did you mean 'recurrent'\?"):
        build_model("recurent", source=9, target_vocabulary=9)
    with pytest.raises(RegardError, match=r"option 'depth' of model 'recurrent'.*hidden_dim"):
        build_model("recurrent", source=9, target_vocabulary=9, depth=2)
