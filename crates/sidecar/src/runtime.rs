//! The threads of the role.

use tokio::runtime::{Builder, Runtime};

use crate::Args;

/// Reading a pod nests deeply, and debug builds have large frames. Pages that are not touched cost nothing.
const STACK: usize = 8 << 20;

/// The runtime that [`crate::run`] is for: one thread, which moves far more tokens than an engine makes, and which need not
/// wake another one for every piece of a stream; with several engines beside the sidecar, up to one for each.
///
/// # Errors
/// When the system gives no thread or no event queue.
pub fn runtime(args: &Args) -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match usize::from(args.data_parallel_size).min(cores) {
        0 | 1 => Builder::new_current_thread().enable_all().build(),
        threads => {
            Builder::new_multi_thread().worker_threads(threads).thread_stack_size(STACK).enable_all().build()
        }
    }
}
