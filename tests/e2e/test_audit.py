"""The audit log: who did what over S3, root:// and on the admin socket, and never a secret."""

import concurrent.futures
import json
import random
import socket
import subprocess
import time

import boto3
import botocore.exceptions
import pytest
import requests
from botocore.config import Config

from issuer import AUDIENCE
from server import BIN, Server
from xrootd_tools import url, xrdcp, xrdfs


@pytest.fixture
def site(tmp_path):
    server = Server(tmp_path / "audit").start()
    server.boto().create_bucket(Bucket="data")
    yield server
    server.stop()
    assert not server.unexpected(), "\n".join(server.unexpected())


def audit(server, *filters):
    """What `dewar audit` finds, once all that happened up to now is on the disk."""
    time.sleep(0.5)
    done = subprocess.run([BIN, "audit", *filters, "--dir", str(server.data), "--json"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def verified(server):
    return server.admin("audit", "--verify")


def client(server, key):
    return boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name="us-east-1",
                        aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"],
                        config=Config(signature_version="s3v4", retries={"max_attempts": 0}))


def log_files(server):
    """The files of the data set, then those of the security set."""
    return sorted((server.data / "audit").glob("*.jsonl"))


def test_s3_leaves_who_what_from_where_and_why(site):
    s3 = site.boto()
    s3.put_object(Bucket="data", Key="dir/a", Body=b"a")
    s3.put_object(Bucket="data", Key="director/b", Body=b"b")
    s3.get_object(Bucket="data", Key="dir/a")["Body"].read()
    s3.delete_object(Bucket="data", Key="dir/a")
    site.admin("user", "add", "eve")
    key = site.admin("key", "add", "--user", "eve")
    with pytest.raises(botocore.exceptions.ClientError):
        client(site, key).get_object(Bucket="data", Key="dir/a")

    found = audit(site, "--path", "/data/dir")
    assert [(line["action"], line["outcome"]) for line in found] == [
        ("s3:PutObject", "allowed"), ("s3:DeleteObject", "allowed"), ("s3:ListBucket", "refused")]
    put = found[0]
    assert put["who"] == "demo" and put["credential"] == "key:" + site.s3["access_key"]
    assert put["from"] == "127.0.0.1" and put["tls"] is False
    assert put["why"] == "it is the owner's" and len(put["request"]) >= 16
    assert found[2]["who"] == "eve" and found[2]["why"] == "nothing allows it"
    assert audit(site, "--who", "eve", "--outcome", "refused") == [found[2]]
    assert [line["target"] for line in audit(site, "--verb", "putobject")] == ["/data/dir/a", "/data/director/b"]
    assert audit(site, "--since", "1h", "--until", "30m") == []
    assert len(audit(site, "--credential", key["access_key"])) == 1
    assert verified(site)["sound"]


def test_logins_and_refusals_are_there(site, issuer):
    site.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/data")
    good, bad = issuer.token(scope="storage.modify:/"), issuer.token(scope="storage.modify:/", aud="https://other")
    for token, status in ((good, 200), (good, 200), (bad, 400)):
        head = {"Authorization": f"Bearer {token}"}
        answer = requests.put(site.s3["endpoint"] + "/data/t", data=b"t", headers=head, timeout=20)
        assert answer.status_code == status, answer.text
    with pytest.raises(botocore.exceptions.ClientError):
        client(site, {"access_key": site.s3["access_key"], "secret_key": "wrong" * 8}).list_buckets()

    logins = audit(site, "--event", "login")
    assert [line["outcome"] for line in logins] == ["allowed", "refused", "refused"]
    assert logins[0]["who"].startswith("alice@") and logins[0]["credential"].startswith("token:")
    assert "not for" in logins[1]["why"]
    assert logins[2]["credential"] == "key:" + site.s3["access_key"]
    assert logins[2]["why"] == "SignatureDoesNotMatch"
    puts = audit(site, "--verb", "s3:PutObject")
    assert {line["credential"] for line in puts} == {logins[0]["credential"]}


def test_sessions_given_and_refused_are_there(site, issuer, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
        {"Sid": "Put", "Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::data/*"}]}))
    site.admin("issuer", "add", issuer.url, "--audience", AUDIENCE)
    role = site.admin("role", "add", "writer", "--issuer", issuer.url, "--claim", "groups=/atlas",
                      "--policy", str(policy))["arn"]
    sts = boto3.client("sts", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                       config=Config(signature_version=botocore.UNSIGNED))

    def assume(**claims):
        return sts.assume_role_with_web_identity(
            RoleArn=role, RoleSessionName="me", WebIdentityToken=issuer.token(**claims))["Credentials"]
    session = assume()
    with pytest.raises(botocore.exceptions.ClientError):
        assume(groups=["/cms"])
    boto3.client("s3", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                 aws_access_key_id=session["AccessKeyId"], aws_secret_access_key=session["SecretAccessKey"],
                 aws_session_token=session["SessionToken"]).put_object(Bucket="data", Key="s", Body=b"s")
    # The demo's own macaroon is one too.
    sessions = [line for line in audit(site, "--event", "session") if line["action"] != "macaroon:request"]
    given, refused = sessions
    assert given["target"] == role and "session:" + session["AccessKeyId"] in given["why"]
    assert given["who"].startswith("alice@") and given["outcome"] == "allowed"
    assert refused["outcome"] == "refused"
    put = audit(site, "--path", "/data/s")[0]
    assert put["credential"] == "session:" + session["AccessKeyId"]
    assert put["why"].startswith('statement 1 ("Put") of role writer')


def test_root_leaves_the_same(site, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1000)
    xrdcp(file, url(site, "/data/dir/x"))
    xrdfs(site, "mv", "/data/dir/x", "/data/dir/y")
    xrdfs(site, "rm", "/data/dir/y")
    found = [(line["action"], line["outcome"]) for line in audit(site, "--path", "/data/dir")]
    for action in ("s3:PutObject", "s3:RenameObject", "s3:DeleteObject"):
        assert (action, "allowed") in found, found
    logins = audit(site, "--event", "login")
    assert logins and all(line["action"] == "login:host" and line["who"] == "demo" for line in logins)


def test_admin_commands_are_there_whether_a_server_runs_or_not(site):
    site.admin("user", "add", "ann")
    site.admin("user", "list")
    assert site.admin("user", "add", "ann", check=False).returncode == 4
    site.stop()
    site.admin("user", "disable", "ann")
    found = audit(site, "--event", "admin")
    assert [(line["action"], line["target"], line["outcome"]) for line in found] == [
        ("admin:user-add", "ann", "allowed"), ("admin:user-add", "ann", "refused"),
        ("admin:user-set", "ann: Disabled", "allowed")]
    assert all(line["who"].startswith("uid ") for line in found)
    log = [line["action"] for line in audit(site, "--event", "log")]
    assert log == ["server:start", "server:stop"]


def test_reads_are_there_where_they_are_wanted(tmp_path):
    server = Server(tmp_path / "reads", environment={"DEWAR_AUDIT_READS": "true"}).start()
    try:
        s3 = server.boto()
        s3.put_object(Bucket="demo", Key="a", Body=b"a")
        s3.get_object(Bucket="demo", Key="a")["Body"].read()
        server.admin("user", "list")
        actions = [line["action"] for line in audit(server)]
        assert "s3:GetObject" in actions and "admin:user-list" in actions, actions
    finally:
        server.stop()


def test_a_kill_leaves_a_sound_log_that_goes_on(site):
    s3 = site.boto(max_pool_connections=8)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for cycle in range(3):
            calls = [pool.submit(s3.put_object, Bucket="data", Key=f"k/{cycle}/{n}", Body=b"k") for n in range(200)]
            while sum(call.done() for call in calls) < 100:
                time.sleep(0.01)
            done = {f"/data/k/{cycle}/{n}" for n, call in enumerate(calls) if call.done() and not call.exception()}
            time.sleep(1)
            site.kill()
            concurrent.futures.wait(calls)
            site.start()
            s3 = site.boto(max_pool_connections=8)
            # What was acknowledged a second before the kill is there.
            there = {line["target"] for line in audit(site, "--last", "0", "--path", f"/data/k/{cycle}")}
            assert done <= there
            assert verified(site)["sound"]
    assert [path.name.split("-")[0] for path in log_files(site)] == ["audit", "security"]


def test_no_secret_is_in_it(site, issuer):
    """Whatever was sent and given: keys, tokens, signatures."""
    site.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/data")
    site.admin("user", "add", "ann")
    key = site.admin("key", "add", "--user", "ann")
    s3 = client(site, key)
    secrets = [key["secret_key"], site.s3["secret_key"]]
    address = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "x"})
    secrets.append(address.split("X-Amz-Signature=")[1])
    requests.get(address, timeout=20)
    for token in (issuer.token(), issuer.token(aud="other"), issuer.token(scope="storage.read:/x")):
        secrets += [token, token.split(".")[2]]
        head = {"Authorization": f"Bearer {token}"}
        requests.get(site.s3["endpoint"] + "/data/x", headers=head, timeout=20)
        site.admin("issuer", "test", token, check=False)
    sts = boto3.client("sts", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                       aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"])
    session = sts.get_session_token()["Credentials"]
    secrets += [session["SecretAccessKey"], session["SessionToken"]]
    site.stop()
    text = "".join(path.read_text() for path in log_files(site))
    assert len(audit(site, "--last", "0")) > 8
    for secret in secrets:
        assert secret not in text and secret[:24] not in text, secret
    for path in log_files(site):
        assert path.stat().st_mode & 0o777 == 0o600
    assert log_files(site)[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_bulk_delete_is_one_record(site):
    s3 = site.boto()
    for n in range(20):
        s3.put_object(Bucket="data", Key=f"run/{n}", Body=b"x")
    site.admin("user", "add", "eve")
    key = site.admin("key", "add", "--user", "eve")
    wanted = {"Objects": [{"Key": f"run/{n}"} for n in range(20)]}
    for _ in range(2):
        client(site, key).delete_objects(Bucket="data", Delete=wanted)
    assert not s3.delete_objects(Bucket="data", Delete=wanted).get("Errors")
    found = audit(site, "--verb", "DeleteObject", "--path", "/data/run/7")
    assert [(line["who"], line["outcome"], line["count"], line["target"]) for line in found] == [
        ("eve", "refused", 20, "/data/run"), ("eve", "refused", 20, "/data/run"), ("demo", "allowed", 20, "/data/run")]
    assert found[2]["names"] == [f"/data/run/{n}" for n in range(10)]


def test_what_was_taken_out_shows(site):
    s3 = site.boto()
    for n in range(5):
        s3.put_object(Bucket="data", Key=str(n), Body=b"x")
    assert verified(site)["sound"]
    site.stop()
    path = log_files(site)[0]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"/data/2"' not in line))
    done = site.admin("audit", "--verify", check=False)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert not told["sound"] and "missing" in told["broken"][0]


def cut_request(server, body, after):
    """A request on the admin socket whose sender goes away so many seconds later."""
    text = json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as admin:
        admin.connect(str(server.data / "admin.sock"))
        admin.sendall(b"POST /v1/admin HTTP/1.1\r\nHost: dewar\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(text) + text)
        time.sleep(after)


def test_who_goes_away_in_the_middle_of_revoking_has_revoked(site):
    chance = random.Random(5)
    site.admin("user", "add", "robot")
    removed = []
    for _ in range(25):
        key = site.admin("key", "add", "--user", "robot")
        s3 = client(site, key)
        s3.list_buckets()  # from now on the key is remembered
        cut_request(site, {"key_remove": {"access_key": key["access_key"]}}, chance.uniform(0.0003, 0.012))
        time.sleep(0.3)
        if key["access_key"] not in json.dumps(site.admin("key", "list", "--user", "robot")):
            removed.append(key["access_key"])
            with pytest.raises(botocore.exceptions.ClientError):
                s3.list_buckets()
    assert removed, "every request was cut before it was read"
    told = {line["target"] for line in audit(site, "--last", "0", "--verb", "admin:key-remove")}
    assert set(removed) <= told
