"""A FUSE file system that passes everything through to a folder, and misbehaves on demand.

    python fault_fs.py BACKING MOUNTPOINT CONTROL

CONTROL is a JSON file that is looked at before every call. Its members, all optional: `hang` (calls do not
return until it is gone), `delay` (seconds before each call), `corrupt` (one bit of every n-th read of
shards is flipped), `errors` (calls that fail with EIO, as a list of their names)."""

import errno
import functools
import json
import os
import sys
import time

import mfusepy


class Faults:
    """What is asked for now; a file that cannot be read asks for nothing."""

    def __init__(self, path):
        self.path = path
        self.seen = None
        self.asked = {}

    def now(self):
        try:
            stamp = os.stat(self.path).st_mtime_ns
            if stamp != self.seen:
                with open(self.path, encoding="utf-8") as file:
                    self.asked = json.load(file)
                self.seen = stamp
        except (OSError, ValueError):
            self.asked, self.seen = {}, None
        return self.asked


def misbehaving(call):
    """A call that does first what is asked for now."""

    @functools.wraps(call)
    def wrapped(self, *args):
        asked = self.faults.now()
        while asked.get("hang"):
            time.sleep(0.05)
            asked = self.faults.now()
        if delay := asked.get("delay"):
            time.sleep(delay)
        if call.__name__ in asked.get("errors", ()):
            raise mfusepy.FuseOSError(errno.EIO)
        try:
            return call(self, *args)
        except OSError as error:
            raise mfusepy.FuseOSError(error.errno) from error

    return wrapped


class FaultFs(mfusepy.Operations):
    use_ns = True

    def __init__(self, backing, control):
        self.backing = backing
        self.faults = Faults(control)
        self.reads = 0

    def at(self, path):
        return self.backing + path

    @misbehaving
    def getattr(self, path, fh=None):
        found = os.lstat(self.at(path)) if fh is None else os.fstat(fh)
        names = ("mode", "nlink", "uid", "gid", "size", "ino", "blocks")
        told = {f"st_{name}": getattr(found, f"st_{name}") for name in names}
        times = {f"st_{name}": getattr(found, f"st_{name}_ns") for name in ("atime", "mtime", "ctime")}
        return told | times

    @misbehaving
    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.at(path))]

    @misbehaving
    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    @misbehaving
    def rmdir(self, path):
        os.rmdir(self.at(path))

    @misbehaving
    def unlink(self, path):
        os.unlink(self.at(path))

    @misbehaving
    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    @misbehaving
    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    @misbehaving
    def chown(self, path, uid, gid):
        os.chown(self.at(path), uid, gid)

    @misbehaving
    def utimens(self, path, times=None):
        os.utime(self.at(path), ns=times)

    @misbehaving
    def access(self, path, amode):
        if not os.access(self.at(path), amode):
            raise mfusepy.FuseOSError(errno.EACCES)

    @misbehaving
    def statfs(self, path):
        found = os.statvfs(self.at(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
        return {f"f_{name}": getattr(found, f"f_{name}") for name in names}

    @misbehaving
    def open(self, path, flags):
        # The folder below takes any alignment: O_DIRECT is between the caller and this file system.
        return os.open(self.at(path), flags & ~(os.O_DIRECT | os.O_CREAT | os.O_EXCL))

    @misbehaving
    def create(self, path, mode, fi=None):
        return os.open(self.at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    @misbehaving
    def read(self, path, size, offset, fh):
        data = os.pread(fh, size, offset)
        every = self.faults.asked.get("corrupt")
        if every and data and "/blobs/" in path:
            self.reads += 1
            if self.reads % every == 0:
                data = bytearray(data)
                data[self.reads * 7919 % len(data)] ^= 1 << self.reads % 8
                data = bytes(data)
        return data

    @misbehaving
    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    @misbehaving
    def truncate(self, path, length, fh=None):
        os.truncate(self.at(path) if fh is None else fh, length)

    @misbehaving
    def flush(self, path, fh):
        return 0

    @misbehaving
    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    @misbehaving
    def fsyncdir(self, path, datasync, fh):
        folder = os.open(self.at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @misbehaving
    def release(self, path, fh):
        os.close(fh)


if __name__ == "__main__":
    backing, mountpoint, control = sys.argv[1:]
    mfusepy.FUSE(FaultFs(backing, control), mountpoint, foreground=True, nothreads=False,
                 attr_timeout=0, entry_timeout=0, default_permissions=True)
