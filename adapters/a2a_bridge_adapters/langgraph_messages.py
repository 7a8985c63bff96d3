"""Messages of graphs: what a graph says while it runs, and at its end.

Rules:
1. Nodes give messages in many forms, and a node that streams a message often returns another one. Therefore
   the messages of the state count, after each step; the stream only anticipates them.
2. Chat models and nodes name their messages by ids, which the state keeps.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_messages

from a2a_bridge.hosting.executor import Event
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import Answer, file_part, url_part
from a2a_bridge_adapters.langgraph_nodes import Path

#: the channel of chat messages
MESSAGES = "messages"
#: kinds of content blocks with a file
_FILES = ("image", "audio", "video", "file", "media", "image_url")
#: those that are pictures, also if they do not say of which kind
_PICTURES = ("image", "image_generation_call")

_Key = tuple[str, ...]


class Spoken:
    """The messages of one run of a graph.

    nodes: those whose messages are the answer; empty for all. last: from `last_nodes`.
    """

    def __init__(self, answer: Answer, nodes: frozenset[str], last: Mapping[Path, frozenset[str]]) -> None:
        self._answer, self._nodes, self._last = answer, nodes, last
        #: by graph: the messages that its state had before, and after each of its steps
        self._before: dict[_Key, frozenset[Any]] = {}
        self._known: dict[_Key, frozenset[Any]] = {}
        #: by graph: what its nodes have given since its state was seen
        self._given: dict[_Key, list[tuple[str, list[BaseMessage]]]] = {}
        #: the messages that stream: by graph, the places with the ids of their messages
        self._streams: dict[_Key, dict[str, str | None]] = {}
        #: names of messages of `nodes`, and of those whose files were told
        self._wanted: set[Any] = set()
        self._filed: set[Any] = set()

    def events(self, graph: _Key, mode: str, value: Any) -> Iterator[Event]:
        """The events for an item of the stream. graph: its namespace."""
        if mode == "messages":
            yield from self._chunk(graph, *value)
        elif mode == "updates" and isinstance(value, dict):
            given = self._given.setdefault(graph, [])
            given += [(name, messages_in(update)) for name, update in value.items()]
        elif mode == "values":
            yield from self._step(graph, value)

    def settle(self, values: Mapping[str, Any]) -> Iterator[Event]:
        """The events at the end of the graph. values: of its state."""
        found = self._new((), values, self._before)
        spoken = [one for one in found if isinstance(one, AIMessage)]
        # A tool may end the graph with its result.
        last = next(
            (place for place, one in enumerate(found[::-1]) if isinstance(one, AIMessage)), len(found)
        )
        texts = [str(one.text) for one in (*spoken, *found[len(found) - last :])]
        yield from self._answer.settle(*texts)
        for one in spoken:
            yield from self._files(one)

    def _chunk(self, graph: _Key, message: Any, about: Mapping[str, Any]) -> Iterator[Event]:
        """A piece of a message of a model."""
        if not isinstance(message, AIMessageChunk):
            return  # the state has it at the end of its step
        if text := str(message.text):
            if self._nodes and about["langgraph_node"] not in self._nodes:
                return
            place = str(about["langgraph_checkpoint_ns"])
            nodes = [one.rpartition(":")[0] for one in place.split("|")]
            self._streams.setdefault(graph, {})[place] = message.id
            yield from self._answer.text(message.id or place, text, place, guarded=self._is_guarded(nodes))

    def _step(self, graph: _Key, values: Any) -> Iterator[Event]:
        """The end of a step: its messages are in the state."""
        if graph not in self._known:
            self._before[graph] = self._known[graph] = frozenset(_names(messages_in(values)))
            return
        given = self._given.pop(graph, [])
        for name, messages in given:
            if name in self._nodes:
                self._wanted |= {one.id or str(one.text) for one in messages}
        streams = self._streams.pop(graph, {})
        around = [one.rpartition(":")[0] for one in graph]
        guarded = any(self._is_guarded([*around, name]) for name, _ in given)
        new = [one for one in self._new(graph, values, self._known) if isinstance(one, AIMessage)]
        self._known[graph] |= frozenset(_names(messages_in(values)))
        for message in new:
            place = self._place(streams, message, alone=len(new) == 1)
            streams.pop(place, None)
            if text := str(message.text):
                yield from self._answer.keep(place, text, guarded=guarded)
            if not guarded:
                yield from self._files(message)
        for place in streams:
            yield from self._answer.keep(place)

    def _place(self, streams: Mapping[str, str | None], message: AIMessage, *, alone: bool) -> str:
        """The place that has streamed a message of the state; empty if none has."""
        for place, name in streams.items():
            if name == message.id or self._answer.heard(place) == str(message.text):
                return place
        return next(iter(streams)) if alone and len(streams) == 1 else ""

    def _new(self, graph: _Key, values: Any, before: Mapping[_Key, frozenset[Any]]) -> list[BaseMessage]:
        """The messages of a state that were not in it before."""
        messages = messages_in(values)
        known = before.get(graph)
        if known is None:
            return []
        found = [one for name, one in zip(_names(messages), messages, strict=True) if name not in known]
        if not self._nodes:
            return found
        return [one for one in found if one.id in self._wanted or str(one.text) in self._wanted]

    def _is_guarded(self, nodes: Sequence[str]) -> bool:
        """True if nodes may come after the text of a node. nodes: those around it, and itself."""
        return any(name not in self._last.get(tuple(nodes[:depth]), ()) for depth, name in enumerate(nodes))

    def _files(self, message: AIMessage) -> Iterator[Event]:
        if message.id not in self._filed:
            self._filed.add(message.id)
            for part in files_of(message):
                yield self._answer.part(part)


def messages_in(update: Any) -> list[BaseMessage]:
    """The messages in a state, or in what a node gives: dictionaries and pairs, too."""
    found: list[BaseMessage] = []
    for one in update if isinstance(update, list) else [update]:
        given = one.get(MESSAGES) if isinstance(one, dict) else None
        try:
            found += convert_to_messages(given if isinstance(given, list) else [given] if given else [])
        except (NotImplementedError, TypeError, ValueError):
            continue  # it is for a reducer of the graph, and is seen in the state
    return found


def _names(messages: Sequence[BaseMessage]) -> list[Any]:
    """The names of the messages of a state: their ids, or places."""
    return [one.id or place for place, one in enumerate(messages)]


def files_of(message: AIMessage) -> Iterator[hub.Part]:
    """The files in a message of a model."""
    if isinstance(message.content, str):
        return
    try:
        blocks: Any = message.content_blocks
    except (AttributeError, KeyError, TypeError, ValueError):
        blocks = message.content  # LangChain reads the form of the provider that the message names only
    for block in blocks:
        if isinstance(block, dict) and (part := _file(block)) is not None:
            yield part


def _file(block: Mapping[str, Any]) -> hub.Part | None:
    """A content block as a part, also one of LangChain 0 or of a provider; None if it has no file."""
    kind, value = block.get("type"), block.get("value")
    if kind == "non_standard" and isinstance(value, dict):
        return _file(value)
    media_type = str(block.get("mime_type") or ("image/png" if kind in _PICTURES else ""))
    place = block.get("image_url") if kind == "image_url" else block.get("url")
    if isinstance(place, dict):
        place = place.get("url")
    encoded = (
        block.get("result") if kind == "image_generation_call" else block.get("base64") or block.get("data")
    )
    if kind not in (*_FILES, *_PICTURES):
        return None
    if isinstance(encoded, str):
        return file_part(base64.b64decode(encoded), media_type)
    return url_part(place, media_type) if isinstance(place, str) else None
