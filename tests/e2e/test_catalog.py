"""The catalog as a whole: backed up, lost, rebuilt, restored; on a real process."""

import json
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import content, until
from server import BIN, Server

OWNED = {"DEWAR_POOL_SMALL_OBJECT_THRESHOLD": "8KiB"}
BUCKET = "lab"


@pytest.fixture
def lab(tmp_path):
    server = Server(tmp_path / "own", environment=OWNED).start()
    server.boto().create_bucket(Bucket=BUCKET)
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


def fill(s3, prefix, seed):
    """Small and large objects, one in parts; what they are."""
    expected = {}
    for n in range(40):
        expected[f"{prefix}/small{n}"] = content(seed + n, 100 + 150 * n)
    for n in range(4):
        expected[f"{prefix}/large{n}"] = content(seed + n, 300_000 + n)
    for key, body in expected.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=body, ContentType="text/lab",
                      Metadata={"seed": str(seed)})
    parts = [content(seed, 5 << 20), content(seed + 1, 70_000)]
    key = f"{prefix}/parts"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    done = [{"PartNumber": n, "ETag": s3.upload_part(
        Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=n, Body=body)["ETag"]}
        for n, body in enumerate(parts, 1)]
    s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload,
                                 MultipartUpload={"Parts": done})
    expected[key] = b"".join(parts)
    return expected


def check(s3, expected):
    for key, body in expected.items():
        got = s3.get_object(Bucket=BUCKET, Key=key)
        assert got["Body"].read() == body, key


def catalog(server, *arguments, check=True):
    done = subprocess.run([BIN, *arguments, "--dir", str(server.data), "--json"],
                          capture_output=True, text=True, timeout=300)
    if check:
        # 1 says that something is lost, or may be and is listed.
        told = json.loads(done.stdout) if done.returncode == 1 and done.stdout else {}
        assert done.returncode == 0 or told.get("unknown"), done.stderr + done.stdout
    return done


def lose_catalog(server, *what):
    for number in range(1, 7):
        for folder in what or ("journal", "index"):
            shutil.rmtree(server.disk(number) / folder, ignore_errors=True)


def as_user(server, name):
    """The door, as a user whose key was just made."""
    key = server.admin("key", "add", "--user", name)
    return boto3.client(
        "s3", endpoint_url=server.s3["endpoint"], region_name=server.s3["region"],
        aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"],
        config=Config(retries={"max_attempts": 0}, signature_version="s3v4"))


def told_in_audit(lab, action):
    lines = catalog(lab, "audit", "--event", "admin").stdout.splitlines()
    return [line for line in map(json.loads, lines) if line["action"] == action]


def test_a_lost_catalog_comes_back_from_an_hourly_backup(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    s3 = lab.boto()
    before = fill(s3, "before", 1)
    first = json.loads(catalog(lab, "backup", str(backups)).stdout)
    assert first["copied_bytes"] == first["bytes"] > 0
    after = fill(s3, "after", 100)
    second = json.loads(catalog(lab, "backup", str(backups)).stdout)
    assert second["copied_bytes"] < second["bytes"] and second["upto"] > first["upto"]
    later = fill(s3, "later", 200)
    # Small objects of the last minutes are sealed at a clean stop.
    refused = catalog(lab, "catalog", "rebuild", check=False)
    assert refused.returncode == 4 and "runs" in refused.stderr
    refused = catalog(lab, "restore", str(backups), check=False)
    assert refused.returncode == 4
    third = json.loads(catalog(lab, "backup", str(tmp_path / "other"), check=False).stdout or "{}")
    assert third == {}, "a folder that does not exist"
    lab.stop()
    refused = catalog(lab, "restore", str(backups), check=False)
    assert refused.returncode != 0 and "rebuild" in refused.stderr

    lose_catalog(lab)
    told = json.loads(catalog(lab, "restore", str(backups), "--dry-run").stdout)
    assert told["upto"] == second["upto"] and told["dry_run"]
    assert not (lab.disk(1) / "index").exists()
    done = catalog(lab, "restore", str(backups), "--salvage")
    told = json.loads(done.stdout)
    assert told["settled"] and told["blobs"]["objects"] >= 4
    assert os.stat(told["report"]).st_mode & 0o77 == 0
    # Refused once, and done once; a dry run changes nothing and is not told.
    lines = told_in_audit(lab, "admin:catalog-restore")
    assert [line["outcome"] for line in lines] == ["failed", "allowed"]
    assert lines[1]["target"] == str(backups) and "from backup" in lines[1]["why"]
    lab.start()
    s3 = lab.boto()
    check(s3, before | after)
    # What was in the journal alone is lost with it: small objects that were not sealed yet.
    large = {key: body for key, body in later.items() if "small" not in key}
    for key in large:
        assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == large[key], key


def test_what_the_journal_has_beyond_a_backup_is_not_lost(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    before = fill(lab.boto(), "before", 1)
    # So that the journal does not reach back to the beginning.
    lab.stop()
    lab.start()
    s3 = lab.boto()
    taken = json.loads(catalog(lab, "backup", str(backups)).stdout)
    after = fill(s3, "after", 100)
    s3.put_object(Bucket=BUCKET, Key="before/small1", Body=b"replaced")
    s3.delete_object(Bucket=BUCKET, Key="before/small2")
    before["before/small1"] = b"replaced"
    del before["before/small2"]
    lab.kill()
    lose_catalog(lab, "index")
    told = json.loads(catalog(lab, "restore", str(backups), "--dry-run", "--salvage").stdout)
    assert told["made_of"] == "exact" and told["followed_upto"] > taken["upto"], told
    # Killed at any moment, it is done again.
    for pause in (0.02, 0.1, 0.3):
        process = subprocess.Popen(
            [BIN, "restore", str(backups), "--salvage", "--dir", str(lab.data), "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
    again = catalog(lab, "restore", str(backups), "--salvage", check=False)
    assert again.returncode == 0 or "loses nothing" in again.stderr, again.stderr
    lab.start()
    s3 = lab.boto()
    check(s3, before | after)
    with pytest.raises(ClientError):
        s3.get_object(Bucket=BUCKET, Key="before/small2")


def test_with_nothing_left_of_the_catalog_the_disks_tell(lab, tmp_path):
    s3 = lab.boto()
    expected = fill(s3, "data", 1)
    s3.put_object(Bucket=BUCKET, Key="data/large0", Body=content(9, 310_000))
    expected["data/large0"] = content(9, 310_000)
    # A backup seals what is open.
    backups = tmp_path / "backups"
    backups.mkdir()
    catalog(lab, "backup", str(backups))
    lab.kill()
    lose_catalog(lab)
    blobs = {path: path.stat().st_mtime_ns for path in lab.data.glob("disk*/blobs/*/*")}
    told = catalog(lab, "catalog", "rebuild", "--dry-run")
    assert json.loads(told.stdout)["made_of"] == "blobs"
    refused = catalog(lab, "catalog", "rebuild", check=False)
    assert refused.returncode != 0 and "backup" in refused.stderr
    # Killed at any moment, it goes on.
    for pause in (0.02, 0.1, 0.2, 0.4):
        process = subprocess.Popen(
            [BIN, "catalog", "rebuild", "--accept-loss", "--dir", str(lab.data), "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
    info = json.loads(catalog(lab, "catalog", "rebuild", "--accept-loss").stdout)
    assert info["settled"]
    assert {path: path.stat().st_mtime_ns for path in blobs} == blobs, "blobs were written to"
    lab.start()
    users = [user["name"] for user in lab.admin("user", "list")]
    owner = next(name for name in users if name.startswith("salvaged-"))
    check(as_user(lab, owner), expected)
    older = as_user(lab, "dewar-salvage").list_objects_v2(Bucket="dewar-salvaged")["Contents"]
    assert any(entry["Key"].startswith(f"{BUCKET}/data/large0@") for entry in older)


def killed_after(lab, lines, *command):
    """The command, killed when its report has so many lines; where the report is."""
    process = subprocess.Popen([BIN, *command, "--dir", str(lab.data), "--json"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = list(lab.data.rglob("catalog-report.jsonl"))
        if found and len(found[0].read_bytes().splitlines()) >= lines:
            break
        time.sleep(0.001)
    assert process.poll() is None, "it was over before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    return found[0]


def lines_of(report):
    return [json.loads(line) for line in report.read_text().splitlines()]


def told_back(report):
    """The objects that were put back: each is told once."""
    told = [line["path"] for line in lines_of(report) if line["found"] == "object"]
    assert len(told) == len(set(told)), "told twice"
    return set(told)


@pytest.mark.parametrize("way", ["restore", "rebuild"])
def test_what_was_cut_short_ends_with_a_report_of_all_when_it_is_typed_again(lab, tmp_path, way):
    backups, sealing = tmp_path / "backups", tmp_path / "sealing"
    backups.mkdir()
    sealing.mkdir()
    s3 = lab.boto()
    s3.put_object(Bucket=BUCKET, Key="first", Body=b"first")
    catalog(lab, "backup", str(backups))
    # What can still be read, small ones of a segment among it; and one that cannot.
    expected = {f"later{n:03}": content(n, 20_000) for n in range(100)}
    expected |= {f"small{n:03}": content(n, 500 + n) for n in range(100)}
    for key, body in expected.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    before = {path.name for path in lab.data.glob("disk*/blobs/*/*")}
    s3.put_object(Bucket=BUCKET, Key="doomed", Body=content(7, 90_000))
    doomed = [path for path in lab.data.glob("disk*/blobs/*/*") if path.name not in before]
    assert len(doomed) == 6, doomed
    # A backup seals what is open.
    catalog(lab, "backup", str(sealing))
    lab.kill()
    for path in doomed[:3]:
        path.unlink()
    lose_catalog(lab)
    command = {"restore": ["restore", str(backups), "--salvage"],
               "rebuild": ["catalog", "rebuild", "--accept-loss"]}[way]
    back = {f"/{BUCKET}/{key}" for key in expected}
    if way == "rebuild":
        back.add(f"/{BUCKET}/first")
    for lines in (10, 15, 20, 15, 10):
        report = next(iter(lab.data.rglob("catalog-report.jsonl")), None)
        seen = len(report.read_bytes().splitlines()) if report else 0
        report = killed_after(lab, seen + lines, *command)
    assert 10 <= len(told_back(report)) <= len(back)
    # In the middle of whatever it does; the last of them is over before.
    process = None
    for pause in (0.05, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 60):
        process = subprocess.Popen([BIN, *command, "--dir", str(lab.data)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(pause)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert process.returncode == 1, process.returncode
    # Whoever did not see what it said types it again, with a slash that was not there.
    if way == "restore":
        command[1] += "/"
    done = catalog(lab, *command)
    info = json.loads(done.stdout)
    assert done.returncode == 1 and info["gone_on"] and info["settled"] and info["placed"], info
    assert info["made_of"] == {"restore": "backup", "rebuild": "blobs"}[way], info
    assert any("without content" in line for line in info["unknown"]), info
    assert any("in the journal only" in line for line in info["unknown"]), info
    assert info["report"] == str(report)
    told = told_back(report)
    assert told == back
    assert info["blobs"]["objects"] == len(back), info
    assert info["blobs"]["too_few_shards"] == 1, info
    assert [line for line in lines_of(report) if line.get("path") == f"/{BUCKET}/doomed"], "not named"
    text = subprocess.run([BIN, *command, "--dir", str(lab.data)], capture_output=True, text=True,
                          timeout=300).stdout
    assert "attempt " in text and f"put back      {len(back)} objects" in text, text
    assert "not put back" not in text and "not known" in text, text
    # Nothing is left to be done, and a look at it alarms nobody.
    look = json.loads(catalog(lab, "catalog", "rebuild", "--dry-run").stdout)
    assert look["made_of"] == "exact" and look["settled"] and look["blobs"] is None, look
    assert look["report"] != str(report), "a look took the place of the report"
    look = json.loads(catalog(lab, "restore", str(backups), "--dry-run").stdout)
    assert look["here_upto"] > 0, look
    lab.start()
    s3 = lab.boto()
    if way == "rebuild":
        users = [user["name"] for user in lab.admin("user", "list")]
        s3 = as_user(lab, next(name for name in users if name.startswith("salvaged-")))
    check(s3, expected)
    lab.stop()
    # It is of the past; a restore says where it is told of, and the next one keeps that.
    assert not list(lab.data.rglob("catalog-work.json"))
    refused = catalog(lab, "restore", str(backups), "--salvage", check=False)
    assert "loses nothing" in refused.stderr and str(report) in refused.stderr, refused.stderr
    catalog(lab, "catalog", "rebuild")
    assert [kept for kept in report.parent.glob("catalog-report-before-*") if told_back(kept) == told]


def test_what_a_look_only_counted_is_not_counted_as_put_back(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    s3 = lab.boto()
    s3.put_object(Bucket=BUCKET, Key="first", Body=b"first")
    catalog(lab, "backup", str(backups))
    bodies = {f"later{n:03}": content(n, 20_000) for n in range(100)}
    for key, body in bodies.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    lab.kill()
    lose_catalog(lab)
    report = killed_after(lab, 20, "restore", str(backups))
    assert all(line["put_back"] is False for line in lines_of(report)[:20])
    info = json.loads(catalog(lab, "restore", str(backups), "--salvage").stdout)
    assert info["blobs"]["objects"] == 100 and info["settled"], info
    lab.start()
    check(lab.boto(), bodies)


def test_a_restore_without_salvage_says_what_it_does_not_put_back(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    s3 = lab.boto()
    s3.put_object(Bucket=BUCKET, Key="first", Body=b"first")
    catalog(lab, "backup", str(backups))
    body = content(1, 20_000)
    s3.put_object(Bucket=BUCKET, Key="later", Body=body)
    lab.kill()
    lose_catalog(lab)
    refused = catalog(lab, "catalog", "rebuild", check=False)
    assert "--accept-loss" in refused.stderr and "--salvage" in refused.stderr, refused.stderr
    told = subprocess.run([BIN, "restore", str(backups), "--dir", str(lab.data)],
                          capture_output=True, text=True, timeout=300)
    assert told.returncode == 1 and "not put back  1 objects" in told.stdout, told.stdout
    assert "not known" in told.stdout and "that were written since" in told.stdout, told.stdout
    assert "left to do" in told.stdout, told.stdout
    # The same with --salvage goes on with it.
    info = json.loads(catalog(lab, "restore", str(backups), "--salvage").stdout)
    assert info["blobs"]["objects"] == 1 and info["settled"], info
    lab.start()
    assert lab.boto().get_object(Bucket=BUCKET, Key="later")["Body"].read() == body


def test_a_damaged_backup_is_refused_by_name(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    fill(lab.boto(), "data", 1)
    catalog(lab, "backup", str(backups))
    lab.stop()
    lose_catalog(lab)
    run = next((backups / "runs").iterdir())
    with run.open("r+b") as file:
        file.seek(50)
        byte = file.read(1)[0]
        file.seek(50)
        file.write(bytes([byte ^ 1]))
    refused = catalog(lab, "restore", str(backups), check=False)
    assert refused.returncode != 0 and run.name in refused.stderr
    assert not (lab.disk(1) / "index").exists()


def test_backups_go_on_under_load_and_after_kills(lab, tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    s3 = lab.boto()
    expected = {}
    for round_ in range(4):
        expected |= fill(s3, f"round{round_}", 1000 * round_)
        asking = subprocess.Popen([BIN, "backup", str(backups), "--dir", str(lab.data)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.02 * round_)
        lab.kill()
        asking.wait()
        lab.start()
        s3 = lab.boto()
    catalog(lab, "backup", str(backups))
    lab.stop()
    lose_catalog(lab)
    catalog(lab, "restore", str(backups), "--salvage")
    lab.start()
    check(lab.boto(), expected)


def test_an_exact_rebuild_mends_copies(lab):
    s3 = lab.boto()
    expected = fill(s3, "data", 1)
    lab.stop()
    lab.start()
    lab.stop()
    runs = sorted(lab.data.glob("disk*/index/*.run"))
    assert runs
    victim = runs[0]
    with victim.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 8]))
    lab.allow("index|run")
    info = json.loads(catalog(lab, "catalog", "rebuild").stdout)
    assert info["made_of"] == "exact" and info["settled"]
    [told] = told_in_audit(lab, "admin:catalog-rebuild")
    assert told["outcome"] == "allowed" and "exact" in told["why"] and told["who"] == f"uid {os.getuid()}"
    lab.start()
    s3 = lab.boto()
    check(s3, expected)
    with pytest.raises(ClientError):
        s3.get_object(Bucket=BUCKET, Key="none")


def test_a_catalog_that_is_damaged_on_every_disk_is_told_of(lab):
    """The running server says what is wrong and what to do, checks what it can, and a rebuild mends it."""
    lab.allow("index|catalog|run|ledger|repair|scrub")
    s3 = lab.boto()
    bodies = {f"name{n:04}": content(n, 100) for n in range(1500)}
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: s3.put_object(Bucket=BUCKET, Key=item[0], Body=item[1]), bodies.items()))
    lab.restart()
    runs = sorted(lab.data.glob("disk*/index/*.run"))
    assert runs
    for path in runs:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(size // 2)
            file.write(bytes(size // 4))
    text = subprocess.run([BIN, "fsck", "--deep", "--dir", str(lab.data)], capture_output=True, text=True, timeout=120)
    assert text.returncode == 1 and "FAILURES LEFT" in text.stdout, text.stdout + text.stderr
    assert "catalog: NOT WHOLE" in text.stdout and "`dewar catalog rebuild`" in text.stdout, text.stdout
    status = lab.admin("status")["ledger"]
    assert status["catalog"] == -1 and status["catalog_lost"] > 0, status
    assert lab.admin("status", "--check", check=False).returncode == 2
    page = requests.get(lab.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    assert "\ndewar_catalog_margin -1\n" in page
    lab.stop()
    dry = json.loads(catalog(lab, "catalog", "rebuild", "--dry-run").stdout)
    assert dry["blobs"]["objects"] == len(bodies), dry
    refused = catalog(lab, "catalog", "rebuild", check=False)
    assert refused.returncode == 5 and "--accept-loss" in refused.stderr, refused.stderr
    real = json.loads(catalog(lab, "catalog", "rebuild", "--accept-loss").stdout)
    assert real["blobs"]["objects"] == len(bodies), real
    lab.start()
    assert lab.admin("status")["ledger"]["catalog"] == 2


def state(server, path):
    return next((disk["state"] for disk in server.admin("disk", "list") if disk["path"] == str(path)), None)


def test_disks_are_not_emptied_before_a_restore_is_settled(lab, tmp_path):
    """What no record names moves with no disk; of those that are gone a rebuild takes what turns up."""
    lab.allow("disk|shard|journal|holder|missing|repair|catalog|index|removed|cannot be read|decoded")
    backups = tmp_path / "backups"
    backups.mkdir()
    lab.boto().put_object(Bucket=BUCKET, Key="first", Body=content(0, 300_000))
    catalog(lab, "backup", str(backups))
    later = {f"later{n}": content(n, 300_000 + n) for n in range(6)}
    for key, body in later.items():
        lab.boto().put_object(Bucket=BUCKET, Key=key, Body=body)
    lab.kill()
    lose_catalog(lab)
    catalog(lab, "restore", str(backups))
    lab.start()
    told = lab.admin("status")
    assert told["ledger"]["unsettled"], told
    assert lab.admin("status", "--check", check=False).returncode == 1
    text = subprocess.run([BIN, "status", "--dir", str(lab.data)], capture_output=True, text=True).stdout
    assert "all is well" not in text and "--discard-unnamed" in text, text
    text = subprocess.run([BIN, "fsck", "--dir", str(lab.data)], capture_output=True, text=True)
    assert text.returncode == 1 and "`dewar catalog rebuild`" in text.stdout, text.stdout
    new = [tmp_path / f"new{number}" for number in (1, 2, 3)]
    for folder in new:
        folder.mkdir()
    for command in (["replace", "1", str(new[0])], ["drain", "1"], ["remove", "1"]):
        refused = lab.admin("disk", *command, check=False)
        assert refused.returncode != 0 and "catalog rebuild" in refused.stderr, (command, refused.stderr)
    # What is gone is let go.
    for number, folder in zip((1, 2, 3), new):
        lab.disk(number).rename(tmp_path / f"gone{number}")
        until("it is missing", lambda: state(lab, lab.disk(number)) == "missing")
        lab.admin("disk", "replace", str(number), str(folder))
        until("it is removed", lambda: state(lab, lab.disk(number)) in ("removed", None))
        until("all that is named is whole", lambda: all(
            line["failures_left"] == 2 for line in lab.admin("status")["ledger"]["lines"]))
    for number in (1, 2, 3):
        (tmp_path / f"gone{number}").rename(lab.disk(number))
    until("it is known", lambda: all(
        disk.get("holds") for disk in lab.admin("disk", "list") if disk["state"] == "removed"))
    disks = subprocess.run([BIN, "disk", "list", "--dir", str(lab.data)], capture_output=True, text=True).stdout
    assert "which may not be all" in disks, disks
    lab.stop()
    dry = json.loads(catalog(lab, "catalog", "rebuild", "--dry-run").stdout)
    real = json.loads(catalog(lab, "catalog", "rebuild").stdout)
    assert dry["blobs"]["objects"] == real["blobs"]["objects"] == 6, (dry, real)
    lab.start()
    assert not lab.admin("status")["ledger"]["unsettled"]
    for number in (1, 2, 3):
        lab.admin("disk", "readmit", str(lab.disk(number)))
    check(lab.boto(), later)
