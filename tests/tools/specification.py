"""The requirements of the official A2A command line (a2aproject/a2a-cli, specification), as data."""

from dataclasses import dataclass

from a2a_bridge.core.options import CLIENT_PREFIX

VERSION = "0.2"
REVISION = "2026-08-17"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A row of COMPLIANCE.md."""

    identifier: str
    tier: int
    #: sections of SPEC.md
    spec: str
    text: str

    @property
    def area(self) -> str:
        """The area of the identifier: TASK_GET of A2ACLI_TASK_GET_001."""
        return self.identifier.removeprefix(CLIENT_PREFIX).rpartition("_")[0]


def _requirements() -> dict[str, Requirement]:
    found = {}
    for row in _ROWS.strip().splitlines():
        name, tier, sections, text = row.split(" ", 3)
        spec = ", ".join(f"§{one}" for one in sections.split(","))
        found[CLIENT_PREFIX + name] = Requirement(CLIENT_PREFIX + name, int(tier), spec, text)
    return found


#: identifier, tier, sections, what it asks for
_ROWS = """
CARD_GET_001 1 8.1,11 card get: a card from a host, a URL or a file; it selects the transport
SEND_001 1 8.2 sends a message to start an interaction
SEND_002 1 8.2,4.5 waits by default; --async returns identifiers at once
SEND_003 1 8.2,7.2 --stream consumes a stream and never hangs; a direct message ends cleanly
SEND_004 1 8.2 renders artifacts, and never drops a part
SEND_005 1 8.2 --media-type sets the type of the part before it; it is inferred only if none is given
SEND_006 1 8.2 part flags are repeatable and keep their order; --data - reads standard input
TASK_GET_001 1 8.3 task get: state, artifacts and history of a task
TASK_CANCEL_001 1 8.4 task cancel: cancels a task and reports the state that results
INTERACT_001 1 6.2 goes on in a context with --context-id
INTERACT_002 1 6.2 goes on with a task with --task-id; a rejected one fails and creates no task
INTERACT_003 1 6.1,2 invents no identifiers of servers
INTERACT_004 1 6.3 reports task, context and state, and prints the command to resume
INTERACT_005 1 4.3,6.1,6.4 stateless: stores no identifiers, has no --continue
TASK_POLL_001 1 7.3 one look at a task, and looks until it rests (--wait)
TASK_POLL_002 1 7.3 --poll-interval and --timeout; bounded backoff; interruptible without losing the task's id
TASK_POLL_003 1 7.1,7.3 stops at interrupted states; an unspecified state is neither terminal nor interrupted
TASK_POLL_004 1 7.3 a wait over a stream falls back to polling when the stream breaks
OUT_001 1 9.1,9.5,6.3 every answer names context, task and state; the payload is on stdout, the rest on stderr
OUT_002 1 9.3 -o json is one document, the terminal object
OUT_003 1 9.3,9.4 -o json --stream is one object a line, the last one terminal, or an error object
OUT_004 1 9.4 errors are machine-readable and the same over every transport
OUT_005 1 9.2,4.1 text is one field a line, blocks under a label of their own, no control sequences
OUT_006 1 9.5 --async still reports task and context
EXIT_001 1 9.6 exit codes 0, 1 and 2; reserved ones agree with the error
EXIT_002 1 4.6,9.6 what becomes of a task is no exit code
AUTH_001 1 10.1 bearer and API key go where the card's security scheme wants them; --svc-param is apart
AUTH_002 1 10.1,4.5 a variable for each credential; help says that flags are visible to others
AUTH_003 1 10.1,4.5 a warning when certificates are not verified
AUTH_004 1 10.1,5.2 credentials are redacted in all diagnostic output
TX_001 1 11.1 the transport comes from the card, in its order
TX_002 1 11.1,4.5 the first supported interface; --transport is repeatable and ordered
TX_003 1 11.1 sets the tenant of the selected interface in every request
VER_001 1 11.2 A2A-Version in every request, never below 1.0 unless asked
DEFAULT_001 1 4.5 the defaults of the specification, each overridable by a flag
CONFIG_001 1 6.4 configuration at a conventional path, inspectable; no session state
CLI_001 1 5.1,5.2,4.5 help, --help and --version; help shows defaults
SKILL_001 1 12.1,12.2 exactly one Agent Skill, short, which defers to help
SKILL_002 1 12.3 the skill restates no requirements
CARD_GET_002 2 8.1 card get --validate: checks the card against the schema
TASK_LIST_001 2 5.1 task list: pages, filters by status and context
TASK_SUBSCRIBE_001 2 5.1,7.2 task subscribe: the event stream of a task
TASK_SUBSCRIBE_002 2 7.4,7.2 a stream resumes after a cut; the first event is the whole task
AUTH_005 2 10.2 auth login: device code
AUTH_006 2 10.2 auth login: client credentials
AUTH_007 2 10.2 tokens are stored securely and attached to later calls
TX_004 2 11.1 at least two transports
VER_003 2 11.3 looks at the card before operations that need a capability
CONFIG_002 2 6.4 flag, variable, local file, global file, default; config show names the source
DOWNLOAD_001 2 5.1 task download: saves artifacts
OUT_007 2 5.2 --debug: diagnostics on stderr with the messages on the wire
CONFORM_001 2 5.1 conformance: checks a live agent
CLI_002 2 5.1 completion: the completion script of a shell
PUSH_001 2 5.1 task push-config: create, get, list, delete
CARD_GET_003 3 8.1,10.4 the extended card, over a scheme of the public card
CARD_GET_004 3 8.1 verifies signatures of cards and reports the outcome
CARD_GET_005 3 8.1 resolves an entry of a catalog to a card
PUSH_002 3 7.2 a webhook receiver
CHAT_001 3 6.2,5.1 chat carries context and task from turn to turn
TX_005 3 11.1 gRPC
AUTH_008 3 10.4 gives no credential to a card endpoint that has not declared a scheme for it
AUTH_009 3 10.3 mutual TLS
AUTH_010 3 10.3 OpenID Connect
AUTH_011 3 10.3 resolves AUTH_REQUIRED inside a task
DEMO_SERVER_001 3 5.1,14 a demo agent
VER_002 3 11.3 declares the extensions that a server requires
"""
#: by identifier
REQUIREMENTS = _requirements()

#: what a passing requirement does not cover
NOTES = {
    "A2ACLI_AUTH_003": "--insecure is for HTTP; the library of gRPC always verifies, and the command says so",
    "A2ACLI_CONFORM_001": "ACTS documents, a draft; tests that need webhooks or accounts are skipped",
    "A2ACLI_VER_002": "the user names the extensions (--extension); that of resuming is declared by itself",
}

#: defaults that DEFAULT_001 names -> the flag that overrides each
DEFAULTS = {
    "transport_server_preference_order": "--transport",
    "task_completion_wait_by_default": "--async",
    "output_human_readable_text": "--output",
    "detail_level_concise": "--verbose",
    "protocol_version_highest_mutual": "--a2a-version",
    "transport_security_tls_on": "--insecure",
}
