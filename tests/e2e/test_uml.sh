#!/bin/bash
# A User Mode Linux guest, i.e. a real Linux virtio_net, on `vwire device` with a TAP.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need linux.uml ip iperf3 ethtool ping python3
N=vwuml$$
ns $N
device dev --port=tap:vwt0,netns=$N --queues=2 --mac=52:54:00:12:34:56
ip netns exec $N sh -c 'echo 1 >/proc/sys/net/ipv6/conf/vwt0/disable_ipv6' # what it says by itself would disturb the counts
host_side $N vwt0
ip -n $N neigh replace $ME lladdr 52:54:00:12:34:56 dev vwt0 # ... nor does it ask
COALESCE=$("$VWIRE" ctl "$TMP/dev.ctl" features 2>/dev/null | grep -q notf_coal && echo 1)
boot_uml dev steps.sh COALESCE="$COALESCE"

# send_frames N: to the guest, in bursts of seven; of a kind that nobody there answers
send_frames() {
	ip netns exec $N python3 - "$1" <<'T'
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("vwt0", 0))
for i in range(int(sys.argv[1])):
    s.send(bytes.fromhex("525400123456" "020000000001" "88b5") + bytes(50))
    if i % 7 == 6:
        time.sleep(0.01)
T
}
calls() { stat dev 'sum(x["counters"]["calls"] for x in s["queues"])'; }
# compare_interrupts DIRECTION FRAMES: those that the guest has counted while FRAMES went that way, with the device's calls
compare_interrupts() {
	local before
	check "$1: the guest comes to count its interrupts" wait_step interrupts-before-$1 60
	before=$(calls)
	send_frames $2
	check "$1: the guest has counted them" wait_step interrupts-after-$1 60
	check "$1: the guest counts an interrupt for each call of the device" \
		equal $(($(step interrupts-after-$1) - $(step interrupts-before-$1))) $(($(calls) - before))
	check "$1: there were some" above $(($(calls) - before)) 0
	send_frames 1
}
[ -n "$COALESCE" ] && wait_step mac 40 && { compare_interrupts rx 350; compare_interrupts tx 1; }
follow_guest dev $N vwt0 2
check "the guest has the MAC that was offered" equal "$(step mac)" 52:54:00:12:34:56
if [ -n "$COALESCE" ]; then
	check "ethtool -C is taken" equal "$(step coalesce)" set
	check "rx settings are the guest's" equal "$(stat dev '(q("rx")[0]["settings"]["usecs"], q("rx")[0]["settings"]["frames"])')" "(33, 7)"
	check "tx settings are the guest's" equal "$(stat dev '(q("tx")[0]["settings"]["usecs"], q("tx")[0]["settings"]["frames"])')" "(9, 5)"
	check "interrupts were held back both ways" above "$(stat dev 'min(total("rx", "calls_coalesced"), total("tx", "calls_coalesced"))')" 0
fi
