#!/usr/bin/env bash
# Tries a wheel in a clean root: clean_root.sh WHEEL ROOT, as root. ROOT is a folder with Debian 12, python3 and
# python3-numpy alone, which debootstrap fills if it is missing. Checks the wheel's size, that importing is fast, a
# calculation, the errors of a missing GPU, checkpoints, and that no library of the wheel has the name of another's.
set -euo pipefail
wheel=$(realpath "$1") root=$(realpath -m "$2")
wrong=0
at_most() { # WHAT FOUND LIMIT
  echo "clean root: $1: $2, at most $3"
  (($2 <= $3)) || { echo "clean root: $1 is $2, expected at most $3" >&2; wrong=1; }
}
[[ -d $root/usr ]] ||
  debootstrap --variant=minbase --include=python3,python3-numpy bookworm "$root" http://deb.debian.org/debian >/dev/null
at_most "bytes of the wheel" "$(stat -c %s "$wheel")" 25000000
rm -rf "$root/site"
mkdir "$root/site"
python3 -m zipfile -e "$wheel" "$root/site"
if ls "$root"/usr/bin/*gcc* "$root"/usr/lib/x86_64-linux-gnu/libhdf5* 2>/dev/null; then
  echo "clean root: it has a compiler or HDF5" >&2
  exit 1
fi
for library in "$root"/site/nixie/lib/*; do
  name=$(basename "$library")
  [[ -s $root/site/nixie/licenses/${name#nixie-}.txt ]] || { echo "clean root: no licence of $name" >&2; wrong=1; }
done
echo "clean root: licences of $(find "$root/site/nixie/licenses" -name '*.txt' | wc -l) libraries"
system='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so.*)$'
others=$(readelf -d "$root"/site/nixie/*.so "$root"/site/nixie/lib/* | sed -n 's/.*(\(NEEDED\|SONAME\)).*\[\(.*\)\]/\2/p' |
  grep -vE "^nixie-lib|$system" || true)
[[ -z $others ]] || { echo "clean root: the wheel names libraries of others:" $others >&2; wrong=1; }
cat >"$root/try.py" <<'END'
import time
import numpy
start = time.perf_counter()
import nixie
print(int(1e3 * (time.perf_counter() - start)))
import ssl  # whose OpenSSL is the system's
a = numpy.arange(12.0).reshape(3, 4)
assert numpy.allclose(nixie.asarray(a).T @ nixie.asarray(a), a.T @ a)
try:
    nixie.ones(3, device="cuda").compute()
except nixie.Error as error:
    assert "CUDA" in str(error) or "cuda" in str(error), error
trainer = nixie.Trainer({"model": {"lenet": {"classes": 10}}, "data": {"glyphs": {"train": 64, "test": 32, "batch": 32}}, "epochs": 1}, run="/run1")
assert trainer.train()
assert nixie.models.load_trained("/run1/last.h5").class_names
END
chroot "$root" rm -rf /run1
chroot "$root" env PYTHONPATH=/site python3 /try.py >/dev/null # reads the files
at_most "ms of importing" "$(chroot "$root" env PYTHONPATH=/site bash -c 'rm -rf /run1; python3 /try.py')" 200
((wrong == 0)) && echo "clean root: $(basename "$wheel") works"
exit "$wrong"
