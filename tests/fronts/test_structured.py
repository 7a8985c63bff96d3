"""Structured output of OpenAI's API, and the table of its parameters."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import reduce
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator
from jsonschema import SchemaError as Invalid
from openai import AsyncOpenAI
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel

from a2a_bridge import Run
from a2a_bridge.core.messages import data_part, text_part
from a2a_bridge.hosting import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.fronts.openai_parameters import PARAMETERS, Api, Use
from a2a_bridge_adapters.fronts.structured import SchemaError, Structure, UnfitError, validator_of
from tests.fronts.desk import FORMS, Desk, serving
from tests.fronts.test_openai import chat, client, fronted, user
from tests.patience import PATIENCE


class Weather(BaseModel):
    city: str
    degrees: float


OSLO = {"city": "Oslo", "degrees": 21}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "weather", "schema": Weather.model_json_schema()}}
NONE = "it has neither data nor text that is JSON"


class Speaker(Desk):
    """Answers with the parts in its message, as JSON: texts, and objects as data. `ask`: as a desk."""

    def __init__(self) -> None:
        super().__init__()
        self.spoken: Counter[str] = Counter()

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        if run.task is not None or run.text.startswith("ask"):
            async for event in super().execute(run):
                yield event
            return
        self.spoken[run.context_id] += 1
        yield run.start()
        for number, one in enumerate(json.loads(run.text)):
            part = text_part(one) if isinstance(one, str) else data_part(one)
            yield run.artifact([part], artifact_id=f"a{number}")
        yield run.status("failed" if "fails" in run.text else "completed")


@asynccontextmanager
async def speaking() -> AsyncIterator[tuple[Speaker, AsyncOpenAI]]:
    desk = Speaker()
    async with (
        asyncio.timeout(PATIENCE),
        serving(desk, *FORMS[0]) as card,
        fronted(card) as url,
        client(url) as api,
    ):
        yield desk, api


async def answers(api: AsyncOpenAI, text: str, form: Any) -> list[str]:
    """The text, or the message of the error, of each way to ask."""
    asked: list[Any] = [user(text)]
    flat = {**form, **form.get("json_schema", {})}
    flat.pop("json_schema", None)
    found = []
    for call in (
        lambda: chat(api, asked, response_format=form),
        lambda: _streamed(api, asked, form),
        lambda: api.responses.create(model="desk", input=text, text={"format": flat}),
        lambda: _streamed_response(api, text, flat),
    ):
        try:
            answer: Any = await call()
        except openai.APIStatusError as error:
            found.append(_fault(error))
        else:
            found.append(answer if isinstance(answer, str) else answer.output_text)
    return found


def _fault(error: openai.APIStatusError) -> str:
    assert (error.status_code, error.code) == (502, "output_not_structured")
    assert error.response.headers["x-should-retry"] == "false"
    body: Any = error.body
    return str(body["message"].partition(": ")[2])


async def _streamed(api: AsyncOpenAI, asked: Any, form: Any) -> str:
    stream = await api.chat.completions.create(
        model="desk", messages=asked, response_format=form, stream=True
    )
    return "".join([one.choices[0].delta.content or "" async for one in stream])


async def _streamed_response(api: AsyncOpenAI, text: str, form: Any) -> str:
    events = await api.responses.create(model="desk", input=text, text={"format": form}, stream=True)
    return "".join([one.delta async for one in events if one.type == "response.output_text.delta"])


@each(
    "said,form,wanted",
    [
        ([OSLO], SCHEMA, OSLO),
        (["about Oslo", {"city": "Oslo"}, OSLO, "done"], SCHEMA, OSLO),
        (['{"city": "Oslo", ', '"degrees": 21}'], SCHEMA, OSLO),
        (['```json\n{"city": "Oslo", "degrees": 21}\n```\n'], SCHEMA, OSLO),
        ([{"a": []}], {"type": "json_object"}, {"a": []}),
        (["21 degrees"], SCHEMA, NONE),
        (["21 degrees"], {"type": "json_object"}, NONE),
        (["[1]"], {"type": "json_object"}, "it is no JSON object"),
        ([{"city": "Oslo"}], SCHEMA, "$: 'degrees' is a required property"),
        ([{"city": "Oslo", "degrees": "x" * 99}], SCHEMA, "$.degrees: this text is not of type 'number'"),
    ],
)
async def test_structured_output(said: Any, form: Any, wanted: Any) -> None:
    async with speaking() as (_, api):
        found = await answers(api, json.dumps(said), form)
    assert [json.loads(one) if isinstance(wanted, dict) else one for one in found] == [wanted] * 4


async def test_the_official_client_reads_its_models() -> None:
    async with speaking() as (_, api):
        text = json.dumps([OSLO])
        parsed = await api.chat.completions.parse(
            model="desk", messages=[{"role": "user", "content": text}], response_format=Weather
        )
        assert parsed.choices[0].message.parsed == Weather(city="Oslo", degrees=21)
        response = await api.responses.parse(model="desk", input=text, text_format=Weather)
        assert response.output_parsed == Weather(city="Oslo", degrees=21)
        assert response.text is not None
        assert response.text.format is not None
        assert response.text.format.type == "json_schema"


async def test_a_task_that_fails_says_what_it_has_said() -> None:
    async with speaking() as (_, api):
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="it fails"):
                await chat(api, '["it fails"]', response_format=SCHEMA, stream=stream)


async def test_a_question_is_not_structured() -> None:
    async with speaking() as (desk, api):
        assert await answers(api, "ask which?", SCHEMA) == ["the agent asks: which?"] * 4
        assert sorted(desk.seen.values()) == [1] * 4
        header = {"X-A2A-Conversation": "mine"}
        with pytest.raises(openai.InternalServerError, match="which one"):
            await chat(api, "ask", response_format=SCHEMA, extra_headers=header)
        assert await chat(api, "red", extra_headers=header) == "you said red"


async def test_a_chat_goes_on_after_an_answer_that_does_not_fit() -> None:
    async with speaking() as (desk, api):
        first = await chat(api, '["x"]')
        so_far = [user('["x"]'), {"role": "assistant", "content": first}, user("[]")]
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match="neither data nor text"):
                await chat(api, so_far, response_format=SCHEMA)
    assert sorted(desk.spoken.values()) == [3]


DEEP: Any = reduce(lambda inner, _: {"not": inner}, range(800), {})
#: what of a schema is wrong
WRONG_SCHEMAS = (
    (3, "#: is an object"),
    ({"type": "text"}, "#/type"),
    ({"type": ["string", 3]}, "#/type"),
    ({"properties": []}, "#/properties"),
    ({"properties": {"a/b": 3}}, "#/properties/a~1b"),
    ({"anyOf": []}, "#/anyOf"),
    ({"anyOf": {}}, "#/anyOf"),
    ({"items": [{}]}, "#/items"),
    ({"required": "a"}, "#/required"),
    ({"required": [1]}, "#/required"),
    ({"enum": "a"}, "#/enum"),
    ({"maximum": "a"}, "#/maximum"),
    ({"multipleOf": 0}, "#/multipleOf"),
    ({"minLength": -1}, "#/minLength"),
    ({"maxItems": True}, "#/maxItems"),
    ({"uniqueItems": 1}, "#/uniqueItems"),
    ({"dependentRequired": {"a": 1}}, "#/dependentRequired"),
    ({"not": {"type": "text"}}, "#/not/type"),
)
#: what is valid, and refused
REFUSED_SCHEMAS = (
    ({"$ref": "https://127.0.0.1:1/schema"}, "#/\\$ref"),
    ({"$ref": "#/$defs/absent"}, "#/\\$ref: leads to no schema"),
    ({"$ref": "#/enum/0", "enum": [{}]}, "#/\\$ref: leads to no schema"),
    ({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, "leads to no schema"),
    ({"$defs": {"a": {"$id": "https://x.example/y"}}}, "#/\\$defs/a/\\$id: is not supported"),
    ({"patternProperties": {"(a+)+$": {}}}, "#/patternProperties: is not supported"),
    ({"unevaluatedProperties": False}, "is not supported"),
    (DEEP, "is nested too deep"),
    ({"enum": list(range(10_001))}, "more than 10000 values"),
)


def test_schemas_that_are_wrong() -> None:
    for schema, fault in WRONG_SCHEMAS:
        with pytest.raises(SchemaError, match=fault):
            validator_of(schema)
        with pytest.raises((Invalid, TypeError)):
            Draft202012Validator.check_schema(schema)
    for refused, fault in REFUSED_SCHEMAS:
        with pytest.raises(SchemaError, match=fault):
            validator_of(refused)


async def test_a_schema_that_is_wrong_is_an_error_of_its_caller() -> None:
    schema = {"name": "x", "schema": {"type": "text"}}
    async with speaking() as (desk, api):
        for call, param in (
            (
                chat(api, "[]", response_format={"type": "json_schema", "json_schema": schema}),
                "response_format.json_schema.schema",
            ),
            (
                api.responses.create(
                    model="desk", input="[]", text={"format": {"type": "json_schema", **schema}}
                ),  # type: ignore[typeddict-item]
                "text.format.schema",
            ),
        ):
            with pytest.raises(openai.BadRequestError, match="#/type: is one or several of") as wrong:
                await call
            assert wrong.value.param == param
    assert not desk.seen


#: in place, each level is checked twice as often as the one above
BUSY = {
    "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}},
    "$ref": "#/$defs/a0",
}
#: each value of the answer is compared with many
WIDE = {"items": {"enum": [[number] for number in range(4_000)]}}


@each(
    "schema,value,fault",
    [
        (BUSY, 1, "more than 300000 steps"),
        ({"$ref": "#"}, 1, "nested too deep"),
        (WIDE, [[number] for number in range(4_000)], "more than 300000 steps"),
        ({"anyOf": [False] * 5_000, "items": {"not": {}}}, [["x" * 99] * 99] * 99, "this list"),
        ({"uniqueItems": True}, [[n] for n in range(50_000)], ""),
        ({"uniqueItems": True}, [1, 2, 1.0], "has equal items"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], ""),
        ({"pattern": "(a+)+$"}, "a" * 5_000 + "b", ""),
        ({"type": "integer"}, 21.0, ""),
        ({"$defs": {"a b": {"type": "null"}}, "$ref": "#/$defs/a%20b"}, None, ""),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$id": "https://x.example/y",
                "$ref": "#/definitions/a",
                "definitions": {"a": {"const": 1}},
            },
            1,
            "",
        ),
    ],
)
async def test_the_check_of_an_answer_ends(schema: Any, value: Any, fault: str) -> None:
    structure = Structure(validator_of(schema))
    parts = (text_part(json.dumps(value)),)
    if fault:
        with pytest.raises(UnfitError, match=fault) as unfit:
            await structure.text_of(parts)
        assert len(str(unfit.value)) <= 500
    else:
        assert json.loads(await structure.text_of(parts)) == value


async def test_an_answer_without_parts_is_none() -> None:
    with pytest.raises(UnfitError, match=NONE):
        await Structure(None).text_of((hub.Part(url="https://x.example/a.json"),))


def test_the_table_has_each_parameter_of_the_official_client() -> None:
    for theirs, ours in (
        (CompletionCreateParamsBase, [one.name for one in PARAMETERS if Api.CHAT in one.api]),
        (ResponseCreateParamsBase, [one.name for one in PARAMETERS if Api.RESPONSES in one.api]),
    ):
        assert set(theirs.__annotations__) - set(ours) == set()
        assert len(ours) == len(set(ours))
    assert {one.use for one in PARAMETERS} == set(Use)


async def test_what_the_table_says_is_so() -> None:
    async with speaking() as (_, api):
        for one in PARAMETERS:
            if one.use is Use.USED:
                continue
            calls = []
            asked: list[Any] = [user('["x"]')]
            # What no parameter takes, and so what asks for something.
            extra = {one.name: {"given": [1]}}
            if Api.CHAT in one.api:
                calls.append(chat(api, asked, extra_body=extra))
            if Api.RESPONSES in one.api:
                calls.append(api.responses.create(model="desk", input='["x"]', extra_body=extra))
            for call in calls:
                if one.use is Use.IGNORED:
                    await call
                    continue
                with pytest.raises(openai.BadRequestError) as refused:
                    await call
                assert (refused.value.code, refused.value.param) == ("unsupported_parameter", one.name)


async def test_completions_of_text_are_told_what_to_use() -> None:
    async with speaking() as (_, api):
        with pytest.raises(openai.NotFoundError, match="use /v1/chat/completions or /v1/responses"):
            await api.completions.create(model="desk", prompt="x")
