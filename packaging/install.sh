#!/bin/sh
# Installs Marquetry @VERSION@ into ~/.local/bin: downloads the archive for this machine, and checks its hash.
#
#   sh install.sh
#   MARQUETRY_INSTALL_DIR=/usr/local/bin sh install.sh
#   MARQUETRY_DOWNLOAD_BASE=http://127.0.0.1:8000 sh install.sh     archives from another server
#
# packaging/release writes the hashes into this script; they are the same for each server.
set -eu

version=@VERSION@
# Target, SHA-256, and the version of glibc that the program needs.
archives='@ARCHIVES@'

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

download() {
    if has curl; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif has wget; then
        wget --quiet --output-document="$2" "$1"
    else
        fail "curl or wget is needed to download $1"
    fi
}

hash_of() {
    if has sha256sum; then
        sha256sum "$1" | cut -d' ' -f1
    elif has shasum; then
        shasum -a 256 "$1" | cut -d' ' -f1
    else
        fail "sha256sum or shasum is needed to check the archive"
    fi
}

# Prints field $2 of the line of target $1.
field() {
    echo "$archives" | while read -r target hash glibc; do
        if [ "$target" = "$1" ]; then
            case $2 in hash) echo "$hash" ;; glibc) echo "$glibc" ;; esac
        fi
    done
}

# Succeeds if version $1 is at least version $2; both are MAJOR.MINOR.
at_least() {
    [ "${1%%.*}" -gt "${2%%.*}" ] || { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${1#*.}" -ge "${2#*.}" ]; }
}

find_target() {
    machine=$(uname -m)
    case $machine in
    x86_64 | amd64) cpu=x86_64 ;;
    aarch64 | arm64) cpu=aarch64 ;;
    *) fail "no package exists for the processor $machine; packages are for x86-64 and ARM64. Build from source" ;;
    esac
    if [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" != 64 ]; then
        fail "this is a 32-bit system on a 64-bit processor; packages are for 64 bits. Build from source"
    fi
    system=$(uname -s)
    case $system in
    Darwin) target=$cpu-apple-darwin ;;
    Linux) find_linux_target ;;
    *) fail "no package exists for $system; this script is for Linux and macOS" ;;
    esac
    if [ -z "$(field "$target" hash)" ]; then
        fail "this script has no package for $target; it has: $(echo "$archives" | cut -d' ' -f1 | tr '\n' ' ')"
    fi
}

find_linux_target() {
    target=$cpu-unknown-linux-gnu
    needed=$(field "$target" glibc)
    # glibc alone answers this query.
    found=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2) || found=
    if [ -n "$needed" ] && [ -n "$found" ] && at_least "$found" "$needed"; then
        return
    fi
    # The program for musl is static, and runs on each Linux.
    if [ -n "$(field "$cpu-unknown-linux-musl" hash)" ]; then
        target=$cpu-unknown-linux-musl
    elif [ -z "$found" ]; then
        fail "this system has no glibc (Alpine has musl), and this script has no static package. Build from source"
    elif [ -n "$needed" ]; then
        fail "this system has glibc $found, and the package needs $needed or newer. Build from source"
    fi
}

main() {
    find_target
    name=marquetry-$version-$target
    base=${MARQUETRY_DOWNLOAD_BASE:-@BASE@}
    folder=${MARQUETRY_INSTALL_DIR:-$HOME/.local/bin}
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    download "$base/$name.tar.gz" "$work/archive" || fail "failed to download $base/$name.tar.gz"
    found=$(hash_of "$work/archive")
    if [ "$found" != "$(field "$target" hash)" ]; then
        fail "$base/$name.tar.gz has the SHA-256 $found, not $(field "$target" hash); nothing is installed"
    fi
    tar -xzf "$work/archive" -C "$work"
    "$work/$name/marquetry" --version >/dev/null || fail "the program does not start here; nothing is installed"

    mkdir -p "$folder"
    # In one step: a running program keeps its file.
    cp "$work/$name/marquetry" "$folder/.marquetry.$$"
    chmod 755 "$folder/.marquetry.$$"
    mv -f "$folder/.marquetry.$$" "$folder/marquetry"
    echo "installed $folder/marquetry ($version)"
    case ":$PATH:" in
    *":$folder:"*) ;;
    *) echo "$folder is not in PATH. Add it: export PATH=\"$folder:\$PATH\"" ;;
    esac
}

# At the end, so that a script of which only a part arrived does nothing.
main
