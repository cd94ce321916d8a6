//! Tells the linker to compress the relative relocations of the program's tables. Uncompressed, 100,000 of them take 2.4 MB
//! of the file, and of the memory of each process, which reads them once.
//!
//! The C library must support the compressed form: glibc 2.36 or newer, on the machine that builds the program and on the
//! machines that run it. A statically linked program does not need this support.

use std::{env, process::Command};

const KNOWS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    let is_glibc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|found| found == "gnu");
    if is_native && is_glibc && glibc().is_some_and(|version| version >= KNOWS_PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the major and minor version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let answer = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
