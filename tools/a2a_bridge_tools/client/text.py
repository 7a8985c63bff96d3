"""Results as text (SPEC.md 9.2): one `Label: value` a line, and blocks. A block is its label on a line, its
content, and an empty line; it has no fields. No part is dropped: texts and data are blocks, a file is a field
with its name, type and size.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from a2a_bridge.codec import encoder
from a2a_bridge.core import lifecycle
from a2a_bridge.core.messages import INTERRUPTED
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Struct, Value

_encode_value = encoder(Value)
_encode_struct = encoder(Struct)


def field(label: str, value: object) -> str:
    """A field, on one line."""
    return f"{label}: {value}".replace("\r\n", " ").replace("\n", " ").rstrip() + "\n"


def block(label: str, content: str) -> str:
    """A block."""
    return f"{label}:\n{content.removesuffix(chr(10))}\n\n"


def state_name(state: hub.TaskState) -> str:
    """The state of a task as text: `input-required`."""
    return lifecycle.state_name(state).lower().replace("_", "-")


def _pretty(tree: Any) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False)


def metadata(message: Any) -> Iterator[str]:
    """The metadata of anything that has some."""
    if message.HasField("metadata") and message.metadata.fields:
        yield block("Metadata", _pretty(_encode_struct(message.metadata)))


def file_words(part: hub.Part) -> str:
    """Name, type and size of a file, or its URL."""
    kind = part.media_type or "application/octet-stream"
    if part.WhichOneof("content") == "url":
        return " ".join(filter(None, (part.url, part.filename, part.media_type)))
    return f"{part.filename or '(no name)'} {kind} {len(part.raw)} bytes"


def parts(found: Iterable[hub.Part], label: str = "Text", *, verbose: bool = False) -> Iterator[str]:
    """The parts of a message or an artifact. label: of texts."""
    texts: list[str] = []
    for part in found:
        if part.WhichOneof("content") == "text" and not verbose:
            texts.append(part.text)  # several texts in a row are one: chunks of a stream
            continue
        if texts:
            yield block(label, "".join(texts))
            texts.clear()
        which = part.WhichOneof("content")
        if which == "text":
            if part.media_type:
                yield field("Media type", part.media_type)
            yield block(label, part.text)
        elif which == "data":
            yield block("Data", _pretty(_encode_value(part.data)))
        elif which is None:
            yield field("Part", "without content")
        else:
            yield field("File", file_words(part))
        if verbose:
            yield from metadata(part)
    if texts:
        yield block(label, "".join(texts))


def plain(found: Iterable[hub.Part]) -> Iterator[str]:
    """The parts of an answer without labels: texts as they are, and other parts on lines of their own."""
    for part in found:
        match part.WhichOneof("content"):
            case "text":
                yield part.text
            case "data":
                yield f"{_pretty(_encode_value(part.data))}\n"
            case None:
                continue
            case _:
                yield f"{file_words(part)}\n"


def answer(one: hub.Task | hub.Message) -> Iterator[str]:
    """What an agent answers, without labels, each artifact on lines of its own: the artifacts of a task, and
    the message of its status if there are none, or if it asks.
    """
    blocks = [one.parts] if isinstance(one, hub.Message) else [each.parts for each in one.artifacts]
    if isinstance(one, hub.Task) and (not blocks or one.status.state in INTERRUPTED):
        blocks.append(one.status.message.parts)
    for parts_ in blocks:
        said = "".join(plain(parts_))
        if said:
            yield said if said.endswith("\n") else f"{said}\n"


def identity(task_id: str, context_id: str, state: hub.TaskState) -> Iterator[str]:
    """What a command needs to go on with a task."""
    yield field("Task", task_id)
    yield field("Context", context_id)
    yield field("State", state_name(state))


def artifact(one: hub.Artifact, *, verbose: bool = False) -> Iterator[str]:
    """An artifact."""
    yield field("Artifact", " ".join(filter(None, (one.artifact_id, one.name))))
    if verbose and one.description:
        yield field("Description", one.description)
    yield from parts(one.parts, verbose=verbose)
    if verbose:
        yield from metadata(one)


def message(one: hub.Message, label: str = "Text", *, verbose: bool = False) -> Iterator[str]:
    """A message that is no part of a task."""
    yield field("Message", one.message_id)
    if one.task_id:
        yield field("Task", one.task_id)
    if one.context_id:
        yield field("Context", one.context_id)
    yield from parts(one.parts, label, verbose=verbose)
    if verbose:
        yield from metadata(one)


def task(one: hub.Task, *, verbose: bool = False, history: bool = False) -> Iterator[str]:
    """A task. history: with its messages."""
    yield from identity(one.id, one.context_id, one.status.state)
    if one.status.HasField("timestamp"):
        yield field("Updated", one.status.timestamp.ToJsonString())
    yield from parts(one.status.message.parts, "Status message", verbose=verbose)
    for made in one.artifacts:
        yield from artifact(made, verbose=verbose)
    if verbose or history:
        for said in one.history:
            yield field(
                "History", f"{hub.Role.Name(said.role).removeprefix('ROLE_').lower()} {said.message_id}"
            )
            yield from parts(said.parts, verbose=verbose)
    if verbose:
        yield from metadata(one)


def event(one: hub.StreamResponse, *, verbose: bool = False) -> Iterator[str]:
    """An event of a stream."""
    which = one.WhichOneof("payload")
    if which == "task":
        yield from task(one.task, verbose=verbose)
    elif which == "message":
        yield from message(one.message, verbose=verbose)
    elif which == "status_update":
        update = one.status_update
        yield from identity(update.task_id, update.context_id, update.status.state)
        yield from parts(update.status.message.parts, "Status message", verbose=verbose)
    elif which == "artifact_update":
        yield from artifact(one.artifact_update.artifact, verbose=verbose)


def card(one: hub.AgentCard, *, verbose: bool = False) -> Iterator[str]:
    """A card: identity, interfaces, capabilities, security and skills."""
    yield field("Name", one.name)
    yield field("Version", one.version)
    yield field("Description", one.description)
    if one.HasField("provider"):
        yield field("Provider", f"{one.provider.organization} {one.provider.url}".strip())
    for place in one.supported_interfaces:
        words = [place.protocol_binding, place.protocol_version, place.url]
        yield field("Interface", " ".join([*words, *(("tenant", place.tenant) if place.tenant else ())]))
    able = one.capabilities
    yield field("Streaming", "yes" if able.streaming else "no")
    yield field("Push notifications", "yes" if able.push_notifications else "no")
    yield field("Extended card", "yes" if able.extended_agent_card else "no")
    for extension in able.extensions:
        yield field("Extension", extension.uri + (" (required)" if extension.required else ""))
    for name, scheme in sorted(one.security_schemes.items()):
        yield field(
            "Security",
            f"{name} {(scheme.WhichOneof('scheme') or 'unknown').removesuffix('_security_scheme')}",
        )
    for requirement in one.security_requirements:
        yield field("Requires", " and ".join(requirement.schemes) or "nothing")
    for skill in one.skills:
        yield field("Skill", f"{skill.id} — {skill.name}: {skill.description}")
        if verbose:
            yield from (field("Example", example) for example in skill.examples)
