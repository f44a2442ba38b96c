#!/usr/bin/env bash
# Builds a release archive: the program, completions, man pages, licence, example settings, and a systemd unit.
#
#   packaging/release.sh                                for this machine
#   packaging/release.sh aarch64-unknown-linux-gnu      for another target; needs `rustup target add` and a C cross-compiler
#   packaging/release.sh --program PATH                 packs a program that is built already, for this machine
#
# It writes target/release-archives/marquetry-VERSION-TARGET.tar.gz and its SHA-256 beside it. Completions and man pages
# are printed by the program itself, so for another target it is built for this machine, too.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
target=$host
program=
case ${1:-} in
--program)
  program=${2:?usage: packaging/release.sh --program PATH}
  ;;
-*)
  echo "usage: packaging/release.sh [TARGET | --program PATH]" >&2
  exit 2
  ;;
?*)
  target=$1
  ;;
esac

if [[ -z $program ]]; then
  cargo build --profile dist --locked --package marquetry --target "$target"
  program=target/$target/dist/marquetry
fi
printer=$program
if [[ $target != "$host" ]]; then
  cargo build --profile dist --locked --package marquetry --target "$host"
  printer=target/$host/dist/marquetry
fi

version=$("$printer" --version | cut -d' ' -f2)
name=marquetry-$version-$target
archives=target/release-archives
folder=$archives/$name
rm -rf "$folder"
mkdir -p "$folder/completions"

cp "$program" "$folder/marquetry"
cp LICENSE CHANGELOG.md README.md marquetry.example.toml packaging/marquetry.service "$folder"
"$printer" completions bash >"$folder/completions/marquetry.bash"
"$printer" completions fish >"$folder/completions/marquetry.fish"
"$printer" completions zsh >"$folder/completions/_marquetry"
"$printer" completions powershell >"$folder/completions/_marquetry.ps1"
"$printer" man "$folder/man"

# The same bytes from the same commit: fixed order, owner and time.
time=$(git log -1 --format=%ct)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -C "$archives" -cf - "$name" | gzip -9n >"$folder.tar.gz"
(cd "$archives" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$folder.tar.gz"
