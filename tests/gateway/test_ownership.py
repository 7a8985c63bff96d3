"""A gateway that checks callers keeps their tasks apart, although its agent sees one caller."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cards import select
from a2a_bridge.core.call import Call, CallContext, Principal
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_TASK, LIST_TASKS, SEND_MESSAGE
from a2a_bridge.gateway import ownership
from a2a_bridge.gateway.ownership import TASK, Owned, Owners, Ownership, StoredOwners, name_for
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.stores import StoreOptions, open_store
from a2a_bridge.testing.probe import Probe, answering
from tests.patience import PATIENCE
from tests.push.delivery_scene import receiving

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class Remembering:
    """An agent whose contexts have a memory, and that shows what messages refer to."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {}

    async def execute(self, run: Run) -> AsyncIterator[Any]:
        words = self.said.setdefault(run.context_id, [])
        words.append(run.text)
        yield run.artifact(" ".join(words))
        yield run.status("completed" if run.text != "ask" else "input-required")


@dataclass
class Bridge:
    """Gateways in front of one agent."""

    card: hub.AgentCard
    keys: dict[str, str]
    edge: Authentication
    executor: Remembering
    folder: Path

    @asynccontextmanager
    async def gateway(self, **changes: Any) -> AsyncIterator[Callable[..., Any]]:
        """Clients of a gateway: by caller, binding and version."""
        options = replace(ServeOptions(authentication=self.edge, grace=0), **changes)
        found = select(self.card, known=["JSONRPC"], version="1.0")
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(serve_gateway(self.card, found, options=options))

            async def peer(name: str, binding: str = "JSONRPC", version: str = "1.0") -> Peer:
                dial = DialOptions(parameters={"x-api-key": self.keys[name]}, timeout=PATIENCE)
                return await stack.enter_async_context(
                    connect(server.card, binding=binding, version=version, options=dial)
                )

            yield peer


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    file = KeyFile(tmp_path / "keys.json")
    keys = {name: file.create(name).text for name in ("ann", "bob")}
    executor = Remembering()
    agent = Agent(executor, name="remembers", push_notifications=True)
    sending = ServeOptions(push_options=PushOptions(allow=("127.0.0.1",)), grace=0)
    async with serve(agent, options=sending) as server:
        yield Bridge(server.card, keys, Authentication([ApiKeys(file)]), executor, tmp_path)


def message(text: str, **members: Any) -> hub.SendMessageRequest:
    sent = hub.Message(
        message_id=f"m {text} {members}", role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members
    )
    return hub.SendMessageRequest(message=sent)


async def rejected(peer: Peer, request: Any) -> A2AError:
    operation = peer.send_message if isinstance(request, hub.SendMessageRequest) else peer.get_task
    with pytest.raises(A2AError) as caught:
        await operation(request)
    return caught.value


async def test_a_context_that_two_callers_choose_is_two_contexts(bridge: Bridge) -> None:
    async with bridge.gateway() as peer:
        for number, binding in enumerate(BINDINGS):
            chosen = f"support-{number}"
            shown = {}
            for name in ("ann", "bob"):
                one = await peer(name, binding)
                for text in (f"first of {name}", f"second of {name}"):
                    task = (await one.send_message(message(text, context_id=chosen))).task
                    assert task.context_id == chosen
                    assert {said.context_id for said in task.history} <= {chosen, ""}
                shown[name] = task.artifacts[0].parts[0].text
                (listed, *_) = (await one.list_tasks(hub.ListTasksRequest(context_id=chosen))).tasks
                assert listed.context_id == chosen
                assert (await one.get_task(hub.GetTaskRequest(id=task.id))).context_id == chosen
                more = message("more", context_id=chosen)
                events = [event async for event in one.send_streaming_message(more)]
                assert {_context(event) for event in events} == {chosen}
                asked = (await one.send_message(message("ask", context_id=chosen))).task
                followed = message("answer", context_id=chosen, task_id=asked.id)
                assert (await one.send_message(followed)).task.id == asked.id
            assert shown == {name: f"first of {name} second of {name}" for name in shown}


def _context(event: hub.StreamResponse) -> str:
    return str(getattr(event, event.WhichOneof("payload") or "").context_id)


async def test_a_context_of_the_agent_goes_on_for_its_caller_only(bridge: Bridge) -> None:
    async with bridge.gateway() as peer:
        ann, bob = await peer("ann"), await peer("bob")
        first = (await ann.send_message(message("mine"))).task
        assert first.context_id in bridge.executor.said
        again = (await ann.send_message(message("and more", context_id=first.context_id))).task
        assert again.artifacts[0].parts[0].text == "mine and more"
        other = (await bob.send_message(message("tell me", context_id=first.context_id))).task
        assert (other.artifacts[0].parts[0].text, other.context_id) == ("tell me", first.context_id)


async def test_messages_cannot_refer_to_tasks_of_others(bridge: Bridge) -> None:
    async with bridge.gateway() as peer:
        ann, bob = await peer("ann"), await peer("bob")
        task = (await ann.send_message(message("mine"))).task
        for request in (
            message("about", reference_task_ids=[task.id]),
            message("about", reference_task_ids=["nobody's"]),
        ):
            assert (await rejected(bob, request)).reason is Reason.TASK_NOT_FOUND
        registering = message("hook")
        registering.configuration.task_push_notification_config.url = "http://127.0.0.1:9/"
        registering.configuration.task_push_notification_config.task_id = task.id
        assert (await rejected(bob, registering)).reason is Reason.TASK_NOT_FOUND
        assert (await ann.send_message(message("about", reference_task_ids=[task.id]))).task.id


async def test_a_store_knows_the_callers_after_a_restart_and_in_other_gateways(bridge: Bridge) -> None:
    async with open_store(f"sqlite:///{bridge.folder}/gateway.db") as store:
        async with bridge.gateway(store=store) as peer:
            ann = await peer("ann")
            task = (await ann.send_message(message("mine", context_id="chosen"))).task
            async with bridge.gateway(store=store) as beside:
                assert (await (await beside("ann")).get_task(hub.GetTaskRequest(id=task.id))).id == task.id
        async with bridge.gateway(store=store) as peer:
            ann, bob = await peer("ann"), await peer("bob")
            listed = await ann.list_tasks(hub.ListTasksRequest())
            assert [(one.id, one.context_id) for one in listed.tasks] == [(task.id, "chosen")]
            found = await ann.get_task(hub.GetTaskRequest(id=task.id))
            assert (found.id, found.context_id) == (task.id, "chosen")
            assert (await rejected(bob, hub.GetTaskRequest(id=task.id))).reason is Reason.TASK_NOT_FOUND
            assert not (await bob.list_tasks(hub.ListTasksRequest())).tasks


@pytest.mark.parametrize("access", ["own", "unowned", "all"])
async def test_tasks_of_unknown_callers(bridge: Bridge, access: str) -> None:
    async with connect(bridge.card) as near:
        begun = (await near.send_message(message("before"))).task
        before = begun.id
    async with bridge.gateway(task_access=access) as peer:
        ann, bob = await peer("ann"), await peer("bob")
        mine = (await ann.send_message(message("mine"))).task.id
        went_on = (await bob.send_message(message("after", context_id=begun.context_id))).task
        said = went_on.artifacts[0].parts[0].text
        assert said == ("after" if access == "own" else "before after")
        if access == "own":
            assert (await rejected(bob, hub.GetTaskRequest(id=before))).reason is Reason.TASK_NOT_FOUND
        else:
            assert (await bob.get_task(hub.GetTaskRequest(id=before))).id == before
        if access == "all":
            assert (await bob.get_task(hub.GetTaskRequest(id=mine))).id == mine
            return
        foreign = await rejected(bob, hub.GetTaskRequest(id=mine))
        absent = await rejected(bob, hub.GetTaskRequest(id="x" * len(mine)))
        assert (foreign.reason, foreign.message) == (absent.reason, absent.message)
        assert set(foreign.metadata) == set(absent.metadata)


async def test_notifications_have_the_names_of_their_caller(bridge: Bridge, unused_tcp_port: int) -> None:
    relaying = {
        "http": ListenAddress("127.0.0.1", unused_tcp_port),
        "push_relay": f"http://127.0.0.1:{unused_tcp_port}",
        "push_options": PushOptions(allow=("127.0.0.1",)),
    }
    async with receiving() as receiver, bridge.gateway(**relaying) as peer:
        ann = await peer("ann")
        request = message("mine", context_id="chosen")
        request.configuration.task_push_notification_config.url = receiver.url
        task = (await ann.send_message(request)).task
        (posted, *_) = await receiver.arrived(1)
        assert name_for(Scope("", "ann"), "chosen") not in posted.body.decode()
        assert '"chosen"' in posted.body.decode()
        assert task.id in posted.body.decode()


def _call(operation: Any, request: Any, who: str) -> Call[Any, Any]:
    return Call(operation, request, CallContext(principal=Principal(who)))


async def test_an_agent_that_answers_with_a_task_of_somebody_else(bridge: Bridge) -> None:
    """As agents do that know a message by its id: all callers are one caller to them."""
    probe = Probe()

    probe.on_unary = answering(hub.SendMessageResponse(task=hub.Task(id="t", context_id="c")))
    service = Ownership(probe, Owners(Tasks()))
    assert (await service.unary(_call(SEND_MESSAGE, message("x"), "ann"))).task.id == "t"
    assert (await service.unary(_call(SEND_MESSAGE, message("x"), "ann"))).task.id == "t"
    with pytest.raises(A2AError) as caught:
        await service.unary(_call(SEND_MESSAGE, message("x"), "bob"))
    assert caught.value.violations[0].field == "message.messageId"
    with pytest.raises(A2AError) as caught:
        await service.unary(_call(LIST_TASKS, hub.ListTasksRequest(), "bob"))
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


async def test_a_follow_up_that_begins_a_task_makes_it_the_callers() -> None:
    ann, bob = (CallContext(principal=Principal(name)) for name in ("ann", "bob"))
    agent = Probe()
    service = Ownership(agent, Owners(tasks := Tasks()), tasks=tasks)
    for task_id, members in (("first", {}), ("second", {"task_id": "first"})):
        task = hub.Task(id=task_id, context_id="c")
        agent.on_unary = answering(hub.SendMessageResponse(task=task))
        await service.unary(Call(SEND_MESSAGE, message("more", **members), ann))
    agent.on_unary = answering(task)
    asked = hub.GetTaskRequest(id="second")
    assert (await service.unary(Call(GET_TASK, asked, ann))).id == "second"
    with pytest.raises(A2AError) as foreign:
        await service.unary(Call(GET_TASK, asked, bob))
    assert foreign.value.reason is Reason.TASK_NOT_FOUND


async def test_a_notification_about_a_task_of_somebody_else_is_rejected() -> None:
    owners = Owners(Tasks())
    event = hub.StreamResponse(task=hub.Task(id="t", context_id="c"))
    assert await owners.rename_notification(Scope("", "ann"), event) is event
    with pytest.raises(A2AError) as caught:
        await owners.rename_notification(Scope("", "bob"), event)
    assert caught.value.reason is Reason.TASK_NOT_FOUND


async def test_records_are_no_entries_of_any_caller() -> None:
    tasks = Tasks()
    owners = Owners(tasks)
    ann = Scope("", "ann")
    await owners.claim(TASK, "t", Owned(ann, "c"))
    for scope in (ann, Scope(), Scope("", "a2a-bridge owners")):
        assert (tasks.list_of(scope), tasks.context_of(scope, "t")) == ([], "")
        tasks.note(scope, "t", "another")
        tasks.keep_name(scope, "t", "name", None, 1)
        tasks.unlist(scope, "t")
    assert await owners.of(TASK, "t", ann) == Owned(ann, "c")


async def test_what_is_not_known_any_more_belongs_to_nobody() -> None:
    owners = Owners(Tasks(most=2))
    ann = Scope("", "ann")
    for name in ("first", "second", "third"):
        assert await owners.claim(TASK, name, Owned(ann)) == Owned(ann)
    assert await owners.of(TASK, "first", ann) is None
    service = Ownership(Probe(), owners)
    with pytest.raises(A2AError) as caught:
        await service.unary(_call(GET_TASK, hub.GetTaskRequest(id="first"), "ann"))
    assert caught.value.reason is Reason.TASK_NOT_FOUND


async def test_a_task_that_its_owner_reads_is_listed_again() -> None:
    probe = Probe()

    async def working(call: Call[Any, Any]) -> Any:
        task_id = call.request.id if call.operation is GET_TASK else call.request.message.message_id
        status = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
        task = hub.Task(id=task_id, context_id="c", status=status)
        return task if call.operation is GET_TASK else hub.SendMessageResponse(task=task)

    probe.on_unary = working
    tasks = Tasks(most_listed=1)
    service = Ownership(probe, Owners(Tasks()), tasks=tasks)
    for name in ("first", "second"):
        await service.unary(_call(SEND_MESSAGE, hub.SendMessageRequest(message={"message_id": name}), "ann"))
    for name in ("first", "second"):
        await service.unary(_call(GET_TASK, hub.GetTaskRequest(id=name), "ann"))
        page = await service.unary(_call(LIST_TASKS, hub.ListTasksRequest(), "ann"))
        assert [one.id for one in page.tasks] == [name]


async def test_a_store_has_one_owner_and_the_newest_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gateways that see a task at once agree; a full list loses its oldest. With few groups, few tasks fill
    the list.
    """
    groups = 4
    monkeypatch.setattr(ownership, "GROUPS", groups)
    async with open_store(f"sqlite:///{tmp_path}/gateway.db", StoreOptions(ack_timeout=PATIENCE)) as store:
        here, there = (StoredOwners(store.push_configs, Tasks()) for _ in range(2))
        ann, bob = Scope("", "ann"), Scope("tenant", "bob")
        claims = [(here, ann), (there, bob)]
        found = await asyncio.gather(*(one.claim(TASK, "t", Owned(scope)) for one, scope in claims))
        assert found[0] == found[1]
        names = [f"task {number}" for number in range(groups * 100 + 200)]
        await asyncio.gather(*(here.claim(TASK, name, Owned(bob, "c")) for name in names))
        listed = {one.task_id for one in await there.tasks(bob)}
        assert 100 <= len(listed) <= groups * 100 + 1
        for name in names[:50]:
            assert await there.of(TASK, name, bob) == Owned(bob, "c")
            assert await there.of(TASK, name, ann) == Owned(bob, "c")
        assert all(one.context_id == "c" and one.time for one in await there.tasks(bob) if one.task_id != "t")


async def test_a_task_of_somebody_else_is_never_listed(tmp_path: Path) -> None:
    """Its agent answers the second caller with the task of the first."""
    probe = Probe()

    async def same(call: Call[Any, Any]) -> Any:
        task = hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))
        return task if call.operation is GET_TASK else hub.SendMessageResponse(task=task)

    probe.on_unary = same
    async with open_store(f"sqlite:///{tmp_path}/gateway.db", StoreOptions(ack_timeout=PATIENCE)) as store:
        service = Ownership(probe, StoredOwners(store.push_configs, Tasks()), tasks=Tasks())
        await service.unary(_call(SEND_MESSAGE, message("x"), "ann"))
        with pytest.raises(A2AError):
            await service.unary(_call(SEND_MESSAGE, message("x"), "bob"))
        for who, count in (("ann", 1), ("bob", 0)):
            page = await service.unary(_call(LIST_TASKS, hub.ListTasksRequest(), who))
            assert len(page.tasks) == count
