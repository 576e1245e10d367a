# lib.sh: what the end-to-end tests share.  Source it with the program's path in $VWIRE; it makes a directory, remembers
# namespaces and processes, and takes everything down again at exit, whatever happened.
# A test prints `ok - SENTENCE` or `not ok - SENTENCE` a check (TAP), and the plan at the end.
set -u
VWIRE=${VWIRE:?the path of the vwire program}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TMP=$(mktemp -d /tmp/vwire-e2e.XXXXXX)
PIDS=() NSES=() ENDS=() CHECKS=0 FAILED=0

skip_all() { echo "1..0 # SKIP $*"; trap - EXIT; cleanup; exit 0; }
need_root() { [ "$(id -u)" = 0 ] || skip_all "needs root for network namespaces"; }
need() { for c in "$@"; do command -v "$c" >/dev/null || skip_all "needs $c"; done; }

# check SENTENCE COMMAND...: one case
check() {
	local what=$1; shift
	CHECKS=$((CHECKS + 1))
	if "$@"; then echo "ok $CHECKS - $what"; else echo "not ok $CHECKS - $what"; echo "# failed: $*"; FAILED=$((FAILED + 1)); fi
}
equal() { [ "$1" = "$2" ] || { echo "# got '$1', expected '$2'"; return 1; }; }
above() { awk -v a="$1" -v b="$2" 'BEGIN{exit !(a > b)}' || { echo "# got '$1', expected more than '$2'"; return 1; }; }

# every descendant of a process, itself first
tree() {
	local todo=$1 all= p
	while [ -n "$todo" ]; do
		all="$all $todo"
		todo=$(for p in $todo; do cat /proc/$p/task/*/children 2>/dev/null; done)
	done
	echo $all
}
# end PID: ends a process that this test started, with its children; by force after two seconds
end() {
	local all i; all=$(tree "$1")
	kill "$1" 2>/dev/null
	for i in $(seq 40); do kill -0 "$1" 2>/dev/null || break; sleep 0.05; done
	kill -9 $all 2>/dev/null
	wait "$1" 2>/dev/null
	true
}
cleanup() {
	local x
	for x in "${PIDS[@]}"; do kill -0 "$x" 2>/dev/null && end "$x"; done
	for x in "${ENDS[@]}"; do $x; done
	for x in "${NSES[@]}"; do ip netns del "$x" 2>/dev/null; done
	rm -rf "$TMP"
}
finish() {
	local status=$?
	trap - EXIT
	[ $FAILED = 0 ] || for log in "$TMP"/*.log; do [ -s "$log" ] && tail -5 "$log" | sed "s|^|# $(basename "$log"): |"; done
	cleanup
	[ $status = 0 ] && [ "$CHECKS" != 0 ] || { echo "not ok $((CHECKS + 1)) - the script ran to its end"; CHECKS=$((CHECKS + 1)); FAILED=1; }
	echo "1..$CHECKS"
	exit $((FAILED != 0))
}
trap finish EXIT
trap 'exit 130' INT TERM

bg() { "$@" <&0 & LAST=$!; PIDS+=($LAST); }
ns() { ip netns add "$1" && NSES+=("$1") && ip -n "$1" link set lo up; }
# until SECONDS COMMAND...: polls until the command succeeds
until_ok() {
	local n=$(($1 * 20)); shift
	for ((; n > 1; n--)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done
	"$@"
}

# device NAME OPTION...: a device with socket $TMP/NAME.sock and control socket $TMP/NAME.ctl; pid in $LAST
device() {
	local n=$1; shift
	bg "$VWIRE" device --socket-path="$TMP/$n.sock" --ctl="$TMP/$n.ctl" "$@" 2>"$TMP/$n.log"
	until_ok 5 grep -q 'device: listening' "$TMP/$n.log" || { sed 's/^/# /' "$TMP/$n.log"; return 1; }
}
driver() {
	local n=$1; shift
	bg "$VWIRE" driver --ctl="$TMP/$n.ctl" "$@" 2>"$TMP/$n.log"
}
# stat NAME EXPRESSION: a Python expression over the statistics `s`; helpers: q(kind), total(kind, counter), drops(kind)
stat() {
	"$VWIRE" ctl "$TMP/$1.ctl" stats --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
def q(kind): return [x for x in s["queues"] if x["kind"] == kind]
def total(kind, counter): return sum(x["counters"][counter] for x in q(kind))
def drops(kind): return sum(sum(x["drops"].values()) for x in q(kind))
print(eval(sys.argv[1]))' "$2"
}
# agree NAME EXPRESSION NAME EXPRESSION: two ends count the same; a kernel's own frame may pass between the two looks
agree() { equal "$(stat "$1" "$2")" "$(stat "$3" "$4")"; }
running() { [ "$(stat "$1" 's["state"]')" = running ]; }
logged() { grep -aq "$2" "$1"; }
# net NS INTERFACE COUNTER: of the kernel
net() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/$3"; }
# bits FILE: the receiver's Mbit/s of an iperf3 --json report
bits() { python3 -c 'import json,sys; print(round(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"]/1e6))' "$1" 2>/dev/null || echo 0; }
