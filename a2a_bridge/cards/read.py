"""Reads a card whose version is not known yet, and has middleware for extended cards. It fetches nothing.

Rules:
1. The members of a card decide its version, not the readers that accept it: with `supportedInterfaces` it is
   a card of 1.0, with `protocolVersion` one of that version. With neither it is of 0.3 if it is signed, of
   the version that claims it, else of 0.2. Members in snake_case count.
2. A card of several versions is one of 1.0. Content that its 1.0 members lack is taken from the others:
   schemes that have a `type` only, `security`, interfaces that are not in `supportedInterfaces`, and the
   `https://` of gRPC addresses, which have no scheme in 1.0.
3. An interface of `supportedInterfaces` without a version has the card's `protocolVersion`, else 1.0. In a
   card with members of 0.x, `protocolVersion` is one of those and does not apply to `supportedInterfaces`.
4. A card without interfaces is rejected, unless its agent is served here, where they are of no use. A
   `protocolVersion` of 0.x, or a member that only 0.x has, then shows a card of 0.x without its URL.
5. What can mean one thing only is read as that: a binding in other letters (`jsonrpc`, `JSON-RPC`), a version
   without a minor one or with a `v` (`1`, `v1.0`), a URL that is relative to the URL of the card.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urljoin

from a2a_bridge.codec import Json, JsonObject, JsonSyntaxError
from a2a_bridge.codec.plan import plan_of
from a2a_bridge.codec.unknown import unknown_members
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD, Req, Res
from a2a_bridge.core.service import Middleware, Service
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V1_0, Dialect, by_version
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.signed_extras import loads
from a2a_bridge.dialects.v0_3.card import is_old, with_standard_names
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the version of cards that name none and that no dialect claims: 0.2.0 to 0.2.4 had no `protocolVersion`
_UNSAID = "0.2"
#: the member that 0.3 has introduced
_OF_0_3 = "signatures"
#: members besides addresses that 1.0 has under other names
_OF_0_X = frozenset({"security", "supportsAuthenticatedExtendedCard"})
_WEB = ("http://", "https://")
#: what helps against a card that its agent cannot be asked to change
CORRECTED = (
    "the card with this member corrected, from a file: --card FILE of gateway, -a FILE of other commands"
)
_SECURE = ("https://", "grpcs://")


class CardError(A2AError):
    """INVALID_AGENT_RESPONSE of a document that should be a card. absent: there is no document. hint: what
    helps; empty if the message says it.
    """

    def __init__(self, message: str, *, absent: bool = False, hint: str = "") -> None:
        super().__init__(Reason.INVALID_AGENT_RESPONSE, message, blame=Blame.PEER)
        self.absent = absent
        self.hint = hint


def without_mark(document: bytes) -> bytes:
    """A document without a byte order mark (RFC 8259, 8.1), which the strict check of signatures rejects."""
    return document.removeprefix(BOM_UTF8)


def parse_bytes(body: bytes, location: str, *, hosted: bool = False) -> hub.AgentCard:
    """The card in a JSON document. hosted: of an agent here, which needs no interfaces. Raises CardError."""
    hint = CORRECTED if location.startswith(_WEB) else ""
    try:
        return _parse(loads(body), location, hosted)
    except JsonSyntaxError as error:
        raise CardError(f"the document at {location} is not JSON: {error}", hint=hint) from None
    except A2AError as error:
        raise CardError(error.message, hint=hint) from None


def unknown_in(body: bytes) -> list[tuple[str, str, list[str]]]:
    """The members of a card of 1.0 that it does not define: see `codec.unknown.unknown_members`. Those of
    older versions, which name theirs otherwise, are not looked for. body: a JSON object.
    """
    tree: Any = loads(body)
    if _old({"url": ""} | tree if _has_old_members(tree) else tree) is not None:
        return []
    return list(unknown_members(plan_of(hub.AgentCard), tree))


def _parse(tree: Json, location: str, hosted: bool) -> hub.AgentCard:
    if type(tree) is not dict:
        raise CardError(f"the document at {location} is not an agent card")
    named = with_standard_names(tree)
    old = _old({"url": ""} | named if hosted and _has_old_members(named) else named)
    if old is None:
        card = V1_0.card.decode(tree)
    elif not named.get("supportedInterfaces"):
        card = old.card.decode(tree)
    else:
        card = _dual(tree, old)
    for one in card.supported_interfaces:
        one.protocol_version = _usual_version(one.protocol_version) or _own_version(named, old)
        one.protocol_binding = _BINDINGS.get(_letters(one.protocol_binding), one.protocol_binding)
        if one.url.startswith(("/", "./", "../")) and location.startswith(_WEB):
            one.url = urljoin(location, one.url)
    if card.supported_interfaces or hosted:
        return card
    raise CardError(f"the card at {location} names no interface")


def assumption(version: str, tree: Mapping[str, Any] | None = None) -> str:
    """Why the card (`tree`) is read as one of a version that it may not name; empty if it names one."""
    named = tree is not None and ("protocolVersion" in tree or "protocol_version" in tree)
    if named or normalise(version) not in ("0.1", "0.2"):
        return ""
    if normalise(version) == "0.1":
        return f"{version} is assumed, because the card has `authentication` and no protocolVersion"
    return f"{version} is assumed, because a card without protocolVersion counts as that"


def _letters(binding: str) -> str:
    return "".join(one for one in binding.lower() if one.isalnum())


#: the names of bindings by their letters
_BINDINGS = {_letters(one.name): one.name for one in (JSONRPC, HTTP_JSON, GRPC)}


def _usual_version(text: str) -> str:
    """A version as the specification writes it, if it is a known one in another spelling; else the text."""
    bare = text.strip().removeprefix("v").removeprefix("V")
    usual = f"{bare}.0" if bare.isdecimal() else bare
    return usual if usual != text and by_version(usual) is not None else text


def _own_version(tree: JsonObject, old: Dialect | None) -> str:
    """The version of an interface that names none: the card's own, else 1.0."""
    declared = _usual_version(str(tree.get("protocolVersion")))
    if old is None and by_version(declared) is not None:
        return declared
    return V1_0.version


def _has_old_members(tree: JsonObject) -> bool:
    declared = (normalise(str(tree.get("protocolVersion"))) or "").startswith("0.")
    return declared or not _OF_0_X.isdisjoint(tree)


def _old(tree: JsonObject) -> Dialect | None:
    """The newest version of a card before 1.0; None for a card of 1.0 only."""
    dialects = [one for one in KNOWN if (normalise(one.version) or "").startswith("0.")]
    if not dialects or type(tree.get("url")) is not str:
        return None
    declared = tree.get("protocolVersion")
    if type(declared) is str:
        dialect = by_version(_usual_version(declared))
        return dialect if dialect in dialects else dialects[0]
    if tree.get("supportedInterfaces"):
        return dialects[0]
    if _OF_0_3 in tree:
        return by_version("0.3") or dialects[0]
    claiming = (one for one in reversed(dialects) if one.card.claims is not None and one.card.claims(tree))
    return next(claiming, None) or by_version(_UNSAID) or dialects[-1]


def _dual(tree: JsonObject, old: Dialect) -> hub.AgentCard:
    """A card of 1.0 and of an older version. Raises A2AError if neither can be read."""
    members = {name: value for name, value in tree.items() if name != "supportedInterfaces"}
    try:
        card = V1_0.card.decode(tree)
    except A2AError:
        # In the older version it is a card with an unknown member.
        try:
            return old.card.decode(members)
        except A2AError:
            pass
        raise
    try:
        other = old.card.decode(members)
    except A2AError:
        return card
    _complete_schemes(card, other)
    _complete(card.security_requirements, other.security_requirements)
    for skill, same in zip(card.skills, other.skills, strict=True):
        _complete(skill.security_requirements, same.security_requirements)
    if not card.capabilities.HasField("extended_agent_card") and other.capabilities.extended_agent_card:
        card.capabilities.extended_agent_card = True
    secure = {_place(one): one.url for one in other.supported_interfaces if one.url.startswith(_SECURE)}
    for one in card.supported_interfaces:
        # Port 443 says it itself.
        if one.protocol_binding == GRPC.name and "://" not in one.url and not one.url.endswith(":443"):
            one.url = secure.get(_place(one), one.url)
    known = {_place(one) for one in card.supported_interfaces if is_old(one)}
    card.supported_interfaces.extend(one for one in other.supported_interfaces if _place(one) not in known)
    return card


def _complete_schemes(card: hub.AgentCard, other: hub.AgentCard) -> None:
    """Add schemes that only the older members describe, and the schemes for their further flows."""
    named = set(card.security_schemes)
    empty = {name for name in named if card.security_schemes[name].WhichOneof("scheme") is None}
    for name, scheme in other.security_schemes.items():
        if name in empty or (name not in named and name.rpartition("#")[0] in empty):
            card.security_schemes[name].CopyFrom(scheme)


def _complete(requirements: Any, others: Sequence[hub.SecurityRequirement]) -> None:
    if not requirements:
        requirements.extend(others)


def _place(interface: hub.AgentInterface) -> tuple[str, str]:
    # The older members have one version for all, and gRPC addresses are written with a scheme or without.
    url = interface.url
    if interface.protocol_binding == GRPC.name:
        url = url.partition("://")[2] or url
    return url.rstrip("/"), interface.protocol_binding


#: makes the card that a caller gets
Change = Callable[[hub.AgentCard, CallContext], hub.AgentCard]


def change_extended_card(change: Change) -> Middleware:
    """Middleware that changes the response to GetExtendedAgentCard (spec 3.1.11)."""
    return lambda service: _ExtendedCard(service, change)


class _ExtendedCard:
    def __init__(self, service: Service, change: Change) -> None:
        self._service = service
        self._change = change
        self.stream = service.stream

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        unary = self._service.unary
        return self._changed(call) if call.operation is GET_EXTENDED_AGENT_CARD else unary(call)

    async def _changed(self, call: Call[Req, Res]) -> Res:
        card: Any = await self._service.unary(call)
        return cast("Res", self._change(card, call.context))
