"""Puts a folder onto a server: upload.py LOCATION BUCKET FOLDER. Written for the sample files of XRootD's own
tests, whose metalinks name checksums and servers, which are filled in here."""

import os
import re
import sys
from pathlib import Path

# Metalinks are files here, and not what they lead to. The client reads this when it is loaded.
os.environ["XRD_METALINKPROCESSING"] = "0"

from XRootD import client
from XRootD.client.flags import MkDirFlags, OpenFlags, QueryCode

CHUNK = 8 << 20


def must(outcome, doing):
    status = outcome[0] if isinstance(outcome, tuple) else outcome
    if not status.ok:
        sys.exit(f"{doing}: {status.message}")
    return outcome[1] if isinstance(outcome, tuple) else None


class Server:
    def __init__(self, location, bucket):
        self.location, self.bucket = location, bucket
        self.names = client.FileSystem(f"root://{location}")
        must(self.names.mkdir(f"/{bucket}", MkDirFlags.MAKEPATH), f"make /{bucket}")

    def put(self, name, chunks):
        file = client.File()
        flags = OpenFlags.DELETE | OpenFlags.UPDATE | OpenFlags.MAKEPATH
        must(file.open(f"root://{self.location}//{self.bucket}/{name}", flags), f"open {name}")
        at = 0
        for chunk in chunks:
            must(file.write(chunk, offset=at), f"write {name}")
            at += len(chunk)
        must(file.close(), f"close {name}")

    def crc32c(self, name):
        query = f"/{self.bucket}/{name}?cks.type=crc32c"
        said = must(self.names.query(QueryCode.CHECKSUM, query), f"ask for the checksum of {name}")
        return said.decode().strip("\0").split()[1]


def chunks_of(path):
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def main(location, bucket, folder):
    server, folder = Server(location, bucket), Path(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    metalinks = [path for path in files if path.suffix in (".meta4", ".metalink")]
    for path in files:
        if path not in metalinks:
            server.put(path.relative_to(folder), chunks_of(path))
    for path in metalinks:
        text = path.read_text()
        named = re.search(r"root://localhost:\d+//data/([^<]*)</url>", text)
        if named and named[1].endswith(".dat") and (folder / named[1]).exists():
            size = (folder / named[1]).stat().st_size
            text = re.sub(r"<size>.*</size>", f"<size>{size}</size>", text)
            sums = f'<hash type="crc32c">{server.crc32c(named[1])}</hash>'
            text = re.sub(r'<hash type="z?crc32c?">.*</hash>', sums, text)
        text = re.sub(r"root://localhost:\d+//data/", f"root://{location}//{bucket}/", text)
        server.put(path.relative_to(folder), [text.encode()])


main(*sys.argv[1:])
