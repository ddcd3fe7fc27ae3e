"""Reading every branch of a ROOT file, from a local path or out of a bucket."""

import awkward
import numpy
import uproot

# RNTuple files take seconds each in pure Python: these stand for the rest.
RNTUPLES = {"treemaker_rntuple.root", "nano_tree_rntuple.root"}


def chosen(samples):
    return [path for path in samples if "rntuple" not in path.name or path.name in RNTUPLES]


def branches(file):
    """Each readable branch as (name, array); what uproot cannot interpret is named without one."""
    for name, kind in sorted(file.classnames().items()):
        if kind != "TTree" and "RNTuple" not in kind:
            continue
        tree = file[name]
        for key in (tree.keys(recursive=False) if kind == "TTree" else tree.keys()):
            try:
                yield f"{name}:{key}", tree[key].array()
            except Exception as error:
                yield f"{name}:{key}", type(error).__name__


def equal(left, right):
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    if awkward.type(left) != awkward.type(right):
        return False
    left, right = awkward.to_buffers(left), awkward.to_buffers(right)
    return left[1:2] == right[1:2] and all(
        numpy.array_equal(a.view("u1"), b.view("u1"))
        for a, b in zip(left[2].values(), right[2].values(), strict=True))


def compare(local, filesystem, path):
    """Number of branches that could be read; fails on the first that differs."""
    read = 0
    with uproot.open(local) as expected, filesystem.open(path, "rb", cache_type="readahead") as remote:
        with uproot.open(remote) as actual:
            for (name, want), (also, got) in zip(branches(expected), branches(actual), strict=True):
                assert name == also and equal(want, got), f"{local.name}: {name}"
                read += not isinstance(want, str)
    return read


def compare_url(local, url):
    """The same through a URL that uproot opens by itself."""
    read = 0
    with uproot.open(local) as expected, uproot.open(url) as actual:
        for (name, want), (also, got) in zip(branches(expected), branches(actual), strict=True):
            assert name == also and equal(want, got), f"{local.name}: {name}"
            read += not isinstance(want, str)
    return read
