#!/bin/sh
# Private linear models on real tables, beside diffprivlib: bench/learning/run.sh [--quick] [--markdown FILE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv="$root/bench/.venv-learning"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

stamp="$venv/installed"
if [ ! -f "$stamp" ] || [ "$here/requirements.txt" -nt "$stamp" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    touch "$stamp"
fi
exec "${PRIVET_PYTHON:-$root/.venv/bin/python}" "$here/run.py" --peer "$venv/bin/python" "$@"
