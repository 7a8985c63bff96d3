"""JSON text: RFC 8259 and nothing else, by both readers."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.pb.google_protobuf import Value
from a2a_bridge.testing.each import each

READERS = [codec.loads, codec.loads_exact]

INVALID = [
    # nothing, or not only one thing
    b"", b" ", b"\n", b"1 2", b"{} {}", b"[] x", b"{}}", b"[]]", b"{},", b'"a" "b"', b"nullnull", b"// c\n1", b"/* c */ 1", b"# c",
    # literals
    b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"None", b"True", b"nul", b"undefined", b"[NaN]", b'{"a":Infinity}',
    # numbers
    b"01", b"-01", b"-", b"+1", b".5", b"5.", b"1.e1", b"1e", b"1e+", b"0x10", b"1_000", b"--1", b"1.2.3", b"1e1.5", b"-.5",
    "\uff11".encode(), b"1,000", b"0b1", b"- 1", b"1 e5",
    # strings
    b'"', b'"a', b"'a'", b"a", b'"\\x41"', b'"\\u12"', b'"\\u12G4"', b'"\\"', b'"\\a"', b'"\n"', b'"\t"', b'"\x00"', b'"\x1f"',
    b'"\\u{41}"', b"`a`", b'"a"b"', b'"\\U0041"', b'"\\ "', b'"\\',
    # surrogates and encodings
    b'"\\ud800', b'"\\ud800\\u12"', b'"\\ud800\\x"', b'["\\ud800",NaN]', b'["\\ud800",-Infinity]', b'["\\ud800",]', b'"\\ud800\n"', b"[1e400,01]",
    b'"\xed\xa0\x80"', b'"\xff"', b"\xff", b'"\xc0\xaf"', b'"\xe2\x82"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b"\xef\xbb\xbf{}",
    '"a"'.encode("utf-16"), '"a"'.encode("utf-16-le"), '{"a":1}'.encode("utf-16-be"), '"a"'.encode("utf-32"), b'"\x80"',
    # arrays
    b"[", b"]", b"[1", b"[1,", b"[1,]", b"[,1]", b"[,]", b"[1,,2]", b"[1 2]", b"[1:2]", b"[1}", b"[[]", b'["a"', b"[\x00]", b"[1;2]",
    # objects
    b"{", b"}", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b"{,}", b'{"a" 1}', b'{"a"::1}', b"{a:1}", b"{1:1}",
    b"{'a':1}", b'{"a":1 "b":2}', b'{"a":1;"b":2}', b'{"a":}', b"{null:1}", b'{"a":1]', b'{"a","b"}', b"{[]:1}", b"{\x00}", b'{"a":1,,"b":2}',
    # blanks that are not JSON's
    b"\x0c1", b"\x0b1", b"\xc2\xa01", "\u2028[]".encode(), b"[1\x0c]", b"\xe3\x80\x80[]", b"1\x00",
    # depth bombs
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'[{"a":' * 50_000, b"[" * 2000 + b"]" * 2000,
]  # fmt: skip

VALID = [
    (b"null", None), (b" true ", True), (b"\t\r\n false\n", False), (b'""', ""), (b"[]", []), (b"{}", {}), (b"-0", 0), (b"0.5e-3", 0.0005),
    (b"1E+2", 100.0), (b'"\\ud83e\\udd9c"', "🦜"), ('"🦜\u2028"'.encode(), "🦜\u2028"), (b'"\\u0000\\/\\b"', "\0/\b"), (b'"\x7f"', "\x7f"),
    (b'{"":{"":[]}}', {"": {"": []}}), (b"18446744073709551615", 2**64 - 1), (b"-9223372036854775808", -(2**63)), (b"1e-400", 0.0),
]  # fmt: skip


@each("read", READERS)
@each("data", INVALID)
def test_invalid_json_is_rejected(data: bytes, read: Callable[..., Any]) -> None:
    with pytest.raises(codec.JsonSyntaxError) as raised:
        read(data)
    assert "orjson" not in str(raised.value)
    assert "Error" not in str(raised.value)
    assert "str" not in str(raised.value).split()


@each("read", READERS)
@each(("data", "tree"), VALID)
def test_json_is_read_from_bytes_and_from_text(data: bytes, tree: Any, read: Callable[..., Any]) -> None:
    for source in (data, bytearray(data), memoryview(data), data.decode()):
        found = read(source)
        assert found == tree
        assert isinstance(found, type(tree))


def test_a_syntax_error_is_a_value_error_with_a_position() -> None:
    with pytest.raises(ValueError, match="line 2, column 3"):
        codec.loads(b"{\n  x: 1\n}")
    with pytest.raises(codec.JsonSyntaxError, match="UTF-8"):
        codec.loads(b"\xff")


@each("read", READERS)
@each("data", [b"", b"  "])
def test_an_empty_document_is_named(read: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(codec.JsonSyntaxError, match="empty"):
        read(data)


@pytest.mark.parametrize("text", ['"\ud800"', "\udfff", "\ufeff1"])
def test_text_that_is_not_unicode_interchange_is_rejected(text: str) -> None:
    for read in READERS:
        with pytest.raises(codec.JsonSyntaxError):
            read(text)


@pytest.mark.parametrize("read", READERS)
def test_the_last_of_duplicate_keys_wins(read: Callable[..., Any]) -> None:
    assert read(b'{"a":1,"b":2,"a":{"c":3,"c":4}}') == {"a": {"c": 4}, "b": 2}


@pytest.mark.parametrize("number", [2**64, 10**40 + 1, -(2**63) - 1, 10**300 + 7])
def test_the_exact_reader_keeps_integers_of_any_size(number: int) -> None:
    assert codec.loads_exact(str(number)) == number
    assert type(codec.loads_exact(str(number))) is int
    assert type(codec.loads(str(number))) is float


@pytest.mark.parametrize(
    "text", ["1.5", "1.50", "1e20", "18446744073709551616.0", "-0.0", "0.1000000000000000055", "1E+2"]
)
def test_the_exact_reader_keeps_the_text_of_non_integers(text: str) -> None:
    number = codec.loads_exact(text)
    assert type(number) is codec.ExactFloat
    assert (number, number.text) == (float(text), text)
    assert codec.dumps([number]) == f"[{text}]".encode()


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" * 400, "1" * 5000])
def test_numbers_that_no_double_holds_are_read_as_they_stand(text: str) -> None:
    for read in READERS:
        assert codec.dumps(read(f'{{"n":{text}}}')) == f'{{"n":{text}}}'.encode()
    with pytest.raises(codec.DecodeError, match=r"a: (is not a finite number|is a number too large)"):
        codec.decode_bytes(Value, f'{{"a":{text}}}')


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udc00\\ud800"', '{"\\udaff":["a\\udfff"]}', '"\\ud800\\n"']
)
def test_halves_of_surrogate_pairs_are_read_and_written_as_they_stand(text: str) -> None:
    for read in READERS:
        assert codec.dumps(read(text)) == text.encode()
    with pytest.raises(codec.DecodeError, match="half of a surrogate pair"):
        codec.decode_bytes(Value, text)


def test_exact_numbers_can_be_copied_and_pickled() -> None:
    number = codec.ExactFloat("1.50")
    assert pickle.loads(pickle.dumps(number)).text == "1.50"
    assert copy.deepcopy([number])[0].text == "1.50"
    assert codec.ExactFloat(0.5).text == "0.5"


def nested(levels: int) -> bytes:
    return (
        b'[{"a":' * (levels // 2) + b"[" * (levels % 2) + b"1" + b"]" * (levels % 2) + b"}]" * (levels // 2)
    )


def test_each_reader_has_one_depth_limit_on_every_python() -> None:
    for read, deepest in ((codec.loads, 1024), (codec.loads_exact, codec.DEEPEST_EXACT)):
        assert codec.dumps(read(nested(deepest))) == nested(deepest)
        with pytest.raises(codec.JsonSyntaxError):
            read(nested(deepest + 1))


def test_brackets_in_strings_are_not_nesting() -> None:
    text = b'["' + b'[{\\"' * 2000 + b'"]'
    assert codec.loads_exact(text) == codec.loads(text)


def test_the_depth_of_an_unfinished_string_is_found_in_linear_time() -> None:
    text = b"[]" * 1000 + b'"' + b'\\"' * 500_000
    with pytest.raises(codec.JsonSyntaxError):  # quadratic time would be hours
        codec.loads_exact(text)


def test_trees_too_deep_for_the_fast_writer_are_written() -> None:
    text = b'{"a":[' * 400 + b"1" + b"]}" * 400
    assert codec.dumps(codec.loads(text)) == text


def test_ascii_writing_escapes_all_else() -> None:
    tree = {"ä🦜\ud800": [1, 2**70, "\u2028"]}
    text = codec.dumps_ascii(tree)
    assert text.isascii()
    assert codec.loads_exact(text) == tree


def test_writing_is_compact_utf8() -> None:
    assert codec.dumps({"ä": [1, 2.5, None, True, "🦜"]}) == '{"ä":[1,2.5,null,true,"🦜"]}'.encode()


@pytest.mark.parametrize(
    "tree", [{"n": 10**40}, [codec.ExactFloat(1e300)], {"ä": [2**64, codec.ExactFloat(-1e20)]}]
)
def test_results_of_the_exact_reader_can_be_written(tree: Any) -> None:
    assert codec.loads_exact(codec.dumps(tree)) == tree


@pytest.mark.parametrize(
    "tree", [object(), {"a": {1, 2}}, {1: "\ud800"}, [10**40, object()], [10**40, float("nan")]]
)
def test_values_that_are_not_json_are_not_written(tree: Any) -> None:
    with pytest.raises(codec.EncodeError):
        codec.dumps(tree)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(tree=JSON)
def test_trees_survive_writing_and_exact_reading(tree: Any) -> None:
    assert codec.loads_exact(codec.dumps(tree)) == tree


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet='[]{}",:\\0123456789.eE+-truefalsn \n/u', max_size=20))
def test_the_readers_agree_with_each_other_and_are_no_laxer_than_the_standard_library(text: str) -> None:
    try:
        tree = codec.loads(text)
    except codec.JsonSyntaxError:
        with pytest.raises(codec.JsonSyntaxError):
            codec.loads_exact(text)
    else:
        assert codec.loads_exact(text) == json.loads(text)
        assert tree == json.loads(text) or any(character.isdigit() for character in text)


def test_decoding_bytes_reports_syntax_and_content_apart() -> None:
    with pytest.raises(codec.JsonSyntaxError):
        codec.decode_bytes(Value, b"[1,")
    assert codec.decode_bytes(Value, b"[1]").list_value.values[0].number_value == 1
