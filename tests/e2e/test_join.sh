#!/bin/bash
# `vwire driver` and `vwire device`, each with a TAP in a namespace: traffic, exact accounting, disconnects and kills.
. "$(dirname "$0")/lib.sh"
need_root; need ip iperf3 ping python3 ethtool
A=vwja$$ B=vwjb$$
ns $A; ns $B
device dev --port=tap:vwd0,netns=$A --queues=2
DEV=$LAST
driver drv --socket-path="$TMP/dev.sock" --port=tap:vwg0,netns=$B --queues=2
DRV=$LAST
address() { ip -n $A addr add 10.98.0.1/24 dev vwd0 2>/dev/null; ip -n $B addr add 10.98.0.2/24 dev vwg0 2>/dev/null; true; }
pings() { ip netns exec $B ping -c 1 -W 1 10.98.0.1; }
check "the link comes up" until_ok 10 running drv
address
check "pings pass" until_ok 5 pings
bg ip netns exec $A iperf3 -s >"$TMP/iperf" 2>&1
sleep 0.3
ip netns exec $B iperf3 -c 10.98.0.1 -t 2 -P 4 -J >"$TMP/up.json" 2>&1
ip netns exec $B iperf3 -c 10.98.0.1 -t 2 -P 4 -R -J >"$TMP/down.json" 2>&1
check "TCP flows from the driver" above "$(bits "$TMP/up.json")" 100
check "TCP flows to the driver" above "$(bits "$TMP/down.json")" 100
sleep 1
check "tx: both ends count the same" until_ok 5 agree drv 'total("tx","packets")' dev 'total("tx","packets")+drops("tx")'
check "rx: both ends count the same" until_ok 5 agree dev 'total("rx","packets")' drv 'total("rx","packets")+drops("rx")'
check "tx bytes agree" until_ok 5 agree drv 'total("tx","bytes")' dev 'total("tx","bytes")'
check "rx bytes agree" until_ok 5 agree drv 'total("rx","bytes")' dev 'total("rx","bytes")'
check "kicks sent are kicks received, or more were sent at once" test "$(stat drv 'total("tx","kicks")')" -ge "$(stat dev 'total("tx","kicks")')"

# idle costs nothing: CPU of both ends over two seconds, in clock ticks
ticks() { awk '{print $14 + $15}' /proc/$1/stat; }
t0=$(($(ticks $DEV) + $(ticks $DRV))); sleep 2; t1=$(($(ticks $DEV) + $(ticks $DRV)))
check "idle ends use no CPU (at most 2 ticks of 400)" test $((t1 - t0)) -le 2

# kill -9 of either side under traffic; the other lives and serves the next
KILLS=$([ "${VW_TEST_FULL:-0}" = 1 ] && echo 50 || echo 5)
fds() { ls /proc/$1/fd | wc -l; }
maps() { wc -l </proc/$1/maps; }
sleep 0.5; f0=$(fds $DEV) m0=$(maps $DEV)
bg ip netns exec $A ping -i 0.002 -q 10.98.0.2 >/dev/null 2>&1
for i in $(seq $KILLS); do
	kill -9 $DRV; wait $DRV 2>/dev/null
	driver drv --socket-path="$TMP/dev.sock" --port=tap:vwg0,netns=$B --queues=2
	DRV=$LAST
	until_ok 10 running drv || break
	address
done
check "the device serves the next driver after $KILLS kills" until_ok 5 pings
check "the device leaks no fd" equal "$(fds $DEV)" "$f0"
check "the device leaks no mapping" test $(($(maps $DEV) - m0)) -le 4
f0=$(fds $DRV) m0=$(maps $DRV)
for i in $(seq $KILLS); do
	kill -9 $DEV; wait $DEV 2>/dev/null
	device dev --port=tap:vwd0,netns=$A --queues=2 || break
	DEV=$LAST
	until_ok 10 running drv || break
	address
done
check "the driver serves on after $KILLS kills of the device" until_ok 10 pings
check "the driver leaks no fd" equal "$(fds $DRV)" "$f0"
check "the driver leaks no mapping" test $(($(maps $DRV) - m0)) -le 4

# orderly ends
kill -TERM $DRV; wait $DRV; check "the driver ends with status 0" equal $? 0
kill -TERM $DEV; wait $DEV; check "the device ends with status 0" equal $? 0
check "the socket is gone" test ! -e "$TMP/dev.sock"
