# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""spack.py RECIPE CUDA PREFIX: runs build and install of a recipe, which is for Spack, in the current folder, as Spack does."""
import subprocess
import sys
import types


class Spec(dict):
    """spec['cuda'].prefix is the toolkit."""

    def __missing__(self, name):
        return types.SimpleNamespace(prefix=sys.argv[2])


facts = []
module = types.ModuleType("spack.package")
for name in ("version", "depends_on", "requires"):
    setattr(module, name, lambda *arguments, **_: facts.append(arguments))
module.MakefilePackage = object
module.make = lambda *arguments: subprocess.run(["make", *arguments], check=True)
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})

recipe = {}
with open(sys.argv[1]) as file:
    exec(file.read(), recipe)
package = recipe["MmCuda"]()
package.build(Spec(), sys.argv[3])
package.install(Spec(), sys.argv[3])
