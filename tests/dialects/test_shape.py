"""The compiler of tables of JSON members: when it compiles, and its functions in tracebacks."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from a2a_bridge.codec import DecodeError
from a2a_bridge.codec.plan import Source
from a2a_bridge.dialects.members import Member
from a2a_bridge.dialects.pair import compile_pair
from a2a_bridge.dialects.shape import _COMPILERS, inline, table_of, unit
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub


def artifact() -> Any:
    members = Member("artifactId", always=True), Member("name"), Member("extensions")
    return inline(hub.Artifact, *members, elsewhere=("parts", "description", "metadata"))


def test_a_table_is_compiled_on_its_first_call_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_lines = Source.compile
    monkeypatch.setattr(
        Source, "compile", lambda self, title: (compiled.append(title), compile_lines(self, title))[1]
    )
    shape = artifact()
    assert not compiled
    assert shape.encode(hub.Artifact(artifact_id="a")) == {"artifactId": "a"}
    _COMPILERS[shape].compile()  # like a thread that waited for another one
    assert shape.write({"artifactId": "a"}) == "\n\1a"
    assert len(compiled) == 1


def test_a_canonical_tree_comes_back_and_wrong_members_are_named() -> None:
    shape = artifact()
    tree = {"artifactId": "é", "name": "n", "extensions": ["urn:x"]}
    assert shape.encode(shape.decode(tree)) == tree
    assert shape.decode({"artifactId": "a", "name": None, "later": 1}) == hub.Artifact(artifact_id="a")
    with pytest.raises(DecodeError, match="name: expected a string, got a number"):
        shape.decode({"artifactId": "a", "name": 1})


def test_tracebacks_show_the_lines_of_compiled_functions() -> None:
    shape = artifact()
    with pytest.raises(AttributeError) as caught:
        shape.encode(None)
    frame = caught.traceback[-1]
    line = linecache.getline(str(frame.frame.code.raw.co_filename), frame.lineno + 1)
    assert "message.artifact_id" in line


def test_generators_see_the_members_of_a_table() -> None:
    members, kind = table_of(artifact())
    assert ([one.name for one in members], kind) == (["artifactId", "name", "extensions"], "")


CANCEL = Member("id", always=True), Member("metadata")


def test_a_member_of_the_hub_without_a_place_is_rejected() -> None:
    missing = r"CancelTaskRequest has no place for tenant: .*lacks=.*elsewhere="
    with pytest.raises(TypeError, match=missing):
        unit(hub.CancelTaskRequest, *CANCEL)
    with pytest.raises(TypeError, match=missing):
        inline(hub.CancelTaskRequest, *CANCEL)
    with pytest.raises(TypeError, match=r"Message has no place for reference_task_ids: .*lacks="):
        compile_pair(v0.Message, hub.Message, rename={"content": "parts"})
    with pytest.raises(TypeError, match="has no member tenants"):
        unit(hub.CancelTaskRequest, *CANCEL, lacks=("tenant",), elsewhere=("tenants",))
    with pytest.raises(TypeError, match="cannot keep message"):
        unit(
            hub.SendMessageRequest,
            Member("metadata"),
            lacks=("message", "tenant"),
            elsewhere=("configuration",),
        )


def test_members_that_the_version_lacks_are_kept_in_the_metadata() -> None:
    shape = unit(
        hub.Artifact,
        Member("artifactId", always=True),
        Member("metadata"),
        lacks=("name", "extensions"),
        elsewhere=("parts", "description"),
    )
    plain = hub.Artifact(artifact_id="a")
    assert shape.encode(plain) == {"artifactId": "a"}
    whole = hub.Artifact(artifact_id="a", name="é", extensions=["urn:x", "urn:y"])
    whole.metadata.update({"k": 1})
    tree = shape.encode(whole)
    assert tree.keys() == {"artifactId", "metadata"}
    assert tree["metadata"].keys() == {"k", KEY}
    assert shape.decode(tree) == whole

    forged = {"artifactId": "a", "metadata": {KEY: '{"hub":{"name":[1]}}'}}
    assert not shape.decode(forged).name
