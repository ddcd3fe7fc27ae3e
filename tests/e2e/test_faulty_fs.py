"""Disks that hang, answer late, flip bits in what they read, or fail to sync: folders of a FUSE file
system of the tests' own. Needs root, as every mount does."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, content, until
from server import Server
from test_upkeep import assert_sound

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

LIBRARY = ROOT / ".tools/lib/x86_64-linux-gnu/libfuse3.so.3"


class Faulty:
    """A disk of a server that misbehaves on demand."""

    def __init__(self, server, number, scratch):
        self.mountpoint = server.disk(number)
        self.backing = scratch / f"backing{number}"
        self.control = scratch / f"control{number}.json"
        self.mountpoint.mkdir(parents=True)
        self.backing.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fault_fs.py"), self.backing, self.mountpoint, self.control],
            env=dict(os.environ, FUSE_LIBRARY_PATH=str(LIBRARY), FUSE_LIBRARY_NAME="fuse3"))
        until(f"{self.mountpoint} is mounted", self.mountpoint.is_mount, 20)

    def misbehave(self, **how):
        part = self.control.with_suffix(".part")
        part.write_text(json.dumps(how))
        part.rename(self.control)

    def behave(self):
        self.control.unlink(missing_ok=True)

    def end(self):
        self.behave()
        # Without its process a mount answers ENOTCONN, so nothing can hang on it any more.
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "-l", self.mountpoint], check=False, capture_output=True)


@pytest.fixture
def faulty(tmp_path):
    """A server two of whose six disks misbehave on demand."""
    server = Server(tmp_path / "own", environment={"DEWAR_UPKEEP_REBUILD_AFTER": "2s"})
    server.allow(r"disk\d|shard|decoded around|journal|holder|missing|repair|scrub|index|catalog")
    disks = []
    try:
        for number in (2, 5):
            disks.append(Faulty(server, number, tmp_path))
        server.start()
        yield server, disks
        for disk in disks:
            disk.behave()
        server.stop()
        assert not server.unexpected()
    finally:
        for disk in disks:
            disk.end()
        server.kill()


def key_size(number):
    return f"k{number:03}", (300, 40_000, 700_000, 3_000_000)[number % 4]


def put(server, numbers):
    # A write that loses both disks in its middle has no shard to spare and is refused; clients try again.
    s3 = server.boto(read_timeout=120, retries={"max_attempts": 6})

    def one(number):
        key, size = key_size(number)
        s3.put_object(Bucket="demo", Key=key, Body=content(number, size))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, numbers))


def check(server, numbers):
    s3 = server.boto(read_timeout=120)

    def one(number):
        key, size = key_size(number)
        assert s3.get_object(Bucket="demo", Key=key)["Body"].read() == content(number, size), key

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, numbers))


def states(server):
    return [disk["state"] for disk in server.admin("status")["pool"]["disks"]]


def test_two_disks_hang_in_the_middle_and_come_back(faulty):
    server, disks = faulty
    put(server, range(20))
    with ThreadPoolExecutor(1) as pool:
        writes = pool.submit(put, server, range(20, 60))
        time.sleep(0.3)
        for disk in disks:
            disk.misbehave(hang=True)
        writes.result(timeout=240)
    until("both are seen to hang", lambda: [states(server)[n] for n in (1, 4)] == ["hung"] * 2, 60)
    put(server, range(60, 80))
    check(server, range(80))
    for disk in disks:
        disk.behave()
    until("both are used again", lambda: states(server) == ["online"] * 6, 120)
    check(server, range(80))
    # What was written narrower is laid out again, what they missed is rebuilt, and then two others may go.
    until("all is whole again", lambda: whole(server), 120)
    assert_sound(server)


def whole(server):
    done = server.admin("fsck", check=False)
    ledger = json.loads(done.stdout)["ledger"]
    return [line["failures_left"] for line in ledger["lines"]] == [ledger["full"]]


def test_kill_while_two_disks_hang(faulty):
    server, disks = faulty
    put(server, range(20))
    for disk in disks:
        disk.misbehave(hang=True)
    put(server, range(20, 30))
    # A process with calls that hang in the kernel is gone only when they return.
    server.process.kill()
    for disk in disks:
        disk.behave()
    server.kill()
    server.start()
    check(server, range(30))
    until("all is whole again", lambda: whole(server), 120)
    assert_sound(server)


@pytest.mark.alone
def test_late_disks_do_not_make_readers_late(faulty):
    server, disks = faulty
    put(server, range(24))
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("3")
    before = server.admin("status")
    for disk in disks:
        disk.misbehave(delay=0.7)
    check(server, range(24))
    put(server, range(24, 40))
    for disk in disks:
        disk.behave()
    until("both are used again", lambda: states(server) == ["online"] * 6, 120)
    check(server, range(40))
    assert before["pool"]["writable"]


@pytest.mark.alone
def test_disks_that_flip_bits_when_they_are_read(faulty):
    server, disks = faulty
    put(server, range(40))
    server.restart()
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("3")
    for disk in disks:
        disk.misbehave(corrupt=2)
    for _ in range(3):
        check(server, range(40))
    code = server.admin("fsck", "--deep", check=False).returncode
    assert code == 1, "a deep look must see that two disks lie"
    for disk in disks:
        disk.behave()
    until("all is whole again", lambda: whole(server), 120)
    check(server, range(40))
    assert_sound(server)


def test_disks_that_fail_to_sync(faulty):
    server, disks = faulty
    put(server, range(12))
    for disk in disks:
        disk.misbehave(errors=["fsync", "fsyncdir"])
    put(server, range(12, 40))
    check(server, range(40))
    for disk in disks:
        disk.behave()
    # What they did not sync is not believed: they are used again after the restart only.
    put(server, range(40, 44))
    server.kill()
    server.start()
    check(server, range(44))
    until("all is whole again", lambda: whole(server), 120)
    assert_sound(server)
