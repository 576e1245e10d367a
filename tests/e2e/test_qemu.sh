#!/bin/bash
# A QEMU guest with the stock Debian kernel on `vwire device` with a TAP, in software emulation.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need_qemu; need python3
N=vwqemu$$
ns $N
device dev --port=tap:vwt0,netns=$N --queues=2
host_side $N vwt0
boot_qemu dev steps.sh
# QEMU shows a vhost-user card the link of its own command, not of the device's configuration
set_link() {
	python3 - "$TMP/qmp" "$2" <<-'P'
		import json, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		f = s.makefile("rw")
		f.readline()
		for c in ({"execute": "qmp_capabilities"},
		          {"execute": "set_link", "arguments": {"name": "n0", "up": sys.argv[2] == "up"}}):
		    f.write(json.dumps(c) + "\n")
		    f.flush()
		    answer = json.loads(f.readline())
		    while "return" not in answer and "error" not in answer:
		        answer = json.loads(f.readline())
		sys.exit("error" in answer)
	P
}
follow_guest dev $N vwt0 4
