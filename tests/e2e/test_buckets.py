"""Buckets and usage for administrators: with a running server and without one, and never by accident."""

import json
import time

import boto3
import pytest
import requests
from botocore.config import Config
from server import Server
from test_audit import audit


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("buckets")).start()
    server.admin("user", "add", "ann")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def client_of(server, user):
    """An S3 client with a new key of a user."""
    key = server.admin("key", "add", "--user", user)
    return boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name=server.s3["region"],
                        aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"],
                        config=Config(retries={"max_attempts": 0}, signature_version="s3v4"))


def failed(server, *arguments):
    """The exit code and the message of a command that fails."""
    done = server.admin(*arguments, check=False)
    assert done.returncode != 0, done.stdout
    return done.returncode, done.stderr


def test_a_bucket_from_the_first_command_to_the_last(site):
    made = site.admin("bucket", "create", "atlas", "--owner", "ann", "--versioning")
    assert (made["bucket"], made["owner"], made["versioning"]) == ("/atlas", "ann", "enabled"), made
    code, words = failed(site, "bucket", "create", "atlas", "--owner", "demo")
    assert code == 4 and "exists already" in words, words
    code, words = failed(site, "bucket", "create", "other", "--owner", "nobody")
    assert code == 3 and "nobody" in words, words
    code, words = failed(site, "bucket", "create", "A_", "--owner", "ann")
    assert code == 2, words
    site.admin("user", "add", "ann/robot")
    code, words = failed(site, "bucket", "create", "other", "--owner", "ann/robot")
    assert code == 2 and "belong to accounts" in words, words
    code, words = failed(site, "bucket", "create", "/@lab/other", "--owner", "ann")
    assert code == 2 and "tenant" in words, words

    site.admin("user", "add", "eve", "--tenant", "lab")
    site.admin("bucket", "create", "atlas", "--owner", "lab:eve")
    site.admin("quota", "set", "/atlas", "--bytes", "1MB")
    s3 = site.boto()
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:*",
         "Resource": ["arn:aws:s3:::atlas", "arn:aws:s3:::atlas/*"]}]}
    ann = client_of(site, "ann")
    ann.put_bucket_policy(Bucket="atlas", Policy=json.dumps(policy))
    s3.put_object(Bucket="atlas", Key="run/a", Body=b"a" * 1000)
    s3.put_object(Bucket="atlas", Key="run/a", Body=b"b" * 500)
    shown = site.admin("bucket", "show", "atlas")
    assert (shown["objects"], shown["bytes"], shown["state"]) == (2, 1500, "ok"), shown
    assert shown["limits"] == {"max_bytes": 1_000_000}, shown
    assert (shown["policy"], shown["public"], shown["encryption"]) == (True, True, "none"), shown
    assert shown == site.admin("bucket", "show", "/atlas")
    assert site.admin("bucket", "show", "/@lab/atlas")["owner"] == "lab:eve"
    names = [bucket["bucket"] for bucket in site.admin("bucket", "list")]
    assert names == ["/@lab/atlas", "/atlas", "/demo"], names
    assert [one["bucket"] for one in site.admin("bucket", "list", "--owner", "ann")] == ["/atlas"]

    code, words = failed(site, "bucket", "remove", "atlas")
    assert code == 4 and "2 versions" in words and "1.5 kB" in words, words
    for version in s3.list_object_versions(Bucket="atlas")["Versions"]:
        ann.delete_object(Bucket="atlas", Key=version["Key"], VersionId=version["VersionId"])
    ann.create_multipart_upload(Bucket="atlas", Key="never")
    assert site.admin("bucket", "remove", "atlas") == {"removed": "atlas"}
    code, words = failed(site, "bucket", "show", "atlas")
    assert code == 3 and "atlas" in words, words
    assert failed(site, "bucket", "remove", "atlas")[0] == 3
    recorded = [line["action"] for line in audit(site, "--event", "admin")]
    assert recorded.count("admin:bucket-create") == 7, recorded
    assert recorded.count("admin:bucket-remove") == 3, recorded
    assert "admin:bucket-show" not in recorded, "reads are not recorded"


def test_usage_by_user_bucket_and_pool(site):
    s3 = site.boto()
    site.admin("bucket", "create", "big", "--owner", "ann")
    ann = client_of(site, "ann")
    ann.put_object(Bucket="big", Key="k", Body=b"x" * 3_000_000)
    s3.put_object(Bucket="demo", Key="k", Body=b"x" * 1000)
    usage = site.admin("usage")
    buckets = {bucket["name"]: bucket for bucket in usage["buckets"]}
    assert buckets["/big"] == {"name": "/big", "bytes": 3_000_000, "objects": 1}
    assert usage["buckets"][0]["name"] == "/big", "the largest is first"
    assert buckets["/demo"]["bytes"] >= 1000
    assert {"name": "ann", "bytes": 3_000_000, "objects": 1} in usage["users"]
    [pool] = usage["pools"]
    assert pool["bytes"] >= 3_000_000 and pool["stored_bytes"] >= pool["bytes"] * 6 / 4, pool
    assert site.admin("usage", "--user", "ann") == {"users": [{"name": "ann", "bytes": 3_000_000, "objects": 1}]}
    assert site.admin("usage", "--bucket", "big", "--pool") == {
        "buckets": [buckets["/big"]], "pools": usage["pools"]}
    site.admin("user", "add", "new")
    assert site.admin("usage", "--user", "new") == {"users": [{"name": "new", "bytes": 0, "objects": 0}]}
    for wrong in (("--user", "nobody"), ("--bucket", "nothing"), ("--pool", "none")):
        assert failed(site, "usage", *wrong)[0] == 3, wrong


def test_usage_as_metrics(site):
    def metrics():
        return requests.get(site.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text

    give_up = time.monotonic() + 90
    while 'dewar_bucket_usage_bytes{bucket="/big"} 3000000' not in (text := metrics()):
        assert time.monotonic() < give_up, text
        time.sleep(1)
    assert 'dewar_bucket_objects{bucket="/big"} 1' in text, text
    assert 'dewar_user_usage_bytes{user="ann"} 3000000' in text, text
    assert "dewar_buckets_without_series 0" in text, text
    assert 'dewar_pools_content_bytes{pool="' in text, text


def test_without_a_server(site):
    site.stop()
    assert site.admin("bucket", "create", "offline", "--owner", "ann")["owner"] == "ann"
    assert "/offline" in [bucket["bucket"] for bucket in site.admin("bucket", "list")]
    assert site.admin("usage", "--bucket", "offline")["buckets"][0]["objects"] == 0
    assert site.admin("bucket", "remove", "offline") == {"removed": "offline"}
    site.start()
    assert site.admin("bucket", "show", "big")["objects"] == 1
