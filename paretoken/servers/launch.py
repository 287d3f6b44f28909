"""Starts one program under the identity that a server shall have. Run as a script; standard library only.

    launch.py ACCOUNT check PATH                    exit 0 when that identity may enter or run PATH, else 1
    launch.py ACCOUNT run PROGRAM ARG…              becomes the program
    launch.py ACCOUNT daemon LOCK LOG PROGRAM ARG…  starts it in a session of its own and returns

A script of its own, and not a function called between fork and exec, because the caller may have threads.
`daemon` takes an exclusive lock on the file LOCK and hands it on to the program and all its children: the
lock is free when, and only when, none of them is left, whatever became of their process ids. The file's text
is the program's process id.
"""

import ctypes
import fcntl
import os
import sys
import time
from pathlib import Path

NOBODY = 65534
CLONE_NEWUSER = 0x10000000
CANNOT_BECOME = 3
STILL_LOCKED = 4
LOCK_WAIT_S = 5.0


def become(account: str) -> None:
    """Take on the identity `self` (as is), `namespace` or `nobody`."""
    try:
        if account == "namespace":
            _enter_user_namespace()
        elif account == "nobody":
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"cannot become {account}: {error}\n")
        sys.exit(CANNOT_BECOME)


def _enter_user_namespace() -> None:
    """Be 65534 inside a new user namespace; outside, files still belong to the caller. Linux only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):  # os.unshare exists only from Python 3.12 on
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} 0 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} 0 1")


def take_lock(path: str) -> int:
    """The locked file's descriptor. Waits a moment, since whoever asks for the status holds it for one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                sys.exit(STILL_LOCKED)
            time.sleep(0.02)
        else:
            return descriptor


def daemon(account: str, lock: str, log: str, program: list[str]) -> None:
    """Start `program` detached; returns when its process id stands in `lock`."""
    lock_descriptor = take_lock(lock)
    pid = os.fork()
    if pid:
        os.ftruncate(lock_descriptor, 0)
        os.pwrite(lock_descriptor, str(pid).encode(), 0)
        return
    os.setsid()
    log_descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log_descriptor, 1)
    os.dup2(log_descriptor, 2)
    os.set_inheritable(lock_descriptor, True)
    become(account)
    execute(program)


def execute(program: list[str]) -> None:
    """Become `program`, or say on stderr why not."""
    try:
        os.execv(program[0], program)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"cannot run {program[0]}: {error}\n")
        os._exit(127)


def main(account: str, action: str, *rest: str) -> None:
    os.umask(0o077)
    if action == "daemon":
        daemon(account, rest[0], rest[1], list(rest[2:]))
        return
    become(account)
    if action == "check":
        sys.exit(not os.access(rest[0], os.X_OK))
    execute(list(rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
