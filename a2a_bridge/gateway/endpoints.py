"""Further endpoints of an agent: the interfaces of its card at other addresses.

Rules:
1. An http(s) URL is another base of the agent: the interfaces over HTTP are there at their own path, or at
   the path of the URL if they have none; those over gRPC have the same port at that host. `host:port`, or a
   `grpc(s)://` URL, is a place of gRPC.
2. The operator names endpoints, so they get credentials, and may have private addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from a2a_bridge.bindings.binding import find
from a2a_bridge.cards.select import Candidate
from a2a_bridge.gateway.destinations import move_to, place_of
from a2a_bridge.pb import lf_a2a_v1 as hub


def check_endpoint(text: str) -> None:
    """Raises ValueError for an endpoint that is neither an http(s) or grpc(s) URL nor `host:port`."""
    if place_of(text) is None:
        raise ValueError(f"{text!r} is neither an http(s) URL nor the host:port of gRPC")


def with_endpoints(candidates: Sequence[Candidate], endpoints: Iterable[str]) -> list[tuple[int, Candidate]]:
    """Each interface and the same at the endpoints, with its rank among the interfaces.

    Raises ValueError for an endpoint that fits no interface.
    """
    endpoints = tuple(endpoints)
    found = [(rank, candidate) for rank, candidate in enumerate(candidates)]
    known = {(rank, candidate.interface.url) for rank, candidate in found}
    for text in endpoints:
        check_endpoint(text)
        fits = False
        for rank, candidate in enumerate(candidates):
            there = _at(candidate, text)
            if there is None:
                continue
            fits = True
            if (rank, there.interface.url) not in known:
                known.add((rank, there.interface.url))
                found.append((rank, there))
        if not fits:
            raise ValueError(f"the endpoint {text} fits none of the agent's interfaces")
    return sorted(found, key=lambda one: one[0])


def _is_same(one: Candidate, other: Candidate) -> bool:
    here, there = place_of(one.interface.url), place_of(other.interface.url)
    return here is not None and there is not None and here.is_at(there) and here.port == there.port


def _at(candidate: Candidate, endpoint: str) -> Candidate | None:
    """The interface at an endpoint; None if it cannot be there."""
    scheme, separator, _ = endpoint.partition("://")
    family = find(candidate.interface.protocol_binding).family
    if separator and scheme.lower() in ("http", "https"):
        if family not in ("http", "grpc"):
            return None
        moved = move_to(candidate, endpoint)
        # Without a change it is the place of the interface itself, also in another spelling.
        return candidate if moved is None or _is_same(moved, candidate) else moved
    if family != "grpc":
        return None
    interface = hub.AgentInterface()
    interface.CopyFrom(candidate.interface)
    interface.url = endpoint
    return replace(candidate, interface=interface, credentials=True, resolve=None)
