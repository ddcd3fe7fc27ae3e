"""Macaroons: asked for in both forms, narrowed by another implementation, never wider than who holds them."""

import json
import time

import boto3
import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pymacaroons import MACAROON_V1, MACAROON_V2, Macaroon
from pymacaroons.serializers import BinarySerializer

from issuer import AUDIENCE
from server import Server
from xrootd_tools import NOBODY, Certificate, address, configure, xrdcp

REQUEST = "application/macaroon-request"


@pytest.fixture(scope="module")
def site(tmp_path_factory, issuer):
    folder = tmp_path_factory.mktemp("macaroons")
    server = Server(folder).start()
    server.stop()
    server.tls = Certificate(folder)
    server.tls.configure(server)
    configure(server, **NOBODY)
    server.start()
    server.admin("group", "add", "atlas")
    server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/atlas",
                 "--group", "groups=/atlas=atlas")
    server.policy = folder / "policy.json"
    server.policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::atlas", "arn:aws:s3:::atlas/*"]}]}))
    server.admin("policy", "put", "all", str(server.policy), "--group", "atlas")
    s3 = server.boto()
    s3.create_bucket(Bucket="atlas")
    for key in ("data/a", "data/sub/b", "database/c"):
        s3.put_object(Bucket="atlas", Key=key, Body=key.encode())
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def key_of(server, user):
    server.admin("user", "add", user, check=False)
    key = server.admin("key", "add", "--user", user)
    return Credentials(key["access_key"], key["secret_key"])


def demo(server):
    return Credentials(server.s3["access_key"], server.s3["secret_key"])


def post(server, path, body, kind=REQUEST, credentials=None, token=None):
    url = server.s3["endpoint"] + path
    headers = {"Content-Type": kind}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = AWSRequest("POST", url, headers, body)
    if credentials:
        S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    return requests.post(url, data=body, headers=dict(request.headers), timeout=20)


def ask(server, path="/", *caveats, validity="PT10M", **who):
    who = who or {"credentials": demo(server)}
    answer = post(server, path, json.dumps({"caveats": list(caveats), "validity": validity}), **who)
    assert answer.status_code == 200, answer.text
    return answer.json()["macaroon"]


def do(server, method, path, token, **more):
    head = {"Authorization": f"Bearer {token}"}
    return requests.request(method, server.s3["endpoint"] + path, headers=head, timeout=20, **more).status_code


def narrowed(token, *caveats, version=None):
    macaroon = Macaroon.deserialize(token)
    for caveat in caveats:
        macaroon.add_first_party_caveat(caveat)
    if version == MACAROON_V2:
        macaroon._version = MACAROON_V2
        macaroon._identifier = macaroon.identifier_bytes
    return macaroon.serialize(BinarySerializer())


def test_both_forms_give_one(site):
    answer = post(site, "/atlas/data", json.dumps({"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT60M"}),
                  credentials=demo(site))
    assert answer.status_code == 200 and 3590 <= answer.json()["expires_in"] <= 3600
    assert answer.headers["Cache-Control"] == "no-store"
    first = answer.json()["macaroon"]
    metadata = requests.get(site.s3["endpoint"] + "/.well-known/oauth-authorization-server", timeout=20).json()
    path = metadata["token_endpoint"].removeprefix(site.s3["endpoint"])
    form = "grant_type=client_credentials&expire_in=3600&scopes=LIST%3A%2Fatlas%2Fdata%20DOWNLOAD%3A%2Fatlas%2Fdata"
    answer = post(site, path, form, "application/x-www-form-urlencoded", demo(site))
    assert answer.status_code == 200 and answer.json()["token_type"] == "bearer", answer.text
    for token in (first, answer.json()["access_token"]):
        assert do(site, "GET", "/atlas/data/a", token) == 200
        assert do(site, "GET", "/atlas?list-type=2&prefix=data/", token) == 200
        assert do(site, "GET", "/atlas/database/c", token) == 403
        assert do(site, "GET", "/atlas?list-type=2", token) == 403
        assert do(site, "PUT", "/atlas/data/new", token, data=b"x") == 403
        assert do(site, "DELETE", "/atlas/data/a", token) == 403
    caveats = [caveat.caveat_id for caveat in Macaroon.deserialize(first).caveats]
    assert caveats[:2] == ["path:/atlas/data", "activity:DOWNLOAD,LIST"] and caveats[2].startswith("before:")


def test_what_cannot_be_asked_for(site):
    def status(body, path="/atlas", kind=REQUEST, **who):
        return post(site, path, body, kind, **(who or {"credentials": demo(site)})).status_code
    assert status("{}", token="nonsense") == 400
    assert post(site, "/atlas", "{}").status_code == 403
    for body in ("[", '{"validity":"1h"}', '{"caveats":["colour:red"]}', '{"caveats":["activity:FLY"]}',
                 '{"caveats":"path:/"}', '{"caveats":["before:2001-01-01T00:00:00Z"]}'):
        assert status(body) == 400, body
    assert status('{"caveats":["name:%s"]}' % ("x" * 5000)) in (400, 413)
    assert status("grant_type=password", "/.oauth2/token", "application/x-www-form-urlencoded") == 400
    assert status("{}", "/.oauth2/token", "application/json") == 415
    # Not for longer than a day, and a macaroon gives no other.
    answer = post(site, "/", json.dumps({"validity": "P30D"}), credentials=demo(site)).json()
    assert answer["expires_in"] <= 24 * 3600
    assert post(site, "/", "{}", token=answer["macaroon"]).status_code == 403


@pytest.mark.parametrize("version", [MACAROON_V1, MACAROON_V2])
def test_another_implementation_narrows_and_none_widens(site, version):
    whole = ask(site)
    assert do(site, "GET", "/atlas/database/c", whole) == 200
    data = narrowed(whole, "path:/atlas/data", version=version)
    assert do(site, "GET", "/atlas/data/a", data) == 200
    assert do(site, "GET", "/atlas/database/c", data) == 403
    for wider in ("path:/", "path:/atlas", "activity:DOWNLOAD,UPLOAD,DELETE,MANAGE", "before:2099-01-01T00:00:00Z"):
        again = narrowed(data, wider, version=version)
        assert do(site, "GET", "/atlas/data/a", again) == 200
        assert do(site, "GET", "/atlas/database/c", again) == 403, wider
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "colour:red")) == 400
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "ip:192.0.2.1")) == 403
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "ip:127.0.0.0/8")) == 200
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "before:2001-01-01T00:00:00Z")) == 400
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "name:demo")) == 200
    assert do(site, "GET", "/atlas/data/a", narrowed(data, "name:ann")) == 400


def test_what_was_changed_is_not_taken(site):
    token = ask(site, "/atlas/data", "activity:DOWNLOAD")
    macaroon = Macaroon.deserialize(token)
    macaroon.caveats = macaroon.caveats[1:]
    assert do(site, "GET", "/atlas/data/a", macaroon.serialize()) == 400
    forged = Macaroon(location=macaroon.location, identifier=macaroon.identifier, key="guessed")
    assert do(site, "GET", "/atlas/data/a", forged.serialize()) == 400
    third = Macaroon.deserialize(token)
    third.add_third_party_caveat("https://elsewhere", "key" * 11, "id")
    assert do(site, "GET", "/atlas/data/a", third.serialize()) == 400
    # What it carries is sealed: nobody but us makes anything of it, neither as a session.
    session = Macaroon.deserialize(token).identifier
    s3 = boto3.client("s3", endpoint_url=site.s3["endpoint"], region_name="us-east-1", aws_access_key_id="DWSTAAAAAAAAAAAAAAAA",
                      aws_secret_access_key="x" * 40, aws_session_token=session)
    with pytest.raises(s3.exceptions.ClientError):
        s3.list_buckets()


def test_activities(site):
    upload = ask(site, "/atlas/up", "activity:UPLOAD")
    assert do(site, "PUT", "/atlas/up/x/new", upload, data=b"1") == 200
    assert do(site, "PUT", "/atlas/up/x/new", upload, data=b"2") == 403
    assert do(site, "GET", "/atlas/up/x/new", upload) == 403
    both = ask(site, "/atlas/up", "activity:UPLOAD,DELETE")
    assert do(site, "PUT", "/atlas/up/x/new", both, data=b"3") == 200
    assert do(site, "DELETE", "/atlas/up/x/new", both) == 204
    assert do(site, "DELETE", "/atlas/data/a", both) == 403


def test_never_wider_than_who_holds_it_at_the_time(site):
    ann = key_of(site, "ann")
    token = ask(site, "/", credentials=ann)
    assert do(site, "GET", "/atlas/data/a", token) == 403
    s3 = site.boto()
    s3.put_bucket_policy(Bucket="atlas", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam:::user/ann"}, "Action": "s3:GetObject",
         "Resource": "arn:aws:s3:::atlas/*"}]}))
    assert do(site, "GET", "/atlas/data/a", token) == 200
    s3.delete_bucket_policy(Bucket="atlas")
    assert do(site, "GET", "/atlas/data/a", token) == 403
    # Its own things, and no keys.
    assert do(site, "PUT", "/anns", token) == 200
    form = {"Action": "CreateAccessKey", "Version": "2010-05-08", "UserName": "ann"}
    assert requests.post(site.s3["endpoint"] + "/", data=form, headers={"Authorization": f"Bearer {token}"},
                         timeout=20).status_code >= 400
    site.admin("user", "disable", "ann")
    assert do(site, "GET", "/anns", token) in (400, 403)
    site.admin("user", "enable", "ann")
    assert do(site, "GET", "/anns?list-type=2", token) == 200
    site.admin("session", "revoke", "--user", "ann")
    assert do(site, "GET", "/anns?list-type=2", token) == 400


def test_of_a_session_and_of_a_login(site, issuer):
    role = site.admin("role", "add", "eic", "--issuer", issuer.url, "--claim", "groups=/atlas",
                      "--policy", str(site.policy))["arn"]
    sts = boto3.client("sts", endpoint_url=site.s3["endpoint"], region_name="us-east-1",
                       aws_access_key_id="x", aws_secret_access_key="x")
    narrow = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::atlas/data/*"}]})
    given = sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="me", WebIdentityToken=issuer.token(),
                                              Policy=narrow)["Credentials"]
    session = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    of_session = ask(site, "/", credentials=session)
    assert do(site, "GET", "/atlas/data/a", of_session) == 200
    assert do(site, "GET", "/atlas/database/c", of_session) == 403

    of_groups = ask(site, "/", token=issuer.token(exp=int(time.time()) + 300))
    assert do(site, "GET", "/atlas/database/c", of_groups) == 200
    scoped = issuer.token(scope="storage.read:/data", exp=int(time.time()) + 300)
    answer = post(site, "/", json.dumps({"validity": "PT10H"}), token=scoped).json()
    assert answer["expires_in"] <= 300
    of_scopes = answer["macaroon"]
    assert do(site, "GET", "/atlas/data/a", of_scopes) == 200
    assert do(site, "GET", "/atlas/database/c", of_scopes) == 403
    assert do(site, "PUT", "/atlas/data/n", of_scopes, data=b"n") == 403

    site.admin("session", "revoke", "--session", given["AccessKeyId"])
    assert do(site, "GET", "/atlas/data/a", of_session) == 400
    site.admin("group", "remove", "atlas", check=False)
    site.admin("policy", "remove", "all", "--group", "atlas", check=False)
    assert do(site, "GET", "/atlas/database/c", of_groups) == 403
    site.admin("issuer", "disable", issuer.url)
    assert do(site, "GET", "/atlas/data/a", of_scopes) == 400
    site.admin("issuer", "enable", issuer.url)


def test_over_root_and_after_a_restart(site, issuer, tmp_path):
    site.restart()
    token = ask(site, "/atlas/data", "activity:DOWNLOAD")
    at = "root://localhost:" + address(site).rsplit(":", 1)[1] + "//atlas"
    options = dict(site.tls.trusted, BEARER_TOKEN=token)
    done = xrdcp("-f", f"{at}/data/a", tmp_path / "a", check=False, **options)
    assert done.returncode == 0 and (tmp_path / "a").read_bytes() == b"data/a", done.stderr
    assert xrdcp("-f", f"{at}/database/c", tmp_path / "c", check=False, **options).returncode != 0
    site.restart()
    assert do(site, "GET", "/atlas/data/a", token) == 200


def test_it_is_in_the_audit_log_and_its_text_is_not(site):
    token = ask(site, "/atlas/data", "activity:DOWNLOAD,DELETE")
    assert do(site, "DELETE", "/atlas/data/gone", token) == 204
    time.sleep(0.5)
    text = "".join(path.read_text() for path in (site.data / "audit").glob("*.jsonl"))
    lines = [json.loads(line) for line in text.splitlines()]
    given = [line for line in lines if line["action"] == "macaroon:request" and line["outcome"] == "allowed"][-1]
    name = given["why"].split()[1].rstrip(",")
    assert name.startswith("macaroon:")
    assert any(line.get("credential") == name and line["action"] == "s3:DeleteObject" for line in lines)
    assert token not in text and token[:40] not in text
    assert Macaroon.deserialize(token).identifier not in text
