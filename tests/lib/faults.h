/* Calls of the system that fail when the test says so.  The linker puts faults.c in their way (`faults_lib` in meson.build); a thread is hit
 * only while it has said that it is a subject, so that the other end of a link in the same process stays well.
 *
 *      faults_subject(true);
 *      for (long n = 0;; n++) {
 *              faults_once(n, ENOMEM);
 *              r = what_is_tested();
 *              if (!faults_off())
 *                      break;                  there were no more calls to fail
 *      }
 *
 * Reads and writes of eventfds are not in the way: the kernel does not fail them. */
#pragma once
#include <stdbool.h>

/* This thread, from now on. */
void faults_subject(bool yes);

/* One call fails, after `after` others, with this errno: any call where that is no errno of waiting (EINTR, EAGAIN), else only those that can
 * wait. */
void faults_once(long after, int error);
/* Every `every`th call that moves frames or messages or waits fails, of all subjects. */
void faults_storm(unsigned every, int error);
/* Only this ioctl(), once. */
void faults_ioctl(unsigned long request, int error);

/* No more faults.  True if there has been one since they were asked for. */
bool faults_off(void);
unsigned faults_count(void);   /* how many */
const char *faults_name(void); /* the last call that failed, or "none" */

/* What is left behind shows as a difference between two of these. */
struct faults_holdings {
        unsigned fds, memfds_mapped, threads;
};
struct faults_holdings faults_hold(void);
