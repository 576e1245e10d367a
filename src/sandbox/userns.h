/* A user namespace of our own: rights over what is made from now on, and over nothing that was there. */
#pragma once

/* Moves the only thread there is into a new one, in which our user and group are called `inside`, and which has no others.  0 or -errno;
 * after an error it may have been entered without names. */
int userns_enter(unsigned inside);
