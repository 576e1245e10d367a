#include "ctl/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "ctl/text.h"

#define ANSWER_MS  5000      /* a control call waits for a burst at most; longer means that something hangs */
#define ANSWER_MAX (1 << 24) /* bytes; statistics of the largest device are a quarter of a megabyte */

static int send_command(int fd, const char *line, size_t len, int file)
{
        struct iovec iov = { .iov_base = (char *)line, .iov_len = len };
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = { 0 };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (file >= 0) {
                msg.msg_control = &control;
                msg.msg_controllen = sizeof(control);
                *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                         .cmsg_type = SCM_RIGHTS,
                                                         .cmsg_len = CMSG_LEN(sizeof(int)) };
                memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &file, sizeof(int));
        }
        while (iov.iov_len) {
                ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0) {
                        iov.iov_base = (char *)iov.iov_base + n;
                        iov.iov_len -= (size_t)n;
                        msg.msg_control = NULL;
                        msg.msg_controllen = 0;
                }
        }
        return 0;
}

/* One line, without its newline. */
static int receive_line(int fd, struct text *line)
{
        uint64_t deadline = clock_now() + ANSWER_MS * NSEC_PER_MSEC;

        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                uint64_t left = clock_until(deadline, clock_now());
                char part[16384];
                ssize_t n;

                if (!left)
                        return -ETIMEDOUT;
                if (poll(&p, 1, (int)(left / NSEC_PER_MSEC) + 1) <= 0)
                        continue;
                n = recv(fd, part, sizeof(part), MSG_DONTWAIT);
                if (n == 0)
                        return -ECONNRESET;
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                if (n <= 0)
                        continue;
                text_add_bytes(line, part, (size_t)n);
                if (line->len > ANSWER_MAX)
                        return -EPROTO;
                if (line->failed)
                        return -ENOMEM;
                if (line->data[line->len - 1] == '\n') {
                        line->data[--line->len] = '\0';
                        return 0;
                }
        }
}

/* Takes the answer apart; `line` is not changed. */
static int parse_reply(const char *line, struct ctl_reply *ret_reply)
{
        struct ctl_reply reply = { 0 };
        json_error_t error;
        json_t *answer = json_loads(line, 0, &error), *refusal;
        const char *raw = strstr(line, "\"return\":");

        if (!answer) /* a counter past the range of jansson's integers; a table can bear rounding */
                answer = json_loads(line, JSON_DECODE_INT_AS_REAL, &error);
        refusal = json_object_get(answer, "error");
        reply.value = json_incref(json_object_get(answer, "return"));
        if (reply.value && raw) {
                raw += strlen("\"return\":");
                reply.raw = strndup(raw, strlen(raw) - 1); /* the object around it ends here */
        } else if (refusal) {
                const char *name = json_string_value(json_object_get(refusal, "class"));
                const char *message = json_string_value(json_object_get(refusal, "message"));

                snprintf(reply.class_name, sizeof(reply.class_name), "%s", name ? name : "io-error");
                snprintf(reply.message, sizeof(reply.message), "%s", message ? message : "no reason given");
        }
        json_decref(answer);
        if (!reply.raw && !refusal) {
                ctl_reply_done(&reply);
                return -EPROTO;
        }
        *ret_reply = reply;
        return 0;
}

int ctl_call(int fd, const char *command, json_t *arguments, int file, struct ctl_reply *ret_reply,
             const char **ret_why)
{
        json_t *request = json_pack("{s:i, s:s, s:o*}", "id", 1, "command", command, "arguments", arguments);
        char *words = json_dumps(request, JSON_COMPACT);
        struct text line = { 0 };
        int r = -ENOMEM;

        json_decref(request);
        if (words) {
                text_add(&line, "%s\n", words);
                free(words);
                r = send_command(fd, line.data, line.len, file);
        }
        text_done(&line);
        if (r == 0)
                r = receive_line(fd, &line);
        if (r == 0)
                r = parse_reply(line.data, ret_reply);
        text_done(&line);
        switch (-r) {
        case 0:
                break;
        case ETIMEDOUT:
                *ret_why = "no answer within 5 s";
                break;
        case EPIPE:
        case ECONNRESET:
                *ret_why = "the other side closed the connection";
                break;
        case EPROTO:
                *ret_why = "the answer is none of the control protocol: is this a control socket?";
                break;
        default:
                *ret_why = strerror(-r);
        }
        return r;
}

void ctl_reply_done(struct ctl_reply *reply)
{
        json_decref(reply->value);
        free(reply->raw);
        *reply = (struct ctl_reply){ 0 };
}
