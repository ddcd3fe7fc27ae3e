"""`dewar share`: addresses for people without an account, listed, and ended by time or at once."""

import json
import subprocess
import time
from urllib.parse import urlsplit

import pytest
import requests

from server import Server


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("share")).start()
    server.boto().put_object(Bucket="demo", Key="run 1/höhe+a.root", Body=b"hits")
    server.boto().put_object(Bucket="demo", Key="run 1/other", Body=b"other")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def share(server, *arguments):
    return server.admin("share", *arguments)[0]


def curl(*arguments):
    done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", *arguments], capture_output=True, text=True, timeout=30)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_anybody_with_the_address_gets_the_object_and_nothing_else(site):
    made = share(site, "/demo/run 1/höhe+a.root", "--days", "2")
    assert curl(made["url"]) == (200, "hits")
    assert made["user"] == "demo" and not made["upload"] and not made["over"]
    for other in (made["url"].replace("a.root", "b.root"), made["url"].replace("run%201/h%C3%B6he%2Ba.root", "run%201/other")):
        assert other != made["url"]
        assert curl(other)[0] == 403
    assert curl("-X", "PUT", "-d", "x", made["url"])[0] == 403
    assert curl("-X", "DELETE", made["url"])[0] == 403
    assert curl(made["url"].split("?")[0])[0] == 403


def test_something_can_be_put_once(site):
    made = share(site, "/demo/incoming/from-bob", "--upload")
    assert curl(made["url"])[0] == 403
    assert curl("-X", "PUT", "--data-binary", "thesis", made["url"])[0] == 200
    assert curl("-X", "PUT", "--data-binary", "again", made["url"])[0] == 403
    assert site.boto().get_object(Bucket="demo", Key="incoming/from-bob")["Body"].read() == b"thesis"


def test_shares_are_listed_survive_restarts_and_end_at_once(site):
    made = share(site, "/demo/run 1/other")
    listed = {one["id"]: one for one in site.admin("share", "list")}
    assert listed[made["id"]]["path"] == "/demo/run 1/other"
    assert all("url" not in one for one in listed.values())
    assert made["id"] not in json.dumps(site.admin("key", "list"))
    site.restart()
    assert curl(made["url"]) == (200, "other")
    site.admin("share", "revoke", made["id"])
    assert curl(made["url"])[0] == 403
    assert made["id"] not in {one["id"] for one in site.admin("share", "list")}
    assert site.admin("share", "revoke", made["id"], check=False).returncode == 3
    # A key that is no share is not ended by it.
    assert site.admin("share", "revoke", site.s3["access_key"], check=False).returncode == 3


def test_a_share_never_may_more_than_its_user(site):
    site.admin("user", "add", "bob")
    made = share(site, "/demo/run 1/other", "--user", "bob")
    assert curl(made["url"])[0] == 403
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::demo/*"}]}
    s3 = site.boto()
    s3.put_bucket_policy(Bucket="demo", Policy=json.dumps(policy))
    assert curl(made["url"])[0] == 200
    s3.delete_bucket_policy(Bucket="demo")
    assert curl(made["url"])[0] == 403


def test_a_share_ends_with_its_user(site):
    site.admin("user", "add", "carl")
    key = site.admin("key", "add", "--user", "carl")
    import boto3
    s3 = boto3.client("s3", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                      aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"])
    s3.create_bucket(Bucket="carls")
    s3.put_object(Bucket="carls", Key="a", Body=b"a")
    made = share(site, "/carls/a")
    assert made["user"] == "carl" and curl(made["url"])[0] == 200
    site.admin("user", "disable", "carl")
    assert curl(made["url"])[0] == 403


def test_what_makes_no_sense_is_refused(site):
    for arguments in (["/demo"], ["demo/a"], ["/demo/dir/"], ["/demo/a", "--endpoint", "storage.example.org"],
                      ["/absent/a"]):
        assert site.admin("share", *arguments, check=False).returncode in (1, 2, 3), arguments
    assert site.admin("share", "/demo/a", "--days", "8", check=False).returncode == 2
    assert site.admin("share", "list") == [one for one in site.admin("share", "list") if one["path"] != "/demo/a"]


def test_an_address_is_for_the_place_that_is_named(site):
    made = share(site, "/demo/run 1/other", "--endpoint", "https://storage.example.org:443/")
    assert urlsplit(made["url"]).netloc == "storage.example.org"
    path = made["url"].removeprefix("https://storage.example.org")
    answer = requests.get(site.s3["endpoint"] + path, headers={"Host": "storage.example.org"}, timeout=10)
    assert answer.content == b"other"


def test_shares_are_in_the_audit_log_without_their_addresses(site):
    made = share(site, "/demo/run 1/other")
    assert curl(made["url"])[0] == 200
    time.sleep(0.5)
    text = "".join(path.read_text() for path in (site.data / "audit").glob("*.jsonl"))
    assert "admin:share-add" in text and "/demo/run 1/other" in text
    assert made["url"].split("X-Amz-Signature=")[1] not in text
