/* Guard pages in the shared memory, around what the device may write to.  A device sees all of the arena and no mapping can
 * keep it from a part, so a page of a pattern on either side tells when it has written past its buffers.  What it can reach
 * so is frames; everything that we believe lies in private memory. */
#include <errno.h>
#include <string.h>

#include "driver/driver.h"

#define GUARD_BYTE  0x5a
#define GUARD_EVERY NSEC_PER_SEC /* between two looks */

static bool whole(const uint8_t *guard)
{
        for (unsigned i = 0; i < DRV_GUARD; i++)
                if (load_relaxed(&guard[i]) != GUARD_BYTE)
                        return false;
        return true;
}

int drv_guard_add(struct vw_driver *drv)
{
        uint8_t *guard = arena_alloc(&drv->arena, DRV_GUARD, RXBUF_PAGE);

        if (!guard || drv->n_guards == ARRAY_SIZE(drv->guards))
                return -ENOMEM;
        memset(guard, GUARD_BYTE, DRV_GUARD);
        drv->guards[drv->n_guards++] = guard;
        return 0;
}

/* Repairs what it finds broken.  True: all are whole. */
bool drv_guard_check(struct vw_driver *drv)
{
        bool ok = true;

        for (unsigned i = 0; i < drv->n_guards; i++) {
                if (whole(drv->guards[i]))
                        continue;
                log_error("driver", "the device has written outside of its buffers at=0x%llx",
                          (unsigned long long)arena_gpa(&drv->arena, drv->guards[i]));
                memset(drv->guards[i], GUARD_BYTE, DRV_GUARD);
                ok = false;
        }
        return ok;
}

static void look(struct ev_watch *w, uint64_t now)
{
        struct vw_driver *drv = container_of(w, struct vw_driver, guard_watch);

        if (drv_guard_check(drv))
                evloop_deadline(drv->loop, w, now + GUARD_EVERY);
        else
                drv_lose(drv, -EPROTO, "it has written outside of its buffers");
}

int drv_guard_start(struct vw_driver *drv)
{
        int r;

        drv->guard_watch = (struct ev_watch){ .expired = look };
        r = evloop_add(drv->loop, &drv->guard_watch, -1, 0);
        if (!r)
                evloop_deadline(drv->loop, &drv->guard_watch, clock_now() + GUARD_EVERY);
        return r;
}

void drv_guard_stop(struct vw_driver *drv)
{
        evloop_remove(drv->loop, &drv->guard_watch);
}
