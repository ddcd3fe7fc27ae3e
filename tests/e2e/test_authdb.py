"""`dewar policy import-authdb`: what an XRootD authorization database becomes, and that it decides the same."""

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config

DATABASE = """# People of the collaboration
t common /store/common rl
u ann /store/users/ann/ a common
g atlas /store/atlas/ rl \\
        /store/atlas/incoming/ lrwi
h node.example.org /store/mirror r
u nobody /store/x a
"""


def test_a_database_is_shown_applied_and_obeyed(own_server, tmp_path):
    demo = own_server.boto()
    demo.create_bucket(Bucket="store")
    for key in ("users/ann/a", "users/bob/b", "common/c", "atlas/d"):
        demo.put_object(Bucket="store", Key=key, Body=b"x")
    own_server.admin("user", "add", "ann")
    own_server.admin("group", "add", "atlas")
    own_server.admin("group", "join", "atlas", "ann")
    key = own_server.admin("key", "add", "--user", "ann")
    ann = boto3.client("s3", endpoint_url=own_server.s3["endpoint"], region_name="us-east-1",
                       aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"],
                       config=Config(retries={"max_attempts": 0}))

    def may(call, **arguments):
        try:
            call(Bucket="store", **arguments)
            return True
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403, error
            return False

    file = tmp_path / "authdb"
    file.write_text(DATABASE)
    shown = own_server.admin("policy", "import-authdb", str(file))
    lines = {line["text"].split()[0] + " " + line["text"].split()[1]: line for line in shown["lines"]}
    assert lines["u ann"]["exact"] and lines["g atlas"]["exact"] and lines["g atlas"]["line"] == 4
    assert not lines["h node.example.org"]["exact"] and "host name" in lines["h node.example.org"]["told"][0]
    assert {policy["holder"] for policy in shown["policies"]} == {"user ann", "group atlas", "user nobody"}
    assert not may(ann.get_object, Key="common/c")

    done = own_server.admin("policy", "import-authdb", str(file), "--apply", check=False)
    assert done.returncode == 1 and "nobody" in done.stdout
    assert may(ann.get_object, Key="users/ann/a") and may(ann.put_object, Key="users/ann/new", Body=b"n")
    assert may(ann.delete_object, Key="users/ann/new")
    assert may(ann.get_object, Key="common/c") and not may(ann.put_object, Key="common/new", Body=b"n")
    assert may(ann.get_object, Key="atlas/d") and may(ann.put_object, Key="atlas/incoming/new", Body=b"n")
    assert not may(ann.put_object, Key="atlas/new", Body=b"n")
    assert not may(ann.get_object, Key="users/bob/b")
    assert may(ann.list_objects_v2, Prefix="common/") and not may(ann.list_objects_v2, Prefix="users/bob/")


def test_what_is_no_database_is_refused(own_server, tmp_path):
    assert own_server.admin("policy", "import-authdb", str(tmp_path / "absent"), check=False).returncode == 1
    (tmp_path / "long").write_text("# " + "x" * (1 << 20))
    assert own_server.admin("policy", "import-authdb", str(tmp_path / "long"), check=False).returncode == 2
