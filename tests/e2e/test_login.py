"""`dewar login` and what it leaves for other tools, at the tests' own provider."""

import base64
import hashlib
import json
import os
import re
import subprocess
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from issuer import AUDIENCE, Issuer
from server import BIN, Server


class Provider(Issuer):
    """An issuer that people can log in at: device flow, browser flow with PKCE, refresh, revocation."""

    def __init__(self):
        super().__init__()
        self.confirmed = False
        self.polls = []
        self.codes = {}
        self.refresh = {}
        self.revoked = []
        self.lives = 3600

    def metadata(self):
        return {"issuer": self.url, "jwks_uri": self.url + "/keys", "token_endpoint": self.url + "/token",
                "authorization_endpoint": self.url + "/auth", "revocation_endpoint": self.url + "/revoke",
                "device_authorization_endpoint": self.url + "/device"}

    def answer(self, path):
        if path in self.answers:
            return self.answers[path]
        if path == self.path + "/.well-known/openid-configuration":
            return 200, json.dumps(self.metadata()).encode(), {}
        if path.startswith(self.path + "/auth?"):
            query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
            assert query["code_challenge_method"] == "S256" and query["response_type"] == "code"
            code = f"code-{len(self.codes)}"
            self.codes[code] = query
            return 302, b"", {"Location": f"{query['redirect_uri']}?code={code}&state={query['state']}"}
        return super().answer(path)

    def given(self):
        refresh = f"refresh-{time.monotonic_ns()}"
        self.refresh[refresh] = True
        token = self.token(exp=int(time.time()) + self.lives, preferred_username="alice")
        return 200, {"access_token": token, "refresh_token": refresh, "expires_in": self.lives}

    def post(self, path, form):
        what = path.removeprefix(self.path)
        if what == "/device":
            return 200, {"device_code": "dev", "user_code": "ABCD-EFGH", "verification_uri": self.url + "/enter",
                         "expires_in": 60, "interval": 1}
        if what == "/revoke":
            self.revoked.append(form["token"])
            self.refresh.pop(form["token"], None)
            return 200, {}
        kind = form["grant_type"]
        if kind.endswith("device_code"):
            self.polls.append(time.monotonic())
            return self.given() if self.confirmed else (400, {"error": "authorization_pending"})
        if kind == "authorization_code":
            asked = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
            assert form["redirect_uri"] == asked["redirect_uri"]
            return self.given()
        # A refresh token works once.
        if self.refresh.pop(form["refresh_token"], None):
            return self.given()
        return 400, {"error": "invalid_grant", "error_description": "the token is not known"}


@pytest.fixture
def provider():
    provider = Provider()
    yield provider
    provider.stop()


@pytest.fixture
def person(tmp_path):
    """Runs commands as somebody with a home of its own."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "BEARER_"))}
    environment |= {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    for name in ("XDG_CONFIG_HOME", "DISPLAY", "WAYLAND_DISPLAY"):
        environment.pop(name, None)

    class Person:
        token_file = runtime / f"bt_u{os.geteuid()}"
        cache = tmp_path / ".config" / "dewar" / "logins.json"
        env = environment

        def run(self, *arguments, check=True):
            done = subprocess.run([BIN, *arguments], env=environment, capture_output=True, text=True, timeout=60)
            assert not check or done.returncode == 0, done.stderr
            return done

        def start(self, *arguments):
            return subprocess.Popen([BIN, *arguments], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)

        def device(self, provider):
            provider.confirmed = True
            return self.run("login", provider.url, "--device", "--client-id", "cli")
    return Person()


def test_the_device_flow_waits_for_the_person(person, provider):
    login = person.start("login", provider.url, "--device", "--client-id", "cli")
    give_up = time.monotonic() + 20
    while len(provider.polls) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    provider.confirmed = True
    said = login.communicate(timeout=30)[1]
    assert login.returncode == 0 and "ABCD-EFGH" in said and "as alice" in said, said
    assert provider.polls[1] - provider.polls[0] >= 0.9
    for path in (person.cache, person.token_file):
        assert path.stat().st_mode & 0o777 == 0o600
    assert person.token_file.read_text().count(".") == 2
    assert person.run("token").stdout.strip() == person.token_file.read_text()


def browser(person, provider, *more):
    login = person.start("login", provider.url, "--browser", "--no-open", "--client-id", "cli", *more)
    address = re.search(r"Open (\S+)", login.stderr.readline()).group(1)
    return login, address


def test_the_browser_flow_comes_back_to_a_loopback_port(person, provider):
    login, address = browser(person, provider)
    back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
    assert urlsplit(back).hostname == "127.0.0.1"
    # Somebody else on the machine who guesses the port has no use of it.
    assert requests.get(back + "?code=evil&state=guessed", timeout=10).status_code == 400
    assert "Logged in" in requests.get(address, timeout=10).text
    said = login.communicate(timeout=30)[1]
    assert login.returncode == 0 and "as alice" in said, said
    who = json.loads(person.run("whoami", "--json").stdout)
    assert who["issuer"] == provider.url and who["subject"] == "alice" and who["groups"] == ["/atlas"]
    assert who["renewable"] and who["seconds_left"] > 3000


def test_a_token_that_ends_is_renewed_once_however_many_ask(person, provider):
    provider.lives = 30
    person.device(provider)
    first = person.token_file.read_text()
    provider.lives = 3600
    found = []
    threads = [threading.Thread(target=lambda: found.append(person.run("token").stdout.strip())) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 6 and len(set(found)) == 1 and found[0] != first
    assert person.token_file.read_text() == found[0]


def test_logging_in_again_renews_and_what_was_revoked_does_not(person, provider):
    person.device(provider)
    provider.confirmed = False
    person.run("login")
    assert len(provider.polls) == 1
    provider.refresh.clear()
    provider.lives = 3600
    text = json.loads(person.cache.read_text())
    text["logins"][0]["expires"] = 0
    person.cache.write_text(json.dumps(text))
    done = person.run("token", check=False)
    assert done.returncode == 1 and "dewar login" in done.stderr and "refresh-" not in done.stderr


def test_logout_forgets_here_and_there(person, provider):
    person.device(provider)
    token = person.token_file.read_text()
    person.run("logout")
    assert not person.token_file.exists() and token not in person.cache.read_text()
    assert token in provider.revoked and any(text.startswith("refresh-") for text in provider.revoked)
    assert person.run("whoami", check=False).returncode == 1


def test_a_file_that_others_can_read_is_not_used(person, provider):
    person.device(provider)
    person.cache.chmod(0o644)
    done = person.run("token", check=False)
    assert done.returncode == 1 and "can be read by others" in done.stderr


def test_a_provider_that_says_it_is_another_is_refused(person, provider):
    metadata = provider.metadata() | {"issuer": "https://idp.example.org"}
    provider.answers[provider.path + "/.well-known/openid-configuration"] = (200, json.dumps(metadata).encode(), {})
    done = person.run("login", provider.url, "--device", check=False)
    assert done.returncode == 1 and "says of itself" in done.stderr
    assert person.run("login", "http://192.0.2.1/realm", "--device", check=False).returncode == 1


def test_other_tools_get_what_they_need(person, provider, tmp_path, tools):
    server = Server(tmp_path / "server").start()
    try:
        policy = tmp_path / "policy.json"
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::demo", "arn:aws:s3:::demo/*"]}]}))
        server.admin("group", "add", "atlas")
        server.admin("policy", "put", "all", str(policy), "--group", "atlas")
        server.admin("issuer", "add", provider.url, "--audience", AUDIENCE, "--group", "groups=/atlas=atlas")
        role = server.admin("role", "add", "atlas", "--issuer", provider.url, "--claim", "groups=/atlas",
                            "--policy", str(policy))["arn"]
        person.device(provider)
        endpoint = server.s3["endpoint"]
        # The AWS tools, with a credential_process and no key anywhere.
        aws_config = tmp_path / "aws"
        aws_config.write_text(f"[default]\nregion = us-east-1\nendpoint_url = {endpoint}\n"
                              f"credential_process = {BIN} aws-credentials --role {role} --endpoint {endpoint}\n")
        environment = person.env | {"AWS_CONFIG_FILE": str(aws_config), "AWS_EC2_METADATA_DISABLED": "true"}
        aws = str(tools.parents[2] / ".venv" / "bin" / "aws")
        (tmp_path / "up").write_text("up")
        for command in (["s3", "cp", str(tmp_path / "up"), "s3://demo/up"], ["s3", "ls", "s3://demo/"]):
            done = subprocess.run([aws, *command], env=environment, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
        assert " up\n" in done.stdout
        given = json.loads(person.run("aws-credentials", "--role", role, "--endpoint", endpoint).stdout)
        assert given["Version"] == 1 and given["AccessKeyId"].startswith("DWST") and given["Expiration"].endswith("Z")
        # Everything else, with the token.
        head = {"Authorization": "Bearer " + person.token_file.read_text()}
        assert requests.get(endpoint + "/demo/up", headers=head, timeout=20).text == "up"
        who = json.loads(person.run("whoami", "--endpoint", endpoint, "--json").stdout)
        assert "federated-user" in who["arn"] and who["arn"].endswith("/alice")
        # Sharing without the administrator's socket.
        shared = person.run("share", "--login", "--endpoint", endpoint, "/demo/up").stdout
        bearer, url = re.search(r"--header 'Authorization: (Bearer [^']+)' '([^']+)'", shared).groups()
        assert url == endpoint + "/demo/up"
        assert requests.get(url, headers={"Authorization": bearer}, timeout=20).text == "up"
        for method, path in (("PUT", "/demo/up"), ("GET", "/demo/other"), ("DELETE", "/demo/up")):
            refused = requests.request(method, endpoint + path, headers={"Authorization": bearer}, timeout=20)
            assert refused.status_code == 403, (method, path, refused.text)
        for absent in ("/demo/absent", "/demo", "/demo/up/"):
            done = person.run("share", "--login", "--endpoint", endpoint, absent, check=False)
            assert done.returncode == 1 and absent in done.stderr, (absent, done)
        done = person.run("aws-credentials", "--role", role + "x", "--endpoint", endpoint, check=False)
        assert done.returncode == 1 and "AccessDenied" in done.stderr
        server.stop()
        assert not server.unexpected(), "\n".join(server.unexpected())
    finally:
        server.kill()
