"""The XRootD clients that users have: Debian's xrdcp and xrdfs, and the Python bindings of PyPI."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools" / "usr"


def environment():
    # What the machine's owner has set for these tools must not reach the tests.
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("XRD_", "Xrd", "BEARER_TOKEN"))}
    return dict(clean,
                LD_LIBRARY_PATH=str(TOOLS / "lib" / "x86_64-linux-gnu"),
                XRD_REQUESTTIMEOUT="60", XRD_CONNECTIONRETRY="1", XRD_CONNECTIONWINDOW="10",
                XRD_STREAMERRORWINDOW="5")


def run(tool, *arguments, check=True, **options):
    done = subprocess.run([str(TOOLS / "bin" / tool), *map(str, arguments)], capture_output=True,
                          text=True, timeout=120, env=dict(environment(), **options))
    if check:
        assert done.returncode == 0, f"{tool} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def xrdcp(*arguments, check=True, **options):
    return run("xrdcp", "--nopbar", *arguments, check=check, **options)


def xrdfs(server, *arguments, check=True):
    return run("xrdfs", address(server), *arguments, check=check)


def address(server):
    return server.ready["xrootd"]["endpoint"].split("://", 1)[1]


def url(server, path):
    return f"root://{address(server)}/{path}"


def python(code, *arguments, check=True, **options):
    """Runs code in a process of its own: the bindings keep threads and connections for ever."""
    clean = environment()
    del clean["LD_LIBRARY_PATH"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, timeout=180, env=dict(clean, **options))
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
