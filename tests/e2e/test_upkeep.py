"""Scrub, repair, the redundancy ledger, and decisions about disks, on a real process."""

import json
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from botocore.exceptions import ClientError
from conftest import content, until
from server import BIN, Server
from test_degraded import check, pull, put_back, wait_for_disks, write

NOISE = r"disk\d|shard|decoded around|journal|holder|missing|repair|scrub"


@pytest.fixture
def tended(tmp_path):
    """A server that is quick to rebuild, with objects of all sizes."""
    environment = {"DEWAR_UPKEEP_REBUILD_AFTER": "2s", "DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "4KiB"}
    server = Server(tmp_path / "own", environment=environment).start()
    write(server.boto(), ["a", "b", "c", "d"], 1)
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


def shards(server, number):
    return sorted(server.disk(number).glob("blobs/*/*"))


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


def disk(server, number):
    path = str(server.disk(number))
    return next(line for line in server.admin("disk", "list") if line["path"] == path)


def fsck(server, *arguments):
    done = server.admin("fsck", *arguments, check=False)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["ledger"]


def status_text(server):
    done = subprocess.run([BIN, "status", "--dir", str(server.data)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log_lines(server):
    return server.log_path.read_text(errors="replace").splitlines()


def passes(server):
    return [line["scrubbed"] for line in server.admin("disk", "list")]


def assert_sound(server):
    code, ledger = fsck(server, "--deep")
    assert code == 0 and ledger["found_bad"] == 0 and not ledger["at_risk"], ledger
    assert [line["failures_left"] for line in ledger["lines"]] == [ledger["full"]]


def test_a_scrub_finds_rot_and_repair_mends_it(tended):
    server = tended
    server.allow(NOISE)
    dice = random.Random(1)
    # Two disks of 4+2 may be wrong at once, anywhere.
    for number in (2, 5):
        for path in shards(server, number):
            flip(path, dice.randrange(path.stat().st_size))
    lost = shards(server, 5)[0]
    kept = lost.read_bytes()
    lost.unlink()
    code, ledger = fsck(server)
    assert code == 0, "nobody has looked yet"
    began = time.time()
    done = server.admin("scrub", check=False)
    assert done.returncode == 1, done.stderr
    told = {line["path"]: line for line in json.loads(done.stdout)}
    assert all(line["began"] is None and line["bytes"] > 0 for line in told.values()), told
    assert told[str(server.disk(2))]["bad"] == len(shards(server, 2)), told
    assert told[str(server.disk(1))]["bad"] == 0, told
    until("repaired", lambda: server.admin("status")["repair"]["repaired"] >= len(shards(server, 2)))
    until("nothing is known to be bad", lambda: all(
        line["bad_shards"] == 0 for line in server.admin("disk", "list")))
    assert lost.stat().st_size == len(kept)
    # What was found is not forgotten when it is mended.
    found = disk(server, 2)["rot_found"]
    assert found == len(shards(server, 2)) and disk(server, 1)["rot_found"] == 0
    # What is not there has not rotted.
    assert disk(server, 5)["rot_found"] == len(shards(server, 5)) - 1
    assert any("a shard is gone" in line for line in log_lines(server))
    text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    [line] = [line for line in text.splitlines()
              if line.startswith("dewar_disk_rot_found_total") and str(server.disk(2)) in line]
    assert float(line.split()[-1]) == found
    server.restart()
    assert disk(server, 2)["rot_found"] == found
    assert_sound(server)
    _, ledger = fsck(server)
    proven = time.mktime(time.strptime(ledger["lines"][0]["proven"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert proven >= began - 120
    check(server.boto(), ["a", "b", "c", "d"], 1)


def test_what_reads_cannot_mend_is_known_without_a_scrub(tended):
    server, s3 = tended, tended.boto()
    server.allow(r"does not verify|found a bad shard|could not be repaired|shards needed can be read|fail their checksum")
    before = {number: set(shards(server, number)) for number in range(1, 7)}
    s3.put_object(Bucket="demo", Key="rot", Body=content("rot", 3_000_000))
    written = [path for number in range(1, 7) for path in set(shards(server, number)) - before[number]]
    for path in [path for path in written if path.stat().st_size > 500_000][:3]:
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(random.Random(1).randbytes(40_000))
    for _ in range(5):
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket="demo", Key="rot")
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    until("status says that it cannot be read", lambda: "CANNOT BE READ" in status_text(server))
    assert server.admin("status", "--check", check=False).returncode == 2
    code, ledger = fsck(server)
    assert code == 1 and [danger["path"] for danger in ledger["at_risk"]] == ["demo/rot"], ledger
    page = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    bad = [line for line in page.splitlines() if line.startswith("dewar_pages_bad_total ")]
    assert float(bad[0].split()[1]) >= 3, bad
    told = [line for line in log_lines(server) if "found a bad shard" in line]
    assert len(told) == 3 and all("by=read" in line or '"by":"read"' in line for line in told), told


def test_rot_in_the_journal_is_mended_while_it_runs(tended):
    """In the file that is being written: on a quiet pool small objects stand nowhere else."""
    server = tended
    server.allow(NOISE)
    body = content("small", 1000)

    def copies():
        found = {}
        for number in range(1, 7):
            for path in server.disk(number).glob("journal/*.log"):
                at = path.read_bytes().find(body)
                if at >= 0:
                    found[number] = (path, at)
        return found

    server.boto().put_object(Bucket="demo", Key="small", Body=body)
    before = copies()
    assert len(before) == 4, before
    rotten = sorted(before)[:2]
    for number in rotten:
        path, at = before[number]
        flip(path, at + 500)
    assert sorted(copies()) == sorted(before)[2:]
    fsck(server, "--deep")
    assert sorted(copies()) == sorted(before), "mended"
    server.kill()
    for number in sorted(before)[2:]:
        pull(server, number)
    server.start()
    assert server.boto().get_object(Bucket="demo", Key="small")["Body"].read() == body


def test_repair_goes_on_after_a_kill(tended):
    server = tended
    server.allow(NOISE)
    for path in shards(server, 3):
        path.unlink()
    server.admin("scrub", "--no-wait")
    for _ in range(5):
        time.sleep(0.15)
        server.kill()
        server.start()
    server.admin("scrub", "--no-wait")
    until("all shards are back", lambda: len(shards(server, 3)) >= 8 and all(
        line["bad_shards"] == 0 for line in server.admin("disk", "list")))
    assert_sound(server)


def test_fsck_names_what_is_at_risk_online_and_offline(tended):
    server = tended
    server.allow(NOISE)
    pull(server, 1)
    wait_for_disks(server, 5)
    # Small objects in the journal are as safe as the catalog, which is copied first.
    until("the catalog is copied", lambda: server.admin("status")["ledger"]["catalog"] >= 2)
    code, online = fsck(server)
    assert code == 1
    named = {danger["path"] for danger in online["at_risk"]}
    assert {"demo/a/large", "demo/d/medium"} <= named
    assert all(danger["failures_left"] == 1 for danger in online["at_risk"])
    text = server.admin("status", check=False).stdout
    assert '"missing"' in text
    server.stop()
    code, offline = fsck(server, "--deep")
    assert code == 1
    assert {danger["path"] for danger in offline["at_risk"]} == named
    put_back(server, 1)
    server.start()
    assert_sound(server)


def test_a_disk_is_drained_and_removed(tended):
    server = tended
    server.allow(NOISE)
    refused = server.admin("disk", "drain", str(server.disk(3)), check=False)
    assert refused.returncode == 4 and "no disk is spare" in refused.stderr, refused.stderr
    assert "3+2" in refused.stderr and "--narrower" in refused.stderr, refused.stderr
    assert server.admin("status")["pool"]["disks"][2]["state"] == "online"
    told = server.admin("disk", "drain", str(server.disk(3)), "--narrower")
    assert (told["action"], told["number"], told["narrower"]) == ("drain", 3, "3+2")
    assert told["shards"] > 0 and told["bytes"] > 0
    line = server.admin("status")["pool"]["disks"][2]
    assert line["state"] == "draining" and line["shards_left"] is not None, line
    metrics = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    labels = f'{{disk="{server.disk(3)}",state="%s"}} %d'
    assert "dewar_disk_state" + labels % ("draining", 1) in metrics, metrics
    assert "dewar_disk_state" + labels % ("online", 0) in metrics, metrics
    assert "all is well" not in status_text(server)
    until("it is empty", lambda: disk(server, 3)["shards"] == 0 and not shards(server, 3))
    write(server.boto(), ["later"], 2)
    assert not shards(server, 3)
    server.admin("disk", "remove", str(server.disk(3)))
    assert disk(server, 3)["state"] == "removed"
    refused = server.admin("disk", "keep", str(server.disk(3)), check=False)
    assert refused.returncode == 2 or refused.returncode == 1, refused.stderr
    # Five are left, as 3+2: two more may go.
    pull(server, 1, 6)
    wait_for_disks(server, 3)
    check(server.boto(), ["a", "b", "c", "d"], 1)
    check(server.boto(), ["later"], 2)


def test_removing_too_much_is_refused_with_what_would_be_lost(tended):
    server = tended
    server.allow(NOISE)
    pull(server, 1, 2)
    wait_for_disks(server, 4)
    refused = server.admin("disk", "remove", str(server.disk(4)), check=False)
    assert refused.returncode == 4, (refused.returncode, refused.stderr)
    assert "could not be read" in refused.stderr
    assert str(server.disk(4)) in refused.stderr, "it does not say which disk that is"
    lines = refused.stderr.splitlines()
    assert len(lines) < 12 and sum("error:" in line for line in lines) == 1, refused.stderr
    unknown = server.admin("disk", "remove", "/nonexistent", check=False)
    assert unknown.returncode == 3
    put_back(server, 1, 2)
    wait_for_disks(server, 6)
    check(server.boto(), ["a", "b", "c", "d"], 1)


def test_what_was_written_narrow_is_laid_out_again(tended):
    server = tended
    server.allow(NOISE)
    pull(server, 2, 4)
    wait_for_disks(server, 4)
    write(server.boto(), ["narrow"], 3)
    put_back(server, 2, 4)
    wait_for_disks(server, 6)
    until("laid out anew", lambda: server.admin("status")["repair"]["laid_out"] >= 2)
    until("old files are gone", lambda: len({path.name.rsplit(".", 1)[0] for number in range(1, 7)
                                           for path in shards(server, number)})
          == fsck(server)[1]["lines"][0]["blobs"])
    assert_sound(server)
    check(server.boto(), ["narrow"], 3)


def test_content_is_of_the_test(tended):
    """The helpers compare what they wrote, not two equal mistakes."""
    body = tended.boto().get_object(Bucket="demo", Key="a/small")["Body"].read()
    assert body == content(("a", "small", 1), 4_000)


def test_what_rots_of_the_catalog_index_is_found_by_a_deep_check_and_mended(tended):
    """One copy is bad, and nobody would read it before it is the last."""
    tended.allow(r"catalog index|mended|piece")
    tended.restart()
    runs = [run for number in range(1, 7) for run in sorted(tended.disk(number).glob("index/*.run"))]
    assert runs
    # In the middle of a block: what a disk returns wrongly without saying so.
    bad = max(runs, key=lambda run: run.stat().st_size)
    flip(bad, bad.stat().st_size // 3)
    code, ledger = fsck(tended, "--deep")
    assert code == 1 and ledger["found_bad"] > 0, ledger
    until("it is not mended", lambda: fsck(tended, "--deep")[1]["found_bad"] == 0)
    assert_sound(tended)


@pytest.mark.parametrize("online", [True, False])
def test_an_old_copy_of_a_disk_counts_only_as_far_as_it_was_read(tended, tmp_path, online):
    """A folder is copied while the server runs, and put back after more was written."""
    tended.allow(NOISE + r"|old copy|doubt|not there")
    until("never whole", lambda: fsck(tended)[0] == 0)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", tended.disk(2), copy], check=True)
    if online:
        # Which changes the token; without it names tell what is not there.
        tended.restart()
    write(tended.boto(), ["e", "f"], 2)
    tended.stop()
    tended.disk(2).rename(tmp_path / "new")
    copy.rename(tended.disk(2))
    if online:
        tended.start()
    code, ledger = fsck(tended)
    worst = min(line["failures_left"] for line in ledger["lines"])
    assert code == 1 and worst == ledger["full"] - 1, ledger
    if not online:
        tended.start()
    until("never whole again", lambda: fsck(tended)[0] == 0)
    assert fsck(tended, "--deep")[0] == 0
    assert_sound(tended)


def test_a_deep_check_says_whose_bytes_have_rotted_and_counts_as_a_scrub(tended):
    server = tended
    server.allow(NOISE)
    assert_sound(server)
    before = disk(server, 4)["scrubbed"]
    rotten = shards(server, 4)
    assert len(rotten) > 5
    for path in rotten:
        flip(path, path.stat().st_size // 2)
    time.sleep(1.1)
    code, ledger = fsck(server, "--deep")
    assert code == 1 and ledger["found_bad"] == len(rotten), ledger
    said = [line for line in log_lines(server) if "found a bad shard" in line and "fsck" in line]
    assert len(said) == 5 and all(str(server.disk(4)) in line for line in said), said
    assert any("demo/" in line for line in said), said
    [summed] = [line for line in log_lines(server) if "the first were named" in line]
    assert str(len(rotten)) in summed
    assert disk(server, 4)["rot_found"] == len(rotten)
    until("it is mended once", lambda: disk(server, 4)["bad_shards"] == 0)
    # In text it says on which disk.
    for path in rotten[:2]:
        flip(path, path.stat().st_size // 2)
    done = subprocess.run([BIN, "fsck", "--deep", "--dir", str(server.data)], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert f"{server.disk(4)}: 2 shards found rotten" in done.stdout, done.stdout
    assert str(server.disk(3)) not in done.stdout, done.stdout
    assert before is None or disk(server, 4)["scrubbed"] > before
    until("it is mended", lambda: disk(server, 4)["bad_shards"] == 0)
    repairs = [line for line in log_lines(server) if "repaired" in line and " INFO " in line]
    assert len(repairs) <= 3, repairs
    assert_sound(server)


def test_fsck_names_every_object_at_risk(tmp_path):
    """More than one answer holds: page by page, in the text and in the JSON, on- and offline."""
    # Nothing is rebuilt meanwhile.
    environment = {"DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "1KiB", "DEWAR_UPKEEP_REBUILD_AFTER": "1h"}
    server = Server(tmp_path / "own", environment=environment).start()
    try:
        server.allow(NOISE)
        s3 = server.boto()
        s3.put_object(Bucket="demo", Key="src", Body=content(1, 20_000))
        keys = [f"d{n % 7}/deep/o{n:04}" for n in range(2300)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: s3.copy_object(
                Bucket="demo", Key=key, CopySource={"Bucket": "demo", "Key": "src"}), keys))
        pull(server, 1)
        wait_for_disks(server, 5)
        until("the catalog is copied", lambda: server.admin("status")["ledger"]["catalog"] >= 2)
        code, online = fsck(server)
        names = [danger["path"] for danger in online["at_risk"]]
        expected = {f"demo/{key}" for key in keys} | {"demo/src"}
        assert code == 1 and not online["more"]
        assert set(names) == expected and len(names) == len(expected)
        text = subprocess.run([BIN, "fsck", "--dir", str(server.data)], capture_output=True, text=True,
                              timeout=60)
        assert text.returncode == 1
        assert {line.split()[-1] for line in text.stdout.splitlines() if "demo/" in line} == expected
        # For monitoring: less than it should be, and no more.
        checked = server.admin("status", "--check", check=False)
        assert checked.returncode == 1, checked
        pull(server, 2)
        wait_for_disks(server, 4)
        assert server.admin("status", "--check", check=False).returncode == 2
        put_back(server, 2)
        server.stop()
        assert server.admin("status", "--check", check=False).returncode == 2, "nobody answers"
        code, offline = fsck(server)
        assert code == 1 and {danger["path"] for danger in offline["at_risk"]} == expected
        put_back(server, 1)
    finally:
        server.kill()


def test_no_second_process_uses_the_same_disks(tended, tmp_path):
    """Each would write over what the other promised; a lock of the state folder alone does not see it."""
    state = tmp_path / "elsewhere"
    state.mkdir(mode=0o700)
    key = next(tended.data.rglob("master.key"))
    (state / "master.key").write_bytes(key.read_bytes())
    (state / "master.key").chmod(0o600)
    disks = ", ".join(f'"{tended.disk(number)}"' for number in range(1, 7))
    config = tmp_path / "second.toml"
    config.write_text(f"""
[server]
state_dir = "{state}"
[pool]
disks = [{disks}]
[s3]
listen = ["127.0.0.1:0"]
[xrootd]
listen = []
""")
    for command in (["serve"], ["fsck"], ["disk", "list"], ["catalog", "rebuild", "--accept-loss"]):
        done = subprocess.run([BIN, *command, "--config", str(config)], capture_output=True, text=True, timeout=60)
        assert done.returncode not in (0, 2), (command, done)
        assert "in use by another process" in done.stderr, (command, done.stderr)
    check(tended.boto(), ["a", "b", "c", "d"], 1)
    tended.stop()
    done = subprocess.run([BIN, "fsck", "--config", str(config)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
