/* The control socket's other side: one command, one answer. */
#pragma once
#include <jansson.h>

struct ctl_reply {
        json_t *value; /* what stood under "return"; NULL: refused */
        char *raw;     /* the same as the server wrote it */
        char class_name[32], message[400];
};

/* Sends a command over the connected socket and waits for its answer.  `arguments` may be NULL and is used up; `file` goes along
 * unless it is -1.  0: there is a reply, perhaps a refusal; -errno with a sentence: there is none. */
int ctl_call(int fd, const char *command, json_t *arguments, int file, struct ctl_reply *ret_reply,
             const char **ret_why);
void ctl_reply_done(struct ctl_reply *reply);
