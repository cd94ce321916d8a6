//! The threads of the role.

use tokio::runtime::{Builder, Runtime};

use crate::Args;

/// Deserializing a pod recurses deeply, and debug builds have large stack frames. Unused stack pages need no memory.
const STACK: usize = 8 << 20;

/// Creates the runtime for [`crate::run`]. One thread handles far more tokens than an engine generates, and needs no
/// communication with other threads for each piece of a stream. With several engines beside the sidecar, there is up to one
/// thread for each.
///
/// # Errors
/// If the system cannot create a thread or an event queue.
pub fn runtime(args: &Args) -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match usize::from(args.data_parallel_size).min(cores) {
        0 | 1 => Builder::new_current_thread().enable_all().build(),
        threads => {
            Builder::new_multi_thread().worker_threads(threads).thread_stack_size(STACK).enable_all().build()
        }
    }
}
