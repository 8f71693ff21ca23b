"""Which process wrote a file, and whether it still lives.

A process number alone says little: it is used again after a while, and it means nothing on another machine. So a
process is known here by its number, the place it runs in (host and process namespace) and the moment it started.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import sys
from dataclasses import dataclass

_UNKNOWN = "00000000"


@functools.cache
def pid_namespace() -> str:
    """The host and process namespace in which a process number has its meaning, as eight hexadecimal digits."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()}\0{namespace}".encode()).hexdigest()[:8]


def start_token(pid: int) -> str:
    """When the process began, as eight hexadecimal digits that differ between two lives of one number.

    `_UNKNOWN` where the system does not tell (it is told on Linux), or when there is no such process.
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
    """Whether a process of this number runs here now; True when that cannot be known."""
    if pid <= 0:
        return False
    if sys.platform == "win32":  # there, signal 0 is not a harmless question
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
    """One life of one process: its number, its place and its start."""

    pid: int
    namespace: str
    start: str

    @staticmethod
    def current() -> ProcessIdentity:
        """This process (asked anew each time, since a fork changes it)."""
        pid = os.getpid()
        return ProcessIdentity(pid, pid_namespace(), start_token(pid))

    def is_elsewhere(self) -> bool:
        """Whether it belongs to another host or process namespace, so that nothing can be said of its life."""
        return self.namespace != pid_namespace()

    def is_dead(self) -> bool:
        """Whether it certainly does not live any more. False when it cannot be known."""
        if self.is_elsewhere():
            return False
        return not process_exists(self.pid) or start_token(self.pid) not in (self.start, _UNKNOWN)
