"""What stands between a client and a server of the tests."""

import socket
import threading
import time


class Relay:
    """Stands before a server. What either says passes through a function of all its bytes so far and the next ones,
    which may change them, wait, or end one of the two. It listens on a port of its own."""

    def __init__(self, port, answers=None, requests=None):
        self.target, self.answers, self.requests = port, answers, requests
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        # Bytes of answers.
        self.seen = 0
        self.ends = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        # A server that is down comes back. To be accepted and closed at once is what a listening port never
        # does, and clients of the 5.x generation sometimes give up on it ("Invalid operation").
        for _ in range(600):
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
                break
            except OSError:
                time.sleep(0.1)
        else:
            client.close()
            return
        self.ends += [client, server]
        threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
        self.pump(server, client, True)

    def cut(self):
        """Breaks the connections that there are."""
        ends, self.ends = self.ends, []
        self.close(*ends)

    def pump(self, source, target, answers):
        change, asked = self.answers if answers else self.requests, 0
        try:
            while data := source.recv(65536):
                asked += len(data)
                self.seen += len(data) if answers else 0
                target.sendall(change(self.seen if answers else asked, data) if change else data)
        except OSError:
            pass
        self.close(source, target)

    @staticmethod
    def close(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def url(self, name):
        return f"root://localhost:{self.port}//data/{name}"


class Gate(Relay):
    """Lets the first bytes of answers, or of a connection's requests, pass and then waits until it is opened."""

    def __init__(self, port, after, holds_requests=False, requests=None):
        self.reached, self.opened, self.after = threading.Event(), threading.Event(), after
        if holds_requests:
            super().__init__(port, requests=self.hold)
        else:
            super().__init__(port, self.hold, requests)

    def hold(self, seen, data):
        if seen > self.after:
            self.reached.set()
            self.opened.wait(120)
        return data
