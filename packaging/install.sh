#!/bin/sh
# Installs a released Rehearse below ~/.local, or below $REHEARSE_PREFIX, after checking its SHA-256.
#   REHEARSE_VERSION   the version [default: @VERSION@, the release of this script]
#   REHEARSE_PREFIX    directory of bin/ and share/ [default: ~/.local]
#   REHEARSE_RELEASES  URL of the releases, for a mirror
set -eu

main() {
    releases=${REHEARSE_RELEASES:-https://github.com/@REPOSITORY@/releases}
    prefix=${REHEARSE_PREFIX:-$HOME/.local}
    version=${REHEARSE_VERSION:-@VERSION@}

    [ "$(uname -s)" = Linux ] || fail "there are releases for Linux only; on $(uname -s), build it with Rust: cargo install --git"
    case $(uname -m) in
        x86_64 | amd64) architecture=x86_64 ;;
        aarch64 | arm64) architecture=aarch64 ;;
        *) fail "there is no release for $(uname -m); build it with Rust: cargo install --git" ;;
    esac
    name=rehearse-$version-$architecture-unknown-linux-musl

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    fetch "$releases/download/v$version/$name.tar.gz" "$work/$name.tar.gz"
    fetch "$releases/download/v$version/SHA256SUMS" "$work/SHA256SUMS"
    (cd "$work" && grep " $name.tar.gz\$" SHA256SUMS >this.sum && sha256sum --check --quiet this.sum) ||
        fail "the checksum of $name.tar.gz is not the published one; nothing was installed"
    tar -xzf "$work/$name.tar.gz" -C "$work"
    mkdir -p "$prefix/bin" "$prefix/share"
    cp -R "$work/$name/share/." "$prefix/share/"
    # The program comes last and at once: an interrupted installation leaves the old one.
    cp "$work/$name/bin/rehearse" "$prefix/bin/.rehearse.new"
    mv -f "$prefix/bin/.rehearse.new" "$prefix/bin/rehearse"

    echo "installed $("$prefix/bin/rehearse" -V) in $prefix/bin"
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) echo "$prefix/bin is not on your PATH: add it, or call $prefix/bin/rehearse" ;;
    esac
    echo "next: rehearse doctor"
}

fail() {
    echo "rehearse: $1" >&2
    exit 1
}

fetch() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --retry 3 --output "$2" "$1" || fail "cannot fetch $1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$1" || fail "cannot fetch $1"
    else
        fail "neither curl nor wget is installed"
    fi
}

# Called in the last line: a script that was cut off while it was fetched does nothing.
main
