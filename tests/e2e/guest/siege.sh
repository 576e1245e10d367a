# What a guest does while its neighbour is lied to: a thousand pings and a gibibyte each way, without one error.
# Sourced by its init with $HOST and $ME set and eth0 there; prints `step NAME VALUE`.
say() { echo "step $*"; }
count() { cat /sys/class/net/eth0/statistics/$1; }
bytes() { sed -n 's/.*"bytes":[^0-9]*\([0-9]*\).*/\1/p' "$1" | tail -1; }

ip link set lo up
ip link set eth0 up
ip addr add $ME/24 dev eth0
say mac $(cat /sys/class/net/eth0/address)
say ping $(ping -c $PINGS -i 0.01 -W 5 $HOST | sed -n 's/.* \([0-9]*\) \(packets \)*received.*/\1/p')
iperf3 -c $HOST -n $BYTES -J >/tmp/up.json 2>&1; say up $(bytes /tmp/up.json)
iperf3 -c $HOST -n $BYTES -R -J >/tmp/down.json 2>&1; say down $(bytes /tmp/down.json)
sleep 1
say rx_packets $(count rx_packets)
say tx_packets $(count tx_packets)
say errors $(($(count rx_errors) + $(count tx_errors) + $(count rx_dropped) + $(count tx_dropped)))
say done now
