//! Writes of large objects, whose defaults, validation and managed fields take seconds, and lists of large objects: other tasks of
//! the runtime go on meanwhile.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::ready,
};

use http::Method;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};
use tokio_util::sync::PollSemaphore;

use crate::verbs::Call;

/// The bytes, of the body and of the stored objects together, above which a call counts as long.
const MIN_LONG_BYTES: usize = 64 * 1024;
/// How many long writes may compute at the same time, and how many long reads. Each may take some hundred megabytes of memory.
pub(crate) const MAX_COMPUTING: usize = 2;

/// Whether the call reads or writes a large object, or many objects.
pub(crate) fn is_long(call: &Call<'_>) -> bool {
    let (store, table) = (&call.state.store, &call.resource.table);
    if call.path.name.is_none() && call.request.method != Method::POST {
        return store.holds_more(table, call.path.namespace.as_deref(), MIN_LONG_BYTES);
    }
    let stored = store.get(table, &call.key());
    call.request.body.len() + stored.map_or(0, |stored| stored.json_bytes()) > MIN_LONG_BYTES
}

/// Runs the future of a long call. Its worker thread leaves its other tasks to another thread while the future computes. While it
/// waits, as for a webhook, it has neither a thread nor a permit, so that slow webhooks hold up nobody.
pub(crate) async fn run<F: Future>(permits: &Arc<tokio::sync::Semaphore>, future: F) -> F::Output {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return future.await;
    }
    let mut permits = PollSemaphore::new(Arc::clone(permits));
    let mut future = pin!(future);
    poll_fn(|context| {
        // A hook in this process that itself waited for a long write would wait for ever; they only read.
        let _permit = ready!(permits.poll_acquire(context));
        block_in_place(|| future.as_mut().poll(context))
    })
    .await
}
