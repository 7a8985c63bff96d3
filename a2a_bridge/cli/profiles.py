"""`a2a-bridge peers`: the peer profiles, their quirks, and the gRPC addresses that they dial."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from a2a_bridge.cli.flags import Output, OutputFlags
from a2a_bridge.cli.output import data, decide_json, document
from a2a_bridge.cli.reading import with_flags

if TYPE_CHECKING:
    from a2a_bridge.peers import Profile


@with_flags
def peers(
    name: Annotated[str, typer.Argument(help="Only this profile.", metavar="NAME")] = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    flags: OutputFlags,
) -> None:
    """List the peer profiles: the recognised implementations of A2A, and their quirks with the evidence.

    `grpc address` is what their clients dial of a card's addresses of gRPC (see --grpc-urls of `serve`).

    For example:

      a2a-bridge peers

      a2a-bridge peers a2a-go-0.3 --json
    """
    from a2a_bridge.cli.values import parse_peer
    from a2a_bridge.peers import find_profile, profiles

    if as_json:
        decide_json(True)
    found = [find_profile(parse_peer(name, "NAME"))] if name else profiles().all
    if as_json or flags.output is Output.JSON:
        document({"format": 1, "peers": [_tree(one) for one in found]})
    else:
        data("\n".join(line for one in found for line in _lines(one)))


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _tree(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "about": profile.about,
        "callers": [
            {"userAgent": one.user_agent, "sends": dict(one.sends), "lacks": sorted(one.lacks)}
            for one in profile.callers
        ],
        "agents": [
            {"headers": dict(one.headers), "members": sorted(one.members), "lacks": sorted(one.lacks)}
            for one in profile.agents
        ],
        "quirks": [
            {
                "name": quirk,
                "value": _value(value),
                "source": profile.evidence[quirk].source,
                "until": profile.evidence[quirk].until or None,
            }
            for quirk, value in profile.deviations.items()
        ],
        "grpcAddress": None if profile.grpc is None else asdict(profile.grpc),
    }


def _lines(profile: Profile) -> list[str]:
    lines = [f"{profile.name}: {profile.about}"]
    for quirk, value in profile.deviations.items():
        evidence = profile.evidence[quirk]
        until = f", until {evidence.until}" if evidence.until else ""
        lines.append(f"  {quirk} = {_value(value)} ({evidence.source}{until})")
    if profile.grpc is not None:
        form = "host:port" if profile.grpc.form == "bare" else "host:port or URL"
        lines.append(f"  grpc address: {form}, {profile.grpc.entry} entry ({profile.grpc.source})")
    return lines
