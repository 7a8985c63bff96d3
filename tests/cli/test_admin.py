"""--admin, --tracing and the secrets of callers, with real processes."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge.app.runtime import connect
from a2a_bridge.bindings.binding import DialOptions, Fetched
from a2a_bridge.cli import worker_admin
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import ANY_PORT, Running, command, serving
from tests.patience import PATIENCE

ADMIN = ("--admin", "127.0.0.1:0")
AGENT = """
import asyncio
from a2a_bridge import Run, agent

@agent
async def weather(run: Run):
    if run.text.startswith("fail"):
        raise RuntimeError("the agent fails")
    yield run.status("working")
    yield run.reply("sunny")
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "weather.py"
    path.write_text(AGENT)
    return str(path)


async def fetched(running: Running, path: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
        return await client.get(f"{running.addresses['admin']}{path}")


async def requests(running: Running) -> dict[str, float]:
    """The messages by worker; "" without workers. A gateway also asks for a task when it starts."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families((await fetched(running, "/metrics")).text):
        for one in family.samples:
            if one.name == "a2a_bridge_requests_total" and one.labels["operation"] == "SendMessage":
                worker = one.labels.get("worker", "")
                found[worker] = found.get(worker, 0) + one.value
    return found


SERVERS = [ANY_PORT, ("--server", "envoy", "--listen", "127.0.0.1:0")]


@pytest.mark.parametrize("server", SERVERS, ids=["builtin", "envoy"])
async def test_serve_and_gateway_have_a_listener_for_operators(target: str, server: tuple[str, ...]) -> None:
    async with (
        serving("serve", target, *server, *ADMIN, "--usage-listen", "127.0.0.1:0") as running,
        serving("gateway", running.http, *ANY_PORT, *ADMIN) as gateway,
        connect(gateway.http) as peer,
    ):
        names = [part.partition("=")[0] for part in running.ready.split()]
        assert names == ["ready", "http", "grpc", "admin", "usage"]
        await peer.send("Bern")
        for one in (running, gateway):
            assert await requests(one) == {"": 1}
            for path in ("/livez", "/readyz", "/startupz"):
                assert (await fetched(one, path)).status_code == 200
        # The counts of callers are there, too.
        counts = (await fetched(running, "/usage")).json()["usage"]
        assert "SendMessage" in {one["operation"] for one in counts}
        assert (await fetched(gateway, "/usage")).status_code == 404
        # Nothing of this is on the public listener.
        async with httpx.AsyncClient(verify=False) as client:  # noqa: S501
            assert (await client.get(f"{running.http}/metrics")).status_code == 404


async def test_workers_are_asked_by_their_supervisor(target: str) -> None:
    async with serving("serve", target, *ANY_PORT, *ADMIN, "--workers", "2") as running:
        assert (await fetched(running, "/startupz")).status_code == 200
        assert (await fetched(running, "/readyz")).text == "ok: 2 of 2 workers\n"
        for _ in range(4):
            async with connect(running.http) as peer:
                await peer.send("Bern")
        found = await requests(running)
        assert sum(found.values()) == 4
        assert set(found) <= {"1", "2"}
        text = (await fetched(running, "/metrics")).text
        assert text.count("# TYPE a2a_bridge_requests_total counter") == 1
        assert {f'a2a_bridge_ready{{worker="{number}"}} 1.0' for number in (1, 2)} <= set(text.splitlines())


async def test_a_worker_that_is_replaced_begins_again(target: str) -> None:
    async with serving("serve", target, *ANY_PORT, *ADMIN, "--workers", "1", "--log-level", "info") as alone:
        assert "worker" not in (await fetched(alone, "/metrics")).text
    async with serving(
        "serve", target, *ANY_PORT, *ADMIN, "--workers", "2", "--log-level", "info"
    ) as running:
        async with connect(running.http) as peer:
            await peer.send("Bern")
        text = (await fetched(running, "/metrics")).text
        assert sum((await requests(running)).values()) == 1
        before = process_starts(text)
        running.signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            while process_starts(text).keys() != {"1", "2"} or any(
                before[worker] == start for worker, start in process_starts(text).items()
            ):
                text = (await fetched(running, "/metrics")).text
        assert await requests(running) == {}


def process_starts(text: str) -> dict[str, float]:
    return {
        one.labels["worker"]: one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == "process_start_time_seconds"
    }


async def test_a_worker_without_an_answer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(url: str, _headers: Any) -> Fetched:
        if url.startswith("http://one"):
            return Fetched(200, {}, b"# TYPE x gauge\nx 1\n")
        if url.startswith("http://two"):
            raise A2AError(Reason.UNAVAILABLE)
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for it")

    monkeypatch.setattr(worker_admin, "_PATIENCE", 0.01)
    places = {"1": "http://one", "2": "http://two", "3": "http://three"}
    page = await worker_admin._metrics(fetch, lambda: places, "")
    assert page.body == b'# HELP x \n# TYPE x gauge\nx{worker="1"} 1.0\n'
    page = await worker_admin._ready(fetch, lambda: places, "")
    assert (page.status, page.body) == (200, b"ok: 1 of 3 workers\n")
    page = await worker_admin._ready(fetch, lambda: {"2": "http://two"}, "")
    assert page.status == 503


async def test_an_address_that_is_taken_is_an_error(target: str) -> None:
    async with serving("serve", target, *ANY_PORT, *ADMIN) as running:
        taken = running.addresses["admin"].removeprefix("http://")
        for more in ((), ("--workers", "2")):
            done = await command("serve", target, *ANY_PORT, "--admin", taken, *more)
            assert done.code == 2
            assert "cannot listen" in done.err
            assert "Traceback" not in done.err
    done = await command("serve", target, *ANY_PORT, "--admin", "nonsense")
    assert done.code == 2
    assert "--admin" in done.err


async def test_tracing_on_needs_the_sdk_and_an_exporter(target: str) -> None:
    done = await command(
        "serve", target, *ANY_PORT, "--tracing", "on", env={"OTEL_TRACES_EXPORTER": "none-such"}
    )
    assert done.code == 2
    assert "no exporter none-such" in done.err
    assert "pip install" in done.err


async def test_spans_as_the_environment_says(target: str) -> None:
    env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    async with serving("serve", target, *ANY_PORT, "--tracing", "on", env=env) as running:
        async with connect(running.http) as peer:
            await peer.send("Bern")
        running.signal()
        out = (await running.ended()).out
    assert '"name": "lf.a2a.v1.A2AService/SendMessage"' in out
    assert '"service.name": "a2a-bridge"' in out
    async with serving("serve", target, *ANY_PORT, "--tracing", "off", env=env) as running:
        async with connect(running.http) as peer:
            await peer.send("Bern")
        running.signal()
        assert (await running.ended()).out == ""


CANARY = "s3cr3t-canary"


async def _with_secrets(place: str) -> None:
    """Calls with secrets in headers, bodies, names and URLs; good, rejected and broken ones."""
    parameters = {
        "authorization": f"Bearer {CANARY}-1",
        "x-api-key": f"{CANARY}-2",
        "cookie": f"session={CANARY}-3",
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "baggage": f"user={CANARY}-5",
    }
    options = DialOptions(parameters=parameters)
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
        async with connect(place, binding=binding, options=options) as peer:
            task = (await peer.send(f"{CANARY}-6")).task
            async for _ in peer.stream(f"fail {CANARY}-7"):
                pass
            calls = [
                peer.get_task(hub.GetTaskRequest(id=f"{CANARY}-8" * 40)),
                peer.create_task_push_notification_config(
                    hub.TaskPushNotificationConfig(
                        task_id=task.id if task is not None else "t",
                        url=f"https://user:{CANARY}-9@127.0.0.1:9/{CANARY}-10?key={CANARY}-11",
                        token=f"{CANARY}-12",
                        authentication=hub.AuthenticationInfo(scheme="Bearer", credentials=f"{CANARY}-13"),
                    )
                ),
            ]
            for call in calls:
                try:
                    await call
                except A2AError:
                    continue
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE, headers=parameters) as client:  # noqa: S501
        await client.get(f"{place}/nothing?key={CANARY}-14")
        await client.post(f"{place}/?token={CANARY}-15", content=f'{{"broken": "{CANARY}-16"')


CELLS = [(SERVERS[0], level, form) for level in ("debug", "info") for form in ("text", "json")]


@pytest.mark.parametrize(("server", "level", "form"), [*CELLS, (SERVERS[1], "debug", "json")])
async def test_no_secret_is_seen_by_operators(
    target: str, server: tuple[str, ...], level: str, form: str
) -> None:
    """Ids of tasks, which callers choose, are in lines and spans, cut. They are in no metric."""
    flags = (*ADMIN, "--log-level", level, "--log-format", form, "--tracing", "on")
    env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    sent = ("-H", f"Authorization: Bearer {CANARY}-18", "--forward", "x-api-key")
    async with (
        serving("serve", target, *server, *flags, env=env) as running,
        serving("gateway", running.http, *ANY_PORT, *flags, *sent, env=env) as gateway,
    ):
        await _with_secrets(gateway.http)
        await _with_secrets(running.http)
        for one in (running, gateway):
            assert CANARY not in (await fetched(one, "/metrics")).text
        seen = []
        for one in (gateway, running):
            one.signal()
            done = await one.ended()
            if form == "json":
                assert all(isinstance(json.loads(line), dict) for line in done.err.splitlines())
            seen += [done.err, done.out]
    for text in seen:
        assert text
        rest = text.replace(f"{CANARY}-8", "")
        assert CANARY not in rest, [line[:300] for line in rest.splitlines() if CANARY in line][:3]
