# guest.sh: sourced after lib.sh by the tests of real guests: the host's side of what stands in guest/.
HOST=10.99.0.1 ME=10.99.0.2

# host_side NS TAP: addresses and an iperf3 server beside the device's TAP
host_side() {
	ip -n "$1" addr add $HOST/24 dev "$2"
	bg ip netns exec "$1" iperf3 -s >"$TMP/iperf.log" 2>&1
}
need_qemu() {
	need qemu-system-x86_64 ip iperf3 ethtool busybox cpio modprobe
	K=$(ls /boot/vmlinuz-* 2>/dev/null | tail -1)
	[ -n "$K" ] || skip_all "needs a kernel image in /boot (linux-image-amd64)"
}
# boot_qemu DEVICE STEPS [WORD=VALUE...]: the stock Debian kernel in software emulation, with guest/STEPS; the words are its variables
boot_qemu() {
	local dev=$1 steps=$2 R=$TMP/root b l m x n=10 words=
	shift 2
	for x in "$@"; do words="$words vw.$x"; done
	mkdir -p "$R"/{bin,proc,sys,dev,tmp,mod,etc}
	cp "$(command -v busybox)" "$R/bin/"
	cp "$HERE/guest/qemu-init" "$R/init"; cp "$HERE/guest/$steps" "$R/steps.sh"
	for b in iperf3 ethtool; do
		cp "$(command -v $b)" "$R/bin/"
		ldd "$(command -v $b)" | grep -o '/[^ ]*' | while read -r l; do mkdir -p "$R$(dirname "$l")"; cp -Ln "$l" "$R$l"; done
	done
	for m in $(for x in virtio_pci virtio_net; do modprobe -S "${K#/boot/vmlinuz-}" --show-depends $x | awk '$1=="insmod"{print $2}'; done | awk '!s[$0]++'); do
		cp "$m" "$R/mod/$n-$(basename "$m")"; n=$((n + 1))
	done
	(cd "$R" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$TMP/initrd"
	bg qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 512 -nodefaults -no-reboot -display none \
		-object memory-backend-memfd,id=m,size=512M,share=on -numa node,memdev=m \
		-chardev socket,id=c,path="$TMP/$dev.sock" -netdev vhost-user,id=n0,chardev=c,queues=2 \
		-device virtio-net-pci,netdev=n0,mq=on,vectors=0 \
		-kernel "$K" -initrd "$TMP/initrd" -serial file:"$TMP/console" -qmp unix:"$TMP/qmp",server=on,wait=off \
		-append "console=ttyS0 quiet mitigations=off vw.HOST=$HOST vw.ME=$ME$words" </dev/null >"$TMP/qemu.out" 2>&1
}
# boot_uml DEVICE STEPS [WORD=VALUE...]: User Mode Linux on the host's own files
boot_uml() {
	local dev=$1 steps=$2 x words=
	shift 2
	for x in "$@"; do words="$words vw.$x"; done
	bg linux.uml mem=256M root=/dev/root rootfstype=hostfs rw init="$HERE/guest/uml-init" \
		virtio_uml.device="$TMP/$dev.sock:1" con=null con0=null,fd:2 umid=vw$$ \
		vw.STEPS="$HERE/guest/$steps" vw.HOST=$HOST vw.ME=$ME $words </dev/null >"$TMP/uml.out" 2>"$TMP/console"
}
# step NAME: the value that the guest printed
step() { tr -d "\r" <"$TMP/console" | sed -n "s/^step $1  *//p" | tail -1; }
saw() { tr -d '\r' <"$TMP/console" 2>/dev/null | grep -aq "^step $1 "; }
# wait_step NAME SECONDS
wait_step() { until_ok "$2" saw "$1" || { echo "# the guest did not come to '$1'"; tail -15 "$TMP/console" | tr -d '\r' | sed 's/^/# /'; return 1; }; }

# set_link NAME up|down: by the device, for front ends that take configuration changes; a test may put its own in place
set_link() { "$VWIRE" ctl "$TMP/$1.ctl" link "$2"; }

# follow_guest NAME NS TAP PACE: walks along with the guest and checks what it says; PACE multiplies the time limits
follow_guest() {
	local n=$1 netns=$2 tap=$3 pace=$4
	check "the guest boots and finds its NIC" wait_step mac $((20 * pace))
	check "the device runs" running "$n"
	[ $FAILED = 0 ] || return # without a card the rest would only wait
	check "the guest reaches the end of its traffic" wait_step link-test $((60 * pace))
	check "five pings are answered" equal "$(step ping)" 5
	check "TCP flows from the guest" above "$(step up)" 1
	check "TCP flows to the guest" above "$(step down)" 1
	check "ethtool -K turns segmentation off" equal "$(step tso-off)" off
	check "TCP flows without offloads" above "$(step up-without-offloads)" 1
	check "ethtool -L sets two queue pairs" equal "$(step queues)" 2
	check "TCP flows over two queue pairs" above "$(step up-two-queues)" 1
	check "the link is set down" set_link "$n" down
	check "the guest sees the link go down" wait_step link-down $((20 * pace))
	check "... in time" equal "$(step link-down)" yes
	check "the link is set up" set_link "$n" up
	check "the guest sees the link come up" wait_step link-up $((20 * pace))
	check "the guest finishes" wait_step done $((20 * pace))
	check "pings are answered again" equal "$(step ping-again)" 3
	check "the guest saw no receive error" equal "$(step rx_errors)" 0
	# exact accounting: guest = device = TAP
	check "the guest received what the device delivered" equal "$(step rx_packets)" "$(stat "$n" 'total("rx","packets")')"
	check "the device counts what the guest sent" equal "$(step tx_packets)" "$(stat "$n" 'total("tx","packets")+drops("tx")')"
	check "the TAP received what the device sent" equal "$(net "$netns" "$tap" rx_packets)" "$(stat "$n" 'total("tx","packets")')"
	check "no queue is broken" equal "$(stat "$n" '[x["broken"] for x in s["queues"] if x["broken"]]')" "[]"
}
