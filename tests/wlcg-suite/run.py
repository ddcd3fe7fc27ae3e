"""Runs the WLCG JWT compliance suite against a demo: `run.py CHECKOUT REPORTS [ROBOT ARGUMENTS]`.

The suite asks `oidc-token` for tokens. A program of that name is put into the path; it asks an issuer of this process.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from issuer import Issuer  # noqa: E402
from server import Server  # noqa: E402

ANY_AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"
BUCKET = "wlcg"

# As oidc-agent's: scopes with -s, audiences with --aud, and the name of an account.
SHIM = """#!{python}
import sys, urllib.request, urllib.parse
scopes, audiences, words = [], [], iter(sys.argv[1:])
for word in words:
    if word == "-s":
        scopes.append(next(words))
    elif word.startswith("--aud="):
        audiences += word.split("=", 1)[1].split()
form = urllib.parse.urlencode({{"scope": " ".join(scopes), "aud": " ".join(audiences) or " "}}).encode()
print(urllib.request.urlopen("{mint}", form).read().decode().strip('"'))
"""

# Members read everything and write where the suite works. The group /wlcg/test may also write below /protected.
MEMBERS = [
    {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"],
     "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]},
    {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"],
     "Resource": [f"arn:aws:s3:::{BUCKET}/wlcg-jwt-compliance", f"arn:aws:s3:::{BUCKET}/wlcg-jwt-compliance/*"]},
]
TESTERS = [
    {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"],
     "Resource": [f"arn:aws:s3:::{BUCKET}/protected", f"arn:aws:s3:::{BUCKET}/protected/*"]},
]


class Agent(Issuer):
    """An issuer that signs for whoever asks: the bearer is a member of the group /wlcg."""

    def post(self, path, form):
        asked = form["scope"].split()
        groups = []
        for scope in asked:
            if scope.startswith("wlcg.groups"):
                groups += [group for group in (scope.partition(":")[2], "/wlcg") if group and group not in groups]
        scope = " ".join(scope for scope in asked if not scope.startswith("wlcg.groups"))
        audiences = form.get("aud", "").split() or [ANY_AUDIENCE]
        claims = {"wlcg.groups": groups} if groups else {}
        return 200, self.token(scope=scope, aud=audiences if len(audiences) > 1 else audiences[0], groups=None, **claims)


def prepare(server, agent, folder):
    endpoint = server.ready["webdav"]["tls_endpoint"]
    server.admin("bucket", "create", BUCKET, "--owner", "demo")
    for group, statements in (("members", MEMBERS), ("testers", TESTERS)):
        server.admin("group", "add", group)
        policy = folder / f"{group}.json"
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": statements}))
        server.admin("policy", "put", "--group", group, "suite", str(policy))
    server.admin("issuer", "add", agent.url, "--audience", endpoint, "--audience", ANY_AUDIENCE, "--base", f"/{BUCKET}",
                 "--group", "wlcg.groups=/wlcg=members", "--group", "wlcg.groups=/wlcg/test=testers")
    return endpoint


def main(checkout, reports, *arguments):
    folder = Path(tempfile.mkdtemp(prefix="wlcg-suite-"))
    agent, server = Agent(), Server(folder / "server")
    try:
        server.start()
        endpoint = prepare(server, agent, folder)
        suite = folder / "suite"
        shutil.copytree(checkout, suite, ignore=shutil.ignore_patterns(".git"))
        (suite / "test" / "variables.yaml").write_text(json.dumps({
            "endpoints": {"dewar": {"desc": "Dewar", "type": "Dewar", "endpoint": endpoint, "paths": {"wlcg": f"/{BUCKET}"}}}}))
        programs = folder / "bin"
        programs.mkdir()
        shim = programs / "oidc-token"
        shim.write_text(SHIM.format(python=sys.executable, mint=agent.origin + "/mint"))
        shim.chmod(0o755)
        authorities = server.ready["webdav"]["ca_dir"]
        environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", REQUESTS_CA_BUNDLE=authorities)
        done = subprocess.run(
            [sys.executable, "-m", "robot", "--pythonpath", ".:common", "-d", str(Path(reports).resolve()), "--variable",
             "se_alias:dewar", "--variable", f"x509.trustdir:{authorities}", "--name", "dewar", "--exclude", "permissive",
             "--include", "critical", *arguments, "test"], cwd=suite, env=environment)
        return done.returncode
    finally:
        server.kill()
        agent.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
