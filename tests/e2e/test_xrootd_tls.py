"""Garbage in the place of TLS on the XRootD port: before, during and after the handshake."""

import os
import random
import socket
import ssl
import struct
import time

import pytest
from issuer import AUDIENCE
from server import Server
from test_xrootd import answer, frame, login, receive
from xrootd_tools import NOBODY, Certificate, address, configure

GOTO_TLS = 0x40000000
HELLO = struct.pack(">5i", 0, 0, 0, 4, 2012)
ABLE = frame(0, 3006, struct.pack(">iBB10x", 0x520, 2, 3))
LOGIN = frame(1, 3007, struct.pack(">i8s4B", 7, b"evil", 0, 0, 0x85, 0))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("garbage")
    tls = Certificate(folder)
    server = Server(folder / "own").start()
    server.stop()
    tls.configure(server)
    server.tls = tls
    # The issuer of the tests may end before its keys were fetched.
    server.allow("the keys of an issuer cannot be fetched")
    yield server.start()
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def connect(server):
    s = socket.create_connection(("127.0.0.1", int(address(server).rsplit(":", 1)[1])), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def told_to_go(server):
    """A connection on which the server waits for a client's TLS hello."""
    s = connect(server)
    s.sendall(HELLO + ABLE)
    receive(s, 16)
    assert struct.unpack(">II", answer(s)[2])[1] & GOTO_TLS
    return s


def rest(s):
    """What comes until the server ends the connection."""
    came = b""
    try:
        while more := s.recv(4096):
            came += more
    except ConnectionError:
        pass
    s.close()
    return came


def client_hello(server, **versions):
    """The first bytes that a TLS client says."""
    context = ssl.create_default_context(cafile=str(server.tls.authority))
    for name, version in versions.items():
        setattr(context, name, version)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def in_clear_is_nothing_said(came):
    """Nothing but TLS records: alerts, or the beginning of a handshake; no frame of the protocol."""
    while came:
        kind, version, size = struct.unpack(">BHH", came[:5])
        assert kind in (20, 21, 22, 23) and version in (0x0301, 0x0303) and len(came) >= 5 + size, came[:64]
        came = came[5 + size:]


def serves(server):
    secure = ssl.create_default_context(cafile=str(server.tls.authority))
    with secure.wrap_socket(told_to_go(server), server_hostname="localhost") as s:
        login(s)
        s.sendall(frame(1, 3011))
        assert answer(s) == (1, 0, b"")


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def settles(server, before):
    give_up = time.monotonic() + 20
    while descriptors(server) > before:
        assert time.monotonic() < give_up, f"{descriptors(server)} descriptors, {before} before"
        time.sleep(0.05)


def test_garbage_for_a_hello_ends_the_connection(site):
    serves(site)
    before = descriptors(site)
    hello = client_hello(site)
    bent = bytearray(hello)
    bent[5] = 2
    chance = random.Random(7)
    flipped = []
    for _ in range(100):
        one = bytearray(hello)
        for _ in range(chance.randrange(1, 8)):
            one[chance.randrange(len(one))] ^= 1 << chance.randrange(8)
        flipped.append(bytes(one))
    for garbage in [
        LOGIN, HELLO + ABLE + LOGIN, b"GET / HTTP/1.1\r\n\r\n", bytes(5000), b"\xff" * 5000,
        b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16\x03\x01\x00\x00" * 5000, bytes(bent),
        b"\x15\x03\x03\x00\x02\x02\x28", b"\x17\x03\x03\x00\x10" + bytes(16), hello[:-1], hello[:3], b"", hello * 50,
        client_hello(site, minimum_version=ssl.TLSVersion.TLSv1_2, maximum_version=ssl.TLSVersion.TLSv1_2)[:40],
        *(chance.randbytes(chance.randrange(1, 3000)) for _ in range(100)), *flipped,
    ]:
        s = told_to_go(site)
        try:
            s.sendall(garbage)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        in_clear_is_nothing_said(rest(s))
    serves(site)
    settles(site, before)


def test_what_came_in_clear_never_counts_as_encrypted(site):
    """A man in the middle who says something before the hello says it to nobody."""
    hello = client_hello(site)
    for behind in (LOGIN, hello, b"x"):
        s = connect(site)
        s.sendall(HELLO + ABLE + behind)
        came = rest(s)
        # The handshake's answer, that of the protocol request, and nothing to what came behind.
        size = struct.unpack(">i", came[20:24])[0]
        assert len(came) == 24 + size, came
    # Clear bytes after the handshake too.
    context = ssl.create_default_context(cafile=str(site.tls.authority))
    for clear in (LOGIN, b"\x16\x03\x01\x00\x05hello", bytes(100)):
        raw = told_to_go(site)
        secure = context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=True)
        login(secure)
        os.write(secure.fileno(), clear)
        with pytest.raises((ssl.SSLError, EOFError, ConnectionError)):
            answer(secure)
        secure.close()
    serves(site)


def test_tls_from_the_first_byte_is_another_protocol(site):
    """Clients ask for TLS in this protocol's own words, `roots://` too."""
    for first in (client_hello(site), client_hello(site)[:30], b"\x16"):
        s = connect(site)
        s.sendall(first)
        s.shutdown(socket.SHUT_WR)
        assert rest(s) == b""
    serves(site)


def test_who_never_comes_with_a_hello_is_not_waited_for(site):
    """And holds up nobody."""
    before = descriptors(site)
    idle = [told_to_go(site) for _ in range(100)]
    hello = client_hello(site)
    for number, s in enumerate(idle[:50]):
        s.sendall(hello[:number + 1])
    begun = time.monotonic()
    serves(site)
    assert time.monotonic() - begun < 5
    for s in idle:
        s.settimeout(30)
        in_clear_is_nothing_said(rest(s))
    assert 5 < time.monotonic() - begun < 30
    settles(site, before)


def test_who_can_no_tls_shows_no_secret(site, issuer):
    """A server with TLS that lets in by tokens alone offers no such way in clear."""
    site.stop()
    configure(site, **NOBODY)
    site.start()
    try:
        site.admin("issuer", "add", issuer.url, "--audience", AUDIENCE)
        s = connect(site)
        s.sendall(HELLO + frame(0, 3006, struct.pack(">iBB10x", 0x520, 0, 3)) + LOGIN)
        receive(s, 16)
        assert not struct.unpack(">II", answer(s)[2])[1] & GOTO_TLS
        _, status, told = answer(s)
        # It may come in as nobody, is offered no way to prove anything, and is told why by its first request.
        assert status == 0 and b"&P=" not in told, told
        s.sendall(frame(1, 3017, bytes(16), b"/demo"))
        _, status, told = answer(s)
        assert status == 4003 and b"Tokens are taken over TLS only" in told, told
        s.close()
    finally:
        site.stop()
        configure(site, local_user='"demo"')
        site.start()
