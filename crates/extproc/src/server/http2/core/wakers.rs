//! Wakes a connection for the calls that wait for something other than their caller.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use parking_lot::Mutex;

/// The wakers of a connection's calls.
#[derive(Default)]
pub(super) struct Wakers {
    by_call: BTreeMap<u32, Waker>,
    woken: Arc<WakeList>,
}

/// The calls whose wait is over.
#[derive(Default)]
struct WakeList {
    calls: Mutex<Vec<u32>>,
    connection: futures::task::AtomicWaker,
}

struct CallWaker {
    call: u32,
    woken: Arc<WakeList>,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        // In the list before the connection looks at it.
        self.woken.calls.lock().push(self.call);
        self.woken.connection.wake();
    }
}

impl Wakers {
    /// Returns the waker of a call.
    pub(super) fn of(&mut self, call: u32) -> &Waker {
        let woken = &self.woken;
        self.by_call
            .entry(call)
            .or_insert_with(|| Waker::from(Arc::new(CallWaker { call, woken: Arc::clone(woken) })))
    }

    /// Returns the calls whose wait is over, and registers the connection's waker for the next ones. Registered first: a call
    /// that is woken in between is either in the list or wakes the connection.
    pub(super) fn take(&self, context: &Context<'_>) -> Vec<u32> {
        self.woken.connection.register(context.waker());
        std::mem::take(&mut *self.woken.calls.lock())
    }

    pub(super) fn forget(&mut self, call: u32) {
        self.by_call.remove(&call);
    }

    pub(super) fn clear(&mut self) {
        self.by_call.clear();
    }
}
