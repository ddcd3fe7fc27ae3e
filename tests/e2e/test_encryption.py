"""Encryption at rest, as boto3, the AWS CLI and rclone ask for it."""

import base64
import hashlib
import zlib

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from conftest import content
from test_clients import VENV, run

KEY = "0123456789abcdef0123456789abcdef"
OTHER = KEY[::-1]


def by_customer(key=KEY):
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}


def refused(call, *codes, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    assert answer["Error"]["Code"] in codes, answer
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400


@pytest.mark.parametrize("size", [0, 1, 5_000, 65_536, 3_000_000])
def test_objects_come_back_to_who_has_the_key(server, bucket, size):
    s3, body = server.boto(), content("sealed", size)
    done = s3.put_object(Bucket=bucket, Key="theirs", Body=body, **by_customer())
    assert done["SSECustomerAlgorithm"] == "AES256" and done["SSECustomerKeyMD5"]
    got = s3.get_object(Bucket=bucket, Key="theirs", **by_customer())
    assert got["Body"].read() == body and got["SSECustomerAlgorithm"] == "AES256"
    refused(s3.get_object, "InvalidRequest", Bucket=bucket, Key="theirs")
    refused(s3.get_object, "InvalidRequest", Bucket=bucket, Key="theirs", **by_customer(OTHER))
    refused(s3.head_object, "400", Bucket=bucket, Key="theirs")
    done = s3.put_object(Bucket=bucket, Key="ours", Body=body, ServerSideEncryption="AES256")
    assert done["ServerSideEncryption"] == "AES256"
    assert done["ETag"].strip('"') == hashlib.md5(body).hexdigest()
    got = s3.get_object(Bucket=bucket, Key="ours")
    assert got["Body"].read() == body and got["ServerSideEncryption"] == "AES256"
    if size > 4_000:
        got = s3.get_object(Bucket=bucket, Key="theirs", Range=f"bytes=4000-{size - 1}", **by_customer())
        assert got["Body"].read() == body[4000:]


def test_uploads_in_parts_and_copies(server, bucket):
    s3, body = server.boto(), content("parts", 12_000_000)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", **by_customer())["UploadId"]
    name = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
    refused(s3.upload_part, "InvalidRequest", PartNumber=1, Body=b"x", **name)
    parts = []
    for number, start in enumerate(range(0, len(body), 5 << 20), 1):
        part = s3.upload_part(PartNumber=number, Body=body[start:start + (5 << 20)], **name, **by_customer())
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    refused(s3.complete_multipart_upload, "InvalidRequest", MultipartUpload={"Parts": parts}, **name)
    s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **name, **by_customer())
    assert s3.get_object(Bucket=bucket, Key="parts", **by_customer())["Body"].read() == body
    server.restart()
    s3 = server.boto()
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/parts", ServerSideEncryption="AES256",
                   CopySourceSSECustomerAlgorithm="AES256", CopySourceSSECustomerKey=KEY)
    got = s3.get_object(Bucket=bucket, Key="copy")
    assert got["Body"].read() == body and got["ServerSideEncryption"] == "AES256"


def test_transfers_in_parts_under_a_customers_key(server, bucket, tmp_path):
    s3, body, size = server.boto(), content("transfer", 20_000_000), 8 << 20
    (tmp_path / "file").write_bytes(body)
    config = TransferConfig(multipart_threshold=size, multipart_chunksize=size)
    s3.upload_file(tmp_path / "file", bucket, "k", ExtraArgs=by_customer(), Config=config)
    s3.download_file(bucket, "k", tmp_path / "back", ExtraArgs=by_customer(), Config=config)
    assert (tmp_path / "back").read_bytes() == body
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED", **by_customer())
    parts = [body[start:start + size] for start in range(0, len(body), size)]
    md5s = b"".join(hashlib.md5(part).digest() for part in parts)
    assert head["ETag"].endswith('-3"') and hashlib.md5(md5s).hexdigest() not in head["ETag"]
    # What boto3 adds by itself is over the parts.
    sums = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    whole = base64.b64encode(zlib.crc32(sums).to_bytes(4, "big")).decode()
    assert (head["ChecksumCRC32"], head["ChecksumType"]) == (f"{whole}-3", "COMPOSITE")


def test_a_bucket_encrypts_what_does_not_say(server, bucket):
    s3, body = server.boto(), content("default", 200_000)
    with pytest.raises(ClientError) as caught:
        s3.get_bucket_encryption(Bucket=bucket)
    assert caught.value.response["Error"]["Code"] == "ServerSideEncryptionConfigurationNotFoundError"
    rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    got = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert got[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.put_object(Bucket=bucket, Key="k", Body=body)["ServerSideEncryption"] == "AES256"
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body and got["ServerSideEncryption"] == "AES256"
    s3.delete_bucket_encryption(Bucket=bucket)
    assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key="k", Body=body)


def test_what_makes_no_sense_is_refused(server, bucket):
    s3 = server.boto()
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    refused(s3.put_object, "InvalidArgument", ServerSideEncryption="rot13", **put)
    refused(s3.put_object, "InvalidArgument", ServerSideEncryption="AES256", **by_customer(), **put)
    refused(s3.put_object, "InvalidArgument", SSECustomerAlgorithm="AES256", SSECustomerKey="short", **put)
    refused(s3.put_object, "InvalidArgument", SSECustomerKeyMD5="AAAAAAAAAAAAAAAAAAAAAA==", **by_customer(), **put)
    refused(s3.put_object, "InvalidEncryptionAlgorithmError", SSECustomerAlgorithm="DES", SSECustomerKey=KEY, **put)
    with pytest.raises(ClientError) as caught:
        s3.put_object(ServerSideEncryption="aws:kms", **put)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_cli_and_rclone(server, bucket, tools, tmp_path):
    body = content("file", 9_000_000)
    (tmp_path / "file").write_bytes(body)
    (tmp_path / "key").write_text(KEY)
    key = ["--sse-c", "AES256", "--sse-c-key", f"fileb://{tmp_path / 'key'}"]
    run(VENV / "aws", "s3", "cp", tmp_path / "file", f"s3://{bucket}/aws", *key, server=server)
    run(VENV / "aws", "s3", "cp", f"s3://{bucket}/aws", tmp_path / "back", *key, server=server)
    assert (tmp_path / "back").read_bytes() == body
    remote = {
        "RCLONE_CONFIG_DEWAR_TYPE": "s3",
        "RCLONE_CONFIG_DEWAR_PROVIDER": "Other",
        "RCLONE_CONFIG_DEWAR_ENV_AUTH": "true",
        "RCLONE_CONFIG_DEWAR_ENDPOINT": server.s3["endpoint"],
        "RCLONE_CONFIG_DEWAR_SERVER_SIDE_ENCRYPTION": "AES256",
    }
    # Checks the MD5 of what it wrote, by default.
    run(tools / "rclone", "copyto", tmp_path / "file", f"dewar:{bucket}/rclone", server=server, **remote)
    got = server.boto().get_object(Bucket=bucket, Key="rclone")
    assert got["Body"].read() == body and got["ServerSideEncryption"] == "AES256"
