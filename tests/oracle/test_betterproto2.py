"""The codec against betterproto2: a second implementation of protobuf and ProtoJSON, from one .proto.

Its timestamps are datetimes, so the messages compared here have none finer than a microsecond. It writes maps
in the order of its input, so even bytes can be compared.
"""

import json
import os
import random
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc_tools
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_bridge import codec
from a2a_bridge.pb.google_protobuf import Timestamp
from tests.codec.documents import CLASSES, Maker
from tests.codec.required_members import with_required
from tests.patience import PATIENCE
from tests.strategies import messages

# Its classes warn about two OAuth flows, whenever they are created.
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return generate(tmp_path_factory.mktemp("betterproto2"))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.DESCRIPTOR.name)
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_messages_are_equal_both_ways(cls: Any, oracle: ModuleType, data: Any) -> None:
    compare(cls, oracle, data.draw(messages(cls)))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.DESCRIPTOR.name)
def test_random_documents_are_equal_both_ways(cls: Any, oracle: ModuleType) -> None:
    chance = random.Random(cls.DESCRIPTOR.name)
    for _ in range(40):
        document = Maker(chance, errors=0).document(cls.DESCRIPTOR)
        compare(cls, oracle, codec.decode_bytes(cls, json.dumps(document)))


def compare(cls: Any, oracle: ModuleType, message: Any) -> None:
    to_microseconds(message)
    theirs_cls = counterpart(cls, oracle)
    raw_bytes = message.SerializeToString()
    theirs = theirs_cls.parse(raw_bytes)
    assert cls.FromString(bytes(theirs)) == message
    if in_order(cls):
        assert bytes(theirs) == raw_bytes
    # Writing: both print the same; reading: each reads the output of the other.
    tree, printed = codec.encoder(cls)(message), theirs.to_dict()
    assert codec.decode_bytes(cls, json.dumps(printed)) == message
    assert theirs_cls.from_dict(tree) == theirs
    assert cls.FromString(bytes(theirs_cls.from_dict(tree))) == message
    assert tree == with_required(cls.DESCRIPTOR, printed)


def counterpart(cls: Any, oracle: ModuleType) -> Any:
    """Its class of this name; it writes acronyms like any other word (ApiKey…)."""
    (found,) = [name for name in dir(oracle) if name.lower() == cls.DESCRIPTOR.name.lower()]
    return getattr(oracle, found)


def in_order(cls: Any) -> bool:
    """Whether fields are declared by number; betterproto2 writes them as declared, protobuf by number."""
    numbers = [field.number for field in cls.DESCRIPTOR.fields]
    return numbers == sorted(numbers)


def test_all_but_one_message_are_compared_byte_by_byte() -> None:
    assert [cls.DESCRIPTOR.name for cls in CLASSES if not in_order(cls)] == [
        "ListTaskPushNotificationConfigsRequest"
    ]


def to_microseconds(message: Any) -> None:
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in [value] if isinstance(value, Message) else value:
            if isinstance(one, Timestamp):
                one.nanos -= one.nanos % 1000
            else:
                to_microseconds(one)


# Has betterproto2's plugin generate its classes from our .proto, anew for each test session.


ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "betterproto2_oracle"


def generate(folder: Path) -> ModuleType:
    """The module of lf.a2a.v1, generated below a folder, as a package for its relative imports."""
    target = folder / PACKAGE
    target.mkdir()
    protos = ROOT / "proto"
    includes = [
        protos,
        Path(grpc_tools.__file__).parent / "_proto",
        distribution("googleapis-common-protos").locate_file(""),
    ]
    command = [
        sys.executable, "-m", "grpc_tools.protoc", *[f"-I{include}" for include in includes],
        f"--python_betterproto2_out={target}", "lf/a2a/v1/a2a.proto",
    ]  # fmt: skip
    # The plugin stands beside the interpreter, whether or not its environment is activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(
        command,
        cwd=protos,
        env={**os.environ, "PATH": path},
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    sys.path.insert(0, str(folder))
    try:
        return import_module(f"{PACKAGE}.lf.a2a.v1")
    finally:
        sys.path.remove(str(folder))
