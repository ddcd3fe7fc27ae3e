"""Ports for servers under test, each process of the tests with a range of its own.

The ranges lie below the kernel's ephemeral ports (from 32768), so that no client's socket can take the port of a
server that was killed and is about to start again.
"""

import socket

FIRST, LAST = 10_000, 32_000
RANGE = 1000


class PortRange:
    """A range that belongs to this process: its first port stays bound for as long as the process lives."""

    def __init__(self):
        for base in range(FIRST, LAST, RANGE):
            self.guard = socket.socket()
            try:
                self.guard.bind(("127.0.0.1", base))
                self.guard.listen(1)
            except OSError:
                self.guard.close()
                continue
            self.base, self.next = base, base + 1
            return
        raise RuntimeError(f"all port ranges from {FIRST} to {LAST} are in use")

    def take(self, count):
        """A run of `count` ports on which nothing listens. Each run comes after the one before, so that a port is
        not given out again soon."""
        for _ in range(RANGE):
            if self.next + count > self.base + RANGE:
                self.next = self.base + 1
            first, self.next = self.next, self.next + count
            if all(is_free(port) for port in range(first, first + count)):
                return first
        raise RuntimeError(f"no {count} free ports from {self.base}")


def is_free(port):
    with socket.socket() as attempt:
        try:
            attempt.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True


_range = None


def free_port_base(count=5):
    """The first of `count` ports in a row that nobody uses, from the range of this process."""
    global _range
    _range = _range or PortRange()
    return _range.take(count)
