"""Identity of meaning (docs/explanation/versions.md) through two gateways, both ways.

Nine wires in three places are 729 chains. 81 of them have every pair of wires in every two places.
"""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.codec import decoder, dumps, encoder, loads, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import with_side_channel
from a2a_bridge.dialects.annotation import FINAL
from a2a_bridge.dialects.unmapped import EMPTY, KEY
from a2a_bridge.dialects.v0_3.proto_files import decode_content
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Files
from tests import strategies_v0
from tests.dialects.v0_3.test_kind_identity import without_lost
from tests.dialects.v0_3.test_proto_files import below, drop_empty_metadata, wild, without_default
from tests.gateway.version_chain import Chain, Wire, Written, answered, relayed
from tests.identity import says

WIRES = [
    Wire(version, binding)
    for version in ("1.0", "0.3", "0.2.5")
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
]
PLACES = range(len(WIRES))


def chain_of(caller: int, middle: int) -> Chain:
    """One row of an orthogonal array: each two places determine the third."""
    return WIRES[caller], WIRES[middle], WIRES[(caller + middle) % len(WIRES)]


HUB, KIND, PROTO = "1.0", "kind", "a2a.v1"
#: the documents of a call: protobuf classes, and a strategy for the JSON of JSON-RPC 0.x
Documents = dict[str, Any]
REQUEST: Documents = {
    HUB: hub.SendMessageRequest,
    PROTO: v0.SendMessageRequest,
    "0.3": strategies_v0.send_params("0.3"),
    "0.2.5": strategies_v0.send_params("0.2.5"),
}
ANSWERS: list[tuple[Any, Documents]] = [
    (
        ops.SEND_MESSAGE,
        {HUB: hub.SendMessageResponse, PROTO: v0.SendMessageResponse, KIND: strategies_v0.results()},
    ),
    (
        ops.SEND_STREAMING_MESSAGE,
        {HUB: hub.StreamResponse, PROTO: v0.StreamResponse, KIND: strategies_v0.events()},
    ),
    (ops.GET_TASK, {HUB: hub.Task, PROTO: v0.Task, KIND: strategies_v0.tasks()}),
]

#: few documents for each of 9 callers and 27 answers of agents, each through 9 chains; outside of CI, each run
#: draws others
few = settings(max_examples=4)


def shape(wire: Wire) -> str:
    if wire.version == "1.0":
        return HUB
    return KIND if wire.binding == "JSONRPC" else PROTO


@st.composite
def written_by(draw: st.DrawFn, wire: Wire, documents: Documents) -> Any:
    """A document as a peer of this wire may write it: a tree, or bytes."""
    if shape(wire) == KIND:
        document = draw(documents[KIND] if KIND in documents else documents[wire.version])
        if documents is REQUEST and "" in (authentication(document).get("schemes") or []):
            authentication(document)["schemes"] = ["Bearer"]  # an empty one is rejected
        return document
    cls = documents[shape(wire)]
    message = draw(wild(cls).filter(has_payload))
    if shape(wire) == HUB:
        message = without_lost(message)
    else:
        drop_empty_metadata(message)
    return message.SerializeToString() if wire.binary else encoder(cls)(message)


def has_payload(message: Any) -> bool:
    return "payload" not in message.DESCRIPTOR.oneofs_by_name or bool(message.WhichOneof("payload"))


# --- comparison: the normalised forms of docs/explanation/versions.md ---
def same(
    wire: Wire, documents: Documents, found: Any, given_document: Any, *, unknown_ends: bool = False
) -> bool:
    """unknown_ends: a wire between ends streams with the state `unknown`, which replaces `final` of such events."""
    if shape(wire) == KIND:
        return says(loads_exact(dumps(found)), loads_exact(dumps(given_document)))
    cls = documents[shape(wire)]
    one, other = message_of(cls, found), message_of(cls, given_document)
    if shape(wire) == PROTO:
        one, other = canonical(one), canonical(other)
        if unknown_ends:
            drop_final_of_unspecified(one)
            drop_final_of_unspecified(other)
    return bool(one == other)


def message_of(cls: Any, wire: Any) -> Any:
    return cls.FromString(wire) if isinstance(wire, bytes) else decoder(cls)(loads(dumps(wire)))


def canonical(message: Any) -> Any:
    """A message of a2a.v1, changed in place."""
    without_default(message)
    drop_empty_metadata(message)
    for unit in below(message):
        match unit.DESCRIPTOR.name:
            case "FilePart" if unit.WhichOneof("file") == "file_with_bytes":
                unit.file_with_bytes = content(unit.file_with_bytes, unit.mime_type)
            case "Task" | "TaskStatusUpdateEvent":
                unit.status.SetInParent()  # required in the other shape
            case "TaskArtifactUpdateEvent":
                unit.artifact.SetInParent()
    return message


def drop_final_of_unspecified(message: Any) -> None:
    """Changes a message of a2a.v1 in place."""
    for unit in below(message):
        if unit.DESCRIPTOR.name == "TaskStatusUpdateEvent" and not unit.status.state:
            unit.final = False


def content(raw_bytes: bytes, media_type: str) -> bytes:
    """The content of a file of a2a.v1. Peers and bridges write it raw or as base64 text."""
    while (inner := decode_content(raw_bytes, media_type, Files.AUTO)[0]) != raw_bytes:
        raw_bytes = inner
    return raw_bytes


def normalised(chain: Chain, tree: Any) -> Any:
    """A tree of the `kind` shape, changed in place, without empty metadata that a2a.v1 on the way omits."""
    waiting = [tree] if PROTO in map(shape, chain) else []
    while waiting:
        place = waiting.pop()
        if isinstance(place, list):
            waiting += place
        elif isinstance(place, dict):
            parts = place.get("parts")
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and part.get("metadata") == {}:
                    del part["metadata"]
            if {"taskId", "status"} <= place.keys() and place.get("metadata") == {}:
                del place["metadata"]
            waiting += [value for name, value in place.items() if name not in ("metadata", "parts")]
    return tree


# --- requests ---

#: the configuration that an agent of 0.x JSON-RPC gets without media types
MODES = ["/configuration/acceptedOutputModes", []]
#: the note that the metadata of the request is empty, although it has preserved content
NO_METADATA: list[Any] = ["/metadata", {}]


def with_written_defaults(params: Any) -> Any:
    """Params, changed in place, with the members of a configuration that bridges write out for agents."""
    said = {name: value for name, value in (params.get("configuration") or {}).items() if value is not None}
    params["configuration"] = {"acceptedOutputModes": [], "blocking": True, **said}
    return params


def without_written_defaults(request: hub.SendMessageRequest) -> None:
    """The same for a request of 1.0 or a2a.v1, from which they are removed."""
    fields = request.metadata.fields
    if KEY in fields:
        texts = json.loads(fields[KEY].string_value)
        entries = texts.get("kind", [])
        texts["kind"] = [entry for entry in entries if entry not in (MODES, NO_METADATA)]
        if NO_METADATA in entries:
            texts.setdefault(EMPTY, True)
        kept = {name: entries for name, entries in texts.items() if entries}
        if kept.keys() - {EMPTY}:
            fields[KEY].string_value = json.dumps(kept)
        else:
            del fields[KEY]
            if not fields and not kept:
                request.ClearField("metadata")
    if not request.configuration.ByteSize():
        request.ClearField("configuration")


def loses_schemes(chain: Chain) -> bool:
    """Whether only one of several schemes of a push config is left: see BETWEEN_SHAPES."""
    caller, middle, agent = map(shape, chain)
    return (caller, agent) == (KIND, PROTO) or (caller == PROTO and KIND in (middle, agent))


def restore_schemes(wire: Wire, found: Any, given_request: Any) -> Any:
    if shape(wire) == KIND:
        one, other = authentication(found), authentication(given_request)
        left, given_schemes = one.get("schemes") or [], other.get("schemes") or []
        if len(left) <= 1 < len(given_schemes) and set(left) <= set(given_schemes):
            one["schemes"] = given_schemes
        return found
    message, given_message = (message_of(v0.SendMessageRequest, one) for one in (found, given_request))
    schemes = message.configuration.push_notification.authentication.schemes
    more = given_message.configuration.push_notification.authentication.schemes
    if len(schemes) == 1 and schemes[0] in more:
        schemes[:] = more
        if given_message.HasField("metadata") and not given_message.metadata.fields:
            # Only the text with the schemes tells empty metadata from none: it is lost with them.
            message.metadata.SetInParent()
    return message.SerializeToString() if wire.binary else encoder(type(message))(message)


def authentication(params: Any) -> Any:
    config = (params.get("configuration") or {}).get("pushNotificationConfig") or {}
    return config.get("authentication") or {}


@pytest.mark.parametrize("caller", PLACES, ids=lambda place: str(WIRES[place]))
@few
@given(data=st.data())
def test_agents_get_the_content_of_callers(caller: int, data: st.DataObject) -> None:
    said = data.draw(written_by(WIRES[caller], REQUEST))
    for middle in PLACES:
        check_request(chain_of(caller, middle), said)


def check_request(chain: Chain, said: Any) -> None:
    near, _, far = chain
    row = near.row(ops.SEND_MESSAGE)
    reads, heard = relayed(chain, ops.SEND_MESSAGE, near.addressed(row, deepcopy(said), {}))
    if shape(near) == shape(far) == KIND:
        found = loads_exact(heard.body or b"")
    else:
        call = reads[-1].call
        if shape(near) != KIND:
            without_written_defaults(call.request)
        found = row.encode_request(call.request)
        if row.extras.request is not None:
            beside = with_side_channel(call.context.parameters, call.context.side_channel)
            found = row.extras.request.restore(found, beside)
    wanted = deepcopy(said)
    if shape(near) == KIND:
        found = normalised(chain, with_written_defaults(found))
        wanted = normalised(chain, with_written_defaults(wanted))
    if loses_schemes(chain):
        found = restore_schemes(near, found, wanted)
    assert same(near, REQUEST, found, wanted), f"{chain}: {said!r} was heard as {heard.body!r}: {found!r}"


# --- answers and events ---

ASKED = {
    ops.GET_TASK: hub.GetTaskRequest(id="t"),
    ops.SEND_MESSAGE: hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
    ),
}


def ends_with_unknown(wire: Wire) -> bool:
    """Whether the state `unknown` ends a stream over a wire."""
    return shape(wire) == KIND and wire.version == "0.2.5"


def without_final_of_unknown(event: Any) -> Any:
    """JSON-RPC of 0.2.5 ends a stream with the state `unknown`; other wires do not."""
    if type(event) is bytes:
        message = v0.StreamResponse.FromString(event)
        if message.HasField("status_update") and not message.status_update.status.state:
            message.status_update.final = False
        return message.SerializeToString()
    update = event.get("statusUpdate")
    inner = update if type(update) is dict else event
    state = (inner.get("status") or {}).get("state")
    if state in ("unknown", "TASK_STATE_UNSPECIFIED", None) and ("taskId" in inner or inner is update):
        inner.pop("final", None)
        inner.pop(FINAL, None)
    return event


@pytest.mark.parametrize(("operation", "documents"), ANSWERS, ids=lambda one: getattr(one, "name", ""))
@pytest.mark.parametrize("agent", PLACES, ids=lambda place: str(WIRES[place]))
@few
@given(data=st.data())
def test_callers_get_the_content_of_agents(
    agent: int, operation: Any, documents: Documents, data: st.DataObject
) -> None:
    said = data.draw(written_by(WIRES[agent], documents))
    for middle in PLACES:
        check_answer(chain_of((agent - middle) % len(WIRES), middle), operation, documents, said)


def check_answer(chain: Chain, operation: Any, documents: Documents, said: Any) -> None:
    near, _, far = chain
    row = near.row(operation)
    asked = row.encode_request(ASKED.get(operation, ASKED[ops.SEND_MESSAGE]))
    reads, _ = relayed(chain, operation, near.addressed(row, asked, {}))
    heard = answered(chain, reads, Written(said if far.binary else dumps(said)))
    wanted = deepcopy(said)
    if shape(near) == shape(far) == KIND:
        found = loads_exact(heard.body or b"")
    else:
        found = far.row(operation).encode_response(near.read_answer(reads[0].call, heard))
    if shape(far) == KIND and near is not far and (ends_with_unknown(near) or ends_with_unknown(far)):
        without_final_of_unknown(found)
        without_final_of_unknown(wanted)
    if shape(far) == KIND:
        found, wanted = normalised(chain, found), normalised(chain, wanted)
    unknown_ends = any(ends_with_unknown(one) for one in chain)
    agrees = same(far, documents, found, wanted, unknown_ends=unknown_ends)
    assert agrees, f"{chain}: {said!r} was heard as {heard.body!r}: {found!r}"


@pytest.mark.parametrize("far", [wire for wire in WIRES if shape(wire) == PROTO], ids=str)
def test_final_of_an_unknown_state_is_lost_at_any_hop_of_0_2_5(far: Wire) -> None:
    update = v0.StreamResponse(status_update=v0.TaskStatusUpdateEvent(task_id="t", final=True))
    said = update.SerializeToString() if far.binary else encoder(v0.StreamResponse)(update)
    operation, documents = ANSWERS[1]
    old = next(wire for wire in WIRES if ends_with_unknown(wire))
    for other in WIRES:
        check_answer((other, old, far), operation, documents, said)
        check_answer((old, other, far), operation, documents, said)


def test_the_chains_have_every_pair_of_wires() -> None:
    chains = [chain_of(caller, middle) for caller in PLACES for middle in PLACES]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert len({(chain[one], chain[other]) for chain in chains}) == len(WIRES) ** 2
