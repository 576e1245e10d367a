#!/bin/bash
# DPDK's virtio-user as the driver of `vwire device`: every frame of both directions is counted by both ends.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dpdk.sh"
need_root; need python3
dpdk_ready
FRAMES=$([ "${VW_TEST_FULL:-0}" = 1 ] && echo 10000000 || echo 1000000)
for size in 64 256 1500; do
	# to the driver: a generator behind the device makes exactly so many
	device dev$size --port=gen:size=$size,count=$FRAMES
	testpmd user$size "net_virtio_user0,path=$TMP/dev$size.sock,queues=1,queue_size=1024,mrg_rxbuf=1,in_order=0,packed_vq=0" \
		--forward-mode=rxonly --auto-start
	check "size $size: virtio-user runs on the device" until_ok 10 running dev$size
	arrived() { [ "$(stat dev$size 'total("rx","packets")+drops("rx")')" = $FRAMES ]; }
	check "size $size: the device delivers all $FRAMES" until_ok 60 arrived
	sleep 0.5
	check "size $size: the driver received all of them" equal "$(pmd_stat user$size RX-packets)" $FRAMES
	check "size $size: none was dropped" equal "$(stat dev$size 'drops("rx")')" 0
	check "size $size: their bytes are right" equal "$(stat dev$size 'total("rx","bytes")')" $((FRAMES * size))
	# from the driver, as fast as it can
	tell user$size stop; tell user$size "set fwd txonly"; tell user$size "set txpkts $size"; tell user$size start
	enough() { [ "$(stat dev$size 'total("tx","packets")')" -ge $FRAMES ]; }
	check "size $size: the device takes $FRAMES frames from the driver" until_ok 60 enough
	tell user$size stop
	sleep 1
	check "size $size: both ends count the same" equal "$(stat dev$size 'total("tx","packets")+drops("tx")')" "$(pmd_stat user$size TX-packets)"
	check "size $size: no queue is broken" equal "$(stat dev$size '[x["broken"] for x in s["queues"] if x["broken"]]')" "[]"
	tell user$size quit
	sleep 1
	check "size $size: the device listens again" until_ok 5 equal "$(stat dev$size 's["state"]')" listening
done
