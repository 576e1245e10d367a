#!/bin/bash
# DPDK's vhost driver as the device of `vwire driver`: it sends every frame back.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dpdk.sh"
need_root; need python3
dpdk_ready
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
tell vhost quit
