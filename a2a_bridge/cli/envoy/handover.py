"""The message of the supervisor to the process of Envoy: an environment variable with JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass

from a2a_bridge.cli.envoy.bootstrap import EnvoyOptions

#: the variable; it is not a flag, and is removed when it has been read
VARIABLE = "_A2A_BRIDGE_IN_ENVOY"
#: the byte on the pipe that means "read the configuration again"
HANGUP = b"h"


@dataclass(frozen=True, slots=True)
class Handover:
    """The command line to run in Envoy, and the things of a process that Envoy's interpreter has not."""

    #: `sys.argv`, `sys.executable` and `sys.path` of the supervisor
    arguments: list[str]
    executable: str
    path: list[str]
    #: variables that only start the interpreter, with the values that the user gave them; None: not set
    environment: dict[str, str | None]
    #: reading end of a pipe: its end or any byte but HANGUP means "stop"
    stop: int
    #: the Unix socket of Envoy's administration
    admin: str
    #: whether the listener speaks TLS
    secure: bool
    #: whether headers of proxies are trusted
    trusts_proxies: bool
    #: whether callers may have client certificates
    has_clients: bool

    @classmethod
    def of(cls, options: EnvoyOptions, started_with: dict[str, str], stop: int) -> Handover:
        """For an Envoy that this process starts. started_with: variables that start the interpreter."""
        before = {name: os.environ.get(name) for name in started_with}
        return cls(
            sys.argv,
            sys.executable,
            sys.path,
            before,
            stop,
            options.admin,
            options.tls is not None,
            options.trusts_proxies,
            options.tls is not None and options.tls.clients is not None,
        )

    def write(self) -> str:
        """The value of VARIABLE."""
        return json.dumps(asdict(self))

    @classmethod
    def take(cls) -> Handover:
        """Reads and removes VARIABLE, and makes this process look like the one of the supervisor: arguments,
        module path, environment.
        """
        handover = cls(**json.loads(os.environ.pop(VARIABLE)))
        sys.argv[:] = handover.arguments
        sys.executable = handover.executable
        sys.path[:] = handover.path
        # Programs that the agent starts have their own interpreter and libraries.
        for name, value in handover.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        os.set_inheritable(handover.stop, False)
        return handover
