"""Webhooks get the form of their version: hosted and bridged agents, receivers and agents of 1.0 and 0.3."""

from typing import Any

import pytest

from a2a_bridge.push.secrets import MASK
from a2a_bridge.testing.each import each
from tests.agents import ScriptedAgent
from tests.push.delivery_scene import Posted, Receiver, receiving
from tests.push.version_scene import Front, bridged, hosted

WORD = {"0.3": "completed", "1.0": "TASK_STATE_COMPLETED"}


async def paused(front: Front, version: str, inline: Any = None) -> Any:
    """A task that waits for an answer; registered within its first message if `inline`."""
    return await said(front, version, "input what?", inline=inline)


async def said(front: Front, version: str, text: str, inline: Any = None, **members: Any) -> Any:
    message: dict[str, Any] = {"messageId": text, **members}
    params: dict[str, Any] = {"message": message}
    if version == "0.3":
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        if inline is not None:
            params["configuration"] = {
                "pushNotificationConfig": inline,
                "acceptedOutputModes": ["text/plain"],
            }
        return await front.call("message/send", params)
    message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
    if inline is not None:
        params["configuration"] = {"taskPushNotificationConfig": inline}
    return (await front.call("SendMessage", params, "1.0"))["task"]


def hook(receiver: Receiver, version: str) -> Any:
    login: Any = {"schemes": ["Bearer"], "credentials": "secret"}
    if version == "1.0":
        login = {"scheme": "Bearer", "credentials": "secret"}
    return {"url": receiver.url, "token": "theirs", "authentication": login}


def shown(config: Any) -> Any:
    """A config in the form of answers."""
    return config | {"authentication": config["authentication"] | {"credentials": MASK}}


async def register(front: Front, version: str, task_id: str, config: Any) -> Any:
    if version == "0.3":
        params = {"taskId": task_id, "pushNotificationConfig": config}
        return await front.call("tasks/pushNotificationConfig/set", params)
    return await front.call("CreateTaskPushNotificationConfig", {"taskId": task_id, **config}, "1.0")


def check(posted: list[Posted], version: str) -> None:
    """The content for a receiver of a version, with all events of the task."""
    for one in posted:
        assert one.headers["x-a2a-notification-token"] == "theirs"
        assert one.headers["authorization"] == "Bearer secret"
    media_type = "application/a2a+json" if version == "1.0" else "application/json"
    assert {one.headers["content-type"] for one in posted} == {media_type}
    if version == "0.3":
        assert {one.tree["kind"] for one in posted} == {"task"}
        last = posted[-1].tree
        assert last["status"]["state"] == "completed"
        assert last["artifacts"][0]["parts"][0]["kind"] == "text"
    else:
        assert {next(iter(one.tree)) for one in posted} <= {"task", "statusUpdate", "artifactUpdate"}


async def finished(receiver: Receiver, version: str) -> list[Posted]:
    """All notifications, once the end of the task is among them."""
    count = 1
    while True:
        posted = await receiver.arrived(count)
        if any(WORD[version] in one.body.decode() for one in posted):
            return posted
        count = len(posted) + 1


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("inline", [False, True])
async def test_a_hosted_agent(version: str, inline: bool) -> None:
    async with receiving() as receiver, hosted(ScriptedAgent()) as front:
        config = hook(receiver, version)
        task = await paused(front, version, config if inline else None)
        if not inline:
            await register(front, version, task["id"], config)
        await said(front, version, "go on", taskId=task["id"])
        check(await finished(receiver, version), version)


@each("inline", [False, True])
@each("upstream", ["1.0", "0.3"])
@each("version", ["1.0", "0.3"])
async def test_a_bridged_agent(version: str, upstream: str, inline: bool) -> None:
    async with (
        receiving() as receiver,
        hosted(ScriptedAgent()) as agent,
        bridged(agent.candidate(upstream), relayed=True) as front,
    ):
        config = hook(receiver, version)
        task = await paused(front, version, config if inline else None)
        if not inline:
            made = await register(front, version, task["id"], config)
            inner = made["pushNotificationConfig"] if version == "0.3" else made
            assert {name: inner[name] for name in config} == shown(config)
        await said(front, version, "go on", taskId=task["id"])
        check(await finished(receiver, version), version)


async def test_receivers_of_both_versions_on_one_task() -> None:
    async with receiving() as old, receiving() as new, hosted(ScriptedAgent()) as front:
        task = await paused(front, "0.3")
        await register(front, "0.3", task["id"], hook(old, "0.3"))
        await register(front, "1.0", task["id"], hook(new, "1.0"))
        await said(front, "1.0", "go on", taskId=task["id"])
        check(await finished(old, "0.3"), "0.3")
        check(await finished(new, "1.0"), "1.0")


@pytest.mark.parametrize("upstream", [None, "1.0", "0.3"])
async def test_config_content_of_0_3_that_1_0_lacks_comes_back(upstream: str | None) -> None:
    async with receiving() as receiver, hosted(ScriptedAgent()) as agent:
        config = hook(receiver, "0.3") | {"x-own": [1.0]}
        config["authentication"]["schemes"] = ["Digest", "Bearer", "Basic"]
        if upstream is None:
            await check_config(agent, config)
        else:
            async with bridged(agent.candidate(upstream), relayed=True) as front:
                await check_config(front, config)
            async with bridged(agent.candidate(upstream)) as front:
                await check_config(front, config)


async def check_config(front: Front, config: Any) -> None:
    task = await paused(front, "0.3")
    made = await register(front, "0.3", task["id"], config)
    config_id = made["pushNotificationConfig"].pop("id")
    config = shown(config)
    expected = {"taskId": task["id"], "pushNotificationConfig": config}
    assert made == expected
    expected["pushNotificationConfig"] = config | {"id": config_id}
    asked = {"id": task["id"], "pushNotificationConfigId": config_id}
    assert await front.call("tasks/pushNotificationConfig/get", asked) == expected
    assert await front.call("tasks/pushNotificationConfig/get", {"id": task["id"]}) == expected
    assert await front.call("tasks/pushNotificationConfig/list", {"id": task["id"]}) == [expected]
    assert await front.call("tasks/pushNotificationConfig/delete", asked) is None
    assert await front.call("tasks/pushNotificationConfig/list", {"id": task["id"]}) == []
