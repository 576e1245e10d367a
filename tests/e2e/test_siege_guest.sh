#!/bin/bash
# A real Linux guest beside a device on the same CPU that is lied to all the time: not one error.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need_qemu; need python3
[ "${VW_TEST_FULL:-0}" = 1 ] && PINGS=1000 BYTES=1G || PINGS=200 BYTES=64M
N=vwsg$$
ns $N
device dev --port=tap:vwt0,netns=$N --queues=2 --cpus=0
device victim --port=gen:rate=10000 --cpus=0
VICTIM=$LAST
host_side $N vwt0
boot_qemu dev siege.sh PINGS=$PINGS BYTES=$BYTES
check "the guest boots and finds its NIC" wait_step mac 80
bg python3 "$HERE/../siege/assault.py" "$TMP/victim.sock" >"$TMP/assault.out" 2>"$TMP/assault.log"
LIAR=$LAST
check "the guest reaches the end of its traffic" wait_step done 400
check "every ping is answered" equal "$(step ping)" $PINGS
check "all bytes come to the host" above "$(step up)" $((${BYTES%[MG]} * 1000000))
check "all bytes come to the guest" above "$(step down)" $((${BYTES%[MG]} * 1000000))
# hostile K19
check "the guest saw no error and lost nothing" equal "$(step errors)" 0
check "the guest received what the device delivered" equal "$(step rx_packets)" "$(stat dev 'total("rx","packets")')"
check "the TAP received what the device sent" equal "$(net $N vwt0 rx_packets)" "$(stat dev 'total("tx","packets")')"
check "nothing was dropped" equal "$(stat dev 'drops("tx")+drops("rx")')" 0
check "no queue is broken" equal "$(stat dev '[x["broken"] for x in s["queues"] if x["broken"]]')" "[]"
kill -TERM $LIAR; wait $LIAR; check "the liar found its device alive to the end" equal $? 0
echo "# $(cat "$TMP/assault.out") lies meanwhile"
check "it has lied" above "$(cat "$TMP/assault.out")" 20
check "the device that was lied to waits for the next" until_ok 5 eval 'equal "$(stat victim "s[\"state\"]")" listening'
kill -TERM $VICTIM; wait $VICTIM; check "... and ends with status 0" equal $? 0
