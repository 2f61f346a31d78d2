#!/bin/sh
# All figures on text, one after the other. The times are processor seconds on one core; two cores run two of them at a time.
set -e
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1 PYTHONPATH=src
python=${PYTHON:-python}
first() {
    $python bench/text/sentences.py
    $python bench/text/sentences.py --corpus reviews --seeds 1
    $python bench/text/sentences.py --corpus speeches --seeds 1
    $python bench/text/nulls.py
    $python bench/text/ceilings.py
}
second() {
    $python bench/text/authors.py
    $python bench/text/exposure.py --seeds 2
    $python bench/text/extraction.py --seeds 2
    $python bench/text/private.py
    $python bench/generative/copies.py
}
first &
second
wait
