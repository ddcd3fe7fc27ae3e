"""TLS of the WebDAV door: protocols, sessions, new certificates, and both families of addresses."""

import shutil
import signal
import socket
import ssl
import subprocess

import pytest
import requests
from conftest import until
from grid_tools import Site
from server import Server
from xrootd_tools import TOOLS, Certificate, configure


def connect(server, context, host="127.0.0.1", session=None):
    port = int(server.ready["webdav"]["tls_endpoint"].rsplit(":", 1)[1])
    raw = socket.create_connection((host, port), timeout=20)
    return context.wrap_socket(raw, server_hostname=host, session=session)


def trusting(server, *protocols):
    context = ssl.create_default_context(capath=server.ready["webdav"]["ca_dir"])
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def options(s):
    s.sendall(b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s.recv(4096)


def test_it_speaks_one_protocol(server):
    with connect(server, trusting(server, "h2", "http/1.1")) as s:
        assert s.selected_alpn_protocol() == "http/1.1"
        assert options(s).startswith(b"HTTP/1.1 200")
    with connect(server, trusting(server)) as s:
        assert options(s).startswith(b"HTTP/1.1 200")
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        connect(server, trusting(server, "h2"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(server, version):
    """Each file of a job is a new connection: the second needs no signature."""
    context = trusting(server)
    context.minimum_version = context.maximum_version = version
    with connect(server, context) as s:
        assert options(s).startswith(b"HTTP/1.1 200") and not s.session_reused
        session = s.session
    with connect(server, context, session=session) as s:
        assert options(s).startswith(b"HTTP/1.1 200") and s.session_reused


def test_a_plain_address_takes_no_tls_and_the_other_nothing_else(server):
    webdav = server.ready["webdav"]
    assert requests.options(webdav["endpoint"], timeout=20).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.options(webdav["endpoint"].replace("http", "https", 1), verify=False, timeout=20)
    with pytest.raises(requests.ConnectionError):
        requests.options(webdav["tls_endpoint"].replace("https", "http", 1), timeout=20)


@pytest.fixture
def dual(tmp_path):
    """A server on both families of addresses, whose certificate comes from elsewhere."""
    tls, server = Certificate(tmp_path), Server(tmp_path / "own")
    server.start()
    server.stop()
    for path in (tls.certificate, tls.key):
        shutil.copy(path, server.data)
    # The demo sets the ports.
    configure(server, "webdav", tls_certificate_file='"cert.pem"', tls_key_file='"key.pem"',
              listen='["127.0.0.1:1", "[::1]:1"]', plain_listen='"[::1]:1"')
    server.tls = tls
    yield server
    server.kill()
    assert not server.unexpected(), "\n".join(server.unexpected())


def test_a_certificate_is_replaced_on_a_signal(dual):
    dual.start()

    def shown():
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with connect(dual, context) as s:
            return s.getpeercert(binary_form=True)

    before = shown()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=new",
                    "-keyout", dual.data / "key.pem", "-out", dual.data / "cert.pem"], check=True, capture_output=True)
    dual.process.send_signal(signal.SIGHUP)
    until("the new certificate is shown", lambda: shown() != before, seconds=20)
    assert "new TLS certificate in use" in dual.log_path.read_text()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_both_families_and_addresses_in_brackets(dual, tmp_path):
    dual.start()
    port = dual.ready["webdav"]["tls_endpoint"].rsplit(":", 1)[1]
    told = dual.admin("status")["doors"]
    assert {door["endpoint"] for door in told if door["name"] == "webdav"} == {
        f"https://127.0.0.1:{port}", f"https://[::1]:{port}", dual.ready["webdav"]["endpoint"]}
    token = {"Authorization": f"Bearer {dual.ready['webdav']['token']}"}
    (tmp_path / "up").write_bytes(b"over IPv6")
    for host in ("127.0.0.1", "[::1]"):
        there = f"https://{host}:{port}/demo/{host[1:4]}"
        done = subprocess.run(["curl", "-sSk", "--fail", "-T", tmp_path / "up", "-H", f"Authorization: {token['Authorization']}", there],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        # A destination with a literal is this server.
        moved = requests.request("MOVE", there, headers=token | {"Destination": there + ".moved"}, verify=False, timeout=20)
        assert moved.status_code == 201, moved.text
    site = Site(dual, "demo")
    assert len(site.names()) == 2
    # Over https davix puts the brackets into the name that it announces, which no TLS library takes that obeys RFC 6066.
    there = f"{dual.ready['webdav']['endpoint']}/demo/"
    assert there.startswith("http://[::1]:")
    ls = site.run(TOOLS / "bin" / "davix-ls", "-H", f"Authorization: {token['Authorization']}", there)
    assert len(ls.stdout.split()) == 2, ls.stdout


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_one_address_for_both_families(dual):
    """And a client over IPv4 counts as one: its secrets are taken in clear from this machine only."""
    configure(dual, "webdav", listen='"[::]:1"', plain_listen='"[::]:2"')
    dual.start()
    for name in ("endpoint", "tls_endpoint"):
        scheme, port = (dual.ready["webdav"][name].split("://")[0], dual.ready["webdav"][name].rsplit(":", 1)[1])
        for host in ("127.0.0.1", "[::1]"):
            answer = requests.get(f"{scheme}://{host}:{port}/demo/", auth=(dual.s3["access_key"], dual.s3["secret_key"]),
                                  verify=False, timeout=20)
            assert answer.status_code == 200, (name, host, answer.text)
