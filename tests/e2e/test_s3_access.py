"""Who may: policies, access control lists, ownership, tenants, accounts and other origins, with boto3."""

import json

import boto3
import botocore.exceptions
import botocore.handlers
import pytest
import requests
from botocore import UNSIGNED
from botocore.config import Config


def refused(call, expected, **arguments):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**arguments)
    assert error.value.response["Error"]["Code"] in (expected, "403" if expected == "AccessDenied" else "404")


def client(server, user=None, service="s3"):
    """A client of a user, or of nobody."""
    if user is None:
        return server.boto(signature_version=UNSIGNED)
    key = server.admin("key", "add", "--user", user)
    return boto3.client(
        service,
        endpoint_url=server.s3["endpoint"],
        region_name="us-east-1",
        aws_access_key_id=key["access_key"],
        aws_secret_access_key=key["secret_key"],
        config=Config(s3={"addressing_style": "path"}),
    )


def statement(action, resource, principal="*", effect="Allow", condition=None):
    said = {"Effect": effect, "Principal": principal, "Action": action, "Resource": resource}
    return said | ({"Condition": condition} if condition else {})


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@pytest.fixture
def users(server):
    """Two users, each with a client, and nobody."""
    names = ["access-ann", "access-bob"]
    for name in names:
        server.admin("user", "add", name, "--email", f"{name}@example.org", check=False)
    return [client(server, name) for name in names] + [client(server)]


def test_a_policy_decides(users):
    ann, bob, nobody = users
    ann.create_bucket(Bucket="access-policy")
    ann.put_object(Bucket="access-policy", Key="public/a", Body=b"a")
    ann.put_object(Bucket="access-policy", Key="private/b", Body=b"b")
    refused(bob.get_object, "AccessDenied", Bucket="access-policy", Key="public/a")
    text = policy(
        statement("s3:GetObject", "arn:aws:s3:::access-policy/public/*"),
        statement("s3:*", ["arn:aws:s3:::access-policy", "arn:aws:s3:::access-policy/*"], effect="Deny",
                  condition={"StringLike": {"aws:UserAgent": "evil*"}}),
    )
    ann.put_bucket_policy(Bucket="access-policy", Policy=text)
    assert ann.get_bucket_policy(Bucket="access-policy")["Policy"] == text
    for reader in (bob, nobody):
        assert reader.get_object(Bucket="access-policy", Key="public/a")["Body"].read() == b"a"
        refused(reader.get_object, "AccessDenied", Bucket="access-policy", Key="private/b")
        refused(reader.list_objects_v2, "AccessDenied", Bucket="access-policy")
        refused(reader.get_object, "AccessDenied", Bucket="access-policy", Key="public/none")
    assert ann.get_bucket_policy_status(Bucket="access-policy")["PolicyStatus"]["IsPublic"]
    ann.delete_bucket_policy(Bucket="access-policy")
    refused(bob.get_object, "AccessDenied", Bucket="access-policy", Key="public/a")


def test_new_buckets_have_no_lists(users):
    ann = users[0]
    ann.create_bucket(Bucket="access-enforced")
    rules = ann.get_bucket_ownership_controls(Bucket="access-enforced")["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    refused(ann.put_bucket_acl, "AccessControlListNotSupported", Bucket="access-enforced", ACL="public-read")
    refused(ann.put_object, "AccessControlListNotSupported", Bucket="access-enforced", Key="a", ACL="public-read")


def test_lists_grant(users):
    ann, bob, nobody = users
    ann.create_bucket(Bucket="access-lists", ObjectOwnership="ObjectWriter", ACL="public-read-write")
    bob.put_object(Bucket="access-lists", Key="bobs", Body=b"b")
    refused(ann.get_object, "AccessDenied", Bucket="access-lists", Key="bobs")
    bob.put_object_acl(Bucket="access-lists", Key="bobs", ACL="bucket-owner-full-control")
    assert ann.get_object(Bucket="access-lists", Key="bobs")["Body"].read() == b"b"
    acl = ann.get_object_acl(Bucket="access-lists", Key="bobs")
    assert acl["Owner"]["DisplayName"] == "access-bob"
    assert [grant["Permission"] for grant in acl["Grants"]] == ["FULL_CONTROL"] * 2
    ann.put_object(Bucket="access-lists", Key="anns", Body=b"a",
                   GrantRead='emailAddress="access-bob@example.org"')
    assert bob.get_object(Bucket="access-lists", Key="anns")["Body"].read() == b"a"
    refused(nobody.get_object, "AccessDenied", Bucket="access-lists", Key="anns")
    block = {"IgnorePublicAcls": True, "BlockPublicAcls": True}
    ann.put_public_access_block(Bucket="access-lists", PublicAccessBlockConfiguration=block)
    refused(bob.list_objects_v2, "AccessDenied", Bucket="access-lists")
    refused(ann.put_bucket_acl, "AccessDenied", Bucket="access-lists", ACL="public-read")


def test_tenants_have_names_of_their_own(server, users):
    ann = users[0]
    server.admin("user", "add", "tina", "--tenant", "access-lab", check=False)
    tina = client(server, "access-lab:tina")
    # Names that say their tenant are no names to botocore.
    ann.meta.events.unregister("before-parameter-build.s3", botocore.handlers.validate_bucket_name)
    for who, body in ((ann, b"ann"), (tina, b"tina")):
        who.create_bucket(Bucket="access-data")
        who.put_object(Bucket="access-data", Key="k", Body=body)
    assert ann.get_object(Bucket="access-data", Key="k")["Body"].read() == b"ann"
    assert tina.get_object(Bucket="access-data", Key="k")["Body"].read() == b"tina"
    refused(ann.get_object, "AccessDenied", Bucket="access-lab:access-data", Key="k")
    tina.put_bucket_policy(Bucket="access-data", Policy=policy(statement("s3:GetObject", "arn:aws:s3:::access-data/*")))
    assert ann.get_object(Bucket="access-lab:access-data", Key="k")["Body"].read() == b"tina"


def test_pages_of_other_origins(server, users):
    ann = users[0]
    ann.create_bucket(Bucket="access-cors")
    ann.put_object(Bucket="access-cors", Key="k", Body=b"x")
    rules = [{"AllowedOrigins": ["https://*.example.org"], "AllowedMethods": ["GET"], "ExposeHeaders": ["ETag"]}]
    ann.put_bucket_cors(Bucket="access-cors", CORSConfiguration={"CORSRules": rules})
    assert ann.get_bucket_cors(Bucket="access-cors")["CORSRules"] == rules
    url = ann.generate_presigned_url("get_object", Params={"Bucket": "access-cors", "Key": "k"})
    origin = {"Origin": "https://www.example.org"}
    asked = requests.options(url, headers=origin | {"Access-Control-Request-Method": "GET"}, timeout=10)
    assert asked.status_code == 200
    assert asked.headers["Access-Control-Allow-Origin"] == origin["Origin"]
    got = requests.get(url, headers=origin, timeout=10)
    assert got.content == b"x"
    assert got.headers["Access-Control-Expose-Headers"] == "ETag"
    asked = requests.options(url, headers={"Origin": "https://evil.org", "Access-Control-Request-Method": "GET"}, timeout=10)
    assert asked.status_code == 403


def test_an_account_and_its_users(server, users):
    ann = users[0]
    iam = client(server, "access-ann", service="iam")
    arn = iam.get_user()["User"]["Arn"]
    assert arn.endswith(":root")
    made = iam.create_user(UserName="robot", Path="/labs/")["User"]
    assert made["Arn"].endswith(":user/labs/robot")
    with pytest.raises(iam.exceptions.EntityAlreadyExistsException):
        iam.create_user(UserName="ROBOT")
    key = iam.create_access_key(UserName="robot")["AccessKey"]
    robot = boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name="us-east-1",
                         aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"],
                         config=Config(s3={"addressing_style": "path"}))
    ann.create_bucket(Bucket="access-account")
    ann.put_object(Bucket="access-account", Key="a", Body=b"a")
    refused(robot.get_object, "AccessDenied", Bucket="access-account", Key="a")
    text = json.dumps({"Version": "2012-10-17", "Statement": {
        "Effect": "Allow", "Action": ["s3:Get*", "s3:CreateBucket"], "Resource": "*"}})
    with pytest.raises(iam.exceptions.MalformedPolicyDocumentException):
        iam.put_user_policy(UserName="robot", PolicyName="read", PolicyDocument=text.replace("s3:Get*", "s3:Gets"))
    iam.put_user_policy(UserName="robot", PolicyName="read", PolicyDocument=text)
    assert iam.get_user_policy(UserName="robot", PolicyName="read")["PolicyDocument"] == json.loads(text)
    assert robot.get_object(Bucket="access-account", Key="a")["Body"].read() == b"a"
    refused(robot.put_object, "AccessDenied", Bucket="access-account", Key="b")
    # What it makes belongs to the account.
    robot.create_bucket(Bucket="access-robots")
    assert "access-robots" in [bucket["Name"] for bucket in ann.list_buckets()["Buckets"]]
    # Groups.
    iam.create_group(GroupName="writers")
    write = text.replace("s3:Get*", "s3:Put*")
    policy_arn = iam.create_policy(PolicyName="write", PolicyDocument=write)["Policy"]["Arn"]
    iam.attach_group_policy(GroupName="writers", PolicyArn=policy_arn)
    iam.add_user_to_group(GroupName="writers", UserName="robot")
    robot.put_object(Bucket="access-account", Key="b", Body=b"b")
    told = server.admin("policy", "explain", "access-ann/robot", "s3:PutObject", "/access-account/b")
    assert told["allowed"] and "group access-ann/writers" in told["reason"]
    # Nobody gives itself rights, nor others in other accounts.
    with pytest.raises(botocore.exceptions.ClientError):
        iam.put_user_policy(UserName="access-ann", PolicyName="all", PolicyDocument=text)
    other = client(server, "access-bob", service="iam")
    with pytest.raises(other.exceptions.NoSuchEntityException):
        other.get_user(UserName="robot")
    with pytest.raises(iam.exceptions.DeleteConflictException):
        iam.delete_user(UserName="robot")
    iam.remove_user_from_group(GroupName="writers", UserName="robot")
    iam.delete_user_policy(UserName="robot", PolicyName="read")
    iam.delete_access_key(UserName="robot", AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName="robot")
    assert iam.list_users()["Users"] == []


def test_groups_and_policies_of_the_tenant(server, users, tmp_path):
    ann, bob, _ = users
    ann.create_bucket(Bucket="access-group")
    ann.put_object(Bucket="access-group", Key="a", Body=b"a")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": {
        "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::access-group/*"}}))
    server.admin("group", "add", "access-readers")
    server.admin("policy", "put", "read", str(file), "--group", "access-readers")
    refused(bob.get_object, "AccessDenied", Bucket="access-group", Key="a")
    server.admin("group", "join", "access-readers", "access-bob")
    assert bob.get_object(Bucket="access-group", Key="a")["Body"].read() == b"a"
    told = server.admin("policy", "explain", "access-bob", "s3:GetObject", "/access-group/a")
    assert told == {"allowed": True, "reason": "statement 1 of group access-readers, policy read allows it"}
    server.admin("group", "leave", "access-readers", "access-bob")
    refused(bob.get_object, "AccessDenied", Bucket="access-group", Key="a")
    told = server.admin("policy", "explain", "-", "s3:GetObject", "/access-group/a")
    assert not told["allowed"]
