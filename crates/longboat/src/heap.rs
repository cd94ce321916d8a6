//! What a process does with memory that it has freed.

use std::{env, os::unix::process::CommandExt, process::Command};

/// How many milliseconds the allocator keeps freed memory. It looks at the clock only when it is called, so a thread that is idle
/// keeps what it has freed for good: 30 of the 170 MB of `longboat up`, whose start reads and writes large definitions.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Makes the allocator give freed memory back at once, unless the environment says otherwise. The allocator reads its options
/// before `main`, so the program starts itself again, in the same process. It must not have threads yet.
pub(crate) fn give_back_freed_memory() {
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // This only returns if it fails. Then everything works as well, with more memory.
    drop(command.args(arguments).env(PURGE_DELAY, "0").exec());
}
