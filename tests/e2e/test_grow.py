#!/usr/bin/env python3
"""The growing sender of `vwire bench` against a server written here, behind a device with a TAP:  test_grow.py VWIRE TRAFFIC_TOOL

The server reads so much and no more.  When all stands still, what the sender takes for acknowledged is what the server's kernel has
received, to the byte."""
import os
import shutil
import socket
import struct
import subprocess
import sys

NAME, OWN, SERVER, PORT, LIMIT = f"vwgrow{os.getpid()}", "192.0.2.1", "192.0.2.2", 5210, 1_000_000


def take(s, n):
    data = b""
    while len(data) < n:
        part = s.recv(min(n - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return data


def serve(sessions):
    """In the namespace: prints each session's hello, then, when asked, what the kernel has received for all."""
    listener = socket.create_server((SERVER, PORT), backlog=512)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # what comes after the limit
    print("ready", flush=True)
    accepted = [listener.accept()[0] for _ in range(sessions)]
    for s in accepted:
        print(*struct.unpack(">5I", take(s, 20)), flush=True)
    for s in accepted:
        assert not any(take(s, LIMIT)), "something else than what was written"
    sys.stdin.readline()
    # struct tcp_info: tcpi_bytes_received
    print(sum(struct.unpack_from("Q", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 128)[0] for s in accepted), flush=True)
    sys.stdin.readline()


def start(*words):
    return subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def check(vwire, tool, directory, sessions, size):
    path = f"{directory}/dev.sock"
    device = subprocess.Popen([vwire, "device", f"--socket-path={path}", f"--port=tap:grow0,netns={NAME}"], stderr=subprocess.PIPE, text=True)
    try:
        while "listening" not in device.stderr.readline():
            assert device.poll() is None, "the device has ended"
        subprocess.run(["ip", "-n", NAME, "addr", "add", f"{SERVER}/24", "dev", "grow0"], check=True)
        with start("ip", "netns", "exec", NAME, sys.executable, __file__, "serve", sessions) as server:
            assert server.stdout.readline() == "ready\n"
            with start(tool, "grow", path, OWN, SERVER, size, sessions, PORT, 4000) as grow:
                sent = dict(word.split("=") for word in grow.stdout.readline().split())
                assert sent["result"] == "0", sent
                hellos = [server.stdout.readline().split() for _ in range(sessions)]
                assert sorted(int(h[2]) for h in hellos) == list(range(sessions)), hellos
                assert {(h[0], h[1]) for h in hellos} == {(str(0x76776265), "1")}, hellos
                server.stdin.write("\n")
                server.stdin.flush()
                received = int(server.stdout.readline())
                assert received == int(sent["bytes"]) >= sessions * LIMIT, (received, sent)
                assert int(sent["packets"]) >= received / (44 * 1460), sent
                grow.stdin.close()
            server.stdin.close()
    finally:
        device.kill()
        device.wait()
        device.stderr.close()


def main(vwire, tool):
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("1..0 # SKIP needs root and ip")
        return
    print("1..2")
    subprocess.run(["ip", "netns", "add", NAME], check=True)
    directory = subprocess.run(["mktemp", "-d", "/tmp/vwire-grow.XXXXXX"], capture_output=True, text=True, check=True).stdout.strip()
    try:
        for i, (sessions, size) in enumerate(((1, 16384), (20, 1000)), 1):
            check(vwire, tool, directory, sessions, size)
            print(f"ok {i} - grow_counts_what_the_receiver_has_of_{sessions}_sessions", flush=True)
    finally:
        subprocess.run(["ip", "netns", "del", NAME], check=True)
        shutil.rmtree(directory)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        main(*sys.argv[1:])
