# What a guest does while the host takes its TAP down, up and away: it sends all the time, and says what it sees of its link.
# Sourced by its init with $HOST and $ME set and eth0 there; prints `step NAME VALUE`.
say() { echo "step $*"; }
carrier() { cat /sys/class/net/eth0/carrier 2>/dev/null; }
answers() { n=0; while [ $n -lt 100 ]; do ping -c 1 -W 1 $HOST >/dev/null 2>&1 && { echo yes; return; }; n=$((n + 1)); done; echo no; }

ip link set lo up
ip link set eth0 up
ip addr add $ME/24 dev eth0
ip neigh add 10.99.0.77 lladdr 02:00:00:00:00:77 dev eth0 2>/dev/null # nobody: frames leave without an answer
say mac $(cat /sys/class/net/eth0/address)
say reaches $(answers)
(while true; do ping -c 200 -i 0.002 -W 1 10.99.0.77 >/dev/null 2>&1; done) &
say sending now
n=0; while [ "$(carrier)" != 0 ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
say link-down $([ "$(carrier)" = 0 ] && echo yes || echo no)
n=0; while [ "$(carrier)" != 1 ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
say link-up $([ "$(carrier)" = 1 ] && echo yes || echo no)
say reaches-again $(answers)
n=0; while [ "$(carrier)" != 0 ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
say link-gone $([ "$(carrier)" = 0 ] && echo yes || echo no)
sleep 1
say done now
