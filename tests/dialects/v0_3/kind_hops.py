"""Ways through the hub for trees of the `kind` shape, and back."""

from collections.abc import Callable
from typing import Any

from a2a_bridge import codec
from a2a_bridge.dialects.v0_3.requests import ROWS
from tests.identity import says

ROW = {row.address: row for row in ROWS}

MESSAGE: dict[str, Any] = {
    "kind": "message",
    "messageId": "m",
    "role": "user",
    "parts": [{"kind": "text", "text": "hi"}],
}
TASK: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}


def reading(decode: Callable[[Any], Any], text: bytes | str) -> Any:
    """Decodes JSON text as bindings do."""
    return decode(codec.loads(text))


def binary(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


def proto_json(message: Any) -> Any:
    return codec.decode_bytes(type(message), codec.dumps(codec.encoder(type(message))(message)))


def both(message: Any) -> Any:
    return proto_json(binary(message))


def direct(message: Any) -> Any:
    return message


HOPS = {"direct": direct, "binary": binary, "ProtoJSON": proto_json, "both": both}


def through(
    decode: Callable[[Any], Any], encode: Callable[[Any], Any], tree: Any, hop: Callable[[Any], Any] = direct
) -> Any:
    """A tree after its way from text into the hub, by a hop, and back to text."""
    message = reading(decode, codec.dumps(tree))
    return codec.loads_exact(codec.dumps(encode(hop(message))))


def check(decode: Callable[[Any], Any], encode: Callable[[Any], Any], tree: Any, *hops: str) -> None:
    """Whatever the hops, the output has the content of the tree. All hops if none is named."""
    text = codec.dumps(tree)
    wanted = codec.loads_exact(text)
    message = reading(decode, text)
    for name in hops or HOPS:
        found = codec.loads_exact(codec.dumps(encode(HOPS[name](message))))
        assert says(found, wanted), (name, text, codec.dumps(found), message)
