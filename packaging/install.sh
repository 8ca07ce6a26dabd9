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

share=$prefix/share
mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
install -D -m 755 "$program" "$prefix/bin/forebay"
forebay=$prefix/bin/forebay
"$forebay" man "$share/man/man1"
"$forebay" completions bash >"$share/bash-completion/completions/forebay"
"$forebay" completions zsh >"$share/zsh/site-functions/_forebay"
"$forebay" completions fish >"$share/fish/vendor_completions.d/forebay.fish"
version=$("$forebay" --version)
install -D -m 644 "$here/modulefile" "$share/modulefiles/forebay/${version#forebay }"
