"""The master key: replaced under load and under kill -9, retired when nothing needs it, exported to several people."""

import json
import os
import random
import stat
import subprocess
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from conftest import FULL, ROOT, content
from test_catalog import lose_catalog

CYCLES = 12 if FULL else 5
AGE = ROOT / ".tools" / "usr" / "bin" / "age"


def put(server, key, body):
    server.boto().put_object(Bucket="demo", Key=key, Body=body, ServerSideEncryption="AES256")


def get(server, key):
    return server.boto().get_object(Bucket="demo", Key=key)["Body"].read()


def states(server):
    return {key["id"]: key["state"] for key in server.admin("key-file", "list")}


def settled(server):
    give_up = time.monotonic() + 60
    while "wraps still" in (now := states(server)).values():
        assert time.monotonic() < give_up, now
        time.sleep(0.1)
    return now


@pytest.mark.alone
def test_it_is_replaced_under_load_and_killed_at_any_moment(own_server):
    server = own_server
    first, = states(server)
    bodies = {f"k{n}": content(f"k{n}", 300 * n) for n in range(40)}
    bodies["large"] = content("large", 3_000_000)
    for key, body in bodies.items():
        put(server, key, body)
    chance = random.Random(5)
    rotations = 0
    for cycle in range(CYCLES):
        stop = threading.Event()

        def write():
            n = 0
            while not stop.is_set():
                name, body = f"w{cycle}-{n % 7}", content(f"{cycle}-{n}", 20_000)
                try:
                    put(server, name, body)
                except (BotoCoreError, ClientError):
                    # Acknowledged or not, nobody knows: it is either one.
                    bodies.pop(name, None)
                    return
                bodies[name] = body
                n += 1

        writer = threading.Thread(target=write)
        writer.start()
        rotate = subprocess.Popen([os.environ["DEWAR_TEST_BIN"], "key-file", "rotate", "--dir", str(server.data)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * (0.02 if cycle % 2 else 0.2))
        server.kill()
        stop.set()
        writer.join()
        rotations += rotate.wait(timeout=60) == 0
        server.start()
        for key, body in bodies.items():
            assert get(server, key) == body, (cycle, key)
    server.admin("key-file", "rotate")
    now = settled(server)
    assert list(now.values())[0] == "current" and len(now) >= rotations + 1
    assert first in now and now[first] == "replaced"

    # Sessions may have been made under it until a day ago.
    refused = server.admin("key-file", "retire", first, check=False)
    assert refused.returncode != 0 and "sessions under it" in refused.stderr
    current = list(now)[0]
    assert "it wraps" in server.admin("key-file", "retire", current, check=False).stderr
    newest = list(now)[1]
    refused = server.admin("key-file", "retire", newest, "--end-sessions", check=False)
    assert refused.returncode != 0 and "may last until" in refused.stderr
    give_up = time.monotonic() + 70
    while (done := server.admin("key-file", "retire", first, "--end-sessions", check=False)).returncode:
        assert time.monotonic() < give_up and "may last until" in done.stderr, done.stderr
        time.sleep(1)
    assert first not in (server.data / "master.key").read_text()
    server.restart()
    assert first not in states(server)
    for key, body in bodies.items():
        assert get(server, key) == body, key
    lines = server.admin("audit", "--event", "admin", check=False).stdout.splitlines()
    actions = [json.loads(line)["action"] for line in lines]
    assert "admin:key-file-rotate" in actions and "admin:key-file-retire" in actions


def test_a_copy_is_opened_by_each_of_its_recipients_and_by_nobody_else(own_server, tmp_path):
    server = own_server
    file = server.data / "master.key"
    people = []
    for name in ("ann", "bob", "eve"):
        identity = tmp_path / name
        subprocess.run([f"{AGE}-keygen", "--output", identity], check=True, capture_output=True)
        public = subprocess.run([f"{AGE}-keygen", "-y", identity], check=True, capture_output=True, text=True)
        people.append((identity, public.stdout.strip()))
    (ann, ann_key), (bob, bob_key), (eve, _) = people
    recipients = tmp_path / "recipients"
    recipients.write_text(f"# of the night shift\n{bob_key}\n")
    copy = tmp_path / "master.key.age"
    wanted = ["--recipient", ann_key, "--recipients-file", str(recipients), "--output", str(copy)]
    server.admin("key-file", "export", *wanted)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600

    def opened(identity):
        return subprocess.run([AGE, "--decrypt", "--identity", identity, copy], capture_output=True, text=True)

    for identity in (ann, bob):
        assert opened(identity).stdout == file.read_text()
    assert opened(eve).returncode != 0
    secret = [line.split()[2] for line in file.read_text().splitlines() if line.startswith("key ")]
    assert secret and all(key not in copy.read_text() for key in secret)
    # An older copy is not overwritten, and nobody is left out by a typing mistake.
    assert server.admin("key-file", "export", *wanted, check=False).returncode != 0
    wrong = server.admin("key-file", "export", "--recipient", ann_key[:-1] + ("x" if ann_key[-1] != "x" else "y"), check=False)
    assert wrong.returncode != 0 and "no recipient" in wrong.stderr
    # Without a server too; and what was lost comes back from it.
    server.stop()
    late = tmp_path / "late.age"
    server.admin("key-file", "export", "--recipient", ann_key, "--output", str(late))
    text = file.read_text()
    file.unlink()
    subprocess.run([AGE, "--decrypt", "--identity", ann, "--output", file, late], check=True)
    assert file.read_text() == text
    file.chmod(0o600)
    server.start()
    put(server, "k", b"again")
    assert get(server, "k") == b"again"


def test_a_backup_from_before_a_rotation_is_restored_and_wrapped_anew(own_server, tmp_path):
    server = own_server
    backups = tmp_path / "backups"
    backups.mkdir()
    bodies = {f"k{n}": content(f"k{n}", 40_000 * n) for n in range(1, 12)}
    for key, body in bodies.items():
        put(server, key, body)
    server.admin("backup", str(backups))
    first, = states(server)
    server.admin("key-file", "rotate")
    settled(server)
    server.stop()
    lose_catalog(server)
    server.allow("rebuilt|restored|does not name")
    done = server.admin("restore", str(backups), check=False)
    # What was written since may be lost.
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert not [line for line in told["unknown"] if "master key" in line], told
    server.start()
    # Its access keys and objects are wrapped under the old key again, which is still in the file.
    assert settled(server)[first] == "replaced"
    for key, body in bodies.items():
        assert get(server, key) == body, key
