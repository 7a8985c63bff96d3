"""Server-sent events: every variant the format allows, cut anywhere."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.testing.each import each
from a2a_bridge_transports._http.sse import KEEP_ALIVE, Decoder, Event, EventTooLargeError, encode

LIMIT = 1 << 20


def read(*chunks: bytes, limit: int = LIMIT) -> list[Event]:
    decoder = Decoder(limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_any_line_end(end: bytes) -> None:
    stream = end.join([b"data: a", b"data: b", b"", b"data:c", b"", b""])
    assert read(stream) == [Event("message", b"a\nb"), Event("message", b"c")]


def test_mixed_line_ends() -> None:
    assert read(b"data: a\r\ndata: b\rdata: c\n\r\n") == [Event("message", b"a\nb\nc")]


def test_fields_that_mean_nothing_here() -> None:
    stream = b": a comment\nretry: 10\nunknown: x\nnocolon\ndata: a\n\n"
    assert read(stream) == [Event("message", b"a")]


def test_an_id_is_of_its_own_event_only() -> None:
    stream = b"id: 7\ndata: a\n\ndata: b\n\nid:run_1-8\ndata: c\n\nid: 9\n\ndata: d\n\n"
    assert [event.id for event in read(stream)] == ["7", "", "run_1-8", ""]


@pytest.mark.parametrize("id_", [b"", b"a b", b"\x00", b"\xff", "\u0661".encode(), b"9" * 65])
def test_ids_that_nothing_could_be_asked_for_with_are_left_out(id_: bytes) -> None:
    assert read(b"id: " + id_ + b"\ndata: a\n\n") == [Event("message", b"a")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_truncated_stream_gives_whole_events_with_their_ids_only(end: str) -> None:
    stream = (
        "".join(f"id: {number}\ndata: {number}\n\n" for number in (9, 10, 11)).replace("\n", end).encode()
    )
    whole = read(stream)
    assert [(event.id, event.data) for event in whole] == [("9", b"9"), ("10", b"10"), ("11", b"11")]
    for cut in range(len(stream)):
        seen = read(stream[:cut])
        assert seen == whole[: len(seen)]


def test_an_event_with_an_id() -> None:
    assert encode(b"{}", b"", "7") == b"id: 7\ndata: {}\n\n"
    assert read(encode(b"{}", b"error", "a-7")) == [Event("error", b"{}", "a-7")]


@pytest.mark.parametrize("id_", ["1\n2", "1\r", "\0", "\u0661", "9" * 65])
def test_invalid_ids_are_not_written(id_: str) -> None:
    with pytest.raises(ValueError, match="id of an event"):
        encode(b"{}", b"", id_)


def test_type_holds_for_one_event() -> None:
    assert read(b"event: error\ndata: a\n\ndata: b\n\n") == [Event("error", b"a"), Event("message", b"b")]


def test_an_event_without_data_is_none() -> None:
    assert read(b"event: error\n\ndata: b\n\n") == [Event("message", b"b")]


def test_only_one_leading_space_belongs_to_the_format() -> None:
    assert read(b"data:  a\n\ndata:b\n\n") == [Event("message", b" a"), Event("message", b"b")]


def test_data_without_colon_is_empty_data() -> None:
    assert read(b"data\ndata: a\n\n") == [Event("message", b"\na")]


@pytest.mark.parametrize(
    "empty", [b"data\n\n", b"data:\n\n", b"data: \n\n", b"event: ping\nid: 1\ndata:\ndata:\n\n"]
)
def test_events_with_empty_data_are_keep_alives(empty: bytes) -> None:
    assert read(empty + b"data: a\n\n" + empty) == [Event("message", b"a")]


@each("cut", range(60))
def test_an_object_without_data_is_an_event(cut: int) -> None:
    stream = b'id: 1\n{\n "data": 1,\n "event": 2\n}\n\ndata: a\n\n{"b": 1}\r\n'
    decoder = Decoder(LIMIT)
    found = [*decoder.feed(stream[:cut]), *decoder.feed(stream[cut:])]
    assert [json.loads(one.data) if one.data != b"a" else "a" for one in found] == [
        {"data": 1, "event": 2},
        "a",
    ]
    assert found[0].id == "1"
    assert decoder.end() == [Event("message", b'{"b": 1}')]
    assert not decoder.pending
    assert decoder.end() == []


@pytest.mark.parametrize("stream", [b'{"a": 1', b'{"a": 1,\n', b'data: a\n{"b": 1}', b"data: {}\n"])
def test_an_object_that_is_cut_or_within_an_event_is_none(stream: bytes) -> None:
    decoder = Decoder(LIMIT)
    assert (decoder.feed(stream), decoder.end()) == ([], [])
    assert decoder.pending


@pytest.mark.parametrize("cut", range(4))
def test_byte_order_mark(cut: int) -> None:
    stream = b"\xef\xbb\xbfdata: a\n\n"
    assert read(stream[:cut], stream[cut:]) == [Event("message", b"a")]


def test_text_that_only_begins_like_a_byte_order_mark_is_kept() -> None:
    assert read(b"\xef", b"\xbb", b"x\ndata: a\n\n") == [Event("message", b"a")]


def test_keep_alives_are_silent() -> None:
    assert read(KEEP_ALIVE, KEEP_ALIVE) == []


@pytest.mark.parametrize(
    ("stream", "pending"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\n\n: half a comm", False),
        (b"data: a\n\ndata:\n", False),
        (b"data: a\n", True),
        (b"data: a", True),
        (b"data: a\n\ndat", True),
    ],
)
def test_an_end_in_the_middle_shows(stream: bytes, pending: bool) -> None:
    decoder = Decoder(LIMIT)
    decoder.feed(stream)
    assert decoder.pending is pending


@pytest.mark.parametrize(
    "chunk",
    [b"x" * 50, b"data: " + b"x" * 50, b"data: " + b"x" * 40 + b"\n", b"data:\n" * 10, b"data\n" * 20],
)
def test_the_buffer_is_bounded(chunk: bytes) -> None:
    decoder = Decoder(100)

    def flood() -> None:
        for _ in range(12):
            decoder.feed(chunk)

    with pytest.raises(EventTooLargeError):
        flood()


def test_many_small_events_do_not_add_up() -> None:
    decoder = Decoder(100)
    assert sum(len(decoder.feed(b"data: 0123456789\n\n")) for _ in range(1000)) == 1000


def test_unicode_line_ends_leave_escaped() -> None:
    data = json.dumps({"text": "a\x85b\u2028c\u2029d…"}, ensure_ascii=False, separators=(",", ":"))
    event = encode(data.encode())
    assert len(event.decode().splitlines()) == 2
    [read_back] = read(event)
    assert json.loads(read_back.data) == json.loads(data)


LINES = st.lists(
    st.one_of(
        st.builds(
            lambda text: "data: " + text,
            st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12),
        ),
        st.sampled_from([": comment", "event: error", "id: 1", "retry: 5", "", "", "data", "data:"]),
    ),
    max_size=20,
)


@given(LINES, st.data())
def test_chunks_do_not_matter(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(
        st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=len(lines), max_size=len(lines))
    )
    stream = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode()
    # One CR and one LF of two lines would be one line end: keep the reference on whole text.
    expected = read(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == expected
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == expected


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_written_events_can_be_read(tree: object) -> None:
    data = json.dumps(tree, ensure_ascii=False).encode()
    [event] = read(encode(data, b"error"))
    assert event.type == "error"
    assert json.loads(event.data) == tree


@given(st.binary(max_size=200))
def test_garbage_is_no_crash(stream: bytes) -> None:
    Decoder(LIMIT).feed(stream)
