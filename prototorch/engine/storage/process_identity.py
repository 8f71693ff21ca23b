"""Identity of the process that wrote a file, and whether it still runs.

A process ID alone is not enough: it is reused after a while, and has no meaning on another machine. A process is
therefore identified by its ID, its namespace (host and PID namespace) and its start time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import sys
from dataclasses import dataclass

__all__ = ["ProcessIdentity"]

_UNKNOWN = "00000000"


@functools.cache
def pid_namespace() -> str:
    """A hash of the host and PID namespace in which process IDs are unique, as eight hexadecimal digits."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()}\0{namespace}".encode()).hexdigest()[:8]


def start_token(pid: int) -> str:
    """A hash of the start time of a process, as eight hexadecimal digits: distinguishes processes with the same ID.

    `_UNKNOWN` if there is no such process, or if the system does not report start times (Linux does).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[19].decode()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except (OSError, IndexError):
        return _UNKNOWN
    return hashlib.sha256(f"{boot}\0{ticks}".encode()).hexdigest()[:8]


def process_exists(pid: int) -> bool:
    """Whether a process with this ID runs on this host; True if that is unknown."""
    if pid <= 0:
        return False
    if sys.platform == "win32":  # there, signal 0 is not harmless
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its ID, its namespace and a hash of its start time."""

    pid: int
    namespace: str
    start: str

    @staticmethod
    def current() -> ProcessIdentity:
        """This process; not cached, since a fork changes it."""
        pid = os.getpid()
        return ProcessIdentity(pid, pid_namespace(), start_token(pid))

    def is_elsewhere(self) -> bool:
        """Whether it belongs to another host or PID namespace, so that it is unknown whether it runs."""
        return self.namespace != pid_namespace()

    def is_dead(self) -> bool:
        """Whether it has certainly ended. False if that is unknown."""
        if self.is_elsewhere():
            return False
        return not process_exists(self.pid) or start_token(self.pid) not in (self.start, _UNKNOWN)
