/* Receive filters: modes, tables, VLANs. */
#include <string.h>

#include "device/filter.h"
#include "test.h"
#include "virtio/features.h"

static const uint8_t own[6] = { 2, 0, 0, 0, 0, 1 }, other[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t group[6] = { 1, 0, 0x5e, 0, 0, 1 }, all[6] = { 255, 255, 255, 255, 255, 255 };

static struct filter fresh(void)
{
        struct filter f;

        filter_init(&f, own, F(ctrl_rx) | F(ctrl_vlan));
        f.active = true;
        return f;
}

static bool wants_tagged(const struct filter *f, const uint8_t *dst, int tci)
{
        uint8_t frame[60] = { 0 };

        memcpy(frame, dst, 6);
        frame[12] = 0x08;
        if (tci >= 0) {
                frame[12] = 0x81;
                frame[14] = (uint8_t)(tci >> 8);
                frame[15] = (uint8_t)tci;
        }
        return filter_wants(f, frame, sizeof(frame));
}

static bool wants(const struct filter *f, const uint8_t *dst)
{
        return wants_tagged(f, dst, -1);
}

TEST(filter, wants_everything_until_the_guest_uses_its_control_queue)
{
        struct filter zero = { 0 }, f = fresh();

        f.active = false;
        EXPECT(wants(&zero, other) && wants(&f, other) && wants(&f, group) && wants_tagged(&f, own, 5));
}

TEST(filter, after_a_reset_wants_its_own_address_and_broadcasts)
{
        struct filter f = fresh();

        EXPECT(wants(&f, own) && wants(&f, all));
        EXPECT(!wants(&f, other) && !wants(&f, group));
}

TEST(filter, wants_what_the_tables_list)
{
        struct filter f = fresh();

        filter_set_table(&f.unicast, &(struct net_mac_list){ other, 1 });
        filter_set_table(&f.multicast, &(struct net_mac_list){ group, 1 });
        EXPECT(wants(&f, other) && wants(&f, group));
        filter_set_table(&f.unicast, &(struct net_mac_list){ other, 0 });
        filter_set_table(&f.multicast, &(struct net_mac_list){ group, 0 });
        EXPECT(!wants(&f, other) && !wants(&f, group));
}

/* hostile G08 */
TEST(filter, takes_all_of_a_kind_when_its_list_is_too_long)
{
        static uint8_t many[NET_MAC_TABLE_MAX + 1][6];
        struct filter f = fresh();

        filter_set_table(&f.unicast, &(struct net_mac_list){ many[0], NET_MAC_TABLE_MAX + 1 });
        EXPECT(wants(&f, other) && !wants(&f, group));
        filter_set_table(&f.unicast, &(struct net_mac_list){ many[0], NET_MAC_TABLE_MAX });
        EXPECT(!wants(&f, other));
}

TEST(filter, modes_have_their_order_of_precedence)
{
        struct filter f = fresh();

        f.mode[FILTER_ALLMULTI] = f.mode[FILTER_ALLUNI] = true;
        EXPECT(wants(&f, group) && wants(&f, other));
        f.mode[FILTER_NOMULTI] = f.mode[FILTER_NOUNI] = true; /* no wins over all */
        EXPECT(!wants(&f, group) && !wants(&f, other) && !wants(&f, own));
        EXPECT(wants(&f, all)); /* NOMULTI does not concern broadcasts */
        f.mode[FILTER_NOBCAST] = true;
        EXPECT(!wants(&f, all));
        f.mode[FILTER_PROMISC] = true; /* wins over all */
        EXPECT(wants(&f, group) && wants(&f, other) && wants(&f, all));
}

TEST(filter, drops_tags_that_are_not_members)
{
        struct filter f = fresh();

        EXPECT(!wants_tagged(&f, own, 7));
        EXPECT(wants_tagged(&f, own, 0) && wants_tagged(&f, own, 0xe000)); /* a priority is no VLAN */
        filter_set_vlan(&f, 7, true);
        filter_set_vlan(&f, 4095, true);
        EXPECT(wants_tagged(&f, own, 7) && wants_tagged(&f, own, 0x2007) && wants_tagged(&f, own, 4095));
        EXPECT(!wants_tagged(&f, own, 8) && !wants_tagged(&f, other, 7));
        filter_set_vlan(&f, 7, false);
        EXPECT(!wants_tagged(&f, own, 7));
        f.vlans = false; /* not negotiated */
        EXPECT(wants_tagged(&f, own, 7));
}

TEST(filter, judges_short_frames_by_what_there_is)
{
        struct filter f = fresh();
        uint8_t frame[17] = { 0 };

        memcpy(frame, own, 6);
        frame[12] = 0x81; /* the tag is cut off */
        EXPECT(filter_wants(&f, frame, 17));
        EXPECT(filter_wants(&f, frame, 13));
}
