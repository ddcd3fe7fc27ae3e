"""What administrators type: the AWS CLI's `s3api` and `iam`, for everything that stands on buckets and objects."""

import json
import subprocess
import urllib.request

import pytest
from test_clients import VENV


@pytest.fixture
def aws(server):
    def call(*words, refused=None, environment=None):
        done = subprocess.run([VENV / "aws", *map(str, words), "--output", "json"],
                              env={**server.client_environment(), **(environment or {})},
                              capture_output=True, text=True, timeout=120)
        if refused:
            assert done.returncode != 0 and refused in done.stderr, (words, done.stdout, done.stderr)
            return None
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip().startswith(("{", "[")) else done.stdout.strip()
    return call


def test_documents_of_a_bucket(aws, server, bucket):
    on = ("--bucket", bucket)
    for name, argument, document in [
        ("cors", "--cors-configuration", {"CORSRules": [
            {"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"], "AllowedHeaders": ["*"]}]}),
        ("tagging", "--tagging", {"TagSet": [{"Key": "a", "Value": "1"}]}),
    ]:
        aws("s3api", f"put-bucket-{name}", *on, argument, json.dumps(document))
        kept = aws("s3api", f"get-bucket-{name}", *on)
        assert {key: kept[key] for key in document} == document
        aws("s3api", f"delete-bucket-{name}", *on)
        aws("s3api", f"get-bucket-{name}", *on, refused="NoSuch")
    rules = {"Rules": [{"ID": "r", "Status": "Enabled", "Expiration": {"Days": 30},
                        "Filter": {"And": {"Prefix": "log/", "Tags": [{"Key": "a", "Value": "1"}]}}}]}
    aws("s3api", "put-bucket-lifecycle-configuration", *on, "--lifecycle-configuration", json.dumps(rules))
    assert aws("s3api", "get-bucket-lifecycle-configuration", *on)["Rules"] == rules["Rules"]
    put = aws("s3api", "put-object", *on, "--key", "log/1", "--tagging", "a=1")
    assert 'rule-id="r"' in put["Expiration"]
    encryption = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    aws("s3api", "put-bucket-encryption", *on, "--server-side-encryption-configuration", json.dumps(encryption))
    begun = aws("s3api", "create-multipart-upload", *on, "--key", "m")
    assert begun["ServerSideEncryption"] == "AES256"
    aws("s3api", "abort-multipart-upload", *on, "--key", "m", "--upload-id", begun["UploadId"])


def test_who_may(aws, server, bucket, tmp_path):
    on = ("--bucket", bucket)
    url = f"{server.s3['endpoint']}/{bucket}/k"
    (tmp_path / "k").write_text("hello")
    aws("s3api", "put-object", *on, "--key", "k", "--body", tmp_path / "k", "--checksum-algorithm", "SHA256")

    def status():
        try:
            return urllib.request.urlopen(url).status
        except urllib.error.HTTPError as error:
            return error.code

    policy = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}]})
    aws("s3api", "put-bucket-policy", *on, "--policy", policy)
    assert status() == 200
    assert aws("s3api", "get-bucket-policy-status", *on)["PolicyStatus"]["IsPublic"]
    block = "BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
    aws("s3api", "put-public-access-block", *on, "--public-access-block-configuration", block)
    assert status() == 403
    aws("s3api", "put-bucket-policy", *on, "--policy", policy, refused="AccessDenied")
    aws("s3api", "delete-bucket-policy", *on)
    aws("s3api", "delete-public-access-block", *on)
    aws("s3api", "put-object-acl", *on, "--key", "k", "--acl", "public-read", refused="AccessControlListNotSupported")
    aws("s3api", "put-bucket-ownership-controls", *on, "--ownership-controls",
        "Rules=[{ObjectOwnership=ObjectWriter}]")
    aws("s3api", "put-object-acl", *on, "--key", "k", "--acl", "public-read")
    assert status() == 200
    assert aws("s3api", "get-object-acl", *on, "--key", "k")["Grants"][0]["Permission"] == "READ"
    presigned = aws("s3", "presign", f"s3://{bucket}/k")
    aws("s3api", "put-object-acl", *on, "--key", "k", "--acl", "private")
    assert status() == 403
    assert urllib.request.urlopen(presigned).read() == b"hello"


def test_versions_and_locks(aws, server):
    on = ("--bucket", "cli-locked")
    aws("s3api", "create-bucket", *on, "--object-lock-enabled-for-bucket")
    assert aws("s3api", "get-bucket-versioning", *on)["Status"] == "Enabled"
    first = aws("s3api", "put-object", *on, "--key", "k")["VersionId"]
    named = ("--key", "k", "--version-id", first)
    aws("s3api", "put-object-legal-hold", *on, *named, "--legal-hold", "Status=ON")
    aws("s3api", "put-object-retention", *on, *named, "--retention",
        "Mode=GOVERNANCE,RetainUntilDate=2400-01-01T00:00:00Z")
    aws("s3api", "delete-object", *on, *named, refused="AccessDenied")
    marker = aws("s3api", "delete-object", *on, "--key", "k")
    assert marker["DeleteMarker"]
    listed = aws("s3api", "list-object-versions", *on)
    assert [one["VersionId"] for one in listed["Versions"]] == [first] and len(listed["DeleteMarkers"]) == 1
    aws("s3api", "put-object-legal-hold", *on, *named, "--legal-hold", "Status=OFF")
    aws("s3api", "delete-object", *on, *named, refused="AccessDenied")
    aws("s3api", "delete-object", *on, *named, "--bypass-governance-retention")
    aws("s3api", "delete-object", *on, "--key", "k", "--version-id", marker["VersionId"])
    aws("s3api", "delete-bucket", *on)


def test_users_of_an_account(aws, server, bucket):
    assert aws("iam", "get-user")["User"]["Arn"].endswith(":root")
    aws("iam", "create-user", "--user-name", "cli-ann")
    key = aws("iam", "create-access-key", "--user-name", "cli-ann")["AccessKey"]
    ann = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    aws("s3api", "list-objects-v2", "--bucket", bucket, environment=ann, refused="AccessDenied")
    policy = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"}]})
    made = aws("iam", "create-policy", "--policy-name", "cli-list", "--policy-document", policy)["Policy"]["Arn"]
    aws("iam", "attach-user-policy", "--user-name", "cli-ann", "--policy-arn", made)
    aws("s3api", "list-objects-v2", "--bucket", bucket, environment=ann)
    aws("s3api", "put-object", "--bucket", bucket, "--key", "k", environment=ann, refused="AccessDenied")
    aws("iam", "detach-user-policy", "--user-name", "cli-ann", "--policy-arn", made)
    aws("iam", "delete-policy", "--policy-arn", made)
    aws("iam", "delete-access-key", "--user-name", "cli-ann", "--access-key-id", key["AccessKeyId"])
    aws("iam", "delete-user", "--user-name", "cli-ann")
    aws("iam", "get-user", "--user-name", "cli-ann", refused="NoSuchEntity")
