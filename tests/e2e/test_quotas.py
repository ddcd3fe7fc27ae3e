"""Quotas: refused by each protocol in its own words, exact, and kept through a kill."""

import concurrent.futures
import json
import os

import botocore.exceptions
import pytest
from server import Server
from test_clients import VENV, run
from xrootd_tools import url, xrdcp, xrdfs


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("quotas"), environment={"DEWAR_LISTING_NAMES_MAX": "100"}).start()
    server.boto().create_bucket(Bucket="atlas")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def refused(call, **arguments):
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        call(**arguments)
    assert raised.value.response["Error"]["Code"] == "QuotaExceeded", raised.value
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return raised.value.response["Error"]["Message"]


def quota(server, target):
    return server.admin("quota", "show", target)[0]


def test_a_bucket_is_full_for_every_protocol(site, tmp_path):
    s3 = site.boto()
    site.admin("quota", "set", "/atlas", "--bytes", "1MB", "--soft-bytes", "500KB")
    s3.put_object(Bucket="atlas", Key="a", Body=b"a" * 600_000)
    assert quota(site, "/atlas") == {
        "target": "/atlas", "bytes": 600_000, "objects": 1, "state": "soft",
        "limits": {"max_bytes": 1_000_000, "soft_bytes": 500_000}}
    words = refused(s3.put_object, Bucket="atlas", Key="b", Body=b"b" * 400_001)
    assert "600000 bytes" in words and "1000000" in words, words

    up = tmp_path / "up"
    up.write_bytes(os.urandom(400_001))
    done = xrdcp(up, url(site, "/atlas/b"), check=False)
    assert done.returncode != 0 and "3021" in done.stderr, done.stderr
    room = xrdfs(site, "spaceinfo", "/atlas").stdout
    assert "1000000" in room and "600000" in room, room

    # Parts count when they come, for the owner of the upload, and the object that they become counts no more.
    upload = s3.create_multipart_upload(Bucket="atlas", Key="parts")["UploadId"]
    refused(s3.upload_part, Bucket="atlas", Key="parts", UploadId=upload, PartNumber=1, Body=b"p" * 400_001)
    part = s3.upload_part(Bucket="atlas", Key="parts", UploadId=upload, PartNumber=1, Body=b"p" * 400_000)
    refused(s3.put_object, Bucket="atlas", Key="c", Body=b"c")
    refused(s3.copy_object, Bucket="atlas", Key="copy", CopySource="atlas/a")
    assert quota(site, "/atlas")["objects"] == 2
    [owner] = site.admin("status")["uploads"]["owners"]
    assert owner["uploads"] == 1 and owner["bytes"] == 400_000 and owner["oldest_seconds"] < 600, owner
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket="atlas", Key="parts", UploadId=upload, MultipartUpload=parts)
    assert quota(site, "/atlas")["state"] == "full"
    # In place of what is there, and less.
    s3.put_object(Bucket="atlas", Key="a", Body=b"A" * 600_000)
    s3.delete_object(Bucket="atlas", Key="parts")
    s3.delete_object(Bucket="atlas", Key="a")
    site.admin("quota", "remove", "/atlas")
    assert site.admin("quota", "list") == []


def test_a_directory_is_exact_under_many_writers_and_a_kill(site):
    s3 = site.boto()
    s3.put_object(Bucket="atlas", Key="run/before", Body=b"0123456789")
    site.admin("quota", "set", "/atlas/run", "--objects", "20", "--bytes", "1GB")
    assert quota(site, "/atlas/run")["bytes"] == 10

    def put(number):
        try:
            s3.put_object(Bucket="atlas", Key=f"run/x/{number}", Body=b"x")
            return True
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "QuotaExceeded"
            return False

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        taken = sum(pool.map(put, range(60)))
    assert taken == 19
    s3.put_object(Bucket="atlas", Key="beside", Body=b"free")
    site.kill()
    site.start()
    s3 = site.boto()
    assert quota(site, "/atlas/run")["objects"] == 20
    refused(s3.put_object, Bucket="atlas", Key="run/more", Body=b"")
    # The directory keeps its limits under another name.
    xrdfs(site, "mv", "/atlas/run", "/atlas/walk")
    refused(s3.put_object, Bucket="atlas", Key="walk/more", Body=b"")
    [listed] = site.admin("quota", "list")
    assert listed["objects"] == 20 and listed["target"] == "/atlas/walk"
    assert quota(site, "/atlas/walk")["state"] == "full"
    site.admin("quota", "remove", "/atlas/walk")


def test_users_and_tenants(site):
    key = site.admin("user", "add", "ann") and site.admin("key", "add", "--user", "ann")
    import boto3
    from botocore.config import Config
    ann = boto3.client("s3", endpoint_url=site.s3["endpoint"], region_name=site.s3["region"],
                       aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"],
                       config=Config(retries={"max_attempts": 1}))
    ann.create_bucket(Bucket="anns")
    site.admin("quota", "set", "user:ann", "--objects", "2")
    for name in ("1", "2"):
        ann.put_object(Bucket="anns", Key=name, Body=b"")
    refused(ann.put_object, Bucket="anns", Key="3", Body=b"")
    site.boto().put_object(Bucket="atlas", Key="others", Body=b"")
    site.admin("quota", "set", "tenant:", "--bytes", "0")
    refused(site.boto().put_object, Bucket="atlas", Key="more", Body=b"x")
    names = {line["target"] for line in site.admin("quota", "list")}
    assert names == {"user:ann", "tenant:"}
    for target in names:
        site.admin("quota", "remove", target)
    site.boto().put_object(Bucket="atlas", Key="more", Body=b"x")
    for bad in ("atlas", "/none", "user:nobody", "/atlas/none", "tenant:none"):
        assert site.admin("quota", "set", bad, "--objects", "1", check=False).returncode != 0, bad


def test_a_group_is_charged_where_it_owns(site, tmp_path):
    s3 = site.boto()
    s3.create_bucket(Bucket="shared")
    s3.put_object(Bucket="shared", Key="muons/before", Body=b"x" * 700)
    s3.put_object(Bucket="shared", Key="others/a", Body=b"x" * 500)
    site.admin("group", "add", "muons")
    site.admin("group", "own", "/shared/muons", "muons")
    assert site.admin("group", "of", "/shared/muons/deep") == {"group": "muons", "by": "/shared/muons"}
    assert site.admin("group", "of", "/shared/others") == {"group": None, "by": None}
    site.admin("quota", "set", "group:muons", "--bytes", "1000", "--objects", "3")
    assert quota(site, "group:muons")["bytes"] == 0
    s3.put_object(Bucket="shared", Key="muons/deep/er/a", Body=b"x" * 600)
    s3.put_object(Bucket="shared", Key="others/b", Body=b"x" * 5000)
    words = refused(s3.put_object, Bucket="shared", Key="muons/b", Body=b"x" * 401)
    assert "the group holds 600 bytes" in words
    # A copy is charged, the other door too, and what is removed is given back.
    refused(s3.copy_object, Bucket="shared", Key="muons/c", CopySource="shared/others/a")
    (tmp_path / "file").write_bytes(b"x" * 401)
    done = xrdcp(tmp_path / "file", url(site, "/shared/muons/d"), check=False)
    assert done.returncode != 0 and "3021" in done.stderr, done.stderr
    (tmp_path / "file").write_bytes(b"x" * 400)
    assert xrdcp(tmp_path / "file", url(site, "/shared/muons/d")).returncode == 0
    assert quota(site, "group:muons")["state"] == "full"
    site.restart()
    s3 = site.boto()
    assert quota(site, "group:muons") | {"limits": None} == {
        "target": "group:muons", "bytes": 1000, "objects": 2, "state": "full", "limits": None}
    assert "group:muons" in {line["target"] for line in site.admin("quota", "list")}
    s3.delete_object(Bucket="shared", Key="muons/deep/er/a")
    s3.put_object(Bucket="shared", Key="muons/b", Body=b"x" * 401)
    assert quota(site, "group:muons")["bytes"] == 801
    site.admin("group", "own", "/shared/muons", "--nobody")
    s3.put_object(Bucket="shared", Key="muons/e", Body=b"x" * 5000)
    assert quota(site, "group:muons")["bytes"] == 801
    done = site.admin("group", "remove", "muons", check=False)
    assert done.returncode != 0 and "quota remove" in done.stderr, done
    site.admin("quota", "remove", "group:muons")
    done = site.admin("group", "remove", "muons", check=False)
    assert done.returncode != 0 and "charged to it" in done.stderr, done
    # One that goes leaves its directories to nobody; a later one of its name is another.
    site.admin("group", "own", "/shared/others", "muons")
    for key in ("muons/b", "muons/d"):
        s3.delete_object(Bucket="shared", Key=key)
    site.admin("group", "remove", "muons")
    site.admin("group", "add", "muons")
    s3.put_object(Bucket="shared", Key="others/c", Body=b"x" * 900)
    assert site.admin("group", "of", "/shared/others") == {"group": None, "by": "/shared/others"}
    assert quota(site, "group:muons")["bytes"] == 0
    site.admin("group", "own", "/shared/others", "muons")
    s3.put_object(Bucket="shared", Key="others/c", Body=b"x" * 900)
    assert quota(site, "group:muons")["bytes"] == 900
    for bad in (("/shared/none", "muons"), ("/shared", "nobody"), ("user:demo", "muons")):
        assert site.admin("group", "own", *bad, check=False).returncode != 0, bad


def test_listings_pass_over_deleted_names_page_by_page(site, tools):
    s3 = site.boto()
    s3.create_bucket(Bucket="deleted")
    s3.put_bucket_versioning(Bucket="deleted", VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "z"):
        s3.put_object(Bucket="deleted", Key=key, Body=b"")
    s3.delete_objects(Bucket="deleted", Delete={"Objects": [{"Key": f"d{n:03}"} for n in range(350)]})
    page = s3.list_objects(Bucket="deleted", Marker="d000")
    assert page["IsTruncated"] and "Contents" not in page and page["NextMarker"] == "d100", page
    for verb in ("list_objects", "list_objects_v2"):
        pages = list(s3.get_paginator(verb).paginate(Bucket="deleted"))
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        assert keys == ["a", "z"] and any("Contents" not in page for page in pages), pages
        listed = run(VENV / "aws", "s3api", verb.replace("_", "-"), "--bucket", "deleted", "--output", "json", server=site)
        assert [item["Key"] for item in json.loads(listed)["Contents"]] == ["a", "z"], listed
    assert [line.split()[-1] for line in run(VENV / "aws", "s3", "ls", "s3://deleted", server=site).splitlines()] == ["a", "z"]
    remote = {"RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_DEWAR_TYPE": "s3", "RCLONE_CONFIG_DEWAR_PROVIDER": "Other",
              "RCLONE_CONFIG_DEWAR_ACCESS_KEY_ID": site.s3["access_key"],
              "RCLONE_CONFIG_DEWAR_SECRET_ACCESS_KEY": site.s3["secret_key"],
              "RCLONE_CONFIG_DEWAR_ENDPOINT": site.s3["endpoint"], "RCLONE_CONFIG_DEWAR_REGION": "us-east-1"}
    for version in ("1", "2"):
        listed = run(tools / "rclone", "lsf", "--s3-list-version", version, "dewar:deleted", server=site, **remote)
        assert listed.split() == ["a", "z"], listed
    assert xrdfs(site, "ls", "/deleted").stdout.split() == ["/deleted/a", "/deleted/z"]
    versions = s3.get_paginator("list_object_versions").paginate(Bucket="deleted")
    assert sum(len(page.get("DeleteMarkers", [])) for page in versions) == 350


def test_a_bucket_of_directories_is_removed_over_s3(site):
    s3 = site.boto()
    s3.create_bucket(Bucket="dirs")
    assert xrdfs(site, "mkdir", "-p", "/dirs/made/below").returncode == 0
    s3.put_object(Bucket="dirs", Key="limited/x", Body=b"x")
    site.admin("quota", "set", "/dirs/limited", "--bytes", "1000")
    with pytest.raises(botocore.exceptions.ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="dirs")
    s3.delete_object(Bucket="dirs", Key="limited/x")
    assert xrdfs(site, "rmdir", "/dirs", check=False).returncode != 0
    s3.delete_bucket(Bucket="dirs")
    assert "/dirs/limited" not in {line["target"] for line in site.admin("quota", "list")}


def test_a_renamed_directory_is_listed_where_it_is(site):
    site.boto().put_object(Bucket="atlas", Key="run1/raw/a", Body=b"abc")
    site.admin("quota", "set", "/atlas/run1/raw", "--bytes", "1000")
    assert xrdfs(site, "mv", "/atlas/run1", "/atlas/run2").returncode == 0
    listed = {line["target"]: line for line in site.admin("quota", "list")}
    assert listed["/atlas/run2/raw"]["bytes"] == 3 and "/atlas/run1/raw" not in listed
    assert listed["/atlas/run2/raw"]["limits"] == {"max_bytes": 1000}
    site.admin("quota", "remove", "/atlas/run2/raw")
