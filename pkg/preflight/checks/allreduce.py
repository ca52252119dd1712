"""Run by torchrun in every process of a preflight check: sums a vector over all of them,
compares it with what the sum must be, and tells how fast that was."""

import argparse
import datetime
import json
import os
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", choices=["auto", "gloo", "nccl"], default="auto")
parser.add_argument("--bytes", type=int, default=1 << 20)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--timeout", type=int, default=60, help="seconds")
options = parser.parse_args()

backend = options.backend
if backend == "auto":
    backend = "nccl" if torch.cuda.is_available() else "gloo"
device = torch.device("cpu")
if backend == "nccl":
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

dist.init_process_group(backend, timeout=datetime.timedelta(seconds=options.timeout))
rank, world = dist.get_rank(), dist.get_world_size()
vector = torch.empty(max(1, options.bytes // 4), dtype=torch.float32, device=device)
expected = world * (world + 1) / 2
correct, fastest = True, float("inf")
for _ in range(options.rounds):
    vector.fill_(rank + 1)
    if backend == "nccl":
        torch.cuda.synchronize()
    start = time.perf_counter()
    dist.all_reduce(vector)
    if backend == "nccl":
        torch.cuda.synchronize()
    fastest = min(fastest, time.perf_counter() - start)
    correct = correct and bool((vector == expected).all().item())

# What a link carries, by the rule of nccl-tests: 2 (n - 1) / n times the size in the time.
bus = 2 * (world - 1) / world * vector.numel() * 4 / fastest / 1e9
line = {"preflight": "allreduce", "rank": rank, "world": world, "backend": backend, "correct": correct, "busGBps": bus}
print(json.dumps(line), flush=True)
dist.destroy_process_group()
raise SystemExit(0 if correct else 3)
