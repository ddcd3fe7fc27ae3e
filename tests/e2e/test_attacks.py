"""Lines of docs/security.md that need a whole server: what the wire, the kernel and other doors give away."""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import boto3
import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from issuer import AUDIENCE
from server import BIN, Server
from conftest import until
from test_audit import audit
from test_xrootd import answer as said
from test_xrootd import frame, hello, login
from wire import Request, answer, connect
from xrootd_tools import Certificate, url, xrdcp, xrdfs

FORGED = {"X-Forwarded-For": "10.1.2.3", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "storage.example.org",
          "Forwarded": "for=10.1.2.3;proto=https", "X-Real-IP": "10.1.2.3", "True-Client-IP": "10.1.2.3",
          "X-Client-IP": "10.1.2.3", "CF-Connecting-IP": "10.1.2.3", "X-Forwarded-Ssl": "on"}


@pytest.fixture
def site(tmp_path):
    server = Server(tmp_path / "site").start()
    server.boto().create_bucket(Bucket="data")
    yield server
    server.kill()
    assert not server.unexpected(), "\n".join(server.unexpected())


def outer_address():
    """An address of this machine that is not loopback, or none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


def configure(server, old, new):
    config = server.data / "dewar.toml"
    text = config.read_text()
    assert old in text, text
    config.write_text(text.replace(old, new, 1))


def policy(server, bucket, *statements):
    text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    server.boto().put_bucket_policy(Bucket=bucket, Policy=text)


def test_core_files_hold_no_secret(tmp_path):
    wrapper = ["sh", "-c", f'ulimit -c unlimited && cd "{tmp_path}" && exec "$@"', "sh"]
    server = Server(tmp_path / "server", wrapper=wrapper).start()
    server.boto().put_object(Bucket="demo", Key="k", Body=b"a known content" * 1000, ServerSideEncryption="AES256")
    assert int((os.path.exists(f"/proc/{server.process.pid}") and
                open(f"/proc/{server.process.pid}/coredump_filter").read()) or "1", 16) == 0
    os.kill(server.process.pid, signal.SIGABRT)
    server.process.wait(timeout=60)
    assert server.process.returncode == -signal.SIGABRT
    key = [line.split()[2] for line in (server.data / "master.key").read_text().splitlines() if line.startswith("key ")]
    secrets = [bytes.fromhex(key[0]), key[0].encode(), server.s3["secret_key"].encode(), b"a known content"]
    cores = [path for path in tmp_path.rglob("core*") if path.is_file()]
    with open("/proc/sys/kernel/core_pattern") as pattern:
        if not pattern.read().startswith(("|", "/")):
            assert cores, "a core was to be written here"
    for core in cores:
        content = core.read_bytes()
        assert content[:4] == b"\x7fELF"
        assert not [secret for secret in secrets if secret in content]
        core.unlink()


def test_forged_forwarding_headers_move_nobody(site):
    s3 = site.boto()
    s3.put_object(Bucket="data", Key="inside", Body=b"x")
    s3.put_object(Bucket="data", Key="not-local", Body=b"x")
    s3.put_object(Bucket="data", Key="tls", Body=b"x")
    s3.put_object(Bucket="data", Key="local", Body=b"x")
    everybody = {"Principal": "*", "Action": "s3:GetObject"}
    policy(site, "data",
           {"Effect": "Allow", "Resource": "arn:aws:s3:::data/inside", **everybody,
            "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}},
           {"Effect": "Allow", "Resource": "arn:aws:s3:::data/not-local", **everybody,
            "Condition": {"NotIpAddress": {"aws:SourceIp": "127.0.0.0/8"}}},
           {"Effect": "Allow", "Resource": "arn:aws:s3:::data/tls", **everybody,
            "Condition": {"Bool": {"aws:SecureTransport": "true"}}},
           {"Effect": "Allow", "Resource": "arn:aws:s3:::data/local", **everybody,
            "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}, "Bool": {"aws:SecureTransport": "false"}}})
    # That the policy is one which gives: where the connection comes from counts, whatever else is said.
    assert requests.get(f"{site.s3['endpoint']}/data/local", headers=FORGED, timeout=20).status_code == 200
    for key in ("inside", "not-local", "tls"):
        for name, value in FORGED.items():
            answer = requests.get(f"{site.s3['endpoint']}/data/{key}", headers={name: value}, timeout=20)
            assert answer.status_code == 403, (key, name)
        assert requests.get(f"{site.s3['endpoint']}/data/{key}", headers=FORGED, timeout=20).status_code == 403
    seen = audit(site, "--outcome", "refused", "--path", "/data")
    assert len(seen) == 3 * (len(FORGED) + 1)
    assert {line["from"] for line in seen} == {"127.0.0.1"} and not any(line["tls"] for line in seen)
    # Nor does what a proxy would say in front of a request.
    for preface in (b"PROXY TCP4 10.1.2.3 10.0.0.1 4711 443\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)):
        with socket.create_connection(("127.0.0.1", site.port), timeout=20) as wire:
            wire.sendall(preface + b"GET /data/inside HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            answer = b""
            while part := wire.recv(4096):
                answer += part
        assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")), answer


def test_https_cannot_be_talked_down(site, issuer, tmp_path):
    site.stop()
    folder = tmp_path / "tls"
    folder.mkdir()
    certificate = Certificate(folder)
    configure(site, "[s3]\n", f'[s3]\ntls_certificate_file = "{certificate.certificate}"\n'
                              f'tls_key_file = "{certificate.key}"\n')
    site.start()
    assert site.s3["endpoint"].startswith("https://")
    # In clear nothing is said on that port, not even where to go instead: a token would be on the wire by then.
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n\r\n")
        assert b"HTTP/" not in wire.recv(4096)
    for version, flags in ((ssl.TLSVersion.TLSv1, "-tls1"), (ssl.TLSVersion.TLSv1_1, "-tls1_1")):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{site.port}", flags,
                               "-cipher", "ALL:@SECLEVEL=0"], input="", capture_output=True, text=True, timeout=60)
        assert done.returncode != 0, version
    for flags in ("-tls1_2", "-tls1_3"):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{site.port}", flags],
                              input="", capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(outer_address() is None, reason="this machine has loopback addresses only")
def test_secrets_in_clear_are_refused_from_elsewhere_and_signatures_are_not(site, issuer):
    site.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/data")
    token = issuer.token(scope="storage.read:/")
    site.boto().put_object(Bucket="data", Key="a", Body=b"a")
    site.stop()
    configure(site, f'listen = "127.0.0.1:{site.port}"', f'listen = "0.0.0.0:{site.port}"')
    site.allow("tls|TLS|clear|http")
    site.start()
    here, there = (f"http://{host}:{site.port}" for host in ("127.0.0.1", outer_address()))
    bearer = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{here}/data/a", headers=bearer, timeout=20).status_code == 200
    for headers in (bearer, bearer | FORGED):
        assert requests.get(f"{there}/data/a", headers=headers, timeout=20).status_code == 403
    sts = boto3.client("sts", endpoint_url=there, region_name="us-east-1", aws_access_key_id="x",
                       aws_secret_access_key="x")
    with pytest.raises(ClientError) as caught:
        sts.assume_role_with_web_identity(RoleArn="arn:aws:iam:::role/none", RoleSessionName="me", WebIdentityToken=token)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 401, 403)
    # A signature tells nothing that could be used again for something else.
    request = AWSRequest("GET", f"{there}/data/a", headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    S3SigV4Auth(Credentials(site.s3["access_key"], site.s3["secret_key"]), "s3", "us-east-1").add_auth(request)
    answer = requests.get(request.url, headers=dict(request.headers), timeout=20)
    assert answer.status_code == 200 and answer.content == b"a"
    other = requests.get(f"{there}/data/b", headers=dict(request.headers), timeout=20)
    assert other.status_code == 403 and "SignatureDoesNotMatch" in other.text


def test_an_account_leaves_connections_to_others(site):
    """However it keeps them: with uploads that do not end, and with sessions and bound connections of root://."""
    site.stop()
    configure(site, "[s3]\n", "[s3]\nconnections_max = 16\n")
    configure(site, "[xrootd]\n", "[xrootd]\nconnections_max = 16\n")
    site.start()
    site.admin("user", "add", "bob")
    key = site.admin("key", "add", "--user", "bob")
    bob = {"access_key": key["access_key"], "secret_key": key["secret_key"]}

    def begin(number):
        """An upload that is asked for its body, or what it is told instead."""
        put = Request(site, "PUT", f"/data/held{number}", digest="UNSIGNED-PAYLOAD")
        wire = connect(site.port)
        wire.sendall(put.set("content-length", "10").set("expect", "100-continue").head())
        if wire.recv(25, socket.MSG_PEEK | socket.MSG_WAITALL) != b"HTTP/1.1 100 Continue\r\n\r\n":
            told = answer(wire, "PUT")
            assert wire.recv(1) == b""
            return None, told
        wire.recv(25)
        return wire, None

    held = []
    for number in range(17):
        wire, told = begin(number)
        if wire is None:
            break
        held.append(wire)
    assert len(held) == 8 and told.status == 503 and b"SlowDown" in told.body, (len(held), told)
    for _ in range(3):
        assert Request(site, "GET", "/", **bob).send().status == 200
    for wire in held:
        wire.sendall(b"0123456789")
        assert answer(wire, "PUT").status == 200
        wire.close()
    until("an account may connect again", lambda: Request(site, "GET", "/data").send().status == 200)

    first = hello(site)
    session, bound = login(first), []
    for _ in range(16):
        bound.append(hello(site))
        bound[-1].sendall(frame(0, 3024, session))
        _, status, told = said(bound[-1])
        if status != 0:
            break
    assert len(bound) == 8 and status == 4003 and struct.unpack(">i", told[:4]) == (3024,), (len(bound), told)
    for s in [first, *bound]:
        s.close()


def test_who_may_not_look_learns_nothing_at_any_door(site, tmp_path):
    site.boto().put_object(Bucket="data", Key="there/a", Body=b"x", Tagging="a=b")
    site.admin("user", "add", "eve")
    key = site.admin("key", "add", "--user", "eve")
    eve = Credentials(key["access_key"], key["secret_key"])

    def ask(method, path, body=None, headers=None, who=eve):
        request = AWSRequest(method, site.s3["endpoint"] + path, data=body,
                             headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"} | (headers or {}))
        if who:
            S3SigV4Auth(who, "s3", site.s3["region"]).add_auth(request)
        answer = requests.request(method, request.url, data=body, headers=dict(request.headers), timeout=20)
        words = answer.text
        for own in ("there/a", "none/a", "there", "none", answer.headers["x-amz-request-id"]):
            words = words.replace(own, "")
        names = sorted(name for name in answer.headers if name not in ("date", "content-length"))
        return answer.status_code, words, names

    source = "x-amz-copy-source"
    for who in (eve, None):
        for method, query, headers in [
            ("GET", "", {}), ("HEAD", "", {}), ("DELETE", "", {}), ("PUT", "", {}), ("GET", "?tagging", {}),
            ("PUT", "?tagging", {}), ("GET", "?acl", {}), ("GET", "?attributes", {"x-amz-object-attributes": "ETag"}),
            ("GET", "", {"if-none-match": "*"}), ("GET", "", {"range": "bytes=100-200"}),
            ("PUT", "", {"if-none-match": "*"}), ("GET", "?versionId=null", {}),
        ]:
            there, none = (ask(method, f"/data/{key}{query}", headers=headers, who=who)
                           for key in ("there/a", "none/a"))
            assert there == none and there[0] in (400, 403), (method, query, headers, there, none)
    site.admin("user", "add", "mallory")
    mine = site.admin("key", "add", "--user", "mallory")
    mallory = Credentials(mine["access_key"], mine["secret_key"])
    assert ask("PUT", "/mallorys", who=mallory)[0] == 200
    there, none = (ask("PUT", "/mallorys/copy", headers={source: f"/data/{key}"}, who=mallory)
                   for key in ("there/a", "none/a"))
    assert there == none and there[0] == 403
    # The other door.
    site.stop()
    configure(site, 'local_user = "demo"', 'local_user = "eve"')
    site.start()
    for verb in (["stat"], ["ls"], ["rm"], ["rmdir"], ["truncate"], ["query", "checksum"], ["xattr"]):
        answers = []
        for path in ("/data/there/a", "/data/none/a"):
            more = {"truncate": ["0"], "xattr": ["list"]}.get(verb[0], [])
            done = xrdfs(site, *verb, path, *more, check=False)
            answers.append((done.returncode, done.stderr.replace(path, "").replace(path[5:], "")))
        assert answers[0] == answers[1] and answers[0][0] != 0, (verb, answers)
    for path in ("/data/there/a", "/data/none/a"):
        done = xrdcp(url(site, path), tmp_path / "out", check=False)
        assert done.returncode != 0 and "3010" in done.stderr, done.stderr


def test_a_directory_is_not_renamed_out_of_a_deny_or_a_lock(site):
    s3 = site.boto()
    for bucket in ("data", "locked"):
        if bucket == "locked":
            s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
        s3.put_object(Bucket=bucket, Key="secret/deep/a", Body=b"x")
    xrdfs(site, "mv", "/data/secret", "/data/open")
    xrdfs(site, "mv", "/data/open", "/data/secret")
    policy(site, "data", {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
                          "Resource": "arn:aws:s3:::data/secret/deep/*"})
    for source, target in (("/data/secret", "/data/open"), ("/data/secret/deep", "/data/secret/other"),
                           ("/locked/secret", "/locked/open")):
        done = xrdfs(site, "mv", source, target, check=False)
        assert done.returncode != 0, (source, target)
    time.sleep(0.1)
    with pytest.raises(ClientError):
        s3.get_object(Bucket="data", Key="secret/deep/a")
    for bucket in ("data", "locked"):
        keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
        assert keys == ["secret/deep/a"]


def forked(uid, work):
    """Runs work in a process of another Unix user; what it returns is the process's exit code."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            code = work()
        except BaseException:  # noqa: BLE001: nothing of the parent's may run on
            code = 99
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_unix_users_are_no_local_users(site):
    """Sockets that their process has closed are root's, as the kernel shows them, and so is this server."""
    host, port = site.ready["xrootd"]["endpoint"].split("://")[1].rsplit(":", 1)
    hello = struct.pack(">5i", 0, 0, 0, 4, 2012) + struct.pack(">2sHiBB10xi", b"\0\1", 3006, 0x520, 0, 3, 0)
    # Long enough that the kernel acknowledges the end of the connection before the server has looked.
    info = b"&xrd.appname=" + b"x" * 4000
    login = struct.pack(">2sHi8s4xi", b"\0\2", 3007, 1, b"eve", len(info)) + info
    path = b"/data/made"
    mkdir = struct.pack(">2sHB13xHi", b"\0\3", 3008, 0, 0o755, len(path)) + path

    def strike():
        for _ in range(30):
            with socket.create_connection((host, int(port))) as wire:
                wire.sendall(hello)
                # What is left unread would end it with a reset instead.
                assert len(wire.recv(32, socket.MSG_WAITALL)) == 32
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                wire.sendall(login + mkdir)
            time.sleep(0.01)
        return 0

    assert forked(65534, strike) == 0
    assert not [line for line in audit(site) if line["action"] == "login:host"]

    # The same with a connection that stays open, which is told that it must prove itself.
    def stay():
        with socket.create_connection((host, int(port)), timeout=20) as wire:
            wire.sendall(hello + login + mkdir)
            answer = b""
            while b"prove who you are" not in answer and b"no way to log in" not in answer:
                part = wire.recv(4096)
                if not part:
                    return 1
                answer += part
        return 0

    assert forked(65534, stay) == 0
    assert xrdfs(site, "stat", "/data/made", check=False).returncode != 0
    # The server's own user needs nothing.
    xrdfs(site, "mkdir", "/data/mine")
