"""Tenants, an agent with their tasks, hosted or behind a gateway, and the work that a request makes. No tests."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from a2a_bridge import Agent, Run, connect, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import Server, serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cards import Candidate
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.service import Events, Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.stores import open_store
from tests.exam.probes import HOOK, PROBES, Names
from tests.exam.raw import INTERFACES, Asker, Cell, asking, carries_tenant
from tests.patience import PATIENCE

#: the tenant in requests that has tasks of alice
TENANT = "acme"
#: the name of a task that alice chose over 0.1
CHOSEN = "report-of-alice"
#: the receivers of the scene are down, and are not tried again while it lasts
PUSH = PushOptions(allow=("127.0.0.1",), first=PATIENCE)
#: what nobody but alice may see
PRIVATE = "of alice only"


class Working:
    """wait: works until it is let go; anything else ends at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        yield run.status("working")
        if run.text == "wait":
            await self.go.wait()
        yield run.artifact(PRIVATE if run.text in ("wait", "ended") else run.text)
        yield run.status("completed")


class Counted:
    """An object whose methods note their calls."""

    def __init__(self, inner: Any, work: list[str]) -> None:
        self._inner, self._work = inner, work

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("push_configs", "sends"):
            return Counted(found, self._work)
        if not inspect.isroutine(found) or name == "rejection":  # a flag, which other calls look at, too
            return found

        def noted(*arguments: Any, **named: Any) -> Any:
            self._work.append(name)
            return found(*arguments, **named)

        return noted


@dataclass
class Scene:
    """A running server, the keys of its callers, and alice's tasks by tenant."""

    server: Server
    keys: dict[str, str]
    asker: Asker
    #: the calls to the store, and to the agent behind a gateway
    work: list[str]
    executor: Working
    alice: dict[str, list[Names]] = field(default_factory=dict)
    #: the interface of the agent that a gateway speaks to; None without a gateway
    upstream: Cell | None = None

    @property
    def has_tenants(self) -> bool:
        """Whether the agent sees the tenants of requests: one of 0.x does not."""
        asked = hub.GetTaskRequest(id="x", tenant=TENANT)
        return self.upstream is None or carries_tenant(self.upstream, ops.GET_TASK, asked)

    @asynccontextmanager
    async def peer(self, name: str, binding: str = "JSONRPC", version: str = "1.0") -> AsyncIterator[Peer]:
        """A client of ours with the key of a caller."""
        options = DialOptions(parameters={"x-api-key": self.keys[name]}, timeout=PATIENCE)
        async with connect(self.server.card, binding=binding, version=version, options=options) as one:
            yield one


def keys_in(folder: Path) -> tuple[KeyFile, dict[str, str]]:
    """Alice, and a stranger for each question: what one of them makes, no other one finds."""
    file = KeyFile(folder / "keys.json")
    names = ("alice", "nobody", *(stranger(probe.name) for probe in PROBES))
    return file, {name: file.create(name.replace(" ", "-")).text for name in names}


def stranger(probe: str) -> str:
    return f"bob who would {probe}"


def agent(executor: Working) -> Agent:
    extended = hub.AgentCard(name="extended", description="d", version="1")
    return Agent(executor, name="Working", push_notifications=True, extended_card=extended)


def _noting(work: list[str]) -> Any:
    class Noting:
        def __init__(self, service: Service) -> None:
            self._service = service

        async def unary(self, call: Call[Req, Res], /) -> Res:
            work.append(call.operation.name)
            return await self._service.unary(call)

        def stream(self, call: Call[Req, Res], /) -> Events:
            work.append(call.operation.name)
            return self._service.stream(call)

    return Noting


@asynccontextmanager
async def hosted(folder: Path, store: str) -> AsyncIterator[Scene]:
    """An agent of this process. store: its URL."""
    file, keys = keys_in(folder)
    work, executor = list[str](), Working()
    async with open_store(store) as opened:
        options = ServeOptions(
            authentication=Authentication([ApiKeys(file)]), store=Counted(opened, work), push_options=PUSH
        )
        async with (
            serve(agent(executor), INTERFACES, options) as server,
            asking(server) as asker,
            populated(Scene(server, keys, asker, work, executor)) as scene,
        ):
            yield scene


@asynccontextmanager
async def bridged(
    folder: Path, upstream: Cell, *, passes: bool = True, store: str = "", relay: int = 0
) -> AsyncIterator[Scene]:
    """A gateway that checks keys. passes: it passes them to an agent that checks them, too; else the agent
    cannot tell callers apart. store: file of its store. relay: the port of a gateway that relays notifications.
    """
    file, keys = keys_in(folder)
    work, executor = list[str](), Working()
    edge = Authentication([ApiKeys(file)])
    async with AsyncExitStack() as stack:
        checking = ServeOptions(
            authentication=edge if passes else None, middleware=(_noting(work),), push_options=PUSH
        )
        far = await stack.enter_async_context(serve(agent(executor), INTERFACES, checking))
        (there,) = (
            one
            for one in far.card.supported_interfaces
            if (one.protocol_binding, one.protocol_version) == (upstream.binding, upstream.version)
        )
        card = hub.AgentCard()
        card.CopyFrom(far.card)
        options = ServeOptions(
            authentication=edge,
            pass_credentials=passes,
            store=f"sqlite:///{folder}/{store}" if store else None,
            http=ListenAddress("127.0.0.1", relay),
            push_relay=f"http://127.0.0.1:{relay}" if relay else "",
            push_options=PUSH,
        )
        dial = DialOptions(timeout=PATIENCE)
        dial = DialOptions(timeout=PATIENCE, forward=dial.forward | {"x-api-key"})
        candidates = [Candidate(there, upstream.dialect)]
        gateway = serve_gateway(card, candidates, INTERFACES, options, dial)
        server = await stack.enter_async_context(gateway)
        asker = await stack.enter_async_context(asking(server))
        made = Scene(server, keys, asker, work, executor, upstream=upstream)
        yield await stack.enter_async_context(populated(made))


@asynccontextmanager
async def populated(scene: Scene) -> AsyncIterator[Scene]:
    """Alice's tasks: one that works, read by her in two streams, one that ended, and one that she named."""
    try:
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            peers = [
                await stack.enter_async_context(scene.peer("alice", binding))
                for binding in ("JSONRPC", "GRPC")
            ]
            for tenant in ("", TENANT) if scene.has_tenants else ("",):
                scene.alice[tenant] = [
                    await _task(peers[0], text, tenant, f"hook-of-alice-{text}") for text in ("wait", "ended")
                ]
                works = scene.alice[tenant][0]
                for peer in peers:
                    request = hub.SubscribeToTaskRequest(id=works.task, tenant=tenant)
                    stream = peer.events(request)
                    stack.push_async_callback(stream.aclose)
                    id_ = (await anext(stream)).id
                    scene.alice[tenant][0] = replace(works, event=id_ or works.event)
            oldest = Cell("0.1", "JSONRPC")
            request = hub.SendMessageRequest(
                message=hub.Message(
                    message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="ended")], task_id=CHOSEN
                )
            )
            headers = {"X-API-Key": scene.keys["alice"]}
            answer = await scene.asker.ask(oldest, ops.SEND_MESSAGE, request, headers)
            assert answer.error(oldest, ops.SEND_MESSAGE) is None, answer
            scene.alice[""].append(Names(CHOSEN, "context-of-alice", "hook-of-alice"))
            yield scene
    finally:
        scene.executor.go.set()


async def _task(peer: Peer, text: str, tenant: str, hook: str) -> Names:
    request = hub.SendMessageRequest(
        tenant=tenant,
        message=hub.Message(message_id="one and the same", role=hub.ROLE_USER, parts=[hub.Part(text=text)]),
        configuration=hub.SendMessageConfiguration(return_immediately=text == "wait"),
    )
    task = (await peer.send_message(request)).task
    await peer.create_task_push_notification_config(
        hub.TaskPushNotificationConfig(task_id=task.id, id=hook, url=f"{HOOK}-of-alice", tenant=tenant)
    )
    return Names(task.id, task.context_id, hook, tenant)
