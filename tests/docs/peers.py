"""The tables of docs/reference/peers.md: the quirks, and the gRPC addresses that clients dial."""

import dataclasses
from enum import Enum

from a2a_bridge.peers.profile import Quirks
from a2a_bridge.peers.table import PROFILES
from tests.docs.api import cell, meanings

_FORMS = {"bare": "`host:port`", "any": "`host:port` or URL"}


def quirks() -> str:
    said = meanings(Quirks)
    lines = ["| quirk | values | meaning |", "|---|---|---|"]
    for one in dataclasses.fields(Quirks):
        values = (
            ", ".join(f"`{each.value}`" for each in type(one.default))
            if isinstance(one.default, Enum)
            else ""
        )
        lines.append(f"| `{one.name}` | {values} | {cell(said[one.name])} |")
    return "\n".join(lines) + "\n"


def addresses() -> str:
    """The gRPC addresses of a card that the clients of each profile dial."""
    lines = ["| profile | dials | of several entries in a card of 0.x |", "|---|---|---|"]
    lines += [
        f"| `{one.name}` | {_FORMS[one.grpc.form]} | the {one.grpc.entry} |"
        for one in PROFILES
        if one.grpc is not None
    ]
    return "\n".join(lines) + "\n"
