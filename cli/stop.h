/* Signals: an orderly stop within a second, whatever hangs, and memory that a peer takes away. */
#pragma once

/* Once, before threads are made; `late_status` is the exit status when the orderly way hangs.  0 or -errno. */
int stop_start(int late_status);
/* The orderly way may take as long as it likes, since there are results to write; the second signal ends the program at once. */
void stop_unhurried(void);
/* Readable from the first SIGINT, SIGTERM, SIGHUP (unless that was ignored) or stop_now() on. */
int stop_fd(void);
void stop_now(void);
/* A socket to remove when the orderly way takes too long; it is `path` until the program ends. */
void stop_removes(const char *path);
/* From now on a door (sandbox/door.h) does that. */
void stop_asks(int door);
