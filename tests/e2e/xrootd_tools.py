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


def xrdfs(server, *arguments, check=True, **options):
    return run("xrdfs", address(server), *arguments, check=check, **options)


def configure(server, section="xrootd", **values):
    """Sets keys of a section for the next start; values as the file has them."""
    config = server.data / "dewar.toml"
    lines = config.read_text().splitlines()
    start = lines.index(f"[{section}]") + 1
    end = next((at for at, line in enumerate(lines) if at >= start and line.startswith("[")), len(lines))
    kept = [line for line in lines[start:end] if line.split(" =")[0] not in values]
    said = [f"{name} = {value}" for name, value in values.items()]
    config.write_text("\n".join([*lines[:start], *said, *kept, *lines[end:]]) + "\n")


NOBODY = {"local_user": '""'}  # nobody is let in for running on this machine


class Certificate:
    """Of a localhost, by an authority of its own, and a folder of authorities as these clients want it."""

    def __init__(self, folder):
        self.authorities = folder / "ca"
        self.authorities.mkdir()
        self.authority = self.authorities / "ca.pem"
        self.certificate = folder / "cert.pem"
        self.key = folder / "key.pem"

        def openssl(*arguments):
            done = subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, text=True)
            return done.stdout.strip()

        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test authority",
                "-keyout", folder / "ca-key.pem", "-out", self.authority)
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", self.key,
                "-out", folder / "request.pem")
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("x509", "-req", "-days", "2", "-in", folder / "request.pem", "-CA", self.authority,
                "-CAkey", folder / "ca-key.pem", "-CAcreateserial", "-extfile", folder / "names",
                "-out", self.certificate)
        subject = openssl("x509", "-hash", "-noout", "-in", self.authority)
        (self.authorities / f"{subject}.0").write_bytes(self.authority.read_bytes())
        self.trusted = {"X509_CERT_DIR": str(self.authorities)}

    def configure(self, server):
        configure(server, tls_certificate_file=f'"{self.certificate}"', tls_key_file=f'"{self.key}"')


def address(server):
    return server.ready["xrootd"]["endpoint"].split("://", 1)[1]


def url(server, path):
    return f"root://{address(server)}/{path}"


def bindings_environment():
    clean = environment()
    # They bring libraries of their own.
    del clean["LD_LIBRARY_PATH"]
    return clean


def python(code, *arguments, check=True, **options):
    """Runs code in a process of its own: the bindings keep threads and connections for ever."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, timeout=180, env=dict(bindings_environment(), **options))
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
