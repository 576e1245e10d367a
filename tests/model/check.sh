#!/bin/sh
# Runs the model of the split ring through spin: the whole state space without an error, and an error for each thing left out.
# hostile P01
set -eu
model=$(cd "$(dirname "$0")" && pwd)/ring.pml
command -v spin >/dev/null && command -v gcc >/dev/null || { echo "1..0 # SKIP needs spin and gcc"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# verify OPTIONS...: prints "errors states", and fails unless the search was complete.
verify()
{
        spin -a "$@" "$model" >spin.log || { cat spin.log; exit 1; }
        gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c
        ./pan -m10000000 -n >pan.log
        ! grep -E 'max search depth too small|out of memory' pan.log >&2 || exit 1
        awk '/errors:/ { errors = $NF } /states, stored/ { states = $1 } END { print errors, states }' pan.log
}

n=0
failed=0
# expect WHAT NAME OPTIONS...
expect()
{
        what=$1 name=$2
        shift 2
        n=$((n + 1))
        set -- $(verify "$@")
        if { [ "$what" = sound ] && [ "$1" = 0 ]; } || { [ "$what" = broken ] && [ "$1" != 0 ]; }; then
                echo "ok $n - $name, $2 states"
        else
                failed=$((failed + 1))
                echo "not ok $n - $name: $1 errors in $2 states"
                cat pan.log
        fi
}

full=${VW_TEST_FULL:-0}
echo 1..$((22 + 2 * full))
for by in flag event; do
        mode=-DBY_$by
        [ $by = flag ] || mode=-DEVENT_IDX
        expect sound "no wake-up is lost by $by" $mode
        [ "$full" = 0 ] || expect sound "no wake-up is lost by $by across a stop and a start" $mode -DRESTARTS=1
        for out in A_DRIVER A_DEVICE B_DRIVER B_DEVICE C_DRIVER C_DEVICE D_DRIVER D_DEVICE C_LOOK D_LOOK; do
                expect broken "without $out the model by $by fails" $mode -DNO_$out
        done
done
exit $failed
