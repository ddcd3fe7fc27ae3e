"""Third-party copies in the middle of which somebody dies: nothing half is seen, keys go, places are free again."""

import re
import subprocess
import threading

import pytest
from conftest import content, until
from reference import Reference
from relay import Gate, Relay
from test_xrootd_tpc import V4, counted, exists, get, made, put, url
from xrootd_tools import TOOLS, address, environment, python, xrdcp

SIZE = 40_000_000
HALF = 12_000_000
REDEEMED = re.compile(rb"(/data/\w+\?[!-~]*tpc\.org=[\w.@-]+)")


class Unused(Relay):
    """Holds back who comes with a key, until it is opened."""

    def __init__(self, port):
        self.reached, self.opened, self.shown = threading.Event(), threading.Event(), []
        super().__init__(port, requests=self.hold)

    def hold(self, _, data):
        if found := REDEEMED.findall(data):
            self.shown += found
            self.reached.set()
            self.opened.wait(120)
        return data


def begin(source, target):
    """A client that has them copy, as a process that goes on."""
    return subprocess.Popen([str(TOOLS / "bin" / "xrdcp"), "--nopbar", "--tpc", "only", "-f", source, target],
                            env=dict(environment(), **V4), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ends(client, seconds=60):
    """The client gives up; what it said."""
    said, _ = client.communicate(timeout=seconds)
    assert client.returncode != 0, said
    return said


def is_free(server):
    """No copy runs, and every place for one can be taken."""
    return counted(server)["dewar_copies_running"] == 0 and server.admin("status")["copies"] == 0


REDEEM = """
import sys
from XRootD import client
status, _ = client.File().open(sys.argv[1])
print(status.errno if not status.ok else 0)
"""


@pytest.fixture
def dewar(tmp_path):
    # One copy at a time: a place that was lost would be missed at once.
    server = made(tmp_path / "own", trust_names="true", tpc_copies_max="1")
    server.admin("user", "add", "nobody")
    yield server
    server.kill()
    assert not server.unexpected(), "\n".join(server.unexpected())


@pytest.fixture
def reference():
    server = Reference().start()
    yield server
    server.remove()


@pytest.fixture
def data(request):
    return content(request.node.name, SIZE)


def test_the_source_is_killed(dewar, reference, data):
    reference.put("in", data)
    gate = Gate(reference.port, HALF)
    client = begin(gate.url("in"), url(dewar, "in"))
    assert gate.reached.wait(30)
    assert counted(dewar)["dewar_copies_running"] == 1 and not exists(dewar, "in")
    reference.stop()
    gate.opened.set()
    assert "Unable to copy" in ends(client)
    until("the copy goes on", lambda: is_free(dewar))
    assert not exists(dewar, "in")
    reference.start()
    xrdcp("--tpc", "only", reference.url("in"), url(dewar, "in"), **V4)
    assert get(dewar, "in") == data


@pytest.mark.parametrize("there", [False, True], ids=["new", "replaced"])
def test_this_server_is_killed_as_destination(dewar, reference, data, there):
    reference.put("in", data)
    if there:
        put(dewar, "in", b"what was there")
    gate = Gate(reference.port, HALF)
    client = begin(gate.url("in"), url(dewar, "in"))
    assert gate.reached.wait(30)
    dewar.kill()
    gate.opened.set()
    dewar.start()
    ends(client)
    assert is_free(dewar)
    assert get(dewar, "in") == b"what was there" if there else not exists(dewar, "in")
    xrdcp("--tpc", "only", "-f", reference.url("in"), url(dewar, "in"), **V4)
    assert get(dewar, "in") == data


def test_this_server_is_killed_as_source(dewar, reference, data):
    put(dewar, "out", data)
    gate = Gate(int(address(dewar).rsplit(":", 1)[1]), HALF)
    client = begin(gate.url("out"), reference.url("out"))
    assert gate.reached.wait(30)
    dewar.kill()
    gate.opened.set()
    dewar.start()
    ends(client, 120)
    assert get(dewar, "out") == data
    xrdcp("--tpc", "only", "-f", url(dewar, "out"), reference.url("out"), **V4)
    assert reference.get("out") == data


def test_the_destination_is_killed(dewar, reference, data):
    put(dewar, "out", data)
    gate = Gate(int(address(dewar).rsplit(":", 1)[1]), HALF)
    client = begin(gate.url("out"), reference.url("out"))
    assert gate.reached.wait(30)
    reference.stop()
    gate.opened.set()
    ends(client)
    reference.start()
    xrdcp("--tpc", "only", "-f", url(dewar, "out"), reference.url("out"), **V4)
    assert reference.get("out") == data


def test_the_client_is_killed(dewar, reference, data):
    reference.put("in", data)
    gate = Gate(reference.port, HALF)
    client = begin(gate.url("in"), url(dewar, "in"))
    assert gate.reached.wait(30)
    client.kill()
    client.wait()
    until("the copy goes on", lambda: is_free(dewar))
    gate.opened.set()
    assert not exists(dewar, "in")
    assert counted(dewar)['dewar_copies_ended_total{outcome="cancelled"}'] == 1
    xrdcp("--tpc", "only", reference.url("in"), url(dewar, "in"), **V4)
    assert get(dewar, "in") == data


@pytest.mark.parametrize("dies, told", [("nobody", "0"), ("client", "3010"), ("source", "3010")])
def test_a_key_that_nobody_has_used_ends_with_its_client(dewar, reference, dies, told):
    """The destination has it and is held up on its way; somebody else uses it, as far as it is good."""
    put(dewar, "out", b"what it opens")
    gate = Unused(int(address(dewar).rsplit(":", 1)[1]))
    client = begin(gate.url("out"), reference.url("out"))
    assert gate.reached.wait(30)
    if dies == "client":
        client.kill()
        client.wait()
    elif dies == "source":
        dewar.kill()
        dewar.start()
    path = gate.shown[0]
    assert python(REDEEM, f"root://{address(dewar)}/{path.decode()}", **V4).strip() == told
    gate.opened.set()
    if dies != "client":
        ends(client, 120)


def test_both_ends_are_of_this_kind_and_one_is_killed(dewar, tmp_path, data):
    other = made(tmp_path / "other", tpc_copies_max="1")
    try:
        put(dewar, "a", data)
        gate = Gate(int(address(dewar).rsplit(":", 1)[1]), HALF)
        client = begin(gate.url("a"), url(other, "b"))
        assert gate.reached.wait(30)
        dewar.kill()
        gate.opened.set()
        dewar.start()
        ends(client)
        until("the copy goes on", lambda: is_free(other))
        assert not exists(other, "b")
        gate = Gate(int(address(dewar).rsplit(":", 1)[1]), HALF)
        client = begin(gate.url("a"), url(other, "b"))
        assert gate.reached.wait(30)
        other.kill()
        gate.opened.set()
        other.start()
        ends(client)
        assert is_free(other) and not exists(other, "b")
        xrdcp("--tpc", "only", "-f", url(dewar, "a"), url(other, "b"), **V4)
        assert get(other, "b") == data
    finally:
        other.kill()
        assert not other.unexpected(), "\n".join(other.unexpected())
