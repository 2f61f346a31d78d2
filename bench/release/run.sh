#!/bin/sh
# privet.release beside its peers: bench/release/run.sh [--rows 1e7] [--rounds 5] [--markdown FILE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

# make NAME REQUIREMENTS [MORE…]: one at a time, so that a peer that does not install keeps no other out.
make() {
    venv="$root/bench/$1"
    wanted="$here/$2"
    shift 2
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    stamp="$venv/installed"
    if [ -f "$stamp" ] && [ "$stamp" -nt "$wanted" ] && [ "$stamp" -nt "$root/pyproject.toml" ]; then
        return
    fi
    { printf '%s\n' "$@"; cat "$wanted"; } | sed -e 's/#.*//' -e '/^[[:space:]]*$/d' | while read -r package; do
        case "$package" in
        "$root"*) set -- --editable "$package" ;;
        *) set -- "$package" ;;
        esac
        if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$venv/pip.log" 2>&1; then
            echo "could not install: $package" >&2
            tail -n 3 "$venv/pip.log" >&2
        fi
    done
    touch "$stamp"
}

make .venv-release requirements.txt "$root[tables]"
make .venv-release-opendp requirements-opendp.txt
exec "$root/bench/.venv-release/bin/python" "$here/run.py" "$@"
