#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# root.sh BUILD DEB WHEEL: in fresh Debian systems (debootstrap): runs the steps of the container file, on what make dist archives; the steps of the
# recipes for conda and Spack; installs the Debian package; installs the wheel. With each, mmnvcc builds README's program. Needs root, a mirror of
# Debian and PyPI; took 12 minutes on two busy cores. From the root of the tree. ARCHS (90): what is built.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
if ((EUID != 0)); then echo 'mm: check-packages-root: you are not root; expected root, for debootstrap and chroot' >&2 && exit 1; fi
# Mounts in here end with this script.
[[ ${MM_TEST_UNSHARED-} ]] || MM_TEST_UNSHARED=1 exec unshare --mount "$0" "$@"
root=$PWD build=$(realpath "$1") deb=$(realpath "$2") wheel=$(realpath "$3")
unset MAKEFLAGS MAKELEVEL MFLAGS
export LC_ALL=C ARCHS=${ARCHS:-90}
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" packages-root
out=$build/tests/packages-root
rm -rf --one-file-system "$out" && mkdir -p "$out" || exit
# /proc of the systems comes first, and stays if that fails.
trap 'umount "$out"/*/proc 2>/dev/null; rm -rf --one-file-system "$out"' EXIT
# shellcheck source=tests/packages/lib.sh
source "$root/tests/packages/lib.sh"
version=$(number_of MM_VERSION)
debootstrap --variant=minbase bookworm "$out/base" >"$out/log" 2>&1 || { tail -n 3 "$out/log" && echo 'packages-root: 0 passed, 1 failed' && exit 1; }
# The network as this machine reaches it.
cp /etc/resolv.conf "$out/base/etc" && mkdir -p "$out/base/usr/local/share/ca-certificates" &&
    find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$out/base/usr/local/share/ca-certificates" \; || exit

# fresh NAME: a new system
fresh() { cp -a "$out/base" "$out/$1" && mount -t proc proc "$out/$1/proc" && cp "$out/app.cu" "$out/$1/root"; }
# inside NAME COMMAND: runs a line of shell in that system; in `place`, with the variables in `settings`
inside() {
    local line
    printf -v line '%q ' "${settings[@]}"
    mapfile -t network < <(env | grep -E '^(PIP_CERT|PIP_INDEX_URL|https?_proxy|no_proxy)=')
    chroot "$out/$1" env -i HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive ${network[@]+"${network[@]}"} "${settings[@]}" sh -c "cd ${place:-/} && $2" >"$out/said" 2>&1 </dev/null || { tail -n 20 "$out/said" && false; }
}
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
settings=("PATH=$path") place=/

# ---- the container file --------------------------------------------------------------------------------

# copies STAGE ARGUMENTS: COPY of the container file. The context is what make dist archives.
copies() {
    local from to
    read -r from to <<<"${2#--from=* }"
    case $2 in
    --from=*)
        local stage=${2#--from=}
        cp -a "$out/${stage%% *}$from/." "$out/$1$to"
        ;;
    '. '*) mkdir -p "$out/$1$to" && tar -C "$out/$1$to" --strip-components=1 -xzf "$build/mm-$version.tar.gz" ;;
    *) echo "COPY $2 is not understood" && false ;;
    esac
}
makes dist >"$out/log" 2>&1
it 'make dist and its checksum' eval '(cd "$build" && sha256sum --check --strict "mm-$version.tar.gz.sha256")'
steps=0 stage=
while read -r what rest; do
    ((++steps))
    case $what in
    '' | '#'*) ((steps--)) ;;
    FROM)
        [[ $rest == 'debian:12'* ]] || it "container: $rest is Debian 12" false
        stage=${rest#*AS } && [[ $rest == *' AS '* ]] || stage=image
        settings=("PATH=$path") place=/
        fresh "$stage" || exit
        ;;
    RUN) it "container: $rest" inside "$stage" "$rest" ;;
    COPY) it "container: COPY $rest" copies "$stage" "$rest" ;;
    WORKDIR) place=$rest ;;
    ARG) settings+=("ARCHS=$ARCHS") ;;
    ENV) settings=("${rest//\$PATH/$path}") ;;
    *) it "container: $what is understood" false ;;
    esac
done <"$root/packaging/container/Containerfile"
it 'container: its steps' eval '((steps >= 12))'
example='mmnvcc -arch=sm_90 /root/app.cu -o /root/app && mmdoctor /root/app | grep "built with mm" && mmdoctor /root/app | grep "run time /"'
it "container: README's program" inside image "$example"

# ---- recipes, on the sources that the container file has built --------------------------------------------

place=/src toolkit=/stage/usr/local/cuda
conda() {
    local line lines
    mapfile -t lines < <(sed -n "/^  $1:/,/^[a-z]/s/^    - //p" "$root/packaging/conda/meta.yaml")
    ((${#lines[@]} >= 3)) || { echo "only ${#lines[@]} lines of $1" && return 1; }
    for line in "${lines[@]}"; do inside build "$line" || return; done
}
settings=("PATH=/opt/conda/bin:$toolkit/bin:$path" PREFIX=/opt/conda "ARCHS=$ARCHS")
it 'conda: script' conda script
it 'conda: commands of its test' conda commands
it "conda: README's program" inside build "$example"
it 'conda: no links to the toolkit of the build' eval '[[ -d $out/build/opt/conda/lib/mm && ! -e $out/build/opt/conda/lib/mm/toolkit ]]'
settings=("PATH=/opt/spack/bin:$path" "ARCHS=$ARCHS")
cp "$root/tests/packages/spack.py" "$out/build/root"
it 'spack: build and install' inside build "python3 /root/spack.py packaging/spack/package.py $toolkit /opt/spack"
it "spack: README's program" inside build "$example"

# ---- packages ------------------------------------------------------------------------------------------

place=/root settings=("PATH=/opt/cuda/bin:$path")
fresh deb && cp "$deb" "$out/deb/root/mm.deb" && cp -a "$out/build$toolkit" "$out/deb/opt/cuda" || exit
it 'deb: apt-get install' inside deb 'apt-get update && apt-get install -y ./mm.deb g++'
it "deb: README's program" inside deb "$example"
it 'deb: examples' inside deb 'for file in /usr/share/doc/mm-cuda/examples/*.cu; do mmnvcc -arch=sm_90 $file -o app || exit; done'
it 'deb: the other mm.h is refused' inside deb 'apt-get -s install libmm-dev | grep "^Remv mm-cuda"'
it 'deb: mmrun' inside deb 'mmrun true'
it 'deb: dpkg finds its files unchanged' inside deb 'test -z "$(dpkg --verify mm-cuda)"'
it 'deb: removal' inside deb 'apt-get remove -y mm-cuda && ! ls -d /usr/lib/mm /usr/bin/mm[nrdb]* /usr/include/mm.h /usr/share/doc/mm-cuda'
settings=("PATH=/root/venv/bin:$path")
fresh wheel && cp "$wheel" "$out/wheel/root" || exit
it 'wheel: Python' inside wheel 'apt-get update && apt-get install -y --no-install-recommends ca-certificates g++ binutils python3-venv'
it 'wheel: pip' inside wheel 'python3 -m venv venv && pip install "$(echo ./mm_cuda*.whl)[nvcc]"'
it "wheel: README's program" inside wheel "$example"
it 'wheel: mmrun python' inside wheel 'mmrun python -c "import mm_cuda, os; assert mm_cuda.PREFIX in os.environ[\"LD_PRELOAD\"]"'
it_ends
