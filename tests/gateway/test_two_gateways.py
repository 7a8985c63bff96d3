"""Raw JSON of 0.3 comes out of two gateways as it went in, with any version in between."""

import json
from typing import Any

import pytest

from a2a_bridge.codec import dumps, loads_exact
from tests.gateway.raw_echo import Side, chained
from tests.identity import says

OLD_SIDES: list[Side] = [("0.3", "GRPC"), ("0.3", "HTTP+JSON"), ("0.2.5", "HTTP+JSON"), ("0.2.5", "JSONRPC")]
NEW_SIDES: list[Side] = [("1.0", "JSONRPC"), ("1.0", "HTTP+JSON"), ("1.0", "GRPC")]

between = pytest.mark.parametrize("side", NEW_SIDES + OLD_SIDES, ids=" ".join)


def message(members: str = "", parts: str = '[{"kind":"text","text":"hi"}]') -> str:
    """Params with further members of the message, as JSON text."""
    return f'{{"message":{{"kind":"message","messageId":"m","role":"user","parts":{parts}{members}}}}}'


def params(members: str) -> str:
    """Params with further members of their own."""
    return message()[:-1] + "," + members + "}"


def deep(levels: int) -> str:
    return '{"d":' * levels + "1.0" + "}" * levels


def configured(members: str) -> str:
    return params(f'"configuration":{{{members}}}')


def pushed(members: str) -> str:
    return configured(f'"pushNotificationConfig":{{"url":"http://u",{members}}}')


FILES = [
    "aGk", "aGk=", "-_8=", "-_8", "aGk=\n", "aGl=", "", "ab", "aGkK\r\naGkK\r\n", " aGk= ",
]  # fmt: skip

ODDITIES = {
    "numbers": message(
        ',"metadata":{"n":9007199254740993,"i":123456789012345678901234567890,"f":1.0,"e":1e0,"z":-0.0,"d":0.1234567890123456789,"E":1E+2,"m":9007199254740992,"mm":-9007199254740991}'
    ),
    "numbers in data": message(parts='[{"kind":"data","data":{"n":9007199254740993,"a":[1,1.0,1e2,[],{}]}}]'),
    "the flag of an SDK": message(
        parts='[{"kind":"data","data":{"value":{"k":1}},"metadata":{"data_part_compat":true}},'
        '{"kind":"data","data":{"z":1},"metadata":{"data_part_compat":true}}]'
    ),
    "empty metadata": message(',"metadata":{}', '[{"kind":"text","text":"","metadata":{}}]'),
    "empty members": message(',"contextId":"","taskId":"","extensions":[],"referenceTaskIds":[]'),
    "base64": message(parts=json.dumps([{"kind": "file", "file": {"bytes": text}} for text in FILES])),
    "files": message(
        parts='[{"kind":"file","file":{"uri":"","bytes":"aGk=","name":"","mimeType":"","x":null}},'
        '{"kind":"file","file":{}},{"kind":"file","file":{"uri":""}},{"kind":"file","file":{"bytes":"","uri":""}},'
        '{"kind":"file","file":{"name":"n"},"a":[1.0]}]'
    ),
    "nulls": message(
        ',"contextId":null,"taskId":null,"extensions":null,"referenceTaskIds":null,"metadata":null',
        '[{"kind":"text","text":"x","metadata":null},{"kind":"file","file":{"uri":"x","name":null,"bytes":null}}]',
    ),
    "unknown members": message(
        ',"x":{"a":1.0},"":[],"a.b":null,"a/b":1,"~0":2,"mediaType":"q","filename":1',
        '[{"kind":"text","text":"x","mediaType":"text/markdown","raw":1,"url":2,"data":3,"file":4}]',
    ),
    "unknown members of params": params('"y":{"z":[1.0]},"tenant":"t","request":1,"returnImmediately":true'),
    "deep unknown members": message(f',"x":{deep(80)}'),
    "deep metadata": message(f',"metadata":{deep(30)}'),
    "deep lists": message(',"metadata":{"a":' + "[" * 43 + "]" * 43 + "}"),
    "deep data": message(parts=f'[{{"kind":"data","data":{deep(30)}}}]'),
    "controls": message(parts='[{"kind":"text","text":"\\u0000\\u001f\\u2028\\uffff"}]'),
    "odd ids": message(',"taskId":"ü/%2F","contextId":".."'),
    "data that is no object": message(
        parts='[{"kind":"data","data":[1,2.0,{"a":null}]},{"kind":"data","data":"s"},{"kind":"data","data":null}]'
    ),
    "no kinds": '{"message":{"messageId":"m","role":"user","parts":[{"text":"x"},{"type":"text","text":"y"}]}}',
    "several contents": message(parts='[{"kind":"text","text":"x","data":{"a":1.0},"file":{"bytes":"aGk"}}]'),
    "repetitions": message(',"extensions":["a","","a"],"referenceTaskIds":["","x","x"]'),
    "half a thousand odd parts": message(
        parts=json.dumps([{"kind": "data", "data": {"i": number}, "x": number} for number in range(500)])
    ),
    "waiting said": configured('"blocking":true,"acceptedOutputModes":[],"z":1.0'),
    "a long history": configured('"blocking":false,"acceptedOutputModes":["a"],"historyLength":3000000000'),
    "a negative history": configured('"historyLength":-1'),
    "a float for a history": configured('"historyLength":5.0'),
    "nulls in a configuration": configured('"blocking":null,"acceptedOutputModes":null,"historyLength":null'),
    "members of 1.0": configured('"returnImmediately":true,"taskPushNotificationConfig":{"url":"u"}'),
    "no configuration": params('"configuration":null,"metadata":null'),
    "metadata of params": params('"metadata":{"a":1.0,"b":null,"c":[]}'),
    "several schemes": pushed(
        '"id":"","token":"","authentication":{"schemes":["Digest","Bearer"],"credentials":"","z":1.0},"q":null'
    ),
    "no scheme": pushed('"authentication":{"schemes":[]}'),
    "no authentication": pushed('"id":"a/b%","authentication":null'),
}


#: 0.2.5 requires `acceptedOutputModes`: absent, an empty list and null are equal there
SAME_IN_0_2_5 = {"waiting said", "nulls in a configuration"}


def oddities(side: Side) -> dict[str, str]:
    alike = SAME_IN_0_2_5 if side == ("0.2.5", "JSONRPC") else set()
    return {name: text for name, text in ODDITIES.items() if name not in alike}


def expected(side: Side, text: str) -> Any:
    """The expected output: the input; `acceptedOutputModes` in each configuration; after a side of 1.0 the
    defaults of 1.0 written out; and after a2a.v1 no empty metadata of parts.
    """
    given: Any = loads_exact(text)
    for part in given["message"]["parts"]:
        if side in OLD_SIDES and side[1] != "JSONRPC" and part.get("metadata") == {}:
            del part["metadata"]
    if side in NEW_SIDES:
        said = given.get("configuration") or {}
        given["configuration"] = {"acceptedOutputModes": [], "blocking": True, **said}
    elif given.get("configuration"):
        given["configuration"] = {"acceptedOutputModes": [], **given["configuration"]}
    return given


@between
async def test_all_that_is_sent_arrives_and_comes_back(side: Side) -> None:
    wrong = []
    async with chained(side) as (client, agent):
        for name, text in oddities(side).items():
            agent.asked.clear()
            result = await client.call("message/send", text)
            [asked] = agent.asked
            if not says(asked, expected(side, text)):
                wrong.append(f"{name}: {text} arrived as {dumps(asked)!r}")
            shown = agent.answer("message/send", asked)
            if not says(result, shown):
                wrong.append(f"{name}: {dumps(shown)!r} came back as {dumps(result)!r}")
    assert not wrong, "\n".join(wrong)


@between
async def test_all_that_is_streamed_comes_back(side: Side) -> None:
    wrong = []
    async with chained(side) as (client, agent):
        for name, text in oddities(side).items():
            events = await client.call("message/stream", text)
            asked = agent.asked[-1]
            shown = agent.answer("message/stream", asked)
            if not (says(asked, expected(side, text)) and says(events, shown)):
                wrong.append(f"{name}: {dumps(shown)!r} came back as {dumps(events)!r}")
    assert not wrong, "\n".join(wrong)


STATUSES = [
    {"state": "working", "timestamp": time}
    for time in (
        "2025-04-17T17:47:09.680794", "2025-04-17T17:47:09+02:00", "2025-04-17T17:47:09.1Z", "2025-04-17T17:47:09.000Z",
        "", "2025-04-17", "2025-04-17T24:00:00Z", "2025-12-31T23:59:60Z", "2025-04-17t17:47:09z", "not a date",
        "2025-04-17T17:47:09.1234567891Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", "1969-01-01T00:00:00.5Z",
    )
]  # fmt: skip


@between
async def test_events_equal_those_of_the_agent(side: Side) -> None:
    place: dict[str, Any] = {"taskId": "t", "contextId": "c"}
    events: list[Any] = [
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "zz": None, "history": []},
        *({"kind": "status-update", **place, "status": status, "final": False} for status in STATUSES),
        {"kind": "artifact-update", **place, "append": True, "artifact": {"artifactId": "a", "parts": [], "name": ""}},
        {"kind": "status-update", **place, "status": {"state": "input-required"}, "final": False, "metadata": {}},
        {"kind": "status-update", **place, "status": {"state": "auth-required"}, "final": True},
    ]  # fmt: skip
    async with chained(side) as (client, agent):
        agent.answer = lambda _method, _params: events
        got = await client.call("message/stream", message())
    assert says(got, events)


IDS = ["a/b", "a%2Fb", "ü", ".", "..", "a b", "a:b", "a?b", "a#b", ":cancel", "%", "+", "tasks/x"]


@between
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
async def test_any_id_arrives(side: Side, method: str) -> None:
    async with chained(side) as (client, agent):
        for name in IDS:
            assert (await client.call(method, dumps({"id": name}).decode()))["id"] == name
            assert agent.asked[-1] == {"id": name}


@pytest.mark.parametrize("side", NEW_SIDES, ids=" ".join)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
async def test_content_beside_a_request_for_a_task_arrives(side: Side, method: str) -> None:
    text = '{"id":"t","metadata":{"q":1.0,"n":null},"zz":[9007199254740993]}'
    async with chained(side) as (client, agent):
        await client.call(method, text)
    assert says(agent.asked[-1], loads_exact(text))


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ('"blocking":false', {"acceptedOutputModes": [], "blocking": False}),
        ('"historyLength":2', {"acceptedOutputModes": [], "historyLength": 2, "blocking": True}),
        ('"acceptedOutputModes":["a/b"]', {"acceptedOutputModes": ["a/b"], "blocking": True}),
        ("", None),
    ],
)
async def test_a_configuration_of_a_caller_of_0_3_lists_media_types(told: str, heard: Any) -> None:
    async with chained(("0.3", "JSONRPC"), agent=("0.3", "JSONRPC")) as (client, agent):
        await client.call("message/send", configured(told) if told else message())
        assert agent.asked[-1].get("configuration") == heard


@pytest.mark.parametrize("version", ["0.3", "0.2.5"])
async def test_agents_of_0_x_get_blocking_by_default_of_1_0(version: str) -> None:
    async with chained(("1.0", "GRPC"), agent=(version, "JSONRPC")) as (client, agent):
        for told, heard in (
            ("", {"acceptedOutputModes": [], "blocking": True}),
            ('"blocking":false', {"acceptedOutputModes": [], "blocking": False}),
            ('"acceptedOutputModes":["a/b"]', {"acceptedOutputModes": ["a/b"], "blocking": True}),
        ):
            await client.call("message/send", configured(told) if told else message())
            assert agent.asked[-1]["configuration"] == heard
