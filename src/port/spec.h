/* A port's spec, KIND[:NAME][,key=value...][,word...], by a table of kinds. */
#pragma once
#include "port/kinds.h"

/* 0, *ret_open and *ret_args; or -EINVAL, -EOPNOTSUPP with a sentence. */
int port_spec_parse(const char *spec, port_open_fn **ret_open, struct port_args *ret_args,
                    const char **ret_why);
