#!/usr/bin/env python3
"""What a credential costs the server: the same requests with each kind, in turn, on one demo.

    DEWAR_TEST_BIN=target/release/dewar .venv/bin/python benches/credentials/measure.py

(`tests/e2e/run --collect-only -q` makes .venv.) Prints the table of docs/performance.md: the server's CPU in ms for 1,000
requests, as `dewar bench s3` counts it, medians of the repeats with the lowest and the highest, and the ratio of
medians to the request that shows nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from issuer import AUDIENCE, Issuer  # noqa: E402
from server import BIN, Server  # noqa: E402

LABELS = {
    "anonymous": "nothing",
    "sigv4": "SigV4, an access key",
    "session": "SigV4, a session's key and token",
    "es256": "WLCG token, ES256, seen before",
    "es256-new": "WLCG token, ES256, first seen",
    "rs256-new": "WLCG token, RS256, first seen",
    "macaroon": "macaroon, two caveats more",
}


def buckets(server):
    """One for each kind, in which everybody may do everything, so that the same is asked of all."""
    for name in LABELS:
        server.boto().create_bucket(Bucket=name)
        server.boto().put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:*",
             "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"]}]}))


def macaroon(server):
    """Of the demo's user, narrowed twice."""
    body = json.dumps({"caveats": ["activity:DOWNLOAD,UPLOAD,DELETE,LIST,READ_METADATA", "path:/macaroon"],
                       "validity": "PT12H"})
    request = AWSRequest("POST", server.s3["endpoint"] + "/", data=body,
                         headers={"Content-Type": "application/macaroon-request"})
    signer = S3SigV4Auth(Credentials(server.s3["access_key"], server.s3["secret_key"]), "s3", server.s3["region"])
    signer.add_auth(request)
    answer = requests.post(request.url, data=body, headers=dict(request.headers), timeout=20)
    answer.raise_for_status()
    return answer.json()["macaroon"]


def tokens(issuer, count):
    capabilities = "storage.read:/ storage.modify:/ storage.create:/"
    return "".join(issuer.token(scope=capabilities, jti=str(number), exp=issuer.claims()["iat"] + 6 * 3600) + "\n"
                   for number in range(count))


# What costs so little that ticks of 10 ms would show gets so many times the requests.
CHEAP, TIMES = [name for name in LABELS if not name.endswith("-new")], 8


def described(server, folder, count):
    """The files of targets, cheap and other, in the order of LABELS, with so many tokens that are new."""
    common = {"endpoint": server.s3["endpoint"], "region": server.s3["region"],
              "pids": [server.process.pid]}
    secret = folder / "secret"
    secret.write_text(server.s3["secret_key"])
    key = {"access_key": server.s3["access_key"], "secret_key_file": str(secret)}
    targets = {"anonymous": {"anonymous": True}, "sigv4": key}

    sts = boto3.client("sts", endpoint_url=server.s3["endpoint"], region_name=server.s3["region"],
                       aws_access_key_id=server.s3["access_key"], aws_secret_access_key=server.s3["secret_key"])
    session = sts.get_session_token(DurationSeconds=43200)["Credentials"]
    (folder / "session-secret").write_text(session["SecretAccessKey"])
    (folder / "session-token").write_text(session["SessionToken"])
    targets["session"] = {"access_key": session["AccessKeyId"], "secret_key_file": str(folder / "session-secret"),
                          "session_token_file": str(folder / "session-token")}
    for name, alg, count in (("es256", "ES256", 1), ("es256-new", "ES256", count), ("rs256-new", "RS256", count)):
        issuer = Issuer(alg)
        server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", f"/{name}")
        (folder / name).write_text(tokens(issuer, count))
        targets[name] = {"bearer_file": str(folder / name)}
    (folder / "macaroon").write_text(macaroon(server))
    targets["macaroon"] = {"bearer_file": str(folder / "macaroon")}

    paths = [folder / "cheap.toml", folder / "other.toml"]
    for path in paths:
        lines = []
        for name in LABELS:
            if (name in CHEAP) == (path == paths[0]):
                fields = common | {"bucket": name} | targets[name]
                lines += ["[[target]]", f'name = "{name}"']
                lines += [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
        path.write_text("\n".join(lines) + "\n")
    return paths


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--requests", type=int, default=8_000, help="of each step with new tokens; eight times as many with the others")
    arguments.add_argument("--repeat", type=int, default=3)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        server = Server(folder / "server").start()
        try:
            buckets(server)
            # Each token once: objects are put with some of them, too.
            tokens_ = (given.repeat + 1) * (2 * given.requests + 1000)
            runs = []
            clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
            for targets, times in zip(described(server, folder, tokens_), (TIMES, 1)):
                steps = [f"{verb}:4k:8:{times * given.requests}:100" for verb in ("head", "get")]
                out = folder / "out.json"
                subprocess.run([BIN, "bench", "s3", "--target", targets, "--steps", ",".join(steps), "--settle", "0.5",
                                "--repeat", str(given.repeat), "--json", out], check=True, env=clean,
                               stdout=subprocess.DEVNULL)
                runs += json.loads(out.read_text())["runs"]
        finally:
            server.kill()
    print("| request shows | HEAD, ms | ratio | GET of 4 KiB, ms | ratio |\n|---|---|---|---|---|")
    base = {}
    for name, label in LABELS.items():
        cells = []
        for step in range(2):
            cost = [1000 * run["server_cpu"]["s_per_1000_ops"] for run in runs
                    if run["target"] == name and run["step"] == step]
            middle = statistics.median(cost)
            base.setdefault(step, middle)
            cells += [f"{middle:.1f} ({min(cost):.1f} to {max(cost):.1f})", f"{middle / base[step]:.2f}"]
        print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
