"""The target of a URL, for circuits, fair queuing and logs: scheme, host and port.

Paths of webhooks are secrets.
"""

from __future__ import annotations

from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def target_of(url: str) -> str:
    """`https://host:443` of a URL; empty for an invalid URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if not host:
        return ""
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme.lower()}://{host}:{_PORTS.get(parts.scheme.lower(), 0) if port is None else port}"
