"""The other protocols of a server: MCP and OpenAI's API, where `--mcp` and `--openai` have them.

A server without them answers anything else, and nothing is found: no agent has to have them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from a2a_bridge.bindings.binding import Exchange, http_exchange
from a2a_bridge.codec import JsonSyntaxError, dumps, loads
from a2a_bridge.core.errors import A2AError
from a2a_bridge_tools.check.inspection import Finding, Inspection

_JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a2a-bridge check", "version": "1"},
    },
}
#: models in a finding
_SHOWN = 5


async def others(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Which of them answer to these credentials."""
    base, found, _ = inspection.location.partition("/.well-known/")
    if not found or not base.startswith("http"):
        return
    headers = dict(inspection.options.parameters)
    async with http_exchange(inspection.dial_options()) as exchange:
        for name, look in (("MCP", _mcp), ("OpenAI", _openai)):
            try:
                detail = await look(exchange, base, headers)
            except (A2AError, JsonSyntaxError, KeyError, TypeError):
                continue
            if detail:
                yield Finding(name, True, detail)


async def _mcp(exchange: Exchange, base: str, headers: Mapping[str, str]) -> str:
    """What is at `/mcp`, without a call of a tool; empty if it is no MCP server."""
    url = f"{base}/mcp"
    reply = await exchange("POST", url, {**headers, **_JSON}, dumps(_INITIALIZE))
    body = reply.body.partition(b"\ndata:")[2] if reply.body.startswith(b"event:") else reply.body
    if reply.status != 200:
        return ""
    answer: Any = loads(body)
    result = answer["result"]
    if session := reply.headers.get("mcp-session-id"):
        await exchange("DELETE", url, {**headers, **_JSON, "mcp-session-id": session}, None)
    return f"{url} is the MCP server {result['serverInfo']['name']!r}, in {result['protocolVersion']}"


async def _openai(exchange: Exchange, base: str, headers: Mapping[str, str]) -> str:
    """The models at `/v1`; empty if there is no such API."""
    reply = await exchange("GET", f"{base}/v1/models", dict(headers), None)
    if reply.status != 200:
        return ""
    listed: Any = loads(reply.body)
    models = [str(one["id"]) for one in listed["data"]]
    more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
    return f"{base}/v1 has OpenAI's API, with the models {', '.join(models[:_SHOWN]) or '(none)'}{more}"
