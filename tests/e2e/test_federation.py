"""Login tokens of an issuer: roles and sessions over STS, bearer tokens, and those that must not pass."""

import hmac
import json
import subprocess
import time

import boto3
import botocore.exceptions
import pytest
import requests
from botocore import UNSIGNED
from botocore.config import Config

from conftest import UNKNOWN_KEY_INTERVAL
from issuer import AUDIENCE, Issuer, Key, b64
from server import Server

READ = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::atlas"},
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::atlas/*"}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory, issuer):
    """A server that lets the issuer in, with a role for a group and a bucket with two objects."""
    folder = tmp_path_factory.mktemp("federation")
    server = Server(folder).start()
    policy = folder / "read.json"
    policy.write_text(json.dumps(READ))
    server.policy = policy
    server.admin("group", "add", "readers")
    server.admin("policy", "put", "read", str(policy), "--group", "readers")
    server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/atlas",
                 "--group", "groups=/atlas/readers=readers")
    server.role = server.admin("role", "add", "atlas-reader", "--issuer", issuer.url,
                               "--claim", "groups=/atlas", "--policy", str(policy))["arn"]
    s3 = server.boto()
    s3.create_bucket(Bucket="atlas")
    s3.put_object(Bucket="atlas", Key="data/a", Body=b"a")
    s3.put_object(Bucket="atlas", Key="database/b", Body=b"b")
    yield server
    server.allow("the keys of an issuer cannot be fetched")
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def sts(server, session=None):
    if session is None:
        return boto3.client("sts", endpoint_url=server.s3["endpoint"], region_name="us-east-1",
                            config=Config(signature_version=UNSIGNED))
    return client(server, session, "sts")


def client(server, session, service="s3"):
    return boto3.client(
        service, endpoint_url=server.s3["endpoint"], region_name="us-east-1",
        aws_access_key_id=session["AccessKeyId"], aws_secret_access_key=session["SecretAccessKey"],
        aws_session_token=session.get("SessionToken"),
        config=Config(signature_version="s3v4" if service == "s3" else None, retries={"max_attempts": 0}))


def key_of(server, user):
    server.admin("user", "add", user, check=False)
    key = server.admin("key", "add", "--user", user)
    return {"AccessKeyId": key["access_key"], "SecretAccessKey": key["secret_key"]}


def assume(server, token, **more):
    arguments = {"RoleArn": server.role, "RoleSessionName": "test"} | more
    return sts(server).assume_role_with_web_identity(WebIdentityToken=token, **arguments)


def refused(code, call, *arguments, **named):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(*arguments, **named)
    found = error.value.response["Error"]["Code"]
    assert found in (code, {"AccessDenied": "403", "NoSuchKey": "404"}.get(code)), found
    return error.value


def bearer(server, method, path, token, **more):
    headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
    return requests.request(method, server.s3["endpoint"] + path, headers=headers, timeout=20, **more)


# Sessions.


def test_a_login_becomes_a_role(site, issuer):
    answer = assume(site, issuer.token())
    assert answer["SubjectFromWebIdentityToken"] == "alice"
    assert answer["Provider"] == issuer.url and answer["Audience"] == AUDIENCE
    arn = "arn:aws:sts:::assumed-role/atlas-reader/test"
    assert answer["AssumedRoleUser"]["Arn"] == arn
    session = answer["Credentials"]
    assert sts(site, session).get_caller_identity()["Arn"] == arn
    s3 = client(site, session)
    assert s3.get_object(Bucket="atlas", Key="data/a")["Body"].read() == b"a"
    s3.put_object(Bucket="atlas", Key="data/new", Body=b"n" * 100)
    assert "data/new" in [e["Key"] for e in s3.list_objects_v2(Bucket="atlas")["Contents"]]
    refused("AccessDenied", s3.delete_object, Bucket="atlas", Key="data/a")
    refused("AccessDenied", s3.get_object, Bucket="demo", Key="x")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "atlas", "Key": "data/a"})
    assert requests.get(url, timeout=20).content == b"a"
    cut = url.replace("X-Amz-Security-Token", "X-Amz-Security-Tok")
    assert requests.get(cut, timeout=20).status_code in (400, 403)


def test_the_clients_of_physicists_take_sessions(site, issuer, tools, tmp_path):
    token = tmp_path / "token"
    token.write_text(issuer.token())
    environment = site.client_environment()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        environment.pop(name)
    web = dict(environment, AWS_WEB_IDENTITY_TOKEN_FILE=str(token), AWS_ROLE_ARN=site.role,
               AWS_ROLE_SESSION_NAME="cli")
    aws = str(tools.parents[2] / ".venv" / "bin" / "aws")
    done = subprocess.run([aws, "s3", "ls", "s3://atlas/data/"], env=web, capture_output=True, text=True)
    assert done.returncode == 0 and " a\n" in done.stdout, done.stderr
    session = assume(site, issuer.token())["Credentials"]
    remote = dict(environment, RCLONE_CONFIG="/nonexistent",
                  RCLONE_S3_PROVIDER="Other", RCLONE_S3_ENDPOINT=site.s3["endpoint"],
                  RCLONE_S3_ACCESS_KEY_ID=session["AccessKeyId"],
                  RCLONE_S3_SECRET_ACCESS_KEY=session["SecretAccessKey"],
                  RCLONE_S3_SESSION_TOKEN=session["SessionToken"])
    done = subprocess.run([str(tools / "rclone"), "cat", ":s3:atlas/data/a"], env=remote,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a"), done.stderr
    import s3fs
    fs = s3fs.S3FileSystem(key=session["AccessKeyId"], secret=session["SecretAccessKey"],
                           token=session["SessionToken"], endpoint_url=site.s3["endpoint"])
    assert fs.cat("atlas/data/a") == b"a"


def test_trust_is_closed(site, issuer):
    refused("AccessDenied", assume, site, issuer.token(groups=["/cms"]))
    refused("AccessDenied", assume, site, issuer.token(groups=["/atlas/production"]))
    refused("AccessDenied", assume, site, issuer.token(groups=None))
    refused("AccessDenied", assume, site, issuer.token(), RoleArn="arn:aws:iam:::role/no-such-role")
    for wrong in ("nonsense-that-is-long-enough", "arn:aws:iam:::user/atlas-reader"):
        refused("ValidationError", assume, site, issuer.token(), RoleArn=wrong)
    form = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": site.role,
            "RoleSessionName": "test", "WebIdentityToken": issuer.token(), "DurationSeconds": "899"}
    answer = requests.post(site.s3["endpoint"] + "/", data=form, timeout=20)
    assert answer.status_code == 400 and "ValidationError" in answer.text
    refused("ValidationError", assume, site, issuer.token(), DurationSeconds=3601)
    # A role for everybody of a realm is not made by accident.
    done = site.admin("role", "add", "all", "--issuer", issuer.url, check=False)
    assert done.returncode == 2 and "--claim" in done.stderr
    ann = boto_iam(site, key_of(site, "fed-ann"))
    realm = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"Federated": issuer.name},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{issuer.name}:aud": AUDIENCE}}}]}
    refused("MalformedPolicyDocument", ann.create_role, RoleName="r",
            AssumeRolePolicyDocument=json.dumps(realm))
    realm["Statement"][0]["Principal"] = "*"
    ann.create_role(RoleName="star", AssumeRolePolicyDocument=json.dumps(realm))
    star = ann.get_role(RoleName="star")["Role"]["Arn"]
    refused("AccessDenied", assume, site, issuer.token(), RoleArn=star)


def boto_iam(server, key):
    return client(server, key, "iam")


def test_a_session_policy_only_narrows(site, issuer):
    narrow = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::atlas/data/*"}]}
    session = assume(site, issuer.token(), Policy=json.dumps(narrow))["Credentials"]
    s3 = client(site, session)
    assert s3.get_object(Bucket="atlas", Key="data/a")["Body"].read() == b"a"
    refused("AccessDenied", s3.get_object, Bucket="atlas", Key="database/b")
    refused("AccessDenied", s3.delete_object, Bucket="atlas", Key="data/a")
    refused("MalformedPolicyDocument", assume, site, issuer.token(), Policy="{}")


def test_scopes_bound_the_session(site, issuer):
    session = assume(site, issuer.token(scope="openid storage.read:/data"))["Credentials"]
    s3 = client(site, session)
    assert s3.get_object(Bucket="atlas", Key="data/a")["Body"].read() == b"a"
    refused("AccessDenied", s3.get_object, Bucket="atlas", Key="database/b")
    refused("AccessDenied", s3.put_object, Bucket="atlas", Key="data/a", Body=b"x")
    refused("AccessDenied", sts(site, session).assume_role, RoleArn=site.role, RoleSessionName="again")


def test_sessions_end_when_they_are_revoked(site, issuer):
    def works(session):
        try:
            client(site, session).get_object(Bucket="atlas", Key="data/a")
            return True
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "InvalidToken"
            return False

    first, second = (assume(site, issuer.token())["Credentials"] for _ in range(2))
    assert works(first) and works(second)
    site.admin("session", "revoke", "--session", first["AccessKeyId"])
    assert (works(first), works(second)) == (False, True)
    site.admin("session", "revoke", "--role", "atlas-reader")
    assert not works(second)
    third = assume(site, issuer.token())["Credentials"]
    assert works(third)
    site.admin("session", "revoke", "--issuer", issuer.url)
    assert not works(third)
    fourth = assume(site, issuer.token())["Credentials"]
    site.admin("issuer", "disable", issuer.url)
    assert not works(fourth)
    refused("InvalidIdentityToken", assume, site, issuer.token())
    site.admin("issuer", "enable", issuer.url)
    assert works(fourth)
    # Neither half of a session is good with another's.
    other = assume(site, issuer.token())["Credentials"]
    mixed = dict(other, SessionToken=fourth["SessionToken"])
    assert not works(mixed)
    changed = fourth["SessionToken"][:-2] + ("AA" if fourth["SessionToken"][-2:] != "AA" else "BB")
    assert not works(dict(fourth, SessionToken=changed))


def test_users_assume_roles_and_chains_end(site):
    key = key_of(site, "fed-bob")
    arn = sts(site, key).get_caller_identity()["Arn"]
    other = key_of(site, "fed-eve")
    trust = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"AWS": arn}, "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": {"sts:ExternalId": "agreed"}}}]}
    file = site.folder / "trust.json"
    file.write_text(json.dumps(trust))
    role = site.admin("role", "add", "by-key", "--trust", str(file), "--policy", str(site.policy),
                      "--max-session", "7200")["arn"]
    ask = dict(RoleArn=role, RoleSessionName="chain", ExternalId="agreed")
    refused("AccessDenied", sts(site, other).assume_role, **ask)
    refused("AccessDenied", sts(site, key).assume_role, RoleArn=role, RoleSessionName="chain")
    given = sts(site, key).assume_role(**ask, DurationSeconds=7200, Tags=[{"Key": "team", "Value": "x"}])
    session = given["Credentials"]
    client(site, session).get_object(Bucket="atlas", Key="data/a")
    refused("AccessDenied", sts(site, session).get_session_token)
    # The role may be assumed by its own sessions: at most for an hour, and not without end.
    trust["Statement"].append({"Effect": "Allow", "Principal": {"AWS": role}, "Action": "sts:AssumeRole"})
    iam = site.admin("role", "remove", "by-key")
    assert iam == {}
    refused("InvalidToken", client(site, session).get_object, Bucket="atlas", Key="data/a")
    file.write_text(json.dumps(trust))
    site.admin("role", "add", "by-key", "--trust", str(file), "--policy", str(site.policy),
               "--max-session", "7200")
    # A new role of an old name is another: the session stays dead.
    refused("InvalidToken", client(site, session).get_object, Bucket="atlas", Key="data/a")
    session = sts(site, key).assume_role(**ask)["Credentials"]
    refused("ValidationError", sts(site, session).assume_role, **ask, DurationSeconds=3601)
    links = 0
    while links < 10:
        try:
            session = sts(site, session).assume_role(**ask)["Credentials"]
            links += 1
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied"
            break
    assert 1 <= links <= 4
    client(site, session).get_object(Bucket="atlas", Key="data/a")
    # Revoking where it began ends all of it.
    site.admin("session", "revoke", "--user", "fed-bob")
    refused("InvalidToken", client(site, session).get_object, Bucket="atlas", Key="data/a")


def test_a_session_of_a_user_has_its_rights_and_makes_no_keys(site):
    key = key_of(site, "fed-carl")
    client(site, key).create_bucket(Bucket="fed-carl")
    session = sts(site, key).get_session_token(DurationSeconds=900)["Credentials"]
    s3 = client(site, session)
    s3.put_object(Bucket="fed-carl", Key="a", Body=b"1")
    refused("AccessDenied", boto_iam(site, session).create_user, UserName="x")
    refused("AccessDenied", sts(site, session).get_session_token)
    site.admin("user", "disable", "fed-carl")
    refused("InvalidToken", s3.get_object, Bucket="fed-carl", Key="a")
    site.admin("user", "enable", "fed-carl")
    assert s3.get_object(Bucket="fed-carl", Key="a")["Body"].read() == b"1"


# Bearer tokens.


def test_capabilities_are_obeyed_by_the_letter(site, issuer):
    def status(scope, method, path, **more):
        return bearer(site, method, path, issuer.token(scope=scope), **more).status_code

    assert status("storage.read:/data", "GET", "/atlas/data/a") == 200
    assert status("storage.read:/data", "GET", "/atlas/database/b") == 403
    assert status("storage.read:/data/", "GET", "/atlas/data/a") == 200
    assert status("storage.read:/data/a/", "GET", "/atlas/data/a") == 403
    assert status("storage.read:/", "GET", "/demo/x") == 403
    assert status("storage.read:/data", "PUT", "/atlas/data/x", data=b"x") == 403
    assert status("storage.read:/data", "GET", "/atlas?list-type=2&prefix=data/") == 200
    assert status("storage.read:/data", "GET", "/atlas?list-type=2&prefix=data") == 403
    assert status("storage.create:/up", "PUT", "/atlas/up/one", data=b"1") == 200
    assert status("storage.create:/up", "PUT", "/atlas/up/one", data=b"2") == 403
    assert status("storage.create:/up", "DELETE", "/atlas/up/one") == 403
    assert status("storage.create:/up", "HEAD", "/atlas/up/one") == 200
    assert status("storage.create:/up", "GET", "/atlas/up/one") == 403
    assert status("storage.create:/up", "HEAD", "/atlas/up/none") == 404
    assert status("storage.create:/up", "HEAD", "/atlas/data/none") == 403
    copy = {"x-amz-copy-source": "/atlas/data/a"}
    assert status("storage.create:/up", "PUT", "/atlas/up/stolen", headers=copy) == 403
    assert status("storage.read:/data storage.create:/up", "PUT", "/atlas/up/copied", headers=copy) == 200
    assert status("storage.read:/data storage.create:/up", "PUT", "/atlas/up/one", headers=copy) == 403
    assert status("storage.modify:/up", "PUT", "/atlas/up/one", data=b"3") == 200
    assert status("storage.modify:/up", "DELETE", "/atlas/up/one") == 204
    assert status("storage.stage:/data", "GET", "/atlas/data/a") == 403
    assert status("storage.stage:/data", "HEAD", "/atlas/data/a") == 200
    assert status("storage.modify:/", "PUT", "/atlas?policy", data=b"{}") == 403
    for bad in ("storage.read", "storage.read:data", "storage.read:/data/../database",
                "storage.read:/data/%2e%2e/database"):
        assert status(bad, "GET", "/atlas/data/a") == 400, bad


def test_multipart_with_create_does_not_overwrite(site, issuer):
    import re
    token = issuer.token(scope="storage.create:/mp")
    begun = bearer(site, "POST", "/atlas/mp/x?uploads", token)
    upload = re.search("<UploadId>(.*)</UploadId>", begun.text).group(1)
    part = bearer(site, "PUT", f"/atlas/mp/x?partNumber=1&uploadId={upload}", token, data=b"part")
    site.boto().put_object(Bucket="atlas", Key="mp/x", Body=b"was there")
    body = ("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"
            f"{part.headers['ETag']}</ETag></Part></CompleteMultipartUpload>")
    done = bearer(site, "POST", f"/atlas/mp/x?uploadId={upload}", token, data=body)
    assert done.status_code == 403, done.text
    assert site.boto().get_object(Bucket="atlas", Key="mp/x")["Body"].read() == b"was there"
    assert bearer(site, "DELETE", f"/atlas/mp/x?uploadId={upload}", token).status_code == 204


def test_groups_decide_where_no_capability_does(site, issuer):
    token = issuer.token(groups=["/atlas/readers"])
    assert bearer(site, "GET", "/atlas/data/a", token).content == b"a"
    assert bearer(site, "DELETE", "/atlas/data/a", token).status_code == 403
    assert bearer(site, "GET", "/atlas/data/a", issuer.token(groups=["/atlas"])).status_code == 403
    # With a capability they do not count.
    token = issuer.token(groups=["/atlas/readers"], scope="storage.create:/up")
    assert bearer(site, "GET", "/atlas/data/a", token).status_code == 403
    # What denies, denies tokens too.
    deny = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::atlas/data/secret"}]}
    s3 = site.boto()
    s3.put_object(Bucket="atlas", Key="data/secret", Body=b"s")
    s3.put_bucket_policy(Bucket="atlas", Policy=json.dumps(deny))
    try:
        token = issuer.token(scope="storage.read:/")
        assert bearer(site, "GET", "/atlas/data/secret", token).status_code == 403
        assert bearer(site, "GET", "/atlas/data/a", token).status_code == 200
    finally:
        s3.delete_bucket_policy(Bucket="atlas")


def test_hostile_tokens_are_refused(site, issuer):
    stranger = Issuer()
    good = issuer.token(scope="storage.read:/")
    head, body, _ = good.split(".")
    public = json.dumps(issuer.key.jwk()).encode()
    now = int(time.time())

    def hmac_signed(secret):
        message = b64({"alg": "HS256", "kid": "first"}) + "." + body
        return message + "." + b64(hmac.digest(secret, message.encode(), "sha256"))

    scope = {"scope": "storage.read:/"}
    hostile = {
        "none": b64({"alg": "none", "kid": "first"}) + "." + body + ".",
        "HMAC with the public key": hmac_signed(public),
        "HMAC with nothing": hmac_signed(b""),
        "another issuer's key, same id": issuer.token(key=stranger.key, **scope),
        "another issuer": stranger.token(**scope),
        "a key brought along": issuer.token(key=stranger.key, header={"jwk": stranger.key.jwk()}, **scope),
        "a key to fetch": issuer.token(key=stranger.key, header={"jku": stranger.url + "/keys"}, **scope),
        "an unknown key": issuer.token(key=Key("unknown"), **scope),
        "another audience": issuer.token(aud="https://other.example.org", **scope),
        "an audience that begins so": issuer.token(aud=AUDIENCE + ".evil.org", **scope),
        "no audience": issuer.token(aud=None, **scope),
        "expired": issuer.token(exp=now - 120, **scope),
        "of the future": issuer.token(nbf=now + 600, **scope),
        "made in the future": issuer.token(iat=now + 600, **scope),
        "without end": issuer.token(exp=None, **scope),
        "nobody's": issuer.token(sub=None, **scope),
        "of an unknown version": issuer.token(**scope, **{"wlcg.ver": "2.0"}),
        "a refresh token": issuer.token(typ="Refresh", **scope),
        "critical": issuer.token(header={"crit": ["x"], "x": 1}, **scope),
        "cut": good[:-5],
        "padded": good + "=",
        "four parts": good + ".x",
        "empty": "x",
        "huge": "x" * 20000,
    }
    for what, token in hostile.items():
        answer = bearer(site, "GET", "/atlas/data/a", token)
        assert answer.status_code == 400, f"{what}: {answer.status_code} {answer.text}"
        assert answer.text.count("<Code>") == 1 and ("InvalidToken" in answer.text or "ExpiredToken" in answer.text)
    assert bearer(site, "GET", "/atlas/data/a", good).status_code == 200
    assert bearer(site, "GET", "/atlas/data/a", issuer.token(aud=["x", AUDIENCE], **scope)).status_code == 200
    assert not stranger.asked, "nobody asks an issuer that was not let in"
    log = site.log_path.read_text(errors="replace")
    assert good not in log and good.split(".")[2] not in log
    stranger.stop()


def test_keys_change_and_floods_do_not_reach_the_issuer(site, issuer):
    before, began = len(issuer.asked), time.monotonic()
    for number in range(200):
        token = issuer.token(key=Key(f"flood-{number}"), scope="storage.read:/")
        assert bearer(site, "GET", "/atlas/data/a", token).status_code == 400
    fetches = 1 + (time.monotonic() - began) / UNKNOWN_KEY_INTERVAL
    assert len(issuer.asked) - before <= 2 * (fetches + 1)
    time.sleep(UNKNOWN_KEY_INTERVAL + 1)
    newer = Key("second")
    issuer.published = [newer]
    token = issuer.token(key=newer, scope="storage.read:/")
    assert bearer(site, "GET", "/atlas/data/a", token).status_code == 200
    # The key that is gone proves nothing any more, though its token was taken before.
    old = issuer.token(scope="storage.read:/")
    assert bearer(site, "GET", "/atlas/data/a", old).status_code == 400
    time.sleep(UNKNOWN_KEY_INTERVAL + 1)
    issuer.published = [issuer.key, newer]
    assert bearer(site, "GET", "/atlas/data/a", old).status_code == 200


def test_an_outage_of_the_issuer_is_not_one_of_ours(tmp_path):
    issuer = Issuer(alg="RS256", path="")
    server = Server(tmp_path / "outage").start()
    server.allow("the keys of an issuer cannot be fetched")
    try:
        server.boto().create_bucket(Bucket="atlas")
        server.boto().put_object(Bucket="atlas", Key="a", Body=b"a")
        server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/atlas")
        token = issuer.token(scope="storage.read:/")
        issuer.stop()
        assert bearer(server, "GET", "/atlas/a", token).status_code == 200
        server.restart()
        assert bearer(server, "GET", "/atlas/a", token).status_code == 200
        assert server.admin("issuer", "list")[0]["keys"] == 1
    finally:
        server.stop()


def test_issuers_lead_nowhere_else(site):
    """Addresses, metadata and redirects that would make the server ask others."""
    target = Issuer()
    for url in ("http://example.org/realm", "http://10.0.0.1/", "http://169.254.169.254/latest",
                "ftp://127.0.0.1/", "https://user:pw@127.0.0.1/", "http://127.0.0.1@example.org/"):
        done = site.admin("issuer", "add", url, "--audience", "a", check=False)
        assert done.returncode == 2 or done.returncode == 1, done.stderr
        assert "https" in done.stderr or "credentials" in done.stderr, done.stderr
    evil = Issuer()
    place = evil.path + "/.well-known/openid-configuration"

    def add():
        return site.admin("issuer", "add", evil.url, "--audience", "a", check=False)

    def metadata(**changes):
        said = {"issuer": evil.url, "jwks_uri": evil.url + "/keys"} | changes
        return 200, json.dumps(said).encode(), {}

    evil.answers[place] = metadata(jwks_uri=target.url + "/keys")
    assert "--origin" in add().stderr
    evil.answers[place] = metadata(issuer=target.url)
    assert "exactly" in add().stderr
    evil.answers[place] = (302, b"", {"Location": target.url + "/.well-known/openid-configuration"})
    assert "302" in add().stderr
    evil.answers[place] = metadata()
    evil.answers[evil.path + "/keys"] = (302, b"", {"Location": target.url + "/keys"})
    assert "302" in add().stderr
    evil.answers[evil.path + "/keys"] = (200, b"x" * 1_000_000, {})
    assert add().returncode != 0
    evil.answers[evil.path + "/keys"] = (200, b'{"keys": []}', {})
    assert "no RSA or EC key" in add().stderr
    assert not target.asked
    del evil.answers[evil.path + "/keys"]
    assert add().returncode == 0
    assert add().returncode == 4
    site.admin("issuer", "remove", evil.url)
    # The other well-known form, and a listed origin.
    inserted = "/.well-known/oauth-authorization-server" + evil.path
    evil.answers = {place: (404, b"", {}), inserted: metadata(jwks_uri=target.url + "/keys")}
    site.admin("issuer", "add", evil.url, "--audience", "a", "--origin", target.origin)
    site.admin("issuer", "remove", evil.url)
    evil.stop()
    target.stop()


def test_a_token_is_explained(site, issuer):
    told = site.admin("issuer", "test", issuer.token(groups=["/atlas", "/atlas/readers"]))
    assert told["taken"] and told["subject"] == "alice" and told["groups"] == ["readers"]
    assert told["roles"] == [site.role] and not told["local"]
    done = site.admin("issuer", "test", issuer.token(aud="other"), check=False)
    assert done.returncode == 1 and "other" in json.loads(done.stdout)["why"]
    assert site.admin("policy", "explain", "role:atlas-reader", "s3:GetObject", "/atlas/data/a")["allowed"]
    assert not site.admin("policy", "explain", "role:atlas-reader", "s3:DeleteObject", "/atlas/data/a")["allowed"]
