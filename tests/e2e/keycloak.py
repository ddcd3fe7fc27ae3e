"""A real Keycloak on a loopback port, with a realm like a laboratory's, made by its admin API."""

import os
import signal
import subprocess
import time
from pathlib import Path

import requests

from server import free_port_base

HOME = Path(__file__).resolve().parents[2] / ".tools" / "keycloak-26.2.0"
START_SECONDS_MAX = 300
AUDIENCE = "https://storage.example.org"


class Keycloak:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port_base(count=2)
        self.base = f"http://127.0.0.1:{self.port}"
        self.realm_url = f"{self.base}/realms/hep"
        self.process = None

    def start(self):
        assert HOME.exists(), "tests/e2e/run unpacks Keycloak"
        environment = dict(os.environ, KC_BOOTSTRAP_ADMIN_USERNAME="admin", KC_BOOTSTRAP_ADMIN_PASSWORD="admin",
                           JAVA_OPTS_KC_HEAP="-Xms64m -Xmx512m")
        with (self.folder / "keycloak.log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(HOME / "bin" / "kc.sh"), "start-dev", "--http-host=127.0.0.1", f"--http-port={self.port}",
                 f"--http-management-port={self.port + 1}", "--db=dev-mem", "--cache=local"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        give_up = time.monotonic() + START_SECONDS_MAX
        while True:
            assert self.process.poll() is None, (self.folder / "keycloak.log").read_text()[-3000:]
            assert time.monotonic() < give_up, "Keycloak did not start"
            try:
                if requests.get(f"{self.base}/realms/master", timeout=5).ok:
                    break
            except requests.RequestException:
                pass
            time.sleep(0.5)
        self.make_realm()
        return self

    def stop(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def make_realm(self):
        admin = requests.post(f"{self.base}/realms/master/protocol/openid-connect/token", timeout=60, data={
            "grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": "admin"})
        head = {"Authorization": "Bearer " + admin.json()["access_token"]}

        def mapper(name, kind, **config):
            config |= {"access.token.claim": "true", "id.token.claim": "true"}
            return {"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": config}

        def user(name, groups):
            return {"username": name, "enabled": True, "email": f"{name}@example.org", "emailVerified": True,
                    "firstName": name, "lastName": "Test", "groups": groups,
                    "credentials": [{"type": "password", "value": name, "temporary": False}]}

        realm = {
            "realm": "hep", "enabled": True, "sslRequired": "none",
            "groups": [{"name": "atlas", "subGroups": [{"name": "production"}]}, {"name": "cms"}],
            "clients": [{
                "clientId": "hep-cli", "publicClient": True, "directAccessGrantsEnabled": True,
                "redirectUris": ["http://127.0.0.1/*"],
                "attributes": {"oauth2.device.authorization.grant.enabled": "true"},
                "protocolMappers": [
                    mapper("groups", "oidc-group-membership-mapper", **{"claim.name": "groups", "full.path": "true"}),
                    mapper("audience", "oidc-audience-mapper", **{"included.custom.audience": AUDIENCE}),
                ],
            }],
            "users": [user("alice", ["/atlas", "/atlas/production"]), user("bob", ["/cms"])],
        }
        made = requests.post(f"{self.base}/admin/realms", json=realm, headers=head, timeout=120)
        assert made.status_code == 201, made.text

    def login(self, name):
        """What a person's client does: all tokens of a login."""
        answer = requests.post(f"{self.realm_url}/protocol/openid-connect/token", timeout=60, data={
            "grant_type": "password", "client_id": "hep-cli", "username": name, "password": name,
            "scope": "openid"})
        assert answer.ok, answer.text
        return answer.json()
