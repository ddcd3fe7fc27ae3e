"""A proxy that writes down what an XRootD client and a server say to each other, in words that can be compared."""

import hashlib
import re
import socket
import struct
import threading

NAMES = dict(enumerate(
    "auth query chmod close dirlist gpfile protocol login mkdir mv open ping chkpoint read rm rmdir sync stat set write "
    "fattr prepare statx endsess bind readv pgwrite locate truncate sigver pgread writev clone".split(), start=3000))
OK, OKSOFAR, ATTN, AUTHMORE, ERROR, REDIRECT, WAIT, WAITRESP, STATUS = (0, *range(4000, 4008))
STATUSES = {OK: "ok", AUTHMORE: "authmore", ERROR: "error", REDIRECT: "redirect", WAIT: "wait", WAITRESP: "waitresp"}
QUERIES = {1: "stats", 2: "prepare", 3: "checksum", 4: "xattr", 5: "space", 6: "ckscan", 7: "config", 8: "visa",
           16: "opaque", 32: "opaquefile", 64: "opaquehandle"}
PAGE = 4096


def text(data):
    return data.rstrip(b"\0").decode(errors="replace")


def digest(data):
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:8]}"


class Exchange:
    """A request and what became of it."""

    def __init__(self, connection, header, arguments):
        self.connection = connection
        self.stream = header[:2]
        self.code, = struct.unpack(">H", header[2:4])
        self.name = NAMES.get(self.code, str(self.code))
        self.body = header[4:20]
        self.arguments = arguments
        self.data = b""
        self.pages = b""
        self.offset = None
        self.reply = None

    def request(self):
        """What was asked, without what every run has anew: handles, processes, sessions."""
        b, arguments = self.body, self.arguments
        match self.name:
            case "protocol":
                version, flags, expect = struct.unpack(">IBB", b[:6])
                return f"version {version:x} flags {flags:x} expect {expect}"
            case "login":
                return f"abilities {b[12]:x} {b[13]:x} version {b[14]:x}"
            case "open":
                mode, options, more = struct.unpack(">HHH", b[:6])
                return f"mode {mode:o} options {options:x} {more:x} {self.path(text(arguments))}"
            case "read" | "pgread":
                offset, size = struct.unpack(">qI", b[4:16])
                return f"at {offset} for {size} args {len(arguments)}"
            case "write" | "pgwrite":
                offset, path, flags = struct.unpack(">qBB", b[4:14])
                return f"at {offset} path {path} flags {flags} {digest(arguments)}"
            case "readv":
                items = [struct.unpack(">Iq", arguments[at + 4:at + 16]) for at in range(0, len(arguments), 16)]
                return f"{len(items)} items {digest(repr(items).encode())}"
            case "writev":
                return f"options {b[0]} {len(arguments) // 16} items"
            case "stat":
                wants, = struct.unpack(">I", b[8:12])
                return f"options {b[0]} wants {wants} {text(arguments)}"
            case "dirlist":
                return f"options {b[15]:x} {text(arguments)}"
            case "mkdir":
                return f"options {b[0]} mode {struct.unpack('>H', b[14:16])[0]:o} {text(arguments)}"
            case "chmod":
                return f"mode {struct.unpack('>H', b[14:16])[0]:o} {text(arguments)}"
            case "mv":
                return f"cut {struct.unpack('>H', b[14:16])[0]} {text(arguments)}"
            case "truncate":
                return f"size {struct.unpack('>q', b[4:12])[0]} {text(arguments)}"
            case "locate":
                return f"options {struct.unpack('>H', b[:2])[0]:x} {text(arguments)}"
            case "query":
                kind, = struct.unpack(">H", b[:2])
                return f"{QUERIES.get(kind, kind)} {text(arguments)!r}"
            case "prepare":
                options, priority, _, more = struct.unpack(">BBHH", b[:6])
                return f"options {options:x} {more:x} priority {priority} {text(arguments)!r}"
            case "fattr":
                return f"{'del get list set'.split()[b[4]]} {b[5]} options {b[6]:x} {arguments!r}"
            case "chkpoint":
                return f"action {b[15]}"
            case "set":
                return "..."
        return text(arguments)

    @staticmethod
    def path(sent):
        # Keys of third-party copies and the like are made anew.
        return re.sub(r"tpc\.key=[^&]*", "tpc.key=...", sent)

    def answer(self):
        """What was answered, in the same way."""
        if self.reply is None:
            return "nothing"
        status, body = self.reply
        if status == ERROR:
            return f"error {struct.unpack('>I', body[:4])[0]}"
        if status == STATUS:
            return f"pages from {self.offset}: {digest(self.pages)}"
        if status != OK:
            return STATUSES.get(status, str(status))
        body = self.data + body
        shape = getattr(self, "say_" + self.name, None)
        return f"ok {shape(body) if shape else repr(body)}"

    def say_protocol(self, body):
        version, flags = struct.unpack(">II", body[:8])
        # What both can do without keys and certificates.
        return f"version {version:x} flags {flags:x} and {len(body) - 8} bytes"

    def say_login(self, body):
        return f"session and {body[16:]!r}"

    def say_bind(self, body):
        return f"stream {body[0]}"

    def say_open(self, body):
        if len(body) == 4:
            return "handle"
        return f"handle and {body[4:12]!r} and {stat(text(body[12:]))}"

    def say_stat(self, body):
        if self.body[0] & 1:
            return f"{len(text(body).split())} numbers of a file system"
        return f"{stat(text(body))}{' NUL' if body.endswith(bytes(1)) else ''}"

    def say_read(self, body):
        return digest(body)

    def say_readv(self, body):
        # Each piece repeats what was asked, but for its handle.
        out, at = [], 0
        while at < len(body):
            size, offset = struct.unpack(">Iq", body[at + 4:at + 16])
            out.append((offset, digest(body[at + 16:at + 16 + size])))
            at += 16 + size
        return f"{len(out)} pieces {digest(repr(out).encode())}"

    def say_dirlist(self, body):
        end = "NUL" if body.endswith(bytes(1)) else ""
        lines = text(body).split("\n")
        if not self.body[15] & 2:
            return f"{sorted(lines)} {end}"
        head, lines = lines[:2], lines[2:]
        entries = sorted(f"{name}: {stat(line)}" for name, line in zip(lines[::2], lines[1::2]))
        return f"{head} {entries} {end}"

    def say_locate(self, body):
        return re.sub(r"\[[^]]*\]:\d+", "ADDRESS", text(body))

    def say_query(self, body):
        kind = QUERIES.get(struct.unpack(">H", self.body[:2])[0])
        said = text(body)
        end = "NUL" if body.endswith(bytes(1)) else ""
        match kind:
            case "space" | "xattr":
                return f"{[pair.split('=')[0] for pair in said.split('&')]}"
            case "stats":
                return f"{said[:16]} {end}"
        return f"{said!r} {end}"

    def say_prepare(self, body):
        return "an id" if body else "nothing"

    def say_set(self, body):
        return f"{len(body)} bytes"

    def say_fattr(self, body):
        if self.body[4] != 2:
            return repr(body)
        # A list, in any order.
        found = []
        while body:
            name, _, body = body.partition(b"\0")
            size, = struct.unpack(">I", body[:4])
            found.append((name, body[4:4 + size]))
            body = body[4 + size:]
        return repr(sorted(found))

    def __str__(self):
        return f"{self.connection} {self.name} {self.request()} -> {self.answer()}"


def stat(said):
    """What does not depend on the disks and the clock."""
    said, _, checksum = said.partition(" [ ")
    words = said.split()
    flags = int(words[2])
    kind = "folder" if flags & 2 else f"file of {words[1]}"
    mode = words[6] if len(words) > 6 else ""
    return f"{kind} flags {flags} mode {mode} {len(words)} words{' [ ' + checksum if checksum else ''}"


class Recorder:
    """Stands before one server."""

    def __init__(self, host, port):
        self.upstream = (host, port)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.exchanges = []
        self.connections = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.socket.close()

    def take(self):
        """What was said since the last time."""
        with self.lock:
            said, self.exchanges, self.connections = self.exchanges, [], 0
        # Connections side by side: each for itself, in the order in which they were opened.
        return sorted(said, key=lambda exchange: exchange.connection)

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                number = self.connections
            server = socket.create_connection(self.upstream)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asked = {}
            for work in (self.requests, self.replies):
                threading.Thread(target=self.guarded, args=(work, number, client, server, asked), daemon=True).start()

    @staticmethod
    def guarded(work, *arguments):
        number, client, server, asked = arguments
        try:
            work(*arguments)
        except (EOFError, OSError):
            for end in (client, server):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    @staticmethod
    def exactly(end, size):
        out = bytearray()
        while len(out) < size:
            piece = end.recv(size - len(out))
            if not piece:
                raise EOFError
            out += piece
        return bytes(out)

    def requests(self, number, client, server, asked):
        server.sendall(self.exactly(client, 20))
        while True:
            header = self.exactly(client, 24)
            arguments = self.exactly(client, struct.unpack(">I", header[20:])[0])
            exchange = Exchange(number, header, arguments)
            more = b""
            if exchange.name == "writev":
                sizes = [struct.unpack(">I", arguments[at + 4:at + 8])[0] for at in range(0, len(arguments), 16)]
                more = self.exactly(client, sum(sizes))
            with self.lock:
                asked[header[:2]] = exchange
                self.exchanges.append(exchange)
            server.sendall(header + arguments + more)

    def replies(self, number, client, server, asked):
        client.sendall(self.exactly(server, 16))
        while True:
            header = self.exactly(server, 8)
            status, size = struct.unpack(">HI", header[2:])
            body = self.exactly(server, size)
            pages = b""
            if status == STATUS:
                pages = self.exactly(server, struct.unpack(">I", body[12:16])[0])
            with self.lock:
                stream = header[:2]
                if status == ATTN and struct.unpack(">I", body[:4])[0] == 5008:
                    # The reply to a request that was told to wait for it.
                    stream = body[8:10]
                    self.note(asked[stream], struct.unpack(">H", body[10:12])[0], body[16:], b"")
                exchange = asked.get(stream)
                if exchange is None or exchange.reply is not None:
                    # Answers may come on another connection than their requests.
                    waiting = (its for its in self.exchanges if its.stream == header[:2] and its.reply is None)
                    exchange = next(waiting, None)
                if exchange and exchange.name == "locate" and status == OK:
                    # Who looks there shall be seen too.
                    body = re.sub(rb"\]:\d+", b"]:%d" % self.port, body)
                    header = header[:4] + struct.pack(">I", len(body))
                if exchange:
                    self.note(exchange, status, body, pages)
            client.sendall(header + body + pages)

    @staticmethod
    def note(exchange, status, body, pages):
        if status == OKSOFAR:
            exchange.data += body
        elif status == STATUS:
            if exchange.offset is None:
                exchange.offset, = struct.unpack(">q", body[16:24])
            exchange.pages += pages
            if body[7] == 0:
                exchange.reply = (status, body)
        elif status not in (ATTN, WAITRESP):
            exchange.reply = (status, body)
