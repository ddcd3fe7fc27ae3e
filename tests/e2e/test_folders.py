"""Folders of disks that somebody removes, moves away or makes anew while the server runs."""

import shutil
import threading
import time

import pytest
from conftest import content, until
from server import Server
from test_degraded import check, pull, put_back, wait_for_disks, write
from test_upkeep import NOISE, status_text


@pytest.fixture
def tended(tmp_path):
    environment = {"DEWAR_UPKEEP_REBUILD_AFTER": "600s", "DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "4KiB"}
    server = Server(tmp_path / "own", environment=environment).start()
    server.allow(NOISE + "|somebody removed|shards are gone")
    write(server.boto(), ["before"], 1)
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


def left(server):
    """The fewest failures that anything survives, as the server says: blobs and catalog."""
    ledger = server.admin("status")["ledger"]
    return min([line["failures_left"] for line in ledger["lines"]] + [ledger["catalog"]])


def whole(server):
    until("all survives two failures", lambda: left(server) >= 2)


def holders(server, what):
    return [number for number in range(1, 7) if list(server.disk(number).glob(what))]


class Writer(threading.Thread):
    """Writes until it is stopped, and keeps what was acknowledged."""

    def __init__(self, server):
        super().__init__()
        self.s3 = server.boto(retries={"max_attempts": 4})
        self.kept, self.error, self.ending = [], None, threading.Event()

    def run(self):
        n = 0
        while not self.ending.is_set():
            size = [900, 3_000, 40_000, 700_000][n % 4]
            key = f"load/{n}"
            try:
                self.s3.put_object(Bucket="demo", Key=key, Body=content(key, size))
            except Exception as error:
                self.error = self.error or error
            else:
                self.kept.append((key, size))
            n += 1

    def stop(self):
        self.ending.set()
        self.join()
        assert self.error is None, self.error
        return self.kept


def take_away(folder, how):
    if how == "move":
        folder.rename(folder.with_name(folder.name + ".away"))
        return
    while folder.exists():
        # It may be filled while it is emptied.
        shutil.rmtree(folder, ignore_errors=True)
        if how == "race":
            return


@pytest.mark.parametrize("what,how", [
    ("blobs", "delete"), ("journal", "delete"), ("index", "delete"),
    ("blobs", "move"), ("journal", "move"), ("index", "move"), ("blobs", "race")])
def test_a_folder_that_is_taken_away_costs_nothing_that_was_acknowledged(tended, what, how):
    server = tended
    # So that the index has files, too.
    server.restart()
    number = holders(server, {"blobs": "blobs/0*", "journal": "journal/*.log", "index": "index/*"}[what])[-1]
    whole(server)
    writer = Writer(server)
    writer.start()
    until("something was written", lambda: len(writer.kept) > 20)
    take_away(server.disk(number) / what, how)
    lowest, since = 2, time.monotonic()
    while time.monotonic() < since + 6:
        lowest = min(lowest, left(server))
    if what == "blobs":
        assert lowest == 1, "nobody noticed"  # Copies of the catalog are made in no time.
    whole(server)
    kept = writer.stop()
    server.kill()
    others = [n for n in range(1, 7) if n != number]
    pull(server, others[0], others[-1])
    server.start()
    s3 = server.boto()
    check(s3, ["before"], 1)
    for key, size in kept:
        body = s3.get_object(Bucket="demo", Key=key)["Body"].read()
        assert body == content(key, size), key


def test_a_folder_of_shards_that_went_while_nothing_ran_is_noticed(tended):
    server = tended
    whole(server)
    server.stop()
    take_away(server.disk(2) / "blobs", "delete")
    server.start()
    whole(server)
    assert holders(server, "blobs/0*") == [1, 2, 3, 4, 5, 6]
    pull(server, 3, 5)
    wait_for_disks(server, 4)
    check(server.boto(), ["before"], 1)


def test_the_catalog_is_copied_as_soon_as_its_disks_go(tended):
    server = tended
    server.restart()
    whole(server)
    assert server.admin("status")["ledger"]["catalog"] == 2, "what counts is the index on three disks"
    first, second, *_ = holders(server, "index/manifest")
    pull(server, first, second)
    lowest, began = 2, time.monotonic()
    while time.monotonic() < began + 20:
        catalog = server.admin("status")["ledger"]["catalog"]
        lowest = min(lowest, catalog)
        if lowest < 2 and catalog == 2:
            break
    assert lowest < 2 and catalog == 2, (lowest, catalog)
    assert time.monotonic() < began + 8, "it was not copied at once"
    put_back(server, first, second)


def test_blank_and_missing_folders_are_told_apart(tended):
    server = tended
    pull(server, 1, 2)
    server.disk(2).mkdir()
    wait_for_disks(server, 4)
    told = status_text(server)
    assert f"{server.disk(1)} is missing (there is no such folder)" in told, told
    assert f"{server.disk(2)} is " in told and "(the folder is there and empty" in told, told
    server.restart()
    told = status_text(server)
    assert f"{server.disk(1)} is missing (there is no such folder)" in told, told
    assert f"{server.disk(2)} is blank" in told, told
    server.disk(2).rmdir()
    put_back(server, 1, 2)
    wait_for_disks(server, 6)


def test_who_lost_all_copies_of_the_index_hears_what_to_type(tended):
    server = tended
    server.restart()
    server.stop()
    for number in range(1, 7):
        shutil.rmtree(server.disk(number) / "index", ignore_errors=True)
    server.allow("manifest|index")
    with pytest.raises(RuntimeError) as failed:
        server.start()
    said = str(failed.value)
    assert "dewar catalog rebuild --dry-run" in said and "dewar restore" in said, said
