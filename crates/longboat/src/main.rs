//! The `longboat` binary: one executable for every verb and every role.
//!
//! Verbs are for people (`up`, `validate`, `crds`), roles for machines (`epp`, `sim`, …). A role also runs if the executable
//! is started under the name of the program that it replaces (`vllm`, `storage-initializer`, …). Started as
//! `kubectl-longboat`, it is a plugin of kubectl. Data goes to stdout, everything else to stderr. Exit codes: 0 for success,
//! 1 for wrong input or a broken service, 2 for wrong usage.

mod cli;
mod command;
mod dashboard;
mod engine_program;
mod heap;
mod installer;
mod model;
mod printer;
mod program_name;
mod role;
mod runtime;
mod tree;
mod up;

use std::process::ExitCode;

use longboat_node::mounts;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Before anything that starts a thread: a process with threads cannot create a user namespace.
    if arguments.get(1).is_some_and(|argument| argument == mounts::ROLE) {
        return mounts::run(arguments.into_iter().skip(2));
    }
    longboat_tls::install_default_provider();
    if command::completion::is_asked_by_kubectl(&arguments) {
        return command::completion::for_kubectl(arguments);
    }
    match cli::parse(arguments) {
        Ok(invocation) => command::run(invocation),
        Err(error) => command::usage(&error),
    }
}
