"""The way to the target: its name, and a connection. No TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator
from ipaddress import ip_address

from a2a_bridge.cli.target import TargetKind
from a2a_bridge.gateway.destinations import Place, place_of
from a2a_bridge_tools.check.inspection import Finding, Inspection


def place(inspection: Inspection) -> Place | None:
    """The host and port of the target; None for a card in a file."""
    if inspection.target.sort not in (TargetKind.URL, TargetKind.GRPC):
        return None
    return place_of(inspection.target.place)


async def dns(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the host has addresses."""
    here = place(inspection)
    if here is None or _is_address(here.host):
        return
    try:
        found = await asyncio.wait_for(_addresses(here), inspection.options.connect_timeout)
    except TimeoutError:
        problem = f"no answer within {inspection.options.connect_timeout:g} s"
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    else:
        yield Finding("DNS", True, f"{here.host} is {', '.join(found)}")
        return
    inspection.is_over = True
    fix = f"correct the name {here.host!r}, or add it to the DNS that this machine asks"
    yield Finding("DNS", False, f"{here.host}: {problem}", fix, unreachable=True)


async def tcp(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether something accepts connections there."""
    here = place(inspection)
    if here is None:
        return
    started = time.monotonic()
    where = f"[{here.host}]:{here.port}" if ":" in here.host else f"{here.host}:{here.port}"
    try:
        async with asyncio.timeout(inspection.options.connect_timeout):
            _, writer = await asyncio.open_connection(here.host, here.port)
    except TimeoutError:
        problem = f"no answer within {inspection.options.connect_timeout:g} s"
        fix = "let a firewall or security group pass connections to this port"
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        fix = "start the agent, name the port that it listens on, or let it listen on more than 127.0.0.1"
    else:
        address = writer.get_extra_info("peername")[0]
        writer.close()
        yield Finding(
            "TCP", True, f"{where} at {address} accepts after {(time.monotonic() - started) * 1000:.0f} ms"
        )
        return
    inspection.is_over = True
    yield Finding("TCP", False, f"{where}: {problem}", fix, unreachable=True)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def _addresses(here: Place) -> list[str]:
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(here.host, here.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))
