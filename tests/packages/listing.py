# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""listing.py KIND PLACE: what a package brings, one file a line: "x PATH" for programs, "- PATH" for others
(libraries, too, which need not be executable); a link counts as what it leads to.
KIND: tree (a folder that make install filled), deb (an unpacked Debian package), wheel. Names that the kinds of packages give to the same file are
made one; files of one kind only are left out, and named here."""
import os
import re
import sys
import zipfile

DEB_ONLY = {"share/doc/mm/changelog.gz", "share/doc/mm/changelog.Debian.gz", "share/doc/mm/copyright", "share/lintian/overrides/mm-cuda"}
NOT_IN_DEB = {"share/doc/mm/LICENSE", "share/doc/mm/NOTICES"}  # they are in share/doc/mm-cuda/copyright
WHEEL_ONLY = {"__init__.py"}


def tree(top):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, top), os.access(path, os.X_OK)


def wheel(file):
    for entry in zipfile.ZipFile(file).infolist():
        if ".dist-info/" not in entry.filename:
            yield re.sub(r"^(mm_cuda|mm_cuda-[^/]*\.data/data)/", "", entry.filename), bool(entry.external_attr >> 16 & 0o111)


def deb(top):
    for path, executable in tree(top):
        path = re.sub(r"^(share/man/.*)\.gz$", r"\1", path.replace("share/doc/mm-cuda/", "share/doc/mm/"))
        yield path, executable


kind, place = sys.argv[1:]
found = dict({"tree": tree, "deb": deb, "wheel": wheel}[kind](place))
own = {"tree": set(), "deb": DEB_ONLY, "wheel": WHEEL_ONLY}[kind]
for path in sorted(own - set(found)):
    print(f"{path} is missing")
if kind == "deb":
    found.update((path, False) for path in NOT_IN_DEB)
for path in sorted(set(found) - own):
    if not path.startswith("lib/mm/toolkit/"):  # links to the toolkit of this machine: in no package
        print("x" if found[path] and not re.search(r"\.so(\.\d+)*$", path) else "-", path)
if any(path.startswith("lib/mm/toolkit/") for path in found) and kind != "tree":
    print("lib/mm/toolkit is there")
