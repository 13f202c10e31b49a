#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh BUILD DEB WHEEL: plants one fault at a time in the packages that are built; run.sh must notice each. Ends with "packages-mutants: N
# passed, N failed". From the root of the tree.
# The code of the faults is single-quoted, so that it is not expanded here; the functions are called by name.
# shellcheck disable=SC2016,SC2317,SC2329
set -u
build=$1 deb=$(realpath "$2") wheel=$(realpath "$3")
passed=0 failed=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
python=$(tools/setup.sh --python)

# noticed TEST PART WHAT: that test of run.sh fails
noticed() {
    local said
    said=$(tests/packages/run.sh "$build" "${changed_deb:-$deb}" "${changed_wheel:-$wheel}" "$2" "$1" 2>&1)
    if grep -qF "packages: FAILED: $1" <<<"$said"; then
        ((++passed))
    else
        ((++failed))
        printf 'packages-mutants: FAILED: %s is not noticed by "%s":\n%s\n' "$3" "$1" "$said"
    fi
}
# in_deb TEST COMMAND: runs COMMAND where the package is unpacked, and packs it again
in_deb() {
    rm -rf "$work/deb" && dpkg-deb -R "$deb" "$work/deb" && (cd "$work/deb" && eval "$2") && dpkg-deb --root-owner-group -Z none -b "$work/deb" "$work/${deb##*/}" >"$work/log" || exit
    changed_deb=$work/${deb##*/} noticed "deb: $1" deb "$2"
}
# in_wheel TEST COMMAND [NAME]: the same for the wheel, whose RECORD need not be right: pip does not look; NAME: of the changed wheel
in_wheel() {
    rm -rf "$work/wheel" "$work"/*.whl && mkdir "$work/wheel" && "$python" -m zipfile -e "$wheel" "$work/wheel" || exit
    # zipfile forgets who may execute what
    "$python" - "$wheel" "$work/wheel" <<'CODE' || exit
import os, sys, zipfile
for entry in zipfile.ZipFile(sys.argv[1]).infolist():
    os.chmod(os.path.join(sys.argv[2], entry.filename), entry.external_attr >> 16 & 0o777)
CODE
    (cd "$work/wheel" && eval "$2") && "$python" - "$work/wheel" "$work/${3:-${wheel##*/}}" <<'CODE' || exit
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[2], "w") as out:
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(folder, name)
            out.write(path, os.path.relpath(path, sys.argv[1]))
CODE
    changed_wheel=$work/${3:-${wheel##*/}} noticed "wheel: $1" wheel "$2"
}
files='its files are those of make install'
in_deb "$files" 'rm usr/bin/mmrun'
in_deb "$files" 'rm usr/share/doc/mm-cuda/examples/graph.cu'
in_deb "$files" 'touch usr/lib/mm/other'
in_deb "$files" 'chmod 644 usr/lib/mm/mmptxas'
in_deb 'soname' 'cc -shared -Wl,-soname,libmm.so.2 -x c /dev/null -o usr/lib/mm/libmm.so.1'
in_deb 'links' 'ln -sfn ../lib/mm/mmdoctor usr/bin/mmnvcc'
in_deb 'links' 'ln -sfn nowhere usr/share/bash-completion/completions/mmrun'
in_deb 'version' 'sed -i "s/^Version: .*/Version: 99/" DEBIAN/control'
in_deb 'depends on binutils' 'sed -i "s/binutils, //" DEBIAN/control'
in_deb 'conflicts with the other mm.h' 'sed -i /^Conflicts/d DEBIAN/control'
in_deb 'lintian' 'rm usr/share/doc/mm-cuda/copyright'
in_deb 'checksums' 'echo >>usr/bin/mmrun'
in_wheel "$files" 'rm mm_cuda/lib/mm/mmfatbinary'
in_wheel "$files" 'chmod -R a-x mm_cuda/lib/mm/mm*'
in_wheel "$files" 'rm -r *.data'
in_wheel 'soname' 'cc -shared -Wl,-soname,libmm.so.2 -x c /dev/null -o mm_cuda/lib/mm/libmm.so.1'
in_wheel 'name' ':' "mm_cuda-9-py3-none-any.whl"
in_wheel 'mmbench' 'sed -i /^mmbench/d *.dist-info/entry_points.txt'
in_wheel "PyPI's nvcc" 'sed -i "s/\"nvidia\"/\"nvidium\"/" mm_cuda/__init__.py'
in_wheel 'CUDA_HOME comes first' 'sed -i "s/and not os.environ.get(\"CUDA_HOME\")//" mm_cuda/__init__.py'
in_wheel 'an nvcc in PATH' 'printf "#!/bin/sh\nexec \"\${0%%/*}/mmnvcc-nowhere\"\n" >mm_cuda/bin/mmnvcc'
in_wheel "PyPI's nvcc, libraries" 'sed -i "s,lib64/libcudart.so\",lib64/other\"," mm_cuda/lib/mm/mmview'
in_wheel "PyPI's nvcc, for -dlto" 'sed -i "s,lib64/libnvvm.so\",lib64/other\"," mm_cuda/lib/mm/mmview'
in_wheel "PyPI's nvcc, libraries" 'sed -i "s/line=\"TOP = .place\"/:/" mm_cuda/lib/mm/mmview'
in_wheel 'mmrun python' 'sed -i "s/export LD_PRELOAD=/export OTHER=/" mm_cuda/bin/mmrun'
printf 'packages-mutants: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
