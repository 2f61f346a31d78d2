#!/bin/sh
# Privet's samplers beside their peers, in an environment of its own: bench/noise/run.sh [--quick] [--markdown FILE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv="$root/bench/.venv-noise"

if [ ! -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
fi

# One at a time: a peer that does not install is reported, and does not keep the others out.
get() {
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$venv/pip.log" 2>&1; then
        echo "could not install: $*" >&2
        tail -n 3 "$venv/pip.log" >&2
    fi
}

stamp="$venv/installed"
if [ ! -f "$stamp" ] || [ "$here/requirements.txt" -nt "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    get -e "$root"
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/requirements.txt" | while read -r peer; do get "$peer"; done
    touch "$stamp"
fi
exec "$venv/bin/python" "$here/run.py" "$@"
