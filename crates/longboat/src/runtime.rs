//! The threads of this process.

use tokio::runtime::Runtime;

/// The stack size of threads. Reading a pod template nests deeply, and debug builds have large frames. Untouched pages cost
/// nothing.
pub(crate) const STACK: usize = 8 << 20;

/// Creates the runtime of verbs, and of roles without one of their own.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build()?)
}
