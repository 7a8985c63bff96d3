"""What a protocol version is: forms of rows of pure functions. Not a version itself: those are the folders.

Rules:
1. A row is the only place where an operation, an address and a spelling meet.
2. A missing row means the version lacks the operation; a missing form, that it lacks the binding.
3. Functions here and in the folders are pure: no clock, no network, no memory of earlier calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from a2a_bridge.codec import JsonObject, decoder, encoder
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files

Address = TypeVar("Address")
Wire = TypeVar("Wire")


@dataclass(frozen=True, slots=True)
class Kind(Generic[Address, Wire]):
    """The identity of a binding, named as `AgentInterface.protocol_binding` names it (spec 5)."""

    name: str


@dataclass(frozen=True, slots=True)
class HttpRule:
    """One way to reach an operation over HTTP+JSON, from a google.api.http rule.

    method: upper case. template: such as `/tasks/{id}:cancel`, with JSON member names in the braces, each
    standing for one segment. body: whether the other members travel in the body (else in the query).
    query: member name -> how its text is read: "string", "int", "bool", "enum", "timestamp" or "[]…".
    aliases: other names for members in a query. strict: an unknown member of the query is refused and not
    ignored.
    """

    method: str
    template: str
    body: bool
    query: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """All the rules of one operation. Clients use the first that fits; servers mount all."""

    rules: tuple[HttpRule, ...]


JSONRPC: Kind[str, Any] = Kind("JSONRPC")
HTTP_JSON: Kind[HttpAddress, Any] = Kind("HTTP+JSON")
GRPC: Kind[str, bytes] = Kind("GRPC")


@dataclass(frozen=True, slots=True)
class Row(Generic[Address, Wire]):
    """One operation in one form. Decoders raise A2AError INVALID_PARAMS.

    Some requests and responses say what the hub's message has no place for, not even a metadata Struct. It
    travels beside the message, as service parameters:
    aside, recall: what a request says beside its message (server side); a request with that in it (client
    side).
    aside_response, recall_response: the same for a response, from the client side to the server side.
    Each is None where there is nothing of the kind, which is nearly everywhere. Bindings call aside and
    recall only; what to do with parameters they leave to others.

    Some versions have several spellings of one operation, and answer in the one they were asked in:
    spelled: the row for one request, given that and the caller's parameters (server side, before
    decode_request; for the whole call, errors aside). None where there is one spelling only. Clients use the
    row as it is.

    relayed: the row for one call, given its context (client side, before encode_request). None where there is
    one way only. says: service parameters that go with the request, from the client side.

    strict: a request without members that a strict reader of the version refuses (client side, after
    encode_request, for agents with Quirks.strict_json). None where there are none.

    instead: the row to ask with when the agent refused this one's request as one that it cannot read (client
    side). If that is answered, it is used from then on. None where there is one way only.

    explicit: a request with those defaults written out that agents do not share; given the request and
    whether its caller speaks 0.x, too (client side, after encode_request). None where all agree on the
    defaults.
    """

    operation: ops.Operation[Any, Any]
    address: Address
    encode_request: Callable[[Any], Wire]
    decode_request: Callable[[Wire], Any]
    encode_response: Callable[[Any], Wire]
    decode_response: Callable[[Wire], Any]
    aside: Callable[[Wire], Mapping[str, str]] | None = None
    recall: Callable[[Wire, Mapping[str, str]], Wire] | None = None
    aside_response: Callable[[Wire], Mapping[str, str]] | None = None
    recall_response: Callable[[Wire, Mapping[str, str]], Wire] | None = None
    spelled: Callable[[Wire, Mapping[str, str]], Row[Address, Wire]] | None = None
    explicit: Callable[[Wire, bool], Wire] | None = None
    relayed: Callable[[CallContext], Row[Address, Wire]] | None = None
    says: Mapping[str, str] | None = None
    strict: Callable[[Wire], Wire] | None = None
    instead: Row[Address, Wire] | None = None

    @property
    def streaming(self) -> bool:
        """Whether the operation answers with a stream."""
        return isinstance(self.operation, ops.Streaming)


@dataclass(frozen=True, slots=True)
class ErrorReply(Generic[Wire]):
    """An error as a binding sends it.

    status: HTTP status for JSONRPC and HTTP+JSON, gRPC status number for GRPC.
    body: JSON-RPC error object; HTTP+JSON error body; serialized google.rpc.Status. None when a peer sent
        nothing that can be read.
    text: what a peer said beside the body (gRPC status message, raw HTTP body). When encoding: the gRPC
    status
        message if it is another than the error's, else empty.
    operation: what was asked for, where that is known; some versions use one status for several errors.
    """

    status: int
    body: Wire | None
    text: str = ""
    operation: ops.Operation[Any, Any] | None = None


@dataclass(frozen=True, slots=True)
class Form(Generic[Address, Wire]):
    """A version over one binding: its rows and its spelling of errors.

    encode_declared: errors for a caller of 0.x that sends A2A-Version, which only SDKs of 1.0 do: they read
    an older version with the tables of 1.0. None: as for all others.
    """

    rows: tuple[Row[Address, Wire], ...]
    encode_error: Callable[[A2AError], ErrorReply[Wire]]
    decode_error: Callable[[ErrorReply[Wire]], A2AError]
    encode_declared: Callable[[A2AError], ErrorReply[Wire]] | None = None
    #: (body of an encoded error, the caller's parameters) -> the body as this caller can read it; None for as
    #: it is
    shape_error: Callable[[Any, Mapping[str, str]], Any] | None = None

    def encoder(self, *, declared: bool) -> Callable[[A2AError], ErrorReply[Wire]]:
        """How errors are written to a caller that sends A2A-Version, or to one that does not."""
        return (declared and self.encode_declared) or self.encode_error

    def row(self, operation: ops.Operation[Any, Any]) -> Row[Address, Wire] | None:
        """The row of an operation; None when this version lacks it."""
        return next((row for row in self.rows if row.operation is operation), None)


@dataclass(frozen=True, slots=True)
class CardForm:
    """How a version spells the agent card, and where it looks for it.

    claims: whether a card that names no version is of this one, where it can be told.
    beside: its members as they stand in a card of 1.0 that older readers understand too; None for what
    `encode` gives. Members of both have to mean the same: what is in the card already stays.
    """

    paths: tuple[str, ...]
    encode: Callable[[hub.AgentCard], JsonObject]
    decode: Callable[[JsonObject], hub.AgentCard]
    claims: Callable[[JsonObject], bool] | None = None
    beside: Callable[[hub.AgentCard], JsonObject] | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Hub content that a version cannot say: the JSON path in the hub and the reason.

    bindings: the only ones that cannot, by name; empty: none can.
    """

    path: str
    reason: str
    bindings: tuple[str, ...] = ()

    def concerns(self, binding: str) -> bool:
        """Whether it is lost over a binding."""
        return not self.bindings or binding in self.bindings


@dataclass(frozen=True, slots=True)
class PushForm:
    """How a version spells a push notification.

    media_type: of the body. encode: an event, or a task, as the body. decode: the reverse; raises
    INVALID_PARAMS. whole_tasks: the body is always a Task, so who sends an update has to have the task at
    hand.
    """

    media_type: str
    encode: Callable[[hub.StreamResponse], JsonObject]
    decode: Callable[[JsonObject], hub.StreamResponse]
    whole_tasks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One protocol version. `version` is Major.Minor (or Major.Minor.Patch where that is the identity).

    declares: whether its callers say their version (spec 1.0, 3.6.1); who says none speaks an older one.
    extensions: names of the parameter that lists extensions. All are read, and all are sent.
    final_events: whether a stream ends with a status event that says `final`, instead of just ending.
    losses: what it cannot say, not even as text beside it.
    files: forms for dialling agents whose spelling of file contents is known, where that makes a difference.
    """

    version: str
    card: CardForm
    forms: Mapping[Kind[Any, Any], Form[Any, Any]]
    push: PushForm | None = None
    declares: bool = True
    extensions: tuple[str, ...] = ("a2a-extensions",)
    final_events: bool = False
    losses: tuple[Loss, ...] = ()
    files: Mapping[Files, Mapping[Kind[Any, Any], Form[Any, Any]]] = field(default_factory=dict)
    #: used for a binding nobody has written a form for; None forbids such bindings
    canonical: Form[str, Any] | None = None

    def form(self, kind: Kind[Address, Wire], *, files: Files = Files.AUTO) -> Form[Address, Wire] | None:
        """The form for a binding; the canonical one for a binding unknown here; None when there is none.

        files: the spelling of file contents of the agent to dial, where it is known.
        """
        known = self.files.get(files, {}).get(kind) or self.forms.get(kind)
        if known is not None:
            return cast("Form[Address, Wire]", known)
        if kind in (JSONRPC, HTTP_JSON, GRPC):
            return None
        return cast("Form[Address, Wire] | None", self.canonical)

    def __repr__(self) -> str:
        return f"<Dialect {self.version}>"


def canonical_rows() -> tuple[Row[str, Any], ...]:
    """Rows for any JSON carrier: the operation's name as address, ProtoJSON as wire."""
    return tuple(
        Row(
            operation,
            operation.name,
            encode_request=encoder(operation.request),
            decode_request=decoder(operation.request),
            encode_response=encoder(operation.response),
            decode_response=decoder(operation.response),
        )
        for operation in ops.ALL
    )
