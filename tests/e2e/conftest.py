"""Fixtures. A test fails on any WARN or ERROR in the server's log that it did not announce."""

import hashlib
import os
import random
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Small files and short waits, for servers and for commands that open the store (section `testing` of the configuration).
UNKNOWN_KEY_INTERVAL = 1
os.environ.update(DEWAR_TESTING_JOURNAL_FILE_SIZE="8MiB", DEWAR_TESTING_KEY_SETTLE_TIME="10s",
                  DEWAR_TESTING_UNKNOWN_KEY_INTERVAL=f"{UNKNOWN_KEY_INTERVAL}s")
from issuer import Issuer  # noqa: E402
from server import Server  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


# The long forms of tests, as `cargo xtask test --full` runs them.
FULL = bool(os.environ.get("DEWAR_TEST_FULL"))


def pytest_configure(config):
    if "DEWAR_TEST_BIN" not in os.environ:
        raise pytest.UsageError("run tests/e2e/run, which builds and installs what is needed")


def pytest_collection_modifyitems(config, items):
    """Tests marked `full` are for the long run only. pytest says how many were deselected."""
    if FULL:
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_runtest_logreport(report):
    """Notes how long each step of a test took, for the report over all passes."""
    file = os.environ.get("DEWAR_TEST_DURATIONS")
    if file and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(file, "a") as out:
            out.write(f"{report.duration:.2f} {report.when} {report.outcome} {report.nodeid}\n")


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """One server for the tests that only talk to it."""
    server = Server(tmp_path_factory.mktemp("shared")).start()
    yield server
    server.stop()


@pytest.fixture
def server(shared, request):
    before = len(shared.unexpected())
    allowed = list(shared.allowed)
    yield shared
    new = shared.unexpected()[before:]
    shared.allowed = allowed
    assert not new, "the server complained:\n" + "\n".join(new)


@pytest.fixture
def own_server(tmp_path):
    """A server of the test's own, which it may hurt."""
    server = Server(tmp_path / "own").start()
    yield server
    server.kill()
    new = server.unexpected()
    assert not new, "the server complained:\n" + "\n".join(new)


@pytest.fixture
def bucket(server, request):
    """A bucket of the test's own, emptied afterwards."""
    name = "t-" + hashlib.sha1(request.node.nodeid.encode()).hexdigest()[:16]
    s3 = server.boto()
    s3.create_bucket(Bucket=name)
    yield name
    for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for entry in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=entry["Key"])
    s3.delete_bucket(Bucket=name)


@pytest.fixture(scope="module")
def issuer():
    """An issuer of login tokens on a loopback port."""
    issuer = Issuer()
    yield issuer
    issuer.stop()


@pytest.fixture(scope="session")
def samples():
    found = sorted((ROOT / ".cache" / "samples").glob("*.root"))
    assert len(found) > 20, "tests/e2e/run unpacks the samples"
    return found


@pytest.fixture(scope="session")
def tools():
    return ROOT / ".tools" / "usr" / "bin"


def until(what, true, seconds=60):
    """Waits for what is to become true."""
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up, what
        time.sleep(0.2)


def content(seed, size):
    """Bytes that repeat from their seed."""
    return random.Random(repr(seed)).randbytes(size)
