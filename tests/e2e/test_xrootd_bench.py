"""The load driver over root://, on Dewar and on the reference server."""

import json
import subprocess

from reference import Reference
from server import BIN
from xrootd_tools import address, xrdfs

STEPS = ("put:300k:2:6,put-plain:300k:1:2,get:300k:2:10,get-plain:300k:2:10,vector:300k:2:5,"
         "open:8k:2:20:4,stat:8k:2:20:4,list:8k:1:3:4")


def bench(*arguments):
    return subprocess.run([BIN, "bench", "root", *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_every_step_is_done_and_verified(server, bucket, tmp_path):
    reference = Reference().start()
    try:
        told = tmp_path / "told.json"
        done = bench(f"dewar=root://{address(server)}//{bucket}/b",
                     f"reference=root://localhost:{reference.port}//data", "--steps", STEPS, "--verify",
                     "--vector-items", 50, "--chunk", "64k", "--repeat", 2, "--json", told,
                     "--server-pid", f"dewar={server.process.pid}", "--server-pid", f"reference={reference.process.pid}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "vector 300 KiB x2" in done.stdout and "server CPU" in done.stdout
        told = json.loads(told.read_text())
        runs = told["runs"]
        assert told["schema"] == "dewar-bench-root-1" and len(runs) == 2 * 2 * 8
        assert all(run["errors"] == 0 and run["server_cpu_s"] is not None for run in runs)
        by_step = {(run["step"], run["target"]): run for run in runs}
        for target in ("dewar", "reference"):
            assert by_step[0, target]["bytes"] == 6 * 300 * 1024
            assert by_step[4, target]["bytes"] == 5 * 50 * 8192
            assert by_step[7, target]["keys"] == 3 * 4
        # Nothing is left of it.
        assert xrdfs(server, "ls", "-R", f"/{bucket}").stdout.strip() == ""
        assert not list(reference.files.iterdir())
    finally:
        reference.remove()


def test_what_fails_is_told(server, bucket):
    done = bench(f"root://{address(server)}//no-such-bucket-here/x", "--steps", "stat:1k:1:1")
    assert done.returncode != 0 and "no such" in done.stderr.lower(), done.stderr
    done = bench("root://127.0.0.1:1//x", "--steps", "stat:1k:1:1")
    assert done.returncode != 0 and "cannot be reached" in done.stderr, done.stderr
