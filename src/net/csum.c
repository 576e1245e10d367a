#include "net/csum.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "net/hdr.h"

static uint64_t load64(const uint8_t *p)
{
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        return word;
}

/* An add and an add-with-carry for eight bytes; two sums, since a carry waits for the one before it. */
uint64_t net_csum_add(uint64_t sum, const void *data, size_t len)
{
        const uint8_t *p = data;
        unsigned __int128 a = sum, b = 0;
        uint64_t rest = 0;

        for (; len >= 32; p += 32, len -= 32) {
                a += load64(p);
                b += load64(p + 8);
                a += load64(p + 16);
                b += load64(p + 24);
        }
        for (; len >= 8; p += 8, len -= 8)
                a += load64(p);
        memcpy(&rest, p, len);
        a += b;
        a += rest;
        return net_csum_join((uint64_t)a, (uint64_t)(a >> 64));
}

uint16_t net_csum_fold(uint64_t sum)
{
        sum = (sum >> 32) + (sum & 0xffffffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        return (uint16_t)~sum;
}

int net_csum_complete(uint8_t *buf, uint32_t len, uint16_t start, uint16_t offset)
{
        uint32_t field = (uint32_t)start + offset;
        uint16_t csum;

        if (field + 2 > len || offset % 2)
                return -EINVAL;
        csum = net_csum_fold(net_csum_add(0, buf + start, len - start));
        if (!csum && offset == NET_UDP_CSUM_OFF)
                csum = 0xffff;
        memcpy(buf + field, &csum, sizeof(csum));
        return 0;
}
