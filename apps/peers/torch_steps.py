#!/usr/bin/env python3
"""The training steps of `benchmark steps` in PyTorch on the CPU, and both sides one after the other (--pair)."""
import argparse, json, os, platform, statistics, subprocess, sys, time

NETS = {"mlp": ((1, 28, 28), 10, 128), "lenet": ((1, 28, 28), 10, 64),
        "cifar_bn": ((3, 32, 32), 10, 64), "alexnet": ((3, 224, 224), 1000, 16)}
WARMUP = 3


def peak_mb():
    """Of this process; not getrusage, whose maximum a program inherits from its starter."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("VmHWM:"))


def build(name):
    from torch import nn
    def conv(i, o, k, s=1, p=0, norm=False):
        return [nn.Conv2d(i, o, k, s, p), *([nn.BatchNorm2d(o)] if norm else []), nn.ReLU()]
    def linear(sizes):
        layers = [nn.Flatten()]
        for i, o in zip(sizes, sizes[1:]):
            layers += [nn.Linear(i, o), nn.ReLU()]
        return layers[:-1]
    if name == "mlp":
        return nn.Sequential(*linear([784, 512, 256, 10]))
    if name == "lenet":
        return nn.Sequential(*conv(1, 32, 5, p=2), nn.MaxPool2d(2), *conv(32, 64, 5, p=2), nn.MaxPool2d(2),
                             *linear([64 * 49, 512, 10]))
    if name == "cifar_bn":
        return nn.Sequential(*conv(3, 32, 3, p=1, norm=True), *conv(32, 32, 3, p=1, norm=True), nn.MaxPool2d(2),
                             *conv(32, 64, 3, p=1, norm=True), nn.MaxPool2d(2), *linear([64 * 64, 10]))
    return nn.Sequential(*conv(3, 64, 11, 4, 2), nn.MaxPool2d(3, 2), *conv(64, 192, 5, p=2), nn.MaxPool2d(3, 2),
                         *conv(192, 384, 3, p=1), *conv(384, 256, 3, p=1), *conv(256, 256, 3, p=1), nn.MaxPool2d(3, 2),
                         *linear([9216, 4096, 4096, 1000]))


def time_net(name, options):
    """One row, in the columns of `benchmark steps --json`. Needs a fresh process for its peak memory to mean anything."""
    import torch
    torch.set_num_threads(options.threads)
    start_mb = peak_mb()
    torch.manual_seed(1)
    sample, classes, batch = NETS[name]
    batch = options.batch or batch
    net, images, labels = build(name), torch.rand(batch, *sample), torch.randint(0, classes, (batch,))
    if options.tuned:
        net, images = net.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=options.tuned or None)

    def timed_step():
        start = time.perf_counter()
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        sgd.step()
        return (time.perf_counter() - start) * 1e3, loss.item()

    first_loss = timed_step()[1]
    for _ in range(WARMUP):
        warm_ms = timed_step()[0]
    runs = options.runs or min(max(int(2000 / warm_ms), 20), 200)
    times, losses = zip(*(timed_step() for _ in range(runs)))
    if not min(losses) < first_loss:
        sys.exit(f"{name}: the loss never fell below its first value, {first_loss}")
    median = statistics.median(times)
    return dict(net=name, batch=batch, parameters=sum(p.numel() for p in net.parameters()), runs=runs, median_ms=median,
                min_ms=min(times), max_ms=max(times), images_per_second=batch / median * 1e3, peak_mb=peak_mb(),
                start_mb=start_mb, first_loss=first_loss, lowest_loss=min(losses))


def print_row(row):
    print("{net:<10} {batch:>5} {parameters:>11} {runs:>5} {median_ms:>10.3f} {min_ms:>9.3f} {max_ms:>9.3f} "
          "{images_per_second:>9.0f} {peak_mb:>8.0f} {start_mb:>9.0f}   {first_loss:.3f} -> {lowest_loss:.3f}".format(**row),
          flush=True)


def print_header():
    import torch
    print(f"{platform.platform()}, PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}\n"
          f"{'net':<10} {'batch':>5} {'parameters':>11} {'runs':>5} {'median ms':>10} {'min ms':>9} {'max ms':>9} "
          f"{'images/s':>9} {'peak MB':>8} {'start MB':>9}   loss", flush=True)


def run_row(command):
    """The row that a program prints as JSON to the file named last in its command."""
    path = command[-1]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(path) as file:
        row = json.load(file)["rows"][0]
    os.unlink(path)
    return row


def common_arguments(options):
    arguments = ["--threads", str(options.threads)]
    for name in ("batch", "runs"):
        if getattr(options, name):
            arguments += [f"--{name}", str(getattr(options, name))]
    return arguments


def pair(options):
    """Each net on both sides in turn, `rounds` times; the smallest median of each side counts, as the least disturbed."""
    from tempfile import mkdtemp
    path = os.path.join(mkdtemp(), "row.json")
    print_header()
    ratios = []
    for name in options.net:
        nixie = [options.pair, "steps", "--backend", "cpu", "--net", name, *common_arguments(options), "--overwrite",
                 "--json", path]
        torch = [sys.executable, __file__, "--net", name, *(["--tuned"] if options.tuned else []),
                 *common_arguments(options), "--json", path]
        rounds = [(run_row(nixie), run_row(torch)) for _ in range(options.rounds)]
        ours, theirs = (min(side, key=lambda row: row["median_ms"]) for side in zip(*rounds))
        print_row(ours)
        print_row(theirs)
        ratios.append(dict(net=name, nixie=ours, torch=theirs, time_ratio=ours["median_ms"] / theirs["median_ms"],
                           peak_ratio=ours["peak_mb"] / theirs["peak_mb"]))
    os.rmdir(os.path.dirname(path))
    print(f"\n{'net':<10} {'nixie ms':>9} {'torch ms':>9} {'speed of nixie':>15} {'nixie MB':>9} {'torch MB':>9}")
    for row in ratios:
        print(f"{row['net']:<10} {row['nixie']['median_ms']:>9.3f} {row['torch']['median_ms']:>9.3f} "
              f"{1 / row['time_ratio']:>14.2f}x {row['nixie']['peak_mb']:>9.0f} {row['torch']['peak_mb']:>9.0f}")
    return ratios


def run_apart(options):
    """Each net in a process of its own."""
    from tempfile import mkdtemp
    path = os.path.join(mkdtemp(), "row.json")
    print_header()
    rows = []
    for name in options.net:
        tuned = ["--tuned"] if options.tuned else []
        rows.append(run_row([sys.executable, __file__, "--net", name, *tuned, *common_arguments(options), "--json", path]))
        print_row(rows[-1])
    os.rmdir(os.path.dirname(path))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", type=lambda text: text.split(","), default=list(NETS), help="separated by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int)
    parser.add_argument("--runs", type=int, help="timed steps; by default as many as fill two seconds, 20 to 200")
    parser.add_argument("--tuned", action="store_true", help="channels_last and fused SGD, where PyTorch gains from them")
    parser.add_argument("--pair", metavar="BENCHMARK", help="nixie's program: run both sides in turn")
    parser.add_argument("--rounds", type=int, default=2, help="of --pair")
    parser.add_argument("--json", help="a file to write to as well")
    options = parser.parse_args()
    unknown = set(options.net) - set(NETS)
    if unknown:
        parser.error(f"--net: {', '.join(unknown)} is unknown, expected {', '.join(NETS)}")
    if options.pair:
        rows = pair(options)
    elif len(options.net) > 1:
        rows = run_apart(options)
    else:
        print_header()
        rows = [time_net(options.net[0], options)]
        print_row(rows[0])
    if options.json:
        import torch
        with open(options.json, "w") as file:
            json.dump(dict(command="steps", program=f"PyTorch {torch.__version__}", threads=options.threads,
                           date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), rows=rows), file, indent=2)


if __name__ == "__main__":
    main()
