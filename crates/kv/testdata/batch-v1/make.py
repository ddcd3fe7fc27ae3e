#!/usr/bin/env python3
"""Writes full.bin and small.bin from docs/formats/catalog-batch.md alone.

A second implementation of the format, in another language, so that the samples are more than an
echo of the code they test. It is not run by tests: the files it wrote are kept.
"""

import pathlib
import struct


def number(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def string(b):
    return number(len(b)) + b


def batch(puts=(), deletes=(), adds=(), log=(), carry=None):
    out = b"\x01" + number(len(puts))
    for key, value in puts:
        out += string(key) + string(value)
    out += number(len(deletes)) + b"".join(string(key) for key in deletes)
    out += number(len(adds))
    for key, delta in adds:
        out += string(key) + struct.pack(">q", delta)
    out += number(len(log)) + b"".join(string(record) for record in log)
    if carry is None:
        return out + b"\x00"
    segment, offset, slot = carry
    return out + b"\x01" + struct.pack(">QI", segment, offset) + string(slot)


here = pathlib.Path(__file__).parent
full = batch(
    puts=[
        (b"e\0\0\0\0\0\0\0\x01name", b"value"),
        (b"empty", b""),
        (b"long", b"\x07" * 300),
    ],
    deletes=[b"gone", b"gone too"],
    adds=[(b"cT", 1), (b"ct", -4096)],
    log=[b"a change", b""],
    carry=(0x0001_0000_0203_0405, 0x0607_0809, b"\x09" * 500),
)
(here / "full.bin").write_bytes(full)
(here / "small.bin").write_bytes(batch(puts=[(b"k", b"v")]))
