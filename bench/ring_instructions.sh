#!/bin/sh
# Instructions a packet of each half, counted by callgrind:  ring_instructions.sh BUILD/bench/ring_bench
set -eu
bench=$1
command -v valgrind >/dev/null || { echo "ring_instructions: needs valgrind" >&2; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
valgrind --tool=callgrind --collect-atstart=no --callgrind-out-file="$dir/out" "$bench" --callgrind >"$dir/log" 2>&1 ||
        { cat "$dir/log" >&2; exit 1; }
for f in $(ls "$dir"/out.* | sort -V); do
        awk '/^desc: Trigger: Client Request: / { sub(/.*Request: /, ""); label = $0; match($0, /packets=[0-9]+/)
                        packets = substr($0, RSTART + 8, RLENGTH - 8) }
             /^(totals|summary): / { n = $2 }
             END { if (label) printf "bench=ring_instructions %s instructions_per_packet=%.1f\n", label, n / packets }' "$f"
done
