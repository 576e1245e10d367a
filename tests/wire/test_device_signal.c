/* What the driver does while the device is in the middle of calling it.  The call is a write to an eventfd, and the linker puts this
 * file in its way. */
#include <unistd.h>

#include "base/atomics.h"
#include "front.h"
#include "sport.h"
#include "test.h"

static struct front f;
static struct sport port;
static bool armed;        /* the next write is the call */
static bool second_waits; /* a frame is ready to be offered */
static bool kick_is_owed; /* the device had asked to be woken for it */

ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
        if (__atomic_exchange_n(&armed, false, __ATOMIC_ACQ_REL)) {
                EXPECT_SOON(load_acquire(&second_waits));
                vq_driver_publish(&f.q[1].vq);
                store_relaxed(&kick_is_owed, vq_driver_kick_needed(&f.q[1].vq));
        }
        return __real_write(fd, buf, len);
}

static bool sent(int len)
{
        uint8_t frame[100];

        return sport_get(&port, 0, frame, sizeof(frame), NULL) == len;
}

static void offer(void)
{
        uint64_t before = load_relaxed(&port.tx_frames);
        unsigned reaped = 0;

        second_waits = kick_is_owed = false;
        vq_driver_call_enable(&f.q[1].vq);
        EXPECT(front_send(&f, 0, (const uint8_t[60]){ 2 }, 60, NULL));
        store_release(&armed, true);
        vq_driver_publish(&f.q[1].vq);
        /* not written by front_kick(), whose write would be taken for the call */
        if (vq_driver_kick_needed(&f.q[1].vq))
                EXPECT_EQ(__real_write(f.q[1].kick, &(uint64_t){ 1 }, sizeof(uint64_t)), sizeof(uint64_t));
        EXPECT(front_send(&f, 0, (const uint8_t[61]){ 2 }, 61, NULL));
        store_release(&second_waits, true);
        /* nothing else may wake the worker meanwhile, as taking a frame from its port does */
        EXPECT_SOON(load_relaxed(&port.tx_frames) == before + 2);
        EXPECT(sent(60) && sent(61));
        EXPECT(!load_acquire(&armed));
        EXPECT(!load_relaxed(&kick_is_owed));
        EXPECT_SOON((reaped += front_reap(&f, 1, NULL, 64)) == 2);
}

static void offer_in_turn(uint64_t features)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        config.port = port.port;
        config.nice = 0;
        front_open(&f, &config);
        front_connect(&f, features, 64);
        for (unsigned i = 0; i < 100; i++)
                offer();
        front_close(&f);
        sport_free(&port);
}

/* T-VH-08: at once, that is before the worker sleeps, for nobody would wake it */
TEST(device_signal, a_frame_offered_during_the_call_needs_no_kick)
{
        offer_in_turn(F(event_idx));
        offer_in_turn(0);
}
