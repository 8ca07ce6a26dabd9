#!/usr/bin/env bash
# Builds forebay as one static file, which runs on any Linux of its architecture: old distributions, containers
# without a system, nodes without internet.
#
#   packaging/static.sh                 for this machine's architecture
#   packaging/static.sh aarch64         for ARM servers, also from an x86-64 machine
#   packaging/static.sh x86_64
#
# Needs Rust with rustup, which brings the C library (musl) and the linker. Prints where the file is. Further arguments
# go to `cargo build`. A static program cannot open CUDA's libraries: `calibrate` and `live` on GPUs need the
# dynamic build; and it has no Parquet, whose compression is compiled by a C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

architecture=${1:-$(uname -m)}
case $architecture in
    x86_64 | aarch64) ;;
    *)
        echo "static.sh: $architecture is neither x86_64 nor aarch64" >&2
        exit 2
        ;;
esac
target=$architecture-unknown-linux-musl

# Without rustup, cargo itself says what is missing.
if command -v rustup >/dev/null; then
    rustup target add "$target"
fi
# Rust's own linker knows every architecture; the system's usually knows one.
export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER=rust-lld"
cargo build --release --locked --no-default-features --bin forebay --target "$target" "${@:2}"
echo "${CARGO_TARGET_DIR:-target}/$target/release/forebay"
