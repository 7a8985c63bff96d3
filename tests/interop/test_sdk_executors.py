"""Executors of the official SDK on our engine: official clients get what they get from our own agent."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from a2a_bridge.app.peer import request_of
from a2a_bridge.app.runtime import connect, serve_agent
from a2a_bridge.core.agent_api import Client
from a2a_bridge.dialects.unmapped import KEY_BYTES
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cli.commands import ANY_PORT, serving
from tests.equivalence.agent import scripted_agent
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import Talk
from tests.interop.deviations import CLIENT_DROPS_DETAILS, differences
from tests.interop.executor_servers import PATHS, hosted, hosted_0_3, options
from tests.interop.sdk_client import sdk_client
from tests.matrix.bridged import EVERYWHERE, Peers, calling, found_in, held, judged
from tests.matrix.versions import Deviation, Side
from tests.patience import PATIENCE
from tests.peers.callers import ServiceCaller
from tests.peers.faults import dropping, without_defaults
from tests.peers.processes import ROOT, PeerClient, python_of
from tests.peers.processes import Agent as PeerAgent
from tests.peers.transcript import settled, transcripts

pytestmark = pytest.mark.sdk


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_official_client_gets_the_same_as_from_our_own_agent(
    name: str, store: str, tmp_path: Path
) -> None:
    async with connect(scripted_agent()) as ours:
        expected = Talk(Client(ours.service))
        await SCENARIOS[name](expected)
    async with stack(options(store, tmp_path), hosted()) as running:
        for binding in BINDINGS:
            async with sdk_client(running.card, binding) as service:
                talk = Talk(Client(service))
                await SCENARIOS[name](talk)
            found = differences(name, expected.lines, talk.lines, [CLIENT_DROPS_DETAILS])
            assert not found, "\n".join([binding, *found])


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_of_0_3_gets_the_same_as_from_our_own_agent(
    binding: str,
    store: str,
    tmp_path: Path,
    peer_agents: Callable[..., PeerAgent],
    peer_clients: Callable[[str], PeerClient],
) -> None:
    client, ours = Side("0.3.26", "0.3", binding), Side("ours", "0.3", binding)
    async with (
        serve_agent(hosted(), EVERYWHERE, options(store, tmp_path)) as server,
        connect(scripted_agent()) as near,
        calling(
            client, found_in(server, client), f"http://{server.http}", Peers(peer_agents, peer_clients)
        ) as caller,
    ):
        expected = await settled(ServiceCaller(near.service))
        got = await transcripts(caller, held(client))
    found = judged(expected, got, client, ours)
    assert not found.lines, "\n".join(found.lines)
    assert found.operations


async def test_defaults_of_an_executor_of_0_3_are_stored_as_those_of_any_other(tmp_path: Path) -> None:
    """Its events name `append` and `lastChunk` also where they are false."""
    async with hosted_0_3("sqlite", tmp_path) as (origin, _), connect(origin) as peer:
        reply = await peer.send("script: open; work; chunk a; chunk b; last c; done")
        assert reply.text == "abc"
    stored = b"".join([one.read_bytes() for one in tmp_path.glob("tasks.db*")])  # noqa: ASYNC240
    assert reply.task is not None
    assert reply.task.id.encode() in stored
    assert KEY_BYTES not in stored


async def test_an_executor_of_a_release_that_is_not_served_is_rejected() -> None:
    python = python_of("0.2", same=True)
    code = (
        f"import sys; sys.path += {PATHS.split(os.pathsep)!r}\n"
        "from a2a.server.agent_execution import AgentExecutor\n"
        "class Hello(AgentExecutor):\n"
        "    async def execute(self, context, event_queue): ...\n"
        "    async def cancel(self, context, event_queue): ...\n"
        "from a2a_bridge import Agent\n"
        "Agent.of(Hello)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [python, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(
        'a2a-sdk 0.2.16 is not served, 0.3 and later are: pip install "a2a-sdk>=0.3"'
    )


#: what our own agent writes in 1.0, and an executor of 0.3 writes otherwise
WRITTEN = [
    Deviation("a data part of 1.0 has a media type", dropping("mediaType", within="data")),
    Deviation("append and lastChunk that are false can be said in 0.3", without_defaults),
]


@pytest.mark.process
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("release", "version"), [("0.3.26", "0.3"), ("1.3.0", "0.3"), ("1.3.0", "1.0")])
async def test_an_executor_of_0_3_answers_as_our_own_agent(
    release: str,
    version: str,
    binding: str,
    store: str,
    tmp_path: Path,
    peer_agents: Callable[..., PeerAgent],
    peer_clients: Callable[[str], PeerClient],
) -> None:
    client, ours = Side(release, version, binding), Side("ours", "0.3", binding)
    async with hosted_0_3(store, tmp_path) as (origin, card), connect(scripted_agent()) as near:
        there = next(
            one
            for one in card.supported_interfaces
            if (one.protocol_binding, one.protocol_version) == (binding, version)
        )
        async with calling(client, there, origin, Peers(peer_agents, peer_clients)) as caller:
            expected, got = (
                await settled(ServiceCaller(near.service)),
                await transcripts(caller, held(client)),
            )
    found = judged(expected, got, client, ours, WRITTEN)
    assert not found.lines, "\n".join(found.lines)
    assert found.operations


@pytest.mark.process
def test_the_contract_of_executors_of_0_3() -> None:
    command = [python_of("0.3", same=True), str(ROOT / "tests" / "peers" / "contract_0_3.py"), PATHS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


COUNTER = """
import asyncio
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

class Counter(AgentExecutor):
    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        done = 0
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
        else:
            done = sum(len(artifact.parts) for artifact in context.current_task.artifacts)
        assert context.get_user_input() == "count"
        for number in range(done, 30):
            await updater.add_artifact([Part(text=f"{number} ")], artifact_id="a", append=number > 0)
            await asyncio.sleep(0)
            if not done and number == 20:
                await asyncio.Event().wait()  # until it is killed
        await updater.complete()

    async def cancel(self, context, event_queue): ...

"""
#: a card without interfaces, because those are the server's
COUNTER_CARD = {"name": "counter", "version": "1", "capabilities": {"streaming": True}}


@pytest.mark.process
async def test_an_executor_that_is_killed_in_the_middle_gives_every_chunk_once(tmp_path: Path) -> None:
    file = tmp_path / "counter.py"
    file.write_text(COUNTER)
    card = tmp_path / "card.json"
    card.write_text(json.dumps(COUNTER_CARD))
    store = ("--store", f"sqlite:///{tmp_path / 'tasks.db'}")
    arguments = ("serve", f"{file}:Counter", "--card", str(card), "--resume", *ANY_PORT, *store)
    seen: list[str] = []
    task_id = last = ""
    async with asyncio.timeout(PATIENCE):
        async with serving(*arguments) as running:
            async with connect(running.http) as peer, aclosing(peer.events(request_of(("count",)))) as events:
                async for event in events:
                    task_id = task_id or event.message.task.id
                    seen += [part.text for part in event.message.artifact_update.artifact.parts]
                    last = event.id
                    if len(seen) >= 9:
                        break
                running.signal(signal.SIGKILL)
            await running.ended()
        async with serving(*arguments) as running, connect(running.http) as peer:
            async for update in peer.subscribe(task_id, after=last):
                seen += [part.text for part in update.artifact_update.artifact.parts]
            task = await peer.get_task(hub.GetTaskRequest(id=task_id))
    whole = [f"{number} " for number in range(30)]
    assert [part.text for part in task.artifacts[0].parts] == whole
    assert task.status.state == hub.TASK_STATE_COMPLETED
    assert seen == whole
