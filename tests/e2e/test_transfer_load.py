"""Very many third-party copies at once, as FTS drives them, while servers are killed."""

import asyncio
import zlib
from pathlib import Path

import aiohttp
import pytest
from conftest import FULL, content
from test_transfer import Site

FILES = 1200 if FULL else 300
KILLS = 20 if FULL else 3
SIZE = 1 << 20
ATTEMPTS = 3
RESIDENT_MAX = 512 << 20
PAUSE = 20  # between two attempts at a file, longer than a server needs to come back


class Driver:
    """What `fts_url_copy` does with each file: it looks at both ends, removes what is there, makes directories step by
    step, asks for the copy, and looks at the result. It cleans nothing up."""

    def __init__(self, active, passive, session):
        self.active, self.passive, self.session = active, passive, session
        self.attempts = {}

    async def ask(self, site, method, name, ok, headers=None):
        token = {"Authorization": f"Bearer {site.token}"}
        async with self.session.request(method, site.url(name), headers={**token, **(headers or {})}) as answer:
            text = await answer.text()
            assert answer.status in ok, f"{method} {name}: {answer.status} {text}"
            return answer.status, answer.headers, text

    async def checksum(self, site, name):
        _, headers, _ = await self.ask(site, "HEAD", name, {200}, {"Want-Digest": "adler32"})
        return int(headers["Content-Length"]), headers["Digest"]

    async def attempt(self, number, pull):
        source, target = (self.passive, self.active) if pull else (self.active, self.passive)
        name, copy = f"source/{number}", f"target/{number % 10}/{number}"
        told = await self.checksum(source, name)
        status, _, _ = await self.ask(target, "HEAD", copy, {200, 404}, {"Want-Digest": "adler32"})
        if status == 200:
            # It may have arrived although its last line was lost.
            if await self.checksum(target, copy) == told:
                return
            await self.ask(target, "DELETE", copy, {204, 404})
        for directory in ("target", f"target/{number % 10}"):
            await self.ask(target, "MKCOL", directory, {201, 405})
        header = ("Source", self.passive.url(name)) if pull else ("Destination", self.passive.url(copy))
        asked = {header[0]: header[1], "TransferHeaderAuthorization": f"Bearer {self.passive.token}",
                 "Credential": "none", "Digest": told[1], "ClientInfo": f"job-id=load;file-id={number};retry=0"}
        _, _, text = await self.ask(self.active, "COPY", copy if pull else name, {202}, asked)
        last = text.splitlines()[-1]
        assert last == "success: Created", last
        assert await self.checksum(target, copy) == told

    async def copy(self, number, done):
        reasons = []
        for _ in range(ATTEMPTS):
            self.attempts[number] = self.attempts.get(number, 0) + 1
            try:
                await self.attempt(number, pull=number % 2 == 0)
                done.append(number)
                return None
            except (aiohttp.ClientError, asyncio.TimeoutError, AssertionError, OSError) as error:
                reasons.append(repr(error)[:300])
                await asyncio.sleep(PAUSE)
        return reasons


def resident(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) << 10


async def drive(active, passive, kills):
    timeout = aiohttp.ClientTimeout(total=900, sock_read=120)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        driver, done = Driver(active, passive, session), []
        copies = asyncio.gather(*(driver.copy(number, done) for number in range(FILES)))
        for kill in range(kills):
            until = (kill + 1) * FILES // (kills + 1) // 2
            while len(done) < until and not copies.done():
                await asyncio.sleep(0.05)
            victim = (active, passive)[kill % 2].server
            victim.kill()
            await asyncio.to_thread(victim.start)
        failed = [reasons for reasons in await copies if reasons]
    return driver, failed


@pytest.mark.alone
@pytest.mark.parametrize("kills", [0, KILLS])
def test_copies_at_once(tmp_path, kills):
    sites = []
    for name in ("active", "passive"):
        site = Site(tmp_path / name)
        site.server.stop()
        config = site.server.data / "dewar.toml"
        config.write_text(config.read_text().replace("[webdav]\n", "[webdav]\nconnections_max = 3000\n"))
        site.server.start()
        site.authenticate()
        sites.append(site)
    active, passive = sites
    data = {}
    for number in range(FILES):
        data[number] = content(number, SIZE)
        (passive if number % 2 == 0 else active).put(f"source/{number}", data[number])
    driver, failed = asyncio.run(drive(active, passive, kills))
    assert not failed, failed[:5]
    if not kills:
        assert all(attempts == 1 for attempts in driver.attempts.values())
    for number in range(FILES):
        target = active if number % 2 == 0 else passive
        assert zlib.adler32(target.get(f"target/{number % 10}/{number}").content) == zlib.adler32(data[number])
    for site in sites:
        assert resident(site.server) <= RESIDENT_MAX, resident(site.server)
        site.server.allow("journal|recover|clean|cut|fewer connections")
        assert not site.server.unexpected(), "\n".join(site.server.unexpected())
        site.server.stop()
