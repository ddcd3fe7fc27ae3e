"""A real Keycloak for the suite's tests of web identity, where the suite expects it: on port 8080.

Prints the section [webidentity] of the suite's configuration as one line of JSON, and serves until its
standard input ends.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import requests

HOME = Path(__file__).resolve().parents[2] / ".tools" / "keycloak-26.2.0"
BASE = "http://localhost:8080/auth"
REALM = "suite"
START_SECONDS_MAX = 300
# The expiry of a session is waited for, which takes a quarter of an hour.
TOKEN_SECONDS = 7200


def start(folder):
    environment = dict(os.environ, KC_BOOTSTRAP_ADMIN_USERNAME="admin", KC_BOOTSTRAP_ADMIN_PASSWORD="admin",
                       JAVA_OPTS_KC_HEAP="-Xms64m -Xmx512m")
    with (folder / "keycloak.log").open("wb") as log:
        process = subprocess.Popen(
            [str(HOME / "bin" / "kc.sh"), "start-dev", "--http-host=localhost", "--http-port=8080",
             "--http-relative-path=/auth", "--http-management-port=8081", "--db=dev-mem", "--cache=local"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    give_up = time.monotonic() + START_SECONDS_MAX
    while True:
        if process.poll() is not None or time.monotonic() > give_up:
            sys.exit("Keycloak did not start:\n" + (folder / "keycloak.log").read_text()[-3000:])
        try:
            if requests.get(f"{BASE}/realms/master", timeout=5).ok:
                return process
        except requests.RequestException:
            pass
        time.sleep(0.5)


def hardcoded(name, value, kind):
    """A mapper that puts a claim into every token of a client; dots in its name are no levels."""
    return {"name": name, "protocol": "openid-connect", "protocolMapper": "oidc-hardcoded-claim-mapper",
            "config": {"claim.name": name.replace(".", "\\."), "claim.value": value, "jsonType.label": kind,
                       "access.token.claim": "true", "id.token.claim": "true"}}


def client(name, audience, mappers):
    audience_mapper = {"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
                       "config": {"included.custom.audience": audience, "access.token.claim": "true"}}
    return {"clientId": name, "publicClient": True, "directAccessGrantsEnabled": True,
            "protocolMappers": [audience_mapper, *mappers]}


def make_realm(audience):
    admin = requests.post(f"{BASE}/realms/master/protocol/openid-connect/token", timeout=60, data={
        "grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": "admin"})
    head = {"Authorization": "Bearer " + admin.json()["access_token"]}
    tags = {"principal_tags": {"Department": ["Engineering", "Marketing"]}}
    # Ceph knows the audience as app_id too, and the suite asks for it so.
    plain = [hardcoded("app_id", audience, "String")]
    tagged = [*plain, hardcoded("https://aws.amazon.com/tags", json.dumps(tags), "JSON")]
    realm = {
        "realm": REALM, "enabled": True, "sslRequired": "none",
        "accessTokenLifespan": TOKEN_SECONDS, "ssoSessionIdleTimeout": TOKEN_SECONDS,
        "clients": [client("plain", audience, plain), client("tagged", audience, tagged)],
        "users": [{"username": "tester", "enabled": True, "email": "tester@example.org", "emailVerified": True,
                   "firstName": "T", "lastName": "Ester",
                   "credentials": [{"type": "password", "value": "tester", "temporary": False}]}],
    }
    made = requests.post(f"{BASE}/admin/realms", json=realm, headers=head, timeout=120)
    assert made.status_code == 201, made.text


def login(name):
    answer = requests.post(f"{BASE}/realms/{REALM}/protocol/openid-connect/token", timeout=60, data={
        "grant_type": "password", "client_id": name, "username": "tester", "password": "tester",
        "scope": "openid"})
    assert answer.ok, answer.text
    return answer.json()["access_token"]


def claims(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def main():
    folder, audience = Path(sys.argv[1]), sys.argv[2]
    process = start(folder)
    try:
        make_realm(audience)
        token = login("plain")
        said = claims(token)
        print(json.dumps({
            "token": token, "user_token": login("tagged"), "aud": audience, "sub": said["sub"],
            "azp": said["azp"], "thumbprint": "0123456789abcdef0123456789abcdef01234567", "kc_realm": REALM,
        }), flush=True)
        sys.stdin.read()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    main()
