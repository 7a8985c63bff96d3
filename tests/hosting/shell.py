"""Agents whose programs are scripts of the shell, and the content of their tasks. No tests."""

from typing import Any

from a2a_bridge import Agent, Program
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.hosting.scene import Talk

CRASHED = "the agent failed while working on the task"
#: the beginning of a script that writes events
EVENTS = 'echo "$A2A_EVENTS"; '


def shell(script: str, *arguments: str, **options: Any) -> Talk:
    return Talk(Agent(Program("sh", "-c", script, "sh", *arguments, **options), name="test"))


def text_of(task: hub.Task) -> str:
    return "".join(part.text for one in task.artifacts for part in one.parts)


def said(task: hub.Task) -> str:
    return "".join(part.text for part in task.status.message.parts)
