"""JSON-RPC 2.0 frames: bytes ↔ id, method, params, result, error. Pure; it knows no A2A operation or version.

Rules (JSON-RPC 2.0; A2A 1.0.1 section 9):
1. A request has a string or integer id, or null. One without an id would be a notification, which A2A does
   not have: it is rejected after the checks of method and params, so every request is answered. Fractions and
   ids of more than MAX_ID bytes of JSON are rejected.
2. There are no batches.
3. An address is a method's name, or `GET` and a path relative to the URL for a document outside of JSON-RPC.
4. Ids are returned unchanged. If none could be read, the response's id is null.
5. Halves of surrogate pairs, which no protobuf string and few JSON libraries accept, are rejected in ids and
   methods.
"""

from functools import cache
from typing import NamedTuple, cast

from a2a_bridge.codec import Json, JsonObject, JsonSyntaxError, loads_exact
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects.signed_extras import dumps, loads

MAX_ID = 1024
#: integers between these have at most MAX_ID characters
_LEAST, _MOST = -(10 ** (MAX_ID - 1)), 10**MAX_ID
NULL = b"null"
#: the part of a successful response after its result
AFTER_RESULT = b"}"


class Frame(NamedTuple):
    """A JSON-RPC request."""

    #: the id as JSON text; null, as in the response, if the request has none
    id: bytes
    method: str
    #: of any type; None if absent
    params: Json
    #: True if there is an id
    identified: bool = True


class MalformedRequestError(Exception):
    """An invalid request: the error to answer with, and the id of the response."""

    def __init__(self, error: A2AError, id: bytes = NULL) -> None:  # noqa: A002  the protocol's word
        super().__init__(error.message)
        self.error = error
        self.id = id


class Answer(NamedTuple):
    """A response: its id, its result (None if absent) and its error (None if absent)."""

    id: Json
    result: Json
    error: Json
    complete: bool


def parse(body: bytes) -> Frame:
    """Reads a request. Raises MalformedRequestError with PARSE_ERROR or INVALID_REQUEST."""
    try:
        tree = loads(body)
    except JsonSyntaxError as error:
        raise MalformedRequestError(A2AError(Reason.PARSE_ERROR, str(error))) from None
    if type(tree) is not dict:
        text = "batches are not part of A2A" if type(tree) is list else "a request is a JSON object"
        raise MalformedRequestError(A2AError(Reason.INVALID_REQUEST, text))
    value = tree.get("id")
    token = b"%d" % value if type(value) is int and _LEAST < value < _MOST else _token(value, body)
    if tree.get("jsonrpc") != "2.0":
        raise MalformedRequestError(A2AError(Reason.INVALID_REQUEST, 'jsonrpc has to be "2.0"'), token)
    method = tree.get("method")
    if type(method) is not str or not method or not (method.isascii() or _is_unicode(method)):
        raise MalformedRequestError(A2AError(Reason.INVALID_REQUEST, "method has to be a string"), token)
    return tuple.__new__(Frame, (token, method, tree.get("params"), "id" in tree))


def not_a_request() -> A2AError:
    """INVALID_REQUEST for a request that only lacks an id."""
    return A2AError(Reason.INVALID_REQUEST, "a request needs an id; A2A has no notifications")


def result(id: bytes, tree: Json) -> bytes:  # noqa: A002
    """A successful response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, dumps(tree))


def before_result(id: bytes) -> bytes:  # noqa: A002
    """The part of a successful response before its result; all responses of a stream have the same."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % id


def error(id: bytes, body: Json) -> bytes:  # noqa: A002
    """A response that is an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, dumps(body))


def request(id: int, method: str, params: Json) -> bytes:  # noqa: A002
    """A request; without params if they are None."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%d,"method":%b}' % (id, _quoted(method))
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (id, _quoted(method), dumps(params))


@cache
def _quoted(method: str) -> bytes:
    """The name of a method as JSON: those of the rows of known versions, which are few."""
    return dumps(method)


def answer(data: bytes) -> Answer:
    """Reads a response. Raises INVALID_AGENT_RESPONSE, which blames the peer."""
    try:
        tree = loads(data)
    except JsonSyntaxError as problem:
        raise not_a_response(str(problem)) from None
    if type(tree) is not dict:
        raise not_a_response("it is not a JSON object")
    failed = tree.get("error")
    return tuple.__new__(Answer, (tree.get("id"), tree.get("result"), failed, "result" in tree))


def document(address: str) -> str | None:
    """The relative path of a row's address that is a document; None if the address is a method."""
    return address[4:] if address.startswith("GET ") else None


def beside(path: str, relative: str) -> str:
    """Resolves a relative path against a URL's path as a folder: ("/a/b", "../c") gives "/a/c"."""
    parts = [part for part in path.split("/") if part]
    for part in relative.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def not_a_response(problem: str) -> A2AError:
    """INVALID_AGENT_RESPONSE for an invalid JSON-RPC response."""
    text = f"the agent's answer is not a JSON-RPC response: {problem}"
    return A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def _token(value: object, body: bytes) -> bytes:
    if isinstance(value, float):  # a fraction, or an integer beyond 64 bits
        try:
            value = cast("JsonObject", loads_exact(body))["id"]
        except JsonSyntaxError as error:  # it takes fewer levels than `loads`
            raise MalformedRequestError(A2AError(Reason.PARSE_ERROR, str(error))) from None
    if isinstance(value, str) and (value.isascii() or _is_unicode(value)):
        token = dumps(value)
        if len(token) <= MAX_ID:
            return token
    elif type(value) is int and _LEAST < value < _MOST:
        return b"%d" % value
    elif value is None:
        return NULL
    text = f"id has to be a string or an integer of at most {MAX_ID} bytes, or null"
    raise MalformedRequestError(A2AError(Reason.INVALID_REQUEST, text))
