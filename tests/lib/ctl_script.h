/* An end for the control socket to talk about: callbacks that remember what they were told and say what the test wants. */
#pragma once
#include "ctl/answer.h"

struct ctl_script {
        /* what they say */
        struct vw_stats stats;
        int error; /* of get, set, link and pcap; 0: fine */
        unsigned n_queues;
        /* what they were told */
        struct vw_setting set[8];
        unsigned n_set;
        int link; /* -1: nothing */
        int file; /* of the capture, ours now; -1 */
        bool capture_ended, stopped;
};

extern const struct ctl_ops ctl_script_ops, ctl_script_driver_ops;

/* A device with two queues, running, with numbers in its counters. */
void ctl_script_init(struct ctl_script *s);
void ctl_script_done(struct ctl_script *s);
