#!/bin/bash
# A User Mode Linux guest, i.e. a real Linux virtio_net, on `vwire device` with a TAP.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need linux.uml ip iperf3 ethtool ping python3
N=vwuml$$
ns $N
device dev --port=tap:vwt0,netns=$N --queues=2 --mac=52:54:00:12:34:56
host_side $N vwt0
COALESCE=$("$VWIRE" ctl "$TMP/dev.ctl" features 2>/dev/null | grep -q notf_coal && echo 1)
bg linux.uml mem=256M root=/dev/root rootfstype=hostfs rw init="$HERE/guest/uml-init" \
	virtio_uml.device="$TMP/dev.sock:1" con=null con0=null,fd:2 umid=vw$$ \
	vw.STEPS="$HERE/guest/steps.sh" vw.HOST=$HOST vw.ME=$ME vw.COALESCE="$COALESCE" </dev/null >"$TMP/uml.out" 2>"$TMP/console"
follow_guest dev $N vwt0 2
check "the guest has the MAC that was offered" equal "$(step mac)" 52:54:00:12:34:56
if [ -n "$COALESCE" ]; then
	check "ethtool -C is taken" equal "$(step coalesce)" set
	check "rx settings are the guest's" equal "$(stat dev '(q("rx")[0]["settings"]["usecs"], q("rx")[0]["settings"]["frames"])')" "(33, 7)"
	check "tx settings are the guest's" equal "$(stat dev '(q("tx")[0]["settings"]["usecs"], q("tx")[0]["settings"]["frames"])')" "(9, 5)"
fi
