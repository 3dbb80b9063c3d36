"""Runs graphs of many sizes in a given order. Prints how often the framework itself compiled.

CYCLE_SIZES: the sizes, by commas. CYCLE_CACHE: a folder for the framework's persistent cache.
"""

import json
import os

import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.debug import metrics

if "CYCLE_CACHE" in os.environ:
    xr.initialize_cache(os.environ["CYCLE_CACHE"])

device = torch_xla.device()
weight = torch.ones(8, 8).to(device)
torch_xla.sync()
before = metrics.counter_value("UncachedCompile") or 0
for size in map(int, os.environ["CYCLE_SIZES"].split(",")):
    out = torch.ones(size, 8).to(device) @ weight
    torch_xla.sync()
names = (
    "UncachedCompile",
    "CachedCompile",
    "PersistentCacheHit",
    "PersistentCacheMiss",
    "PersistentCacheDeserializeFailure",
)
print(json.dumps({name: metrics.counter_value(name) or 0 for name in names} | {"before": before}))
