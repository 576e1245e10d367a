#include "ref_walk.h"

#include <stdlib.h>

struct entry {
        uint64_t address;
        uint32_t length;
        unsigned flags, next;
};

/* How a list ends. */
enum ending { COMPLETE, WILD_LINK, TOO_LONG, BAD_TABLE, WILD_HEAD, TABLE_UNMAPPED };

struct list {
        struct entry *entry;
        unsigned n, room;
        enum ending ending;
};

/* ---- memory ---- */

static const struct ref_region *region_of(const struct ref_memory *mem, uint64_t address)
{
        for (unsigned i = 0; i < mem->n; i++)
                if (mem->region[i].first <= address && address <= mem->region[i].last)
                        return &mem->region[i];
        return NULL;
}

/* Little-endian, `bytes` of them; false if one is not there. */
static bool read_number(const struct ref_memory *mem, uint64_t address, unsigned bytes, uint64_t *ret)
{
        *ret = 0;
        for (unsigned i = 0; i < bytes; i++) {
                const struct ref_region *r = region_of(mem, address + i);

                if (!r || address + i < address)
                        return false;
                *ret += (uint64_t)r->bytes[address + i - r->first] << 8 * i;
        }
        return true;
}

static bool read_entry(const struct ref_memory *mem, uint64_t address, struct entry *ret)
{
        uint64_t length, flags, next;

        if (!read_number(mem, address, 8, &ret->address) || !read_number(mem, address + 8, 4, &length) ||
            !read_number(mem, address + 12, 2, &flags) || !read_number(mem, address + 14, 2, &next))
                return false;
        ret->length = (uint32_t)length;
        ret->flags = (unsigned)flags;
        ret->next = (unsigned)next;
        return true;
}

static bool is_mapped(const struct ref_memory *mem, uint64_t address, uint32_t length)
{
        for (uint64_t left = length; left;) {
                const struct ref_region *r = region_of(mem, address);
                uint64_t here;

                if (!r)
                        return false;
                here = r->last - address + 1;
                if (here >= left)
                        return true;
                left -= here;
                address += here;
                if (!address)
                        return false;
        }
        return true;
}

/* ---- step one: unroll ---- */

enum { HAS_NEXT = 1, IS_WRITABLE = 2, IS_INDIRECT = 4 };

static void unroll_table(const struct ref_memory *mem, const struct entry *pointer, unsigned size,
                         struct list *list)
{
        unsigned entries = pointer->length / 16, i = 0;

        if (pointer->length % 16 != 0 || entries == 0 || entries > size || (pointer->flags & HAS_NEXT)) {
                list->ending = BAD_TABLE;
                return;
        }
        for (unsigned steps = 0;; steps++) {
                struct entry e;

                if (!read_entry(mem, pointer->address + 16 * (uint64_t)i, &e)) {
                        list->ending = TABLE_UNMAPPED;
                        return;
                }
                if (e.flags & IS_INDIRECT) {
                        list->ending = BAD_TABLE;
                        return;
                }
                if (list->n == list->room || steps == entries) {
                        list->ending = TOO_LONG;
                        return;
                }
                list->entry[list->n++] = e;
                if (!(e.flags & HAS_NEXT)) {
                        list->ending = COMPLETE;
                        return;
                }
                i = e.next;
                if (i >= entries) {
                        list->ending = WILD_LINK;
                        return;
                }
        }
}

static void unroll(const struct ref_memory *mem, uint64_t table, unsigned size, bool indirect_allowed,
                   unsigned head, struct list *list)
{
        unsigned i = head;

        if (head >= size) {
                list->ending = WILD_HEAD;
                return;
        }
        for (;;) {
                struct entry e;

                if (!read_entry(mem, table + 16 * (uint64_t)i, &e))
                        abort(); /* the table itself is always there */
                if (e.flags & IS_INDIRECT) {
                        list->ending = BAD_TABLE;
                        if (indirect_allowed)
                                unroll_table(mem, &e, size, list);
                        return;
                }
                if (list->n == list->room) {
                        list->ending = TOO_LONG;
                        return;
                }
                list->entry[list->n++] = e;
                if (!(e.flags & HAS_NEXT)) {
                        list->ending = COMPLETE;
                        return;
                }
                i = e.next;
                if (i >= size) {
                        list->ending = WILD_LINK;
                        return;
                }
        }
}

/* ---- step two: judge ---- */

static const char *name_of(enum ending ending)
{
        switch (ending) {
        case COMPLETE:
        case TABLE_UNMAPPED:
                return NULL;
        case WILD_LINK:
                return "bad-next";
        case TOO_LONG:
                return "chain-loop";
        case BAD_TABLE:
                return "bad-indirect";
        case WILD_HEAD:
                return "bad-head";
        }
        abort();
}

static void cut(const struct ref_memory *mem, const struct entry *e, struct ref_verdict *ret)
{
        uint64_t address = e->address;

        for (uint32_t left = e->length; left;) {
                const struct ref_region *r = region_of(mem, address);
                uint64_t here = r->last - address + 1;
                uint32_t len = here < left ? (uint32_t)here : left;

                if (ret->n == REF_PIECES)
                        abort();
                ret->piece[ret->n++] = (struct ref_piece){ r->bytes + (address - r->first), len,
                                                           (e->flags & IS_WRITABLE) != 0 };
                address += len;
                left -= len;
        }
}

static void judge(const struct ref_memory *mem, const struct list *list, struct ref_verdict *ret)
{
        bool writable_before = false;

        for (unsigned i = 0; i < list->n; i++) {
                bool writable = list->entry[i].flags & IS_WRITABLE;

                if (writable_before && !writable) {
                        ret->broken = "order";
                        return;
                }
                writable_before = writable;
        }
        ret->broken = name_of(list->ending);
        ret->unmapped = list->ending == TABLE_UNMAPPED;
        for (unsigned i = 0; i < list->n; i++)
                ret->unmapped |= !is_mapped(mem, list->entry[i].address, list->entry[i].length);
        if (ret->broken || ret->unmapped)
                return;
        for (unsigned i = 0; i < list->n; i++)
                cut(mem, &list->entry[i], ret);
}

void ref_walk(const struct ref_memory *mem, uint64_t table, unsigned size, bool indirect_allowed,
              unsigned head, struct ref_verdict *ret)
{
        struct entry entries[REF_PIECES];
        struct list list = { .entry = entries, .room = size };

        if (size > REF_PIECES)
                abort();
        ret->broken = NULL;
        ret->unmapped = false;
        ret->n = 0;
        unroll(mem, table, size, indirect_allowed, head, &list);
        judge(mem, &list, ret);
}
