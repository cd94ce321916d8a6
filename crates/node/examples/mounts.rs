//! For the tests of this crate: the role in which a container gets its mounts.

use std::process::ExitCode;

fn main() -> ExitCode {
    longboat_node::mounts::run(std::env::args_os().skip(1))
}
