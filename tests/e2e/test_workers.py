"""The background work: `dewar worker list`, `pause` and `resume`."""

import json
import subprocess
import time

import requests
from conftest import content
from server import BIN


def shards(server):
    return [path for path in server.data.glob("disk*/blobs/*/*") if path.is_file()]


def until(seconds, true):
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def workers(server):
    return {worker["name"]: worker for worker in server.admin("worker", "list")}


def test_a_paused_worker_does_nothing_until_it_is_resumed(own_server):
    server = own_server
    s3 = server.boto()
    found = workers(server)
    assert {"free", "repair", "scrub", "lifecycle", "key-rotation"} <= found.keys()
    assert all(worker["state"] in ("running", "idle") for worker in found.values()), found
    assert all(worker["errors"] == 0 for worker in found.values()), found
    before = len(shards(server))
    s3.put_object(Bucket="demo", Key="large", Body=content("large", 3_000_000))
    kept = len(shards(server))
    assert kept >= before + 6

    paused = server.admin("worker", "pause", "free")
    assert (paused["name"], paused["state"]) == ("free", "paused")
    assert workers(server)["free"]["state"] == "paused"
    assert [found["advice"] for found in server.admin("status")["troubles"]] == ["dewar worker resume free"]
    metrics = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    assert 'dewar_worker_state{worker="free",state="paused"} 1' in metrics
    s3.delete_object(Bucket="demo", Key="large")
    # Deleted objects are freed after five seconds.
    time.sleep(10)
    assert len(shards(server)) == kept
    resumed = server.admin("worker", "resume", "free")
    assert resumed["state"] != "paused"
    assert not server.admin("status")["troubles"]
    until(20, lambda: len(shards(server)) < kept)

    unknown = server.admin("worker", "pause", "nobody", check=False)
    assert unknown.returncode != 0 and "dewar worker list" in unknown.stderr

    def recorded():
        done = subprocess.run([BIN, "audit", "--dir", str(server.data), "--json", "--verb", "admin:worker-pause"],
                              capture_output=True, text=True, timeout=60, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {(line["target"], line["outcome"]) for line in lines}

    # The log is written a tenth of a second after the answer.
    until(10, lambda: recorded() == {("free", "allowed"), ("nobody", "refused")})


def test_a_pause_ends_with_the_process(own_server):
    server = own_server
    server.admin("worker", "pause", "scrub")
    server.restart()
    assert workers(server)["scrub"]["state"] != "paused"
    server.stop()
    none = server.admin("worker", "list", check=False)
    assert none.returncode != 0, "without a server there is no background work"
