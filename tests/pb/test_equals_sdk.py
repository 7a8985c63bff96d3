"""Our protos have the same facts as the official SDK's, except for comments and file options."""

from collections.abc import Callable

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor

from a2a_bridge.pb import _pool, a2a_v1, lf_a2a_v1
from a2a_bridge.testing.each import each
from tests.pb.facts import differences, facts

File = descriptor_pb2.FileDescriptorProto


#: fields of the draft of 1.1, which the SDK of 1.0 lacks
OF_THE_DRAFT = {
    "Task.generation": 7,
    "TaskStatusUpdateEvent.generation": 5,
    "TaskArtifactUpdateEvent.generation": 7,
    "GetTaskRequest.current_generation": 4,
    "SendMessageConfiguration.if_generation_match": 5,
}


@pytest.mark.sdk
def test_equals_the_descriptor_of_the_official_sdk() -> None:
    from a2a.types import a2a_pb2

    found = differences(facts(altered(drop_draft)), facts(a2a_pb2.DESCRIPTOR))
    assert not found, "\n".join(found)


def test_has_the_fields_of_the_draft_of_1_1() -> None:
    found = facts(lf_a2a_v1.DESCRIPTOR)
    assert {path: found[f"{path} number"] for path in OF_THE_DRAFT} == OF_THE_DRAFT


@pytest.mark.sdk
def test_a2a_v1_equals_the_descriptor_of_the_official_sdk() -> None:
    from a2a.compat.v0_3 import a2a_v0_3_pb2

    found = differences(facts(a2a_v1.DESCRIPTOR), facts(a2a_v0_3_pb2.DESCRIPTOR))
    assert not found, "\n".join(found)


#: fields that a2a.v1 has gained since the tag v0.3.0 of the specification, without a tag of its own
YOUNGER_THAN_THE_TAG = {"Part.metadata": 4, "FilePart.name": 4, "AgentCard.icon_url": 18}
#: the numbers of the tag, by message
OF_THE_TAG = {
    "Task": {"id": 1, "context_id": 2, "status": 3, "artifacts": 4, "history": 5, "metadata": 6},
    "TaskStatus": {"state": 1, "update": 2, "timestamp": 3},
    "Part": {"text": 1, "file": 2, "data": 3},
    "FilePart": {"file_with_uri": 1, "file_with_bytes": 2, "mime_type": 3},
    "Message": {
        "message_id": 1,
        "context_id": 2,
        "task_id": 3,
        "role": 4,
        "content": 5,
        "metadata": 6,
        "extensions": 7,
    },
    "Artifact": {"artifact_id": 1, "name": 3, "description": 4, "parts": 5, "metadata": 6, "extensions": 7},
    "TaskStatusUpdateEvent": {"task_id": 1, "context_id": 2, "status": 3, "final": 4, "metadata": 5},
    "SendMessageRequest": {"request": 1, "configuration": 2, "metadata": 3},
    "TaskPushNotificationConfig": {"name": 1, "push_notification_config": 2},
    "CreateTaskPushNotificationConfigRequest": {"parent": 1, "config_id": 2, "config": 3},
}


@each("name", OF_THE_TAG)
def test_a2a_v1_keeps_the_numbers_of_its_tag(name: str) -> None:
    fields = a2a_v1.DESCRIPTOR.message_types_by_name[name].fields
    younger = {field.name for field in fields if f"{name}.{field.name}" in YOUNGER_THAN_THE_TAG}
    assert {field.name: field.number for field in fields if field.name not in younger} == OF_THE_TAG[name]


def test_a2a_v1_has_the_fields_added_after_its_tag() -> None:
    found = facts(a2a_v1.DESCRIPTOR)
    assert {path: found[f"{path} number"] for path in YOUNGER_THAN_THE_TAG} == YOUNGER_THAN_THE_TAG
    path = found["A2AService.CreateTaskPushNotificationConfig http rule 0"]["path"]
    assert path == "/v1/{parent=tasks/*/pushNotificationConfigs}", "the tag has `task/*`"
    assert found["A2AService operations"] == sorted(
        method.name for method in a2a_v1.DESCRIPTOR.services_by_name["A2AService"].methods
    )
    assert len(found["A2AService operations"]) == 10


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("TaskStatus.update", "message"),
        ("SendMessageRequest.request", "message"),
        ("SendMessageResponse.msg", "message"),
        ("StreamResponse.msg", "message"),
    ],
)
def test_a2a_v1_is_called_in_json_as_0_3_calls_it(path: str, name: str) -> None:
    assert facts(a2a_v1.DESCRIPTOR)[f"{path} json name"] == name


def test_the_comparison_sees_every_part_of_the_protocol() -> None:
    """Guards against a walker that skips: the counts are those of the specification."""
    paths = facts(lf_a2a_v1.DESCRIPTOR)
    fields = [field for m in lf_a2a_v1.DESCRIPTOR.message_types_by_name.values() for field in m.fields]
    assert sum(path.endswith(" request") for path in paths) == 11
    assert sum(" http rule " in path for path in paths) == 22
    assert sum(path.endswith(" number") for path in paths) >= len(fields) > 150
    assert paths["Task.id behavior"] == ["REQUIRED"]
    assert paths["A2AService.GetTask http rule 1"]["path"] == "/{tenant}/tasks/{id=*}"


def altered(change: Callable[[File], None]) -> FileDescriptor:
    """Our file after `change`, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    needed = [*lf_a2a_v1.DESCRIPTOR.dependencies]
    for file in needed:
        needed += [other for other in file.dependencies if other not in needed]
    protos = {file.name: File.FromString(file.serialized_pb) for file in needed}
    added: set[str] = set()

    def add(name: str) -> None:
        if name not in added:
            added.add(name)
            for dependency in protos[name].dependency:
                add(dependency)
            pool.AddSerializedFile(protos[name].SerializeToString())

    for name in protos:
        add(name)
    mutable = File.FromString(lf_a2a_v1.DESCRIPTOR.serialized_pb)
    change(mutable)
    pool.AddSerializedFile(mutable.SerializeToString())
    return pool.FindFileByName(mutable.name)


def message(file: File, name: str) -> descriptor_pb2.DescriptorProto:
    return next(m for m in file.message_type if m.name == name)


def field(file: File, owner: str, name: str) -> descriptor_pb2.FieldDescriptorProto:
    return next(f for f in message(file, owner).field if f.name == name)


def method(file: File, name: str) -> descriptor_pb2.MethodDescriptorProto:
    return next(m for m in file.service[0].method if m.name == name)


def drop_draft(file: File) -> None:
    for path in OF_THE_DRAFT:
        owner, _, name = path.partition(".")
        found = field(file, owner, name)
        if found.proto3_optional:
            del message(file, owner).oneof_decl[found.oneof_index]
        message(file, owner).field.remove(found)


def drop_message(file: File) -> None:
    file.message_type.remove(message(file, "StringList"))
    entry = message(file, "SecurityRequirement").nested_type[0].field[1]
    entry.type_name = ".lf.a2a.v1.Task"


def drop_field(file: File) -> None:
    message(file, "Task").field.remove(field(file, "Task", "metadata"))


def renumber(file: File) -> None:
    field(file, "ListTaskPushNotificationConfigsRequest", "tenant").number = 5


def retype(file: File) -> None:
    field(file, "Part", "raw").type = descriptor_pb2.FieldDescriptorProto.TYPE_STRING


def unrepeat(file: File) -> None:
    field(file, "Message", "extensions").label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL


def leave_oneof(file: File) -> None:
    other = descriptor_pb2.OneofDescriptorProto(name="other")
    message(file, "StreamResponse").oneof_decl.append(other)
    field(file, "StreamResponse", "task").oneof_index = 1


def lose_presence(file: File) -> None:
    lost = field(file, "GetTaskRequest", "history_length")
    lost.ClearField("proto3_optional")
    lost.ClearField("oneof_index")
    del message(file, "GetTaskRequest").oneof_decl[0]
    field(file, "GetTaskRequest", "current_generation").oneof_index = 0


def rename_json(file: File) -> None:
    field(file, "Task", "context_id").json_name = "sessionId"


def renumber_enum_value(file: File) -> None:
    file.enum_type[0].value[-1].number = 9


def redirect(file: File) -> None:
    method(file, "CancelTask").output_type = ".lf.a2a.v1.Message"


def stop_streaming(file: File) -> None:
    method(file, "SubscribeToTask").server_streaming = False


def move_path(file: File) -> None:
    options = method(file, "GetTask").options
    # The extension is unknown to this class of options until annotations_pb2 names it; facts.py imports it.
    from google.api import annotations_pb2

    options.Extensions[annotations_pb2.http].get = "/task/{id=*}"


def require_less(file: File) -> None:
    field(file, "Task", "id").ClearField("options")


@each(
    ("change", "where"),
    [
        (drop_message, "StringList fields"),
        (drop_field, "Task.metadata number"),
        (renumber, "ListTaskPushNotificationConfigsRequest.tenant number"),
        (retype, "Part.raw type"),
        (unrepeat, "Message.extensions label"),
        (leave_oneof, "StreamResponse oneof other"),
        (lose_presence, "GetTaskRequest.history_length presence"),
        (rename_json, "Task.context_id json name"),
        (renumber_enum_value, "TaskState values"),
        (redirect, "A2AService.CancelTask response"),
        (stop_streaming, "A2AService.SubscribeToTask streaming"),
        (move_path, "A2AService.GetTask http rule 0"),
        (require_less, "Task.id behavior"),
    ],
)
def test_a_planted_difference_is_named(change: Callable[[File], None], where: str) -> None:
    found = differences(facts(altered(change)), facts(lf_a2a_v1.DESCRIPTOR))
    assert where in {line.partition(":")[0] for line in found}


def test_an_unchanged_copy_does_not_differ() -> None:
    assert differences(facts(altered(lambda _file: None)), facts(lf_a2a_v1.DESCRIPTOR)) == []


def test_file_options_and_comments_are_not_compared() -> None:
    def decorate(file: File) -> None:
        file.options.java_package = "org.example"
        file.source_code_info.location.add(leading_comments="words")

    assert differences(facts(altered(decorate)), facts(lf_a2a_v1.DESCRIPTOR)) == []


def test_the_pool_is_not_protobufs_default() -> None:
    assert _pool.POOL is not descriptor_pool.Default()
    assert lf_a2a_v1.DESCRIPTOR.pool is _pool.POOL
