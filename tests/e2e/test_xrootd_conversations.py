"""The same commands to the reference server and to Dewar: the same requests, equivalent replies.

Both generations of clients: the tools of 5.5, and the library of 6 for the same commands.
"""

import json
import re
import shutil
import subprocess
import sys

import pytest
from conftest import content
from recorder import Recorder
from reference import Reference
from test_xrootd_tpc import made
from xrootd_tools import TOOLS, bindings_environment, configure, environment

BIG = content("conversation", 9_000_001)


class Side:
    """A server with the recorder before it."""

    def __init__(self, name, port):
        self.name = name
        self.recorder = Recorder("127.0.0.1", port)
        self.host = f"localhost:{self.recorder.port}"

    def run(self, command):
        done = subprocess.run(command, capture_output=True, timeout=120,
                              env=dict(environment(), XRD_NETWORKSTACK="IPv4"))
        return done.returncode

    def bindings(self, calls):
        done = subprocess.run([sys.executable, "-c", CALLS, f"root://{self.host}", json.dumps(calls)],
                              capture_output=True, text=True, timeout=120,
                              env=dict(bindings_environment(), XRD_NETWORKSTACK="IPv4"))
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    reference = Reference().start()
    dewar = made(tmp_path_factory.mktemp("conversations"))
    port = int(dewar.ready["xrootd"]["endpoint"].rsplit(":", 1)[1])
    both = [Side("reference", reference.port), Side("dewar", port)]
    yield both
    for side in both:
        side.recorder.close()
    reference.remove()
    assert not dewar.unexpected(), "\n".join(dewar.unexpected())
    dewar.stop()


# What may be different, and why: a request, what the reference says, what Dewar says.
ALLOWED = [
    (r"^open mode \S+ options [^1]\S* ", r"flags 48 mode 0(\d+) 9 words", r"flags 112 mode 1\1 9 words",
     "every file of Dewar persists on its successful close, as with --posc"),
    (r"^stat options 0 wants 0 $", r"flags 48 mode 0(\d+) 9 words", r"flags 112 mode 1\1 9 words", "the same"),
    (r"^(rmdir|rm|mv) ", r"^error 3005", r"^error 3018", "a directory that is not empty: 3018 since 5.6 of the reference"),
    (r"^stat .*/below$", r"^error 3005", r"^error 3011", "below a file there is nothing: clients take both for absent"),
    (r"^query checksum .*cks.type=none", r"^ok", r"^error 3012",
     "with one algorithm only, the reference gives that whatever was asked for"),
    (r"^query config 'chksum'", r"0:adler32", r"0:adler32,1:crc32c", "Dewar has more of them"),
    (r"^protocol ", r"version 511", r"version 520", "Dewar speaks a later version"),
    (r"^query config 'version'", r"v5", r"dewar-", "another program"),
    (r"^query config 'window'", r"\d+", r"window", "Dewar leaves the size of windows to the kernel"),
    (r"^query visa", r"^error 3000", r"^error 3013", "neither has it"),
    (r"^query prepare", r"^error 3000", r"request_id|^ok$", "everything is online, whoever asked for it"),
    (r"^prepare .*/none", r"^ok", r"^error 3011", "what is not there is told before it is waited for"),
]


def is_allowed(request, reference, dewar):
    for where, first, second, _ in ALLOWED:
        found = re.search(first, reference) if re.search(where, request) else None
        if found and re.search(found.expand(second) if "\\1" in second else second, dewar):
            return True
    return False


def same_result(request, reference, dewar):
    """Whether two errors, or an error and a success, are among what is allowed."""
    return is_allowed(request, *(f"error {its[1]}" if its[1] else "ok" for its in (reference, dewar)))


def compare(reference, dewar):
    """The differences between two conversations that nothing explains, and whether there are others."""
    found, explained = [], False
    asked = [[f"{its.connection} {its.name} {its.request()}" for its in side] for side in (reference, dewar)]
    if asked[0] != asked[1] and sorted(asked[0]) == sorted(asked[1]):
        # Clients that walk trees ask in the order in which answers come.
        reference, dewar = (sorted(side, key=lambda its: (its.connection, its.name, its.request()))
                            for side in (reference, dewar))
    elif asked[0] != asked[1]:
        found.append("requests differ:\n    " + "\n    ".join(asked[0]) + "\n  and\n    " + "\n    ".join(asked[1]))
        return found, False
    for left, right in zip(reference, dewar):
        said = left.answer(), right.answer()
        if said[0] == said[1]:
            continue
        line = f"{left.name} {left.request()}"
        if is_allowed(line, *said):
            explained = True
        else:
            found.append(f"{line}\n    reference: {said[0]}\n    dewar:     {said[1]}")
    return found, explained


def xrdfs(*words):
    return "xrdfs", words


def up(source, target, *options):
    return "up", (source, target, *options)


def down(source, *options):
    return "down", (source, *options)


# Each step builds on those before it.
TOOLS_STEPS = [
    xrdfs("mkdir", "/data/c"),
    up("big", "/data/c/big"),
    up("empty", "/data/c/empty"),
    up("small", "/data/c/small"),
    up("small", "/data/c/small"),
    up("small", "/data/c/small", "-f"),
    up("small", "/data/c/posc", "--posc"),
    up("small", "/data/c/new/deep/file", "-p"),
    up("small", "/data/c/checked", "--cksum", "adler32:print"),
    up("tree", "/data/c/", "-r"),
    down("/data/c/big"),
    down("/data/c/empty"),
    down("/data/c/none"),
    down("/data/c"),
    down("/data/c/small", "--cksum", "adler32:source"),
    down("/data/c/tree/", "-r"),
    down("/data/c/big", "--continue"),
    xrdfs("ls", "/data/c"),
    xrdfs("ls", "-l", "/data/c"),
    xrdfs("ls", "-R", "/data/c"),
    xrdfs("ls", "/data/c/none"),
    xrdfs("ls", "/data/c/small"),
    xrdfs("stat", "/data/c"),
    xrdfs("stat", "/data/c/small"),
    xrdfs("stat", "/data/c/none"),
    xrdfs("stat", "/data/c/small/below"),
    xrdfs("stat", "/data//c///small"),
    xrdfs("statvfs", "/data"),
    xrdfs("locate", "/data/c/small"),
    xrdfs("locate", "/data/c/none"),
    xrdfs("locate", "-r", "/data/c/small"),
    xrdfs("locate", "-d", "/data/c/small"),
    xrdfs("spaceinfo", "/data"),
    xrdfs("cat", "/data/c/small"),
    xrdfs("cat", "/data/c/none"),
    xrdfs("cat", "/data/c"),
    xrdfs("tail", "-c", "50", "/data/c/small"),
    xrdfs("mkdir", "/data/c/made"),
    xrdfs("mkdir", "/data/c/made"),
    xrdfs("mkdir", "/data/c/no/parents"),
    xrdfs("mkdir", "-p", "/data/c/with/parents"),
    xrdfs("mkdir", "/data/c/small"),
    xrdfs("chmod", "/data/c/small", "rw-r-----"),
    xrdfs("stat", "/data/c/small"),
    xrdfs("chmod", "/data/c/none", "rw-r-----"),
    xrdfs("truncate", "/data/c/small", "100"),
    xrdfs("stat", "/data/c/small"),
    xrdfs("truncate", "/data/c/none", "100"),
    xrdfs("truncate", "/data/c/made", "100"),
    xrdfs("mv", "/data/c/small", "/data/c/moved"),
    xrdfs("mv", "/data/c/none", "/data/c/moved2"),
    xrdfs("mv", "/data/c/with", "/data/c/was"),
    xrdfs("mv", "/data/c/moved", "/data/c/made"),
    xrdfs("mv", "/data/c/posc", "/data/c/moved"),
    xrdfs("mv", "/data/c/made", "/data/c/moved"),
    xrdfs("mv", "/data/c/was", "/data/c/tree"),
    xrdfs("mv", "/data/c/was", "/data/c/was/below"),
    xrdfs("rmdir", "/data/c/made"),
    xrdfs("rmdir", "/data/c/was"),
    xrdfs("rmdir", "/data/c/none"),
    xrdfs("rmdir", "/data/c/moved"),
    xrdfs("rm", "/data/c/none"),
    xrdfs("rm", "/data/c/new"),
    xrdfs("rm", "/data/c/was/parents"),
    xrdfs("rm", "/data/c/checked", "/data/c/empty"),
    xrdfs("query", "checksum", "/data/c/big"),
    xrdfs("query", "checksum", "/data/c/big?cks.type=adler32"),
    xrdfs("query", "checksum", "/data/c/big?cks.type=none"),
    xrdfs("query", "checksum", "/data/c/none"),
    *(xrdfs("query", "config", key) for key in
      ["readv_iov_max", "readv_ior_max", "chksum", "tpc", "tpcdlg", "bind_max", "fattr", "pio_max", "role", "version",
       "cms", "sitename", "window", "nonsense"]),
    xrdfs("query", "space", "/data"),
    xrdfs("query", "xattr", "/data/c/big"),
    xrdfs("query", "xattr", "/data/c/none"),
    xrdfs("query", "stats", "a"),
    xrdfs("query", "opaque", "x"),
    xrdfs("query", "opaquefile", "/data/c/big"),
    xrdfs("query", "checksumcancel", "/data/c/big"),
    xrdfs("query", "prepare", "17", "/data/c/big"),
    xrdfs("xattr", "/data/c/big", "set", "one=1"),
    xrdfs("xattr", "/data/c/big", "get", "one"),
    xrdfs("xattr", "/data/c/big", "get", "none"),
    xrdfs("xattr", "/data/c/big", "list"),
    xrdfs("xattr", "/data/c/big", "del", "one"),
    xrdfs("xattr", "/data/c/big", "del", "one"),
    xrdfs("xattr", "/data/c/big", "list"),
    xrdfs("xattr", "/data/c/none", "list"),
    xrdfs("prepare", "-s", "-p", "2", "/data/c/big"),
    xrdfs("prepare", "-s", "/data/c/none"),
    xrdfs("prepare", "-e", "/data/c/big"),
    xrdfs("prepare", "-f", "/data/c/big"),
]


def perform(side, step, folder):
    kind, words = step
    if kind == "xrdfs":
        return side.run([str(TOOLS / "bin" / "xrdfs"), side.host, *words])
    source, *rest = words
    if kind == "up":
        target, *options = rest
        arguments = [folder / source, f"root://{side.host}/{target}"]
    else:
        options = rest
        target = folder / side.name
        target.mkdir(exist_ok=True)
        arguments = [f"root://{side.host}/{source}", target / source.strip("/").rsplit("/")[-1]]
        if "--continue" in options:
            arguments[1].write_bytes(BIG[:5_000_000])
        if "-r" in options:
            arguments[1] = target / "tree-back"
            arguments[1].mkdir()
    return side.run([str(TOOLS / "bin" / "xrdcp"), "--nopbar", *options, *map(str, arguments)])


def test_the_tools_of_the_fifth_generation(sides, tmp_path):
    (tmp_path / "big").write_bytes(BIG)
    (tmp_path / "small").write_bytes(BIG[:5000])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c"):
        (tmp_path / "tree" / name).write_bytes(name.encode())
    found = []
    for step in TOOLS_STEPS:
        results, said = [], []
        for side in sides:
            side.recorder.take()
            results.append(perform(side, step, tmp_path))
            said.append(side.recorder.take())
        command = " ".join([step[0], *step[1]])
        assert said[0], command
        differences, explained = compare(*said)
        if results[0] != results[1] and not explained:
            differences.append(f"ended with {results[0]} and {results[1]}")
        found += [f"{command}\n  {difference}" for difference in differences]
    assert not found, "\n".join(found)
    assert (tmp_path / "dewar" / "big").read_bytes() == BIG


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """The same, where the client may do nothing in `/data/locked`."""
    reference = Reference()
    locked = reference.files / "locked"
    locked.mkdir()
    (locked / "file").write_bytes(b"abc")
    reference.start()
    shutil.chown(locked, "root")
    locked.chmod(0)
    dewar = made(tmp_path_factory.mktemp("strangers"))
    dewar.boto().put_object(Bucket="data", Key="locked/file", Body=b"abc")
    dewar.admin("user", "add", "guest")
    dewar.stop()
    configure(dewar, local_user='"guest"')
    dewar.start()
    port = int(dewar.ready["xrootd"]["endpoint"].rsplit(":", 1)[1])
    both = [Side("reference", reference.port), Side("dewar", port)]
    yield both
    for side in both:
        side.recorder.close()
    reference.remove()
    assert not dewar.unexpected(), "\n".join(dewar.unexpected())
    dewar.stop()


FILE, FOLDER = "/data/locked/file", "/data/locked"
# A command of xrdfs, and the same of the library.
DENIED = [
    (("stat", FILE), ("stat", FILE)),
    (("ls", FOLDER), ("dirlist", FOLDER, 0)),
    (("ls", "-l", FOLDER), ("dirlist", FOLDER, "=flags.DirListFlags.STAT")),
    (("cat", FILE), ("open", "a", FILE, "=flags.OpenFlags.READ")),
    (("tail", FILE), ("open", "a", FILE, "=flags.OpenFlags.UPDATE")),
    (("rm", FILE), ("rm", FILE)),
    (("mkdir", f"{FOLDER}/new"), ("mkdir", f"{FOLDER}/new", 0, 0)),
    (("mkdir", "-p", f"{FOLDER}/a/b"), ("mkdir", f"{FOLDER}/a/b", "=flags.MkDirFlags.MAKEPATH", 0)),
    (("rmdir", f"{FOLDER}/dir"), ("rmdir", f"{FOLDER}/dir")),
    (("mv", FILE, f"{FOLDER}/moved"), ("mv", FILE, f"{FOLDER}/moved")),
    (("chmod", FILE, "rw-------"), ("chmod", FILE, 0)),
    (("truncate", FILE, "1"), ("truncate", FILE, 1)),
    (("xattr", FILE, "set", "a=b"), ("set_xattr", FILE, [["a", "b"]])),
    (("xattr", FILE, "get", "a"), ("get_xattr", FILE, ["a"])),
    (("xattr", FILE, "list"), ("list_xattr", FILE)),
    (("xattr", FILE, "del", "a"), ("del_xattr", FILE, ["a"])),
    (("query", "checksum", FILE), ("query", "=flags.QueryCode.CHECKSUM", FILE)),
    (("query", "xattr", FILE), ("query", "=flags.QueryCode.XATTR", FILE)),
    (("locate", FILE), ("locate", FILE, 0)),
]


@pytest.mark.parametrize("command, call", DENIED, ids=lambda its: "_".join(its[:2]).strip("/").replace("/", "_"))
def test_who_may_not_is_told_so(strangers, command, call):
    codes = []
    for side in strangers:
        side.recorder.take()
        code = side.run([str(TOOLS / "bin" / "xrdfs"), side.host, *command])
        fifth = side.recorder.take()[-1]
        side.bindings([call])
        sixth = side.recorder.take()[-1]
        codes.append(code)
        for exchange in (fifth, sixth):
            # The reference says of each attribute by itself that it may not be touched.
            of_attributes = side.name == "reference" and r"\x0b\xc2" in exchange.answer()
            assert of_attributes or exchange.answer() == "error 3010", (side.name, str(exchange))
    assert codes == [54, 54]


CALLS = """
import hashlib, json, os, sys
from XRootD import client
from XRootD.client import flags
base, calls = sys.argv[1], json.loads(sys.argv[2])
fs = client.FileSystem(base)
files = {}
out = []
for call in calls:
    name, *arguments = call
    arguments = [eval(its[1:], {"flags": flags}) if isinstance(its, str) and its.startswith("=") else its
                 for its in arguments]
    if arguments and isinstance(arguments[-1], list) and isinstance(arguments[-1][0], list):
        arguments[-1] = [tuple(its) for its in arguments[-1]]
    if name == "open":
        key, path, *rest = arguments
        files[key] = client.File()
        status, _ = files[key].open(base + "/" + path, *rest)
    elif "." in name:
        key, name = name.split(".")
        status, _ = getattr(files[key], name)(*arguments)
    else:
        status, _ = getattr(fs, name)(*arguments)
    out.append([status.code, status.errno])
print(json.dumps(out), flush=True)
os._exit(0)
"""

Q = "=flags.QueryCode."
CALL_STEPS = [
    ("names", [
        ("mkdir", "/data/d", 0, 0), ("mkdir", "/data/d", 0, 0), ("mkdir", "/data/d/x/y", 0, 0),
        ("mkdir", "/data/d/x/y", "=flags.MkDirFlags.MAKEPATH", 0), ("dirlist", "/data/d", 0),
        ("dirlist", "/data/d", "=flags.DirListFlags.STAT"), ("dirlist", "/data/d/none", 0),
        ("rmdir", "/data/d/x"), ("rmdir", "/data/d/none"), ("rm", "/data/d/x/y"), ("rm", "/data/d/none"),
        ("rmdir", "/data/d/x"), ("mkdir", "/data/d/z", 0, 0), ("mv", "/data/d/z", "/data/d/w"),
        ("mv", "/data/d/none", "/data/d/v"), ("stat", "/data/d/w"), ("stat", "/data/d/none"), ("statvfs", "/data"),
        ("locate", "/data/d", 0), ("locate", "/data/d/none", 0), ("chmod", "/data/d/none", 0),
        ("truncate", "/data/d/none", 5), ("ping",), ("sendinfo", "hello"),
    ]),
    ("files", [
        ("open", "a", "/data/d/f", "=flags.OpenFlags.NEW"), ("a.write", "0123456789" * 1000),
        ("a.write", "abc", 5000), ("a.sync",), ("a.stat", True), ("a.truncate", 9000), ("a.close",),
        ("open", "b", "/data/d/f", "=flags.OpenFlags.NEW"), ("open", "b", "/data/d/none", 0),
        ("open", "b", "/data/d", 0), ("open", "b", "/data/d/f", "=flags.OpenFlags.READ"), ("b.read", 0, 100),
        ("b.read", 8990, 100), ("b.read", 9000, 100), ("b.read", 20000, 100), ("b.stat", True), ("b.stat", False),
        ("b.vector_read", [[0, 10], [5000, 3], [8990, 10]]), ("b.vector_read", [[0, 1]] * 1024),
        ("b.vector_read", [[0, 1]] * 1025), ("b.vector_read", [[8999, 2]]), ("b.write", "no", 0), ("b.close",),
        ("open", "c", "/data/d/f", "=flags.OpenFlags.UPDATE"), ("c.write", "updated", 10), ("c.read", 8, 12),
        ("c.close",), ("open", "e", "/data/d/made/with/parents", "=flags.OpenFlags.NEW | flags.OpenFlags.MAKEPATH"),
        ("e.close",), ("truncate", "/data/d/f", 10), ("stat", "/data/d/f"), ("mv", "/data/d/f", "/data/d/g"),
        ("mkdir", "/data/d/g", 0, 0), ("rmdir", "/data/d/g"), ("rm", "/data/d/made"), ("rm", "/data/d/g"),
    ]),
    ("questions", [
        ("open", "a", "/data/d/q", "=flags.OpenFlags.NEW"), ("a.write", "0123456789"), ("a.close",),
        ("query", Q + "CONFIG", "readv_iov_max readv_ior_max tpc"), ("query", Q + "CHECKSUM", "/data/d/q"),
        ("query", Q + "CHECKSUM", "/data/d/none"), ("query", Q + "SPACE", "/data"), ("query", Q + "XATTR", "/data/d/q"),
        ("query", Q + "STATS", "a"), ("query", Q + "OPAQUE", "x"), ("query", Q + "OPAQUEFILE", "/data/d/q"),
        ("query", Q + "VISA", "x"), ("query", Q + "PREPARE", "17"), ("query", Q + "CHECKSUMCANCEL", "/data/d/q"), ("prepare", ["/data/d/q"], "=flags.PrepareFlags.STAGE"),
        ("prepare", ["/data/d/none"], "=flags.PrepareFlags.STAGE"),
        ("set_xattr", "/data/d/q", [["k", "v"], ["l", "w"]]), ("get_xattr", "/data/d/q", ["k", "none"]),
        ("list_xattr", "/data/d/q"), ("del_xattr", "/data/d/q", ["k", "none"]), ("list_xattr", "/data/d/none"),
    ]),
]


def test_the_library_of_the_sixth_generation(sides):
    found = []
    for name, calls in CALL_STEPS:
        results, said = [], []
        for side in sides:
            side.recorder.take()
            results.append(side.bindings(calls))
            said.append(side.recorder.take())
        assert said[0], name
        found += [f"{name}\n  {difference}" for difference in compare(*said)[0]]
        for call, left, right in zip(calls, *results):
            request = " ".join(str(its) for its in call).replace("=flags.QueryCode.", "").lower()
            if left != right and not same_result(request, left, right):
                found.append(f"{name} {call}: {left} and {right}")
    assert not found, "\n".join(found)


# A command of xrdfs, or a code of its `query`, and what asks the same in the library's steps.
COMMANDS = {
    "chmod": "chmod", "ls": "dirlist", "locate": "locate", "mkdir": "mkdir", "mv": "mv", "stat": "stat", "statvfs": "statvfs",
    "rm": "rm", "rmdir": "rmdir", "truncate": "truncate", "prepare": "prepare", "cat": "b.read", "tail": "c.read",
    "spaceinfo": "SPACE", "xattr": "set_xattr",
}
CODES = {
    "config": "CONFIG", "checksum": "CHECKSUM", "opaque": "OPAQUE", "opaquefile": "OPAQUEFILE", "space": "SPACE",
    "stats": "STATS", "xattr": "XATTR", "prepare": "PREPARE", "checksumcancel": "CHECKSUMCANCEL",
}
# They are answered by the program itself.
LOCAL = {"exit", "help", "cd", "query", "cache"}


def test_no_command_is_left_out():
    """What the program's own help names is compared above, in both generations."""
    told = subprocess.run([str(TOOLS / "bin" / "xrdfs"), "localhost:1", "help"], capture_output=True, text=True,
                          env=environment()).stdout
    commands = set(re.findall(r"^   (\w+)(?: |$)", told.split("Available commands:")[1], re.M)) - LOCAL
    codes = set(re.findall(r"^     (\w+) +<", told.split("query <code>")[1].split("\n   rm ")[0], re.M))
    assert len(commands) > 12 and len(codes) > 7, told
    fifth = [words for kind, words in TOOLS_STEPS if kind == "xrdfs"]
    sixth = {word.removeprefix(Q) for _, calls in CALL_STEPS for call in calls for word in call if isinstance(word, str)}
    assert commands <= {words[0] for words in fifth}, commands - {words[0] for words in fifth}
    assert codes <= {words[1] for words in fifth if words[0] == "query"}
    for command in commands | codes:
        assert (COMMANDS.get(command) or CODES[command]) in sixth, command
