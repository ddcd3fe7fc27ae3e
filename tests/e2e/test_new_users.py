"""What somebody meets on the first day: the lines that the demo prints, refusals that say why, hints that work."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import requests
from conftest import ROOT
from grid_tools import Site
from ports import free_port_base
from server import BIN, Server
from xrootd_tools import NOBODY, TOOLS, configure, url, xrdcp, xrdfs


def command(server, *words):
    return subprocess.run([BIN, *words, "--dir", str(server.data)], capture_output=True, text=True, timeout=60)


def blocks(page):
    """The lines to copy, by the words above them."""
    found, title = {}, None
    for line in page.splitlines():
        if line.startswith("    "):
            found.setdefault(title, []).append(line[4:])
        elif line.strip():
            title = line
    return {title: "\n".join(lines) for title, lines in found.items()}


def test_every_line_that_the_demo_prints_works(tmp_path):
    """In the order of the page, as somebody would who copies them into one shell."""
    folder, page = tmp_path / "my demo", tmp_path / "page"
    with page.open("wb") as out:
        process = subprocess.Popen([BIN, "demo", "--dir", str(folder), "--port-base", str(free_port_base()),
                                    "--ready-file", str(tmp_path / "ready")], stdout=out, stderr=out)
    try:
        give_up = time.monotonic() + 60
        while not (tmp_path / "ready").exists() and time.monotonic() < give_up:
            time.sleep(0.05)
        time.sleep(0.2)
        lines = blocks(page.read_text())
        ready = json.loads((tmp_path / "ready").read_text())
        # Where these programs find their libraries, and nothing that the page is to tell them.
        found = Site(SimpleNamespace(ready=ready), "demo").variables(X509_CERT_DIR=None, BEARER_TOKEN=None)
        home = {name: value for name, value in found.items() if not name.startswith(("AWS_", "RCLONE_"))}
        path = f"{ROOT / '.venv/bin'}:{TOOLS / 'bin'}:{os.environ['PATH']}"
        for title, text in lines.items():
            if text.startswith("import "):
                words = [str(ROOT / ".venv/bin/python"), "-c", text]
            else:
                words = ["bash", "-euc", text.replace("NAME", "ann")]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path,
                                  env=dict(home, PATH=path, HOME=str(tmp_path)))
            assert done.returncode == 0, f"{title}\n{text}\n{done.stdout}{done.stderr}"
            if "uproot" in title or "boto3" in title:
                assert done.stdout.strip(), f"{title} prints nothing"
            # These exit with 0 whatever happened.
            for name, words in {"cadaver": "succeeded", "davix": "events.root", "gfal2": " "}.items():
                assert not title.startswith(name) or words in done.stdout, f"{title}\n{done.stdout}{done.stderr}"
        kept = {"curl", "https", "davix", "gfal", "rclone"}
        token = {"Authorization": f"Bearer {ready['webdav']['token']}"}
        authority = next(entry.path for entry in os.scandir(ready["webdav"]["ca_dir"]))
        for name in [f"{folder}/events.root" for folder in kept] + ["cadaver.root"]:
            answer = requests.head(f"{ready['webdav']['tls_endpoint']}/demo/{name}", headers=token, verify=authority, timeout=20)
            assert answer.status_code == 200, name
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    assert len(lines) >= 12, lines.keys()


def test_a_root_client_that_cannot_log_in_is_told_why_and_audited(tmp_path):
    server = Server(tmp_path / "closed").start()
    try:
        server.stop()
        configure(server, **NOBODY)
        server.start()
        looked = xrdfs(server, "ls", "/demo", check=False)
        assert looked.returncode != 0
        assert "no way to log in" in looked.stderr + looked.stdout, looked
        copied = xrdcp(sys.executable, url(server, "/demo/x"), check=False)
        assert copied.returncode != 0 and "no way to log in" in copied.stderr + copied.stdout, copied
        time.sleep(0.5)
        lines = command(server, "audit", "--event", "login", "--json").stdout.splitlines()
        refused = [line for line in map(json.loads, lines) if line["action"] == "login:none"]
        assert refused and refused[0]["outcome"] == "refused" and refused[0]["from"] == "127.0.0.1"
        checked = subprocess.run([BIN, "config", "check", str(server.data / "dewar.toml")],
                                 capture_output=True, text=True, timeout=60)
        assert "nobody can log in at this door" in checked.stdout
    finally:
        server.stop()
    assert not server.unexpected()


def test_a_missing_disk_in_no_known_folder_is_seen(tmp_path):
    server = Server(tmp_path / "lost").start()
    new = server.data / "disk7"
    new.mkdir()
    server.admin("disk", "add", str(new))
    server.stop()
    # The state folder of another machine: the folder was added by command, and nothing remembers it.
    (server.data / "pool.json").unlink()
    shutil.move(new, tmp_path / "away")
    server.allow("missing|journal|holder|cannot be")
    server.start()
    try:
        disks = server.admin("status")["pool"]["disks"]
        lost = [disk for disk in disks if disk["state"] == "missing"]
        assert len(disks) == 7 and len(lost) == 1 and lost[0]["id"], disks
        text = command(server, "status").stdout
        assert "its folder is not known" in text and f"disk replace {lost[0]['id'][:8]}" in text, text
        metrics = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
        assert re.search(r'dewar_disk_state\{disk="[^"]*in no known folder",state="missing"\} 1', metrics)
        assert re.search(r"^dewar_disks 7$", metrics, re.M)
        assert "its folder is not known" in server.log_path.read_text()
        assert len([one for one in server.admin("disk", "list") if one["state"] == "missing"]) == 1
    finally:
        server.stop()


def test_disk_list_says_what_is_there_when_the_store_does_not_open(tmp_path):
    server = Server(tmp_path / "few").start()
    server.stop()
    for number in (1, 2, 3):
        shutil.move(server.disk(number), tmp_path / f"away{number}")
    hint = command(server, "status")
    assert hint.returncode == 5 and "dewar disk list" in hint.stderr
    listed = command(server, "disk", "list")
    assert listed.stdout.count(" missing") == 3 and listed.stdout.count(" online") == 3, listed.stdout
    assert listed.returncode != 0 and "the store does not open" in listed.stderr


def test_only_what_is_there_is_shared(server, bucket):
    s3 = server.boto()
    s3.put_object(Bucket=bucket, Key="run/a", Body=b"a")
    absent = command(server, "share", f"/{bucket}/absent")
    assert absent.returncode == 3 and "is not there" in absent.stderr, absent
    folder = command(server, "share", f"/{bucket}/run")
    assert folder.returncode != 0 and "directory" in folder.stderr, folder
    name = command(server, "share", f"/{bucket}")
    assert "names a bucket" in name.stderr
    assert command(server, "share", f"/{bucket}/run/a").returncode == 0
