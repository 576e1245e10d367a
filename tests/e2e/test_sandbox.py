#!/usr/bin/env python3
"""The sandbox of `vwire device` from outside: what is on, what still works inside, and what happens where the system lacks a layer.

usage: test_sandbox.py BUILD/vwire [PATTERN]
"""
import ctypes
import errno
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

from common import SLOW, VWIRE, Device, End, Skip, expect, expect_eq, main, run, test, wait_for

LAYERS = ["user", "network", "ipc", "mount", "rlimits", "capabilities", "dumpable", "no_new_privs", "landlock", "seccomp"]
CAP_DAC_OVERRIDE = 1 << 1
ROOT = os.geteuid() == 0


def status(pid, task=None):
    path = f"/proc/{pid}/task/{task}/status" if task else f"/proc/{pid}/status"
    return dict(line.split(":", 1) for line in pathlib.Path(path).read_text().splitlines() if ":" in line)


def tasks(pid):
    return os.listdir(f"/proc/{pid}/task")


def doors(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def expect_shut_in(pid):
    for task in tasks(pid):
        s = status(pid, task)
        for name in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
            expect_eq((s["Name"], name, int(s[name], 16)), (s["Name"], name, 0))
        expect_eq((s["NoNewPrivs"].strip(), s["Seccomp"].strip()), ("1", "2"))


# hostile O01
@test
def no_thread_has_a_right_while_a_driver_is_served_and_a_capture_runs():
    with Device("--port=gen", "--queues=2", "--workers=2") as device:
        expect_shut_in(device.process.pid)
        with End("driver", device.dir.name, f"--socket-path={device.path}", "--port=null", "--queues=2") as driver:
            wait_for(lambda: device.stats()["state"] == "running", "the link")
            before = len(tasks(device.process.pid))
            expect_eq(device.ask("pcap", f"{device.dir.name}/a.pcap").returncode, 0)
            expect_eq(len(tasks(device.process.pid)), before + 1)
            expect_shut_in(device.process.pid)
            wait_for(lambda: os.path.getsize(f"{device.dir.name}/a.pcap") > 24, "captured frames")
            expect_eq(device.ask("pcap", "off").returncode, 0)
            for key in "poll-us=20", "adaptive=both", "tx-usecs=10", "tx-frames=4":
                expect_eq(device.ask("set", key).returncode, 0)
            for words in ("link", "down"), ("link", "up"), ("why",):
                expect_eq(device.ask(*words).returncode, 0)
            expect(driver.process.poll() is None and device.process.poll() is None, device.lines())
    expect_eq(device.process.returncode, -signal.SIGKILL)


@test
def a_capture_from_the_start_is_shut_in_too():
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d, Device(f"--pcap={d}/a.pcap") as device:
        expect_eq(len(tasks(device.process.pid)), 3)
        expect_shut_in(device.process.pid)


@test
def the_door_has_one_right_and_ends_with_the_device():
    for how in signal.SIGTERM, signal.SIGKILL:
        with Device() as device:
            pids = doors(device.process.pid)
            expect_eq(len(pids), 1)
            s = status(pids[0])
            for name in "CapInh", "CapBnd", "CapAmb":
                expect_eq((name, int(s[name], 16)), (name, 0))
            expect_eq(int(s["CapPrm"], 16) & ~CAP_DAC_OVERRIDE, 0)
            expect_eq((s["Name"].strip(), s["NoNewPrivs"].strip(), s["Seccomp"].strip()), ("vwire-door", "1", "2"))
            expect_eq(len(os.listdir(f"/proc/{pids[0]}/fd")), 1)
            device.process.send_signal(how)
            device.process.wait(SLOW)
            if how == signal.SIGTERM:
                expect(not os.path.exists(device.path) and not os.path.exists(device.ctl), "a socket was left behind")
            wait_for(lambda: not os.path.exists(f"/proc/{pids[0]}"), "the door's end", 2)


@test
def a_device_that_needs_no_door_has_none():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen([VWIRE, "device", "--port=null", f"--fd={theirs.fileno()}"],
                                   pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        wait_for(lambda: len(tasks(process.pid)) == 2 and status(process.pid)["Seccomp"].strip() == "2", "the sandbox")
        expect_eq(doors(process.pid), [])
        theirs.close()
        ours.close()
        expect_eq(process.wait(SLOW), 0)


@test
def nothing_is_within_reach():
    with Device() as device:
        pid = device.process.pid
        expect_eq(os.listdir(f"/proc/{pid}/root"), [])
        expect_eq(os.readlink(f"/proc/{pid}/cwd"), "/")
        for ns in "net", "ipc", "mnt":
            expect(os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), ns)
        if ROOT:
            ids = [int(n) for n in status(pid)["Uid"].split() + status(pid)["Gid"].split()]
            expect_eq(set(ids), {2000000000 + pid})
        else:
            expect(os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user"))
        links = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        expect_eq([line.split(":")[0].strip() for line in links], ["lo"])


# hostile O08
@test
def no_core_file_can_hold_guest_memory():
    with Device("--port=gen") as device:
        with End("driver", device.dir.name, f"--socket-path={device.path}", "--port=null"):
            wait_for(lambda: device.stats()["state"] == "running", "the link")
            pid = device.process.pid
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            expect(re.search(r"Max core file size +0 +0 ", limits), limits)
            expect_eq(os.stat(f"/proc/{pid}/environ").st_uid, 0)  # as of a process that is not dumpable
            shared = [r for r in re.split(r"\n(?=[0-9a-f]+-)", pathlib.Path(f"/proc/{pid}/smaps").read_text()) if "memfd:" in r]
            expect(shared, "no guest memory is mapped")
            for region in shared:
                expect(" dd" in region.split("VmFlags:")[1], region)


# ---- what still works ----

# hostile K08
@test
def a_client_connects_again_and_again():
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d:
        path = f"{d}/front.sock"
        with Device("--client", f"--socket-path={path}", "--port=null", socket_path=False) as device:
            expect_shut_in(device.process.pid)
            for _ in range(5):
                with End("driver", d, "--server", f"--socket-path={path}", "--port=gen") as driver:
                    wait_for(lambda: driver.stats()["state"] == "running", "the device to come")
                    wait_for(lambda: sum(q["counters"]["packets"] for q in device.stats()["queues"]), "traffic")
                wait_for(lambda: device.stats()["state"] == "listening", "the device to notice")
            expect_eq(device.end()[0], 0)


@test
def a_relative_path_leads_where_it_led():
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d:
        process = subprocess.Popen([VWIRE, "device", "--client", "--socket-path=./s", "--port=null", "--ctl=c"], cwd=d,
                                   stderr=subprocess.DEVNULL)
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(f"{d}/s")
                s.listen()
                s.settimeout(SLOW)
                s.accept()[0].close()
        finally:
            process.terminate()
        expect_eq(process.wait(SLOW), 0)
        expect_eq(os.listdir(d), ["s"])


def shell(words):
    expect_eq(subprocess.run(words, shell=True, capture_output=True, text=True).stderr, "")


@test
def the_taps_link_and_mtu_are_followed():
    name = f"vw-test-{os.getpid()}"
    if not ROOT or subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        raise Skip("needs the right to make network namespaces")
    try:
        with Device(f"--port=tap:vwt0,netns={name}", "--queues=2") as device:
            expect_eq(device.stats()["port"], {"kind": "tap", "name": "vwt0", "link": "up", "dropped": 0, "capture_lost": 0})
            shell(f"ip -n {name} link set vwt0 down")
            wait_for(lambda: device.stats()["port"]["link"] == "down", "link down")
            shell(f"ip -n {name} link set vwt0 up mtu 1400")
            wait_for(lambda: device.stats()["port"]["link"] == "up", "link up")
            with End("driver", device.dir.name, f"--socket-path={device.path}", f"--port=tap:vwt1,netns={name}", "--queues=2") as driver:
                wait_for(lambda: device.stats()["state"] == driver.stats()["state"] == "running", "the link")
                shell(f"ip -n {name} link set vwt0 mtu 1300")
                shell(f"ip -n {name} link set vwt0 down")
                wait_for(lambda: driver.stats()["port"]["link"] == "down", "link down at the driver")
                shell(f"ip -n {name} link set vwt0 up")
                wait_for(lambda: driver.stats()["port"]["link"] == "up", "link up at the driver")
                shell(f"ip -n {name} link del vwt0")
                wait_for(lambda: driver.stats()["port"]["link"] == "down", "the end of the TAP at the driver")
                expect_shut_in(device.process.pid)
            expect_eq(device.end()[0], 0)
    finally:
        subprocess.run(["ip", "netns", "del", name])


@test
def the_service_manager_is_told():
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(f"{d}/notify")
        s.settimeout(SLOW)
        with Device(env={**os.environ, "NOTIFY_SOCKET": f"{d}/notify"}):
            expect_eq(s.recv(64), b"READY=1")


@test
def the_workers_keep_their_priority():
    if not ROOT:
        raise Skip("needs the right to raise a priority")
    with Device("--nice=-7") as device:
        nice = {pathlib.Path(f"/proc/{device.process.pid}/task/{t}/stat").read_text().rsplit(")", 1)[1].split()[16]
                for t in tasks(device.process.pid) if int(t) != device.process.pid}
        expect_eq(nice, {"-7"})


# ---- layers that are left out, and layers that are missing ----

@test
def stats_say_what_is_on():
    with Device() as device:
        expect_eq(device.stats()["sandbox"], {"on": LAYERS, "off": []})
        expect("sandbox   all layers\n" in device.ask("stats").stdout)
    for layer in LAYERS:
        names = [layer] if layer != "no_new_privs" else ["no_new_privs", "landlock", "seccomp"]
        if not ROOT and layer == "user":
            names += ["network", "ipc", "mount", "capabilities"]
        with Device("--sandbox=" + ",".join(f"-{n}" for n in names)) as device:
            expect_eq(device.stats()["sandbox"], {"on": [n for n in LAYERS if n not in names], "off": [n for n in LAYERS if n in names]})
            expect_eq(device.end()[0], 0)
    with Device("--sandbox=off") as device:
        expect_eq(device.stats()["sandbox"], {"on": [], "off": LAYERS})
        expect_eq((doors(device.process.pid), device.end()[0]), ([], 0))


class ArgCmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


CLONE = {"newuser": 0x10000000, "newnet": 0x40000000, "newipc": 0x08000000, "newns": 0x00020000}
PR = {"seccomp": 22, "capbset_drop": 24, "nnp": 38, "dumpable": 4}
MASKED_EQ, EQ = 7, 4


def without(*rules):
    """For a child before exec: a kernel where system calls (name, argument, mask, value, errno) fail."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(library.seccomp_init(0x7fff0000))  # allow
    library.seccomp_attr_set(ctx, 3, 0)  # no no_new_privs, which is to be tested
    for name, arg, mask, value, error in rules:
        cmp = ArgCmp(arg or 0, MASKED_EQ, mask, value)
        r = library.seccomp_rule_add_array(ctx, ctypes.c_uint32(0x50000 | error), library.seccomp_syscall_resolve_name(name.encode()),
                                           0 if arg is None else 1, ctypes.byref(cmp))
        expect_eq((name, r), (name, 0))
    return lambda: library.seccomp_load(ctx) and os._exit(99)


ALL = (1 << 64) - 1
LACKING = {
    "user": [("setfsuid", None, 0, 0, errno.EPERM), ("unshare", 0, CLONE["newuser"], CLONE["newuser"], errno.EPERM)],
    "network": [("unshare", 0, CLONE["newnet"], CLONE["newnet"], errno.EPERM)],
    "ipc": [("unshare", 0, CLONE["newipc"], CLONE["newipc"], errno.EINVAL)],
    "mount": [("mount", None, 0, 0, errno.EPERM)],
    "rlimits": [("prlimit64", 1, ALL, 4, errno.EPERM)],
    "capabilities": [("prctl", 0, ALL, PR["capbset_drop"], errno.EPERM)],
    "dumpable": [("prctl", 0, ALL, PR["dumpable"], errno.EINVAL)],
    "no_new_privs": [("prctl", 0, ALL, PR["nnp"], errno.EINVAL)],
    "landlock": [("landlock_create_ruleset", None, 0, 0, errno.ENOSYS)],
    "seccomp": [("seccomp", None, 0, 0, errno.ENOSYS), ("prctl", 0, ALL, PR["seccomp"], errno.EINVAL)],
}


# hostile O05
@test
def a_missing_layer_ends_the_program_unless_it_is_named():
    if not ROOT:
        raise Skip("needs the right to filter system calls without no_new_privs")
    for layer in LAYERS:
        names = [layer] if layer != "no_new_privs" else ["no_new_privs", "landlock", "seccomp"]
        with tempfile.TemporaryDirectory(prefix="vw-test-") as d:
            r = run("device", "--port=null", f"--socket-path={d}/s", f"--ctl={d}/c", preexec_fn=without(*LACKING[layer]))
            expect_eq((layer, r.returncode, r.stdout, os.listdir(d)), (layer, 1, "", []))
            expect(f"error device: no sandbox layer {layer}: " in r.stderr, layer, r.stderr)
            option = "--sandbox=" + ",".join(f"-{n}" for n in names)
            expect(r.stderr.endswith(f"the sandbox is not whole: {option} goes without\n"), r.stderr, "lacks", option)
        with Device(option, preexec_fn=without(*LACKING[layer])) as device:
            expect_eq(device.stats()["sandbox"]["off"], names)
            expect_eq(device.end()[0], 0)


@test
def an_old_kernel_with_nothing_lists_all_layers():
    if not ROOT:
        raise Skip("needs the right to filter system calls without no_new_privs")
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d:
        everything = [rule for rules in LACKING.values() for rule in rules]
        r = run("device", "--port=null", f"--socket-path={d}/s", preexec_fn=without(*everything))
        expect_eq((r.returncode, os.listdir(d)), (1, []))
        expect("--sandbox=" + ",".join(f"-{n}" for n in LAYERS if n != "seccomp") in r.stderr, r.stderr)


@test
def a_root_that_cannot_be_pivoted_is_covered():
    if not ROOT:
        raise Skip("needs the right to filter system calls without no_new_privs")
    with Device(preexec_fn=without(("pivot_root", None, 0, 0, errno.EINVAL))) as device:
        expect_eq(device.stats()["sandbox"]["off"], [])
        expect_eq(os.listdir(f"/proc/{device.process.pid}/root"), [])


@test
def without_root_every_layer_is_there_too():
    if not ROOT:
        raise Skip("is what the others are")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    if subprocess.run([*nobody, "unshare", "--user", "true"], capture_output=True).returncode:
        raise Skip("user namespaces are for root only here")
    with tempfile.TemporaryDirectory(prefix="vw-test-") as d:
        os.chown(d, 65534, 65534)
        process = subprocess.Popen([*nobody, VWIRE, "device", "--port=null", f"--socket-path={d}/s", f"--ctl={d}/c"], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: os.path.exists(f"{d}/c") and '"off":[]' in run("ctl", f"{d}/c", "stats", "--json").stdout, "stats")
            expect_shut_in(process.pid)
            expect_eq(run("ctl", f"{d}/c", "pcap", f"{d}/p").returncode, 0)
            expect_shut_in(process.pid)
        finally:
            process.terminate()
        expect_eq((process.wait(SLOW), sorted(os.listdir(d))), (0, ["p"]))


if __name__ == "__main__":
    import sys
    main(*sys.argv[2:3])
