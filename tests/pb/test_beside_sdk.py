"""a2a_bridge and a2a-sdk live in one process, whichever comes first; this tests no behaviour of the SDK."""

import subprocess
import sys
import textwrap

import pytest

from tests.patience import PATIENCE

pytestmark = pytest.mark.process

OURS = "from a2a_bridge.pb import _pool, google_protobuf, google_rpc, lf_a2a_v1 as ours"
THEIRS = "from a2a.types import a2a_pb2 as theirs"

#: Makes, serializes and parses on both sides, and hands bytes over both ways.
SCRIPT = """
import pickle
from google.rpc import error_details_pb2

assert ours.Task is not theirs.Task
assert ours.Task.DESCRIPTOR.full_name == theirs.Task.DESCRIPTOR.full_name

def fill(module):
    task = module.Task(id="t", context_id="c", artifacts=[{"artifact_id": "a"}])
    task.status.state = module.TASK_STATE_COMPLETED
    task.status.timestamp.FromJsonString("2026-02-03T04:05:06Z")
    task.artifacts[0].parts.add(raw=b"\\x00\\xff", media_type="image/png")
    part = task.artifacts[0].parts.add()
    part.data.struct_value.update({"n": 7, "list": [None, True, {"deep": "x"}]})
    task.metadata.update({"k": "v"})
    return task

mine, sdks = fill(ours), fill(theirs)
data = mine.SerializeToString(deterministic=True)
assert data == sdks.SerializeToString(deterministic=True)
assert theirs.Task.FromString(data) == sdks
assert ours.Task.FromString(sdks.SerializeToString()) == mine
assert type(mine.metadata) is google_protobuf.Struct
assert type(sdks.metadata) is not google_protobuf.Struct

# The default pool knows a class of this name too; pickle must come back with ours.
violation = google_rpc.BadRequest.FieldViolation(field="f")
assert type(pickle.loads(pickle.dumps(violation))) is google_rpc.BadRequest.FieldViolation
assert type(pickle.loads(pickle.dumps(mine))) is ours.Task
theirs_violation = error_details_pb2.BadRequest.FieldViolation(field="f")
assert violation.SerializeToString() == theirs_violation.SerializeToString()
print("both work")
"""


@pytest.mark.sdk
@pytest.mark.parametrize("imports", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours first", "sdk first"])
def test_both_work_in_one_process(imports: tuple[str, str]) -> None:
    script = "\n".join(imports) + textwrap.dedent(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "both work\n")


def test_importing_ours_leaves_the_default_pool_alone() -> None:
    script = """
from google.protobuf import descriptor_pool
import a2a_bridge.pb.google_rpc, a2a_bridge.pb.lf_a2a_v1
for name in ("lf/a2a/v1/a2a.proto", "google/rpc/status.proto", "google/api/http.proto", "google/protobuf/struct.proto"):
    try:
        descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        continue
    raise SystemExit(name + " is in the default pool")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
