# dpdk.sh: sourced after lib.sh by the tests of DPDK peers: hugepages and a testpmd that is spoken to.
HUGE_BEFORE=$(cat /proc/sys/vm/nr_hugepages 2>/dev/null)
dpdk_ready() {
	need dpdk-testpmd
	mkdir -p "$TMP/huge"
	ENDS+=(dpdk_cleanup)
	echo $((HUGE_BEFORE + ${HUGE_PAGES:-256})) >/proc/sys/vm/nr_hugepages
	mount -t hugetlbfs none "$TMP/huge" || skip_all "needs hugetlbfs"
	[ "$(awk '/HugePages_Free/{print $2}' /proc/meminfo)" -ge 200 ] || skip_all "needs 200 free hugepages"
}
# testpmd NAME VDEV OPTION...: starts one; `tell NAME COMMAND` speaks to it
testpmd() {
	local n=$1 vdev=$2; shift 2
	mkfifo "$TMP/$n.in"
	exec {FD}<>"$TMP/$n.in"
	eval "IN_$n=$FD"
	bg stdbuf -oL dpdk-testpmd --lcores '0@0,1@1' --main-lcore 0 --file-prefix="vw$n$$" --no-pci --no-telemetry \
		--huge-dir "$TMP/huge" --single-file-segments --iova-mode va -m 256 --vdev "$vdev" \
		-- -i --nb-cores=1 --total-num-mbufs=16384 --txd=1024 --rxd=1024 "$@" <"$TMP/$n.in" >"$TMP/$n.out" 2>&1
	until_ok 30 grep -q 'testpmd>' "$TMP/$n.out" || { tail -5 "$TMP/$n.out" | sed 's/^/# /'; return 1; }
}
tell() { local v=IN_$1; echo "$2" >&"${!v}"; }
# pmd_stat NAME RX-packets|TX-packets: asked freshly
pmd_stat() {
	local mark; mark=$(grep -c 'NIC statistics' "$TMP/$1.out")
	tell "$1" "show port stats 0"
	for _ in $(seq 100); do [ "$(grep -c 'NIC statistics' "$TMP/$1.out")" -gt "$mark" ] && break; sleep 0.05; done
	sleep 0.1
	grep -a "$2:" "$TMP/$1.out" | tail -1 | sed "s/.*$2: *\([0-9]*\).*/\1/"
}
dpdk_cleanup() {
	umount "$TMP/huge" 2>/dev/null
	rm -rf /var/run/dpdk/vw*$$
	echo "$HUGE_BEFORE" >/proc/sys/vm/nr_hugepages
}
