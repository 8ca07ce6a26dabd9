#!/bin/sh
# Makes a page of each kind of result, and checks all of them in a browser: see check.mjs.
#
# tests/page/check.sh [--quick] target/release/forebay [DIRECTORY]
#
# DIRECTORY gets the pages and their screenshots. With --quick, one page of three results at two widths. Needs Node.js 20 or later and Chromium (CHROMIUM names another binary).
set -eu

quick=
if test "$1" = --quick; then
    quick=1
    shift
fi
forebay=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
place=${2:-$(mktemp -d)}
mkdir -p "$place"
(cd "$here" && npm ci --silent --no-audit --no-fund)

cd "$place"
cp "$root/scenarios/data-echoing.toml" "$root/scenarios/buy-storage.toml" "$root/scenarios/fewest-workers.toml" .
"$forebay" -q run data-echoing.toml --format json --output run.json
"$forebay" -q plan buy-storage.toml --format json --output plan.json
"$forebay" -q sweep "$root/scenarios/batch-interval.toml" --output sweep.csv
"$forebay" -q report run.json sweep.csv plan.json --output several.html
test -n "$quick" && WIDTHS=360,1200 exec node "$here/check.mjs" "$place" several.html

"$forebay" -q run fewest-workers.toml --set run.steps=12 --set run.warm_up=2 --set run.replications=1 --format json --output short.json
"$forebay" -q plan fewest-workers.toml --for 'job.batch=[64, 256]' --format json --output value.json
"$forebay" -q compare buy-storage.toml --format json > compare.json
"$forebay" -q sweep fewest-workers.toml --set run.steps=20 --set run.warm_up=5 --set run.replications=1 \
  --vary 'job.loader.pytorch.workers={ from = 1, to = 50, steps = 50 }' \
  --vary 'job.batch=[8, 16, 32, 64]' --vary 'cluster.node.cores=[8, 16, 32, 48, 64]' --output thousand.csv
"$forebay" -q validate --measured "$root/calibrate/hook/two-runs.csv" --scenario "$root/calibrate/hook/two-runs.toml" \
  --format json --output validation > validation.json

"$forebay" -q report run.json --scenario data-echoing.toml --output run.html
"$forebay" -q report short.json --output short.html
"$forebay" -q report plan.json --scenario buy-storage.toml --output plan.html
"$forebay" -q report value.json --output value.html
"$forebay" -q report compare.json --output compare.html
"$forebay" -q report thousand.csv --output thousand.html
"$forebay" -q report sweep.csv --output sweep.html
"$forebay" -q report validation.json --output validation.html
"$forebay" -q report "$root/calibrate/profiles/example.toml" --output profile.html
"$forebay" -q report "$root/calibrate/profiles/shared-vm/profile.toml" --output machine.html

exec node "$here/check.mjs" "$place" ./*.html
