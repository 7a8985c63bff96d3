"""The interfaces of an agent in 0.x cards: a main address and additional ones, all of one version.

Rules (A2A 0.3, 5.5.5 and 5.6):
1. `url` with `preferredTransport` comes first, then `additionalInterfaces` in order, including repetitions.
   All have the card's `protocolVersion`, as written there.
2. An absent transport means JSONRPC.
3. In the other direction the 0.x interfaces are listed, the main one first. Content that these members cannot
   express (tenants, several versions, interfaces of 1.0) is written beside them in the `supportedInterfaces`
   of 1.0, and read from there.
4. In case of a contradiction the members of 0.x take precedence, because other readers use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from a2a_bridge.codec import DecodeError, Json, JsonObject, decoder, encoder
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.scalars import a_string, an_array, an_object
from a2a_bridge.pb import lf_a2a_v1 as hub

INTERFACE_MEMBERS = (
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "supportedInterfaces",
)
DEFAULT_TRANSPORT = "JSONRPC"

_decode = decoder(hub.AgentInterface)
_encode = encoder(hub.AgentInterface)

#: the text of a version in `protocolVersion`, for interfaces that give only Major.Minor
_ENCODED = {"0.3": "0.3.0", "0.2": "0.2.5"}
_TEXTS = ("url", "protocolBinding", "protocolVersion", "tenant")


def decode_interfaces(tree: JsonObject, version: str) -> list[hub.AgentInterface]:
    """The interfaces of a 0.x card. `version`: the version of a card that names none. Raises DecodeError."""
    old = _decode_members(tree, version)
    supported = _read_supported(tree.get("supportedInterfaces"))
    if supported is not None and _decode_members(_members(supported, version), version) == old:
        return supported
    return old


def encode_interfaces(interfaces: Sequence[hub.AgentInterface], version: str) -> JsonObject:
    """The members about interfaces of a 0.x card, for a reader of `version`, such as "0.3.0"."""
    members = _members(interfaces, version)
    if _decode_members(members, version) != list(interfaces):
        members["supportedInterfaces"] = [_encode(one) for one in interfaces]
    return members


def is_old(interface: hub.AgentInterface) -> bool:
    """Whether an interface speaks a version before 1.0."""
    return (normalise(interface.protocol_version) or "").startswith("0.")


def main_interface(interfaces: Sequence[hub.AgentInterface], version: str = "") -> hub.AgentInterface | None:
    """The interface for `url`: the first of `version`, else of the newest 0.x version, else the first."""
    # Without any 0.x interface an address still helps the reader: the server may accept its version too.
    old = [one for one in interfaces if is_old(one)] or list(interfaces[:1])
    family = normalise(version)
    of_family = [one for one in old if normalise(one.protocol_version) == family]
    return max(of_family or old, key=_minor, default=None)  # of equals, the first


def places(interfaces: Iterable[hub.AgentInterface]) -> list[hub.AgentInterface]:
    """The 0.x interfaces that one version can list: per transport those of the newest version, each address
    once.
    """
    # One version is written for all of them, and some readers use the last address of a transport.
    old = [one for one in interfaces if is_old(one)]
    newest: dict[str, int] = {}
    for one in old:
        newest[one.protocol_binding] = max(_minor(one), newest.get(one.protocol_binding, -1))
    listed: dict[tuple[str, str], hub.AgentInterface] = {}
    for one in old:
        if _minor(one) == newest[one.protocol_binding]:
            listed.setdefault((one.url, one.protocol_binding), one)
    return list(listed.values())


def format_version(version: str) -> str:
    """The text of a version in `protocolVersion`: with its patch, if known."""
    return _ENCODED.get(version.strip(), version)


def _text(tree: JsonObject, name: str, path: str = "") -> str:
    """A string member of the object at `path`, empty when absent. Raises DecodeError."""
    value = tree.get(name)
    return "" if value is None else a_string(value, f"{path}.{name}" if path else name)


def _decode_members(tree: JsonObject, version: str) -> list[hub.AgentInterface]:
    version = _text(tree, "protocolVersion") or version
    found = []
    url = _text(tree, "url")
    transport = _text(tree, "preferredTransport")
    if url:
        found.append(_interface(url, transport, version))
    more = tree.get("additionalInterfaces")
    if more is None:
        return found
    for index, one in enumerate(an_array(more, "additionalInterfaces")):
        path = f"additionalInterfaces[{index}]"
        an_object(one, path)
        found.append(_interface(_text(one, "url", path), _text(one, "transport", path), version))
    return found


def _members(interfaces: Sequence[hub.AgentInterface], version: str) -> JsonObject:
    main = main_interface(interfaces, version)
    if main is None:
        return {"protocolVersion": version, "url": "", "preferredTransport": DEFAULT_TRANSPORT}
    members: JsonObject = {
        "protocolVersion": format_version(main.protocol_version) if is_old(main) else version,
        "url": main.url,
        "preferredTransport": main.protocol_binding,
    }
    others = [one for one in interfaces if is_old(one) and one is not main]
    if any(one.protocol_version != main.protocol_version for one in others):
        here = main.url, main.protocol_binding
        others = [one for one in places(interfaces) if (one.url, one.protocol_binding) != here]
    if others:
        members["additionalInterfaces"] = [
            {"url": one.url, "transport": one.protocol_binding} for one in others
        ]
    return members


def _minor(interface: hub.AgentInterface) -> int:
    version = normalise(interface.protocol_version)
    return int(version.partition(".")[2]) if version else -1


def _interface(url: str, transport: str, version: str) -> hub.AgentInterface:
    return hub.AgentInterface(
        url=url, protocol_binding=transport or DEFAULT_TRANSPORT, protocol_version=version
    )


def _read_supported(value: Json) -> list[hub.AgentInterface] | None:
    # In a 0.x card this is an unknown member, which may hold anything.
    if type(value) is not list or not value:
        return None
    found: list[hub.AgentInterface] = []
    for one in value:
        if type(one) is not dict:
            return None
        picked: dict[str, Any] = {name: one[name] for name in _TEXTS if name in one}
        if any(type(member) is not str for member in picked.values()):
            return None
        try:
            found.append(_decode(picked))
        except DecodeError:
            return None
    return found
