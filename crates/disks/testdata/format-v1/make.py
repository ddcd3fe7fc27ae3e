#!/usr/bin/env python3
"""Writes object-2+1.shard1 and prints known values, from docs/formats/shard.md alone.

A second implementation of the format, in another language, so that the file is more than an echo
of the code it tests. It is not run by tests: the file it wrote is kept.
"""

import pathlib
import struct

PAGE = 4096
MASK = (1 << 64) - 1


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def scatter(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def mix(blob, generation, shard, page, length):
    seed = scatter(scatter(blob) ^ (generation << 32 | shard))
    value = scatter(seed ^ page) >> 32
    return value ^ 1 if value == crc32c(bytes(length)) else value


def header(blob, generation, shard, k, m, unit, length, owner):
    page = b"DEWARSHD" + struct.pack("<HBBI", 1, 1, 4, PAGE)
    page += struct.pack("<QIBBBBII", blob, generation, shard, k, m, 1, unit, 1)
    page += struct.pack("<QQQ", length, 1_800_000_000_123_456_789, 0)
    for first in (0x10, 0x20, 0x30):
        page += int.from_bytes(bytes(range(first, first + 16)), "big").to_bytes(16, "little")
    page += struct.pack("<H14x", len(owner)) + owner
    page += bytes(PAGE - 4 - len(page))
    return page + struct.pack("<I", crc32c(page))


def main():
    blob, generation, shard, k, m, unit, length = 0x000100000000002A, 7, 1, 2, 1, 4096, 14_000
    data = bytes((n * 7 + n // 256) & 0xFF for n in range(length))
    units = [data[at : at + unit] for at in range(0, length, unit)]
    stored = b"".join(units[shard::k])
    pages = [stored[at : at + PAGE] for at in range(0, len(stored), PAGE)]
    slots = b""
    for number, page in enumerate(pages):
        slot = crc32c(page) ^ mix(blob, generation, shard, number, len(page))
        slots += struct.pack("<I", slot)
    file = header(blob, generation, shard, k, m, unit, length, b"/atlas/data/x.root")
    file += slots.ljust(PAGE, b"\0") + stored
    (pathlib.Path(__file__).parent / "object-2+1.shard1").write_bytes(file)

    print(f"crc32c of 4096 zeros {crc32c(bytes(PAGE)):08x}")
    for page in (0, 1, 1023, 1024, 1 << 40):
        print(f"mix of blob {blob:016x} generation 7 shard 3 page {page}:", end=" ")
        print(f"{mix(blob, generation, 3, page, PAGE):08x}")


main()
