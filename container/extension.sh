#!/bin/sh
# The files of an extension image, which a server has as one of its folders (extension_control_path, dynamic_library_path): those of a
# package, without anything else.
#   extension.sh PACKAGE.deb FOLDER
set -eu
package=$1 folder=$2
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

dpkg-deb -x "$package" "$unpacked"
mkdir -p "$folder/lib" "$folder/share/extension"
cp "$unpacked"/usr/lib/postgresql/*/lib/dcounter.so "$folder/lib/"
cp "$unpacked"/usr/share/postgresql/*/extension/* "$folder/share/extension/"
