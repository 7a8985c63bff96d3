"""The codec against json_format: 20,000 random documents from a fixed seed, and a kept corpus."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.pb import lf_a2a_v1
from a2a_bridge.testing.each import each
from tests.codec.documents import CLASSES, Maker
from tests.codec.required_members import with_required
from tests.strategies import messages

DOCUMENTS = 20_000
CHUNKS = 20
CORPUS = Path(__file__).with_name("corpus.jsonl")


def test_no_message_type_is_left_out() -> None:
    assert len(CLASSES) == len(lf_a2a_v1.DESCRIPTOR.message_types_by_name)


@each("chunk", range(CHUNKS))
def test_random_documents_decode_and_encode_as_json_format_does(chunk: int) -> None:
    chance = random.Random(f"documents {chunk}")
    rejected = 0
    for number in range(DOCUMENTS // CHUNKS):
        cls = CLASSES[(number + chunk) % len(CLASSES)]
        maker = Maker(chance, errors=0.02 if number % 3 == 0 else 0.0)
        document = maker.document(cls.DESCRIPTOR)
        rejected += compare(cls, document, ignore_unknown=not maker.bad_enum)
    # There were some of both kinds; otherwise the comparison would mean little.
    assert DOCUMENTS // CHUNKS * 0.01 < rejected < DOCUMENTS // CHUNKS * 0.3


@each("line", CORPUS.read_text("utf-8").splitlines())
def test_kept_documents_decode_and_encode_as_json_format_does(line: str) -> None:
    entry = json.loads(line)
    cls = getattr(lf_a2a_v1, entry["message"])
    assert compare(cls, entry["document"]) == (not entry["valid"])


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.DESCRIPTOR.name)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_messages_encode_as_json_format_does_and_come_back(cls: Any, data: Any) -> None:
    message = data.draw(messages(cls))
    tree = codec.encoder(cls)(message)
    assert tree == expected(message)
    assert codec.decoder(cls)(tree) == message
    assert codec.decode_bytes(cls, codec.dumps(tree)) == message


def compare(cls: Any, document: dict[str, Any], *, ignore_unknown: bool = True) -> bool:
    """Decodes with both, and encodes the result with both. True if both rejected."""
    text = json.dumps(document).encode()
    try:
        theirs = json_format.ParseDict(json.loads(text), cls(), ignore_unknown_fields=ignore_unknown)
    except Exception:  # noqa: BLE001 - json_format lets several kinds out
        with pytest.raises(codec.DecodeError):
            codec.decode_bytes(cls, text)
        return True
    ours = codec.decode_bytes(cls, text)
    assert ours == theirs, document
    assert codec.encoder(cls)(ours) == expected(theirs), document
    return False


def expected(message: Any) -> Any:
    """The output of json_format, with the REQUIRED members that it leaves out because they are empty."""
    return with_required(message.DESCRIPTOR, json_format.MessageToDict(message))
