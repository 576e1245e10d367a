/* What a device answers.  The input: u8 which call, u8 how many bytes go to the back-end channel, u8 number of fds (0..7) with the
 * reply, then the channel's bytes, then the reply.  The call finds all of it waiting and has no time to wait for more. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "fuzz.h"
#include "fuzz_fds.h"
#include "vhost/frontend.h"
#include "virtio/features.h"

#define UNTOUCHED 0x5a

static int call(struct vu_frontend *fe, unsigned which)
{
        uint64_t u64 = UNTOUCHED;
        uint32_t u32 = UNTOUCHED;
        uint8_t u8 = UNTOUCHED, buf[257];
        int r;

        switch (which % 9) {
        case 0:
                return vu_frontend_hello(fe, UINT64_MAX);
        case 1:
                return vu_frontend_set_features(fe, 0);
        case 2:
                r = vu_frontend_queue_num(fe, &u64);
                check(!r || u64 == UNTOUCHED);
                return r;
        case 3:
                r = vu_frontend_vring_stop(fe, 1, &u32);
                check(!r || u32 == UNTOUCHED);
                return r;
        case 4:
                memset(buf, UNTOUCHED, sizeof(buf));
                r = vu_frontend_get_config(fe, 0, 24, buf);
                for (unsigned i = r ? 0 : 24; i < sizeof(buf); i++)
                        check(buf[i] == UNTOUCHED);
                return r;
        case 5:
                memset(buf, UNTOUCHED, sizeof(buf));
                r = vu_frontend_get_config(fe, 2, 256, buf);
                check(buf[256] == UNTOUCHED);
                return r;
        case 6:
                r = vu_frontend_get_status(fe, &u8);
                check(!r || u8 == UNTOUCHED);
                return r;
        case 7:
                return vu_frontend_backend_channel(fe);
        default:
                return vu_frontend_vring(fe, 0, 16, 0, 0, 0, 0);
        }
}

/* Any fds will do: nobody wants them. */
static void put(int sock, const uint8_t *bytes, size_t len, unsigned n_fds)
{
        const int fds[7] = { sock, sock, sock, sock, sock, sock, sock };

        fuzz_send(sock, bytes, len, fds, n_fds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int session[2], channel[2], lowest = fuzz_lowest_fd(), r;
        struct vu_frontend fe;
        size_t n_channel;

        if (size < 3 || size > 1 << 16)
                return 0;
        n_channel = MIN(data[1], size - 3);
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, session) == 0);
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) == 0);
        vu_frontend_init(&fe, session[0], 0);
        fe.features = features_driver();
        fe.protocol_features =
                data[0] & 128 ? UINT64_MAX & ~BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) : UINT64_MAX;
        fe.backend_req = channel[0];
        put(channel[1], data + 3, n_channel, 0);
        put(session[1], data + 3 + n_channel, size - 3 - n_channel, data[2] & 7);
        r = call(&fe, data[0] & 127);
        check(r <= 0 && (!r || *fe.why));
        if (r != -EPROTO && r != -ECONNRESET)
                vu_frontend_alive(&fe);
        r = vu_frontend_dispatch(&fe);
        check(r <= 1 && (r >= 0) == (fe.backend_req >= 0));
        vu_frontend_done(&fe);
        close(session[1]);
        close(channel[1]);
        check(fuzz_lowest_fd() == lowest);
        return 0;
}
