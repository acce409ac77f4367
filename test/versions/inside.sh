#!/usr/bin/env bash
# inside.sh FOLDER COMMAND...: runs COMMAND with FOLDER as its root. What it mounts is seen by COMMAND only, and gone when that
# ends. For root.
set -euo pipefail
folder=$1
shift
# shellcheck disable=SC2016 # for the inner shell
exec unshare --mount --propagation private bash -euo pipefail -c '
    folder=$1
    shift
    mount --bind /proc "$folder/proc"
    mount --rbind /dev "$folder/dev"
    exec chroot "$folder" "$@"' inside "$folder" "$@"
