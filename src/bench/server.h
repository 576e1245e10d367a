/* The side of a measurement that does as it is told (bench/traffic.h): in the guest, or in the guest's namespace. */
#pragma once
#include <netinet/in.h>
#include <stdint.h>

struct server;

/* Serves at `address` from now on, on threads of its own.  0 or -errno with a sentence. */
int server_new(const struct sockaddr_in *address, struct server **ret_server, const char **ret_why);
uint64_t server_cpu_ns(const struct server *s); /* NULL: 0 */
void server_free(struct server *s);             /* NULL is fine */
