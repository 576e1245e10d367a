/* What a sandboxed process may still ask of the outside: a small process of its own, made before the sandbox, that does two fixed things.
 *
 * It connects to the one socket that the operator named, and removes the sockets that the program made.  A request is a byte, so
 * whoever takes the sandboxed process over can ask for nothing else; in exchange the sandbox needs no file, directory or address at
 * all.  The door keeps the starting user's rights over files, and has a list of system calls of its own.  It ends when the process
 * does, however that happens. */
#pragma once

struct door_ops {
        int (*dial)(void *ctx);   /* a connection, or -errno */
        void (*clear)(void *ctx); /* remove what is left at the end */
};

/* One thread, before the sandbox.  Returns a fd that stands for the door, or -errno.  The ops run in the other process, on a copy of this one's
 * memory as it is now. */
int door_open(const struct door_ops *ops, void *ctx);

int door_dial(int door); /* a connection, or -errno */
/* the last request: returns when it is done and the door has ended.  Async-signal-safe. */
void door_clear(int door);
