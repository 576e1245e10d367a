/* The device's side of a session with front ends of good will: what is offered, in which orders rings come up, what a stop gives back. */
#include "vhost/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "test.h"

#define ALL     VU_BACKEND_PROTOCOL_FEATURES
#define NO_ACKS (ALL & ~BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK))

static uint64_t answer(struct mock_session *s, uint32_t request)
{
        struct vu_msg reply;

        EXPECT_EQ(mock_say(s, request, VU_FLAG_VERSION, NULL, 0, NULL, 0, &reply), REPLIED);
        EXPECT_EQ(reply.size, 8);
        return reply.u64;
}

static uint32_t get_base(struct mock_session *s, uint32_t index)
{
        struct vhost_vring_state state = { index, 0 };
        struct vu_msg reply;

        EXPECT_EQ(mock_say(s, VHOST_USER_GET_VRING_BASE, VU_FLAG_VERSION, &state, sizeof(state), NULL, 0,
                           &reply),
                  REPLIED);
        EXPECT_EQ(reply.size, sizeof(state));
        EXPECT_EQ(reply.state.index, index);
        return reply.state.num;
}

TEST(backend, offers_what_the_device_and_the_configuration_offer)
{
        struct mock_session s;

        mock_open(&s, ALL);
        EXPECT_EQ(answer(&s, VHOST_USER_GET_FEATURES), features_device());
        EXPECT_EQ(answer(&s, VHOST_USER_GET_PROTOCOL_FEATURES), ALL);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL), ACCEPTED);
        EXPECT_EQ(vu_backend_protocol_features(s.be), ALL);
        EXPECT_EQ(answer(&s, VHOST_USER_GET_QUEUE_NUM), 2);
        EXPECT_EQ(answer(&s, VHOST_USER_GET_MAX_MEM_SLOTS), 509);
        mock_close(&s);
}

/* The words of QEMU, in its order: all that does not concern a ring comes before SET_OWNER. */
TEST(backend, brings_rings_up_in_the_order_of_qemu)
{
        struct vhost_user_region region = { .guest_addr = 0, .user_addr = MOCK_UVA, .size = 16 * MOCK_PAGE };
        struct mock_session s;
        int sockets[2], notifier, memory;

        mock_open(&s, ALL);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_FEATURES), REPLIED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_PROTOCOL_FEATURES), REPLIED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL), ACCEPTED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_QUEUE_NUM), REPLIED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_MAX_MEM_SLOTS), REPLIED);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_BACKEND_REQ_FD, VU_FLAG_VERSION, NULL, 0, sockets, 1, NULL),
                  SILENT);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), ACCEPTED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_FEATURES), REPLIED);
        notifier = eventfd(0, EFD_CLOEXEC);
        for (unsigned i = 0; i < 4; i++)
                EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_CALL, i, notifier), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 2, 0), ACCEPTED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device()), ACCEPTED);
        memory = mock_memfd(region.size);
        EXPECT_EQ(mock_mem_table(&s, &region, &memory, 1), ACCEPTED);
        for (unsigned i = 0; i < 2; i++) {
                mock_ring_up(&s, i);
                EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_CALL, i, notifier), ACCEPTED);
                EXPECT(s.dev.vring[i].running && !s.dev.vring[i].enabled);
        }
        /* the second pair's vhost device says these again while the first pair runs */
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device()), ACCEPTED);
        EXPECT_EQ(mock_mem_table(&s, &region, &memory, 1), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 0, 1), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 1, 1), ACCEPTED);
        EXPECT(s.dev.vring[0].enabled && s.dev.vring[1].enabled && !s.dev.vring[2].enabled);
        EXPECT_EQ(s.dev.vring[0].starts, 1);
        EXPECT_EQ(s.dev.vring[0].calls, 2);
        s.dev.stop_base = 77;
        EXPECT_EQ(get_base(&s, 0), 77);
        EXPECT_EQ(get_base(&s, 1), 77);
        EXPECT(!s.dev.vring[0].running &&
               s.dev.vring[0].call >= 0); /* the call fd is not the base's business */
        close(notifier);
        close(memory);
        close(sockets[0]);
        close(sockets[1]);
        mock_close(&s);
}

/* User Mode Linux: a message too long for its one region, the call fd a pipe, the base last. */
TEST(backend, brings_rings_up_in_the_order_of_user_mode_linux)
{
        struct {
                uint32_t n, padding;
                struct vhost_user_region region[2];
        } table = {
                .n = 1,
                .region[0] = {.user_addr = MOCK_UVA, .size = 4 * MOCK_PAGE, .mmap_offset = 3 * MOCK_PAGE}
        };
        struct vhost_user_config config = { .size = sizeof(struct virtio_net_config) };
        struct mock_session s;
        struct vu_msg reply;
        int pipes[2], memory, kick;

        mock_open(&s, ALL);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), SILENT);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_FEATURES), REPLIED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_GET_PROTOCOL_FEATURES), REPLIED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL), ACCEPTED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device()), ACCEPTED);
        s.dev.config[10] = 0xab;
        EXPECT_EQ(mock_say(&s, VHOST_USER_GET_CONFIG, VU_FLAG_VERSION, &config, 12 + config.size, NULL, 0,
                           &reply),
                  REPLIED);
        EXPECT_EQ(reply.size, 12 + config.size);
        EXPECT_EQ(reply.config.region[10], 0xab);
        memory = mock_memfd(7 * MOCK_PAGE);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, &table,
                           sizeof(table), &memory, 1, &reply),
                  ACCEPTED);
        EXPECT_EQ(s.dev.map->n, 1);
        EXPECT_EQ(pipe(pipes), 0);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_CALL, 0, pipes[1]), ACCEPTED);
        EXPECT(fcntl(s.dev.vring[0].call, F_GETFL) & O_NONBLOCK);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 128), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_BASE, 0, 0), ACCEPTED);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 2048, MOCK_UVA + 4096), ACCEPTED);
        kick = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 0, 1), ACCEPTED);
        close(kick);
        close(memory);
        close(pipes[0]);
        close(pipes[1]);
        mock_close(&s);
}

/* One step of a ring's set-up. */
static void set_up_step(struct mock_session *s, unsigned step, int memory, int kick)
{
        struct vhost_user_region region = { .guest_addr = 0, .user_addr = MOCK_UVA, .size = 4 * MOCK_PAGE };
        enum verdict v = CLOSED;

        switch (step) {
        case 0:
                v = mock_u64(s, VHOST_USER_SET_FEATURES, features_device());
                break;
        case 1:
                v = mock_mem_table(s, &region, &memory, 1);
                break;
        case 2:
                v = mock_state(s, VHOST_USER_SET_VRING_NUM, 1, 16);
                break;
        case 3:
                v = mock_addr(s, 1, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024);
                break;
        case 4:
                v = mock_u64_fd(s, VHOST_USER_SET_VRING_KICK, 1, kick);
                break;
        }
        EXPECT_EQ(v, ACCEPTED);
}

/* hostile A23 */
TEST(backend, starts_a_ring_with_the_last_of_its_parts_in_every_order)
{
        int memory = mock_memfd(4 * MOCK_PAGE), kick = eventfd(0, EFD_CLOEXEC);

        for (unsigned order = 0; order < 120; order++) {
                unsigned steps[5] = { 0, 1, 2, 3, 4 }, rest = order;
                struct mock_session s;

                for (unsigned i = 0; i < 4; i++) { /* the order-th permutation */
                        unsigned j = i + rest % (5 - i), t = steps[i];

                        rest /= 5 - i;
                        steps[i] = steps[j];
                        steps[j] = t;
                }
                mock_open(&s, ALL);
                EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL), ACCEPTED);
                EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), ACCEPTED);
                for (unsigned i = 0; i < 5; i++) {
                        EXPECT(!s.dev.vring[1].running);
                        set_up_step(&s, steps[i], memory, kick);
                }
                EXPECT(s.dev.vring[1].running);
                EXPECT_EQ(s.dev.vring[1].cfg.size, 16);
                EXPECT_EQ(s.dev.vring[1].cfg.features, features_device());
                mock_close(&s);
        }
        close(memory);
        close(kick);
}

TEST(backend, waits_for_memory_that_holds_the_ring)
{
        struct vhost_user_region low = { .guest_addr = 0,
                                         .user_addr = MOCK_UVA - MOCK_PAGE,
                                         .size = MOCK_PAGE };
        struct vhost_user_region region = { .guest_addr = MOCK_PAGE,
                                            .user_addr = MOCK_UVA,
                                            .size = 4 * MOCK_PAGE };
        int memory = mock_memfd(8 * MOCK_PAGE);
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        mock_ring_up(&s, 0);
        EXPECT(!s.dev.vring[0].running);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &low, memory), ACCEPTED);
        EXPECT(!s.dev.vring[0].running);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &region, memory), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        mock_close(&s);
        close(memory);
}

TEST(backend, enables_rings_at_once_for_a_front_end_without_protocol_features)
{
        struct mock_session s;

        mock_open(&s, ALL);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), SILENT);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device() & ~F(protocol_features)), SILENT);
        for (unsigned i = 0; i < MOCK_VRINGS; i++)
                EXPECT(s.dev.vring[i].enabled);
        mock_close(&s);

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < MOCK_VRINGS; i++)
                EXPECT(!s.dev.vring[i].enabled && !s.dev.vring[i].enables);
        mock_close(&s);
}

TEST(backend, restarts_a_stopped_ring_where_it_was_by_a_new_kick_alone)
{
        struct mock_session s;
        int memory, kick;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 0);
        s.dev.stop_base = 4711;
        EXPECT_EQ(get_base(&s, 0), 4711);
        EXPECT_EQ(get_base(&s, 0), 4711); /* twice is fine, and stops nothing twice */
        EXPECT_EQ(s.dev.vring[0].stops, 1);
        kick = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 4711);
        close(kick);
        close(memory);
        mock_close(&s);
}

TEST(backend, moves_a_running_ring_to_a_new_kick_fd_without_losing_its_place)
{
        struct mock_session s;
        int memory, kick;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        s.dev.stop_base = 9;
        kick = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT_EQ(s.dev.vring[0].stops, 1);
        EXPECT_EQ(s.dev.vring[0].starts, 2);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 9);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_VRING_KICK, 0 | VU_VRING_NOFD), ACCEPTED); /* polling */
        EXPECT_EQ(s.dev.vring[0].starts, 3);
        EXPECT_EQ(s.dev.vring[0].kick, -1);
        close(kick);
        close(memory);
        mock_close(&s);
}

TEST(backend, gives_a_fresh_packed_ring_both_wrap_counters)
{
        struct mock_session s;
        int memory, kick = eventfd(0, EFD_CLOEXEC);

        mock_open(&s, ALL);
        s.dev.offered |= F(ring_packed);
        memory = mock_hello_with_memory(&s, ALL, 4);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 7), ACCEPTED);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024), ACCEPTED);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 0x80008000);
        EXPECT_EQ(get_base(&s, 1), 0x80008000);
        close(memory);
        mock_close(&s);
        close(kick);
}

TEST(backend, leaves_a_running_rings_numbers_alone)
{
        struct mock_session s;
        int memory;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 32), REFUSED);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024), ACCEPTED);
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 2048), REFUSED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_BASE, 0, 0), REFUSED);
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, 0), REFUSED);
        EXPECT(s.dev.vring[0].running);
        EXPECT_EQ(s.dev.vring[0].cfg.size, 16);
        close(memory);
        mock_close(&s);
}

TEST(backend, undoes_a_message_when_the_device_refuses_the_ring_that_it_completes)
{
        struct mock_session s;
        int memory, kick = eventfd(0, EFD_CLOEXEC);

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        s.dev.start_error = -EINVAL;
        EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024), ACCEPTED);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), REFUSED);
        s.dev.start_error = 0;
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT(!s.dev.vring[0].running); /* it still has no size */
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        close(memory);
        mock_close(&s);
        close(kick);
}

TEST(backend, goes_on_with_the_old_kick_fd_when_the_device_refuses_a_new_one)
{
        int memory, old, kick = eventfd(0, EFD_CLOEXEC);
        struct mock_session s;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        old = s.dev.vring[0].kick;
        s.dev.stop_base = 7;
        s.dev.start_error = -EINVAL;
        s.dev.fails_once = true;
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), REFUSED);
        EXPECT(s.dev.vring[0].running);
        EXPECT_EQ(s.dev.vring[0].kick, old);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 7);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT(s.dev.vring[0].running && s.dev.vring[0].kick != old);
        close(memory);
        mock_close(&s);
        close(kick);
}

TEST(backend, swaps_the_table_under_running_rings_through_the_device)
{
        struct vhost_user_region more = { .guest_addr = UINT64_C(1) << 32,
                                          .user_addr = 0x1000,
                                          .size = MOCK_PAGE };
        struct mock_session s;
        void *same;
        int memory;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        same = mem_map_ptr(s.dev.map, MOCK_GPA, 1);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &more, memory), ACCEPTED);
        EXPECT_EQ(s.dev.maps, 2);
        EXPECT_EQ(s.dev.map->n, 2);
        EXPECT(mem_map_ptr(s.dev.map, MOCK_GPA, 1) == same); /* not mapped again */
        EXPECT_EQ(s.dev.vring[0].stops, 0);
        s.dev.map_error = -ENOMEM;
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &more, -1), REFUSED);
        EXPECT_EQ(s.dev.map->n, 2);
        s.dev.map_error = 0;
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &more, -1), ACCEPTED);
        EXPECT_EQ(s.dev.map->n, 1);
        close(memory);
        mock_close(&s);
}

TEST(backend, hands_call_and_err_fds_to_the_device_and_takes_them_back)
{
        struct mock_session s;
        int notifier = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        uint64_t value = 1;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_CALL, 3, notifier), ACCEPTED);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_ERR, 3, notifier), ACCEPTED);
        EXPECT_EQ(write(s.dev.vring[3].call, &value, 8), 8);
        EXPECT_EQ(write(s.dev.vring[3].err, &value, 8), 8);
        EXPECT_EQ(read(notifier, &value, 8), 8);
        EXPECT_EQ(value, 2); /* the session itself signalled nothing */
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_VRING_CALL, 3 | VU_VRING_NOFD), ACCEPTED);
        EXPECT_EQ(s.dev.vring[3].call, -1);
        EXPECT_EQ(s.dev.vring[3].calls, 2);
        mock_close(&s);
        EXPECT_EQ(s.dev.vring[3].calls, 2); /* none left to take back */
        EXPECT_EQ(s.dev.vring[3].errs, 2);
        close(notifier);
}

/* hostile A33 */
TEST(backend, reset_owner_stops_and_disables_the_rings_and_keeps_the_rest)
{
        struct mock_session s;
        int memory, kick = eventfd(0, EFD_CLOEXEC);

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), ACCEPTED);
        mock_ring_up(&s, 0);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_ENABLE, 0, 1), ACCEPTED);
        EXPECT_EQ(mock_empty(&s, VHOST_USER_SET_OWNER), ACCEPTED);
        EXPECT(s.dev.vring[0].running && s.dev.vring[0].enabled);
        s.dev.stop_base = 5;
        EXPECT_EQ(mock_empty(&s, VHOST_USER_RESET_OWNER), ACCEPTED);
        EXPECT(!s.dev.vring[0].running && !s.dev.vring[0].enabled && s.dev.map);
        EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_KICK, 0, kick), ACCEPTED);
        EXPECT(s.dev.vring[0].running);
        EXPECT_EQ(s.dev.vring[0].cfg.base, 5);
        EXPECT_EQ(s.dev.resets, 0);
        close(memory);
        mock_close(&s);
        close(kick);
        EXPECT_EQ(s.dev.resets, 1);
}

TEST(backend, reset_device_and_status_zero_forget_the_rings_and_the_features)
{
        for (unsigned how = 0; how < 2; how++) {
                struct mock_session s;
                int memory, notifier = eventfd(0, EFD_CLOEXEC);

                mock_open(&s, ALL);
                memory = mock_hello_with_memory(&s, ALL, 4);
                EXPECT_EQ(mock_u64_fd(&s, VHOST_USER_SET_VRING_CALL, 0, notifier), ACCEPTED);
                mock_ring_up(&s, 0);
                s.dev.stop_base = 5;
                EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_STATUS, 15), ACCEPTED);
                EXPECT_EQ(answer(&s, VHOST_USER_GET_STATUS), 15);
                if (how)
                        EXPECT_EQ(mock_empty(&s, VHOST_USER_RESET_DEVICE), ACCEPTED);
                else
                        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_STATUS, 0), ACCEPTED);
                EXPECT_EQ(s.dev.resets, 1);
                EXPECT(!s.dev.vring[0].running && s.dev.vring[0].call >= 0 && s.dev.map);
                EXPECT_EQ(get_base(&s, 0), 5); /* QEMU 7.2 asks only now */
                EXPECT_EQ(get_base(&s, 1), 0);
                EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 0, 16), ACCEPTED);
                EXPECT_EQ(mock_addr(&s, 0, MOCK_UVA, MOCK_UVA + 512, MOCK_UVA + 1024), ACCEPTED);
                EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_VRING_KICK, 0 | VU_VRING_NOFD), ACCEPTED);
                EXPECT(!s.dev.vring[0].running); /* not before SET_FEATURES */
                EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_FEATURES, features_device()), ACCEPTED);
                EXPECT(s.dev.vring[0].running);
                EXPECT_EQ(s.dev.vring[0].cfg.base, 0); /* and afresh, where nobody says otherwise */
                close(memory);
                mock_close(&s);
                close(notifier);
        }
}

TEST(backend, tells_of_a_changed_configuration_where_that_was_negotiated)
{
        int sockets[2], others[2];
        struct mock_session s;
        uint32_t header[4] = { 0 };

        mock_open(&s, ALL);
        EXPECT_EQ(vu_backend_config_changed(s.be), -EOPNOTSUPP);
        mock_hello(&s, ALL);
        EXPECT_EQ(vu_backend_config_changed(s.be), -EOPNOTSUPP);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
        for (unsigned i = 0; i < 2; i++) /* the second replaces the first */
                EXPECT_EQ(mock_say(&s, VHOST_USER_SET_BACKEND_REQ_FD, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY,
                                   NULL, 0, i ? &sockets[1] : &others[1], 1, NULL),
                          ACCEPTED);
        close(others[1]);
        close(sockets[1]);
        EXPECT_EQ(read(others[0], header, 4), 0);
        EXPECT(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL & ~BIT(VHOST_USER_PROTOCOL_F_CONFIG)) <=
               ACCEPTED);
        EXPECT_EQ(vu_backend_config_changed(s.be), -EOPNOTSUPP);
        EXPECT(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, ALL) <= ACCEPTED);
        EXPECT_EQ(vu_backend_config_changed(s.be), 0);
        EXPECT_EQ(recv(sockets[0], header, sizeof(header), MSG_DONTWAIT), 12);
        EXPECT_EQ(header[0], VHOST_USER_BACKEND_CONFIG_CHANGE_MSG);
        EXPECT_EQ(header[1], VU_FLAG_VERSION);
        EXPECT_EQ(header[2], 0);
        int r;
        do
                r = vu_backend_config_changed(s.be);
        while (!r);
        EXPECT_EQ(r, -ETIMEDOUT);
        close(others[0]);
        close(sockets[0]);
        EXPECT_EQ(vu_backend_config_changed(s.be), -ECONNRESET);
        mock_close(&s);
}

TEST(backend, writes_configuration_only_where_the_device_takes_it)
{
        struct vhost_user_config config = {
                .offset = 2, .size = 4, .region = {1, 2, 3, 4}
        };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_CONFIG, 9, &config, 16, NULL, 0, NULL), REFUSED);
        s.dev.config_writable = true;
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_CONFIG, 9, &config, 16, NULL, 0, NULL), ACCEPTED);
        EXPECT_MEM(s.dev.config + 2, config.region, 4);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_CONFIG, 9, &config, 15, NULL, 0, NULL), REFUSED);
        config.size = 0;
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_CONFIG, 9, &config, 12, NULL, 0, NULL), REFUSED);
        mock_close(&s);
}

TEST(backend, does_not_wait_for_a_peer_that_does_not_read)
{
        struct mock_session s;

        mock_open(&s, ALL);
        while (s.be) {
                const uint32_t header[3] = { VHOST_USER_GET_FEATURES, VU_FLAG_VERSION, 0 };

                mock_send_bytes(&s, header, sizeof(header));
                mock_serve(&s);
        }
        EXPECT_EQ(s.error, -ETIMEDOUT);
        EXPECT(strstr(s.why, "does not read"));
        mock_close(&s);
}

TEST(backend, serves_a_flood_in_portions)
{
        const uint32_t words[5] = { VHOST_USER_SET_VRING_ENABLE, VU_FLAG_VERSION, 8, 0, 1 };
        struct mock_session s;
        unsigned before;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        for (unsigned i = 0; i < 150; i++)
                mock_send_bytes(&s, words, sizeof(words));
        EXPECT(mock_serve(&s));
        before = s.dev.vring[0].enables;
        EXPECT(before > 0 && before < 150);
        while (s.dev.vring[0].enables < 150)
                EXPECT(mock_serve(&s));
        mock_close(&s);
}

TEST(backend, ends_with_the_word_and_the_rule_that_was_broken)
{
        struct mock_session s;

        mock_open(&s, NO_ACKS);
        mock_hello(&s, NO_ACKS);
        EXPECT_EQ(mock_state(&s, VHOST_USER_SET_VRING_NUM, 99, 16), CLOSED);
        EXPECT_STR(s.why, "SET_VRING_NUM (8): vring index out of range");
        EXPECT_EQ(s.error, -EINVAL);
        mock_close(&s);
}
