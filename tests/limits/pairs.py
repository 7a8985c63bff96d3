"""Every pair of bounds of the product, and for each side of it a test that fails without that side.

`python -m tests.limits.pairs [TEXT]` proves it: it takes each side away, in a copy of the sources, and runs its
test, which has to fail. TEXT: only the pairs of files with this text in their path. `test_pairs.py` finds the
pairs in the sources, so that none is left out here.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = ("a2a_bridge", "transports", "adapters", "tools")

#: names of limits: constants, and members of rules and options
_LIMIT = re.compile(r"(^|\.)_?[A-Z][A-Z_]+$|(rules|_options)\.\w+$|(^|\.)_?(most|kept|longest|largest)\w*$")


class Found(NamedTuple):
    """A pair in the sources. start, end: its place in the bytes of the file. sides: the text of each."""

    file: str
    condition: str
    start: int
    end: int
    word: str
    sides: tuple[str, ...]


def found(root: Path = ROOT) -> Iterator[Found]:
    """The pairs in the sources."""
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            if "pb" in path.parts or ".build" in path.parts:
                continue
            text = path.read_text()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.BoolOp) and sum(map(_is_bound, node.values)) > 1:
                    yield _pair(str(path.relative_to(root)), text, node)


def _pair(file: str, text: str, node: ast.BoolOp) -> Found:
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    word = " and " if isinstance(node.op, ast.And) else " or "
    return Found(file, ast.unparse(node), start, end, word, tuple(map(ast.unparse, node.values)))


def _is_bound(node: ast.expr) -> bool:
    """Whether a condition compares something with a limit."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.BoolOp):
        return any(map(_is_bound, node.values))
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
        return False
    names = (one for one in ast.walk(node.comparators[0]) if isinstance(one, ast.Name | ast.Attribute))
    return any(_LIMIT.search(ast.unparse(one)) for one in names)


def main(text: str = "") -> int:
    """Takes each side away and runs its test. Returns the number of sides whose test does not fail."""
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(
            ["tar", "c", "--null", "-T", "-", "-f", f"{copy}/all.tar"], cwd=ROOT, input=files, check=True
        )
        subprocess.run(["tar", "xf", "all.tar"], cwd=copy, check=True)
        for pair in [one for one in found() if text in one.file]:
            for number, side in enumerate(pair.sides):
                test = SHOWN[pair.file][side]
                if test.startswith("#"):
                    continue
                seen = _is_seen(copy, pair, number, test)
                survivors += not seen
                print("seen    " if seen else "NOT SEEN", pair.file, side, test, flush=True)
    return survivors


def _is_seen(copy: Path, pair: Found, number: int, test: str) -> bool:
    """Whether a test fails without one side of a pair."""
    rest = [f"({one})" for at, one in enumerate(pair.sides) if at != number]
    whole = (copy / pair.file).read_bytes()
    try:
        changed = f"({pair.word.join(rest)})".encode()
        (copy / pair.file).write_bytes(whole[: pair.start] + changed + whole[pair.end :])
        path = os.pathsep.join([str(copy), *(str(copy / one) for one in SOURCES[1:])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
        done = subprocess.run(
            command, cwd=copy, env=environment, check=False, capture_output=True, timeout=900
        )
    finally:
        (copy / pair.file).write_bytes(whole)
    return done.returncode == 1


#: file → side → what shows it: a test, a file with a table or a model, or after `#` the reason why no test can see it
SHOWN = {
    "a2a_bridge/bindings/memory.py": {
        "len(self._entries) > self._most": "tests/gateway/test_contexts.py::test_so_many_are_remembered_and_none_that_is_over",
        "self.size > self._most_bytes and len(self._entries) > 1": "tests/gateway/test_task_memory.py::test_a_table_has_limits_of_its_own",
    },
    "a2a_bridge/bindings/offload.py": {
        "bound <= ALLOWANCE": "# only slower: the values are counted in a worker, too",
        "not most or bound <= most": "tests/limits/test_values.py::test_a_limit_below_what_is_decoded_at_once_counts",
    },
    "a2a_bridge/cluster/calls.py": {
        "now - since < _KEPT": "tests/cluster/test_accepted.py::test_results_are_kept_for_a_while_and_ids_for_longer",
        "self._result_bytes <= _KEPT_BYTES or oldest == call_id": "tests/cluster/test_accepted.py::test_results_are_kept_for_a_while_and_ids_for_longer",
        "now - since < _KNOWN": "tests/cluster/test_accepted.py::test_results_are_kept_for_a_while_and_ids_for_longer",
        "len(self._known) <= _MOST": "tests/cluster/test_accepted.py::test_results_are_kept_for_a_while_and_ids_for_longer",
    },
    "a2a_bridge/codec/budget.py": {
        "count > most": "# only slower: the count is the same at the end",
        "steps > _FIELDS * most": "tests/codec/test_plan.py::test_too_many_are_noticed_early",
    },
    "a2a_bridge/codec/free_json.py": {
        "len(wire) > _LARGE": "# only slower: the second step looks at each message more exactly",
        "wire.count(b'\\n') > SHALLOW and wire.count(b'*') + wire.count(b'2') > SHALLOW": "# only slower: the second step looks at each message more exactly",
        "wire.count(b'\\n') > SHALLOW": "# only slower: the second step looks at each message more exactly",
        "wire.count(b'*') + wire.count(b'2') > SHALLOW": "# only slower: the second step looks at each message more exactly",
    },
    "a2a_bridge/codec/structs.py": {
        "len(items) > _FEW": "tests/codec/test_plan.py",
        "type(items[0]) in _NUMERIC": "# only slower: the condition after it finds the same",
        "set(map(type, items)) <= _NUMERIC": "tests/codec/test_plan.py",
        "least >= -EXACT_INTEGER": "tests/codec/test_plan.py::test_integers_of_a_long_list_are_counted_when_they_are_rounded",
        "most <= EXACT_INTEGER": "tests/codec/test_plan.py::test_integers_of_a_long_list_are_counted_when_they_are_rounded",
        "integers == doubles": "tests/codec/test_plan.py",
        "min(integers) >= _LOWEST": "tests/codec/test_plan.py::test_a_list_of_numbers_is_the_same_as_its_numbers_one_by_one",
        "max(integers) < _HIGHEST": "tests/codec/test_plan.py::test_a_list_of_numbers_is_the_same_as_its_numbers_one_by_one",
    },
    "a2a_bridge/core/event_log.py": {
        "len(ends) >= rules.most": "tests/core/test_event_log.py",
        "total - self._dropped > rules.size": "tests/core/test_event_log.py",
        "ahead >= self.rules.lead": "tests/core/test_event_log.py::test_a_writer_is_held_by_events_and_by_bytes",
        "self._total - self._pace_total >= self.rules.lead_size": "tests/core/test_event_log.py::test_a_writer_is_held_by_events_and_by_bytes",
        "self.last - self._pace >= rules.lead": "tests/core/test_event_log.py::test_a_writer_is_held_by_events_and_by_bytes",
        "total - self._pace_total >= rules.lead_size": "tests/core/test_event_log.py::test_a_writer_is_held_by_events_and_by_bytes",
    },
    "a2a_bridge/dialects/scalars.py": {
        "least >= -EXACT_INTEGER": "tests/dialects/test_side_channel.py::test_integers_of_a_list_are_rounded_as_they_are_alone",
        "most <= EXACT_INTEGER": "tests/dialects/test_side_channel.py::test_integers_of_a_list_are_rounded_as_they_are_alone",
    },
    "a2a_bridge/middleware/validate.py": {
        "len(request.tenant) > LONGEST_TENANT": "tests/limits/test_gateway_limits.py::test_names_that_it_keeps",
        "is_sent and len(request.message.context_id) > LONGEST_CONTEXT": "tests/limits/test_gateway_limits.py::test_names_that_it_keeps",
    },
    "a2a_bridge/push/delivery_worker.py": {
        "attempts >= self._options.attempts": "tests/push/test_delivery_worker.py::test_attempts_come_to_an_end",
        "now - since > self._options.age": "tests/push/test_delivery_worker.py::test_nothing_is_tried_for_ever",
    },
    "a2a_bridge/stores/groups.py": {
        "len(self._dirty) > _CROWD": "tests/stores/test_lease_states.py::test_the_changes_of_all_tasks_that_wait_are_bounded_by_number_and_by_bytes",
        "self.queued > _QUEUE_BYTES": "tests/stores/test_lease_states.py::test_the_changes_of_all_tasks_that_wait_are_bounded_by_number_and_by_bytes",
    },
    "a2a_bridge/stores/lease.py": {
        "writer.crowded": "tests/stores/test_lease_states.py::test_the_changes_of_all_tasks_that_wait_are_bounded_by_number_and_by_bytes",
        "batch.size > _MOST_BYTES": "tests/stores/test_lease_states.py::test_the_changes_of_a_task_that_wait_are_bounded_by_number_and_by_bytes",
        "len(batch.events) > _MOST_EVENTS": "tests/stores/test_lease_states.py::test_the_changes_of_a_task_that_wait_are_bounded_by_number_and_by_bytes",
        "len(events) > _MOST_EVENTS": "tests/stores/test_lease_states.py::test_the_changes_of_a_task_that_wait_are_bounded_by_number_and_by_bytes",
    },
    "a2a_bridge/stores/memory.py": {
        "len(self._idle_tasks) > self._kept_logs": "tests/hosting/test_memory_bounds.py::test_events_of_so_many_ended_tasks_are_kept",
        "self._idle_bytes > self._kept_bytes": "tests/hosting/test_memory_bounds.py::test_events_of_ended_tasks_are_kept_up_to_so_many_bytes",
    },
    "tools/a2a_bridge_tools/playground/exchange.py": {
        "len(self._exchanges) <= KEPT": "tests/tools/playground/test_access.py::test_the_history_is_bounded",
        "total <= TOTAL": "tests/tools/playground/test_access.py::test_the_history_is_bounded_in_bytes",
    },
    "tools/a2a_bridge_tools/playground/page.py": {
        "len(self._kept) > KEPT": "tests/tools/playground",
        "self._size > MOST and len(self._kept) > 1": "tests/tools/playground",
    },
    "transports/a2a_bridge_transports/_http/application.py": {
        "self._turn >= BATCH_EVENTS": "tests/transports/test_asgi_mount.py::TestListener::test_an_application_that_only_sends_gives_others_their_turn",
        "len(data) >= BATCH_BYTES": "tests/transports/test_asgi_mount.py::TestListener::test_an_application_that_only_sends_gives_others_their_turn",
    },
    "transports/a2a_bridge_transports/_http/asgi_request.py": {
        "len(parts) >= BATCH_EVENTS": "tests/transports/test_http_asgi.py::test_what_is_ready_is_sent_by_events_by_bytes_and_by_time",
        "self._size >= BATCH_BYTES": "tests/transports/test_http_asgi.py::test_what_is_ready_is_sent_by_events_by_bytes_and_by_time",
        "len(parts) > 1 and monotonic() - self._began > BATCH_TIME": "tests/transports/test_http_asgi.py::test_what_is_ready_is_sent_by_events_by_bytes_and_by_time",
    },
    "transports/a2a_bridge_transports/_http/events.py": {
        "len(parts) >= BATCH_EVENTS": "tests/transports/test_http_streams.py::test_events_that_are_ready_travel_together",
        "self._size >= BATCH_BYTES": "tests/transports/test_http_streams.py::test_large_events_are_not_batched",
        "len(parts) > 1 and monotonic() - self._begun > BATCH_TIME": "tests/transports/test_http_streams.py::test_a_producer_that_only_computes_is_not_held_back",
    },
    "transports/a2a_bridge_transports/_http/response_parser.py": {
        "self._head > MOST_HEAD": "tests/transports/test_http_exchanges.py",
        "len(self._lines) >= MOST_LINES": "tests/transports/test_http_exchanges.py",
    },
}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
