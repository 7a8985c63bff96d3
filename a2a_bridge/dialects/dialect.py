"""The definition of a protocol version: forms with rows of pure functions. The versions are the folders.

Rules:
1. Only a row connects an operation, an address and an encoding.
2. A missing row means that the version lacks the operation; a missing form, that it lacks the binding.
3. Functions here and in the folders are pure: no clock, no network, no state between calls.
4. Inside, all errors name members as the hub does. An error with the names of an older version
   (`MemberNames`) is a new object: the same error may be raised for several callers. Decoders use the names
   of their wire already, and the rules of a version leave these unchanged.
5. A caller may list extensions under either name of the parameter (spec 3.2.6; 0.3.0: X-A2A-Extensions), or
   both. The lists are merged, each URI once. The response uses the caller's names, or the names of its
   version if the caller used none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

from google.protobuf.message import Message

from a2a_bridge.codec import JsonObject
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, CallContext
from a2a_bridge.core.errors import A2AError, Violation, changed
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files

Rename = Callable[[A2AError], A2AError]
#: (pattern of a path, its replacement); all of them are applied, in their order
Rule = tuple[str, str]


class MemberNames(NamedTuple):
    """The two directions for the errors of one request."""

    #: an error of a service, for a caller of the version
    encode: Rename
    #: an error of an agent of the version
    decode: Rename


def renaming(*rules: Rule) -> Rename:
    """The function that renames the members at fault, also in the text of the error."""
    compiled = [(re.compile(pattern), new) for pattern, new in rules]

    def name_of(path: str) -> str:
        for pattern, new in compiled:
            path = pattern.sub(new, path)
        return path

    def rename(error: A2AError) -> A2AError:
        names = {one.field: name_of(one.field) for one in error.violations}
        renames = {old: new for old, new in names.items() if new != old}
        if not renames:
            return error
        message = error.message
        for old, new in renames.items():
            # Texts begin with the paths, each of them before a comma or a colon.
            text = new.replace("\\", r"\\")
            message = re.sub(rf"(?<![\w.]){re.escape(old)}(?=[,:])", text, message, count=1)
        violations = [Violation(names[one.field], one.description) for one in error.violations]
        renamed = changed(error, message=message, violations=violations)
        for note in getattr(error, "__notes__", ()):
            renamed.add_note(note)
        return renamed

    return rename


Address = TypeVar("Address")
Wire = TypeVar("Wire")


@dataclass(frozen=True, slots=True)
class BindingKind(Generic[Address, Wire]):
    """The identity of a binding, named as `AgentInterface.protocol_binding` names it (spec 5)."""

    name: str


@dataclass(frozen=True, slots=True)
class HttpRule:
    """One way to reach an operation over HTTP+JSON, from a google.api.http rule."""

    #: in upper case
    method: str
    #: such as `/tasks/{id}:cancel`, with JSON member names in the braces; each stands for one segment
    template: str
    #: whether the other members travel in the body; otherwise they travel in the query
    body: bool
    #: member name -> type of its text: "string", "int", "bool", "enum", "timestamp" or "[]…"
    query: Mapping[str, str] = field(default_factory=dict)
    #: other names for members in a query
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """All the rules of one operation. Clients use the first that fits; servers mount all."""

    rules: tuple[HttpRule, ...]


JSONRPC: BindingKind[str, Any] = BindingKind("JSONRPC")
HTTP_JSON: BindingKind[HttpAddress, Any] = BindingKind("HTTP+JSON")
GRPC: BindingKind[str, bytes] = BindingKind("GRPC")


@dataclass(frozen=True, slots=True)
class Beside(Generic[Wire]):
    """Content of a message that the hub's message cannot hold, not even as metadata. It travels beside the
    message, as service parameters. Only bindings call these functions; other layers pass the
    parameters on.
    """

    #: the service parameters with that content, on the side that decodes the message
    extract: Callable[[Wire], Mapping[str, str]]
    #: the message with that content restored, on the side that has encoded it
    restore: Callable[[Wire, Mapping[str, str]], Wire]


@dataclass(frozen=True, slots=True)
class RowExtras(Generic[Address, Wire]):
    """What a version does beyond the four functions of a row. Most rows need none of it."""

    #: content beside a request
    request: Beside[Wire] | None = None
    #: content beside a response
    response: Beside[Wire] | None = None
    #: the row for one request, given the request and the caller's parameters (server side, before
    #: decode_request; for the whole call except errors), for operations with several variants, which are
    #: answered in the variant of the request. Clients use the row unchanged
    variant: Callable[[Wire, Mapping[str, str]], Row[Address, Wire]] | None = None
    #: the row for one call, given its context (client side, before encode_request)
    for_agent: Callable[[CallContext], Row[Address, Wire]] | None = None
    #: the row to retry with after the agent rejected this row's request as unreadable (client side). If the
    #: retry is answered, it is used from then on
    fallback: Row[Address, Wire] | None = None
    #: a request with explicit values for defaults that differ between agents, given the request and whether
    #: its caller speaks 0.x (client side, after encode_request)
    explicit: Callable[[Wire, bool], Wire] | None = None
    #: a request without the members that strict readers of the version reject (client side, after
    #: encode_request, for agents with Quirks.strict_json)
    strict: Callable[[Wire], Wire] | None = None
    #: the version's names of members in errors; None if the hub has the same
    names: MemberNames | None = None
    #: service parameters that the client side sends with the request
    parameters: Mapping[str, str] | None = None


NO_EXTRAS: RowExtras[Any, Any] = RowExtras()


@dataclass(frozen=True, slots=True)
class Row(Generic[Address, Wire]):
    """One operation in one form. Decoders raise A2AError INVALID_PARAMS."""

    #: the operation
    operation: ops.Operation[Any, Any]
    #: the address of the operation in the form
    address: Address
    #: hub request -> wire
    encode_request: Callable[[Any], Wire]
    #: wire -> hub request
    decode_request: Callable[[Wire], Any]
    #: hub response -> wire
    encode_response: Callable[[Any], Wire]
    #: wire -> hub response
    decode_response: Callable[[Wire], Any]
    #: what else the version does for the operation
    extras: RowExtras[Address, Wire] = NO_EXTRAS

    def encode_names(self, error: A2AError) -> A2AError:
        """A service's error with the version's names of members, before the form encodes it (server side)."""
        names = self.extras.names
        return error if names is None else names.encode(error)

    def decode_names(self, error: A2AError) -> A2AError:
        """An agent's error with the hub's names of members, after the form has decoded it (client side)."""
        names = self.extras.names
        return error if names is None else names.decode(error)

    @property
    def streaming(self) -> bool:
        """Whether the operation answers with a stream."""
        return isinstance(self.operation, ops.Streaming)

    def with_extras(self, **changes: Any) -> Self:
        """The same row with other values of these members of its `extras`."""
        return replace(self, extras=replace(self.extras, **changes))


@dataclass(frozen=True, slots=True)
class ErrorReply(Generic[Wire]):
    """An error as a binding sends it."""

    #: HTTP status for JSONRPC and HTTP+JSON, gRPC status number for GRPC
    status: int
    #: JSON-RPC error object; HTTP+JSON error body; google.rpc.Status as bytes. None if nothing is readable
    body: Wire | None
    #: text of a peer outside the body (gRPC status message, raw HTTP body). When encoding: the gRPC status
    #: message if it differs from the error's, else empty
    text: str = ""
    #: the requested operation, if known; some versions use one status for several errors
    operation: ops.Operation[Any, Any] | None = None


@dataclass(frozen=True, slots=True)
class Form(Generic[Address, Wire]):
    """A version over one binding: its rows and its error format."""

    #: the rows
    rows: tuple[Row[Address, Wire], ...]
    #: error -> wire
    encode_error: Callable[[A2AError], ErrorReply[Wire]]
    #: wire -> error
    decode_error: Callable[[ErrorReply[Wire]], A2AError]
    #: errors for a 0.x caller that sends A2A-Version. Only SDKs of 1.0 do so, and they read an older version
    #: with the tables of 1.0. None: the same as `encode_error`
    encode_declared: Callable[[A2AError], ErrorReply[Wire]] | None = None
    #: (body of an encoded error, the caller's parameters) -> a body that the caller can read; None: no change
    shape_error: Callable[[Any, Mapping[str, str]], Any] | None = None
    #: the request and the response of operations whose JSON is ProtoJSON of other messages than those of the
    #: operation, for `openapi`
    messages: Mapping[ops.Operation[Any, Any], tuple[type[Message], type[Message]]] = field(
        default_factory=dict
    )
    #: names of members that differ from those of their proto, such as `TaskStatus.message`, for `openapi`
    json_names: Mapping[str, str] = field(default_factory=dict)

    def encoder(self, *, declared: bool) -> Callable[[A2AError], ErrorReply[Wire]]:
        """The error encoder for a caller that sends A2A-Version, or for one that does not."""
        return (declared and self.encode_declared) or self.encode_error

    def row(self, operation: ops.Operation[Any, Any]) -> Row[Address, Wire] | None:
        """The row of an operation; None when this version lacks it."""
        return next((row for row in self.rows if row.operation is operation), None)


@dataclass(frozen=True, slots=True)
class CardForm:
    """The agent card of a version: its format and its paths."""

    #: the paths where the version looks for the card
    paths: tuple[str, ...]
    #: hub -> card
    encode: Callable[[hub.AgentCard], JsonObject]
    #: card -> hub
    decode: Callable[[JsonObject], hub.AgentCard]
    #: whether a card without a version is of this version; None if that cannot be determined
    claims: Callable[[JsonObject], bool] | None = None
    #: the members of this version for a card of 1.0 that older readers also understand; None for those of
    #: `encode`. Members that exist in both versions must have the same meaning: present members are kept
    beside: Callable[[hub.AgentCard], JsonObject] | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Hub content that a version cannot express."""

    #: the JSON path in the hub
    path: str
    #: why it is lost
    reason: str
    #: names of the bindings that lose it; empty for all
    bindings: tuple[str, ...] = ()

    def concerns(self, binding: str) -> bool:
        """Whether it is lost over a binding."""
        return not self.bindings or binding in self.bindings


@dataclass(frozen=True, slots=True)
class PushForm:
    """The push notification format of a version."""

    #: media type of the body
    media_type: str
    #: an event or a task -> the body
    encode: Callable[[hub.StreamResponse], JsonObject]
    #: the body -> an event, without `payload` for one that is not known here; raises INVALID_PARAMS
    decode: Callable[[JsonObject], hub.StreamResponse]
    #: the body is always a Task, so the sender of an update needs the task
    whole_tasks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One protocol version."""

    #: Major.Minor, or Major.Minor.Patch if the patch is part of the identity
    version: str
    #: the card format
    card: CardForm
    #: the forms by binding
    forms: Mapping[BindingKind[Any, Any], Form[Any, Any]]
    #: the push notification format; None if the version has none
    push: PushForm | None = None
    #: whether its callers declare their version (spec 1.0, 3.6.1); callers that declare none speak an older
    #: version
    declares: bool = True
    #: names of the parameter that lists extensions. All are read, and all are sent
    extensions: tuple[str, ...] = ("a2a-extensions",)
    #: whether a stream ends with a status event that is marked `final`; otherwise it just ends
    final_events: bool = False
    #: content that the version cannot express, not even as text beside the message
    losses: tuple[Loss, ...] = ()
    #: forms for agents with a known encoding of file contents, where the encoding matters
    files: Mapping[Files, Mapping[BindingKind[Any, Any], Form[Any, Any]]] = field(default_factory=dict)
    #: the form for bindings without a form of their own; None forbids such bindings
    canonical: Form[str, Any] | None = None

    def form(
        self, kind: BindingKind[Address, Wire], *, files: Files = Files.AUTO
    ) -> Form[Address, Wire] | None:
        """The form for a binding; the canonical one for an unknown binding; None if there is none. files: the
        known encoding of file contents of the dialled agent.
        """
        known = self.files.get(files, {}).get(kind) or self.forms.get(kind)
        if known is not None:
            return cast("Form[Address, Wire]", known)
        if kind in (JSONRPC, HTTP_JSON, GRPC):
            return None
        return cast("Form[Address, Wire] | None", self.canonical)

    def __repr__(self) -> str:
        return f"<Dialect {self.version}>"


#: the name before 1.0
OLDER_EXTENSIONS = "x-a2a-extensions"

_NAMES = (EXTENSIONS_PARAMETER, OLDER_EXTENSIONS)


def merge(values: Iterable[str]) -> str:
    """Several lists as one, in their order, without repetition."""
    uris = (uri for value in values for part in value.split(",") if (uri := part.strip()))
    return ",".join(dict.fromkeys(uris))


def extension_names(used: Container[object], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The names for a response. used: the parameters of the request. usual: the names of its version."""
    return tuple(name for name in _NAMES if name in used) or usual
