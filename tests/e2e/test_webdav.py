"""WebDAV as people use it: litmus, curl, rclone, and the same files over S3."""

import os
import subprocess
import time
import zlib

import pytest
import requests
from conftest import ROOT, content

TOOLS = ROOT / ".tools"


@pytest.fixture
def dav(server, bucket):
    """A session with the credentials of the demo, and the address of the test's bucket."""
    session = requests.Session()
    session.auth = (server.s3["access_key"], server.s3["secret_key"])
    session.base = f"{server.ready['webdav']['endpoint']}/{bucket}"
    return session


@pytest.mark.parametrize("suite", ["basic", "copymove", "props", "locks", "http"])
def test_litmus(dav, suite, tmp_path):
    """The public suite passes as a whole. It warns of `delete_fragment` only: its client sends the fragment of a URL,
    which is not part of a request."""
    done = subprocess.run(
        [TOOLS / "usr/libexec/litmus" / suite, "--htdocs", TOOLS / "usr/share/litmus/htdocs", f"{dav.base}/", *dav.auth],
        env=dict(os.environ, LD_LIBRARY_PATH=str(TOOLS / "usr/lib/x86_64-linux-gnu")), cwd=tmp_path, capture_output=True,
        text=True, timeout=120)
    lines = done.stdout.replace("\r", "\n").splitlines()
    assert done.returncode == 0, done.stdout
    wrong = [line for line in lines if "FAIL" in line or "WARNING" in line]
    assert all("fragment" in line for line in wrong), wrong
    number = {"basic": 16, "copymove": 13, "props": 30, "locks": 41, "http": 4}[suite]
    assert f"of {number} tests run: {number} passed, 0 failed" in done.stdout, done.stdout


def test_files_are_the_same_over_s3(server, bucket, dav):
    data = content("large", 5_000_000)
    put = dav.put(f"{dav.base}/a/b%20c/large", data=data, headers={"Digest": f"adler32={zlib.adler32(data):08x}"})
    assert put.status_code == 201
    assert server.boto().get_object(Bucket=bucket, Key="a/b c/large")["Body"].read() == data
    server.boto().put_object(Bucket=bucket, Key="x/y", Body=b"from S3", ContentType="text/plain")
    got = dav.get(f"{dav.base}/x/y")
    assert (got.content, got.headers["content-type"]) == (b"from S3", "text/plain")
    listed = dav.request("PROPFIND", dav.base, headers={"Depth": "1"})
    assert listed.status_code == 207
    assert f"<D:href>/{bucket}/a/</D:href>" in listed.text and f"<D:href>/{bucket}/x/</D:href>" in listed.text


def test_ranges_and_digests_as_davix_asks_for_them(dav):
    data = content("ranges", 3_000_000)
    dav.put(f"{dav.base}/file", data=data)
    spec = ",".join(f"{start}-{start + 99}" for start in range(0, 2_900_000, 2_500))
    several = dav.get(f"{dav.base}/file", headers={"Range": f"bytes={spec}"})
    assert several.status_code == 206
    boundary = several.headers["content-type"].split("boundary=")[1].encode()
    parts = several.content.split(b"--" + boundary)[1:-1]
    assert len(parts) == 1160
    for start, part in zip(range(0, 2_900_000, 2_500), parts):
        head, _, body = part.partition(b"\r\n\r\n")
        assert f"bytes {start}-{start + 99}/3000000".encode() in head
        assert body == data[start:start + 100] + b"\r\n"
    head = dav.head(f"{dav.base}/file", headers={"Want-Digest": "ADLER32"})
    assert head.headers["digest"] == f"adler32={zlib.adler32(data):08x}"


def test_curl_uploads_and_is_refused_before_it_sends(dav, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content("curl", 2_000_000))
    curl = ["curl", "-sS", "-u", ":".join(dav.auth), "-H", "Expect: 100-continue", "-w", "%{http_code} %{size_upload}",
            "-o", "/dev/null", "-T", file]
    run = lambda *words: subprocess.run([*curl, *words], capture_output=True, text=True, timeout=60, check=True).stdout
    assert run(f"{dav.base}/file") == "201 2000000"
    assert run(f"{dav.base}/file") == "200 2000000"
    assert run("-H", "If-None-Match: *", f"{dav.base}/file") == "412 0"
    with file.open("rb") as stdin:
        chunked = subprocess.run([*curl[:-1], "-", f"{dav.base}/chunked"], stdin=stdin, capture_output=True, text=True, timeout=60)
    assert chunked.stdout.split()[0] == "201"
    assert dav.get(f"{dav.base}/chunked").content == file.read_bytes()


@pytest.mark.parametrize("vendor", ["other", "owncloud"])
def test_rclone(server, bucket, dav, tmp_path, vendor):
    rclone = TOOLS / "usr/bin/rclone"
    secret = subprocess.run([rclone, "obscure", dav.auth[1]], capture_output=True, text=True, check=True).stdout.strip()
    remote = {"TYPE": "webdav", "URL": server.ready["webdav"]["endpoint"], "VENDOR": vendor, "USER": dav.auth[0], "PASS": secret}
    environment = {**server.client_environment(), "RCLONE_CONFIG": "/nonexistent",
                   **{f"RCLONE_CONFIG_DAV_{name}": value for name, value in remote.items()}}
    run = lambda *words: subprocess.run([rclone, *words], env=environment, capture_output=True, text=True, timeout=120)
    tree = tmp_path / "tree"
    (tree / "sub dir").mkdir(parents=True)
    for name, size in [("a", 10), ("empty", 0), ("sub dir/b+c%d#e", 3_000_000)]:
        (tree / name).write_bytes(content(name, size))

    def done(*words):
        outcome = run(*words)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    os.utime(tree / "a", (1_000_000_000, 1_000_000_000))
    done("sync", tree, f"dav:{bucket}/t")
    if vendor == "owncloud":
        # It sends the time of each file, and compares it with that of the server.
        assert "2001-09-09 01:46:40" in done("lsl", f"dav:{bucket}/t/a")
    done("check", "--download", tree, f"dav:{bucket}/t")
    done("moveto", f"dav:{bucket}/t/a", f"dav:{bucket}/t/moved")
    done("copyto", f"dav:{bucket}/t/moved", f"dav:{bucket}/t/again")
    assert set(done("lsf", f"dav:{bucket}/t").split("\n")) == {"again", "empty", "moved", "sub dir/", ""}
    assert "Free" in done("about", f"dav:{bucket}")
    done("purge", f"dav:{bucket}/t")
    assert run("lsf", f"dav:{bucket}/t").returncode != 0


LOCKINFO = ('<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>'
            '</D:lockinfo>')


def test_administrators_see_and_end_locks(server, bucket, dav):
    dav.put(f"{dav.base}/dir/file", data=b"1")
    locked = dav.request("LOCK", f"{dav.base}/dir/file", data=LOCKINFO, headers={"Depth": "0"})
    assert locked.status_code == 200
    token = locked.headers["lock-token"].strip("<>")
    assert dav.put(f"{dav.base}/dir/file", data=b"2").status_code == 423
    [held] = server.admin("lock", "list", f"/{bucket}/dir")
    assert (held["token"], held["path"], held["deep"]) == (token, f"/{bucket}/dir/file", False)
    assert server.admin("lock", "list", f"/{bucket}/other") == []
    [broken] = server.admin("lock", "break", token)
    assert broken["token"] == token
    assert dav.put(f"{dav.base}/dir/file", data=b"2").status_code == 200
    dav.request("LOCK", f"{dav.base}/dir/file", data=LOCKINFO, headers={"Depth": "0"})
    [broken] = server.admin("lock", "break", f"/{bucket}/dir/file")
    assert broken["path"] == f"/{bucket}/dir/file"
    assert dav.delete(f"{dav.base}/dir").status_code == 204


def test_a_directory_goes_in_one_request(server, bucket, dav):
    s3 = server.boto()
    for at in range(300):
        s3.put_object(Bucket=bucket, Key=f"run/d{at % 7}/f{at}", Body=b"x")
    assert dav.delete(f"{dav.base}/run").status_code == 204
    assert s3.list_objects_v2(Bucket=bucket).get("KeyCount") == 0
    assert dav.request("PROPFIND", f"{dav.base}/run", headers={"Depth": "0"}).status_code == 404
    deadline = time.monotonic() + 60
    while server.admin("bucket", "show", bucket)["objects"] and time.monotonic() < deadline:
        time.sleep(0.5)
    assert server.admin("bucket", "show", bucket)["objects"] == 0
