"""The behaviour that A2A requires, and the tests that show it, or why there is none: `make matrix`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

SPECIFICATION = "https://github.com/a2aproject/A2A/blob/v{version}/docs/specification.md"


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    #: of the specification
    section: str
    behaviour: str
    #: `file::function` below tests/, or `a2a_bridge/testing/file::function` of a shipped contract
    tests: tuple[str, ...] = ()
    #: why there is no test
    gap: str = ""
    version: str = "1.0.1"

    @property
    def link(self) -> str:
        """The section of the specification."""
        return SPECIFICATION.format(version=self.version)


#: `# section`, with the version if it is an older one; `id: behaviour`; and the tests
TEXT = """
# 3.1.1
send-message: A message is answered by a message, which leaves no task.
  hosting/test_send.py::test_a_direct_answer_is_a_message_and_leaves_no_task
send-task: A message is answered by a task.
  hosting/test_send.py::test_a_task_is_answered_when_it_has_ended
  interop/test_agents_of_the_sdk.py::test_the_official_client_gets_the_same_as_ours
send-terminal: A task in a terminal state takes no further message (UnsupportedOperationError).
  hosting/test_follow_ups.py::test_a_task_that_has_ended_takes_no_message
send-unknown-task: A message to an unknown task is TaskNotFoundError.
  hosting/test_follow_ups.py::test_an_unknown_task_takes_no_message
# 3.1.2
stream-message: A stream with a message has this message only.
  hosting/test_streams.py::test_a_direct_answer_is_the_only_event
stream-task-first: A stream of a task begins with the task.
  hosting/test_streams.py::test_a_task_and_then_its_events
  hosting/test_streams.py::test_an_executor_that_begins_with_an_update_gets_its_task_first
stream-order: Events arrive in order and while the task works.
  hosting/test_streams.py::test_events_come_as_they_are_made
  a2a_bridge/testing/service_contract.py::test_events_arrive_whole_and_in_order
stream-unsupported: Streams are UnsupportedOperationError where the card declares none.
  equivalence/test_rejections.py::test_streams_that_are_not_supported
# 3.1.3
get-task: GetTask returns the current task.
  hosting/test_reading_tasks.py::test_a_live_task_is_shown_as_it_is_now
get-foreign: A task of another principal is TaskNotFoundError, not different from no task.
  equivalence/test_foreign_tasks.py::test_no_answer_tells_them_apart
# 3.1.4
list-order: ListTasks is sorted by the last update, newest first.
  a2a_bridge/testing/store_reading.py::test_lists_begin_with_the_newest
list-pages: Pages have every task once.
  a2a_bridge/testing/store_reading.py::test_pages_have_everything_once
list-filters: Filters by context, state and time.
  a2a_bridge/testing/store_reading.py::test_filters
list-artifacts: Artifacts only with includeArtifacts.
  hosting/test_reading_tasks.py::test_artifacts_are_listed_when_asked_for
list-page-size: A page size outside 1 to 100 is InvalidParams.
  hosting/test_reading_tasks.py::test_page_sizes_are_bounded
list-token: A page token that the agent did not give is InvalidParams.
  hosting/test_reading_tasks.py::test_a_token_that_was_not_given_is_rejected
# 3.1.5
cancel: CancelTask stops the run and returns the canceled task.
  hosting/test_cancel.py::test_a_running_task_is_stopped_and_canceled
cancel-terminal: A task in a terminal state is TaskNotCancelableError.
  hosting/test_cancel.py::test_ended_tasks_cannot_be_canceled
cancel-unknown: An unknown task is TaskNotFoundError.
  hosting/test_cancel.py::test_unknown_and_foreign_tasks_cannot_be_canceled
# 3.1.6
subscribe-snapshot: A subscription begins with the task, then its events without a gap.
  hosting/test_streams.py::test_a_subscriber_gets_a_snapshot_and_the_further_events_without_gap
subscribe-terminal: A subscription to a task in a terminal state is UnsupportedOperationError.
  hosting/test_streams.py::test_there_is_nothing_to_subscribe_to_after_the_end
subscribe-many: Every subscriber gets the same events in the same order.
  equivalence/test_streams.py::test_many_subscribers_see_the_same
subscribe-leave: A subscriber that leaves does not affect the task.
  equivalence/test_streams.py::test_who_leaves_a_stream_leaves_the_task_alone
# 3.1.7
push-create: A configuration is created; one of the same id is replaced.
  hosting/test_push_configs.py::test_a_created_config_is_returned
  hosting/test_push_configs.py::test_a_config_of_the_same_id_replaces_the_first
push-unsupported: Without the capability: PushNotificationNotSupportedError.
  equivalence/test_rejections.py::test_push_notifications_that_are_not_supported
# 3.1.9
push-list: Pages have every configuration once.
  hosting/test_push_configs.py::test_pages_have_each_config_once
# 3.1.10
push-delete: A deletion may be repeated.
  hosting/test_push_configs.py::test_deleting_may_be_repeated
# 3.1.11
extended-card: The extended card for authenticated callers.
  hosting/test_agent_view.py::test_the_extended_card_is_given
extended-card-missing: A declared card that is not configured: ExtendedAgentCardNotConfiguredError.
  equivalence/test_rejections.py::test_an_extended_card_that_is_promised_and_not_there
extended-card-unsupported: Without the capability: UnsupportedOperationError.
  equivalence/test_rejections.py::test_an_extended_card_that_is_not_supported
# 3.2.2
blocking: Without returnImmediately the answer comes when the task rests.
  hosting/test_send.py::test_a_task_is_answered_when_it_has_ended
return-immediately: With returnImmediately the answer is the task as it begins.
  hosting/test_send.py::test_return_immediately_gives_the_task_as_it_begins
output-modes: Output modes that the agent does not have: ContentTypeNotSupportedError.
  hosting/test_send.py::test_output_modes_that_the_agent_has_none_of_are_rejected
push-in-message: A configuration in a message holds for its task.
  hosting/test_push_configs.py::test_a_config_may_come_with_the_message
# 3.2.4
history-newest: historyLength limits the history to the newest messages.
  hosting/test_reading_tasks.py::test_the_newest_of_the_history_is_shown
history-negative: A negative historyLength is InvalidParams.
  hosting/test_reading_tasks.py::test_a_negative_history_length_is_rejected
history-stream: It holds for tasks in streams too.
  hosting/test_streams.py::test_history_length_holds_for_the_task_in_a_stream
# 3.2.6
parameters: Service parameters travel as headers and metadata, by permission.
  a2a_bridge/testing/binding_contract.py::test_parameters_travel_by_permission
extensions-header: Declared extensions arrive, active ones are answered.
  a2a_bridge/testing/service_contract.py::test_extensions_go_there_and_back
# 3.3.1
idempotent-send: A message that is sent twice is processed once (--idempotent-sends).
  hosting/test_idempotency.py::test_a_task_is_made_once
# 3.3.2
errors-table: Each error has one code or status per binding.
  dialects/test_error_tables.py::test_a_reason_comes_back
  equivalence/test_rejections.py::test_statuses_follow_the_table
errors-alike: Bad input is the same error on every binding, with the member named.
  equivalence/test_rejections.py::test_a_fault_is_the_same_error_on_every_binding
errors-private: Errors of the server do not show exception text.
  a2a_bridge/testing/binding_contract.py::test_defects_stay_in
  transports/test_grpc_server.py::test_defects_are_logged_and_not_sent
# 3.4.1
context-generated: The agent makes a context id where the message has none, else keeps it.
  hosting/test_send.py::test_a_context_is_made_or_kept
context-mismatch: A context other than that of the task is rejected.
  hosting/test_follow_ups.py::test_another_context_than_the_tasks_is_rejected
# 3.4.3
input-required: A task that asks goes on with the answer.
  hosting/test_follow_ups.py::test_a_waiting_task_continues
  hosting/test_streams.py::test_a_stream_ends_when_input_is_asked_for
auth-required: A stream stays open while authentication is required.
  hosting/test_streams.py::test_a_stream_continues_while_authentication_is_required
# 3.5.3
push-delivery: Every event of a task with configurations is delivered, in order.
  push/test_delivery_worker.py::test_events_arrive_in_order_with_their_headers
  hosting/test_push_configs.py::test_every_event_of_a_task_that_has_configs_goes_to_the_outbox
# 3.6
version-declared: A2A-Version decides; major and minor count.
  equivalence/test_rejections.py::test_a_good_version_is_served_on_every_binding
  dialects/test_detect.py::test_major_and_minor_count
version-unsupported: Another version: VersionNotSupportedError.
  equivalence/test_rejections.py::test_a_bad_version_is_rejected_on_every_binding
version-absent: No version means 0.3.
  equivalence/test_rejections.py::test_no_version_means_0_3_where_the_address_does_not_say
# 4.3
push-payload: A notification is a StreamResponse.
  push/test_notification.py::test_in_1_0_it_is_the_event
push-headers: Token and credentials are headers.
  push/test_notification.py::test_token_and_credentials_are_headers
# 4.4
card-interfaces: The card lists the served interfaces, the preferred one first.
  cards/test_build.py::test_exactly_the_mounted_ones_in_their_order
card-valid: The card of a version has no member of another.
  cards/test_build.py::test_a_card_of_1_0_has_no_member_of_another_version
  cards/test_read_by_versions.py::test_the_sdk_of_1_0_reads_the_content_of_1_0
# 4.6
extension-required: A required extension that is not declared: ExtensionSupportRequiredError.
  equivalence/test_rejections.py::test_an_extension_that_is_required
# 5.1
equivalence: Every binding gives the same results.
  equivalence/test_scenarios.py::test_a_conversation_reads_the_same_everywhere
  equivalence/test_streams.py::test_any_request_has_the_same_outcome
identity-through-gateways: Requests, answers and events mean the same behind two gateways, with any versions and bindings.
  gateway/test_identity_combinations.py::test_agents_get_the_content_of_callers
  gateway/test_identity_combinations.py::test_callers_get_the_content_of_agents
# 5.5
json-names: ProtoJSON: names in camelCase, enums as names, as protobuf's own library reads them.
  codec/test_second_opinion.py::test_kept_documents_decode_and_encode_as_json_format_does
json-unknown: Unknown members are ignored.
  equivalence/test_rejections.py::test_unknown_members_are_ignored
json-required: Required members that are absent are named.
  middleware/test_validate.py::test_absent_members_are_named
# 7.6
auth-in-task: AUTH_REQUIRED interrupts a task, not its stream.
  hosting/test_streams.py::test_a_stream_continues_while_authentication_is_required
# 8.2
card-well-known: The card is at its well-known path.
  cards/test_build.py::test_where_the_card_is_published
# 8.3
interface-selection: Clients take the first interface that they can speak.
  cards/test_select.py::test_the_agents_order_is_kept_and_unknown_interfaces_are_skipped
# 8.4
card-signature: Signatures of cards are verified and made.
  signing/test_served.py::test_a_gateway_verifies_and_signs_anew
  signing/test_served.py::test_the_verifier_of_the_python_sdk_accepts_ours
  signing/test_served.py::test_signatures_of_the_python_sdk_are_accepted
# 8.6
card-caching: Cards are cached by their headers and validated.
  cards/test_resolve.py::test_stale_cards_are_asked_for_with_their_validators
# 9
jsonrpc-envelope: JSON-RPC 2.0: ids come back, errors have codes, HTTP 200.
  equivalence/test_rejections.py::test_jsonrpc_echoes_the_id
  transports/test_http_bindings.py::test_every_error
jsonrpc-sse: Streams are Server-Sent Events of JSON-RPC responses.
  transports/test_sse.py::test_written_events_can_be_read
  runtime/test_planning.py::test_streams_on_a_real_socket
jsonrpc-methods: Unknown methods are MethodNotFound.
  transports/test_http_bindings.py::test_methods_that_do_not_exist
# 10
grpc-service: lf.a2a.v1.A2AService: bytes of protobuf, metadata, statuses with details.
  transports/test_grpc_sdk.py::test_the_sdks_client_calls_us
  transports/test_grpc_server.py::test_the_table_of_errors
grpc-deadline: The deadline of the caller ends the call.
  transports/test_grpc_server.py::test_a_deadline_arrives_and_ends_the_work
# 11
rest-rules: Paths, methods and queries of every operation, with and without a tenant.
  dialects/test_forms.py::test_http_rules_with_and_without_a_tenant
  transports/test_http_bindings.py::test_query_parameters_reach_the_request
rest-errors: Errors are google.rpc.Status as JSON.
  dialects/test_error_tables.py::test_http_json
# 12
custom-binding: A binding of another distribution passes the same contract.
  contracts/test_custom_transport.py::test_the_example_passes_its_own_tests
# 13.1
scope: Callers see their own tasks only.
  a2a_bridge/testing/store_writing.py::test_other_scopes_see_nothing
  equivalence/test_rejections.py::test_tenants_do_not_see_each_other
# 13.2
webhook-ssrf: Webhooks cannot reach private addresses.
  push/test_webhook.py::test_addresses_that_are_not_global_are_rejected
  push/test_webhook.py::test_a_name_that_changes_its_meaning_is_not_connected_to
# 7 0.3.0
v03-methods: The methods and the `kind` JSON of 0.3, for its official SDK.
  matrix/test_direct.py::test_a_client_gets_the_agents_answers
v03-final: A stream of 0.3 ends with an event that says final.
  middleware/test_stream_compat.py::test_a_stream_without_a_final_event_gets_one
# 5.5 0.3.0
v03-card: The card of 0.3, as its SDK reads it.
  cards/test_read_by_versions.py::test_the_sdks_of_0_3_and_0_2_read_the_card
# 7 0.2.5
v025: Agents and clients of 0.2.5, through a gateway to every other version.
  matrix/test_matrix.py::test_a_gateway_changes_nothing
"""


def _read(text: str) -> Iterator[Requirement]:
    section, version, found = "", "1.0.1", Requirement("", "", "")
    for line in text.strip().split("\n"):
        if line.startswith("  "):
            found = replace(found, tests=(*found.tests, line.strip()))
            continue
        if found.id:
            yield found
        if line.startswith("# "):
            section, _, version = line[2:].partition(" ")
            found = Requirement("", "", "")
        else:
            id_, _, behaviour = line.partition(": ")
            found = Requirement(id_, section, behaviour, version=version or "1.0.1")
    yield found


REQUIREMENTS: tuple[Requirement, ...] = tuple(_read(TEXT))


def summary(requirements: Iterable[Requirement] = REQUIREMENTS) -> list[str]:
    """The table in short: how much is shown, and each gap with its link."""
    rows = list(requirements)
    tests = {test for row in rows for test in row.tests}
    gaps = [row for row in rows if not row.tests]
    return [
        f"{len(rows)} required behaviours, {len(tests)} tests that show them, {len(gaps)} gaps",
        *(f"gap: {row.behaviour} ({row.link}, section {row.section}): {row.gap}" for row in gaps),
    ]
