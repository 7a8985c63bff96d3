"""Agents of 1.0 that do not wait for the task of a message (fasta2a, a2a-java 1.0.0.Alpha3)."""

from typing import Any

import pytest

from a2a_bridge.app.runtime import connect, serve_gateway
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.patience import LIMITS
from tests.sites import listening

CARD = hub.AgentCard(name="early", description="does not wait", version="1")
WORKING, COMPLETED = hub.TASK_STATE_WORKING, hub.TASK_STATE_COMPLETED


def task(state: hub.TaskState) -> hub.Task:
    return hub.Task(id="t", context_id="c", status=hub.TaskStatus(state=state))


class Early:
    """SendMessage answers at once; GetTask answers with these, the last one for ever."""

    def __init__(self, *later: Any) -> None:
        self.later = list(later)
        self.probe = Probe()
        self.probe.on_unary = self._answer

    async def _answer(self, call: Any) -> Any:
        if call.operation is ops.SEND_MESSAGE:
            return hub.SendMessageResponse(task=task(hub.TASK_STATE_SUBMITTED))
        found = self.later.pop(0) if len(self.later) > 1 else self.later[0]
        if isinstance(found, A2AError):
            raise found
        return found

    @property
    def asked(self) -> int:
        return sum(call.operation is ops.GET_TASK for call in self.probe.calls)


async def sent(agent: Early, *, waits: bool = True, limit: float = 60.0, peer: str = "fasta2a-2") -> hub.Task:
    async with listening(agent.probe, "JSONRPC") as address:
        there = Candidate(interface("JSONRPC", f"http://{address}/"), V1_0)
        options = DialOptions(timeout=limit, peer=peer)
        async with (
            serve_gateway(CARD, [there], [interface("GRPC")], dial_options=options) as gateway,
            connect(gateway.card) as caller,
        ):
            reply = await caller.send("hi", return_immediately=not waits)
    assert reply.task is not None
    return reply.task


async def test_the_gateway_waits_for_the_task() -> None:
    agent = Early(task(WORKING), task(WORKING), task(COMPLETED))
    assert (await sent(agent)).status.state == COMPLETED
    assert agent.asked == 3


async def test_an_agent_without_the_profile_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    agent = Early(task(COMPLETED))
    assert (await sent(agent, peer="")).status.state == hub.TASK_STATE_SUBMITTED
    assert agent.asked == 0
    assert caplog.text.count("--peer fasta2a-2") == 1


@pytest.mark.parametrize("peer", ["fasta2a-2", "a2a-java-1-alpha", ""])
async def test_who_does_not_wait_gets_the_answer(peer: str) -> None:
    agent = Early(task(COMPLETED))
    assert (await sent(agent, waits=False, peer=peer)).status.state == hub.TASK_STATE_SUBMITTED
    assert agent.asked == 0
    # a2a-java 1.0.0.Alpha3 rejects a message with this member.
    assert agent.probe.calls[0].request.configuration.return_immediately == (not peer)


async def test_a_task_that_works_for_longer_than_the_call_is_given_as_it_is() -> None:
    for limit in LIMITS:
        try:
            found = await sent(Early(task(WORKING)), limit=limit)
        except A2AError:
            continue  # the first answer had not come by then
        if found.status.state == hub.TASK_STATE_SUBMITTED:
            continue  # the answer to the first question had not come by then
        assert found.status.state == WORKING
        return
    pytest.fail("no answer within any limit")


async def test_an_error_of_the_question_is_not_the_callers() -> None:
    agent = Early(A2AError(Reason.UNSUPPORTED_OPERATION))
    assert (await sent(agent)).status.state == hub.TASK_STATE_SUBMITTED
