/* The device and its port: fair turns under a flood, link and MTU that change, ports without a fd. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "front.h"
#include "scale.h"
#include "sport.h"
#include "test.h"

static struct front f;

static void begin(struct vw_port *port, uint64_t features, unsigned size)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        config.port = port;
        config.nice = 0;
        front_open(&f, &config);
        front_connect(&f, features, size);
}

static unsigned offer(unsigned n)
{
        static const uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
        unsigned i;

        for (i = 0; i < n && front_send(&f, 0, frame, sizeof(frame), NULL); i++)
                continue;
        front_kick(&f, 1);
        return i;
}

/* ---- a port that always has a frame and always takes one ---- */

struct flood {
        unsigned rx_run, tx_run; /* packets in a row in one direction while the other had work, too */
        unsigned rx_longest, tx_longest;
        uint64_t rx, tx;
        bool on;
};

/* Whether the driver has offered something that the device has not used. */
static bool has_work(unsigned index)
{
        const struct vring_split *ring = &f.q[index].vq.split.ring;

        return __atomic_load_n(&ring->avail->idx, __ATOMIC_ACQUIRE) !=
               __atomic_load_n(&ring->used->idx, __ATOMIC_ACQUIRE);
}

static int flood_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct flood *flood = self;

        if (!load_relaxed(&flood->on))
                return 0;
        flood->tx_run = 0;
        flood->rx_run = has_work(1) ? flood->rx_run + 1 : 0;
        flood->rx_longest = MAX(flood->rx_longest, flood->rx_run);
        counter_add(&flood->rx, 1);
        memset(pkt->iov[0].iov_base, 2, MIN(pkt->iov[0].iov_len, 60u));
        pkt->len = 60;
        pkt->hdr = (struct vw_net_hdr){ 0 };
        return 1;
}

static int flood_tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct flood *flood = self;

        flood->rx_run = 0;
        flood->tx_run = has_work(0) && load_relaxed(&flood->on) ? flood->tx_run + n : 0;
        flood->tx_longest = MAX(flood->tx_longest, flood->tx_run);
        counter_add(&flood->tx, n);
        memset(result, 0, n * sizeof(*result));
        return (int)n;
}

static uint64_t flood_deadline(const void *self, unsigned lane)
{
        return load_relaxed(&((const struct flood *)self)->on) ? 0 : UINT64_MAX;
}

static uint32_t flood_rx_max(const void *self, unsigned lane)
{
        return 1514;
}

static const struct vw_port_ops flood_ops = {
        .rx = flood_rx, .tx = flood_tx, .deadline = flood_deadline, .rx_max = flood_rx_max
};

/* T-VH-09, T-VH-10: 256 packets a turn, discarded ones too, in both directions; with equal loads the same share */
static void fair_turns(uint32_t rx_buffer)
{
        struct flood flood = { 0 };
        struct vw_port *port = vw_port_new(&flood_ops, &flood);
        unsigned n = (unsigned)test_scale(50000, 1000000);
        struct vw_queue_stats rx, tx;

        begin(port, 0, 1024);
        store_relaxed(&flood.on, true);
        while (load_relaxed(&flood.tx) < n) {
                front_reap(&f, 0, NULL, 64);
                front_reap(&f, 1, NULL, 64);
                front_post(&f, 0, 64, rx_buffer);
                front_kick(&f, 0);
                offer(64);
        }
        store_relaxed(&flood.on, false);
        EXPECT_SOON(!has_work(1));
        rx = front_stats(&f, 0);
        tx = front_stats(&f, 1);
        EXPECT(flood.rx_longest <= 256 && flood.tx_longest <= 256);
        EXPECT_EQ(rx.counters[VW_C_packets] + front_drops(&rx), flood.rx);
        EXPECT_EQ(tx.counters[VW_C_packets] + front_drops(&tx), flood.tx);
        if (rx_buffer < 60)
                EXPECT_EQ(rx.counters[VW_C_packets], 0);
        front_close(&f);
        vw_port_close(port);
}

TEST(device_port, both_directions_have_turns_of_the_same_length)
{
        fair_turns(1600);
}

TEST(device_port, discarded_frames_count_towards_a_turn)
{
        fair_turns(1);
}

/* ---- a capture ---- */

/* hostile J14 */
TEST(device_port, what_a_full_disk_keeps_from_a_capture_is_told)
{
        struct flood flood = { 0 };
        struct vw_port *port = vw_port_new(&flood_ops, &flood);
        struct vw_stats *s = calloc(1, sizeof(*s));

        begin(port, 0, 64);
        EXPECT_EQ(vw_port_capture(port, open("/dev/full", O_WRONLY | O_CLOEXEC)), 0);
        EXPECT_EQ(offer(50), 50);
        EXPECT_SOON(front_stats(&f, 1).counters[VW_C_packets] == 50);
        EXPECT_EQ(vw_port_capture(port, -1), 0);
        front_all_stats(&f, s);
        EXPECT_EQ(s->port.capture_lost, 50);
        EXPECT_EQ(s->queues[1].counters[VW_C_packets], 50);
        free(s);
        front_close(&f);
        vw_port_close(port);
}

/* ---- link and MTU ---- */

/* hostile J02, J07 */
TEST(device_port, follows_link_and_mtu_of_the_port)
{
        static uint8_t frame[1600];
        struct sport port;
        uint16_t status;

        sport_init(&port);
        begin(port.port, F(status), 64);
        memset(frame, 2, sizeof(frame));
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 6, 2, &status), 0);
        EXPECT_EQ(status, VIRTIO_NET_S_LINK_UP);
        store_relaxed(&port.link_up, false);
        store_relaxed(&port.mtu, 500);
        sport_event(&port);
        EXPECT_SOON(vu_frontend_dispatch(&f.fe) == 1); /* the guest is told */
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 6, 2, &status), 0);
        EXPECT_EQ(status, 0);

        EXPECT(front_send(&f, 0, frame, 514, NULL));
        EXPECT(front_send(&f, 0, frame, 515, NULL));
        front_kick(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).drops[VW_DROP_MTU] == 1);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 1);
        store_relaxed(&port.mtu, 1500);
        store_relaxed(&port.link_up, true);
        sport_event(&port);
        EXPECT_SOON(vu_frontend_dispatch(&f.fe) == 1);
        EXPECT(front_send(&f, 0, frame, 1514, NULL));
        front_kick(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).counters[VW_C_packets] == 2);

        EXPECT_EQ(vu_frontend_set_mtu(&f.fe, 1000), 0); /* what the front end says goes before the port */
        EXPECT(front_send(&f, 0, frame, 1014, NULL));
        EXPECT(front_send(&f, 0, frame, 1015, NULL));
        front_kick(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).drops[VW_DROP_MTU] == 2);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 3);
        front_close(&f);
        sport_free(&port);
}

/* ---- ports without a fd ---- */

TEST(device_port, frames_come_back_from_a_loop_in_order_and_stop_it_when_nobody_takes_them)
{
        unsigned n = (unsigned)test_scale(20000, 1000000), sent = 0, back = 0, got = 0;
        const char *why = NULL;
        struct vw_port *port;
        struct vq_used used[64];

        EXPECT_EQ(vw_port_open("loop", &(struct vw_port_config){ .pairs = 1 }, &port, &why), 0);
        begin(port, F(event_idx), 256);
        while (got < n) {
                unsigned k;

                while (sent < n) {
                        uint8_t frame[64] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

                        memcpy(frame + 14, &sent, sizeof(sent));
                        if (!front_send(&f, 0, frame, sizeof(frame), NULL))
                                break;
                        sent++;
                }
                front_kick(&f, 1);
                back += front_reap(&f, 1, NULL, 64);
                if (got == 0 && sent < n && load_relaxed(&f.dev) &&
                    front_stats(&f, 1).counters[VW_C_port_full] == 0)
                        continue; /* no buffers: the loop fills up, then the ring does */
                front_post(&f, 0, 64, 1600);
                front_kick(&f, 0);
                k = front_reap(&f, 0, used, 64);
                for (unsigned i = 0; i < k; i++) {
                        uint8_t *at =
                                front_slot(&f, 0, (unsigned)((uintptr_t)used[i].cookie - 1)) + FRONT_HDR;

                        EXPECT_EQ(used[i].len, FRONT_HDR + 64);
                        EXPECT_EQ(at[5], 2);
                        EXPECT_MEM(at + 14, &got, sizeof(got));
                        got++;
                }
        }
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == n);
        front_close(&f);
        vw_port_close(port);
}

TEST(device_port, a_paced_generator_wakes_the_worker_by_its_deadline)
{
        const char *why = NULL;
        struct vw_port *port;
        unsigned got = 0;

        EXPECT_EQ(vw_port_open("gen:size=100,rate=5000,count=100", &(struct vw_port_config){ .pairs = 1 },
                               &port, &why),
                  0);
        begin(port, F(event_idx), 64);
        front_post(&f, 0, 64, 1600);
        front_kick(&f, 0);
        EXPECT_SOON((got += front_reap(&f, 0, NULL, 64), front_post(&f, 0, 64, 1600), front_kick(&f, 0),
                     got == 100));
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_packets], 100);
        EXPECT_EQ(front_stats(&f, 0).counters[VW_C_bytes], 10000);
        front_close(&f);
        vw_port_close(port);
}
