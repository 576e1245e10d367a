# What a guest does, whatever runs it: sourced by its init with $HOST and $ME set and eth0 there.
# Each step prints `step NAME VALUE`; the host waits for the words it needs.
say() { echo "step $*"; }
count() { cat /sys/class/net/eth0/statistics/$1; }
# wait_carrier VALUE: up to 20 s
wait_carrier() {
	n=0
	while [ "$(cat /sys/class/net/eth0/carrier 2>/dev/null)" != "$1" ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n + 1)); done
	[ $n -lt 200 ] && echo yes || echo no
}
# of the card; User Mode Linux has one line for all of its queues
interrupts() { sed -n 's/^ *[0-9]*: *\([0-9]*\) .*virtio.*/\1/p' /proc/interrupts; }
# wait_frames N: until so many more have come, 20 s at most; `say` comes before, since the host answers by them
wait_frames() {
	want=$(($(count rx_packets) + $1)); shift
	say "$@"
	n=0; while [ "$(count rx_packets)" -lt $want ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n + 1)); done
	sleep 0.5
}
mbits() { sed -n 's/.*"bits_per_second":[^0-9]*\([0-9]*\).*/\1/p' "$1" | tail -1 | awk '{printf "%d\n", $1 / 1000000}'; }

ip link set lo up
ip link set eth0 up
ip addr add $ME/24 dev eth0
say features $(cat /sys/bus/virtio/devices/virtio0/features 2>/dev/null)
say mac $(cat /sys/class/net/eth0/address)
say ping $(ping -c 5 -i 0.2 -W 2 $HOST | sed -n 's/.* \([0-9]*\) \(packets \)*received.*/\1/p')
iperf3 -c $HOST -t 2 -J >/tmp/up.json 2>&1; say up $(mbits /tmp/up.json)
iperf3 -c $HOST -t 2 -R -J >/tmp/down.json 2>&1; say down $(mbits /tmp/down.json)
ethtool -K eth0 tso off gso off tx off >/dev/null 2>&1
say tso-off $(ethtool -k eth0 | sed -n 's/^tcp-segmentation-offload: //p')
iperf3 -c $HOST -t 1 -J >/tmp/up2.json 2>&1; say up-without-offloads $(mbits /tmp/up2.json)
ethtool -K eth0 tx on tso on gso on >/dev/null 2>&1
ethtool -L eth0 combined 2 >/dev/null 2>&1; say queues $(ethtool -l eth0 | sed -n 's/^Combined:[^0-9]*//p' | tail -1)
iperf3 -c $HOST -t 1 -P 4 -J >/tmp/up3.json 2>&1; say up-two-queues $(mbits /tmp/up3.json)
if [ -n "$COALESCE" ]; then
	ethtool -C eth0 rx-usecs 33 rx-frames 7 tx-usecs 9 tx-frames 5 && say coalesce set || say coalesce refused
	iperf3 -c $HOST -t 1 -R -J >/tmp/c.json 2>&1; say down-coalesced $(mbits /tmp/c.json)
	# one direction at a time: a handler looks at all queues, and what it finds at another makes no interrupt any more
	ip neigh add ${ME%.*}.77 lladdr 02:00:00:00:00:77 dev eth0
	sleep 1
	wait_frames 350 interrupts-before-rx $(interrupts)
	wait_frames 1 interrupts-after-rx $(interrupts)
	wait_frames 1 interrupts-before-tx $(interrupts)
	ping -c 100 -i 0.02 -W 1 ${ME%.*}.77 >/dev/null
	wait_frames 1 interrupts-after-tx $(interrupts)
fi
say link-test begins
say link-down $(wait_carrier 0)
say link-up $(wait_carrier 1)
say ping-again $(ping -c 3 -i 0.2 -W 2 $HOST | sed -n 's/.* \([0-9]*\) \(packets \)*received.*/\1/p')
sleep 1
say rx_packets $(count rx_packets)
say tx_packets $(count tx_packets)
say rx_errors $(count rx_errors)
say done now
