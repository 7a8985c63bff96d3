"""Messages of a2a.v1 in the hub and back; `…_payload_N` is content that others are known to lose."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import annotation, unmapped
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.dialects.pair import Context, Pair
from a2a_bridge.dialects.v0_3 import proto as pairs
from a2a_bridge.dialects.v0_3 import proto_card
from a2a_bridge.dialects.v0_3.forms import GRPC_FORM, HTTP_JSON_FORM
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from a2a_bridge.testing.each import each
from tests.rejections import rejected
from tests.strategies import messages


def row(operation: Any) -> Row[str, bytes]:
    found = GRPC_FORM.row(operation)
    assert found is not None
    return found


def read(pair: Pair, **members: Any) -> Any:
    return pairs.decode_bytes(pair, pair.wire(**members).SerializeToString(), Files.AUTO)


def written(pair: Pair, message: Any) -> Any:
    return pair.wire.FromString(pairs.encode_bytes(pair, message, Files.AUTO))


def test_payload_21_the_timestamp_of_a_status_goes_both_ways() -> None:
    status = decoder(v0.TaskStatus)(
        {"state": "TASK_STATE_WORKING", "timestamp": "2025-01-31T12:00:00.123456789Z"}
    )
    task = read(pairs.TASK, id="t", status=status)
    assert encoder(hub.Task)(task)["status"]["timestamp"] == "2025-01-31T12:00:00.123456789Z"
    assert written(pairs.TASK, task).status.timestamp == status.timestamp


def test_payload_22_a_status_without_a_message_stays_without_one() -> None:
    task = read(pairs.TASK, id="t", status=v0.TaskStatus(state=v0.TASK_STATE_WORKING))
    assert not task.status.HasField("message")
    assert not written(pairs.TASK, task).status.HasField("update")


def test_payload_22_an_empty_message_of_a_status_stays() -> None:
    task = read(pairs.TASK, id="t", status=v0.TaskStatus(update=v0.Message()))
    assert task.status.HasField("message")
    assert written(pairs.TASK, task).status.HasField("update")


def test_payload_23_bytes_are_the_content() -> None:
    part = hub.Part(raw=b"\x00\xff", media_type="image/x", filename="a.x")
    file = written(pairs.PART, part).file
    assert (file.file_with_bytes, file.mime_type, file.name) == (b"\x00\xff", "image/x", "a.x")


def test_payload_23_base64_text_is_decoded_and_returned_unchanged() -> None:
    raw_bytes = b64encode(b"hello world")
    part = read(pairs.PART, file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="text/plain"))
    assert part.raw == b"hello world"
    assert written(pairs.PART, part).file.file_with_bytes == raw_bytes


def test_payload_23_large_base64_carries_a_word_only() -> None:
    raw_bytes = b64encode(b"hello world " * 100_000)
    part = read(pairs.PART, file=v0.FilePart(file_with_bytes=raw_bytes, mime_type="text/plain"))
    assert len(part.metadata.fields[unmapped.KEY].string_value) < 200


def test_payload_24_references_to_other_tasks_come_back() -> None:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, reference_task_ids=["a", "b"])
    wire = written(pairs.MESSAGE, message)
    assert pairs.decode_bytes(pairs.MESSAGE, wire.SerializeToString(), Files.AUTO) == message


def test_payload_24_later_members_are_written_and_read() -> None:
    part = hub.Part(url="https://x", filename="name")
    part.metadata["k"] = 1
    wire = written(pairs.PART, part)
    assert (wire.file.name, wire.metadata["k"]) == ("name", 1)
    assert pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO) == part


def test_payload_25_absent_members_have_the_default_of_1_0() -> None:
    sent = read(pairs.SEND, request=v0.Message(message_id="m"), configuration=v0.SendMessageConfiguration())
    assert not sent.configuration.HasField("history_length")
    assert sent.configuration.return_immediately
    assert not read(pairs.SEND, request=v0.Message()).configuration.return_immediately


def test_payload_25_waiting_is_written_out() -> None:
    wire = written(pairs.SEND, hub.SendMessageRequest(message=hub.Message(message_id="m")))
    assert wire.configuration.blocking
    assert not wire.HasField("metadata")
    hurried = hub.SendMessageRequest(configuration=hub.SendMessageConfiguration(return_immediately=True))
    assert not written(pairs.SEND, hurried).configuration.blocking


def test_no_history_at_all_comes_back_although_a2a_v1_cannot_say_it() -> None:
    request = hub.SendMessageRequest(configuration=hub.SendMessageConfiguration(history_length=0))
    wire = written(pairs.SEND, request)
    assert wire.configuration.history_length == 0
    assert pairs.decode_bytes(pairs.SEND, wire.SerializeToString(), Files.AUTO) == request


@each("state", hub.TaskState.values())
@each("final", [True, False])
def test_final_is_derived_or_noted(state: Any, final: bool) -> None:
    event = read(pairs.STATUS_UPDATE, task_id="t", status=v0.TaskStatus(state=state), final=final)
    derived = state in annotation.FINAL_STATES
    assert annotation.read_final(event) == (None if final == derived else final)
    wire = written(pairs.STATUS_UPDATE, event)
    assert wire.final is final
    assert not wire.HasField("metadata")


def test_data_that_is_no_object_is_wrapped_and_comes_back() -> None:
    part = decoder(hub.Part)({"data": [1, None, "x"]})
    wire = written(pairs.PART, part)
    assert list(wire.data.data.fields) == ["value"]
    assert pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO) == part


def test_an_object_that_looks_wrapped_is_left_alone() -> None:
    wire = decoder(v0.Part)({"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": True}})
    part = pairs.decode_bytes(pairs.PART, wire.SerializeToString(), Files.AUTO)
    assert encoder(hub.Part)(part)["data"] == {"value": [1]}


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK])
def test_an_answer_that_holds_nothing_is_the_agents_fault(operation: Any) -> None:
    with pytest.raises(A2AError, match="holds none") as caught:
        row(operation).decode_response(b"")
    assert caught.value.blame is Blame.PEER


@each("one", GRPC_FORM.rows)
def test_invalid_protobuf_is_rejected_with_a_plain_text(one: Row[str, bytes]) -> None:
    with pytest.raises(A2AError, match=r"a2a\.v1|google\.protobuf") as caught:
        one.decode_request(b"\xff\xff\xff")
    assert caught.value.reason is Reason.PARSE_ERROR
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        one.decode_response(b"\xff\xff\xff")


@pytest.mark.parametrize("value", ["half \ud83d", 5], ids=["half of a surrogate pair", "another type"])
def test_carried_content_that_no_field_can_hold_is_left_out(value: Any) -> None:
    part = v0.Part(text="x")
    preserved = {"mediaType": value, "filename": "a.txt"}
    part.metadata.fields[unmapped.KEY].string_value = unmapped.write(unmapped.HUB, preserved)
    message = v0.Message(message_id="m", role=v0.ROLE_USER, content=[part])
    preserved = {"referenceTaskIds": value}
    message.metadata.fields[unmapped.KEY].string_value = unmapped.write(unmapped.HUB, preserved)
    there: Any = hub.Message()
    pairs.MESSAGE.decode(message, there, Context())
    assert [(one.text, one.filename, one.media_type) for one in there.parts] == [("x", "a.txt", "")]
    assert not there.reference_task_ids


def test_half_of_a_surrogate_pair_in_an_unknown_member_takes_nothing_else_away() -> None:
    text = unmapped.write(unmapped.KIND, [["/mood", "half \ud83d"], ["/lang", "en"]])
    assert unmapped.read(text, unmapped.KIND) == [["/mood", "half \ud83d"], ["/lang", "en"]]


# --- The card of a2a.v1: its content in JSON and in the hub, without a loss ---
def full() -> v0.AgentCard:
    oauth = v0.OAuthFlows(
        authorization_code=v0.AuthorizationCodeOAuthFlow(
            authorization_url="https://a",
            token_url="https://t",  # noqa: S106
            scopes={"r": "read"},
        )
    )
    security = v0.Security(schemes={"key": v0.StringList(), "oauth": v0.StringList(list=["r"])})
    card = v0.AgentCard(
        protocol_version="0.3.0",
        name="n",
        description="d",
        url="https://x",
        preferred_transport="GRPC",
        additional_interfaces=[v0.AgentInterface(url="https://y", transport="JSONRPC")],
        provider=v0.AgentProvider(url="https://p", organization="o"),
        version="1",
        documentation_url="https://d",
        icon_url="https://i",
        capabilities=v0.AgentCapabilities(
            streaming=True, extensions=[v0.AgentExtension(uri="urn:x", required=True)]
        ),
        security_schemes={
            "key": v0.SecurityScheme(
                api_key_security_scheme=v0.APIKeySecurityScheme(location="header", name="X-Key")
            ),
            "http": v0.SecurityScheme(http_auth_security_scheme=v0.HTTPAuthSecurityScheme(scheme="bearer")),
            "oauth": v0.SecurityScheme(oauth2_security_scheme=v0.OAuth2SecurityScheme(flows=oauth)),
            "oidc": v0.SecurityScheme(
                open_id_connect_security_scheme=v0.OpenIdConnectSecurityScheme(
                    open_id_connect_url="https://o"
                )
            ),
            "mtls": v0.SecurityScheme(mtls_security_scheme=v0.MutualTlsSecurityScheme(description="m")),
        },
        security=[security],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[v0.AgentSkill(id="s", name="s", description="s", tags=["t"], security=[security])],
        supports_authenticated_extended_card=True,
        signatures=[v0.AgentCardSignature(protected="p", signature="s")],
    )
    card.capabilities.extensions[0].params["n"] = 1.5
    return card


def raw_bytes(message: Any) -> bytes:
    made: bytes = message.SerializeToString(deterministic=True)
    return made


def test_a_card_has_the_same_content_in_the_hub() -> None:
    card = proto_card.decode_bytes(full().SerializeToString())
    assert (card.name, card.icon_url, card.documentation_url) == ("n", "https://i", "https://d")
    assert [(one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces] == [
        ("https://x", "GRPC", "0.3.0"),
        ("https://y", "JSONRPC", "0.3.0"),
    ]
    assert card.capabilities.extended_agent_card
    assert card.security_schemes["key"].api_key_security_scheme.name == "X-Key"
    assert card.security_schemes["oauth"].oauth2_security_scheme.flows.authorization_code.scopes == {
        "r": "read"
    }
    assert card.security_schemes["mtls"].mtls_security_scheme.description == "m"
    assert list(card.skills[0].security_requirements[0].schemes["oauth"].list) == ["r"]


def test_a_full_card_comes_back_as_it_came() -> None:
    wire = full()
    again = v0.AgentCard.FromString(
        proto_card.encode_bytes(proto_card.decode_bytes(wire.SerializeToString()))
    )
    assert raw_bytes(again) == raw_bytes(wire)


@settings(max_examples=60)
@given(data=st.data())
def test_any_card_comes_back_as_it_came(data: st.DataObject) -> None:
    wire = data.draw(messages(v0.AgentCard))
    for name in list(wire.security_schemes):
        scheme = wire.security_schemes[name]
        if scheme.WhichOneof("scheme") in (None, "oauth2_security_scheme"):
            del wire.security_schemes[
                name
            ]  # the JSON card has no scheme without a type, nor a flow without URLs
    message = proto_card.decode_bytes(wire.SerializeToString())
    message = hub.AgentCard.FromString(message.SerializeToString())
    assert raw_bytes(v0.AgentCard.FromString(proto_card.encode_bytes(message))) == raw_bytes(wire)


@settings(max_examples=60)
@given(data=st.data())
def test_any_card_of_1_0_survives_a2a_v1(data: st.DataObject) -> None:
    card = data.draw(messages(hub.AgentCard, complete=True))
    for name in list(card.security_schemes):
        if card.security_schemes[name].WhichOneof("scheme") is None:
            del card.security_schemes[name]
    back = proto_card.decode_bytes(proto_card.encode_bytes(card))
    assert encoder(hub.AgentCard)(back) == encoder(hub.AgentCard)(card)


def test_a_card_of_1_0_only_is_readable_for_peers_that_know_nothing_of_it() -> None:
    card = hub.AgentCard(name="n", capabilities=hub.AgentCapabilities(streaming=False))
    card.supported_interfaces.add(
        url="https://x", protocol_binding="JSONRPC", protocol_version="0.3", tenant="t"
    )
    wire = v0.AgentCard.FromString(proto_card.encode_bytes(card))
    assert (wire.name, wire.url, wire.preferred_transport) == ("n", "https://x", "JSONRPC")
    assert not any(one.required for one in wire.capabilities.extensions)


def test_numbers_that_json_parsers_doubt_go_both_ways() -> None:
    card = hub.AgentCard(name="n")
    card.supported_interfaces.add(url="u", protocol_binding="GRPC", protocol_version="0.3")
    params = card.capabilities.extensions.add(uri="urn:x").params
    params["half"], params["huge"], params["list"] = -0.5, 1e300, [1e-7, 2.0**53]
    assert proto_card.decode_bytes(proto_card.encode_bytes(card)) == card


def test_a_forged_carrier_cannot_change_a_card() -> None:
    wire = v0.AgentCard(name="n", url="https://x", capabilities=v0.AgentCapabilities())
    extension = wire.capabilities.extensions.add(uri=proto_card.CARRIER)
    extension.params[proto_card.CARRIER] = '{"v":1,"proto":[["/iconUrl",null,"https://evil"]]}'
    assert proto_card.decode_bytes(wire.SerializeToString()).icon_url == ""


def card_row() -> Any:
    row = HTTP_JSON_FORM.row(ops.GET_EXTENDED_AGENT_CARD)
    assert row is not None
    return row


def test_over_http_both_kinds_of_readers_find_the_schemes() -> None:
    card = proto_card.decode_bytes(full().SerializeToString())
    tree = card_row().encode_response(card)
    assert tree["securitySchemes"]["key"] == {
        "type": "apiKey",
        "in": "header",
        "name": "X-Key",
        "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
    }
    assert card_row().decode_response(loads_exact(dumps(tree))) == card


def test_over_http_protojson_is_read_too() -> None:
    card = card_row().decode_response(loads_exact(dumps(encoder(v0.AgentCard)(full()))))
    assert card == proto_card.decode_bytes(full().SerializeToString())


@pytest.mark.parametrize(
    "tree", [None, [], "card", {"securitySchemes": {"a": {"type": []}}, "name": []}, {"skills": 1}]
)
def test_an_invalid_card_is_an_error_of_the_agent(tree: Any) -> None:
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        card_row().decode_response(tree)


def test_bytes_that_are_no_card_are_the_agents_fault() -> None:
    row = GRPC_FORM.row(ops.GET_EXTENDED_AGENT_CARD)
    assert row is not None
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        row.decode_response(b"\xff")
