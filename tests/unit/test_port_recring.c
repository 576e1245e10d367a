/* The ring of records: order, fullness, the end of the block, positions that overflow, two threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "port/recring.h"
#include "scale.h"
#include "test.h"

#define SIZE 4096u

static struct recring ring_new(void)
{
        return (struct recring){ .bytes = aligned_alloc(8, SIZE), .size = SIZE };
}

static bool put(struct recring *r, uint32_t len, uint8_t value)
{
        uint8_t *rec = recring_reserve(r, len);

        if (!rec)
                return false;
        memset(rec, value, len);
        recring_put(r);
        return true;
}

TEST(recring, is_empty_when_new)
{
        struct recring r = ring_new();
        uint32_t len;

        EXPECT(!recring_peek(&r, &len));
        EXPECT_EQ(recring_used(&r), 0);
        free(r.bytes);
}

TEST(recring, shows_nothing_before_it_was_put)
{
        struct recring r = ring_new();
        uint32_t len;

        EXPECT(recring_reserve(&r, 100));
        EXPECT(!recring_peek(&r, &len));
        recring_put(&r);
        EXPECT(recring_peek(&r, &len));
        EXPECT_EQ(len, 100);
        free(r.bytes);
}

TEST(recring, takes_a_record_of_half_its_size_wherever_it_stands)
{
        struct recring r = ring_new();
        uint32_t len;

        for (unsigned i = 0; i < 3 * SIZE / 8; i++) {
                EXPECT(put(&r, 0, 0));
                EXPECT(recring_peek(&r, &len));
                recring_take(&r);
                EXPECT(put(&r, SIZE / 2 - 8, 1));
                EXPECT(recring_peek(&r, &len));
                EXPECT_EQ(len, SIZE / 2 - 8);
                recring_take(&r);
                EXPECT(!recring_peek(&r, &len));
        }
        free(r.bytes);
}

TEST(recring, keeps_order_and_contents_through_overflowing_positions)
{
        struct recring r = ring_new();
        unsigned put_n = 0, taken = 0;
        uint32_t len, seed = 1;

        r.head = r.tail = UINT32_MAX - SIZE * 4 + 1;
        while (taken < 10000) {
                uint8_t *rec;

                seed = seed * 1664525 + 1013904223;
                while (put(&r, (put_n * 7919) % 1500, (uint8_t)put_n))
                        put_n++;
                for (unsigned k = seed >> 30; k && (rec = recring_peek(&r, &len)); k--) {
                        EXPECT_EQ(len, (taken * 7919) % 1500);
                        for (uint32_t i = 0; i < len; i++)
                                EXPECT_EQ(rec[i], (uint8_t)taken);
                        taken++;
                        recring_take(&r);
                }
        }
        free(r.bytes);
}

TEST(recring, is_full_and_has_room_again_after_a_take)
{
        struct recring r = ring_new();
        uint32_t len;

        for (unsigned i = 0; i < SIZE / 64; i++)
                EXPECT(put(&r, 64 - 8, 1));
        EXPECT(!put(&r, 0, 1));
        EXPECT(recring_peek(&r, &len));
        recring_take(&r);
        EXPECT(put(&r, 64 - 8, 1));
        free(r.bytes);
}

TEST(recring, rewinds_only_when_empty)
{
        struct recring r = ring_new();
        uint32_t len;

        EXPECT(put(&r, 100, 1));
        recring_rewind(&r);
        EXPECT(recring_peek(&r, &len));
        recring_take(&r);
        recring_rewind(&r);
        EXPECT_EQ(r.head, 0);
        free(r.bytes);
}

static uint64_t n_records;

static void *producer(void *arg)
{
        for (uint64_t i = 0; i < n_records; i++) {
                uint32_t len = sizeof(i) + (uint32_t)(i * 31 % 500);
                uint8_t *rec;

                while (!(rec = recring_reserve(arg, len)))
                        sched_yield();
                memcpy(rec, &i, sizeof(i));
                rec[len - 1] = (uint8_t)(len > sizeof(i) ? i : rec[len - 1]);
                recring_put(arg);
        }
        return NULL;
}

TEST(recring, carries_every_record_between_two_threads)
{
        struct recring r = ring_new();
        pthread_t thread;

        n_records = test_scale(200000, 10000000);
        EXPECT_EQ(pthread_create(&thread, NULL, producer, &r), 0);
        for (uint64_t i = 0, got; i < n_records; i++) {
                uint8_t *rec;
                uint32_t len;

                while (!(rec = recring_peek(&r, &len)))
                        sched_yield();
                memcpy(&got, rec, sizeof(got));
                if (got != i || len != sizeof(i) + i * 31 % 500)
                        fail_msg("record %llu came as %llu, length %u", (unsigned long long)i,
                                 (unsigned long long)got, len);
                recring_take(&r);
        }
        pthread_join(thread, NULL);
        EXPECT_EQ(recring_used(&r), 0);
        free(r.bytes);
}
