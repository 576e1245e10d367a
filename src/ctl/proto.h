/* The control protocol: lines of JSON over a Unix stream socket of mode 0600.
 *
 *   {"id":1,"command":"set","arguments":{"tx-usecs":64,"q2.rx-usecs":8}}
 *   {"id":1,"return":{...}}   or   {"id":1,"error":{"class":"invalid-value","message":"..."}}
 *
 * Answers come in the order of the commands, a line each.  `id` is an integer or a string and comes back; without one it is
 * null.  `arguments` may be left out.
 *
 *   command   arguments                  return
 *   stats     -                          the object of interface section "statistics"
 *   get       {"keys":["poll-us",..]}    {"poll-us":0,..}; without keys all that this end has
 *   set       {"tx-usecs":64,..}         {}; all of them are set, or none
 *   why       {"queue":3}                {"queues":[{"index":3,"kind":"tx","text":"..."}]}; without a queue all
 *   pcap      {"on":true}                {}; the file, opened for writing, comes along by SCM_RIGHTS
 *   trace     {"on":true}                {}; likewise, a regular file: what polling and moderation decide, written with false
 *   link      {"up":true}                {}
 *   stop      -                          {}
 */
#pragma once

#define CTL_LINE_MAX    65536 /* bytes of a command with its newline; a longer one ends the connection */
#define CTL_CLIENTS_MAX 64    /* at a time; the next is told so and closed */

enum ctl_error {
        CTL_INVALID_VALUE,
        CTL_UNKNOWN_KEY,
        CTL_UNKNOWN_COMMAND,
        CTL_WRONG_STATE,
        CTL_UNSUPPORTED,
        CTL_IO_ERROR,
        CTL_ERROR_COUNT
};
