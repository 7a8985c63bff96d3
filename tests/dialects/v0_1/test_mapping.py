"""Each row of the table of differences between 0.1 and its successors, in both directions."""

import json
from typing import Any

import pytest

from a2a_bridge.codec import DecodeError
from a2a_bridge.dialects.v0_1 import card, messages, parts, requests
from a2a_bridge.dialects.v0_1.parts import STASH
from a2a_bridge.testing.each import each

TASK: dict[str, Any] = {"id": "t", "status": {"state": "working"}}


def task(**members: Any) -> dict[str, Any]:
    return {**TASK, **members}


def status_event(state: str, **members: Any) -> dict[str, Any]:
    return {"kind": "status-update", "taskId": "t", "contextId": "", "status": {"state": state}, **members}


# --- Tasks and messages ---
def test_a_session_is_a_context() -> None:
    tree = messages.decode_task(task(sessionId="s"))
    assert tree["contextId"] == "s"
    assert "sessionId" not in tree
    assert messages.encode_task(tree)["sessionId"] == "s"


def test_a_task_without_a_session_has_an_empty_context() -> None:
    tree = messages.decode_task(TASK)
    assert tree == {**TASK, "kind": "task", "contextId": ""}
    assert messages.encode_task(tree) == TASK


def test_the_id_in_the_parameters_is_the_task_of_the_message() -> None:
    wire = {"id": "t", "sessionId": "s", "message": {"role": "user", "parts": []}}
    message = requests.decode_send(wire)["message"]
    assert (message["taskId"], message["contextId"]) == ("t", "s")
    assert requests.encode_send(requests.decode_send(wire)) == wire


def test_ids_in_the_message_itself_do_not_count() -> None:
    wire = {"id": "t", "message": {"role": "user", "parts": [], "taskId": "other", "contextId": None}}
    assert requests.decode_send(wire)["message"]["taskId"] == "t"
    assert requests.encode_send(requests.decode_send(wire)) == wire


def test_a_message_gets_an_id_from_its_content_and_place() -> None:
    def id_of(text: str, where: str) -> str:
        wire = {"role": "user", "parts": [{"type": "text", "text": text}]}
        return str(messages.decode_message(wire, where)["messageId"])

    assert id_of("a", "t") == id_of("a", "t")
    assert len({id_of("a", "t"), id_of("b", "t"), id_of("a", "u")}) == 3


def test_the_variant_of_a_part_does_not_change_the_id_of_its_message() -> None:
    usual = messages.decode_message({"role": "user", "parts": [{"type": "text", "text": "a"}]}, "t")
    odd = messages.decode_message(
        {"role": "user", "parts": [{"type": "text", "text": "a", "metadata": None}]}, "t"
    )
    assert usual["messageId"] == odd["messageId"]


def test_messages_in_a_task_have_different_ids_although_they_say_the_same() -> None:
    same = {"role": "user", "parts": [{"type": "text", "text": "again"}]}
    tree = messages.decode_task(task(history=[same, same], status={"state": "working", "message": same}))
    ids = {one["messageId"] for one in (*tree["history"], tree["status"]["message"])}
    assert len(ids) == 3


def test_an_id_that_was_made_here_does_not_go_back_and_any_other_does() -> None:
    wire = {"role": "user", "parts": [{"type": "text", "text": "a"}]}
    tree = messages.decode_message(wire, "t")
    assert messages.encode_message(tree) == wire
    assert messages.encode_message({**tree, "messageId": "m1"}) == {**wire, "messageId": "m1"}
    changed = {**tree, "parts": [{"kind": "text", "text": "b"}]}
    assert messages.encode_message(changed)["messageId"] == tree["messageId"]


def test_an_id_made_here_can_be_placed_elsewhere_and_stays_recognisable() -> None:
    tree = messages.decode_message({"role": "user", "parts": []}, "t")
    moved = messages.place_id(tree["messageId"], "t/1")
    assert moved != tree["messageId"]
    assert "messageId" not in messages.encode_message({**tree, "messageId": moved})
    assert messages.place_id("m1", "t/1") == "m1"


def test_members_that_0_1_lacks_go_along_under_their_own_names() -> None:
    tree = {
        "kind": "message",
        "role": "agent",
        "parts": [],
        "messageId": "m",
        "taskId": "t",
        "contextId": "c",
        "referenceTaskIds": ["r"],
        "extensions": ["e"],
    }
    assert messages.decode_message(messages.encode_message(tree), "") == tree


@pytest.mark.parametrize(("true", "shown"), [("rejected", "failed"), ("auth-required", "input-required")])
def test_states_that_0_1_lacks_are_downgraded_and_kept_in_metadata(true: str, shown: str) -> None:
    tree = {**messages.decode_task(TASK), "status": {"state": true}}
    wire = messages.encode_task(tree)
    assert wire["status"] == {"state": shown}
    assert messages.decode_task(wire) == tree
    event = status_event(true, final=False)
    assert messages.encode_event(event)["status"] == {"state": shown}
    assert messages.decode_event(messages.encode_event(event)) == event


def test_a_mark_that_does_not_fit_the_state_is_metadata_like_any_other() -> None:
    wire = task(metadata={messages.MARK: {"state": "rejected"}})
    tree = messages.decode_task(wire)
    assert (tree["status"]["state"], tree["metadata"]) == ("working", wire["metadata"])
    assert messages.encode_task(tree) == wire


@pytest.mark.parametrize(
    "state", ["submitted", "working", "input-required", "completed", "canceled", "unknown"]
)
def test_other_states_are_the_same(state: str) -> None:
    assert messages.decode_task(task(status={"state": state}))["status"] == {"state": state}


# --- Artifacts ---
def test_the_index_is_the_identity_of_an_artifact() -> None:
    tree = messages.decode_artifact({"index": 7, "parts": []}, "")
    assert tree == {"artifactId": "index-7", "parts": []}
    assert messages.encode_artifact(tree) == {"index": 7, "parts": []}


def test_an_artifact_without_an_index_is_the_first() -> None:
    assert messages.decode_artifact({"parts": []}, "")["artifactId"] == "index-0"


def test_artifacts_with_other_ids_get_free_indices_in_order_and_keep_their_ids() -> None:
    ids = ["a", "index-0", "b", "index-2"]
    tree = {**messages.decode_task(TASK), "artifacts": [{"artifactId": one, "parts": []} for one in ids]}
    wire = messages.encode_task(tree)
    assert [one["index"] for one in wire["artifacts"]] == [1, 0, 3, 2]
    assert [one["artifactId"] for one in messages.decode_task(wire)["artifacts"]] == ids


def test_an_index_beside_an_id_comes_back() -> None:
    wire = task(artifacts=[{"index": 4, "artifactId": "a", "parts": []}, {"artifactId": "b", "parts": []}])
    assert messages.encode_task(messages.decode_task(wire)) == wire


@pytest.mark.parametrize("index", ["1", True, 1.5, [], 10**18])
def test_an_index_that_is_none_is_named(index: Any) -> None:
    with pytest.raises(DecodeError) as raised:
        messages.decode_task(task(artifacts=[{"parts": []}, {"index": index, "parts": []}]))
    assert raised.value.path == "artifacts[1].index"


def test_chunk_flags_move_to_the_event_and_back() -> None:
    wire = {"id": "t", "artifact": {"index": 0, "parts": [], "append": True, "lastChunk": False}}
    tree = messages.decode_event(wire)
    assert (tree["append"], tree["lastChunk"]) == (True, False)
    assert tree["artifact"] == {"artifactId": "index-0", "parts": []}
    assert messages.encode_event(tree) == wire


def test_chunk_flags_of_an_artifact_in_a_task_stay_there() -> None:
    wire = task(artifacts=[{"index": 0, "parts": [], "append": False, "lastChunk": True}])
    assert messages.encode_task(messages.decode_task(wire)) == wire


# --- Events and answers ---
def test_an_event_names_its_task_by_id() -> None:
    tree = messages.decode_event({"id": "t", "status": {"state": "completed"}, "final": True})
    assert tree == status_event("completed", final=True)


def test_final_is_false_by_default() -> None:
    wire = {"id": "t", "status": {"state": "completed"}}
    assert messages.decode_event(wire)["final"] is False
    assert messages.encode_event(messages.decode_event(wire)) == wire


def test_an_event_with_final_and_without_an_artifact_is_a_status() -> None:
    wire = {"id": "t", "status": {"state": "working"}, "final": False, "artifacts": []}
    assert messages.decode_event(wire)["kind"] == "status-update"


def test_a_task_that_an_agent_sends_as_an_event_is_read_as_one() -> None:
    assert messages.decode_event(task(sessionId="s"))["kind"] == "task"


def test_an_event_has_its_session_if_it_is_known() -> None:
    assert messages.encode_event(status_event("working", contextId="c", final=False))["sessionId"] == "c"


def test_a_message_is_answered_as_a_marked_completed_task() -> None:
    message = {
        "kind": "message",
        "role": "agent",
        "messageId": "m",
        "parts": [{"kind": "text", "text": "hi"}],
    }
    wire = messages.encode_result(message)
    assert (wire["id"], wire["status"]["state"]) == ("m", "completed")
    assert wire["status"]["message"]["parts"] == [{"type": "text", "text": "hi"}]
    assert "artifacts" not in wire
    assert messages.decode_result(wire) == message


def test_a_message_in_a_stream_is_a_marked_completed_status() -> None:
    message = {"kind": "message", "role": "agent", "messageId": "m", "parts": [], "taskId": "t"}
    wire = messages.encode_event(message)
    assert (wire["id"], wire["status"]["state"], wire["final"]) == ("t", "completed", True)
    assert messages.decode_event(wire) == message


def test_a_completed_task_without_the_mark_is_no_message() -> None:
    said = {"role": "agent", "parts": []}
    tree = messages.decode_result(task(status={"state": "completed", "message": said}))
    assert tree["kind"] == "task"


# Parts.

FILE = {"uri": "http://h/x"}
OWN = "application/x-a2a-part+json"


def a_file(type_: str, file: Any, **members: Any) -> Any:
    """A part of 0.1 of a type of its own, as a file."""
    return {"kind": "file", "file": file, **members, "metadata": {"origType": type_}}


def some_data(type_: str, data: Any, media: str = OWN, **metadata: Any) -> Any:
    return {"kind": "data", "data": data, "mediaType": media, "metadata": {**metadata, "origType": type_}}


@each(
    ("wire", "tree"),
    [
        ({"type": "text", "text": "a"}, {"kind": "text", "text": "a"}),
        *(
            ({"type": "file", "file": file}, {"kind": "file", "file": file})
            for file in (FILE, {"bytes": "aGk=", "name": "n"}, {"name": "n"})
        ),
        ({"type": "data", "data": {"a": 1}}, {"kind": "data", "data": {"a": 1}}),
        (
            {"type": "UriPart", "uri": "http://h/x", "mimeType": "m/m"},
            a_file("UriPart", {"uri": "http://h/x", "mimeType": "m/m"}),
        ),
        ({"type": "json", "json": {"a": 1}}, some_data("json", {"a": 1}, "application/json")),
        ({"type": "json", "json": [1, 2]}, some_data("json", {"json": [1, 2]})),
        (
            {"type": "form", "fields": [1], "values": {}, "metadata": {"m": 1}},
            some_data("form", {"fields": [1], "values": {}}, "application/x-a2a-form+json", m=1),
        ),
        (
            {"type": "IFramePart", "src": "http://h/x", "width": 3},
            a_file("IFramePart", {"uri": "http://h/x", "mimeType": "text/html"}, width=3),
        ),
        ({"type": "video", "uri": "http://h/x"}, a_file("video", FILE)),
        (
            {"type": "audio", "bytes": "aGk=", "mimeType": "audio/ogg"},
            a_file("audio", {"bytes": "aGk=", "mimeType": "audio/ogg"}),
        ),
        (
            {"type": "action", "name": "go", "params": {"a": 1}},
            some_data("action", {"name": "go", "params": {"a": 1}}, "application/x-a2a-action+json"),
        ),
        ({"type": "hologram", "depth": 3}, some_data("hologram", {"depth": 3})),
        ({"type": "uri", "about": "no uri"}, some_data("uri", {"about": "no uri"})),
    ],
)
def test_each_type_of_part(wire: Any, tree: Any) -> None:
    assert (parts.decode_part(wire), parts.encode_part(tree)) == (tree, wire)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "text", "text": "a", "metadata": {"origType": "uri"}},
        {"kind": "file", "file": {"uri": "u", "bytes": "aGk="}, "metadata": {"origType": "uri"}},
        {"kind": "file", "file": {"uri": "u", "x": 1}, "metadata": {"origType": "video"}},
        {"kind": "data", "data": {"type": "x"}, "metadata": {"origType": "form"}},
        {"kind": "data", "data": {}, "metadata": {"origType": "text"}},
        {"kind": "text", "text": "a", "metadata": {"origType": 5}},
    ],
)
def test_a_part_that_only_resembles_ours_is_unchanged(tree: Any) -> None:
    wire = parts.encode_part(tree)
    assert wire["type"] == tree["kind"]
    again = parts.decode_part(wire)
    again.pop(STASH, None)
    assert again == tree


# --- Parameters ---
def test_no_history_is_asked_for_unless_a_number_is_given() -> None:
    message = {"role": "user", "parts": []}
    absent = requests.decode_send({"id": "t", "message": message})
    assert absent["configuration"] == {"blocking": True, "historyLength": 0}
    some = requests.decode_send({"id": "t", "message": message, "historyLength": 3})
    assert some["configuration"] == {"blocking": True, "historyLength": 3}
    assert requests.decode_query({"id": "t"})["historyLength"] == 0


def test_who_asks_for_all_the_history_asks_for_a_large_number() -> None:
    assert requests.encode_query({"id": "t"}) == {"id": "t", "historyLength": requests.EVERYTHING}
    sent = requests.encode_send({"message": {"kind": "message", "taskId": "t", "parts": []}})
    assert sent["historyLength"] == requests.EVERYTHING
    assert "configuration" not in requests.decode_send(sent)


def test_other_configuration_is_carried() -> None:
    tree = {
        "message": {"kind": "message", "taskId": "t", "messageId": "m", "parts": []},
        "configuration": {"blocking": False, "acceptedOutputModes": ["text"], "historyLength": 0},
    }
    assert requests.decode_send(requests.encode_send(tree)) == tree


def test_the_push_notification_of_a_message_is_part_of_its_configuration() -> None:
    wire = {
        "id": "t",
        "message": {"role": "user", "parts": []},
        "pushNotification": {
            "url": "http://h",
            "token": "k",
            "authentication": {"schemes": [], "realm": "r"},
        },
    }
    config = requests.decode_send(wire)["configuration"]["pushNotificationConfig"]
    assert config == {**wire["pushNotification"], "id": requests.ONLY_CONFIG}
    assert requests.encode_send(requests.decode_send(wire)) == wire


def test_a_task_has_one_push_config_without_an_id() -> None:
    wire = {"id": "t", "pushNotificationConfig": {"url": "http://h"}}
    tree = requests.decode_task_config(wire)
    assert tree == {"taskId": "t", "pushNotificationConfig": {"url": "http://h", "id": requests.ONLY_CONFIG}}
    assert requests.encode_task_config(tree) == wire
    assert requests.decode_config_query({"id": "t"}) == {
        "id": "t",
        "pushNotificationConfigId": requests.ONLY_CONFIG,
    }


def test_a_config_that_is_none_is_null() -> None:
    assert requests.encode_task_config({"taskId": "t", "pushNotificationConfig": {"url": ""}}) == {
        "id": "t",
        "pushNotificationConfig": None,
    }


# The card.

CARD = {
    "name": "n",
    "url": "http://h/a",
    "version": "1",
    "capabilities": {},
    "skills": [{"id": "s", "name": "s"}],
}


def secured(schemes: list[str], credentials: str = "") -> dict[str, Any]:
    authentication: dict[str, Any] = {"schemes": schemes}
    if credentials:
        authentication["credentials"] = credentials
    tree = card.decode_tree({**CARD, "authentication": authentication})
    assert card.encode_tree(tree) == {**CARD, "authentication": authentication}
    return tree


def test_members_required_since_then_are_filled_in() -> None:
    tree = card.decode_tree(CARD)
    assert (tree["protocolVersion"], tree["preferredTransport"]) == ("0.1.0", "JSONRPC")
    assert (tree["description"], tree["defaultInputModes"], tree["defaultOutputModes"]) == (
        "",
        ["text"],
        ["text"],
    )
    assert tree["skills"] == [{"id": "s", "name": "s", "description": "", "tags": []}]
    assert card.encode_tree(tree) == CARD


@pytest.mark.parametrize("name", ["Bearer", "Basic", "Magic"])
def test_a_scheme_of_http(name: str) -> None:
    tree = secured([name])
    assert tree["securitySchemes"] == {name: {"type": "http", "scheme": name}}
    assert tree["security"] == [{name: []}]


def test_an_api_key_is_in_a_header_unless_the_credentials_say_otherwise() -> None:
    assert secured(["ApiKey"])["securitySchemes"]["ApiKey"] == {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
    }
    told = secured(["ApiKey"], '{"in": "query", "name": "key"}')
    assert told["securitySchemes"]["ApiKey"] == {"type": "apiKey", "in": "query", "name": "key"}


def test_oauth_has_the_flows_that_the_credentials_tell() -> None:
    assert secured(["OAuth2"])["securitySchemes"]["OAuth2"] == {"type": "oauth2", "flows": {}}
    flow = '{"flows": {"clientCredentials": {"tokenUrl": "http://t", "scopes": {}}, "password": 5}}'
    assert secured(["OAuth2"], flow)["securitySchemes"]["OAuth2"]["flows"] == {
        "clientCredentials": {"tokenUrl": "http://t", "scopes": {}}
    }


def test_several_schemes_are_alternatives_and_none_is_none() -> None:
    assert secured(["Bearer", "ApiKey"])["security"] == [{"Bearer": []}, {"ApiKey": []}]
    assert "security" not in secured([])


def test_schemes_of_later_versions_get_a_name_and_their_details_go_along() -> None:
    tree = {
        **card.decode_tree(CARD),
        "securitySchemes": {
            "corp": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "cookie", "name": "sid"},
        },
        "security": [{"corp": []}, {"key": []}],
    }
    wire = card.encode_tree(tree)
    assert wire["authentication"]["schemes"] == ["Bearer", "ApiKey"]
    assert wire["authentication"]["credentials"] == '{"ApiKey":{"in":"cookie","name":"sid"}}'
    decoded = card.decode_tree(wire)
    decoded.pop(STASH, None)
    assert decoded == {name: value for name, value in tree.items() if name != STASH}


@pytest.mark.parametrize(
    ("authentication", "path"),
    [
        (5, "authentication"),
        ({"schemes": "Bearer"}, "authentication.schemes"),
        ({"schemes": ["Bearer", 1]}, "authentication.schemes[1]"),
        ({"schemes": ["half \ud83d"]}, "authentication.schemes[0]"),
    ],
)
def test_an_authentication_that_is_none_is_named(authentication: Any, path: str) -> None:
    with pytest.raises(DecodeError) as raised:
        card.decode_tree({**CARD, "authentication": authentication})
    assert raised.value.path == path


@pytest.mark.parametrize(
    "details",
    [
        {"in": "header", "name": "\ud83d"},
        {"in": "header", "name": 5},
        {"implicit": {"authorizationUrl": "\ud83d"}},
        {"implicit": {"authorizationUrl": "", "scopes": {"\ud83d": ""}}},
        {"implicit": {"authorizationUrl": "", "scopes": {"read": "\ud83d"}}},
    ],
)
def test_invalid_details_in_credentials_do_not_make_a_card_unreadable(details: dict[str, Any]) -> None:
    authentication = {"schemes": ["ApiKey", "OAuth2"], "credentials": json.dumps(details)}
    wire = {**CARD, "authentication": authentication}
    assert card.FORM.encode(card.FORM.decode(wire)) == wire


@pytest.mark.parametrize(
    ("members", "claimed"),
    [
        ({}, False),
        ({"authentication": {"schemes": []}}, True),
        ({"protocolVersion": "0.2.5"}, False),
        ({"supportedInterfaces": []}, False),
        ({"authentication": None, "securitySchemes": {}}, False),
        ({"description": "", "defaultInputModes": [], "defaultOutputModes": []}, False),
    ],
)
def test_a_card_of_0_1_is_recognised_by_its_members(members: dict[str, Any], claimed: bool) -> None:
    assert card.claims({**CARD, **members}) is claimed
