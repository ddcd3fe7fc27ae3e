"""Pools of fewer than 2m+1 disks that lose m of them: `dewar disk replace` brings them back."""

import os
import random
import signal
import subprocess
import time

import pytest
from conftest import FULL, until
from server import BIN, Server
from test_degraded import check, pull, put_back, wait_for_disks, write
from test_upkeep import NOISE, assert_sound

NAMES = ["a", "b", "c"]
SMALL = [("1+1", 2), ("2+2", 4)]


@pytest.fixture(params=SMALL, ids=[layout for layout, _ in SMALL])
def small(request, tmp_path, monkeypatch):
    """Every disk that is lost is one more than the pool can do without to be written."""
    layout, count = request.param
    data = tmp_path / "own" / "data"
    # For the commands, too.
    monkeypatch.setenv("DEWAR_POOL_LAYOUT", layout)
    monkeypatch.setenv("DEWAR_POOL_DISKS", ",".join(str(data / f"disk{n + 1}") for n in range(count)))
    environment = {"DEWAR_UPKEEP_REBUILD_AFTER": "2s", "DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "4KiB"}
    server = Server(tmp_path / "own", environment=environment).start()
    server.count, server.lost = count, list(range(1, count // 2 + 1))
    server.allow(NOISE + "|2m\\+1|removed|removal|lost|share|catalog index")
    write(server.boto(), NAMES, 1)
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


def new_folder(server, number):
    path = server.folder / f"new{number}"
    path.mkdir()
    return path


def replace(server, old, new, check=True):
    return server.admin("disk", "replace", str(old), str(new), check=check)


def serve(server):
    """What it says when it does not start."""
    done = subprocess.run([BIN, "serve", "--config", str(server.data / "dewar.toml")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def assert_full_service(server, names=NAMES):
    wait_for_disks(server, server.count)
    check(server.boto(), names, 1)
    write(server.boto(), ["after"], 2)
    until("it is whole", lambda: server.admin("fsck", check=False).returncode == 0)
    assert_sound(server)
    check(server.boto(), names, 1)
    check(server.boto(), ["after"], 2)


def test_disks_died_while_it_was_stopped(small):
    server = small
    server.stop()
    pull(server, *server.lost)
    said = serve(server)
    assert "dewar disk replace DISK NEW-FOLDER" in said, said
    assert str(server.disk(1)) in said, said
    assert "accept-loss" not in said, said
    # A folder that cannot be one, and disks that are not away.
    full = new_folder(server, "full")
    (full / "holiday.jpg").write_text("beach")
    for old, new, words in [
        (server.disk(1), full, "not blank"),
        (server.disk(1), server.folder / "nowhere", "there is no folder"),
        (server.count, new_folder(server, "other"), "none of the disks that are away"),
        ("99", server.folder / "newother", "none of the disks that are away"),
    ]:
        done = replace(server, old, new, check=False)
        assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not list((server.folder / "newother").iterdir())
    for number in server.lost:
        done = replace(server, number, new_folder(server, number))
        assert done["replaces_number"] == number and done["removed"], done
    server.start()
    assert_full_service(server)
    # They turn up again: they are known, and nothing is taken from them by itself.
    server.stop()
    put_back(server, *server.lost)
    server.start()
    lines = {line["path"]: line["state"] for line in server.admin("disk", "list")}
    for number in server.lost:
        assert lines[str(server.disk(number))] == "removed", lines
    assert_full_service(server, [*NAMES])
    # As many may be lost now as the layout says: of the new ones, too.
    server.stop()
    for number in server.lost:
        (server.folder / f"new{number}").rename(server.folder / f"lost{number}")
        server.disk(number).rename(server.folder / f"old{number}")
    for number in server.lost:
        replace(server, server.folder / f"new{number}", new_folder(server, f"er{number}"))
    server.start()
    assert_full_service(server)


def test_disks_die_while_it_runs(small):
    server = small
    pull(server, *server.lost)
    until("nothing can be written", lambda: not server.admin("status")["pool"]["writable"])
    check(server.boto(), NAMES, 1)
    with pytest.raises(Exception, match="503|ServiceUnavailable|SlowDown|reduce your request"):
        server.boto().put_object(Bucket="demo", Key="refused", Body=b"x" * 10)
    for number in server.lost:
        replace(server, number, new_folder(server, number))
    assert_full_service(server)
    server.kill()
    put_back(server, *server.lost)
    server.start()
    assert_full_service(server)


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_killed_in_the_middle_and_typed_again(small, seed):
    server = small
    dice = random.Random(seed)
    server.kill()
    pull(server, *server.lost)
    for number in server.lost:
        new = new_folder(server, number)
        while True:
            process = subprocess.Popen(
                [BIN, "disk", "replace", str(number), str(new), "--dir", str(server.data)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(dice.random() * 0.4)
            killed = process.poll() is None
            if killed:
                os.kill(process.pid, signal.SIGKILL)
            said = process.communicate()[1].decode()
            if not killed:
                assert process.returncode == 0, said
                break
            if dice.random() < 0.2:
                replace(server, number, new)
                break
    server.start()
    assert_full_service(server)
