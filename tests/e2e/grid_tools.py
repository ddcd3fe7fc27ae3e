"""davix, gfal2 and Rucio against the WebDAV door with TLS: where they find the server, and their environment."""

import os
import subprocess

from xrootd_tools import TOOLS, environment

LIBRARIES = TOOLS / "lib" / "x86_64-linux-gnu"


class Site:
    """A bucket behind the https door of a demo, and the same files over S3 to compare with."""

    def __init__(self, server, bucket):
        webdav = server.ready["webdav"]
        self.server, self.bucket = server, bucket
        self.https, self.token = webdav["tls_endpoint"], webdav["token"]
        self.authorities = webdav["ca_dir"]
        self.authority = next(entry.path for entry in os.scandir(self.authorities) if entry.name.endswith(".0"))

    def url(self, path="", scheme="https"):
        return f"{self.https.replace('https', scheme, 1)}/{self.bucket}/{path}"

    def put(self, path, data):
        self.server.boto().put_object(Bucket=self.bucket, Key=path, Body=data)

    def get(self, path):
        return self.server.boto().get_object(Bucket=self.bucket, Key=path)["Body"].read()

    def names(self):
        listed = self.server.boto().list_objects_v2(Bucket=self.bucket)
        return {entry["Key"] for entry in listed.get("Contents", [])}

    def variables(self, **more):
        """The environment of a client with a token. A name with the value None is taken out."""
        told = environment() | {
            "X509_CERT_DIR": self.authorities, "BEARER_TOKEN": self.token, "XRD_NETWORKSTACK": "IPv4",
            "PYTHONPATH": str(TOOLS / "lib" / "python3" / "dist-packages"),
            "GFAL_PLUGIN_DIR": str(LIBRARIES / "gfal2-plugins"),
            "GFAL_CONFIG_DIR": str(TOOLS.parent / "etc" / "gfal2.d")} | more
        return {name: value for name, value in told.items() if value is not None}

    def run(self, *words, check=True, environment=None, text=True, **options):
        done = subprocess.run([str(word) for word in words], env=environment or self.variables(), capture_output=True,
                              text=text, timeout=120, **options)
        if check:
            assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def gfal(self, command, *words, check=True, **options):
        """One of gfal2's programs, with the Python that its library was built for."""
        return self.run("/usr/bin/python3", TOOLS / "bin" / f"gfal-{command}", *words, check=check, **options)
