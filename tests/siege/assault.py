#!/usr/bin/env python3
"""Lies to a device in all ways, for ever, and says at the end how often.

usage: assault.py SOCKET [SEED]
"""
import random
import signal
import sys
import time

from liar import Liar


def main():
    liar, lies = Liar(sys.argv[1], random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)), 0
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while not ended:
        for lie in liar.bytes_, liar.messages, liar.rings:
            lie()
            lies += 1
        if not liar.alive():
            sys.exit("the device does not answer")
        time.sleep(0.01)
    print(lies)


if __name__ == "__main__":
    main()
