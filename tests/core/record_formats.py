"""Records what ml_dtypes and gfloat round numbers to, for formats_test.cpp.

    python3 -m venv build/formats-venv && build/formats-venv/bin/pip install ml_dtypes gfloat
    build/formats-venv/bin/python3 tests/core/record_formats.py > tests/core/fixtures/formats.tsv

A line is a format, whether it saturates, the bits of a number, and for it and for its negative those of a random number
(24 bits) and of the results: nearest by ml_dtypes, nearest, toward_zero and stochastic by gfloat; - where a program does
not have the format.
With a count as argument so many numbers are taken for each format in place of 14.
"""
import random
import struct
import sys
import warnings

import gfloat
import ml_dtypes
import numpy as np
from gfloat.formats import format_info_p3109, format_info_ocp_e4m3, format_info_ocp_e5m2, format_info_ocp_e2m1
from gfloat.formats import format_info_ocp_e2m3, format_info_ocp_e3m2, format_info_binary16, format_info_bfloat16
from gfloat.types import Domain, RoundMode

warnings.simplefilter("ignore")
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 14
random.seed(1)

CASTS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
         "e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "e3m4": ml_dtypes.float8_e3m4, "bf16": ml_dtypes.bfloat16,
         "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
         "f16": np.float16}
INFOS = {"e4m3": format_info_ocp_e4m3, "e5m2": format_info_ocp_e5m2, "e2m1": format_info_ocp_e2m1,
         "e2m3": format_info_ocp_e2m3, "e3m2": format_info_ocp_e3m2, "f16": format_info_binary16,
         "bf16": format_info_bfloat16}
for k, p in ((8, 3), (8, 4), (6, 2), (5, 3), (8, 6)):
    for domain, letter in ((Domain.Extended, "e"), (Domain.Finite, "f")):
        INFOS[f"binary{k}p{p}s{letter}"] = format_info_p3109(k, p, domain=domain)
SIX_BITS_AND_FEWER = ("e3m2", "e2m3", "e2m1")  # they have neither infinity nor NaN: they always saturate


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def value(b):
    return struct.unpack("<f", struct.pack("<I", b & 0xFFFFFFFF))[0]


def probes(info):
    """Numbers, middles between neighbours and what is beside them, over the format's range and beyond it."""
    largest, smallest = float(info.max), float(info.smallest)
    found = [largest, 1.01 * largest, 1.5 * largest, 4 * largest, float("inf"), 0.0, smallest / 2, smallest, smallest * 0.51]
    while len(found) < COUNT:
        x = random.choice((1, 1.5, 1.0625)) * 2.0 ** random.uniform(np.log2(smallest) - 2, np.log2(largest) + 1)
        nearest = gfloat.round_float(info, x, RoundMode.TowardZero, sat=True)
        above = gfloat.round_float(info, x, RoundMode.TowardPositive, sat=True)
        middle = (nearest + above) / 2
        found.append(random.choice((x, nearest, middle, value(bits(middle) + 1), value(bits(middle) - 1))))
    return [value(bits(x)) for x in found if x < 3.3e38 or x == float("inf")]


def text(y):
    return "-" if y is None else "nan" if y != y else f"{bits(float(y)):08x}"


for name in [*CASTS, *(name for name in INFOS if name not in CASTS)]:
    info, cast = INFOS.get(name), CASTS.get(name)
    saturates = name in SIX_BITS_AND_FEWER or name.endswith("f") and name.startswith("binary")
    for x in probes(info or format_info_ocp_e5m2):
        if saturates and x == float("inf"):
            continue  # gfloat keeps infinity out of these by an error
        cells = [name, str(int(saturates)), f"{bits(x):08x}"]
        for y in (x, -x):
            drawn = random.getrandbits(24)
            # gfloat rounds up where the share and the random number reach 1, nixie where the share is above it.
            results = [np.float32(y).astype(cast) if cast else None,
                       *(info and gfloat.round_float(info, y, mode, sat=saturates, srbits=(1 << 24) - 1 - drawn,
                                                     srnumbits=24)
                         for mode in (RoundMode.TiesToEven, RoundMode.TowardZero, RoundMode.Stochastic))]
            cells += [f"{drawn:06x}", *map(text, results)]
        print("\t".join(cells))
