#!/usr/bin/env python3
"""The published tables as C, so that no number is typed twice:  to_c.py FILE.csv... > published_data.c"""
import csv
import json
import pathlib
import sys


def table(path):
    with open(path, newline="") as f:
        columns, *rows = csv.reader(f)
    name = path.stem
    lines = [f"static const char *const {name}_columns[] = {{ {', '.join(map(json.dumps, columns))} }};"]
    lines.append(f"static const char *const {name}_values[] = {{")
    for row in rows:
        if len(row) != len(columns):
            sys.exit(f"to_c.py: {path}: {row} has {len(row)} values, not {len(columns)}")
        lines.append(f"        {', '.join(map(json.dumps, row))},")
    lines.append("};")
    entry = (f'        {{ .name = "{name}", .columns = {name}_columns, .values = {name}_values, '
             f".n_columns = {len(columns)}, .n_rows = {len(rows)} }},")
    return "\n".join(lines), entry


tables = [table(pathlib.Path(p)) for p in sys.argv[1:]]
print("/* Made from bench/published/ by to_c.py. */")
print('#include "bench/published.h"\n')
print("\n\n".join(text for text, _ in tables))
print("\nconst struct published_table published_tables[] = {")
print("\n".join(entry for _, entry in tables))
print("};")
print(f"const unsigned n_published_tables = {len(tables)};")
