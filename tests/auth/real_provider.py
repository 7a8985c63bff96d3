"""The identity provider of `oidc/` as a process: oidc-provider on Node, installed once from its lock. No tests."""

import asyncio
import fcntl
import filecmp
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest

from tests.patience import PATIENCE

SOURCE = Path(__file__).parent / "oidc"
INSTALLED = Path(__file__).parents[2] / ".build" / "oidc"
FILES = ("package.json", "package-lock.json", "provider.js")
SECRET = "a secret of a test, as long as 32 bytes"  # noqa: S105
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True)
class RealProvider:
    """A running provider, and what its clients and users ask it for."""

    issuer: str
    http: httpx.AsyncClient

    async def token(
        self, client: str, headers: Mapping[str, str] | None = None, **form: str
    ) -> dict[str, Any]:
        """The answer of the token endpoint. Fails unless it has a token."""
        # RFC 6749, 2.3.1: both are form-encoded before they are encoded as Basic.
        answer = await self.http.post(
            f"{self.issuer}/token", data=form, headers=headers, auth=(client, quote_plus(SECRET))
        )
        found: dict[str, Any] = answer.json()
        assert answer.status_code == 200, found
        return found

    async def credentials(self, audience: str, client: str = "service", **more: Any) -> dict[str, Any]:
        form = {"grant_type": "client_credentials", "resource": audience, "scope": "read"}
        return await self.token(client, **form, **more)

    async def device(self, audience: str, user: str) -> dict[str, Any]:
        """Tokens of a user who confirms the code of a device."""
        form = {"scope": "openid offline_access read", "resource": audience}
        auth = ("app", quote_plus(SECRET))
        begun = (await self.http.post(f"{self.issuer}/device/auth", data=form, auth=auth)).json()
        await self._test(f"confirm?code={quote(begun['user_code'])}&user={user}")
        return await self.token("app", grant_type=DEVICE, device_code=begun["device_code"])

    async def rotate(self, *, keep: bool) -> None:
        """A new key signs. keep: the keys before it stay published."""
        await self._test("rotate?keep" if keep else "rotate")

    async def _test(self, path: str) -> None:
        assert (await self.http.get(f"{self.issuer}/test/{path}")).status_code == 200


async def _run(*command: str, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, out.decode()


async def _installed() -> None:
    """Installs what the lock names, unless it is there. The workers of pytest take turns."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / ".turn").open("w") as turn:
        await asyncio.to_thread(fcntl.flock, turn, fcntl.LOCK_EX)
        done = INSTALLED / "node_modules" / ".installed"
        lock = INSTALLED / "package-lock.json"
        same = done.exists() and filecmp.cmp(SOURCE / "package-lock.json", lock, shallow=False)
        for name in FILES:
            shutil.copy(SOURCE / name, INSTALLED / name)
        if same:
            return
        await _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=INSTALLED)
        done.touch()


@asynccontextmanager
async def real_provider() -> AsyncIterator[RealProvider]:
    """The provider while the context is open. Skips the test where Node or npm is absent."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is absent: it runs the identity provider of these tests, oidc-provider")
    await _installed()
    process = await asyncio.create_subprocess_exec(
        *("node", str(INSTALLED / "provider.js")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().split()
        assert line[:1] == ["ready"], line
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            yield RealProvider(line[1], http)
        process.stdin.close()
        await asyncio.wait_for(process.wait(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
