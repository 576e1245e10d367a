#include "samples.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

struct sample sample_of(uint32_t request)
{
        struct vhost_user_region region = { .guest_addr = MOCK_GPA,
                                            .user_addr = MOCK_UVA,
                                            .size = 4 * MOCK_PAGE };
        struct sample p = { .fixed = true };

        switch (request) {
        case VHOST_USER_SET_FEATURES:
                p.u64 = features_device();
                p.size = 8;
                break;
        case VHOST_USER_SET_PROTOCOL_FEATURES:
                p.u64 = ALL;
                p.size = 8;
                break;
        case VHOST_USER_SET_MEM_TABLE:
                p.table.n = 1;
                p.table.region = region;
                p.size = sizeof(p.table);
                p.n_fds = 1;
                p.fixed = false;
                break;
        case VHOST_USER_SET_VRING_NUM:
                p.state.num = 16;
                p.size = sizeof(p.state);
                break;
        case VHOST_USER_SET_VRING_ADDR:
                p.addr = (struct vhost_vring_addr){ .desc = MOCK_UVA,
                                                    .avail = MOCK_UVA + 512,
                                                    .used = MOCK_UVA + 1024 };
                p.size = sizeof(p.addr);
                break;
        case VHOST_USER_SET_VRING_BASE:
        case VHOST_USER_GET_VRING_BASE:
        case VHOST_USER_SET_VRING_ENABLE:
        case VHOST_USER_SET_VRING_ENDIAN:
        case VHOST_USER_VRING_KICK:
                p.size = sizeof(p.state);
                break;
        case VHOST_USER_SET_VRING_KICK:
        case VHOST_USER_SET_VRING_CALL:
        case VHOST_USER_SET_VRING_ERR:
                p.size = 8;
                p.n_fds = 1;
                break;
        case VHOST_USER_NET_SET_MTU:
                p.u64 = 1500;
                p.size = 8;
                break;
        case VHOST_USER_SEND_RARP:
        case VHOST_USER_SET_STATUS:
        case VHOST_USER_CLOSE_CRYPTO_SESSION:
                p.u64 = 1;
                p.size = 8;
                break;
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_INFLIGHT_FD:
        case VHOST_USER_GET_INFLIGHT_FD:
                p.size = 24;
                p.n_fds = request != VHOST_USER_GET_INFLIGHT_FD;
                break;
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_SET_CONFIG:
                p.config.size = 6;
                p.size = 18;
                p.fixed = false;
                break;
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_REM_MEM_REG:
                p.reg.region = region;
                p.size = sizeof(p.reg);
                p.n_fds = request == VHOST_USER_ADD_MEM_REG;
                break;
        case VHOST_USER_SET_LOG_FD:
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GPU_SET_SOCKET:
                p.n_fds = 1;
                break;
        default:
                break;
        }
        return p;
}

void fds_open(struct fds *f)
{
        f->memory = mock_memfd(16 * MOCK_PAGE);
        f->event = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sockets), 0);
}

void fds_close(struct fds *f)
{
        close(f->memory);
        close(f->event);
        close(f->sockets[0]);
        close(f->sockets[1]);
}

int fd_for(const struct fds *f, uint32_t request)
{
        switch (request) {
        case VHOST_USER_SET_MEM_TABLE:
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_INFLIGHT_FD:
                return f->memory;
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GPU_SET_SOCKET:
                return f->sockets[1];
        default:
                return f->event;
        }
}

enum verdict say_sample(struct mock_session *s, uint32_t request, const struct fds *f)
{
        struct sample p = sample_of(request);
        int fd = fd_for(f, request);

        return mock_say(s, request, ASK, &p.u64, p.size, &fd, p.n_fds, NULL);
}

void expect_closed_by(const char *rule, uint64_t protocol_features, uint32_t request, const int *fds,
                      unsigned n_fds)
{
        struct sample p = sample_of(request);
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, protocol_features);
        EXPECT_EQ(mock_say(&s, request, VU_FLAG_VERSION, &p.u64, p.size, fds, n_fds, NULL), CLOSED);
        if (!strstr(s.why, rule))
                fail_msg("\"%s\" does not say \"%s\"", s.why, rule);
        mock_close(&s);
}

bool served(uint32_t request)
{
        switch (request) {
        case 0:
        case VHOST_USER_SET_LOG_BASE:
        case VHOST_USER_SET_LOG_FD:
        case VHOST_USER_SEND_RARP:
        case VHOST_USER_IOTLB_MSG:
        case VHOST_USER_SET_VRING_ENDIAN:
        case VHOST_USER_VRING_KICK:
                return false;
        default:
                return request < VHOST_USER_CREATE_CRYPTO_SESSION || request == VHOST_USER_RESET_DEVICE ||
                       (request >= VHOST_USER_GET_MAX_MEM_SLOTS && request <= VHOST_USER_GET_STATUS);
        }
}

bool has_reply(uint32_t request)
{
        return request == VHOST_USER_GET_FEATURES || request == VHOST_USER_GET_PROTOCOL_FEATURES ||
               request == VHOST_USER_GET_QUEUE_NUM || request == VHOST_USER_GET_VRING_BASE ||
               request == VHOST_USER_GET_CONFIG || request == VHOST_USER_GET_MAX_MEM_SLOTS ||
               request == VHOST_USER_GET_STATUS;
}

bool needs_protocol_feature(uint32_t request)
{
        switch (request) {
        case VHOST_USER_GET_QUEUE_NUM:
        case VHOST_USER_NET_SET_MTU:
        case VHOST_USER_SET_BACKEND_REQ_FD:
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_SET_CONFIG:
        case VHOST_USER_RESET_DEVICE:
        case VHOST_USER_GET_MAX_MEM_SLOTS:
        case VHOST_USER_ADD_MEM_REG:
        case VHOST_USER_REM_MEM_REG:
        case VHOST_USER_SET_STATUS:
        case VHOST_USER_GET_STATUS:
                return true;
        default:
                return false;
        }
}
