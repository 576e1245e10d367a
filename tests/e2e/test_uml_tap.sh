#!/bin/bash
# A User Mode Linux guest that sends all the time, while the host takes its TAP down, up again, and away.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need linux.uml ip ping python3
N=vwut$$
ns $N
device dev --port=tap:vwt0,netns=$N
DEV=$LAST
host_side $N vwt0
boot_uml dev tap.sh
check "the guest boots and finds its NIC" wait_step mac 40
check "the guest sends" wait_step sending 60
check "... and reaches the host" equal "$(step reaches)" yes
# hostile J01
ip -n $N link set vwt0 down
check "the guest sees its link go down with the TAP" wait_step link-down 40
check "... in time" equal "$(step link-down)" yes
ip -n $N link set vwt0 up
check "the guest sees it come up" wait_step link-up 40
check "the guest reaches the host again" wait_step reaches-again 60
check "... in time" equal "$(step reaches-again)" yes
check "the TAP received what the device sent" until_ok 5 eval 'equal "$(net $N vwt0 rx_packets)" "$(stat dev "total(\"tx\",\"packets\")")"'
check "no queue is broken" equal "$(stat dev '[x["broken"] for x in s["queues"] if x["broken"]]')" "[]"
# hostile J02
ip -n $N link del vwt0
check "the guest sees its link go with the TAP" wait_step link-gone 40
check "... in time" equal "$(step link-gone)" yes
check "the loss of the port is said" logged "$TMP/dev.log" "link is down"
check "the device lives" kill -0 $DEV
kill -TERM $DEV; wait $DEV; check "... and ends with status 0" equal $? 0
