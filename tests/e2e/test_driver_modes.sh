#!/bin/bash
# The driver's settings through its control socket while packets pass; and a TAP that is not read while the queue is stopped.
. "$(dirname "$0")/lib.sh"
need python3
FULL=${VW_TEST_FULL:-0}
FRAMES=$([ $FULL = 1 ] && echo 4000000 || echo 200000) RATE=20000 TOGGLES=$([ $FULL = 1 ] && echo 1000 || echo 60)
ctl() { local n=$1; shift; "$VWIRE" ctl "$TMP/$n.ctl" "$@"; }

# T-TX-11: each round sets all there is, reads it back, and no packet is lost
device dev --port=loop
driver drv --socket-path="$TMP/dev.sock" --port=gen:size=300,rate=$RATE,count=$FRAMES
DRV=$LAST
check "the driver runs" until_ok 10 running drv
modes=(napi orphan) switch=(off on) kicks=(burst each) interrupts=(lazy eager) sizes=(auto mtu page)
toggle() {
	local i=$1 s
	s="tx-mode=${modes[i % 2]} clean-tx-from-rx=${switch[i / 2 % 2]} shared-interrupt=${switch[i / 3 % 2]} kick=${kicks[i / 4 % 2]} tx-interrupts=${interrupts[i / 2 % 2]}"
	s="$s bql=${switch[i / 5 % 2]} rx-buffers=${sizes[i % 3]} poll-us=$((i % 4 * 20)) tx-usecs=$((i % 3 * 50)) tx-frames=$((i % 3 * 8))"
	s="$s rx-usecs=$((i % 5 * 20)) rx-frames=$((i % 5 * 4))"
	ctl drv set $s >"$TMP/set" 2>&1 || { echo "# set $s"; sed 's/^/# /' "$TMP/set"; return 1; }
	ctl drv get $(echo "$s" | sed 's/=[^ ]*//g') >"$TMP/got" || return 1
	for kv in $s; do
		grep -Eq "^ *${kv%%=*}[ =:]+${kv#*=}\$" "$TMP/got" || { echo "# $kv is not what get says:"; sed 's/^/# /' "$TMP/got"; return 1; }
	done
}
toggle_all() { local i; for i in $(seq "$TOGGLES"); do toggle "$i" || return 1; done; }
check "all settings are set and read back $TOGGLES times under traffic" toggle_all
sizes() { stat drv 'len(q("rx")[0]["buffer_sizes"])'; }
check "the histogram has the sizes that were set" above "$(sizes)" 1
back() { [ "$(stat drv 'total("rx","packets")')" = $FRAMES ]; }
check "all $FRAMES frames came back" until_ok $((FRAMES / RATE + 60)) back
check "tx: all were sent" equal "$(stat drv 'total("tx","packets")')" $FRAMES
check "tx: none was dropped" equal "$(stat drv 'drops("tx")')" 0
check "the device counts the same" equal "$(stat dev '(total("tx","packets"), total("rx","packets"))')" "($FRAMES, $FRAMES)"
check "the watchdog saw nothing" equal "$(stat drv 'total("tx","watchdogs")')" 0
quick_end() { # MODE PID
	local t0 t1
	ctl drv set tx-mode=$1 >/dev/null; t0=$(date +%s%N); kill -TERM "$2"; wait "$2"; local r=$?; t1=$(date +%s%N)
	equal $r 0 && above 1000 $(((t1 - t0) / 1000000))
}
check "it closes within a second in orphan mode" quick_end orphan $DRV
driver drv --socket-path="$TMP/dev.sock" --port=gen:size=300 --shared-interrupt=on
DRV=$LAST
check "it runs with a shared interrupt" until_ok 10 running drv
check "get says so" test "$(ctl drv get shared-interrupt | grep -c on)" = 1
sleep 0.3
check "all interrupts are those of rx" equal "$(stat drv 'total("tx","interrupts")')" 0
check "packets pass" above "$(stat drv 'total("rx","packets")')" 1000
check "it closes within a second in napi mode, and under traffic" quick_end napi $DRV

# The places that tools/trace/ watches are in the program, where it was built with probes
probes() { readelf -n "$VWIRE" | sed -n '/Provider: vwire/{n;s/.*Name: //p}' | sort -u; }
if command -v readelf >/dev/null && [ -n "$(probes)" ]; then
	for p in $(grep -oh 'vwire:[a-z_]*' "$HERE"/../../tools/trace/*.bt | sed 's/vwire://' | sort -u); do
		check "there is a probe $p" grep -qx "$p" <(probes)
	done
fi

# Back-pressure: a device that stands still stops the queue, and then the TAP is not read
[ "$(id -u)" = 0 ] && command -v ip >/dev/null || { echo "# the TAP's part needs root and ip"; exit; }
N=vwen$$
ns $N
device far --port=null
FAR=$LAST
driver near --socket-path="$TMP/far.sock" --port=tap:vwe0,netns=$N
NEAR=$LAST
check "the TAP's driver runs" until_ok 10 running near
ip -n $N addr add 10.97.0.1/24 dev vwe0
ip -n $N neigh add 10.97.0.2 lladdr 02:00:00:00:00:02 dev vwe0
flood() { # COUNT: datagrams
	ip netns exec $N python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
for i in range(int(sys.argv[1])):
    try: s.sendto(bytes(1000), ("10.97.0.2", 9))
    except BlockingIOError: pass
    except OSError: pass' "$1"
}
sent() { stat near 'total("tx","packets")'; }
flood 100
some() { [ "$(sent)" -gt 9 ]; }
check "frames pass" until_ok 5 some; sleep 0.2
kill -STOP $FAR
s0=$(sent) t0=$(awk '{print $14 + $15}' /proc/$NEAR/stat)
flood 5000; sleep 1
s1=$(sent) t1=$(awk '{print $14 + $15}' /proc/$NEAR/stat)
check "a stopped device: no more than a ring of frames leaves the TAP" above 258 $((s1 - s0))
check "the rest stays with the kernel, which tells its senders or drops" above $((5000 - s1 + s0)) 4000
check "the driver does not spin meanwhile" above 20 $((t1 - t0))
check "why says what it waits for" grep -Eq "stopped|completed nothing" <(ctl near why 1)
kill -CONT $FAR
sleep 0.5; flood 100
passed() { [ "$(sent)" -gt $((s1 + 9)) ]; }
check "it goes on when the device does" until_ok 5 passed
check "not a frame of the driver's is lost" equal "$(stat near 'drops("tx")')" 0
same() { [ "$(sent)" = "$(stat far 'total("tx","packets")')" ]; }
check "both ends count the same" until_ok 5 same
