"""Look page: the records in it, what is said of them, its policy."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from tests.factories.hostile_strings import STRINGS, with_string
from tests.factories.looks import LOOKS, language_model, recognised_speech, translation

from regard.core.errors import RegardError
from regard.core.records.look import LookRecord
from regard.views.pages.look import look_page


def data_of(page: str) -> dict[str, Any]:
    """What the script of a page reads."""
    (text,) = re.findall(r'<script type="application/json" id="look-data">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", LOOKS)
def test_records_are_in_the_page(name: str) -> None:
    records = LOOKS[name]()
    found = data_of(look_page(records))
    for each, record in zip(found["records"], records, strict=True):
        # JSON has no audio.
        assert LookRecord.from_json(json.dumps(each)).as_json() == record.as_json()
    assert found["chosen"] == found["models"] == [each.model for each in records]
    assert not found["live"]


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
def test_hostile_strings_survive_in_the_data(text: str) -> None:
    record = with_string(language_model(), text)
    page = look_page([record])
    page.encode()
    (found,) = data_of(page)["records"]
    assert found == json.loads(record.as_json())
    (written,) = re.findall(r'id="look-data">(.*?)</script>', page)
    assert re.fullmatch(r"[ -~]*", written)
    assert not set("<>&") & set(written)


def test_audio_is_played_from_the_page() -> None:
    record = recognised_speech()
    (audio,) = data_of(look_page([record]))["audio"]
    assert record.sound is not None
    assert base64.b64decode(audio.partition(",")[2]) == record.sound.audio


def test_faithfulness_is_drawn_by_method() -> None:
    page = look_page([language_model()])
    assert re.findall(r'<div data-method="(\w+)">', page) == ["weights", "contribution_norm"]
    assert page.count("Highest ranked removed") == 2
    assert "on 200 inputs of validation" in page
    assert 'id="faithfulness"' not in look_page([translation()])


def policy_of(page: str) -> str:
    (found,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    return str(found)


def test_only_a_live_page_may_ask_its_server() -> None:
    page, live = look_page([language_model()]), look_page([language_model()], live=True)
    assert "connect-src" not in policy_of(page)
    assert "connect-src 'self'" in policy_of(live)
    assert "fetch(" not in page
    assert data_of(live)["live"]


def test_live_page_without_a_record() -> None:
    found = data_of(look_page([], live=True, models=["runs/a", "runs/b"]))
    assert (found["records"], found["chosen"]) == ([], ["runs/a"])


@pytest.mark.parametrize("count", [0, 3])
def test_wrong_number_of_records(count: int) -> None:
    with pytest.raises(RegardError, match=f"page of {count} records.*Pass one, or two"):
        look_page([language_model()] * count)
