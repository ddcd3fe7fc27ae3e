"""The reference server of Debian, as the other end of third-party copies over XRootD and HTTP."""

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from server import free_port_base
from xrootd_tools import TOOLS, environment

# It does not run as root.
USER = "nobody"


class Reference:
    """One server with one export, `/data`, in a folder of its own: pytest's are for their owner alone."""

    def __init__(self, *, checksums=True, tls=None):
        """With `tls`, a `Certificate`, it also serves HTTP with TLS on its port, and takes macaroons only."""
        self.folder = Path(tempfile.mkdtemp(prefix="reference-"))
        self.folder.chmod(0o755)
        self.files = self.folder / "root" / "data"
        self.files.mkdir(parents=True)
        (self.folder / "admin").mkdir()
        self.port = None
        # Its own copies run a program that finds its libraries nowhere else.
        program = self.folder / "fetch"
        program.write_text(f"""#!/bin/sh
export LD_LIBRARY_PATH={environment()["LD_LIBRARY_PATH"]} XRD_NETWORKSTACK=IPv4
exec {TOOLS}/bin/xrdcp --server "$@"
""")
        program.chmod(0o755)
        self.config = self.folder / "xrootd.cf"
        self.config.write_text(f"""
xrd.allow host *
xrd.network nodnr
all.export /data
all.adminpath {self.folder}/admin
all.pidpath {self.folder}/admin
oss.localroot {self.folder}/root
{"xrootd.chksum max 2 adler32" if checksums else ""}
ofs.tpc autorm ttl 15 60 xfr 4 pgm {program}
{self.with_http(tls) if tls else ""}
""")
        self.process = None

    def with_http(self, tls):
        """The lines for its plugins. It cannot read the certificate of the tests where that is."""
        own = self.folder / "tls"
        shutil.copytree(tls.authorities, own / "ca")
        for name, path in (("cert.pem", tls.certificate), ("key.pem", tls.key)):
            shutil.copy(path, own / name)
            (own / name).chmod(0o600)
        self.secret = os.urandom(64)
        (self.folder / "secret").write_text(base64.b64encode(self.secret).decode() + "\n")
        (self.folder / "secret").chmod(0o600)
        return f"""
xrd.protocol http libXrdHttp.so
xrd.tls {own}/cert.pem {own}/key.pem
xrd.tlsca certdir {own}/ca
all.sitename reference
http.listingdeny no
http.exthandler xrdtpc libXrdHttpTPC.so
http.exthandler xrdmacaroons libXrdMacaroons.so
tpc.timeout 30 30
http.header2cgi Authorization authz
macaroons.secretkey {self.folder}/secret
ofs.authlib libXrdMacaroons.so
ofs.authorize
"""

    def macaroon(self, *activities, path="/"):
        """What it would have given to somebody who may do so."""
        from pymacaroons import Macaroon
        made = Macaroon(location="reference", identifier="tests", key=self.secret)
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        for caveat in ("name:nobody", f"activity:{','.join(activities)}", f"path:{path}", f"before:{ends}"):
            made.add_first_party_caveat(caveat)
        return made.serialize()

    def start(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            # What an earlier run left may lead to nothing.
            if not path.is_symlink():
                shutil.chown(path, USER)
        # A port that was free a moment ago may not be any more.
        for _ in range(5):
            self.port = free_port_base()
            if self.listens():
                return self
        raise RuntimeError(self.log())

    def listens(self):
        self.process = subprocess.Popen(
            [str(TOOLS / "bin" / "xrootd"), "-I", "v4", "-R", USER, "-c", str(self.config), "-p", str(self.port),
             "-l", str(self.folder / "log"), "-n", "test"],
            cwd=self.folder / "admin", env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up = time.monotonic() + 30
        while self.process.poll() is None:
            try:
                # Whoever else has the port does not keep this one alive.
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                time.sleep(0.1)
                return self.process.poll() is None
            except OSError:
                assert time.monotonic() < give_up, self.log()
                time.sleep(0.05)
        return False

    def log(self):
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in self.folder.rglob("log"))

    def stop(self):
        if self.process and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, name, data):
        path = self.files / name
        path.write_bytes(data)
        shutil.chown(path, USER)

    def get(self, name):
        return (self.files / name).read_bytes()

    def https(self, name):
        return f"https://localhost:{self.port}/data/{name}"

    def url(self, name):
        return f"root://localhost:{self.port}//data/{name}"
