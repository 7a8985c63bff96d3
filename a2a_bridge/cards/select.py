"""Selects the interfaces of a card that a client can use, best first; rules for its security schemes.

Rules about schemes of older cards that 1.0 cannot express:
1. A scheme of 0.x of unknown type, or an OAuth 2 scheme without a flow that 1.0 has, is a scheme without
   content in 1.0: `"odd": {}`, `"flows": {}`. Readers in Rust and Go reject the whole card for such a scheme.
2. Requirements that name such a scheme stay: without them the card would say that no credentials are needed.
3. Cards of 0.x keep the scheme.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from a2a_bridge.bindings.binding import DialOptions, Resolve
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards.read import CORRECTED
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0, BindingKind, Dialect, by_version
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(frozen=True, slots=True)
class Candidate:
    """An interface and its dialect."""

    #: of the card
    interface: hub.AgentInterface
    #: of its version
    dialect: Dialect
    #: whether the parameters of DialOptions, which may be credentials, are sent to it
    credentials: bool = True
    #: resolves a host that is not trusted to the addresses that connections may use
    resolve: Resolve | None = None
    #: whether gRPC at an address without a scheme is spoken over TLS; None: as its port says
    grpc_tls: bool | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from others; the same for an interface that is read twice."""
        return (
            self.interface.SerializeToString(deterministic=True),
            self.dialect,
            self.credentials,
            self.grpc_tls,
        )

    def dial_options(self, options: DialOptions) -> DialOptions:
        """The options with the TLS of this interface, if they leave that open."""
        if self.grpc_tls is None or options.grpc_tls is not None:
            return options
        return replace(options, grpc_tls=self.grpc_tls)


class UnusableCardError(A2AError):
    """UNSUPPORTED_OPERATION: members of the card's interfaces mean nothing here, so that no choice helps."""

    hint = CORRECTED

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNSUPPORTED_OPERATION, message, blame=Blame.PEER)


def select(
    card: hub.AgentCard, *, known: Collection[str], binding: str = "", version: str = ""
) -> list[Candidate]:
    """The usable interfaces in the card's order, which is the agent's preference (spec 8.3), each once: cards
    of 0.x repeat their main interface among the additional ones, and addresses of gRPC in several forms.

    known: the installed bindings. binding, version: only these, unless empty. Raises UNSUPPORTED_OPERATION
    with a list of the interfaces if none is usable.
    """
    wanted = by_version(version) if version else None
    secure = {
        (place.host, place.port)
        for interface in card.supported_interfaces
        if "://" in interface.url and (place := place_of(interface.url)) is not None and place.secure
    }
    found = [
        Candidate(interface, dialect, grpc_tls=_is_secure(interface, secure))
        for interface in card.supported_interfaces
        if binding in ("", interface.protocol_binding)
        and (dialect := _dialect_of(interface, known)) is not None
        and (not version or dialect is wanted)
    ]
    if found:
        each: dict[tuple[object, ...], Candidate] = {}
        for one in found:
            each.setdefault(_key(one), one)
        return list(each.values())
    wrong = unusable(card, known=known)
    if wrong and len(wrong) == len(card.supported_interfaces):
        raise UnusableCardError(f"no interface of the card can be used: {'; '.join(wrong)}")
    offers = ", ".join(map(_words, card.supported_interfaces))
    requested = " ".join(filter(None, (binding, version))) or "any binding and version of this client"
    raise A2AError(
        Reason.UNSUPPORTED_OPERATION,
        f"the card offers no interface for {requested}; it offers: {offers or 'none'}",
        blame=Blame.PEER,
    )


def _key(candidate: Candidate) -> tuple[object, ...]:
    """The same for repetitions of an interface."""
    interface = candidate.interface
    place = place_of(interface.url) if interface.protocol_binding == "GRPC" else None
    secure = place is not None and (place.secure or bool(candidate.grpc_tls))
    where = interface.url.rstrip("/") if place is None else (place.host, place.port, secure)
    return interface.protocol_binding, candidate.dialect.version, interface.tenant, where


def _is_secure(interface: hub.AgentInterface, secure: Collection[tuple[str, int]]) -> bool | None:
    """Whether another interface of the card names this gRPC `host:port` with TLS: a port has it or not."""
    if interface.protocol_binding != "GRPC" or "://" in interface.url:
        return None
    place = place_of(interface.url)
    return True if place is not None and (place.host, place.port) in secure else None


def unusable(card: hub.AgentCard, *, known: Collection[str]) -> list[str]:
    """The reasons why interfaces cannot be used, in the card's order. known: the installed bindings."""
    texts = []
    for interface in card.supported_interfaces:
        if _dialect_of(interface, known) is not None:
            continue
        dialect = _dialect(interface)
        if interface.protocol_binding not in known:
            reason = f"its protocolBinding {interface.protocol_binding!r} is unknown"
        elif dialect is None:
            reason = f"its protocolVersion {interface.protocol_version!r} is unknown"
        elif _is_relative(interface.url):
            reason = f"its url {interface.url!r} is no address"
        else:
            reason = f"version {dialect.version} has no {interface.protocol_binding}"
        texts.append(f"{_words(interface)} {interface.url}: {reason}")
    return texts


def _dialect_of(interface: hub.AgentInterface, known: Collection[str]) -> Dialect | None:
    """The dialect of an interface; None if its binding or version is unknown, or they do not go together."""
    dialect = _dialect(interface)
    if dialect is None or interface.protocol_binding not in known or _is_relative(interface.url):
        return None
    return dialect if dialect.form(BindingKind(interface.protocol_binding)) is not None else None


def _is_relative(url: str) -> bool:
    return not url.strip() or url.startswith(("/", "./", "../"))


def _dialect(interface: hub.AgentInterface) -> Dialect | None:
    return by_version(interface.protocol_version or V1_0.version)


def _words(interface: hub.AgentInterface) -> str:
    return f"{interface.protocol_binding} {interface.protocol_version}".rstrip()


log = logging.getLogger("a2a_bridge.cards.schemes")


def inexpressible(card: hub.AgentCard) -> list[str]:
    """The names of the schemes of a card that have no content in 1.0, in order."""
    return sorted(name for name, scheme in card.security_schemes.items() if _is_empty(scheme))


def expressible(card: hub.AgentCard) -> hub.AgentCard:
    """The card without those schemes: a copy if it has any."""
    names = inexpressible(card)
    if not names:
        return card
    made = hub.AgentCard()
    made.CopyFrom(card)
    for name in names:
        del made.security_schemes[name]
    return made


def without_security(card: hub.AgentCard) -> hub.AgentCard:
    """A copy of a card that asks for no credentials."""
    made = hub.AgentCard()
    made.CopyFrom(card)
    made.security_schemes.clear()
    del made.security_requirements[:]
    for skill in made.skills:
        del skill.security_requirements[:]
    return made


def note_inexpressible(card: hub.AgentCard) -> None:
    """Log the schemes that callers of 1.0 do not get."""
    if names := inexpressible(card):
        log.warning(
            "the card of %r has security schemes that A2A 1.0 cannot express; "
            "callers of 1.0 do not see them: %s",
            card.name,
            ", ".join(names),
        )


def _is_empty(scheme: hub.SecurityScheme) -> bool:
    field = scheme.WhichOneof("scheme")
    if field == "oauth2_security_scheme":
        return scheme.oauth2_security_scheme.flows.WhichOneof("flow") is None
    return field is None
