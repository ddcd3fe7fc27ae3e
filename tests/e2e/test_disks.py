"""The life of an administrator with disks: added, replaced, removed, plugged in again, mixed up."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import botocore.exceptions
import pytest
from conftest import FULL, until
from server import BIN, Server
from test_degraded import check, pull, put_back, wait_for_disks, write
from test_upkeep import NOISE, assert_sound, fsck

NAMES = ["a", "b", "c"]


@pytest.fixture
def tended(tmp_path):
    environment = {"DEWAR_UPKEEP_REBUILD_AFTER": "4s", "DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "4KiB"}
    server = Server(tmp_path / "own", environment=environment).start()
    server.allow(NOISE)
    write(server.boto(), NAMES, 1)
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


def folder(server, name):
    path = server.folder / name
    path.mkdir()
    return path


def line(server, path):
    lines = server.admin("disk", "list")
    return next((line for line in lines if line["path"] == str(path)), None)


def state(server, path):
    found = line(server, path)
    return found and found["state"]


def refused(server, code, words, *arguments):
    done = server.admin(*arguments, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    assert words in done.stderr, done.stderr


def blobs(path):
    return [found for found in path.glob("blobs/*/*")]


def test_a_disk_is_added_and_found_at_the_next_start(tended):
    server = tended
    new = folder(server, "d7")
    added = server.admin("disk", "add", str(new))
    assert added["number"] == 7 and added["path"] == str(new)
    write(server.boto(), ["later1", "later2", "later3"], 2)
    assert blobs(new), "it takes nothing"
    server.kill()
    server.start()
    wait_for_disks(server, 7)
    assert state(server, new) == "online"
    check(server.boto(), ["later1", "later2", "later3"], 2)
    # While no server runs, too.
    server.stop()
    eighth = folder(server, "d8")
    assert server.admin("disk", "add", str(eighth))["number"] == 8
    server.start()
    wait_for_disks(server, 8)
    check(server.boto(), NAMES, 1)


def test_folders_that_cannot_be_added_are_refused_in_their_own_words(tended, tmp_path):
    server = tended
    full = folder(server, "full")
    (full / "holiday.jpg").write_text("beach")
    refused(server, 4, 'not blank: it holds "holiday.jpg"', "disk", "add", str(full))
    assert [path.name for path in full.iterdir()] == ["holiday.jpg"]
    refused(server, 4, "a disk of this pool already", "disk", "add", str(server.disk(2)))
    refused(server, 3, "there is no folder", "disk", "add", str(server.folder / "nowhere"))
    inside = server.disk(1) / "inside"
    inside.mkdir()
    refused(server, 4, "inside the other", "disk", "add", str(inside))
    inside.rmdir()
    link = server.folder / "link"
    link.symlink_to(server.disk(1))
    refused(server, 4, "same folder", "disk", "add", str(link))
    other = Server(tmp_path / "other").start()
    other.stop()
    refused(server, 2, "another Dewar", "disk", "add", str(other.disk(1)))
    copy = folder(server, "copy")
    shutil.copy(server.disk(3) / "dewar-disk", copy)
    refused(server, 4, "is one a copy of the other", "disk", "add", str(copy))
    refused(server, 3, "there is no disk", "disk", "replace", "99", str(folder(server, "d7")))
    assert len(server.admin("disk", "list")) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_folders_without_room_or_rights_are_refused(tended):
    server = tended
    small, locked = folder(server, "small"), folder(server, "locked")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,ro", "tmpfs", str(locked)], check=True)
    try:
        refused(server, 5, "no room", "disk", "add", str(small))
        refused(server, 5, "cannot be written", "disk", "add", str(locked))
        assert not list(small.iterdir()) and not list(locked.iterdir())
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
        subprocess.run(["umount", "-l", str(locked)], check=True)


@pytest.mark.parametrize("dead", [False, True])
def test_a_disk_is_replaced_with_one_command(tended, dead):
    server = tended
    old, new = server.disk(2), folder(server, "d7")
    if dead:
        pull(server, 2)
        wait_for_disks(server, 5)
    done = server.admin("disk", "replace", "2", str(new))
    assert (done["replaces_number"], done["number"]) == (2, 7)
    until("the old one is removed", lambda: state(server, old) == "removed")
    # The same command again finds it done.
    assert server.admin("disk", "replace", "2", str(new))["id"] == done["id"]
    until("all is whole", lambda: all(
        line["failures_left"] == 2 for line in server.admin("status")["ledger"]["lines"]))
    if not dead:
        pull(server, 2)
    assert_sound(server)
    # Losses count afresh: two more of the six.
    server.kill()
    pull(server, 1, 5)
    server.start()
    check(server.boto(), NAMES, 1)
    states = {disk["path"]: disk["state"] for disk in server.admin("status")["pool"]["disks"]}
    assert str(old) not in states, "a removed disk that is gone is no news"


def test_who_replaces_a_disk_that_is_being_replaced_hears_by_which(tmp_path):
    slow = {"DEWAR_UPKEEP_REPAIR_RATE": "1MiB", "DEWAR_UPKEEP_REPAIR_RATE_IDLE": "1MiB"}
    server = Server(tmp_path / "own", environment=slow).start()
    try:
        for n in range(4):
            server.boto().put_object(Bucket="demo", Key=f"k{n}", Body=os.urandom(12 << 20))
        first, second = folder(server, "d7"), folder(server, "d8")
        server.admin("disk", "replace", "2", str(first))
        assert state(server, server.disk(2)) == "replacing"
        words = f"disk 2 is being replaced already, by disk 7 in {first}"
        refused(server, 4, words, "disk", "replace", "2", str(second))
        refused(server, 4, "`dewar disk keep 2` stops it", "disk", "replace", "2", str(second))
        # Nor by one that is in use.
        refused(server, 4, words, "disk", "replace", "2", str(server.disk(3)))
        assert not list(second.iterdir())
        # The same again goes on.
        server.admin("disk", "replace", "2", str(first))
        server.admin("disk", "keep", "2")
        assert server.admin("disk", "replace", "2", str(second))["number"] == 8
    finally:
        server.kill()


def test_disks_whose_folders_nobody_remembers_are_named_by_their_ids(tended):
    server = tended
    known = line(server, server.disk(3))["id"]
    server.stop()
    pull(server, 3)
    memory = next(server.data.rglob("pool.json"))
    memory.unlink()
    server.start()
    lines = server.admin("disk", "list")
    [lost] = [line for line in lines if line["id"] == known]
    assert f"`dewar disk replace {known[:8]} NEW-FOLDER`" in lost["advice"], lost
    assert known[:8] in lost["advice"].split(":")[0], lost
    [place] = [line for line in lines if line["path"] == str(server.disk(3))]
    # Which disk was in it nobody knows.
    assert "disk replace" not in place["advice"] and "`dewar disk list`" in place["advice"], place
    new = folder(server, "d7")
    server.admin("disk", "replace", known[:8], str(new))
    until("it is removed", lambda: [line["state"] for line in server.admin("disk", "list")
                                    if line["id"] == known] == ["removed"])


def test_a_dead_disk_is_replaced_where_it_was(tended):
    server = tended
    pull(server, 4)
    wait_for_disks(server, 5)
    before = server.admin("disk", "list")[3]
    server.disk(4).mkdir()
    done = server.admin("disk", "replace", str(server.disk(4)), str(server.disk(4)))
    assert done["replaces"] == before["id"] and done["number"] == 7
    again = server.admin("disk", "replace", str(server.disk(4)), str(server.disk(4)))
    assert again["id"] == done["id"]
    until("it is rebuilt", lambda: blobs(server.disk(4)) and all(
        line["failures_left"] == 2 for line in server.admin("status")["ledger"]["lines"]))
    here = lambda: [disk["state"] for disk in server.admin("disk", "list")
                    if disk["path"] == str(server.disk(4))]
    until("the old one is removed", lambda: "removed" in [
        disk["state"] for disk in server.admin("disk", "list")])
    # Nothing is said about the folder that would be done to the disk that is there now.
    assert here() == ["online"]
    server.restart()
    wait_for_disks(server, 6)
    assert here() == ["online"]
    told = [disk["advice"] for disk in server.admin("disk", "list")]
    assert not any(told), told
    assert_sound(server)
    check(server.boto(), NAMES, 1)


def test_a_replacement_survives_kills_anywhere(tended):
    server = tended
    for number in range(1, 5 if FULL else 3):
        old, new = str(number), folder(server, f"new{number}")
        for attempt in range(40):
            command = subprocess.Popen(
                [BIN, "disk", "replace", old, str(new), "--dir", str(server.data), "--json"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.004 * attempt + 0.001 * number)
            server.kill()
            command.kill()
            command.wait()
            server.start()
            if attempt % 2:
                server.admin("disk", "replace", old, str(new))
            if (new / "dewar-disk").exists():
                break
        server.admin("disk", "replace", old, str(new))
        number_of = {disk["number"]: disk for disk in server.admin("disk", "list")}
        until("it is done", lambda: {disk["number"]: disk["state"] for disk in server.admin(
            "disk", "list")}[number] == "removed")
        assert number_of[number]["path"] == str(server.disk(number))
    until("all is whole", lambda: all(
        line["failures_left"] == 2 for line in server.admin("status")["ledger"]["lines"]))
    assert_sound(server)
    check(server.boto(), NAMES, 1)


def test_adding_draining_and_removing_survive_kills_anywhere(tended):
    server, chance = tended, random.Random(7)
    new, old = folder(server, "disk7"), server.disk(3)

    def cut(*arguments):
        """A command whose server dies a moment later."""
        command = subprocess.Popen([BIN, *arguments, "--dir", str(server.data), "--json"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.12))
        server.kill()
        command.wait()
        server.start()

    for _ in range(4):
        cut("disk", "add", str(new))
    if state(server, new) != "online":
        server.admin("disk", "add", str(new))
    for _ in range(4):
        cut("disk", "drain", str(old))
    if state(server, old) != "draining":
        server.admin("disk", "drain", str(old))
    for _ in range(4):
        time.sleep(chance.uniform(0, 0.3))
        server.kill()
        server.start()
    until("it is empty", lambda: line(server, old)["shards"] == 0 and not blobs(old))
    for _ in range(3):
        cut("disk", "remove", str(old))
    if state(server, old) != "removed":
        server.admin("disk", "remove", str(old))
    assert (state(server, old), state(server, new)) == ("removed", "online")
    check(server.boto(), NAMES, 1)
    assert_sound(server)


def test_a_removed_disk_that_is_plugged_in_again_is_left_alone(tended):
    server = tended
    pull(server, 6)
    wait_for_disks(server, 5)
    server.admin("disk", "remove", "6")
    write(server.boto(), ["later"], 2)
    files = sorted(server.disk(6).with_name("pulled6").rglob("*"))
    put_back(server, 6)
    until("it is known", lambda: state(server, server.disk(6)) == "removed")
    server.restart()
    found = line(server, server.disk(6))
    assert found["state"] == "removed" and "dewar disk readmit" in found["advice"], found
    assert found["holds"]["shards"] > 0, found
    status = server.admin("status")["pool"]
    assert [disk["state"] for disk in status["disks"]] == ["online"] * 5 + ["removed"]
    now = sorted(server.disk(6).rglob("*"))
    assert [path.name for path in now] == [path.name for path in files]
    refused(server, 2, "dewar disk readmit", "disk", "add", str(server.disk(6)))
    # Emptied it is as good as any.
    shutil.rmtree(server.disk(6))
    server.disk(6).mkdir()
    added = server.admin("disk", "add", str(server.disk(6)))
    assert added["number"] == 7
    wait_for_disks(server, 6)
    check(server.boto(), NAMES, 1)
    check(server.boto(), ["later"], 2)


def test_too_few_disks_for_the_journal_after_losses_are_told_of(tended):
    """Six disks with 4+2: five are enough to write after two losses, four are not."""
    server = tended
    assert server.admin("disk", "remove", "6")["short_of"] == 0
    until("it is whole", lambda: fsck(server)[0] == 0)
    done = subprocess.run([BIN, "disk", "remove", "5", "--dir", str(server.data)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0 and "add 1 more disk (" in done.stdout, done
    check(server.boto(), NAMES, 1)


def test_what_would_be_lost_is_named(tended):
    server = tended
    pull(server, 1, 2)
    wait_for_disks(server, 4)
    done = server.admin("disk", "remove", "4", check=False)
    assert done.returncode == 4 and "demo/a/large" in done.stderr, done.stderr


def test_disks_that_changed_places_and_foreign_ones_are_named(tended, tmp_path):
    server = tended
    other = Server(tmp_path / "other").start()
    other.stop()
    server.stop()
    first, second, aside = server.disk(1), server.disk(2), server.data / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    server.disk(5).rename(server.disk(5).with_name("pulled5"))
    shutil.copytree(other.disk(1), server.disk(5))
    server.allow("another Dewar|away")
    server.start()
    by_path = {disk["path"]: disk for disk in server.admin("disk", "list") if disk["id"]}
    assert by_path[str(first)]["number"] == 2 and by_path[str(second)]["number"] == 1
    foreign = line(server, server.disk(5))
    states = {disk["path"]: disk for disk in server.admin("status")["pool"]["disks"]}
    assert states[str(server.disk(5))]["state"] == "foreign", foreign
    assert "another Dewar" in states[str(server.disk(5))]["detail"]
    check(server.boto(), NAMES, 1)
    text = subprocess.run([BIN, "status", "--dir", str(server.data)], capture_output=True, text=True)
    assert "another Dewar" in text.stdout


def ask_for_loss(server, *code):
    """As a unit file would: nobody is at a terminal."""
    option = "=".join(["--accept-loss", *code])
    return subprocess.run(
        [BIN, "serve", option, "--config", str(server.data / "dewar.toml")],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def accept_loss(server):
    """Starts once without the disks that are away; gives what was said."""
    ready = server.folder / "lossy.json"
    asked = ask_for_loss(server)
    assert asked.returncode != 0 and "nothing was changed" in asked.stderr, asked.stderr
    code = re.search("--accept-loss=([0-9a-f-]{9})`", asked.stderr)[1]
    with server.log_path.open("ab") as log:
        process = subprocess.Popen(
            [BIN, "serve", f"--accept-loss={code}", "--config", str(server.data / "dewar.toml"),
             "--ready-file", str(ready)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True, env=dict(os.environ, DEWAR_LOG_FORMAT="json"))
    until("it serves", ready.exists)
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)[0]


def test_accepting_a_loss(tended):
    server = tended
    server.allow("lost|loss|given up|accept|left alone")
    write(server.boto(), [f"more{n}" for n in range(5)], 4)
    server.kill()
    pull(server, 1, 2, 3)
    done = subprocess.run([BIN, "serve", "--config", str(server.data / "dewar.toml")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "4 are needed" in done.stderr, done.stderr
    assert "accept-loss" in done.stderr
    # The code of another loss is no consent to this one.
    put_back(server, 3)
    pull(server, 4)
    other = re.search("--accept-loss=([0-9a-f-]{9})`", ask_for_loss(server).stderr)[1]
    put_back(server, 4)
    pull(server, 3)
    refused_code = ask_for_loss(server, other)
    assert refused_code.returncode != 0 and "another loss" in refused_code.stderr, refused_code.stderr
    assert "may be lost" in refused_code.stdout
    told = accept_loss(server)
    assert "may be lost" in told and str(server.disk(1)) in told, told
    # From now on it starts as ever; what comes back belongs to the past.
    put_back(server, 1, 2, 3)
    server.start()
    states = [disk["state"] for disk in server.admin("status")["pool"]["disks"]]
    assert states == ["removed"] * 3 + ["online"] * 3, states
    write(server.boto(), ["after"], 9)
    check(server.boto(), ["after"], 9)
    code = server.admin("fsck", check=False)
    assert code.returncode == 1 and json.loads(code.stdout)["ledger"]["at_risk"]


def readable(server, names):
    """Of the objects of test_degraded.write, those that are read byte for byte."""
    found = []
    for name in names:
        try:
            check(server.boto(retries={"max_attempts": 1}), [name], 4 if name.startswith("more") else 1)
            found.append(name)
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
            pass
    return found


def test_a_removed_disk_that_turns_up_gives_back_what_was_lost(tended):
    server = tended
    server.allow("lost|loss|given up|accept|left alone|removed|away|missing|cannot be read|answers")
    more = [f"more{n}" for n in range(5)]
    write(server.boto(), more, 4)
    server.kill()
    pull(server, 1, 2, 3)
    accept_loss(server)
    server.start()
    lost = json.loads(server.admin("fsck", check=False).stdout)["ledger"]
    gone = [line for line in lost["lines"] if line["failures_left"] < 0]
    assert gone and gone[0]["objects"] > 0, lost
    assert not readable(server, NAMES + more)
    # One of the three turns up: it is said what that is worth, before anybody empties it.
    put_back(server, 2)
    until("it is known", lambda: line(server, server.disk(2)).get("holds"))
    found = line(server, server.disk(2))
    assert found["holds"]["unreadable"] == gone[0]["blobs"], (found, gone)
    assert "NOWHERE ELSE" in found["advice"] and "disk readmit" in found["advice"], found
    refused(server, 2, "NOWHERE ELSE", "disk", "add", str(server.disk(2)))
    # Killed in the middle it goes on, or has not begun.
    for attempt in range(6):
        command = subprocess.Popen(
            [BIN, "disk", "readmit", str(server.disk(2)), "--dir", str(server.data), "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.02 + 0.05 * attempt)
        server.kill()
        command.kill()
        command.wait()
        server.start()
    done = subprocess.run([BIN, "disk", "readmit", str(server.disk(2)), "--dir", str(server.data)],
                          capture_output=True, text=True)
    assert done.returncode == 0 or "in use" in done.stderr, (done.stdout, done.stderr)
    until("it is looked through", lambda: state(server, server.disk(2)) == "online")
    assert readable(server, NAMES + more) == NAMES + more
    refused(server, 4, "in use", "disk", "readmit", str(server.disk(2)))
    until("all is whole", lambda: all(
        line["failures_left"] == 2 for line in server.admin("status")["ledger"]["lines"]))
    assert_sound(server)
    deep = json.loads(server.admin("fsck", "--deep", check=False).stdout)["ledger"]
    assert not deep["at_risk"] and all(line["proven"] for line in deep["lines"] if line["blobs"]), deep
    # A copy of it is none to be taken back.
    copy = folder(server, "copy")
    shutil.copy(server.disk(2) / "dewar-disk", copy)
    refused(server, 4, "is one a copy of the other", "disk", "readmit", str(copy))


def test_removing_says_what_it_did(tended):
    server = tended
    done = subprocess.run([BIN, "disk", "remove", "6", "--dir", str(server.data)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for words in ["disk 6 was removed", "shards", "out of the journal for good", f"dewar disk readmit {server.disk(6)}",
                  "what is there without it", "PROVEN SINCE"]:
        assert words in done.stdout, done.stdout
    # Taken back by its number it is as before.
    back = server.admin("disk", "readmit", "6")
    assert back["number"] == 6 and back["path"] == str(server.disk(6)), back
    until("it is looked through", lambda: state(server, server.disk(6)) == "online")
    server.restart()
    wait_for_disks(server, 6)
    assert_sound(server)
    check(server.boto(), NAMES, 1)


def test_a_disk_in_another_folder_is_not_missed_in_the_old_one(tended):
    server = tended
    server.stop()
    old, new = server.disk(6), server.disk(6).with_name("moved6")
    shutil.move(old, new)
    config = server.data / "dewar.toml"
    text = config.read_text()
    assert "disk6" in text, text
    config.write_text(text.replace("disk6", "moved6"))
    server.start()
    wait_for_disks(server, 6)
    disks = server.admin("status")["pool"]["disks"]
    assert [disk["state"] for disk in disks] == ["online"] * 6, disks
    assert line(server, old) is None and line(server, new)["number"] == 6
    remembered = json.loads((server.data / "pool.json").read_text())["disks"]
    assert all(disk["id"] for disk in remembered) and len(remembered) == 6, remembered
    server.restart()
    assert line(server, old) is None
    # One that is waited for in vain is forgotten when that is said.
    server.stop()
    path = server.data / "pool.json"
    pool = json.loads(path.read_text())
    pool["disks"].append({"number": 9, "id": None, "folder": str(old), "removed": False})
    path.write_text(json.dumps(pool))
    server.start()
    assert state(server, old) == "missing"
    server.admin("disk", "remove", str(old))
    assert line(server, old) is None
    server.restart()
    assert line(server, old) is None
    assert_sound(server)


def test_a_removed_disk_that_is_gone_asks_for_nothing(tended):
    server = tended
    pull(server, 6)
    wait_for_disks(server, 5)
    server.admin("disk", "remove", "6")
    found = next(line for line in server.admin("disk", "list") if line["number"] == 6)
    assert found["state"] == "removed" and found["advice"] is None, found
    put_back(server, 6)
    until("it is seen", lambda: (line(server, server.disk(6)) or {}).get("advice"))
    assert "readmit" in line(server, server.disk(6))["advice"]


def test_a_loss_that_takes_the_catalog_is_not_accepted(tended):
    """The index is on three disks. Were they given up, all would be lost although they may return."""
    server = tended
    server.stop()
    holders = [number for number in range(1, 7) if list(server.disk(number).glob("index/*"))]
    assert len(holders) == 3
    pull(server, *holders)
    done = subprocess.run([BIN, "serve", "--accept-loss", "--config", str(server.data / "dewar.toml")],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 or done.returncode == 5, done.stderr
    assert "Nothing was changed" in done.stderr, done.stderr
    put_back(server, *holders)
    server.start()
    wait_for_disks(server, 6)
    check(server.boto(), NAMES, 1)
