"""HTTP third-party copies between two Dewars, and with peers that do not behave."""

import json
import re
import socket
import subprocess
import threading
import zlib
from urllib.parse import quote

import pytest
import requests
from conftest import content, until
from relay import Gate
from server import Server

# Names as users give them.
NAMES = ["plain", "with space", "100%", "a+b", "a#b", "a:b", "dir/ü/日本", "x" * 200]


class Site:
    """A Dewar with a bucket, spoken to with a macaroon."""

    def __init__(self, folder, **transfer):
        self.server = Server(folder).start()
        if transfer:
            self.server.stop()
            config = self.server.data / "dewar.toml"
            lines = "".join(f"{name} = {value}\n" for name, value in transfer.items())
            config.write_text(config.read_text().replace("[transfer]\n", f"[transfer]\n{lines}"))
            self.server.start()
        self.server.boto().create_bucket(Bucket="data")
        self.authenticate()

    def authenticate(self):
        self.base = self.server.ready["webdav"]["endpoint"]
        self.port = int(self.base.rsplit(":", 1)[1])
        login = (self.server.s3["access_key"], self.server.s3["secret_key"])
        asked = {"caveats": ["activity:DOWNLOAD,UPLOAD,LIST,DELETE,MANAGE,READ_METADATA"], "validity": "PT60M"}
        answer = requests.post(f"{self.base}/data", data=json.dumps(asked), auth=login, timeout=20,
                               headers={"Content-Type": "application/macaroon-request"})
        assert answer.status_code == 200, answer.text
        self.token = answer.json()["macaroon"]
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {self.token}"

    def url(self, name, port=None):
        return f"http://127.0.0.1:{port or self.port}/data/{quote(name)}"

    def put(self, name, data):
        answer = self.session.put(self.url(name), data=data, timeout=60)
        assert answer.status_code in (200, 201), answer.text

    def get(self, name):
        return self.session.get(self.url(name), timeout=60)

    def exists(self, name):
        return self.session.head(self.url(name), timeout=60).status_code == 200

    def records(self):
        text = "".join(file.read_text() for file in sorted((self.server.data / "transfers").glob("*.jsonl")))
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    made = [Site(tmp_path_factory.mktemp("one")), Site(tmp_path_factory.mktemp("two"))]
    yield made
    for site in made:
        assert not site.server.unexpected(), "\n".join(site.server.unexpected())
        site.server.stop()


def curl(active, name, *, far_token=None, **headers):
    """A COPY by curl: the command, whose answer ends when the copy does."""
    words = ["curl", "-sS", "-N", "-X", "COPY", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {active.token}"]
    if far_token:
        words += ["-H", f"TransferHeaderAuthorization: Bearer {far_token}", "-H", "Credential: none"]
    for header, value in headers.items():
        words += ["-H", f"{header.replace('_', '-')}: {value}"]
    return [*words, active.url(name)]


def copy(active, name, **headers):
    """The status and the lines of the answer to a COPY."""
    done = subprocess.run(curl(active, name, **headers), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *lines, status = done.stdout.splitlines()
    return int(status), [line for line in lines if line]


def pull(to, name, source, token=None, **headers):
    return copy(to, name, far_token=token, Source=source, **headers)


def push(from_, name, target, token=None, **headers):
    return copy(from_, name, far_token=token, Destination=target, **headers)


def succeeded(answer):
    status, lines = answer
    assert status == 202 and lines[-1] == "success: Created", (status, lines)
    assert lines[0] == "Perf Marker" and re.fullmatch(r"Timestamp: \d+", lines[1]), lines
    assert all(": " in line or line in ("Perf Marker", "End") for line in lines), lines


def failed(answer, words):
    status, lines = answer
    assert status == 202 and lines[-1].startswith("failure: ") and words in lines[-1], (status, lines)
    return lines[-1]


@pytest.mark.parametrize("name", NAMES)
def test_names_through_pull_and_push(sites, name):
    here, there = sites
    data = content(name, 3_000_000 if name == "plain" else 1000)
    there.put(name, data)
    digest = f"adler32={zlib.adler32(data):08x}"
    succeeded(pull(here, f"in/{name}", there.url(name), there.token, Digest=digest))
    assert here.get(f"in/{name}").content == data
    succeeded(push(here, f"in/{name}", there.url(f"back/{name}"), there.token, Digest=digest))
    assert there.get(f"back/{name}").content == data
    head = here.session.head(here.url(f"in/{name}"), headers={"Want-Digest": "adler32"}, timeout=20)
    assert head.headers["Digest"] == digest


def test_empty_files_and_overwrite(sites):
    here, there = sites
    there.put("empty", b"")
    succeeded(pull(here, "empty", there.url("empty"), there.token))
    assert here.get("empty").content == b""
    succeeded(push(here, "empty", there.url("empty2"), there.token))
    assert there.get("empty2").content == b""
    # A file that is there is replaced, unless the client says otherwise.
    there.put("empty", b"no more")
    failed(pull(here, "empty", there.url("empty"), there.token, Overwrite="F"), "File exists")
    failed(push(here, "empty", there.url("empty"), there.token, Overwrite="F"), "File exists")
    assert here.get("empty").content == b"" and there.get("empty").content == b"no more"
    succeeded(pull(here, "empty", there.url("empty"), there.token, Overwrite="T"))
    assert here.get("empty").content == b"no more"


def test_refusals_and_failures(sites):
    here, there = sites
    here.put("refused", b"mine")
    there.put("refused", b"content")
    both = copy(here, "refused", far_token=there.token, Source=there.url("a"), Destination=there.url("b"))
    assert both[0] == 400
    assert copy(here, "refused")[0] == 400
    assert push(here, "absent", there.url("x"), there.token)[0] == 404
    failed(pull(here, "new", there.url("absent"), there.token), "No such file or directory")
    failed(pull(here, "new", there.url("refused"), "wrong-token"), "Permission denied")
    failed(pull(here, "new", there.url("refused")), "Permission denied")
    failed(pull(here, "new", there.url("refused"), there.token, Digest="adler32=00000001"), "checksum do not match")
    failed(push(here, "refused", there.url("new"), there.token, Digest="adler32=00000001"), "checksum do not match")
    assert not here.exists("new") and not there.exists("new")
    # A server never connects to itself, by whatever name.
    localhost = here.url("refused").replace("127.0.0.1", "127.0.0.2")
    failed(pull(here, "new", localhost, here.token), "")
    s3_of_its_own = f"{here.server.s3['endpoint']}/data/refused"
    failed(pull(here, "new", s3_of_its_own), "Permission denied")
    failed(pull(here, "new", "http://10.9.8.7:8443/x"), "Permission denied")
    # One that has its own name is a local copy.
    assert copy(here, "local", Source=here.url("refused"))[0] == 201
    assert here.get("local").content == b"mine"


def test_presigned_urls_of_s3(sites):
    here, there = sites
    data = content("s3", 2_000_000)
    s3 = there.server.boto()
    s3.put_object(Bucket="data", Key="from s3", Body=data)
    source = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "from s3"})
    succeeded(pull(here, "from s3", source, Copy_Flags="NoHead"))
    assert here.get("from s3").content == data
    target = s3.generate_presigned_url("put_object", Params={"Bucket": "data", "Key": "to s3"})
    succeeded(push(here, "from s3", target, Copy_Flags="NoHead"))
    assert s3.get_object(Bucket="data", Key="to s3")["Body"].read() == data
    expired = re.sub(r"Signature=[0-9a-f]{8}", "Signature=00000000", source)
    failed(pull(here, "x", expired, Copy_Flags="NoHead"), "Permission denied")
    signature = re.search(r"Signature=([0-9a-f]+)", source).group(1)
    everything = here.server.log_path.read_text() + json.dumps(here.records())
    assert signature not in everything and "X-Amz" not in everything


def begin(active, name, **headers):
    return subprocess.Popen(curl(active, name, **headers), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def listed(site):
    return site.server.admin("transfer", "list")


def test_a_client_that_leaves_ends_the_copy(sites):
    here, there = sites
    there.put("large", content("large", 5_000_000))
    for direction in ("pull", "push"):
        if direction == "pull":
            gate = Gate(there.port, 1_000_000)
            client = begin(here, "left", far_token=there.token, Source=there.url("large", gate.port))
        else:
            here.put("large", content("large", 5_000_000))
            gate = Gate(there.port, 1_000_000, holds_requests=True)
            client = begin(here, "large", far_token=there.token, Destination=there.url("left", gate.port))
        assert gate.reached.wait(30)
        copies = listed(here)
        assert [(copy["direction"], copy["state"]) for copy in copies] == [(direction, "active")]
        assert there.token not in json.dumps(copies)
        client.kill()
        client.communicate()
        until("the copy ends", lambda: not listed(here))
        gate.opened.set()
        gate.cut()
        assert not here.exists("left")
        until("nothing is left there", lambda: not there.exists("left"))
        until("a record", lambda: here.records() and here.records()[-1]["cause"] == "cancelled")


def test_records_say_what_fts_said_and_no_secret(sites):
    here, there = sites
    there.put("recorded", b"content")
    info = "job-id=0a1b;file-id=42;retry=2"
    query = f"?authz=Bearer%20{there.token}"
    succeeded(pull(here, "recorded", there.url("recorded") + query, ClientInfo=info, SciTag="66"))
    until("a record", lambda: any(record.get("job_id") == "0a1b" for record in here.records()))
    record = next(record for record in here.records() if record.get("job_id") == "0a1b")
    assert (record["file_id"], record["retry"], record["scitag"]) == ("42", "2", 66)
    assert (record["cause"], record["bytes"], record["protocol"], record["direction"]) == ("success", 7, "http", "pull")
    assert (record["local_path"], record["remote_path"]) == ("/data/recorded", "/data/recorded")
    assert record["remote_host"] == f"127.0.0.1:{there.port}" and record["user"] == "demo"
    assert record["duration_ms"] >= 0 and record["request"]
    assert any(digest["named_by"] == "remote" and digest["matches"] for digest in record["digests"]), record
    seen = here.server.log_path.read_text() + json.dumps(here.records())
    seen += "".join(file.read_text() for file in (here.server.data / "audit").glob("*.jsonl"))
    for secret in (there.token, here.token, quote(there.token), there.server.s3["secret_key"]):
        assert secret not in seen


def test_the_queue_shows_what_waits(tmp_path):
    one = Site(tmp_path / "one", active_max="1", wait_max='"3s"')
    two = Site(tmp_path / "two")
    two.put("large", content("queue", 3_000_000))
    gate = Gate(two.port, 500_000)
    running = begin(one, "first", far_token=two.token, Source=two.url("large", gate.port))
    assert gate.reached.wait(30)
    waiting = begin(one, "second", far_token=two.token, Source=two.url("large"))
    until("it waits", lambda: [copy["state"] for copy in listed(one)] == ["active", "waiting"])
    text, _ = waiting.communicate(timeout=60)
    lines = [line for line in text.splitlines() if line]
    assert "Stripe Bytes Transferred: 0" in lines and "failure: operation timeout" in lines[-2], lines
    metrics = requests.get(one.server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    assert "dewar_transfers_active 1" in metrics
    assert re.search(r'dewar_transfers_ended_total\{.*cause="queue-timeout".*\} 1', metrics), metrics
    # An administrator ends the one that runs, and the next one runs.
    first = next(copy["id"] for copy in listed(one))
    assert one.server.admin("transfer", "cancel", str(first)) == "done"
    text, _ = running.communicate(timeout=60)
    assert "failure: The copy was cancelled" in text, text
    gate.opened.set()
    gate.cut()
    succeeded(pull(one, "third", two.url("large"), two.token))
    assert one.server.admin("transfer", "cancel", "99", check=False).returncode != 0
    for site in (one, two):
        assert not site.server.unexpected(), "\n".join(site.server.unexpected())
        site.server.stop()


@pytest.mark.parametrize("victim", ["active", "passive"])
@pytest.mark.parametrize("direction", ["pull", "push"])
def test_kill_in_the_middle_leaves_all_or_nothing(tmp_path, direction, victim):
    active = Site(tmp_path / "active", retries="1")
    passive = Site(tmp_path / "passive")
    data = content("kill", 4_000_000)
    source, target = (passive, active) if direction == "pull" else (active, passive)
    source.put("file", data)
    gate = Gate(passive.port, 1_000_000, holds_requests=direction == "push")
    far = passive.url("file" if direction == "pull" else "copy", gate.port)
    header = "Source" if direction == "pull" else "Destination"
    client = begin(active, "copy" if direction == "pull" else "file", far_token=passive.token, **{header: far})
    assert gate.reached.wait(30)
    dead = active if victim == "active" else passive
    dead.server.kill()
    gate.opened.set()
    gate.cut()
    text, _ = client.communicate(timeout=100)
    assert "success" not in text, text
    dead.server.start()
    dead.authenticate()
    got = target.get("copy")
    assert got.status_code == 404 or got.content == data
    # What FTS does next works.
    again = pull if direction == "pull" else push
    far = passive.url("file" if direction == "pull" else "copy")
    succeeded(again(active, "copy" if direction == "pull" else "file", far, passive.token))
    assert target.get("copy").content == data
    for site in (active, passive):
        site.server.allow("journal|recover|clean")
        assert not site.server.unexpected(), "\n".join(site.server.unexpected())
        site.server.stop()


class BrokenPeer:
    """A server that says what a test tells it to say, and then does nothing, or closes."""

    def __init__(self, answer, closes=True):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer, self.closes, self.asked = answer, closes, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(65536)
            if not data:
                return
            head += data
        self.asked += 1
        try:
            client.sendall(self.answer(head.decode("latin-1")))
            if not self.closes:
                client.settimeout(100)
                client.recv(1)
        except OSError:
            pass
        client.close()

    def url(self, path="/x"):
        return f"http://127.0.0.1:{self.port}{path}"


def test_broken_peers(tmp_path):
    site = Site(tmp_path / "site", retries="1", stall_time='"2s"', first_byte_time='"2s"')

    def head(length, status="200 OK", more=""):
        return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{more}\r\n".encode()

    cut = BrokenPeer(lambda asked: head(1000) + (b"x" * 990 if asked.startswith("GET") else b""))
    line = failed(pull(site, "cut", cut.url(), Copy_Flags="NoHead"), "")
    assert "checksum" not in line and cut.asked == 2, (line, cut.asked)
    stalls = BrokenPeer(lambda asked: head(1000) + b"x" * 10, closes=False)
    failed(pull(site, "stalls", stalls.url(), Copy_Flags="NoHead"), "operation timeout")
    silent = BrokenPeer(lambda asked: b"", closes=False)
    failed(pull(site, "silent", silent.url(), Copy_Flags="NoHead"), "operation timeout")
    loop = BrokenPeer(lambda asked: head(0, "307 Temporary Redirect", "Location: /again\r\n"))
    failed(pull(site, "loop", loop.url(), Copy_Flags="NoHead"), "")
    assert loop.asked <= 12
    wrong = BrokenPeer(lambda asked: head(4, more="Digest: adler32=00000001\r\n") + (b"data" if asked.startswith("GET") else b""))
    line = failed(pull(site, "wrong", wrong.url(), Copy_Flags="NoHead"), "")
    assert "checksum do not match" not in line and "CHECKSUM" not in line
    secret = "https://elsewhere.example/x?authz=Bearer%20SECRET"
    leaks = BrokenPeer(lambda asked: head(len(secret), "500 Internal Server Error") + secret.encode())
    line = failed(pull(site, "leaks", leaks.url(), Copy_Flags="NoHead"), "")
    assert "SECRET" not in line and "SECRET" not in site.server.log_path.read_text()
    for name in ("cut", "stalls", "silent", "loop", "wrong", "leaks"):
        assert not site.exists(name)
    until("all copies ended", lambda: not listed(site))
    assert not site.server.unexpected(), "\n".join(site.server.unexpected())
    site.server.stop()
