"""What the peers' programs share: the nets as data, the figures of a timing, and answering requests line by line.

With --serve a program answers JSON lines: first `{"program": ..., "engines": {precision: [...]}}`, then for each request
`{"net": ..., "precision": ..., "batch": ..., "runs": ..., "engine": ...}` one object with fprop_ms, total_ms and
train_ms (each mean, median, min, max, runs), or {"error": ...}. So `benchmark compare` runs both sides in turn. A
request {"prepare": [requests]} comes first: what can be compiled ahead is, and the answer is {}.
Without it the program prints a table. What the peers compile is kept, so that a second run starts sooner.
"""
import argparse, json, os, statistics, sys

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nixie-peers")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(CACHE, "inductor"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(CACHE, "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def vgg(*stages):
    layers, channels = [], 64
    for count in stages:
        layers += [("conv", channels, 3, 1, 1)] * count + [("pool", 2, 2, 0)]
        channels = min(2 * channels, 512)
    return layers


# conv: channels, window, stride, pad (with ReLU); pool: window, stride, pad; fc: outputs (with ReLU but for the last);
# inception: channels of 1x1, of 3x3 and 5x5 each after those of a 1x1 before it, of 1x1 after pooling; mean: of images.
HALVE = ("pool", 3, 2, 1)
FC = [("fc", 4096), ("fc", 4096), ("fc", 1000)]
NETS = {
    "alexnet": ((3, 224, 224), [("conv", 64, 11, 4, 2), ("pool", 3, 2, 0), ("conv", 192, 5, 1, 2), ("pool", 3, 2, 0),
                                ("conv", 384, 3, 1, 1), ("conv", 256, 3, 1, 1), ("conv", 256, 3, 1, 1), ("pool", 3, 2, 0), *FC]),
    "overfeat": ((3, 231, 231), [("conv", 96, 11, 4, 0), ("pool", 2, 2, 0), ("conv", 256, 5, 1, 0), ("pool", 2, 2, 0),
                                 ("conv", 512, 3, 1, 1), ("conv", 1024, 3, 1, 1), ("conv", 1024, 3, 1, 1), ("pool", 2, 2, 0),
                                 ("fc", 3072), ("fc", 4096), ("fc", 1000)]),
    "vgg_a": ((3, 224, 224), [*vgg(1, 1, 2, 2, 2), *FC]),
    "vgg_e": ((3, 224, 224), [*vgg(2, 2, 4, 4, 4), *FC]),
    "googlenet": ((3, 224, 224), [("conv", 64, 7, 2, 3), HALVE, ("conv", 64, 1, 1, 0), ("conv", 192, 3, 1, 1), HALVE,
                                  ("inception", 64, 96, 128, 16, 32, 32), ("inception", 128, 128, 192, 32, 96, 64), HALVE,
                                  ("inception", 192, 96, 208, 16, 48, 64), ("inception", 160, 112, 224, 24, 64, 64),
                                  ("inception", 128, 128, 256, 24, 64, 64), ("inception", 112, 144, 288, 32, 64, 64),
                                  ("inception", 256, 160, 320, 32, 128, 128), HALVE,
                                  ("inception", 256, 160, 320, 32, 128, 128),
                                  ("inception", 384, 192, 384, 48, 128, 128), ("mean",), ("fc", 1000)]),
}
BATCHES = {"alexnet": 128, "overfeat": 128, "vgg_a": 64, "vgg_e": 64, "googlenet": 128}
CLASSES = 1000


def branches(one, reduce3, three, reduce5, five, pooled):
    """The convolutions and poolings of an inception block, branch by branch."""
    return [[("conv", one, 1, 1, 0)], [("conv", reduce3, 1, 1, 0), ("conv", three, 3, 1, 1)],
            [("conv", reduce5, 1, 1, 0), ("conv", five, 5, 1, 2)], [("pool", 3, 1, 1), ("conv", pooled, 1, 1, 0)]]


def summary(times):
    return dict(mean=statistics.mean(times), median=statistics.median(times), min=min(times), max=max(times),
                runs=len(times))


def time_row(time_net, prepare):
    """What answers a request for a net."""
    def time_request(request):
        if "prepare" in request:
            prepare([each for each in request["prepare"] if each["net"] in NETS])
            return {}
        if request["net"] not in NETS:
            raise ValueError(f"{request['net']} is not one of {', '.join(NETS)}")
        return time_net(request["net"], request["precision"], request["batch"], request["runs"], request["engine"])
    return time_request


def answer(time_request, request):
    try:
        return time_request(request)
    except Exception as error:  # a peer that cannot run a row says so; the others go on
        return dict(error=f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")


def serve(program, engines, time_request):
    """Answers go to the stdout that the program started with; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(dict(program=program, engines=engines)), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(time_request, json.loads(line))), file=out, flush=True)


def table(options, program, engines, time_request):
    print(program, flush=True)
    rows = [dict(net=net, precision=precision, batch=options.batch or BATCHES[net], runs=options.runs)
            for precision in options.precision for net in options.net]
    answer(time_request, dict(prepare=rows))
    for row in rows:
        for engine in options.engine or engines.get(row["precision"], []):
            found = answer(time_request, dict(row, engine=engine))
            name = f"{row['net']:9s} {row['precision']:5s} {engine:14s}"
            if "error" in found:
                print(name, found["error"], flush=True)
                continue
            median = {piece: found[piece]["median"] for piece in ("fprop_ms", "total_ms", "train_ms")}
            print(f"{name} fprop {median['fprop_ms']:8.3f}  total {median['total_ms']:8.3f} ms "
                  f"({found['total_ms']['min']:.3f} - {found['total_ms']['max']:.3f})  "
                  f"training step {median['train_ms']:8.3f} ms", flush=True)


def main(doc, program, engines, time_net, prepare):
    time_request = time_row(time_net, prepare)
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--serve", action="store_true", help="answer requests on stdin (see peer.py)")
    names = lambda text: text.split(",")
    parser.add_argument("--net", type=names, default=["alexnet", "overfeat", "vgg_a"], help="separated by commas")
    parser.add_argument("--precision", type=names, default=["fp16", "fp32"])
    parser.add_argument("--engine", type=names, help="all by default")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    if options.serve:
        serve(program, engines, time_request)
    else:
        table(options, program, engines, time_request)
