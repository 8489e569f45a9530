#!/usr/bin/env python3
"""The training steps of `benchmark ranks` in PyTorch: each net on one GPU, and on several by DistributedDataParallel.

The step is that of torch_nets.py, compiled, with a bucket view, gradients of fp32 and, where it compiles, a static
graph. A request has `ranks` besides a net's own (peer.py); the answer has alone_ms and together_ms. The ranks are
processes that this one starts with the first request and keeps; the first rank's times count.
"""
import os, queue, socket
from peer import DECAY, MOMENTUM, RATE, serve
import torch
from torch import nn
import torch.distributed as dist
import torch.multiprocessing as processes
import torch_nets
from torch_nets import CUDA, build, laid_out, time_in_turn


def train(request, rank, wrap):
    torch.manual_seed(0)
    torch._dynamo.reset()
    precision = request["precision"]
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    device = torch_nets.DEVICE
    images = torch.rand(request["batch"], *request["sample"], device=device).contiguous(
        memory_format=torch.channels_last)
    labels = torch.randint(0, request["classes"], (request["batch"],), device=device)
    model = wrap(laid_out(build(request), torch.channels_last))
    forward = torch.compile(model) if CUDA else model
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
    losses = []

    def step():
        sgd.zero_grad(set_to_none=True)
        with torch.autocast(device.split(":")[0], dtype=dtype, enabled=dtype != torch.float32, cache_enabled=False):
            loss = nn.functional.cross_entropy(forward(images).float(), labels)
        loss.backward()
        sgd.step()
        losses[:] = [loss]

    # As many warm runs on each rank: each waits for the others.
    figures = time_in_turn([step], request["runs"], warm_seconds=0)[0]
    if not torch.isfinite(losses[0]).item():
        raise RuntimeError(f"the loss is {losses[0].item()}")
    del model, forward, sgd, losses
    if CUDA:
        torch.cuda.empty_cache()
    return figures


def in_parallel(model, rank, is_static):
    return nn.parallel.DistributedDataParallel(model, device_ids=[rank] if CUDA else None,
                                               gradient_as_bucket_view=True, static_graph=is_static)


def next_of(requests):
    """None where the process that asks is gone, or asks no more."""
    while os.getppid() != 1:
        try:
            return requests.get(timeout=1)
        except queue.Empty:
            pass


def work(rank, ranks, port, requests, answers):
    if CUDA:
        torch.cuda.set_device(rank)
        torch_nets.DEVICE = f"cuda:{rank}"
    dist.init_process_group("nccl" if CUDA else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks)
    while (request := next_of(requests[rank])) is not None:
        try:
            alone = train(request, rank, lambda model: model)
            try:
                together, is_static = train(request, rank, lambda model: in_parallel(model, rank, True)), True
            except Exception:  # a compiler that cannot cut such a graph at its buckets; all ranks find the same
                together, is_static = train(request, rank, lambda model: in_parallel(model, rank, False)), False
            answer = dict(alone_ms=alone, together_ms=together, static_graph=is_static)
        except Exception as error:
            answer = dict(error=f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
        if rank == 0 or "error" in answer:
            answers.put(answer)


class Ranks:
    def __init__(self):
        self.requests, self.answers, self.context = [], None, None

    def start(self, ranks):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = processes.get_context("spawn")
        self.requests, self.answers = [context.Queue() for _ in range(ranks)], context.Queue()
        self.context = processes.spawn(work, (ranks, port, self.requests, self.answers), ranks, join=False)

    def ask(self, request):
        if len(self.requests) != request["ranks"]:
            self.start(request["ranks"])
        for each in self.requests:
            each.put(request)
        answer = None
        while answer is None:
            try:
                answer = self.answers.get(timeout=1)
            except queue.Empty:
                if self.context.join(timeout=0):
                    answer = dict(error="the ranks have ended")
        if "error" in answer:  # the others may wait for the one that failed
            self.end()
        return answer

    def end(self):
        for process in self.context.processes if self.context else []:
            process.kill()
        self.requests = []


def engines():
    return {precision: ["ddp"] for precision in ["fp16", "bf16", "tf32", "fp32"]}


if __name__ == "__main__":
    devices = torch.cuda.device_count() if CUDA else 0
    ranks = Ranks()
    serve(f"PyTorch {torch.__version__}, {devices} GPUs", engines(), ranks.ask)
    ranks.end()
