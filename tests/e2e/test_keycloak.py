"""The steps of the EIC paper with a real Keycloak: log in, become a role, list a bucket."""

import json

import boto3
import botocore.exceptions
import pytest
import requests
from botocore import UNSIGNED
from botocore.config import Config

from keycloak import AUDIENCE, Keycloak
from server import Server


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory):
    keycloak = Keycloak(tmp_path_factory.mktemp("keycloak"))
    try:
        yield keycloak.start()
    finally:
        keycloak.stop()


@pytest.fixture(scope="module")
def site(tmp_path_factory, keycloak):
    server = Server(tmp_path_factory.mktemp("eic")).start()
    s3 = server.boto()
    s3.create_bucket(Bucket="eic")
    s3.put_object(Bucket="eic", Key="run1/hits.root", Body=b"hits")
    policy = server.folder / "policy.json"
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject", "s3:PutObject"],
        "Resource": ["arn:aws:s3:::eic", "arn:aws:s3:::eic/*"]}]}))
    server.admin("group", "add", "atlas")
    server.admin("policy", "put", "eic", str(policy), "--group", "atlas")
    server.admin("issuer", "add", keycloak.realm_url, "--audience", AUDIENCE, "--group", "groups=/atlas=atlas")
    server.role = server.admin("role", "add", "eic", "--issuer", keycloak.realm_url,
                               "--claim", "groups=/atlas", "--policy", str(policy))["arn"]
    yield server
    server.stop()


def assume(site, token):
    sts = boto3.client("sts", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                       config=Config(signature_version=UNSIGNED))
    return sts.assume_role_with_web_identity(RoleArn=site.role, RoleSessionName="alice", WebIdentityToken=token)


def test_from_login_to_listing_a_bucket(site, keycloak):
    token = keycloak.login("alice")["access_token"]
    session = assume(site, token)["Credentials"]
    s3 = boto3.client("s3", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                      aws_access_key_id=session["AccessKeyId"],
                      aws_secret_access_key=session["SecretAccessKey"],
                      aws_session_token=session["SessionToken"])
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="eic")["Contents"]] == ["run1/hits.root"]
    s3.put_object(Bucket="eic", Key="alice/result", Body=b"r")
    head = {"Authorization": f"Bearer {token}"}
    answer = requests.get(site.s3["endpoint"] + "/eic/alice/result", headers=head, timeout=20)
    assert answer.content == b"r"
    told = site.admin("issuer", "test", token)
    assert told["roles"] == [site.role] and told["groups"] == ["atlas"]


def test_who_is_not_in_the_group_stays_outside(site, keycloak):
    tokens = keycloak.login("bob")
    with pytest.raises(botocore.exceptions.ClientError) as error:
        assume(site, tokens["access_token"])
    assert error.value.response["Error"]["Code"] == "AccessDenied"
    head = {"Authorization": "Bearer " + tokens["access_token"]}
    assert requests.get(site.s3["endpoint"] + "/eic/run1/hits.root", headers=head, timeout=20).status_code == 403


def test_other_tokens_of_the_login_are_no_credentials(site, keycloak):
    tokens = keycloak.login("alice")
    head = {"Authorization": "Bearer " + tokens["refresh_token"]}
    assert requests.get(site.s3["endpoint"] + "/eic/run1/hits.root", headers=head, timeout=20).status_code == 400
    with pytest.raises(botocore.exceptions.ClientError) as error:
        assume(site, tokens["refresh_token"])
    assert error.value.response["Error"]["Code"] == "InvalidIdentityToken"
