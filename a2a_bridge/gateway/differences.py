"""What happened to a task between two looks at it, as the events that would have told it. It calls nobody.

A stream that broke and cannot be resumed leaves a hole; the task as it is now tells most of what was in it. Rules:
1. Whoever adds the events to the task as it was has the status and artifacts that it has now.
2. An artifact that only grew is told by what was added, so that readers of chunks get nothing twice; one that changed
   otherwise is told whole.
3. What the agent said in between is in the history only, without the state it was said in: it is told with the state
   known last. What callers said is no event.
"""

from __future__ import annotations

from a2a_bridge.core.lifecycle import add_artifact
from a2a_bridge.core.messages import RUNNING, TERMINAL
from a2a_bridge.dialects.marks import SYNTHESISED
from a2a_bridge.pb import lf_a2a_v1 as hub


def missed(
    before: hub.Task, now: hub.Task, *, history: bool = True, status: bool = True
) -> list[hub.StreamResponse]:
    """The events between `before` and `now`, in an order that is possible.

    history: whether that of `before` is whole, so that what it lacks is new. status: whether that of `now` is told.
    """
    said = _said(before, now) if history and status else []
    found = [hub.StreamResponse(status_update=update) for update in said]
    ended = now.status.state in TERMINAL
    for artifact in now.artifacts:
        update = _grown(before, artifact)
        if update is not None:
            update.task_id, update.context_id = now.id, now.context_id
            update.last_chunk = ended
            found.append(hub.StreamResponse(artifact_update=update))
    # What was said in between moved the status, also where it is what it was before.
    if status and (said or _moved(before.status, now.status)):
        final = hub.TaskStatusUpdateEvent(task_id=now.id, context_id=now.context_id, status=now.status)
        for name, value in now.metadata.fields.items():
            if name == SYNTHESISED:
                continue
            if name not in before.metadata.fields or before.metadata.fields[name] != value:
                final.metadata.fields[name].CopyFrom(value)
        found.append(hub.StreamResponse(status_update=final))
    return found


def _said(before: hub.Task, now: hub.Task) -> list[hub.TaskStatusUpdateEvent]:
    """What the agent said in between, other than with the status it has now."""
    known = {message.message_id for message in before.history}
    known |= {before.status.message.message_id, now.status.message.message_id, ""}
    state = before.status.state if before.status.state in RUNNING else hub.TASK_STATE_WORKING
    if state == hub.TASK_STATE_SUBMITTED:
        state = hub.TASK_STATE_WORKING
    found = []
    for message in now.history:
        if message.role != hub.ROLE_AGENT or message.message_id in known:
            continue
        update = hub.TaskStatusUpdateEvent(task_id=now.id, context_id=now.context_id)
        update.status.state = state
        update.status.message.CopyFrom(message)
        found.append(update)
    return found


def _grown(before: hub.Task, artifact: hub.Artifact) -> hub.TaskArtifactUpdateEvent | None:
    """How an artifact came to be what it is; None when it has not changed."""
    known = next((one for one in before.artifacts if one.artifact_id == artifact.artifact_id), None)
    if known is None:
        return hub.TaskArtifactUpdateEvent(artifact=artifact)
    if known == artifact:
        return None
    count = len(known.parts)
    if count <= len(artifact.parts) and list(artifact.parts[:count]) == list(known.parts):
        update = hub.TaskArtifactUpdateEvent(append=True)
        added = update.artifact
        added.artifact_id = artifact.artifact_id
        added.parts.extend(artifact.parts[count:])
        if artifact.name != known.name:
            added.name = artifact.name
        if artifact.description != known.description:
            added.description = artifact.description
        added.extensions.extend(one for one in artifact.extensions if one not in known.extensions)
        if artifact.metadata != known.metadata:
            added.metadata.CopyFrom(artifact.metadata)
        trial = hub.Task(artifacts=[known])
        add_artifact(trial, update)
        if trial.artifacts[0] == artifact:
            return update
    return hub.TaskArtifactUpdateEvent(artifact=artifact)


def _moved(before: hub.TaskStatus, now: hub.TaskStatus) -> bool:
    """Whether a status is another one. A time that only one of the two tells makes no difference."""
    if before.state != now.state or before.HasField("message") != now.HasField("message"):
        return True
    if before.message != now.message:
        return True
    both = before.HasField("timestamp") and now.HasField("timestamp")
    return both and before.timestamp != now.timestamp
