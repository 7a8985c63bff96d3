"""One document for readers of 1.0 and of older versions. `build` decides which interfaces it lists.

Rules:
1. The members of 1.0 are written first. Each older version adds its own, newest first: `url`,
   `protocolVersion`, `preferredTransport`, `additionalInterfaces`, `security`,
   `supportsAuthenticatedExtendedCard`.
2. A member that both versions have holds both forms: a security scheme has the member of 1.0 for its type,
   and beside it the `type` and the members of 0.x. Objects are merged member by member, lists of equal length
   item by item; values that are there already stay.
3. All known readers ignore unknown members. The older members do not change the meaning for a reader of 1.0;
   those that would are left out.
4. Signatures stay unchanged. They cover the document that was signed, which is not this one.
5. Readers of 0.2 reject a whole card with a scheme of a later type, mutual TLS. At their path such schemes
   are left out: the other schemes of a requirement remain, and the TLS handshake enforces the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from a2a_bridge.cards.select import expressible
from a2a_bridge.codec import Json, JsonObject, JsonSyntaxError, dumps, loads
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.v0_3.card import without_carrier
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the type of scheme that 0.3 added
_LATER = "mutualTLS"


def dual(card: hub.AgentCard, for_older: hub.AgentCard, dialects: Iterable[Dialect]) -> JsonObject:
    """The card in 1.0 and in the older `dialects`.

    for_older: the card with the interfaces for the older ones.
    """
    document = V1_0.card.encode(expressible(without_carrier(card)))
    decoded = _decode(document)
    for dialect in dialects:
        beside = dialect.card.beside or dialect.card.encode
        for source in (for_older, without_carrier(for_older), expressible(without_carrier(for_older))):
            merged = _merge(document, beside(source))
            if decoded is not None and _decode(merged) == decoded:
                document = merged
                break
    return document


def without_mutual_tls(document: JsonObject) -> JsonObject:
    """The document without schemes of mutual TLS: the same object if there is none."""
    schemes = document.get("securitySchemes", {})
    unknown = {name for name, scheme in schemes.items() if scheme.get("type") == _LATER}
    if not unknown:
        return document
    made = _remove_requirements(document, unknown)
    made["securitySchemes"] = {name: scheme for name, scheme in schemes.items() if name not in unknown}
    made["skills"] = [_remove_requirements(skill, unknown) for skill in document["skills"]]
    return made


def _remove_requirements(tree: JsonObject, names: Collection[str]) -> JsonObject:
    """The card or skill, with these schemes removed from its requirements."""

    def others(schemes: JsonObject) -> JsonObject:
        return {name: scopes for name, scopes in schemes.items() if name not in names}

    made = dict(tree)
    if "security" in tree:
        made["security"] = [others(one) for one in tree["security"]]
    if "securityRequirements" in tree:
        made["securityRequirements"] = [
            {"schemes": others(one.get("schemes", {}))} for one in tree["securityRequirements"]
        ]
    return made


def _decode(document: JsonObject) -> hub.AgentCard | None:
    try:
        return V1_0.card.decode(cast("JsonObject", loads(dumps(document))))
    except (A2AError, JsonSyntaxError):
        return None


def _merge(first: JsonObject, second: JsonObject) -> JsonObject:
    merged = dict(first)
    for name, value in second.items():
        merged[name] = _both(merged[name], value) if name in merged else value
    return merged


def _both(first: Json, second: Json) -> Json:
    if type(first) is dict and type(second) is dict:
        return _merge(first, second)
    if type(first) is list and type(second) is list and len(first) == len(second):
        return [_both(one, other) for one, other in zip(first, second, strict=True)]
    return first
