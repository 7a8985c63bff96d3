"""Which version a request speaks, and which texts name a version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V1_0, Kind, by_version
from a2a_bridge.dialects.detect import detect, normalise

OTHER = replace(V1_0, version="0.3")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.0", "1.0"),
        ("1.0.1", "1.0"),
        (" 1.0 ", "1.0"),
        ("1.0.0", "1.0"),
        ("01.00", "1.0"),
        ("0.3", "0.3"),
        ("0.2.5", "0.2"),
        ("123456789.0", "123456789.0"),
        ("", None),
        ("1", None),
        ("1.", None),
        (".1", None),
        ("1.0.", None),
        ("1.0.0.0", None),
        ("a.b", None),
        ("v1.0", None),
        ("1.0-rc1", None),
        ("-1.0", None),
        ("1 .0", None),
        ("\u0661.\u0660", None),
        ("1.²", None),
        ("1234567890.0", None),
        ("1.0\n2.0", None),
        ("9" * 5000 + ".0", None),
    ],
)
def test_major_and_minor_count(text: str, version: str | None) -> None:
    assert normalise(text) == version


@pytest.mark.parametrize("text", ["1.0", "1.0.1", "1.0.99", " 1.0 ", "1.0\t"])
def test_versions_that_are_served(text: str) -> None:
    assert detect(text, KNOWN) is V1_0
    assert by_version(text) is V1_0


@pytest.mark.parametrize(
    "text",
    [
        "0.3", "0.5", "1.7", "2.0", "1.1", "0.0", "1", "1.0.0.0", "a.b", "\u0661.\u0660", "1.²", "1,0", "1.0, 1.0",
        "1.0\x00", "10.0", "\U0001d7cf.\U0001d7ce", "x" * 10_000,
    ],
)  # fmt: skip
def test_versions_that_are_not(text: str) -> None:
    with pytest.raises(A2AError) as caught:
        detect(text, KNOWN)
    assert caught.value.reason is Reason.VERSION_NOT_SUPPORTED
    assert caught.value.metadata == {"supportedVersions": "1.0"}
    assert len(caught.value.message) < 200
    assert by_version(text) is None


@pytest.mark.parametrize("declared", [None, "", "  "])
def test_silence_means_0_3(declared: str | None) -> None:
    with pytest.raises(A2AError) as caught:
        detect(declared, KNOWN)
    assert caught.value.reason is Reason.VERSION_NOT_SUPPORTED
    assert "0.3" in caught.value.message
    assert detect(declared, (V1_0, OTHER)) is OTHER
    assert detect(declared, KNOWN, default="1.0") is V1_0
    assert by_version(declared or "") is None


@pytest.mark.parametrize("declared", [None, "", " ", "1.0", "1.0.1"])
def test_the_address_may_say_it_alone(declared: str | None) -> None:
    assert detect(declared, (OTHER, V1_0), address=V1_0) is V1_0


@pytest.mark.parametrize("declared", ["0.3", "2.0", "nonsense"])
def test_an_address_must_not_be_contradicted(declared: str) -> None:
    with pytest.raises(A2AError) as caught:
        detect(declared, (V1_0, OTHER), address=V1_0)
    assert caught.value.reason is Reason.VERSION_NOT_SUPPORTED
    assert caught.value.metadata == {"supportedVersions": "1.0, 0.3"}


def test_versions_are_not_compared_as_numbers() -> None:
    later = replace(V1_0, version="1.10")
    assert detect("1.1", (later, replace(V1_0, version="1.1"))).version == "1.1"
    assert detect("1.10", (V1_0, later)) is later


def test_a_binding_of_ones_own_gets_the_canonical_form() -> None:
    own: Kind[str, object] = Kind("QUEUE")
    assert V1_0.form(own) is V1_0.canonical
    assert replace(V1_0, canonical=None).form(own) is None
    assert [V1_0.form(kind) is V1_0.forms[kind] for kind in (JSONRPC, HTTP_JSON, GRPC)] == [True] * 3


def test_a_known_binding_never_gets_the_canonical_form() -> None:
    lacking = replace(V1_0, forms={JSONRPC: V1_0.forms[JSONRPC]})
    assert lacking.form(GRPC) is None
    assert lacking.form(HTTP_JSON) is None
    assert repr(lacking) == "<Dialect 1.0>"
