//! The pickers of this process, as requests find them.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use longboat_extproc::{ClientError, Exchange};
use longboat_key::Key;

use crate::PoolPicker;

/// The pickers of this process, by the name of their pool.
#[derive(Default)]
pub struct LocalPickers {
    pub(super) by_pool: ArcSwap<HashMap<Key, Vec<Arc<LocalPicker>>>>,
}

/// A picker of this process, whether it runs yet or not.
pub struct LocalPicker {
    /// The pool, as errors name it.
    name: Arc<str>,
    /// The address of the pod for which it picks.
    address: Option<IpAddr>,
    pub(super) state: ArcSwap<State>,
}

pub(super) enum State {
    /// The picker does not run yet, or will be started again.
    Starting,
    /// The picker needs something of its pod, so it runs there.
    InPod,
    /// The picker has failed, and will be started again.
    Failed(String),
    Running(Arc<PoolPicker>),
}

/// A picker that takes requests.
pub struct RunningPicker {
    name: Arc<str>,
    picker: Arc<PoolPicker>,
}

// === impl LocalPickers ===

impl LocalPickers {
    /// Returns the pickers of a pool.
    pub fn of(&self, pool: &Key) -> Vec<Arc<LocalPicker>> {
        self.by_pool.load().get(pool).cloned().unwrap_or_default()
    }

    /// The names of the pools.
    pub(crate) fn pools(&self) -> Vec<Key> {
        self.by_pool.load().keys().cloned().collect()
    }

    /// The number of pools.
    pub(crate) fn count(&self) -> usize {
        self.by_pool.load().len()
    }

    /// Returns the pickers that take requests now, of one pool or of all.
    pub fn serving(&self, pool: Option<&Key>) -> Vec<Arc<PoolPicker>> {
        let by_pool = self.by_pool.load();
        let meant = by_pool.iter().filter(|(name, _)| pool.is_none_or(|pool| pool == *name));
        let running = meant.flat_map(|(_, pickers)| pickers).filter_map(|picker| picker.running());
        running.map(|running| running.picker).collect()
    }
}

// === impl LocalPicker ===

impl LocalPicker {
    pub(super) fn new(pool: &Key, address: Option<IpAddr>) -> Self {
        let name = format!("{pool} in this process").into();
        Self { name, address, state: ArcSwap::from_pointee(State::Starting) }
    }

    /// Whether this picker answers in place of the pod with this address.
    pub fn replaces(&self, pod: IpAddr) -> bool {
        self.address == Some(pod) && !matches!(**self.state.load(), State::InPod)
    }

    /// Why it does not run.
    pub(crate) fn problem(&self) -> Option<String> {
        match &**self.state.load() {
            State::Failed(problem) => Some(problem.clone()),
            _ => None,
        }
    }

    /// Returns the picker if it takes requests.
    pub fn running(&self) -> Option<RunningPicker> {
        match &**self.state.load() {
            State::Running(picker) if picker.is_serving() => {
                Some(RunningPicker { name: self.name.clone(), picker: picker.clone() })
            }
            _ => None,
        }
    }
}

// === impl RunningPicker ===

impl RunningPicker {
    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens an exchange for one request.
    ///
    /// # Errors
    ///
    /// If the endpoints of the pool are not known yet.
    pub fn open(&self) -> Result<Exchange, ClientError> {
        self.picker.open(self.name.clone())
    }
}
