"""Names that look like known ones reach no agent: pydantic reads `task_id`, Go reads `TaskID`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.cards import interface
from a2a_bridge.codec import Json, decoder, encoder, loads
from a2a_bridge.dialects.v0_3.requests import SEND
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import gateway_before
from tests.patience import PATIENCE

SPELLED = ("task_id", "TaskId", "TASKID", "task-id", "ta\u017fkId")
STATES = {"0.3": "completed", "1.0": "TASK_STATE_COMPLETED"}
METHODS = {"0.3": ("message/send", "tasks/get"), "1.0": ("SendMessage", "GetTask")}


class Gateway:
    """A gateway that checks its caller, before an agent of plain JSON with one task of hers."""

    def __init__(self, session: aiohttp.ClientSession, version: str) -> None:
        self._session, self._version = session, version
        self.url = ""
        self.asked: list[Any] = []

    async def handle(self, request: web.Request) -> web.Response:
        """A call of the agent."""
        frame: Any = loads(await request.read())
        self.asked.append(frame["params"])
        task: Any = {"id": "own", "contextId": "c", "status": {"state": STATES[self._version]}}
        if self._version == "0.3":
            task["kind"] = "task"
        result = {"task": task} if frame["method"] == "SendMessage" else task
        return web.json_response({"jsonrpc": "2.0", "id": frame["id"], "result": result})

    async def call(self, version: str, which: int, params: Json) -> Any:
        """The response frame for a call of a version: 0 sends a message, 1 gets a task."""
        frame = {"jsonrpc": "2.0", "id": 1, "method": METHODS[version][which], "params": params}
        async with self._session.post(self.url, json=frame, headers={"A2A-Version": version}) as response:
            return loads(await response.read())


@asynccontextmanager
async def gateway(folder: Path, version: str) -> AsyncIterator[Gateway]:
    file = KeyFile(folder / "keys.json")
    limit, key = aiohttp.ClientTimeout(total=PATIENCE), {"X-API-Key": file.create("ann").text}
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]), grace=0)
    offered = [interface("JSONRPC", version=one) for one in METHODS]
    async with aiohttp.ClientSession(timeout=limit, headers=key) as session:
        found = Gateway(session, version)
        async with gateway_before(found.handle, version, offered, options=options) as server:
            found.url = server.card.supported_interfaces[0].url
            yield found


def message(version: str, **members: Json) -> Any:
    made: Any = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    if version == "0.3":
        made = {
            "kind": "message",
            "messageId": "m",
            "role": "user",
            "parts": [{"kind": "text", "text": "hi"}],
        }
    return {"message": {**made, **members}}


def texts(tree: Json) -> str:
    """All of a request that the agent has got, without what travels for other bridges."""
    if isinstance(tree, dict):
        return " ".join(
            f"{name} {texts(value)}" for name, value in tree.items() if not name.startswith("urn:")
        )
    return " ".join(map(texts, tree)) if isinstance(tree, list) else str(tree)


@pytest.mark.parametrize("agent", METHODS)
@pytest.mark.parametrize("caller", METHODS)
async def test_a_message_does_not_name_the_task_of_somebody_else(
    tmp_path: Path, caller: str, agent: str
) -> None:
    async with gateway(tmp_path, agent) as there:
        for spelled in SPELLED:
            answer = await there.call(caller, 0, message(caller, **{spelled: "foreign"}))
            if "error" in answer:  # it has been read as the member that it looks like
                assert answer["error"]["code"] == -32001
            assert all("foreign" not in texts(asked) for asked in there.asked), spelled
        params = message(caller)
        await there.call(caller, 0, {**params, "Message": {**params["message"], "taskId": "foreign"}})
        assert all("foreign" not in texts(asked) for asked in there.asked)


@pytest.mark.parametrize("agent", METHODS)
@pytest.mark.parametrize("caller", METHODS)
async def test_a_second_spelling_does_not_outweigh_the_first(tmp_path: Path, caller: str, agent: str) -> None:
    async with gateway(tmp_path, agent) as there:
        assert "result" in await there.call(caller, 0, message(caller))
        for spelled in ("ID", "Id", "i_d"):
            assert "result" in await there.call(caller, 1, {"id": "own", spelled: "foreign"})
            assert "result" in await there.call(caller, 1, {spelled: "foreign", "id": "own"})
        assert len(there.asked) == 7
        assert all("foreign" not in texts(asked) for asked in there.asked)


def test_other_unknown_members_are_kept() -> None:
    tree = message("0.3", task_id="t", later={"task_id": 1}, metadata={"taskId": 1, "task_id": 2})
    tree["configuration"] = {"blocking": True, "history_length": 3, "later": 4}
    made = SEND.decode(tree)
    assert (made.message.task_id, made.configuration.history_length) == ("t", 3)
    shown: Any = SEND.encode(made)
    assert (shown["message"]["taskId"], shown["message"]["later"]) == ("t", {"task_id": 1})
    assert shown["message"]["metadata"] == {"taskId": 1, "task_id": 2}
    assert shown["configuration"] == {"blocking": True, "historyLength": 3, "later": 4}


def test_one_of_several_spellings_is_taken() -> None:
    made = SEND.decode(message("0.3", taskId="t", **dict.fromkeys(SPELLED, "other")))
    assert made.message.task_id == "t"
    assert "other" not in texts(SEND.encode(made))


def test_1_0_keeps_unknown_members_of_other_names_only() -> None:
    kept = decoder(hub.GetTaskRequest)({"id": "own", "Id": "other", "later": 1})
    assert encoder(hub.GetTaskRequest)(kept).keys() <= {"id", "later"}
