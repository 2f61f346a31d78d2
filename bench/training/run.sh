#!/bin/sh
# privet.training beside its peers and plain torch: bench/training/run.sh [--quick] [--models …] [--markdown FILE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv="$root/bench/.venv-training"

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"

# One at a time: a peer that does not install is reported, and does not keep the others out.
get() {
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$venv/pip.log" 2>&1; then
        echo "could not install: $*" >&2
        tail -n 1 "$venv/pip.log" >&2
    fi
}

stamp="$venv/installed"
if [ ! -f "$stamp" ] || [ "$here/requirements.txt" -nt "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    get torch==2.13.0 # first, and pinned: what depends on torch would pull a build for GPUs
    get --editable "$root[torch]"
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/requirements.txt" | while read -r peer; do
        # shellcheck disable=SC2086 # options and name are words of their own
        get $peer
    done
    touch "$stamp"
fi
# Compiled functions of JAX are kept, so that a second run waits for fewer of them.
export JAX_COMPILATION_CACHE_DIR="$venv/jax" JAX_PLATFORMS=cpu
exec "$venv/bin/python" -W ignore "$here/run.py" "$@"
