"""Tables of the configuration file, of errors and of paths, from the code."""

from typing import Any

from a2a_bridge.cli.help import place_of
from a2a_bridge.cli.server_flags import AgentSettings, GatewayFlags, RuleSettings, ServedAgent, ServeFlags
from a2a_bridge.core.errors import A2AError, GrpcStatus, Reason
from a2a_bridge.core.options import options_of
from a2a_bridge.dialects import GRPC, HTTP_JSON, V0_3, V1_0
from a2a_bridge.hosting.hosted_agent import TAKEN
from tests.docs.api import cell
from tests.docs.commands import default

HEAD = ["| key | default | changes while it runs | meaning |", "|---|---|---|---|"]


def _tables(group: type, anchor: str) -> list[str]:
    """The keys of a group by the headings of `--help-all`. anchor: before the name of a key in its link."""
    tables: dict[str, list[str]] = {}
    for name, one in options_of(group).items():
        if one.described.in_file and name != "agents":
            plain = default(one) if not isinstance(one.default, tuple | list) else ""
            shown = f"`{plain.replace('*', chr(92) + '*')}`" if plain else ""
            meaning = cell(one.described.help).replace("*", "\\*")
            key = f'<a id="{anchor}-{name}"></a>[`{name}`](#{anchor}-{name})'
            row = f"| {key} | {shown} | {'yes' if one.described.live else ''} | {meaning} |"
            tables.setdefault(one.described.group or "Other", []).append(row)
    lines = []
    for heading in sorted(tables, key=place_of):
        lines += [*([f"### {heading}", ""] if len(tables) > 1 else []), *HEAD, *sorted(tables[heading]), ""]
    return lines


def configuration() -> str:
    """The keys of the configuration files."""
    parts: list[tuple[str, str, type]] = [
        ("Keys of `serve`", "serve", ServeFlags),
        ("[agents.NAME] of `serve`", "serve-agent", ServedAgent),
        ("Keys of `gateway`", "gateway", GatewayFlags),
        ("[agents.NAME] of `gateway`", "gateway-agent", AgentSettings),
        ("[[rules]]", "rules", RuleSettings),
    ]
    lines = []
    for heading, anchor, group in parts:
        lines += [f"## {heading}", "", *_tables(group, anchor)]
    return "\n".join(lines)


def errors() -> str:
    """The errors, over every binding."""
    lines = ["| reason | JSON-RPC | gRPC | HTTP+JSON | JSON-RPC over HTTP | default text |", "|---|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| `{one.name}` | {one.code} | {one.grpc.name} ({int(one.grpc)}) | {one.http} | {one.jsonrpc_http} | {one.text} |"
        for one in Reason
    ]
    return "\n".join(lines) + "\n"


def taken_as_agent() -> str:
    """What is taken as an agent, in the order in which it is tried."""
    lines = ["| | given | what is made of it |", "|---|---|---|"]
    lines += [f"| {place} | {one.what} | {one.then} |" for place, one in enumerate(TAKEN, 1)]
    return "\n".join(lines) + "\n"


def statuses() -> str:
    """The errors whose status over gRPC is another one in 0.3."""
    forms: Any = V0_3.forms[GRPC]
    encoders = [forms.encoder(declared=declared) for declared in (False, True)]
    lines = ["| reason | gRPC of 0.3 | declared |", "|---|---|---|"]
    for reason in Reason:
        plain, declared = (GrpcStatus(encode(A2AError(reason)).status).name for encode in encoders)
        if plain != declared:
            lines.append(f"| `{reason.name}` | {plain} | {declared} |")
    return "\n".join(lines) + "\n"


def paths() -> str:
    """The paths of HTTP+JSON."""
    lines = ["| operation | method | path |", "|---|---|---|"]
    for row in V1_0.forms[HTTP_JSON].rows:
        address: Any = row.address
        lines += [
            f"| `{row.operation.name}` | `{rule.method}` | `{rule.template}` |"
            for rule in address.rules
            if not rule.template.startswith("/{tenant}/")
        ]
    return "\n".join(lines) + "\n"
