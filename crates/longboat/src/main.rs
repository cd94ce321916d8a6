//! The `longboat` binary: one executable for every verb and every role.
//!
//! Verbs are for people (`up`, `validate`, `crds`), roles for machines (`epp`, `sim`, …). A role also runs when the executable is
//! started under the name of the program that it replaces (`vllm`, `storage-initializer`, …); as `kubectl-longboat` it is a
//! plugin of kubectl's. Data goes to stdout,
//! everything else to stderr; exit codes: 0 fine, 1 wrong input or a broken service, 2 usage.

mod called;
mod cli;
mod command;
mod dashboard;
mod engine_program;
mod installer;
mod printer;
mod role;
mod tree;
mod up;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    longboat_tls::install_default_provider();
    let arguments: Vec<_> = std::env::args_os().collect();
    if command::completion::is_asked_by_kubectl(&arguments) {
        return command::completion::for_kubectl(arguments);
    }
    match cli::parse(arguments) {
        Ok(invocation) => command::run(invocation),
        Err(error) => error.exit(),
    }
}
