"""The MCP front with the official client, over streamable HTTP in both eras, before agents of 1.0 and 0.3."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from a2a_bridge import Agent, connect, interface
from a2a_bridge.app.runtime import ServeOptions, serve_agent
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Service
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts import mcp as mcp_front_module
from a2a_bridge_adapters.fronts import turn
from a2a_bridge_adapters.fronts.mcp_content import STATE_META, TASK_META
from a2a_bridge_adapters.fronts.mcp_serving import mcp_front
from tests.agents import ScriptedAgent, SlowAgent
from tests.fronts.desk import FORMS, PNG, At, Desk, serving
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication, listening
from tests.lines import counted_lines
from tests.patience import PATIENCE

#: the eras of the protocol
ERAS = ("legacy", "2026-07-28")
TOOL = "ask_desk"


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client(url: str, era: str, key: str = "", **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else None
    async with create_mcp_http_client(headers) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=era, cache=None, **options) as made:
            yield made


@asynccontextmanager
async def fronted(target: Any, **options: Any) -> AsyncIterator[str]:
    app = mcp_front(target, **options)
    async with listening(app) as url:
        try:
            yield url
        finally:
            await app.close()


def text_of(result: types.CallToolResult) -> str:
    return "".join(one.text for one in result.content if isinstance(one, types.TextContent))


def blocks(result: types.CallToolResult, kind: type[Any]) -> list[Any]:
    return [one for one in result.content if isinstance(one, kind)]


async def test_the_tools_are_the_skills(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        tools = (await mcp.list_tools()).tools
        assert [one.name for one in tools] == ["ask_desk", "ask_desk_2", "task_status"]
        assert (tools[0].title, tools[0].description) == ("Ask the desk", "Answers\nFor example: turn")
        with pytest.raises(MCPError, match="there is no tool 'other'"):
            await mcp.call_tool("other", {"message": "x"})


async def test_chunks_and_progress(desk_at: At, era: str) -> None:
    said: list[str | None] = []

    async def progress(_: float, __: float | None, text: str | None) -> None:
        said.append(text)

    desk, target = desk_at
    async with fronted(target) as url, client(url, era) as mcp:
        result = await mcp.call_tool(
            TOOL, {"message": "hello", "data": {"a": [1]}}, progress_callback=progress
        )
        assert (blocks(result, types.TextContent)[0].text, result.is_error) == ("hello!", False)
        assert said[:2] == ["looking", "hello"]
        assert [one.WhichOneof("content") for one in desk.parts] == ["text", "data"]
        direct = await mcp.call_tool(TOOL, {"message": "direct reply"})
        assert direct.content[0] == types.TextContent(text="reply")


async def test_files_and_data(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "files"})
    (link,), (image,) = blocks(result, types.ResourceLink), blocks(result, types.ImageContent)
    (embedded,) = blocks(result, types.EmbeddedResource)
    assert (link.uri, link.name, link.mime_type) == ("https://files.example/a%20b.csv", "a b.csv", "text/csv")
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", PNG)
    assert (embedded.resource.uri, base64.b64decode(embedded.resource.blob)) == (
        "attachment:a%20b.pdf",
        b"%PDF-",
    )
    assert result.structured_content is None  # many clients would give their model nothing else
    assert [one.text for one in blocks(result, types.TextContent)][:2] == ["here", '{"degrees": 21}']


async def test_data_alone_is_structured(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "data"})
    assert result.structured_content == {"degrees": 21}
    assert blocks(result, types.TextContent)[0].text == '{"degrees": 21}'


async def test_a_url_that_clients_cannot_read_is_text(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "relative"})
    assert not blocks(result, types.ResourceLink)
    assert text_of(result).startswith("see/files/a.csv")


async def test_arguments_of_other_programs(desk_at: At, era: str) -> None:
    """n8n sends an argument of its own; CrewAI and langflow send null for what their model left out."""
    desk, target = desk_at
    given = {"message": "hello", "data": None, "task": None, "conversation": None, "toolCallId": "7"}
    async with fronted(target) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, given)
    assert (blocks(result, types.TextContent)[0].text, result.is_error) == ("hello!", False)
    assert [one.WhichOneof("content") for one in desk.parts] == ["text"]


async def test_lists_of_what_there_is_none_of_are_empty(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        assert (await mcp.list_prompts()).prompts == []
        assert (await mcp.list_resources()).resources == []
        assert (await mcp.list_resource_templates()).resource_templates == []


async def test_a_client_that_fails_to_ask_gets_the_question(desk_at: At) -> None:
    async def fail(_: Any, __: types.ElicitRequestParams) -> types.ErrorData:
        return types.ErrorData(code=types.INVALID_REQUEST, message="there is no window to ask in")

    async with fronted(desk_at[1]) as url, client(url, "legacy", elicitation_callback=fail) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "ask red or blue?"})
        texts = [one.text for one in blocks(result, types.TextContent)]
        assert (texts[:2], result.is_error) == (["so far", "red or blue?"], False)
        done = await mcp.call_tool(TOOL, {"message": "red", "task": texts[2].rpartition("task=")[2]})
        assert blocks(done, types.TextContent)[0].text == "you said red"


def test_names_of_alike_skills_cost_what_they_are() -> None:
    """Also of names that differ only where a number goes."""
    for skills in (["skill"] * 3_000, [f"{'x' * 60}{number:04}" for number in range(1_500)] * 2):
        card = hub.AgentCard(name="a", skills=[hub.AgentSkill(id=one, name=one) for one in skills])
        with counted_lines() as lines:
            names = [one.name for one in mcp_front_module.tools_of(card)]
        assert len(set(names)) == len(skills) + 1
        assert max(map(len, names)) == 64 if len(skills[0]) == 64 else max(map(len, names)) < 64
        assert lines.count < 60 * len(skills)


async def test_tools_are_made_once_for_a_card(desk_at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def tools_of(card: hub.AgentCard) -> list[types.Tool]:
        made.append(card)
        return original(card)

    original = mcp_front_module.tools_of
    monkeypatch.setattr(mcp_front_module, "tools_of", tools_of)
    async with fronted(desk_at[1]) as url, client(url, "legacy") as mcp:
        for _ in range(3):
            await mcp.call_tool(TOOL, {"message": "hello"})
            await mcp.list_tools()
    assert len(made) == 1


async def test_a_question_by_elicitation(desk_at: At, era: str) -> None:
    asked: list[str] = []

    async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "the red one"})

    async with fronted(desk_at[1]) as url, client(url, era, elicitation_callback=answer) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "ask red or blue?"})
    assert asked == ["red or blue?"]
    # With what the agent had before it asked.
    assert text_of(result).startswith("so faryou said the red one")
    assert not result.is_error


async def test_a_refusal_cancels_the_task(desk_at: At, era: str) -> None:
    async def refuse(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with fronted(desk_at[1]) as url, client(url, era, elicitation_callback=refuse) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "ask"})
        assert (text_of(result), result.is_error) == (
            "the question of the agent was not answered; its task is cancelled",
            True,
        )


async def test_a_question_without_elicitation(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "ask red or blue?"})
        texts = [one.text for one in blocks(result, types.TextContent)]
        assert (texts[:2], result.is_error) == (["so far", "red or blue?"], False)
        task = texts[2].rpartition("task=")[2]
        assert result.meta is not None
        assert (result.meta[TASK_META], result.meta[STATE_META]) == (task, "input-required")
        again = await mcp.call_tool("task_status", {"task": task})
        assert f"task={task}" in text_of(again)
        done = await mcp.call_tool(TOOL, {"message": "red", "task": task})
        assert blocks(done, types.TextContent)[0].text == "you said red"
        status = await mcp.call_tool("task_status", {"task": task})
        assert text_of(status) == "so faryou said red"


async def test_an_agent_that_wants_a_login(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "auth"})
    assert "https://login.example" in text_of(result)
    assert result.meta is not None
    assert result.meta[STATE_META] == "auth-required"


async def test_a_call_that_takes_longer(desk_at: At, era: str) -> None:
    desk, target = desk_at
    async with fronted(target, wait=0.3) as url, client(url, era) as mcp:
        result = await mcp.call_tool(TOOL, {"message": "work"})
        assert result.meta is not None
        task = result.meta[TASK_META]
        assert result.meta[STATE_META] == "working"
        assert text_of(result).endswith(f"The task is still working. Call task_status with task={task}")
        unsaid = "has not said"  # on a busy machine the agent may not answer within the time of a call
        while unsaid in (still := text_of(await mcp.call_tool("task_status", {"task": task}))):
            pass
        assert "still working" in still
        desk.released.set()
        while unsaid in text_of(
            done := await mcp.call_tool("task_status", {"task": task})
        ) or "still working" in text_of(done):
            pass
        assert (text_of(done), done.is_error, desk.cancelled.is_set()) == ("worked", False, False)


class Silent:
    """An agent that does not say how its tasks go."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.stream = service.stream

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.operation is ops.GET_TASK:
            await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)
        return await self._service.unary(call)


async def test_an_agent_that_does_not_say_how_a_task_goes(era: str) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serve_agent(
            Agent(Desk(), name="desk"), [interface("GRPC")], ServeOptions(middleware=(Silent,), grace=0.1)
        ) as server,
        fronted(server.card, wait=0.3) as url,
        client(url, era) as mcp,
    ):
        working = await mcp.call_tool("desk", {"message": "work"})
        task = text_of(working).rpartition("task=")[2]
        result = await mcp.call_tool("task_status", {"task": task})
        text = f"The agent has not said how the task goes. Call task_status again with task={task}"
        assert (text_of(result), result.is_error) == (text, True)


async def test_a_cancelled_call_cancels_the_task(desk_at: At, era: str) -> None:
    desk, target = desk_at
    async with fronted(target) as url, client(url, era) as mcp:
        call = asyncio.create_task(mcp.call_tool(TOOL, {"message": "work"}))
        await desk.working.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await desk.cancelled.wait()


async def test_tasks_that_fail(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        for message, text in (("fail", "failed"), ("reject", "rejected")):
            result = await mcp.call_tool(TOOL, {"message": message})
            assert (text_of(result).startswith(text), result.is_error) == (True, True)
        crashed = await mcp.call_tool(TOOL, {"message": "crash"})
        assert crashed.is_error
        assert "secret" not in str(crashed)


WRONG = (
    ({}, "message: is missing"),
    ({"message": " "}, "message: is missing"),
    ({"message": None, "other": 1}, "message: is missing"),
    ({"message": 3}, "message: is text, not a number"),
    ({"message": "x", "data": "y"}, "data: is a JSON object, not a string"),
    ({"message": "x", "task": ["y"]}, "task: is text, not an array"),
    ({"message": "x", "conversation": "mine"}, "conversation: is none that a result has named"),
    ({"message": "x", "task": "unknown"}, "TASK_NOT_FOUND"),
)


async def test_wrong_arguments(desk_at: At, era: str) -> None:
    async with fronted(desk_at[1]) as url, client(url, era) as mcp:
        for arguments, text in WRONG:
            result = await mcp.call_tool(TOOL, arguments)
            assert (text in text_of(result), result.is_error) == (True, True), (arguments, text_of(result))
        for wrong, text in (({}, "task: is missing"), ({"task": 1}, "task: is text, not a number")):
            result = await mcp.call_tool("task_status", wrong)
            assert (text_of(result), result.is_error) == (text, True)


async def test_a_conversation_belongs_to_a_session_and_a_caller(desk_at: At) -> None:
    desk, target = desk_at
    async with (
        fronted(target, authenticate=authentication()) as url,
        client(url, "legacy", "key of ann") as ann,
        client(url, "legacy", "key of ann") as ann_again,
        client(url, "legacy", "key of bob") as bob,
    ):
        for mcp, count in ((ann, 1), (ann, 2), (ann_again, 1), (bob, 1), (ann, 3)):
            result = await mcp.call_tool(TOOL, {"message": "turn"})
            assert text_of(result) == f"turn {count}"
    assert sorted(desk.seen.values()) == [1, 1, 3]


async def test_a_named_conversation_belongs_to_its_caller(desk_at: At) -> None:
    desk, target = desk_at
    async with (
        fronted(target, authenticate=authentication()) as url,
        client(url, "2026-07-28", "key of ann") as ann,
        client(url, "2026-07-28", "key of bob") as bob,
    ):
        first = await ann.call_tool(TOOL, {"message": "turn"})
        name = text_of(first).rpartition("conversation=")[2]
        for mcp, count in ((ann, 2), (bob, 1), (ann, 3), (bob, 2)):
            result = await mcp.call_tool(TOOL, {"message": "turn", "conversation": name})
            assert text_of(result) == f"turn {count}"
        fresh = await ann.call_tool(TOOL, {"message": "turn"})
        assert text_of(fresh).startswith("turn 1")
    assert sorted(desk.seen.values()) == [1, 2, 3]


async def test_the_state_of_a_call_belongs_to_its_caller(desk_at: At) -> None:
    """Another caller who has got hold of it can neither answer the question nor see the answer."""
    desk, target = desk_at
    keys = {"ann": "key of ann", "bob": "key of bob"}
    for answering in ("ann", "bob"):
        async with (
            fronted(target, authenticate=authentication()) as url,
            create_mcp_http_client({"Authorization": f"Bearer {keys['ann']}"}) as http,
        ):

            async def answer(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
                http.headers["Authorization"] = f"Bearer {keys[answering]}"  # noqa: B023  it is called in the loop
                return types.ElicitResult(action="accept", content={"answer": "red"})

            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=ERAS[1], cache=None, elicitation_callback=answer) as mcp:
                asking = mcp.call_tool(TOOL, {"message": "ask"})
                if answering == "ann":
                    assert "you said red" in text_of(await asking)
                else:
                    with pytest.raises(MCPError, match=r"[Rr]equest.?[Ss]tate"):
                        await asking
    assert sorted(desk.seen.values()) == [1, 2]


async def test_a_task_belongs_to_its_caller(desk_at: At, era: str) -> None:
    async with (
        fronted(desk_at[1], authenticate=authentication()) as url,
        client(url, era, "key of ann") as ann,
        client(url, era, "key of bob") as bob,
    ):
        asking = await ann.call_tool(TOOL, {"message": "ask"})
        assert asking.meta is not None
        task = asking.meta[TASK_META]
        for name, arguments in ((TOOL, {"message": "mine", "task": task}), ("task_status", {"task": task})):
            stolen = await bob.call_tool(name, arguments)
            assert (text_of(stolen), stolen.is_error) == ("TASK_NOT_FOUND: Task not found", True)
        done = await ann.call_tool(TOOL, {"message": "mine", "task": task})
        assert text_of(done).startswith("you said mine")


async def test_credentials_of_callers_stay_here(desk_at: At, era: str) -> None:
    desk, target = desk_at
    async with fronted(target, authenticate=authentication()) as url:
        async with client(url, era, "key of ann") as ann:
            await ann.call_tool(TOOL, {"message": "x"})
        sent = [value for parameters in desk.parameters for value in parameters.values()]
        assert sent
        assert not [value for value in sent if "key of ann" in value]


async def test_callers_that_are_not_known(desk_at: At) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with (
        fronted(desk_at[1], authenticate=authentication()) as url,
        create_mcp_http_client(ACCEPT) as http,
    ):
        for key in ({}, {"Authorization": "Bearer wrong"}):
            response = await http.post(f"{url}/mcp", json=body, headers=key)
            assert (response.status_code, response.headers["www-authenticate"]) == (
                401,
                'Bearer realm="test"',
            )
            assert response.json()["error"]["message"] == "Authentication is required"


async def test_a_session_belongs_to_its_caller(desk_at: At) -> None:
    headers = {**ACCEPT, "Authorization": "Bearer key of ann"}
    async with (
        fronted(desk_at[1], authenticate=authentication()) as url,
        create_mcp_http_client(headers) as http,
    ):
        opened = await http.post(f"{url}/mcp", json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        stolen = await http.post(
            f"{url}/mcp", json=listing, headers=session | {"Authorization": "Bearer key of bob"}
        )
        assert stolen.status_code == 404
        own = await http.post(f"{url}/mcp", json=listing, headers=session)
        assert own.status_code == 200


async def test_hosts_that_are_not_allowed(desk_at: At) -> None:
    async with fronted(desk_at[1], allowed_hosts=("127.0.0.1:*",)) as url, create_mcp_http_client() as http:
        response = await http.post(f"{url}/mcp", json={}, headers={"Host": "evil.example"})
        assert response.status_code == 421
        assert (await http.get(f"{url}/other")).status_code == 404


async def test_half_of_a_surrogate_pair_is_an_argument_that_is_wrong() -> None:
    """Clients cannot send it, but whoever writes JSON can."""
    headers = {**ACCEPT, "Content-Type": "application/json"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    async with (
        asyncio.timeout(PATIENCE),
        serving(Desk(), *FORMS[0]) as card,
        fronted(card) as url,
        create_mcp_http_client(headers) as http,
    ):
        for name, arguments in (
            (TOOL, {"message": "\ud800"}),
            (TOOL, {"message": "x", "task": "\ud800"}),
            (TOOL, {"message": "x", "data": {"\ud800": 1}}),
            ("task_status", {"task": "\ud800"}),
        ):
            params = {"name": name, "arguments": arguments, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            response = await http.post(
                f"{url}/mcp", content=json.dumps(body), headers=modern | {"Mcp-Name": name}
            )
            found = response.json()
            # The transport rejects it, or the front names the argument.
            assert "error" in found or found["result"]["isError"], found
            assert response.status_code < 500, response.text


async def test_calls_of_one_session_at_once(desk_at: At, era: str) -> None:
    _, target = desk_at
    async with fronted(target) as url, client(url, era) as mcp:
        results = await asyncio.gather(*(mcp.call_tool(TOOL, {"message": f"m{n}"}) for n in range(20)))
    assert [text_of(one).split("!")[0] for one in results] == [f"m{n}" for n in range(20)]


async def test_an_agent_in_the_same_process_and_a_peer(era: str) -> None:
    async with asyncio.timeout(PATIENCE):
        for give in ("agent", "peer"):
            agent = Agent(Desk(), name="the desk", description="d")
            async with AsyncExitStack() as stack:
                target = agent if give == "agent" else await stack.enter_async_context(connect(agent))
                url = await stack.enter_async_context(fronted(target))
                mcp = await stack.enter_async_context(client(url, era))
                assert [one.name for one in (await mcp.list_tools()).tools] == ["the_desk", "task_status"]
                assert text_of(await mcp.call_tool("the_desk", {"message": "hi"})).startswith("hi!")


async def test_an_agent_that_does_not_stream(era: str) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), serving(desk, *FORMS[1], streaming=False) as card:
        assert not card.capabilities.streaming
        async with fronted(card, wait=0.5) as url, client(url, era) as mcp:
            assert text_of(await mcp.call_tool(TOOL, {"message": "hello"})).startswith("hello!")
            working = await mcp.call_tool(TOOL, {"message": "work"})
            assert "task_status with task=" in text_of(working)
            assert not desk.cancelled.is_set()
            desk.released.set()
            task = text_of(working).rpartition("task=")[2]
            while "still" in text_of(done := await mcp.call_tool("task_status", {"task": task})):
                pass
            assert text_of(done) == "worked"


async def test_an_agent_that_names_its_task_late_is_waited_for(era: str) -> None:
    slow = SlowAgent()
    async with (
        asyncio.timeout(PATIENCE),
        serve_agent(slow, [interface("GRPC")]) as server,
        fronted(server.card, wait=0) as url,
        client(url, era) as mcp,
    ):
        call = asyncio.create_task(mcp.call_tool("slow", {"message": "hello"}))
        await slow.wait_running(1)
        slow.release()
        assert text_of(await call).startswith("hello")


async def test_an_answer_that_is_too_large(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "LARGEST", 10_000)
    async with (
        asyncio.timeout(PATIENCE),
        serve_agent(ScriptedAgent(), [interface("GRPC")]) as server,
        fronted(server.card) as url,
        client(url, era) as mcp,
    ):
        for message in ("chunks 1000", "big 20000"):
            result = await mcp.call_tool("scripted", {"message": message})
            assert (text_of(result), result.is_error) == (
                "INVALID_AGENT_RESPONSE: the answer is larger than 10000 bytes",
                True,
            )
        assert text_of(await mcp.call_tool("scripted", {"message": "task small"})).startswith("small")


async def test_a_server_that_stops_ends_its_calls_without_tracebacks(
    desk_at: At, caplog: pytest.LogCaptureFixture
) -> None:
    desk, target = desk_at
    app = mcp_front(target)
    async with AsyncExitStack() as stack, create_mcp_http_client() as http:
        url = await stack.enter_async_context(listening(app))
        opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT)
        head = {**ACCEPT, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        call = {"name": TOOL, "arguments": {"message": "work"}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        calling = asyncio.create_task(http.post(f"{url}/mcp", json=body, headers=head))
        await desk.working.wait()
        await stack.aclose()
        assert isinstance((await asyncio.gather(calling, return_exceptions=True))[0], Exception)
        await app.close()
    await desk.cancelled.wait()
    assert not [one for one in caplog.records if one.exc_info and one.exc_info[0] is asyncio.CancelledError]
