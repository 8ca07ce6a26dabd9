#!/usr/bin/env bash
# Installs a built forebay with manual pages, completions and a modulefile, without root if the folder is yours.
#
#   cargo build --release --locked && packaging/install.sh ~/.local
#   packaging/install.sh /opt/forebay/0.2.0 target/x86_64-unknown-linux-musl/release/forebay
#
# The second argument is the program, target/release/forebay if not given. It must run on this machine, for it
# writes the pages and completions itself.
set -euo pipefail

if test $# -lt 1 || test $# -gt 2; then
    echo "usage: install.sh FOLDER [PROGRAM]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
program=${2:-${CARGO_TARGET_DIR:-$here/../target}/release/forebay}
if test ! -x "$program"; then
    echo "install.sh: there is no program $program: build it with \`cargo build --release --locked\`" >&2
    exit 2
fi

# Others are to read what is installed, whatever this shell's umask.
umask 022

# Everything is made with the program where it was built: one that cannot run here replaces nothing.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
if ! version=$("$program" --version) || ! "$program" man "$made/man1" ||
    ! "$program" completions bash >"$made/bash" ||
    ! "$program" completions zsh >"$made/zsh" ||
    ! "$program" completions fish >"$made/fish"; then
    echo "install.sh: $program does not run on this machine, so nothing was installed" >&2
    exit 3
fi

share=$prefix/share
put() { install -D -m 644 "$1" "$2"; }
for page in "$made"/man1/*; do
    put "$page" "$share/man/man1/${page##*/}"
done
put "$made/bash" "$share/bash-completion/completions/forebay"
put "$made/zsh" "$share/zsh/site-functions/_forebay"
put "$made/fish" "$share/fish/vendor_completions.d/forebay.fish"
put "$here/modulefile" "$share/modulefiles/forebay/${version#forebay }"
# The program comes last, under its name at once: a running one keeps its file.
install -D -m 755 "$program" "$prefix/bin/.forebay.new"
mv -f "$prefix/bin/.forebay.new" "$prefix/bin/forebay"
