//! The functions that expressions may call.

use kube_cel::{KubeCelExt, cel::Context};

use super::{budget, functions};

thread_local! {
    /// Functions of the standard library and the Kubernetes libraries. It is thread-local, because a context is not `Sync`.
    pub(super) static LIBRARY: Context<'static> = library();
}

fn library() -> Context<'static> {
    let mut library = Context::default().with_all();
    functions::register(&mut library);
    budget::register(&mut library);
    library
}
