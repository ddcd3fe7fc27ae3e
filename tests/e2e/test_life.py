"""The process: start, stop, restart, ready file, admin commands, TLS, metrics, closed defaults."""

import json
import os
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests
from conftest import content, until
from server import BIN, Server


def test_ready_file(own_server):
    ready = own_server.ready
    assert ready["pid"] == own_server.process.pid
    assert ready["s3"]["endpoint"] == f"http://127.0.0.1:{own_server.port_base}"
    assert (ready["s3"]["region"], ready["s3"]["bucket"]) == ("us-east-1", "demo")
    assert stat.S_IMODE(own_server.ready_file.stat().st_mode) == 0o600
    assert set(ready) == {"pid", "s3", "webdav", "xrootd", "metrics"}
    webdav, port = ready["webdav"], own_server.port_base
    assert set(webdav) == {"endpoint", "tls_endpoint", "ca_dir", "token"}
    assert webdav["endpoint"] == f"http://127.0.0.1:{port + 3}"
    assert webdav["tls_endpoint"] == f"https://127.0.0.1:{port + 4}"
    # The authority has the name under which OpenSSL looks for it, and the certificate is for every name of this machine.
    file = next(Path(webdav["ca_dir"]).iterdir())
    hashed = subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", file], capture_output=True, text=True, check=True)
    assert file.name == f"{hashed.stdout.strip()}.0"
    for host in ("localhost", "127.0.0.1"):
        answer = requests.get(f"https://{host}:{port + 4}/demo/", headers={"Authorization": f"Bearer {webdav['token']}"},
                              verify=file, timeout=10)
        assert answer.status_code == 200, answer.text
    shown = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", own_server.data / "webdav.pem"],
                           capture_output=True, text=True, check=True).stdout
    assert all(name in shown for name in ("DNS:localhost", "IP Address:127.0.0.1", "IP Address:0:0:0:0:0:0:0:1")), shown


def test_a_restart_finds_everything(own_server):
    server = own_server
    before = dict(server.s3)
    for name, size in [("small", 1000), ("large", 5_000_000)]:
        server.boto().put_object(Bucket="demo", Key=name, Body=content(name, size), Metadata={"a": "b"})
    server.restart()
    assert server.s3 == before
    for name, size in [("small", 1000), ("large", 5_000_000)]:
        got = server.boto().get_object(Bucket="demo", Key=name)
        assert (got["Body"].read() == content(name, size), got["Metadata"]) == (True, {"a": "b"})


def test_keys_while_it_runs_and_while_it_does_not(own_server, tmp_path):
    import boto3
    server = own_server
    server.admin("user", "add", "alice")
    secret = tmp_path / "secret"
    secret.write_text("correct-horse-battery-staple-0123456789\n")
    os.chmod(secret, 0o600)
    server.admin("key", "add", "--user", "alice", "--access-key", "ALICE000000000000000", "--secret-key-file", str(secret))

    def buckets(access, key):
        return boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name="us-east-1", aws_access_key_id=access,
                            aws_secret_access_key=key).list_buckets()["Buckets"]

    assert buckets("ALICE000000000000000", secret.read_text().strip()) == []
    server.stop()
    offline = server.admin("key", "add", "--user", "alice")
    assert {user["name"] for user in server.admin("user", "list")} >= {"alice"}
    server.start()
    assert buckets(offline["access_key"], offline["secret_key"]) == []
    assert server.admin("user", "remove", "nobody-of-this-name", check=False).returncode == 3
    server.admin("user", "disable", "alice")
    states = {key["access_key"]: key["user_state"] for key in server.admin("key", "list")}
    assert states["ALICE000000000000000"] == "disabled"
    assert server.admin("user", "remove", "alice") == {"removed": "alice"}


def test_secrets_are_not_on_the_disks_or_in_the_log(own_server):
    server = own_server
    key = server.admin("key", "add", "--user", "demo")
    server.boto().put_object(Bucket="demo", Key="x", Body=b"x")
    server.stop()
    secrets = [key["secret_key"].encode(), server.s3["secret_key"].encode()]
    for number in range(1, 7):
        for path in server.disk(number).rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert not any(secret in data for secret in secrets), path
    log = server.log_path.read_bytes()
    assert not any(secret in log for secret in secrets)


def test_a_missing_master_key_stops_the_start(own_server):
    server = own_server
    server.allow(r"master key")
    server.stop()
    keys = [p for p in server.data.rglob("*master*") if p.is_file()]
    assert len(keys) == 1 and stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    away = keys[0].with_name("away")
    keys[0].rename(away)
    with pytest.raises(RuntimeError, match="master key"):
        server.start()
    assert not keys[0].exists(), "a second master key is never made"
    away.rename(keys[0])
    server.start()
    server.boto().list_buckets()


def test_a_folder_that_is_named_wins_over_the_variable(own_server):
    environment = dict(os.environ, DEWAR_CONFIG="/nowhere/dewar.toml")
    done = subprocess.run([BIN, "user", "list", "--dir", str(own_server.data)], env=environment,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([BIN, "user", "list"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "/nowhere/dewar.toml" in done.stderr, done.stderr


def test_a_second_server_on_the_same_disks_is_refused(own_server):
    done = subprocess.run([BIN, "demo", "--dir", str(own_server.data), "--port-base", str(own_server.port_base + 2)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert str(own_server.data) in done.stderr


def test_metrics_and_health(own_server):
    base = own_server.ready["metrics"]["endpoint"]
    own_server.boto().put_object(Bucket="demo", Key="very-secret-name", Body=b"x")
    text = requests.get(base + "/metrics", timeout=10).text
    assert "dewar_" in text and "very-secret-name" not in text
    assert requests.get(base + "/live", timeout=10).status_code == 200
    assert requests.get(base + "/ready", timeout=10).status_code == 200


def test_a_graceful_stop_finishes_what_runs(own_server):
    server, results = own_server, []
    s3, body = server.boto(), content("graceful", 30_000_000)
    half, go = threading.Event(), threading.Event()

    class Slow:
        def __init__(self):
            self.at = 0

        def __len__(self):
            return len(body)

        def read(self, size=-1):
            if self.at > len(body) // 2:
                half.set()
                go.wait(60)
            part = body[self.at:self.at + (1 << 20)]
            self.at += len(part)
            return part

    url = s3.generate_presigned_url("put_object", Params={"Bucket": "demo", "Key": "slow"}, ExpiresIn=60)
    thread = threading.Thread(target=lambda: results.append(requests.put(url, data=Slow(), timeout=60)))
    thread.start()
    assert half.wait(60)
    server.process.send_signal(signal.SIGINT)
    told = f"process {server.process.pid} has the store open"
    until("it is known to be there still", lambda: told in server.admin("status", check=False).stderr)
    go.set()
    thread.join()
    assert [answer.status_code for answer in results] == [200], results[0].text
    assert server.process.wait(timeout=60) == 0, server.log_tail()
    assert "no server runs" in server.admin("status", check=False).stderr
    server.start()
    assert server.boto().get_object(Bucket="demo", Key="slow")["Body"].read() == body


def test_tls_with_a_certificate_that_is_replaced(tmp_path):
    import ssl, socket
    certificate, key, config = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "dewar.toml"

    def make(name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
                       check=True, capture_output=True)

    make("first")
    server = Server(tmp_path / "tls", environment={"DEWAR_S3_TLS_CERTIFICATE_FILE": str(certificate), "DEWAR_S3_TLS_KEY_FILE": str(key)})
    server.start()
    try:
        def serving():
            context = ssl.create_default_context(cafile=str(certificate))
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            with socket.create_connection(("127.0.0.1", server.port_base)) as raw, context.wrap_socket(raw) as tls:
                return tls.getpeercert(binary_form=True)
        import boto3
        assert server.s3["endpoint"].startswith("https://")
        s3 = boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name="us-east-1", verify=str(certificate),
                          aws_access_key_id=server.s3["access_key"], aws_secret_access_key=server.s3["secret_key"])
        body = content("tls", 6_000_000)
        # Over https the SDK sends its checksum in a trailer behind aws-chunked framing.
        s3.put_object(Bucket="demo", Key="k", Body=body)
        import io
        s3.upload_fileobj(io.BytesIO(body), "demo", "stream")
        assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == body
        assert s3.get_object(Bucket="demo", Key="stream")["Body"].read() == body
        assert "aws-chunked" not in s3.head_object(Bucket="demo", Key="k").get("ContentEncoding", "")
        before = serving()
        make("second")
        for _ in range(200):
            if serving() != before:
                break
            time.sleep(0.1)
        else:
            pytest.fail("the new certificate is not served")
        assert s3.get_object(Bucket="demo", Key="k")["Body"].read() == body
        server.stop()
    finally:
        server.kill()


def test_config_commands(tmp_path):
    default = subprocess.run([BIN, "config", "default"], capture_output=True, text=True, check=True).stdout
    path = tmp_path / "dewar.toml"
    path.write_text(default)
    path.write_text("[s3]\nlisten = \"127.0.0.1:9000\"\nlisten_adress = 1\n")
    done = subprocess.run([BIN, "config", "check", str(path)], capture_output=True, text=True)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "listen_adress" in said and ":3:" in said and "s3.listen" in said, said
    assert json.loads(subprocess.run([BIN, "version", "--json"], capture_output=True, text=True, check=True).stdout)["version"]
    assert "dewar" in subprocess.run([BIN, "completions", "bash"], capture_output=True, text=True, check=True).stdout
    assert ".TH" in subprocess.run([BIN, "man"], capture_output=True, text=True, check=True).stdout
