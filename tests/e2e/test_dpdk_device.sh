#!/bin/bash
# DPDK's vhost driver as the device of `vwire driver`: it sends every frame back, as our own device with a loop does.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dpdk.sh"
need_root; need python3
dpdk_ready
ROUND=0 SUM=0
FRAMES=$([ "${VW_TEST_FULL:-0}" = 1 ] && echo 10000000 || echo 1000000)
testpmd vhost "net_vhost0,iface=$TMP/vhost.sock,queues=1" --forward-mode=macswap --port-topology=loop --auto-start
for size in 64 1500; do
	before_rx=$(pmd_stat vhost RX-packets) before_tx=$(pmd_stat vhost TX-packets)
	driver drv$size --socket-path="$TMP/vhost.sock" --port=gen:size=$size,count=$FRAMES --ring=split
	check "size $size: the driver runs on the device" until_ok 15 running drv$size
	sent() { [ "$(stat drv$size 'total("tx","packets")+drops("tx")')" = $FRAMES ]; }
	check "size $size: the driver sends all $FRAMES" until_ok 90 sent
	sleep 1
	check "size $size: the device received all of them" equal "$(($(pmd_stat vhost RX-packets) - before_rx))" $FRAMES
	check "size $size: the driver received all that came back" equal "$(stat drv$size 'total("rx","packets")+drops("rx")')" "$(($(pmd_stat vhost TX-packets) - before_tx))"
	check "size $size: frames came back" above "$(stat drv$size 'total("rx","packets")')" 1000
	check "size $size: no queue is broken" equal "$(stat drv$size '[x["broken"] for x in s["queues"] if x["broken"]]')" "[]"
	end $LAST
done
# the same traffic through both, at a pace that neither loses anything of: the same counts
counts() { stat "$1" '[(k, total(k,"packets"), total(k,"bytes"), drops(k)) for k in ("tx","rx")]'; }
through() { # NAME SOCKET SIZE: what the driver has counted in the end
	driver "$1" --socket-path="$2" --port=gen:size=$3,rate=50000,count=100000 --ring=split --queue-size=8192
	back() { [ "$(stat "$1" 'total("rx","packets")')" = 100000 ]; }
	until_ok 30 back "$1"
	counts "$1" >"$TMP/$1.counts"
	end $LAST
}
device own --port=loop
for size in 64 590 1500; do
	through theirs$size "$TMP/vhost.sock" $size
	through ours$size "$TMP/own.sock" $size
	check "size $size: through their device all comes back" equal "$(cat "$TMP/theirs$size.counts")" \
		"[('tx', 100000, $((100000 * size)), 0), ('rx', 100000, $((100000 * size)), 0)]"
	check "size $size: through ours the counts are the same" equal "$(cat "$TMP/ours$size.counts")" "$(cat "$TMP/theirs$size.counts")"
	check "size $size: our device counts the same" equal "$(counts own)" \
		"[('tx', $((100000 * ++ROUND)), $((SUM += 100000 * size)), 0), ('rx', $((100000 * ROUND)), $SUM, 0)]"
done
tell vhost quit
