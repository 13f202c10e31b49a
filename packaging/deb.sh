#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# deb.sh BUILD VERSION: makes BUILD/mm-cuda_VERSION_amd64.deb from what is built in BUILD. The source tree of dpkg-buildpackage consists of links
# to this tree, so that nothing is compiled again, and of packaging/debian with its placeholders filled in. From the root of the tree;
# CUDA_HOME, ARCHS and CC in the environment. DEBFULLNAME and DEBEMAIL name the maintainer; otherwise it is the author of the last commit.
set -euo pipefail
build=$(realpath "$1") version=$2
export LC_ALL=C
unset MAKEFLAGS MAKELEVEL MFLAGS
source=$build/deb/mm-cuda-$version
author=nobody email=nobody@localhost date=$(date -R -r CHANGELOG.md) # without git
! commit=$(git log -1 --format='%an%n%ae%n%cD' 2>/dev/null) || { read -r author && read -r email && read -r date; } <<<"$commit"
maintainer="${DEBFULLNAME:-$author} <${DEBEMAIL:-$email}>"

rm -rf "$build/deb"
mkdir -p "$source"
for entry in *; do [[ $entry == build ]] || ln -s "$PWD/$entry" "$source"; done
ln -s "$build" "$source/build"
cp -r packaging/debian "$source"
exception=$(sed -n '/^---- LLVM Exceptions/,$p' LICENSE | tail -n +3) notices=$(<tools/package/NOTICES)
cuda_min=$(awk '$2 == "MM_TOOLKIT_MIN" {gsub(/"/, "", $3); print $3}' mmconfig.h)
for file in changelog control copyright; do
    text=$(<"packaging/debian/$file")
    text=${text//@VERSION@/"$version"} text=${text//@MAINTAINER@/"$maintainer"} text=${text//@DATE@/"$date"} text=${text//@CUDA_MIN@/"$cuda_min"}
    text=${text//@EXCEPTION@/"$exception"} text=${text//@NOTICES@/"$notices"}
    printf '%s\n' "$text" >"$source/debian/$file"
done
cd "$source"
# -nc: debian/rules clean would be make distclean, in the tree that the links lead to.
dpkg-buildpackage -b -us -uc -nc >"$build/deb/log" 2>&1 || { tail -n 20 "$build/deb/log" >&2 && exit 1; }
mv "$build/deb/mm-cuda_${version}_amd64.deb" "$build"
echo "$build/mm-cuda_${version}_amd64.deb"
