"""Shared by the peers: the figures of a timing, and answering requests line by line.

A program started with --serve answers JSON lines: first `{"program": ..., "engines": {precision: [...]}}`, then one
object for each request. A request for a net is

  {"net": name, "kind": "resnet18", "layers": [...], "parameters": ..., "sample": [C, H, W], "classes": ...,
   "precision": ..., "batch": ..., "runs": ..., "engine": ...}

where `layers` is the net as a configuration lists it, with every field of every layer, kind is its name among nixie's
models and `parameters` how many numbers it trains. The answer has fprop_ms, total_ms and train_ms (each mean, median,
min, max, runs) and peak_mb, or it is {"error": ...}. So `benchmark compare` runs both sides in turn. A request
{"prepare": [requests]} comes first: what can be compiled ahead is, and the answer is {}.
What the peers compile is kept, so that a second run starts sooner.
"""
import json, os, statistics, sys

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nixie-peers")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(CACHE, "inductor"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(CACHE, "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
RATE, MOMENTUM, DECAY = 1e-3, 0.9, 5e-4  # of the training step


def layer_of(item):
    """`{kind: {field: value}}` or `{kind: [layers]}`, perhaps with a name beside: the kind, and the fields or layers."""
    return next((kind, content) for kind, content in item.items() if kind != "name")


def per_axis(value, axes):
    """One number for all axes, or one for each."""
    if isinstance(value, list) and len(value) == axes:
        return tuple(value)
    return (value[0] if isinstance(value, list) else value,) * axes


def not_expressed(kind):
    return NotImplementedError(f"there is no {kind} here")


def check_parameters(found, request):
    """Else another net would be timed."""
    if found != request["parameters"]:
        raise ValueError(f"{request['net']} has {found} parameters here and {request['parameters']} there")


def summary(times):
    return dict(mean=statistics.mean(times), median=statistics.median(times), min=min(times), max=max(times),
                runs=len(times))


def time_row(time_net, prepare):
    """What answers a request for a net."""
    def time_request(request):
        if "prepare" in request:
            prepare(request["prepare"])
            return {}
        return time_net(request)
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
