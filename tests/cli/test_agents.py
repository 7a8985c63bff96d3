"""Several agents of a configuration file, as an operator runs them: real processes, every host."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc.aio
import httpx
import pytest
import typer
from aiohttp import web

from a2a_bridge import connect, interface
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli import configured_agents as changing
from a2a_bridge.cli.server_flags import AgentSettings, GatewayFlags
from a2a_bridge.core.errors import Reason
from tests.cli.commands import ANY_PORT, FILES, Running, command, logged, serving
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS
from tests.shared_library import need_shared_library
from tests.sites import site

AGENTS = """
from a2a_bridge import Run, agent

def naming(name):
    async def answer(run: Run):
        "Says its name."
        caller = run.context.principal
        return f"{name}:{run.context.tenant}:{caller.name if caller else 'nobody'}"
    answer.__name__ = name
    return agent(answer)

red, blue, green = map(naming, ("red", "blue", "green"))
"""

#: agents that hold a call with the path of a FIFO as text until its writer has closed it
HOLDING = """
import asyncio
from pathlib import Path

from a2a_bridge import agent

def holding(name):
    async def answer(text: str) -> str:
        "Says its name."
        if text.startswith("/"):
            await asyncio.to_thread(Path(text).read_text)
        return name
    answer.__name__ = name
    return agent(answer)

red, blue, green = map(holding, ("red", "blue", "green"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


@asynccontextmanager
async def upstreams(folder: Path, *names: str) -> AsyncIterator[dict[str, str]]:
    """Agents as processes of their own: name → URL."""
    async with asyncio.timeout(PATIENCE):
        if not names:
            yield {}
            return
        async with (
            serving("serve", f"{folder}/agents.py:{names[0]}", *ANY_PORT) as one,
            upstreams(folder, *names[1:]) as rest,
        ):
            yield {names[0]: one.http, **rest}


def written(folder: Path, agents: dict[str, str], *more: str) -> str:
    """A file with gateways to these agents."""
    tables = [f'[agents.{name}]\nupstream = "{url}"' for name, url in agents.items()]
    file = folder / "bridge.toml"
    file.write_text("\n".join([*more, *tables]) + "\n")
    return str(file)


async def text_of(
    target: Any, binding: str = "", version: str = "", *, text: str = "hi", **parameters: str
) -> str:
    options = DialOptions(parameters={name.replace("_", "-"): value for name, value in parameters.items()})
    async with connect(target, binding=binding, version=version, options=options) as peer:
        return (await peer.send(text)).text


async def until(url: str, status: int) -> None:
    async with httpx.AsyncClient() as http, asyncio.timeout(PATIENCE):
        while (await http.get(f"{url}/.well-known/agent-card.json")).status_code != status:
            pass


async def test_a_gateway_to_several_agents(folder: Path) -> None:
    async with (
        upstreams(folder, "red", "blue") as agents,
        serving("gateway", "--config", written(folder, agents), *ANY_PORT) as running,
    ):
        for name in agents:
            for binding in BINDINGS[:2]:
                for version in ("1.0", "0.3", "0.2.5"):
                    url = f"{running.http}/agents/{name}"
                    assert await text_of(url, binding, version) == f"{name}::nobody"
            assert await text_of(interface("GRPC", running.grpc, tenant=name)) == f"{name}::nobody"
            done = await command("compare", "-a", f"{running.http}/agents/{name}", "hi")
            assert (done.code, done.out.count("✓")) == (0, 7), done.out + done.err
        async with httpx.AsyncClient(base_url=running.http) as http:
            entries = (await http.get("/.well-known/ai-catalog.json")).json()["entries"]
            assert [one["displayName"] for one in entries] == ["red", "blue"]
            assert (await http.get("/.well-known/agent-card.json")).status_code == 404


async def test_the_only_agent_is_at_the_root_and_below_its_path(folder: Path) -> None:
    async with (
        upstreams(folder, "red") as agents,
        serving("gateway", "--config", written(folder, agents), *ANY_PORT) as running,
    ):
        for url in (running.http, f"{running.http}/agents/red"):
            for binding in BINDINGS:
                assert await text_of(url, binding) == "red::nobody"
        assert await text_of(running.grpc) == "red::nobody"
        assert await text_of(interface("GRPC", running.grpc, version="0.3")) == "red::nobody"


async def test_agents_change_with_the_file(folder: Path) -> None:
    async with upstreams(folder, "red", "blue", "green") as agents:
        first = {name: agents[name] for name in ("red", "blue")}
        file = written(folder, first)
        async with serving("gateway", "--config", file, *ANY_PORT) as running:
            red = f"{running.http}/agents/red"
            assert await text_of(red) == "red::nobody"
            written(folder, {"red": agents["green"], "green": agents["green"]})
            running.signal(signal.SIGHUP)
            await until(f"{running.http}/agents/green", 200)
            await until(f"{running.http}/agents/blue", 404)
            assert await text_of(red) == "green::nobody"
            # An invalid file changes nothing.
            (folder / "bridge.toml").write_text("[agents.red]\nupstraem = 'x'\n")
            running.signal(signal.SIGHUP)
            await logged(running, "did you mean upstream")
            assert await text_of(red) == "green::nobody"
            # A file with an agent that cannot be reached serves the others.
            written(folder, {"red": agents["red"], "blue": "http://127.0.0.1:9"})
            running.signal(signal.SIGHUP)
            await until(f"{running.http}/agents/blue", 503)
            assert await text_of(red) == "red::nobody"
            running.signal()
            done = await running.ended()
    assert done.code == 0
    assert "agent blue cannot be reached, it is tried again" in done.err


@pytest.mark.parametrize("server", ["builtin", "envoy"])
async def test_a_terminal_shows_how_many_agents_answer(server: str, folder: Path) -> None:
    if server == "envoy":
        need_shared_library()
    answers = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await answers.wait()
        async with httpx.AsyncClient() as http:
            return web.json_response((await http.get(f"{agents['red']}{request.path}")).json())

    where = ("--server", "envoy", "--listen", "127.0.0.1:0") if server == "envoy" else ANY_PORT
    screen, terminal = os.openpty()
    os.set_blocking(screen, False)
    loop, shown = asyncio.get_running_loop(), bytearray()
    more = asyncio.Event()

    def read() -> None:
        shown.extend(os.read(screen, 65536))
        more.set()

    async def until_shown(text: bytes) -> None:
        while text not in shown:
            more.clear()
            await more.wait()

    loop.add_reader(screen, read)
    try:
        async with asyncio.timeout(PATIENCE), upstreams(folder, "red", "blue") as agents, site(slow) as url:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "a2a_bridge", "gateway", *where),
                *("--config", written(folder, {**agents, "slow": url})),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=terminal,
            )
            assert process.stdout is not None
            try:
                await until_shown(b"2 of 3 agents answer")
                answers.set()
                assert (await process.stdout.readline()).startswith(b"ready "), shown
                await until_shown(b"/agents/slow")
                process.terminate()
            finally:
                await process.communicate()
    finally:
        loop.remove_reader(screen)
        os.close(screen)
        os.close(terminal)
    # The next step, and then the first message, stand in the place of a step.
    for step in (b"2 of 3 agents answer", b"3 of 3 agents answer"):
        assert step + b"\r" + b" " * len(step) + b"\r" in shown
    assert process.returncode == 0


@dataclass(frozen=True)
class Settings:
    """One agent of a file. fails: "made" or "opened"; empty: it can be served."""

    fails: str = ""
    host: str = ""
    given: frozenset[str] = frozenset({"public_url"})
    max_calls: int | None = None
    max_streams: int | None = None


async def test_a_file_with_a_wrong_agent_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []

    class Server:
        async def add(self, name: str) -> None:
            if name == "closed":
                raise OSError("the address is in use")
            served.append(name)

        async def remove(self, name: str, _grace: float) -> None:
            served.remove(name)

    def entry(one: changing.ConfiguredAgent, _: Any) -> Any:
        if one.settings.fails == "made":
            raise typer.BadParameter("there is no such file")
        return ("closed" if one.settings.fails else one.name), SimpleNamespace(change=lambda _: None)

    def file(**agents: Settings) -> Any:
        return SimpleNamespace(agents=agents, config=None)

    monkeypatch.setattr(changing, "flags_of", lambda flags, _: flags)
    monkeypatch.setattr(changing, "ServerPlanner", lambda _: SimpleNamespace(limits=lambda: None))
    changes = changing._Changes(changing.AgentKind("agent", entry, lambda *_: False), 0, None)
    server: Any = Server()
    changes.server = server
    known = file(red=Settings(), blue=Settings())
    served += map(str, changes.entries(changing.ConfiguredAgent.all_of(known)))
    with pytest.raises(typer.BadParameter):
        await changes.apply(known, file(blue=Settings(), green=Settings("made")))
    assert served == ["red", "blue"]
    with pytest.raises(typer.BadParameter, match="the file has no agent"):
        await changes.apply(known, file())
    assert served == ["red", "blue"]
    for _ in range(2):  # what could not be opened is tried again
        with pytest.raises(OSError, match="in use"):
            await changes.apply(known, file(red=Settings(), blue=Settings(), green=Settings("opened")))
    assert served == ["red", "blue"]


async def test_agents_are_those_of_the_old_file_if_a_new_one_cannot_be_opened(folder: Path) -> None:
    """Also those that had left or changed before the error."""

    def write(**agents: str) -> str:
        tables = [
            f'[agents.{name}]\nagent = "{folder}/agents.py:{name}"\n{more}' for name, more in agents.items()
        ]
        file = folder / "bridge.toml"
        file.write_text("\n".join(['store = "memory://"', *tables]))
        return str(file)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = f'grpc = "127.0.0.1:{taken.getsockname()[1]}"'
        async with serving("serve", "--config", write(red="", blue=""), *ANY_PORT) as running:
            for wrong in ({"red": "max_tasks = 5", "green": port}, {"red": "", "blue": port}):
                write(**wrong)
                running.signal(signal.SIGHUP)
                await logged(running, "stays as it was")
                for name in ("red", "blue"):
                    assert await text_of(f"{running.http}/agents/{name}") == f"{name}::nobody"
                await until(f"{running.http}/agents/green", 404)


async def test_agents_that_go_leave_together(folder: Path) -> None:
    """Not one after the other, each with its grace, while the last of them still takes calls."""

    def write(*names: str) -> str:
        tables = [f'[agents.{name}]\nagent = "{folder}/holding.py:{name}"' for name in names]
        file = folder / "bridge.toml"
        file.write_text("\n".join(['store = "memory://"', "timeout_graceful_shutdown = 600", *tables]))
        return str(file)

    (folder / "holding.py").write_text(HOLDING)
    async with serving("serve", "--config", write("red", "blue"), *ANY_PORT) as running:
        calls, ends = [], []
        for name in ("red", "blue"):
            url, fifo = f"{running.http}/agents/{name}", folder / name
            os.mkfifo(fifo)
            calls.append(asyncio.create_task(text_of(url, text=str(fifo))))
            async with asyncio.timeout(PATIENCE):  # opens when the agent has opened its end
                ends.append(await asyncio.to_thread(os.open, fifo, os.O_WRONLY))
        write("green")
        running.signal(signal.SIGHUP)
        for name in ("red", "blue"):
            await until(f"{running.http}/agents/{name}", 404)
        for end in ends:
            os.close(end)
        assert await asyncio.gather(*calls) == ["red", "blue"]
        await until(f"{running.http}/agents/green", 200)


async def test_an_unreachable_agent_does_not_keep_the_others_from_their_start(folder: Path) -> None:
    async with upstreams(folder, "red") as agents:
        file = written(folder, {**agents, "gone": "http://127.0.0.1:9"})
        async with serving("gateway", "--config", file, *ANY_PORT) as running:
            assert await text_of(f"{running.http}/agents/red") == "red::nobody"
            with rejected(Reason.UNAVAILABLE):
                await text_of(interface("HTTP+JSON", f"{running.http}/agents/gone"))


async def test_rules_and_keys_of_several_agents(folder: Path) -> None:
    keys = folder / "keys.json"
    key = (await command("keys", "create", "--file", str(keys), "--id", "ann")).out.strip()
    rule = '[[rules]]\nagents = ["red"]\nprincipals = ["ann"]'
    async with upstreams(folder, "red", "blue") as agents:
        file = written(folder, agents, f'api_keys = "{keys}"', rule)
        async with serving("gateway", "--config", file, *ANY_PORT) as running:
            for target in (f"{running.http}/agents/red", interface("GRPC", running.grpc, tenant="red")):
                assert await text_of(target, x_api_key=key) == "red::nobody"
            for target in (f"{running.http}/agents/blue", interface("GRPC", running.grpc, tenant="blue")):
                for parameters, reason in (
                    ({"x_api_key": key}, Reason.PERMISSION_DENIED),
                    ({}, Reason.UNAUTHENTICATED),
                ):
                    with rejected(reason):
                        await text_of(target, **parameters)


async def test_serve_takes_several_agents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    file = folder / "serve.toml"
    file.write_text(
        '[agents.red]\nagent = "agents.py:red"\n[agents.blue]\nagent = "agents.py:blue"\nhost = "blue.example"\n'
        'grpc = "127.0.0.1:0"\n'
    )
    admin = ("--admin", "127.0.0.1:0")
    async with serving("serve", "--config", str(file), *ANY_PORT, *admin, env=FILES) as running:
        for name in ("red", "blue"):
            assert await text_of(f"{running.http}/agents/{name}") == f"{name}::nobody"
        async with httpx.AsyncClient() as http:
            shown = (await http.get(f"{running.http}/agents/blue/.well-known/agent-card.json")).json()
            named = {"Host": "blue.example"}
            host = (await http.get(f"{running.http}/.well-known/agent-card.json", headers=named)).json()
            metrics = (await http.get(f"{running.addresses['admin']}/metrics")).text
            assert (await http.get(f"{running.addresses['admin']}/readyz")).status_code == 200
        old = [
            one["url"]
            for one in shown["supportedInterfaces"]
            if one["protocolBinding"] == "GRPC" and one["protocolVersion"] == "0.3"
        ]
        assert await text_of(interface("GRPC", old[0], version="0.3")) == "blue::nobody"
    assert host["name"] == "blue"
    assert 'agent="red"' in metrics
    assert 'agent="blue"' in metrics
    assert (folder / ".a2a-bridge" / "red.db").exists()
    assert (folder / ".a2a-bridge" / "blue.db").exists()


def test_a_wrong_version_of_an_agent_is_reported_with_its_table(tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text('[agents.red]\nupstream = "http://127.0.0.1:9"\na2a_version = "9"\n')
    agents = {"red": AgentSettings(upstream="u", a2a_version="9", given=frozenset({"a2a_version"}))}
    one = changing.ConfiguredAgent.all_of(GatewayFlags(config=file, agents=agents))["red"]
    with pytest.raises(typer.BadParameter, match=r"bridge\.toml:3: \[agents\.red\]: "), one.reported():
        changing.GATEWAY.entry(one, None)


@pytest.mark.parametrize(
    ("flags", "variables", "expected"),
    [
        (("-H", "Authorization: Bearer s3cret"), {}, "--header"),
        ((), {"A2A_BRIDGE_HEADER_X_KEY": "s3cret"}, "A2A_BRIDGE_HEADER_X_KEY"),
        (("--upstream-auth", "none"), {}, "--upstream-auth"),
    ],
)
async def test_several_agents_do_not_share_credentials(
    folder: Path, flags: tuple[str, ...], variables: dict[str, str], expected: str
) -> None:
    file = written(folder, dict.fromkeys(("red", "blue"), "http://127.0.0.1:9"))
    done = await command("gateway", "--config", file, *ANY_PORT, *flags, env=variables)
    assert done.code == 2
    assert f"Invalid value for {expected}: " in done.err
    assert "[agents.red]: several agents must not share credentials" in done.err
    assert "s3cret" not in done.err


async def test_each_agent_has_credentials_of_its_own(folder: Path) -> None:
    keys = folder / "keys.json"
    made = {
        name: (await command("keys", "create", "--file", str(keys), "--id", name)).out for name in ("r", "b")
    }
    for name, key in made.items():
        (folder / name).write_text(key)
    flags = ("--api-keys", str(keys))
    async with (
        serving("serve", f"{folder}/agents.py:red", *ANY_PORT, *flags) as red,
        serving("serve", f"{folder}/agents.py:blue", *ANY_PORT, *flags) as blue,
    ):
        file = folder / "bridge.toml"
        file.write_text(
            f'[agents.red]\nupstream = "{red.http}"\nheader = ["X-API-Key: @{folder}/r"]\n'
            f'[agents.blue]\nupstream = "{blue.http}"\nheader = ["X-API-Key: @{folder}/b"]\n'
        )
        async with serving("gateway", "--config", str(file), *ANY_PORT) as running:
            assert await text_of(f"{running.http}/agents/red") == "red::r"
            assert await text_of(f"{running.http}/agents/blue") == "blue::b"


async def test_several_agents_do_not_share_a_store(folder: Path) -> None:
    file = folder / "serve.toml"
    file.write_text(
        f'[agents.red]\nagent = "{folder}/agents.py:red"\n[agents.blue]\nagent = "{folder}/agents.py:blue"\n'
    )
    done = await command("serve", "--config", str(file), "--store", f"sqlite:///{folder}/one.db", *ANY_PORT)
    assert done.code == 2
    assert "several agents cannot share it; [agents.red] store = … names one of its own" in done.err


async def by_authority(running: Running, authority: str, version: str) -> str:
    """The answer to a gRPC call whose authority is a host name."""
    options = [("grpc.default_authority", authority)]
    package = {"1.0": "lf.a2a.v1", "0.3": "a2a.v1"}[version]
    from a2a_bridge.pb import a2a_v1, lf_a2a_v1

    if version == "1.0":
        part = lf_a2a_v1.Part(text="hi")
        message = lf_a2a_v1.Message(message_id="m", role=lf_a2a_v1.ROLE_USER, parts=[part])
        request: Any = lf_a2a_v1.SendMessageRequest(message=message)
        response: Any = lf_a2a_v1.SendMessageResponse
    else:
        old = a2a_v1.Message(message_id="m", role=a2a_v1.ROLE_USER, content=[a2a_v1.Part(text="hi")])
        request, response = a2a_v1.SendMessageRequest(request=old), a2a_v1.SendMessageResponse
    async with grpc.aio.insecure_channel(running.grpc, options=options) as channel:
        call = channel.unary_unary(
            f"/{package}.A2AService/SendMessage",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        found = await call(request, timeout=PATIENCE)
    return str(found)


async def test_envoy_finds_agents_by_authority(folder: Path) -> None:
    pytest.importorskip("envoy")
    async with upstreams(folder, "red", "blue") as agents:
        hosts = [
            f'[agents.{name}]\nupstream = "{url}"\nhost = "{name}.example"' for name, url in agents.items()
        ]
        file = folder / "bridge.toml"
        file.write_text("\n".join(hosts))
        envoy = ("--server", "envoy", "--listen", "127.0.0.1:0")
        async with serving("gateway", "--config", str(file), *envoy) as running:
            for name in agents:
                for version in ("1.0", "0.3"):
                    assert f"{name}::nobody" in await by_authority(running, f"{name}.example", version)
                assert await text_of(interface("GRPC", running.grpc, tenant=name)) == f"{name}::nobody"
                assert await text_of(f"{running.http}/agents/{name}", "HTTP+JSON") == f"{name}::nobody"
