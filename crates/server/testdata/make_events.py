"""Writes events.root, the sample that `dewar demo` puts into its folder: 1,000 invented events.

Run by hand with uproot, awkward and numpy: python3 make_events.py
"""

import pathlib

import awkward
import numpy
import uproot

EVENTS = 1000

chance = numpy.random.default_rng(7)
counts = chance.poisson(1.5, EVENTS)


def per_muon(values):
    return awkward.unflatten(values.astype("float32"), counts)


total = int(counts.sum())
with uproot.recreate(pathlib.Path(__file__).with_name("events.root"), compression=uproot.ZLIB(9)) as file:
    muons = awkward.zip({
        "pt": per_muon(chance.exponential(20, total) + 3),
        "eta": per_muon(chance.uniform(-2.4, 2.4, total)),
    })
    columns = {"event": numpy.arange(EVENTS, dtype="uint64"), "Muon": muons}
    tree = file.mktree("Events", {"event": numpy.dtype("uint64"), "Muon": awkward.type(muons).content})
    tree.extend(columns)
