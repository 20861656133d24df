"""What a gateway may have left behind: sockets, threads, tasks."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection
from pathlib import Path

OUR_THREADS = ("courier-nudger", "config", "api-keys", "requests", "parent-watch")


def sockets_at(ports: Collection[int]) -> list[str]:
    """This process's TCP connections (no listeners) with one of the ports at either end."""
    own = _own_inodes()
    found = []
    for line in _table_lines():
        fields = line.split()
        local, remote, state, inode = fields[1], fields[2], fields[3], fields[9]
        ends = {int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)}
        if inode in own and state != "0A" and ends & set(ports):
            found.append(f"{local}-{remote} state {state}")
    return found


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(OUR_THREADS)]


async def eventually(what: Callable[[], object], message: str, within_s: float = 1.0) -> None:
    """Fails unless `what()` becomes empty, zero or false in time."""
    deadline = asyncio.get_running_loop().time() + within_s
    while left := what():
        assert asyncio.get_running_loop().time() < deadline, f"{message}: {left}"
        await asyncio.sleep(0.005)


def _own_inodes() -> set[str]:
    inodes = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the directory's own descriptor
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes


def _table_lines() -> list[str]:
    return Path("/proc/self/net/tcp").read_text().splitlines()[1:]
