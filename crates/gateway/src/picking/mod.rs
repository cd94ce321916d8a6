//! Pickers in the gateway's own process. Requests reach them without gRPC and without a copy of their bodies.
//!
//! [`host`] starts and ends them, [`LocalPickers`] is where requests find them.

mod host;
mod spec;

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use longboat_epp::PoolPicker;
use longboat_extproc::{ClientError, Exchange};
use longboat_key::Key;

pub(crate) use self::host::run;

/// Where the pickers of pools run. A pool that names no picker always has one in the gateway, with the default configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Picking {
    /// In their own pods, which the gateway calls over ext_proc.
    #[default]
    InPods,
    /// In the gateway, if the arguments of the picker's pods say all that it needs. The pods go on: other gateways call them, and
    /// this one does until its own picker knows the pool.
    InGateway,
    /// In the gateway, which also answers health checks and serves metrics on the addresses of the picker's pods. The pods are of
    /// this machine and leave it their ports.
    ForPods,
}

/// The pickers of this process, by the name of their pool.
#[derive(Default)]
pub(crate) struct LocalPickers {
    by_pool: ArcSwap<HashMap<Key, Vec<Arc<LocalPicker>>>>,
}

/// A picker of this process, whether it runs yet or not.
pub(crate) struct LocalPicker {
    /// The pool, as errors name it.
    name: Arc<str>,
    /// The address of the pod for which it picks.
    address: Option<IpAddr>,
    state: ArcSwap<State>,
}

enum State {
    /// It does not run yet, or will be started again.
    Starting,
    /// It needs something of its pod, so it runs there.
    InPod,
    Running(Arc<PoolPicker>),
}

/// A picker that takes requests.
pub(crate) struct RunningPicker {
    name: Arc<str>,
    picker: Arc<PoolPicker>,
}

// === impl LocalPickers ===

impl LocalPickers {
    /// Returns the pickers of a pool.
    pub(crate) fn of(&self, pool: &Key) -> Vec<Arc<LocalPicker>> {
        self.by_pool.load().get(pool).cloned().unwrap_or_default()
    }
}

// === impl LocalPicker ===

impl LocalPicker {
    fn new(pool: &Key, address: Option<IpAddr>) -> Self {
        let name = format!("{pool} in this process").into();
        Self { name, address, state: ArcSwap::from_pointee(State::Starting) }
    }

    /// Whether this picker answers in place of the pod with this address.
    pub(crate) fn replaces(&self, pod: IpAddr) -> bool {
        self.address == Some(pod) && !matches!(**self.state.load(), State::InPod)
    }

    /// Returns the picker if it takes requests.
    pub(crate) fn running(&self) -> Option<RunningPicker> {
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
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens an exchange for one request.
    pub(crate) fn open(&self) -> Result<Exchange, ClientError> {
        self.picker.open(self.name.clone())
    }
}
