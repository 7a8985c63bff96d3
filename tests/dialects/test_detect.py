"""Which version a request speaks, and which texts name a version."""

from dataclasses import replace

import pytest

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    KNOWN,
    V1_0,
    BindingKind,
    Dialect,
    by_version,
    newest_first,
)
from a2a_bridge.dialects.known import detect, detect_among, normalise, presume
from a2a_bridge.testing.each import each
from tests.rejections import rejected

OTHER = replace(V1_0, version="0.3", declares=False)
OLDER = replace(V1_0, version="0.2.5", declares=False)
ALL = (V1_0, OTHER, OLDER)


@each(
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
    assert detect(text, (V1_0,)) is V1_0
    assert by_version(text) is V1_0


@each(
    "text",
    [
        "0.3",
        "0.5",
        "1.7",
        "2.0",
        "1.1",
        "0.0",
        "1",
        "1.0.0.0",
        "a.b",
        "\u0661.\u0660",
        "1.²",
        "1,0",
        "1.0, 0.3",
        "1.0\x00",
        "10.0",
        "\U0001d7cf.\U0001d7ce",
        "x" * 10_000,
    ],
)
def test_versions_that_are_not(text: str) -> None:
    with rejected(Reason.VERSION_NOT_SUPPORTED) as caught:
        detect(text, (V1_0,))
    assert caught.value.metadata == {"supportedVersions": "1.0"}
    assert len(caught.value.message) < 200


@each("text", ["0.5", "1.7", "2.0", "1.1", "0.0", "1", "1.0.0.0", "a.b", "", "10.0"])
def test_unknown_versions(text: str) -> None:
    assert by_version(text) is None


@pytest.mark.parametrize("declared", [None, "", "  "])
def test_silence_means_0_3(declared: str | None) -> None:
    with rejected(Reason.VERSION_NOT_SUPPORTED) as caught:
        detect(declared, (V1_0,))
    assert "0.3" in caught.value.message
    assert detect(declared, (V1_0, OTHER)) is OTHER
    assert by_version(declared or "") is None


@pytest.mark.parametrize("declared", [None, "", "  "])
def test_silence_means_the_newest_that_has_the_address(declared: str | None) -> None:
    assert detect(declared, ALL, {OTHER, OLDER, V1_0}) is OTHER
    assert detect(declared, ALL, {OLDER, V1_0}) is OLDER
    assert detect(declared, (V1_0, OLDER), {OLDER}) is OLDER


@pytest.mark.parametrize("declared", [None, "", "  "])
def test_silence_at_an_address_of_a_version_that_is_declared(declared: str | None) -> None:
    for offered in (ALL, (V1_0,)):
        with rejected(Reason.VERSION_NOT_SUPPORTED):
            detect(declared, offered, {V1_0})
        assert detect(declared, offered, {V1_0}, lenient=True) is V1_0


@pytest.mark.parametrize("lenient", [False, True])
def test_an_address_that_no_version_has(lenient: bool) -> None:
    assert detect(None, ALL, (), lenient=lenient) is OTHER
    assert detect("1.0", ALL, (), lenient=lenient) is V1_0
    assert detect("0.2.6", ALL, (), lenient=lenient) is OLDER
    with pytest.raises(A2AError):
        detect(None, (V1_0,), (), lenient=lenient)


def test_an_address_that_another_version_has() -> None:
    assert detect("1.0", ALL, {OTHER, OLDER}) is V1_0
    assert detect("1.0", ALL, {OTHER, OLDER}, lenient=True) is OTHER
    assert detect("0.3", ALL, {V1_0}) is OTHER
    assert detect("0.3", ALL, {V1_0}, lenient=True) is V1_0


@each("lenient", [False, True])
@each(
    ("text", "dialect"),
    [
        ("0.3", OTHER),
        ("0.3.0", OTHER),
        (" 0.3.1 ", OTHER),
        ("0.2", OLDER),
        ("0.2.5", OLDER),
        ("1.0.1", V1_0),
        ("1.0, 1.0", V1_0),
        ("0.2,0.2,", OLDER),
    ],
)
def test_a_declaration_is_honoured(text: str, dialect: object, lenient: bool) -> None:
    assert detect(text, ALL, ALL, lenient=lenient) is dialect


@pytest.mark.parametrize("lenient", [False, True])
def test_a_version_that_is_not_offered_is_not_replaced(lenient: bool) -> None:
    with pytest.raises(A2AError) as caught:
        detect("0.1", ALL, ALL, lenient=lenient)
    assert caught.value.metadata == {"supportedVersions": "1.0, 0.3, 0.2.5"}


@each(
    ("declared", "having", "dialect"),
    [
        ("0.3", (), OTHER),
        ("0.3", {V1_0}, OTHER),
        ("2.0", (), V1_0),
        ("2.0", {OTHER, OLDER}, OTHER),
        ("nonsense", {OLDER}, OLDER),
        (None, (), OTHER),
        (None, {OLDER}, OLDER),
        (None, {V1_0}, V1_0),
    ],
)
def test_whose_errors_a_caller_understands(
    declared: str | None, having: set[Dialect], dialect: Dialect
) -> None:
    assert presume(declared, ALL, having) is dialect
    assert presume(declared, (V1_0,), having) is V1_0


def address_of(dialect: Dialect) -> str:
    return f"/{dialect.version}/"


@pytest.mark.parametrize("declared", [None, "", " ", ",", "1.0", "1.0.1", "1.0,1.0"])
def test_the_address_may_say_it_alone(declared: str | None) -> None:
    assert detect_among(declared, (V1_0,), (OTHER, V1_0), address_of) is V1_0


def test_an_address_of_two_versions() -> None:
    assert detect_among(None, (OTHER, OLDER), ALL, address_of) is OTHER
    assert detect_among("0.3.0", (OTHER, OLDER), ALL, address_of) is OTHER
    assert detect_among("0.2.5", (OTHER, OLDER), ALL, address_of) is OLDER


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("0.3", "version '0.3' is served at /0.3/, this address is of version 1.0"),
        ("2.0", "version '2.0' is not supported here"),
        ("nonsense", "version 'nonsense' is not supported here"),
        ("1.0,0.3", "the request declares several versions, '1.0,0.3'"),
    ],
)
def test_an_address_must_not_be_contradicted(declared: str, problem: str) -> None:
    with rejected(Reason.VERSION_NOT_SUPPORTED) as caught:
        detect_among(declared, (V1_0,), (V1_0, OTHER), address_of)
    assert caught.value.message == f"{problem}; supported: 1.0, 0.3"
    assert caught.value.metadata == {"supportedVersions": "1.0, 0.3"}


def test_known_dialects_come_newest_first() -> None:
    own = replace(V1_0, version="9.9")
    assert newest_first([own, *reversed(KNOWN)]) == (*KNOWN, own)


def test_versions_are_not_compared_as_numbers() -> None:
    later = replace(V1_0, version="1.10")
    assert detect("1.1", (later, replace(V1_0, version="1.1"))).version == "1.1"
    assert detect("1.10", (V1_0, later)) is later


def test_a_binding_of_ones_own_gets_the_canonical_form() -> None:
    own: BindingKind[str, object] = BindingKind("QUEUE")
    assert V1_0.form(own) is V1_0.canonical
    assert replace(V1_0, canonical=None).form(own) is None
    assert [V1_0.form(kind) is V1_0.forms[kind] for kind in (JSONRPC, HTTP_JSON, GRPC)] == [True] * 3


def test_a_known_binding_never_gets_the_canonical_form() -> None:
    lacking = replace(V1_0, forms={JSONRPC: V1_0.forms[JSONRPC]})
    assert lacking.form(GRPC) is None
    assert lacking.form(HTTP_JSON) is None
    assert repr(lacking) == "<Dialect 1.0>"
