#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests the set-up and the options on a stand-in machine: a PATH made by this script, in which apt-get, sudo and python3
# are scripts. Nothing is installed, nothing is fetched.
# The functions are called by name through "it"; code of the stand-ins is single-quoted, so that it is not expanded here.
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
unset CUDA_HOME MAKEFLAGS MAKELEVEL MFLAGS
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" setup
before() { rm -rf "${work:?}"/* && machine; }

# stub NAME [LINE...]: makes a script in the stand-in PATH.
stub() { printf '%s\n' '#!/bin/bash' "${@:2}" >"$work/bin/$1" && chmod 755 "$work/bin/$1"; }

# fake_nvcc DIR RELEASE
fake_nvcc() {
    mkdir -p "$1/bin"
    printf '%s\n' '#!/bin/bash' 'case $1 in' \
        "--version) echo 'Cuda compilation tools, release $2, V$2.1' ;;" \
        '--list-gpu-arch) printf "compute_%s\n" 75 90 100 ;;' \
        "--dryrun) echo '#\$ TOP=$1' >&2 ;;" 'esac' >"$1/bin/nvcc"
    chmod 755 "$1/bin/nvcc"
}

# The stand-in machine: nothing is missing, and a CUDA toolkit is in the usual place.
machine() {
    local tool
    mkdir -p "$work"/{bin,mm}
    cp -r "$root/tools" "$root/setup.mk" "$work/mm"
    printf '%s\n' 'ARCHS ?= 75 90' 'CC ?= cc' 'PREFIX ?= /usr/local' 'DESTDIR ?=' 'include setup.mk' \
        'all bench check check-gpu check-install check-packages-root deb demo faults hook-mutants lint mutants: ; @echo $@ with $(CUDA_HOME)$(if $(findstring demo,$@), for $(ARCHS))' 'clean: ; @echo clean' >"$work/mm/Makefile"
    for tool in bash sh env dirname mkdir flock rm mv ln cp cat sed sort tr uname grep tail cut make true echo; do
        ln -s "$(PATH=/usr/bin:/bin type -P "$tool")" "$work/bin/$tool" || return
    done
    stub cc '[[ $1 == -print-file-name=* ]] && echo "/lib/${1#*=}"; exit 0'
    for tool in g++ pkg-config clang shellcheck cppcheck clang-format-14 spin aarch64-linux-gnu-gcc mandoc cmake ccache meson dh dpkg-buildpackage lintian debootstrap; do stub "$tool" 'exit 0'; done
    stub apt-get 'echo "apt-get $*" >>"'"$work"'/mm/calls"; exit 0'
    # python3 stands in for pip: it records its call, and with --target it makes the files that pip would install.
    # "-c import ..." succeeds: all modules exist.
    stub python3 '[[ $* == "-c import "* ]] && exit 0' 'echo "python3 $*" >>"'"$work"'/mm/calls"' '[[ $* != *--target* ]] && exit 0' \
        'while [[ $1 != --target ]]; do shift; done' 'mkdir -p "$2/nvidia/cu13/lib" && cp -r "'"$work"'/wheel/bin" "$2/nvidia/cu13"'
    fake_nvcc "$work/wheel" 13.0
    fake_nvcc "$work/usual" 13.0
    chmod -R a+rwX "$work"
}

# in_machine COMMAND...: runs COMMAND with the stand-in PATH and an otherwise empty environment.
in_machine() { (cd "$work/mm" && env -i PATH="$work/bin" HOME="$work" MM_CUDA_USUAL="$work/usual" "$@"); }
# The same, as a user who is not root.
in_machine_as_user() {
    if ((EUID == 0)); then
        (cd "$work/mm" && /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs \
            env -i PATH="$work/bin" HOME="$work" MM_CUDA_USUAL="$work/usual" "$@")
    else
        in_machine "$@"
    fi
}


# makes STATUS TEXT ARGUMENT...: expects that exit status of make, and exactly that one line.
makes() {
    local status=$1 text=$2 said got=0
    said=$(in_machine make "${@:3}" 2>&1) || got=$?
    if ((status == 2)); then
        said=${said#setup.mk:*: \*\*\* }
        text+='.  Stop.'
    fi
    same "$said" "$text" && same "$got" "$status"
}

# sets_up STATUS TEXT [PURPOSE...]: expects that exit status of setup.sh, and that its last line contains TEXT.
sets_up() {
    local status=$1 text=$2 said got=0
    said=$(in_machine tools/setup.sh "${@:3}" 2>&1) || got=$?
    if [[ $text ]]; then has "${said##*$'\n'}" "$text"; else same "$said" ''; fi && same "$got" "$status"
}
calls() { cat "$work/mm/calls" 2>/dev/null; }

known='some of: 75 90 100'
compiler='a C11 compiler such as gcc or clang'
plain='letters, digits and /._+@~,=- only'

it 'all goes through' makes 0 "all with $work/usual"
it 'an architecture that is none' makes 2 "mm: ARCHS: \"banana\" is not an architecture that this nvcc knows; expected $known" ARCHS=banana
it 'one unknown among known ones' makes 2 "mm: ARCHS: \"91\" is not an architecture that this nvcc knows; expected $known" ARCHS='90 91 100'
it 'sm_90 is not the form' makes 2 "mm: ARCHS: \"sm_90\" is not an architecture that this nvcc knows; expected $known" ARCHS=sm_90
it 'a star is no architecture and no file name' makes 2 "mm: ARCHS: \"*\" is not an architecture that this nvcc knows; expected $known" ARCHS='*'
it 'no architecture' makes 2 "mm: ARCHS: \"\" names no architecture; expected $known" ARCHS=
it 'a relative PREFIX' makes 2 'mm: PREFIX: "opt/mm" is not an absolute path; expected a directory such as /usr/local' PREFIX=opt/mm
it 'an empty PREFIX' makes 2 'mm: PREFIX: "" is not an absolute path; expected a directory such as /usr/local' PREFIX=
it 'a PREFIX with a space' makes 2 "mm: PREFIX: \"/opt/my mm\" has characters that make or a run path cannot carry; expected $plain" PREFIX='/opt/my mm'
it 'a PREFIX with a quote' makes 2 "mm: PREFIX: \"/opt/it's\" has characters that make or a run path cannot carry; expected $plain" PREFIX="/opt/it's"
it 'a DESTDIR with a space' makes 2 "mm: DESTDIR: \"/a b\" has characters that make or a run path cannot carry; expected $plain" DESTDIR='/a b'
spaced() {
    mv "$work/mm" "$work/my mm" && ln -s 'my mm' "$work/mm"
    makes 2 "mm: the path of this checkout: \"$work/my mm\" has characters that make or a run path cannot carry; expected $plain"
}
it 'a checkout whose path has a space' spaced
it 'a CC that is not there' makes 2 "mm: CC: \"nosuchcc\" cannot be run; expected $compiler" CC=nosuchcc
it 'an empty CC' makes 2 "mm: CC: \"\" cannot be run; expected $compiler" CC=
it 'a CC of several words' makes 0 "all with $work/usual" CC='env cc'
old_cc() { stub oldcc 'exit 1' && makes 2 "mm: CC: \"oldcc\" does not compile C11 (-std=c11); expected $compiler" CC=oldcc; }
it 'a CC without C11' old_cc
it 'a CC that would be a command' makes 2 "mm: CC: \"\`exit\`\" cannot be run; expected $compiler" CC='`exit`'
it 'a CUDA_HOME without nvcc' makes 2 'mm: CUDA_HOME: "/nowhere" has no bin/nvcc; expected the directory of a CUDA toolkit, such as /usr/local/cuda' CUDA_HOME=/nowhere
it 'the same when it sets up first' makes 2 'mm: CUDA_HOME: "/nowhere" has no bin/nvcc; expected the directory of a CUDA toolkit, such as /usr/local/cuda' CUDA_HOME=/nowhere check
it 'a relative CUDA_HOME' makes 2 'mm: CUDA_HOME: "cuda" is not an absolute path; expected a directory such as /usr/local' CUDA_HOME=cuda
old_home() { fake_nvcc "$work/old" 11.8 && makes 2 "mm: CUDA_HOME: \"$work/old\" is CUDA 11.8; expected 13.0 or newer" CUDA_HOME="$work/old"; }
it 'a CUDA_HOME that is too old' old_home
broken_home() { stub ../usual/bin/nvcc 'exit 127' && makes 2 "mm: CUDA_HOME: \"$work/usual\" has an nvcc that does not run; expected a CUDA toolkit for this machine" CUDA_HOME="$work/usual"; }
it 'a CUDA_HOME whose nvcc does not run' broken_home
no_home() { rm -rf "$work/usual" && makes 2 'mm: CUDA_HOME: "" was not given, and PATH, /usr/local/cuda and build/cuda hold no CUDA toolkit that can be used; expected CUDA_HOME=DIR, or make setup first, which fetches one'; }
it 'no toolkit, and a goal that does not set up' no_home
no_home_gpu() { rm -rf "$work/usual" && makes 0 'check-gpu with' check-gpu; }
it 'check-gpu runs what was built, without a toolkit' no_home_gpu
it 'clean asks for nothing' makes 0 clean clean CC=nosuchcc PREFIX=x
it 'an unknown option of check-options' eval 'has "$(in_machine tools/check-options.sh COLOR=red 2>&1)" "mm: check-options: \"COLOR=red\" is not an option"'

home_is() { same "$(in_machine tools/setup.sh --cuda-home)" "$1"; }
it 'the usual place' home_is "$work/usual"
nvcc_in_path() {
    fake_nvcc "$work/other" 13.1 && stub nvcc "exec \"$work/other/bin/nvcc\" \"\$@\"" && home_is "$work/other"
}
it 'the toolkit behind a wrapper in PATH comes first' nvcc_in_path
old_in_path() { fake_nvcc "$work/older" 12.4 && ln -s "$work/older/bin/nvcc" "$work/bin/nvcc" && home_is "$work/usual"; }
it 'one that is too old is passed over' old_in_path
given() { same "$(in_machine env CUDA_HOME=/given tools/setup.sh --cuda-home)" /given; }
it 'CUDA_HOME is taken at its word' given

it 'nothing missing: silence' sets_up 0 ''
quiet_apt() { sets_up 0 '' && same "$(calls)" ''; }
it 'nothing missing: nothing called' quiet_apt
it 'an unknown purpose' sets_up 2 'mm: setup: "tea" is not a purpose; expected some of: aarch64 build builds check fuzz install lint model packages plot root' tea

# A stand-in for the package manager that "installs" spin.
installs() { stub apt-get 'echo "apt-get $*" >>"'"$work"'/mm/calls"' "[[ \$* != *install* ]] || ln -sf true '$work/bin/spin'"; }
as_root() { ((EUID == 0)) || stub sudo 'while [[ $1 == -* ]]; do shift; done; exec "$@"'; }
one_missing() {
    rm "$work/bin/spin" && installs && as_root && sets_up 0 'mm: installing spin (apt-get)' && has "$(calls)" 'install --no-install-recommends spin' && sets_up 0 ''
}
it 'one package missing' one_missing
not_for_this() { rm "$work/bin/spin" && sets_up 0 '' build check lint; }
it 'a package that is not needed for this' not_for_this
lint_sets_up() { rm -rf "$work/usual" "$work/bin/cppcheck" && as_root && in_machine make lint; has "$(calls)" 'install --no-install-recommends cppcheck'; }
it 'make lint sets up, and needs no toolkit' lint_sets_up
# sets_up_for GOAL PACKAGES: make GOAL installs PACKAGES on a machine without pkg-config and without a C++ compiler
sets_up_for() {
    rm "$work"/bin/{pkg-config,g++} && as_root && in_machine make "$1"
    has "$(calls)" "install --no-install-recommends $2"
}
gpus() { stub nvidia-smi '[[ $* == *compute_cap* ]] && printf "%s\n"'" $1" && makes 0 "$2 with $work/usual for $3" "$2" "${@:4}"; }
it 'make demo without a GPU' makes 0 "demo with $work/usual for 75" demo
it 'make demo is for the GPUs at hand' gpus '9.0 10.0 9.0' demo '90 100'
it 'make demo with a GPU that does not answer' gpus '"No devices were found"' demo 75
it 'make demo for what is given' gpus 9.0 demo '75 100' ARCHS='75 100'
others_too() { has "$(in_machine make demo all)" "demo with $work/usual for 75 90"; }
it 'make demo among other goals' others_too
it 'make mutants sets up' sets_up_for mutants 'pkg-config check libsubunit-dev'
it 'make hook-mutants sets up' sets_up_for hook-mutants 'g++ pkg-config check libsubunit-dev'
it 'make faults sets up' sets_up_for faults 'g++ pkg-config check libsubunit-dev'
it 'make bench sets up' sets_up_for bench 'g++'
dry() { rm "$work/bin/pkg-config" && in_machine make -n check && same "$(calls)" ''; }
it 'make -n installs nothing' dry
apt_fails() {
    rm "$work/bin/spin" && as_root && stub apt-get '[[ $* != *install* ]] || { echo "E: Unable to locate package spin"; exit 100; }' &&
        sets_up 1 'mm: setup: apt-get could not install spin: Unable to locate package spin; expected a reachable package mirror'
}
it 'apt-get fails' apt_fails
apt_lies() { rm "$work/bin/spin" && as_root && sets_up 1 'mm: setup: installed, yet not found: spin; expected'; }
it 'apt-get installs what is not found' apt_lies
no_apt() { rm "$work/bin/spin" "$work/bin/apt-get" && sets_up 1 'mm: setup: missing spin; expected apt-get to install them'; }
it 'no apt-get' no_apt
no_aarch64() {
    stub aarch64-linux-gnu-gcc 'exit 1' && as_root &&
        has "$(in_machine tools/setup.sh aarch64 2>&1)" 'mm: installing gcc-aarch64-linux-gnu libc6-dev-arm64-cross (apt-get)'
}
it 'the compiler for aarch64 without its C library' no_aarch64
installing() { rm "$work"/bin/{mandoc,cmake} && as_root && in_machine make check-install; has "$(calls)" 'install --no-install-recommends mandoc cmake'; }
it 'what the suite of installing needs' installing
packages_needed() { rm "$work"/bin/{dh,lintian} && as_root && in_machine make "$1"; has "$(calls)" 'install --no-install-recommends debhelper lintian'; }
it 'what make deb needs' packages_needed deb
it 'what the suite of packages needs' packages_needed check
root_needed() { rm "$work"/bin/debootstrap && as_root && in_machine make check-packages-root; has "$(calls)" 'install --no-install-recommends debootstrap'; }
it 'what the suite in a fresh Debian needs' root_needed
shared() { rm "$work/bin/cmake" && as_root && has "$(in_machine tools/setup.sh install builds 2>&1)" 'mm: installing cmake (apt-get)'; }
it 'what two suites need is named once' shared
no_static() {
    stub cc "[[ \$1 == *=$1 ]] && echo $1 || echo \"/lib/\${1#*=}\"" && as_root &&
        has "$(in_machine tools/setup.sh check 2>&1)" 'mm: installing check libsubunit-dev (apt-get)'
}
it 'Check without its static library' no_static libcheck.a
it 'Check without the static library it needs' no_static libsubunit.a
no_unpackers() {
    stub cc "[[ \$1 == *=$1 ]] && echo $1 || echo \"/lib/\${1#*=}\"" && as_root &&
        has "$(in_machine tools/setup.sh build 2>&1)" 'mm: installing liblz4-dev libzstd-dev (apt-get)'
}
it 'a build without liblz4' no_unpackers liblz4.a
it 'a build without libzstd' no_unpackers libzstd.a
no_unpacker_headers() {
    stub cc '[[ $1 == -print-file-name=* ]] && echo "/lib/${1#*=}" && exit; ! grep -q lz4.h' && as_root &&
        has "$(in_machine tools/setup.sh build 2>&1)" 'mm: installing liblz4-dev libzstd-dev (apt-get)'
}
it 'a build without the headers of liblz4' no_unpacker_headers
no_fuzzer() {
    stub clang '[[ $* != *-fsanitize=fuzzer* ]]' && as_root &&
        has "$(in_machine tools/setup.sh fuzz 2>&1)" 'mm: installing clang libclang-rt-dev (apt-get)'
}
it 'clang without the libraries of its sanitizers' no_fuzzer
no_sudo() {
    rm "$work/bin/spin"
    same "$(in_machine_as_user tools/setup.sh 2>&1)" \
        'mm: setup: missing spin; expected root or sudo to install them. Run as root: apt-get update && apt-get install -y --no-install-recommends spin'
}
it 'a user without sudo is told the command' no_sudo

fetches() {
    rm -rf "$work/usual" && sets_up 0 'fetching the CUDA 13.0.88 compiler (100 MB, from PyPI) into build/cuda' &&
        home_is "$work/mm/build/cuda" && sets_up 0 '' && [[ -L $work/mm/build/cuda/lib64 && ! -e $work/mm/build/cuda.part ]]
}
it 'no toolkit: one is fetched, once' fetches
too_old() { fake_nvcc "$work/usual" 12.4 && sets_up 0 "mm: CUDA 12.4 in $work/usual is older than 13.0; fetching"; }
it 'only a toolkit that is too old: says so and fetches' too_old
offline() {
    rm -rf "$work/usual"
    stub python3 '[[ $* == *--target* ]] || exit 0' 'echo "ERROR: Temporary failure in name resolution (host)"; exit 1'
    sets_up 1 'mm: setup: the CUDA compiler could not be fetched: Temporary failure in name resolution; expected a reachable PyPI, or CUDA_HOME=DIR' &&
        home_is ''
}
it 'offline' offline
repeated() { rm -rf "$work/usual" && mkdir -p "$work/mm/build/cuda.part/nvidia" "$work/mm/build/cuda/bin" && sets_up 0 fetching && home_is "$work/mm/build/cuda"; }
it 'an interrupted run is repeated' repeated
unwritable() { rm "$work/bin/spin" && : >"$work/mm/build" && sets_up 1 "mm: setup: cannot write to $work/mm/build; expected a directory of your own"; }
it 'build cannot be written' unwritable

want=
summary() { same "$(printf '%s\n' "$@" | awk -f "$root/.ci/summary.awk")" "$want"; }
want='13 3' it 'the summary of CI' summary 'Running suite(s): tree' '100%: Checks: 10, Failures: 0, Errors: 0' \
    '33%: Checks: 3, Failures: 1, Errors: 1' 'setup: 2 passed, 1 failed' 'x: 9 passed, 9 failed?'
want='2 3' it 'the summary where make gives up' summary 'make: *** [a.mk:1: core] Error 2' 'b: 1 passed, 1 failed' 'make: *** [b.mk:1: b] Error 1' \
    'c: 1 passed, 0 failed' 'make: *** [c.mk:1: c] Error 255' 'make: Target "check" not remade because of errors.'
want='1 2' it 'the summary of a make in a make' summary 'make[1]: *** [a.mk:1: core] Error 2' 'b: 1 passed, 1 failed' 'make[1]: *** [b.mk:1: b] Error 1' \
    'make: *** [Makefile:33: check] Error 2'
want='0 0' it 'the summary of nothing' summary 'gcc -o passed'

# fails_with LINE RULE...: make check with our Makefile and suites with these rules must print LINE.
# `processors`: number of processors of the machine (1); `jobs`: an option for make
fails_with() {
    local said
    mkdir "$work/mm/tests" && cp "$root/tests/check.sh" "$work/mm/tests" && cp "$root/Makefile" "$root/mmconfig.h" "$work/mm" &&
        printf '%s\n' "${@:2}" >"$work/mm/tests/suites.mk"
    for tool in tee mktemp awk paste; do ln -sf "$(PATH=/usr/bin:/bin type -P "$tool")" "$work/bin/$tool"; done
    stub nproc "echo ${processors-1}"
    # shellcheck disable=SC2086 # none or one
    said=$(in_machine make -k ${jobs-} check ARCHS=90 2>&1)
    same "$(grep -v '^make' <<<"$said"; grep '^make check' <<<"$said")" "$1"
}
it 'make -k check names what failed' fails_with $'well\nmake check: failed: a build/b' 'check: a c d' 'a: ; @false' \
    'c: build/b ; @:' 'build/b: ; @exit 3' 'd: ; @echo well'
it 'make check is silent of what did not' fails_with 'well' 'check: a' 'a: ; @echo well'
says_jobs=('check: a' 'a: ; @echo $(filter -j% -O%,$(MAKEFLAGS))')
processors=3 it 'make check uses all processors' fails_with '-j3 -Otarget' "${says_jobs[@]}"
processors=3 jobs=-j2 it 'make -j2 check uses two' fails_with -j2 "${says_jobs[@]}"
processors=3 jobs=-j1 it 'make -j1 check uses one' fails_with -j1 "${says_jobs[@]}"

# ci_says STATUS LAST RULE: .ci/run with a Makefile whose target check has that recipe.
ci_says() {
    local said got=0
    mkdir "$work/mm/.ci" && cp "$root"/.ci/* "$work/mm/.ci"
    printf '%s\n' "check: ; @$3" 'check-unit-plain check-model-two check-mutants stress-asan matrix lint check-plot check-packages-pypi build-gpu-tests check-elsewhere: ; @:' >"$work/mm/Makefile"
    said=$("$work/mm/.ci/run" 2>&1) || got=$?
    same "${said##*$'\n'}" "$2" && same "$got" "$1"
}
it 'CI: all pass' ci_says 0 '4 passed, 0 failed' "echo 'a: 4 passed, 0 failed'"
it 'CI: one fails' ci_says 1 '3 passed, 1 failed' "echo 'a: 3 passed, 1 failed'; exit 1"
it 'CI: one fails and its suite forgets to' ci_says 1 '3 passed, 1 failed' "echo 'a: 3 passed, 1 failed'"
it 'CI: something does not compile' ci_says 1 '3 passed, 1 failed' "echo 'a: 3 passed, 0 failed'; exit 1"
it 'CI: no test ran' ci_says 1 '0 passed, 1 failed' ':'

# shellcheck source=tests/setup/mutants.sh
source "$root/tests/setup/mutants.sh"

it_ends
