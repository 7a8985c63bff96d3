"""References to agents: what `--agent-card` takes. It makes no connection.

A bare host is an origin, as the specification says, and so `host:port` is HTTP here; gRPC is `grpc://`. Over
https, but http for names and addresses of this machine and of private networks. Everything else is a target
as the other commands have it (`target.py`).
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from a2a_bridge.cli.target import BadTargetError, Target, TargetKind, is_file, parse

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-][A-Za-z0-9_.-]*)(:\d{1,5})?([/?#].*)?")


def reference(text: str) -> Target:
    """Reads a reference. Raises BadTargetError."""
    text = text.strip()
    if not text:
        raise BadTargetError("no agent is named; try: -a REF, or the variable A2ACLI_AGENT_CARD")
    if text.lower().startswith("file://"):
        return Target(TargetKind.CARD, unquote(urlsplit(text).path))
    host = _HOST.fullmatch(text)
    is_code = text.rpartition(":")[0].endswith(".py") or text.endswith(".py")
    if host is None or is_code or (text.endswith(".json") and not host[3]) or is_file(text):
        return parse(text)
    if host[2] and int(host[2][1:]) > 65535:
        raise BadTargetError(f"{host[2][1:]} is not a port")
    return Target(TargetKind.URL, f"{'http' if _is_near(host[1]) else 'https'}://{text}")


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or in a private network."""
    try:
        return ip_address(host.strip("[]")).is_private
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
