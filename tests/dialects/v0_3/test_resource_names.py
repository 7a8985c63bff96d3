"""Resource names of a2a.v1: their content, their errors, and that no id is lost in one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.v0_3 import proto_rows
from a2a_bridge.testing.each import each
from tests.rejections import rejected

IDS = st.text(st.sampled_from("/%2F5f25a1 ö") | st.characters(exclude_categories=["Cs"]), min_size=1)


@given(task_id=IDS, config_id=IDS)
@example(task_id="a/b", config_id="100%")
@example(task_id="%2F", config_id="%25")
@example(task_id="%%2f/", config_id="%2")
def test_every_id_survives_in_a_name(task_id: str, config_id: str) -> None:
    assert proto_rows.decode_task(proto_rows.encode_task(task_id)) == task_id
    assert proto_rows.decode_parent(proto_rows.encode_task(task_id)) == task_id
    assert proto_rows.decode_config(proto_rows.encode_config(task_id, config_id)) == (task_id, config_id)


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("7f0c", "tasks/7f0c"),
        ("a/b", "tasks/a%2Fb"),
        ("100%", "tasks/100%"),
        ("%41", "tasks/%41"),
        ("%2F", "tasks/%252F"),
        ("%25", "tasks/%2525"),
        ("", ""),
    ],
)
def test_only_necessary_characters_are_escaped(task_id: str, name: str) -> None:
    assert proto_rows.encode_task(task_id) == name


@pytest.mark.parametrize(
    "parent",
    [
        "tasks/t",
        "task/t",
        "tasks/t/pushNotificationConfigs",
        "task/t/pushNotificationConfigs",
        "tasks/t/pushNotificationConfigs/",
    ],
)
def test_parents_are_read_in_every_variant_they_have_had(parent: str) -> None:
    assert proto_rows.decode_parent(parent) == "t"


@pytest.mark.parametrize("name", ["tasks/t/pushNotificationConfigs", "tasks/t/pushNotificationConfigs/"])
def test_a_configuration_may_have_no_id_yet(name: str) -> None:
    assert proto_rows.decode_config(name) == ("t", "")
    with pytest.raises(A2AError) as caught:
        proto_rows.decode_whole_config(name)
    assert caught.value.violations[0].field == "name"


@each(
    "name", ["tasks/a/b", "tasks/", "tasks", "t", "task/t", "/tasks/t", "tasks/t/", "xtasks/t", "tasks/t\n/x"]
)
def test_an_invalid_task_name_is_rejected_as_a_whole(name: str) -> None:
    with rejected(Reason.INVALID_PARAMS, "name"):
        proto_rows.decode_task(name)


def test_an_empty_name_counts_as_missing() -> None:
    with pytest.raises(A2AError, match="parent: is required"):
        proto_rows.decode_parent("")
