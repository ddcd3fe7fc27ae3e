"""Versions, object lock, tags, attributes and lifecycle with boto3."""

import datetime
import time

import botocore.exceptions
import pytest
from conftest import content
from server import Server


def code(error):
    return error.value.response["Error"]["Code"]


def keep(s3, bucket, status="Enabled"):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def empty(s3, bucket):
    """Removes every version, whatever keeps it in governance mode."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = page.get("Versions", []) + page.get("DeleteMarkers", [])
        for version in found:
            s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"],
                             BypassGovernanceRetention=True)


def test_versions_come_back(server, bucket):
    s3 = server.boto()
    keep(s3, bucket)
    bodies = {}
    for size in (0, 10, 5_000, 3_000_000):
        body = content(size, size)
        bodies[s3.put_object(Bucket=bucket, Key="a/k", Body=body)["VersionId"]] = body
    marker = s3.delete_object(Bucket=bucket, Key="a/k")
    assert marker["DeleteMarker"]
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    for version, body in bodies.items():
        got = s3.get_object(Bucket=bucket, Key="a/k", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (body, version)
    listed = s3.list_object_versions(Bucket=bucket, Prefix="a/")
    assert [v["VersionId"] for v in listed["Versions"]] == list(reversed(bodies))
    assert listed["DeleteMarkers"][0]["IsLatest"]
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    assert [v["VersionId"] for page in pages for v in page.get("Versions", [])] == list(reversed(bodies))
    s3.delete_object(Bucket=bucket, Key="a/k", VersionId=marker["VersionId"])
    assert s3.get_object(Bucket=bucket, Key="a/k")["Body"].read() == bodies[list(bodies)[-1]]
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.delete_bucket(Bucket=bucket)
    assert code(error) == "BucketNotEmpty"
    empty(s3, bucket)


def test_versions_survive_a_kill(own_server):
    s3 = own_server.boto()
    s3.create_bucket(Bucket="kept")
    keep(s3, "kept")
    versions = []
    for number in range(5):
        put = s3.put_object(Bucket="kept", Key="k", Body=content(number, 100_000 * number))
        versions.append(put["VersionId"])
    s3.put_object_tagging(Bucket="kept", Key="k", VersionId=versions[2],
                          Tagging={"TagSet": [{"Key": "run", "Value": "2"}]})
    own_server.kill()
    own_server.start()
    s3 = own_server.boto()
    for number, version in enumerate(versions):
        got = s3.get_object(Bucket="kept", Key="k", VersionId=version)
        assert got["Body"].read() == content(number, 100_000 * number)
    tags = s3.get_object_tagging(Bucket="kept", Key="k", VersionId=versions[2])
    assert tags["TagSet"] == [{"Key": "run", "Value": "2"}]


def test_locked_versions_stay(server):
    s3 = server.boto()
    s3.create_bucket(Bucket="locked-versions", ObjectLockEnabledForBucket=True)
    until = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
    put = s3.put_object(Bucket="locked-versions", Key="k", Body=b"x", ObjectLockMode="GOVERNANCE",
                        ObjectLockRetainUntilDate=until, Tagging="a=b")
    head = s3.head_object(Bucket="locked-versions", Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.delete_object(Bucket="locked-versions", Key="k", VersionId=put["VersionId"])
    assert code(error) == "AccessDenied"
    s3.put_object_legal_hold(Bucket="locked-versions", Key="k", LegalHold={"Status": "ON"})
    with pytest.raises(botocore.exceptions.ClientError):
        s3.delete_object(Bucket="locked-versions", Key="k", VersionId=put["VersionId"],
                         BypassGovernanceRetention=True)
    s3.put_object_legal_hold(Bucket="locked-versions", Key="k", LegalHold={"Status": "OFF"})
    empty(s3, "locked-versions")
    s3.delete_bucket(Bucket="locked-versions")


def test_attributes_of_parts(server, bucket):
    s3 = server.boto()
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    parts = []
    for number, size in enumerate((5 << 20, 5 << 20, 7), 1):
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number,
                              Body=content(number, size), ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    told = s3.get_object_attributes(Bucket=bucket, Key="k", MaxParts=2,
                                    ObjectAttributes=["ObjectParts", "ObjectSize", "Checksum"])
    assert told["ObjectSize"] == (10 << 20) + 7
    assert told["ObjectParts"]["TotalPartsCount"] == 3 and told["ObjectParts"]["IsTruncated"]
    sums = [part["ChecksumSHA256"] for part in told["ObjectParts"]["Parts"]]
    assert sums == [part["ChecksumSHA256"] for part in parts[:2]]


def test_rules_expire_objects(tmp_path):
    """With a day of two seconds."""
    server = Server(tmp_path / "short", environment={"DEWAR_LIFECYCLE_DAY": "2s"}).start()
    try:
        s3 = server.boto()
        s3.create_bucket(Bucket="short")
        keep(s3, "short")
        for key in ("old/a", "old/b", "kept"):
            s3.put_object(Bucket="short", Key=key, Body=b"first")
            s3.put_object(Bucket="short", Key=key, Body=b"second")
        s3.create_multipart_upload(Bucket="short", Key="old/upload")
        rules = [{"ID": "all", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1},
                  "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
                  "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}]
        s3.put_bucket_lifecycle_configuration(Bucket="short", LifecycleConfiguration={"Rules": rules})
        assert s3.get_bucket_lifecycle_configuration(Bucket="short")["Rules"] == rules
        for _ in range(60):
            listed = s3.list_object_versions(Bucket="short")
            keys = {v["Key"] for v in listed.get("Versions", []) + listed.get("DeleteMarkers", [])}
            if keys == {"kept"} and "Uploads" not in s3.list_multipart_uploads(Bucket="short"):
                break
            time.sleep(0.5)
        assert keys == {"kept"}
        assert len(s3.list_object_versions(Bucket="short")["Versions"]) == 2
        assert not server.unexpected()
    finally:
        server.kill()
