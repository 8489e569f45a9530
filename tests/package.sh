#!/usr/bin/env bash
# Checks the .deb that ./dev package made: package.sh FILE.deb. It is unpacked, not installed.
set -euo pipefail
deb=$(realpath "$1")
source=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
dpkg-deb -x "$deb" "$folder"
cd "$folder/usr"
export LD_LIBRARY_PATH=$PWD/lib
wrong=0
expect() { # WHAT FOUND WANTED
  [[ "$2" == "$3" ]] || { printf 'package: %s: found\n%s\nexpected\n%s\n' "$1" "$2" "$3" >&2; wrong=1; }
}
at_most() { # WHAT FOUND LIMIT
  (($2 > 0 && $2 <= $3)) || { echo "package: $1 is $2, expected 1 to $3" >&2; wrong=1; }
}
field() { dpkg-deb -f "$deb" "$1"; }
version=$(sed -nE 's/^project\(nixie VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")

expect name "$(field Package) $(field Version) $(field Architecture)" "nixie $version amd64"
expect file "$(basename "$deb")" "nixie_${version}_amd64.deb"
expect owners "$(dpkg-deb -c "$deb" | awk '{print $2}' | sort -u)" root/root
expect programs "$(ls bin)" $'benchmark\nexplain\ntrainer'
for program in $(ls bin); do
  at_most "lines of $program --help" "$(bin/"$program" --help | wc -l)" 100
done
expect "trainer --version" "$(bin/trainer --version | grep -om1 "$version")" "$version"
expect libraries "$(find lib -name 'libnixie.so*' -type f | sort)" \
  "lib/glibc-hwcaps/x86-64-v4/libnixie.so.$version
lib/libnixie.so.$version"
for library in $(find lib -name 'libnixie.so*' -type f); do
  isa=$([[ $library == */x86-64-v4/* ]] && echo v4 || echo v3)
  expect "instructions of $library" "$(readelf -nW "$library" | grep -o 'x86-64-v[0-9]' | sort -u | tail -1)" "x86-64-$isa"
  expect "symbols of $library" "$(readelf -SW "$library" | grep -c '\.symtab')" 0
  at_most "$library in bytes" "$(stat -c %s "$library")" 14000000
done
expect configurations "$(cd share/nixie/configs && find . -name '*.yaml' | sort)" \
  "$(cd "$source/configs" && find . -name '*.yaml' | sort)"
commands=$(bin/trainer --help | sed -n '/^Commands/,$p' | sed -nE 's/^  ([a-z-]+)  +.*/trainer-\1.1/p')
at_most "number of commands" "$(wc -w <<<"$commands")" 40
expect "man pages" "$(ls share/man/man1)" "$(printf '%s\n' benchmark.1 explain.1 trainer.1 $commands | sort)"
for page in share/man/man1/*; do
  at_most "lines of $page" "$(wc -l <"$page")" 2000
done
expect headers "$(sed -n 's/^#include "\(.*\)"$/\1/p' include/nixie/nixie.h | while read -r header; do
  [[ -f include/$header ]] || echo "no $header"
done)" ""
mapfile -t md5sums < <(dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums)
expect "files with checksums" "${#md5sums[@]}" "$(find . -type f | wc -l)"
(cd .. && printf '%s\n' "${md5sums[@]}" | md5sum --quiet -c -) || wrong=1
# Blocks of a file are rounded up, so the sum of bytes is less than Installed-Size, but not by much.
installed=$(field Installed-Size)
bytes=$(find . -type f -printf '%s\n' | awk '{sum += $1} END {print int(sum / 1024)}')
at_most "Installed-Size in KiB" "$installed" 32000
at_most "Installed-Size beyond its files in KiB" $((installed - bytes)) 400
at_most "the package in bytes" "$(stat -c %s "$deb")" 12000000
((wrong == 0)) && echo "package: $(basename "$deb"): $installed KiB installed, $(stat -c %s "$deb") bytes"
exit "$wrong"
