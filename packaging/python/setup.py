# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A wheel of an installation that lies next to this file (packaging/wheel.sh): mm_cuda/ is a package of data, share/ goes where pages of man and
completions are looked for. VERSION and PLATFORM from the environment."""
import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class Platform(bdist_wheel):
    """The programs are for one platform and every Python 3."""

    def get_tag(self):
        return "py3", "none", os.environ["PLATFORM"]


class Binary(Distribution):
    """So that the files go where binary packages go."""

    def has_ext_modules(self):
        return True


def files(top):
    return [(folder, [os.path.join(folder, name) for name in names]) for folder, _, names in os.walk(top) if names]


setup(version=os.environ["VERSION"], distclass=Binary, cmdclass={"bdist_wheel": Platform}, data_files=files("share"),
      package_data={"mm_cuda": [os.path.relpath(path, "mm_cuda") for _, paths in files("mm_cuda") for path in paths]})
