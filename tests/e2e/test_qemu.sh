#!/bin/bash
# A QEMU guest with the stock Debian kernel on `vwire device` with a TAP, in software emulation.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest.sh"
need_root; need qemu-system-x86_64 ip iperf3 ethtool busybox cpio python3 modprobe
K=$(ls /boot/vmlinuz-* 2>/dev/null | tail -1)
[ -n "$K" ] || skip_all "needs a kernel image in /boot (linux-image-amd64)"

# the guest's root
R=$TMP/root
mkdir -p "$R"/{bin,proc,sys,dev,tmp,mod,etc}
cp "$(command -v busybox)" "$R/bin/"
cp "$HERE/guest/qemu-init" "$R/init"; cp "$HERE/guest/steps.sh" "$R/steps.sh"
for b in iperf3 ethtool; do
	cp "$(command -v $b)" "$R/bin/"
	ldd "$(command -v $b)" | grep -o '/[^ ]*' | while read -r l; do mkdir -p "$R$(dirname "$l")"; cp -Ln "$l" "$R$l"; done
done
n=10
for m in $(for x in virtio_pci virtio_net; do modprobe -S "${K#/boot/vmlinuz-}" --show-depends $x | awk '$1=="insmod"{print $2}'; done | awk '!s[$0]++'); do
	cp "$m" "$R/mod/$n-$(basename "$m")"; n=$((n + 1))
done
(cd "$R" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$TMP/initrd"

N=vwqemu$$
ns $N
device dev --port=tap:vwt0,netns=$N --queues=2
host_side $N vwt0
bg qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 512 -nodefaults -no-reboot -display none \
	-object memory-backend-memfd,id=m,size=512M,share=on -numa node,memdev=m \
	-chardev socket,id=c,path="$TMP/dev.sock" -netdev vhost-user,id=n0,chardev=c,queues=2 \
	-device virtio-net-pci,netdev=n0,mq=on,vectors=0 \
	-kernel "$K" -initrd "$TMP/initrd" -serial file:"$TMP/console" -qmp unix:"$TMP/qmp",server=on,wait=off \
	-append "console=ttyS0 quiet mitigations=off vw.HOST=$HOST vw.ME=$ME" </dev/null >"$TMP/qemu.out" 2>&1
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
