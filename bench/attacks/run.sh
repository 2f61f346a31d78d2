#!/bin/sh
# Shadow models, and the orderings of attacks, on real data:
#   bench/attacks/run.sh [--quick] [--data FOLDER]              the engine beside the loops that peers use
#   bench/attacks/run.sh --peers [--quantiles] [--data FOLDER]  Privet's attacks beside the formulas of peers
#   bench/attacks/run.sh --orderings [--quick] [--data FOLDER]  what the papers say of the attacks, with intervals
#   bench/attacks/run.sh --access [--quick] [--data FOLDER]     what labels, confidences and parameters are worth
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python="${PYTHON:-$root/.venv/bin/python}"

if [ ! -x "$python" ]; then
    echo "no $python; run 'make test' once, or set PYTHON" >&2
    exit 1
fi
script=engines.py
if [ "${1:-}" = "--orderings" ]; then
    script=orderings.py
    shift
elif [ "${1:-}" = "--peers" ]; then
    script=peers.py
    shift
elif [ "${1:-}" = "--access" ]; then
    script=access.py
    shift
fi
exec "$python" "$here/$script" "$@"
