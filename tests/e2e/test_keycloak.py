"""The steps of the EIC paper with a real Keycloak: log in, become a role, list a bucket."""

import html
import json
import os
import re
import subprocess
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, build_opener

import boto3
import botocore.exceptions
import pytest
import requests
from botocore import UNSIGNED
from botocore.config import Config

from keycloak import AUDIENCE, Keycloak
from server import BIN, Server


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


# `dewar login`, with the pages of a real provider.


class Browser:
    """As far as pages of a login need one: cookies, redirects, forms."""

    def __init__(self):
        # Browsers send cookies that are for secure connections to this machine without TLS, too.
        policy = DefaultCookiePolicy(secure_protocols=("http", "https"))
        self.opener = build_opener(HTTPCookieProcessor(CookieJar(policy)))

    def open(self, address, fields=None):
        data = urlencode(fields).encode() if fields else None
        with self.opener.open(address, data, timeout=60) as answer:
            self.address, self.text = answer.url, answer.read().decode()

    def enter(self, **fields):
        """Sends the form of the page."""
        action = html.unescape(re.search(r'<form[^>]*action="([^"]+)"', self.text).group(1))
        hidden = {}
        for tag in re.findall(r'<input[^>]*type="hidden"[^>]*>', self.text):
            pair = [re.search(f'{name}="([^"]*)"', tag) for name in ("name", "value")]
            if all(pair):
                hidden[pair[0].group(1)] = html.unescape(pair[1].group(1))
        self.open(urljoin(self.address, action), hidden | fields)


@pytest.fixture
def person(tmp_path):
    """Starts commands as somebody with a home of its own."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("AWS_", "BEARER_")) and name not in ("DISPLAY", "XDG_CONFIG_HOME")}
    environment |= {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}

    def start(*arguments):
        return subprocess.Popen([BIN, *arguments], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    start.token_file = runtime / f"bt_u{os.geteuid()}"
    return start


def done(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def test_people_log_in_with_a_code(site, keycloak, person):
    login = person("login", keycloak.realm_url, "--device", "--client-id", "hep-cli")
    address = re.search(r"Open (\S+)", login.stderr.readline()).group(1)
    browser = Browser()
    browser.open(address)
    browser.enter(username="alice", password="alice")
    if 'name="accept"' in browser.text:
        browser.enter(accept="Yes")
    done(login)
    endpoint = site.s3["endpoint"]
    head = {"Authorization": "Bearer " + person.token_file.read_text()}
    assert requests.get(endpoint + "/eic/run1/hits.root", headers=head, timeout=20).content == b"hits"
    who = json.loads(done(person("whoami", "--endpoint", endpoint, "--json")))
    assert who["name"] == "alice" and "/atlas" in who["groups"] and who["renewable"]
    assert "federated-user" in who["arn"]
    given = json.loads(done(person("aws-credentials", "--role", site.role, "--endpoint", endpoint)))
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=given["AccessKeyId"],
                      aws_secret_access_key=given["SecretAccessKey"], aws_session_token=given["SessionToken"])
    assert s3.get_object(Bucket="eic", Key="run1/hits.root")["Body"].read() == b"hits"
    # Renewed with the refresh token, and forgotten.
    before = person.token_file.read_text()
    done(person("login"))
    assert person.token_file.read_text() != before
    done(person("logout"))
    assert not person.token_file.exists()


def test_people_log_in_with_a_browser(site, keycloak, person):
    login = person("login", keycloak.realm_url, "--browser", "--no-open", "--client-id", "hep-cli")
    address = re.search(r"Open (\S+)", login.stderr.readline()).group(1)
    browser = Browser()
    browser.open(address)
    browser.enter(username="alice", password="alice")
    assert "Logged in" in browser.text, browser.text[:2000]
    done(login)
    head = {"Authorization": "Bearer " + person.token_file.read_text()}
    assert requests.get(site.s3["endpoint"] + "/eic/run1/hits.root", headers=head, timeout=20).content == b"hits"
    done(person("logout"))
