#!/usr/bin/env bash
# Everything that is to be seen on a GPU, in five parts of at most ten minutes: benchmarks/device/README.md.
#   benchmarks/device.sh first|1|2|3|4|5|all [--out DIR] [--wheels DIR] [--again STEP] [--keep-passed] [--list]
set -eu
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
exec "${PYTHON:-python3}" -m benchmarks.device "$@"
