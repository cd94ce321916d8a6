//! The pools of one replica: their pickers and ports.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use kube::Client;
use longboat_key::Key;
use longboat_telemetry::traces::own_collector;
use tokio::time::Instant;

use super::{
    limits::{PoolLimits, Refusals},
    marked::Picker,
    plan::HostedPool,
    ports::{Port, PortSettings},
};
use crate::host::{Host, LocalPickers, PickerSpec};

/// Runs the pickers, and opens and closes their ports.
pub(super) struct PoolHost {
    settings: PortSettings,
    close_delay: Duration,
    /// The most bytes of requests of a pool whose flags do not ask for less.
    bytes: usize,
    local: Arc<LocalPickers>,
    host: Host,
    /// What the host runs.
    running: Vec<PickerSpec>,
    pools: BTreeMap<Key, Pool>,
}

struct Pool {
    picker: Picker,
    /// The port that slices name.
    port: Option<Port>,
    /// Former ports, each with the time at which it takes no more connections.
    former: Vec<(Instant, Port)>,
    refusals: Refusals,
}

// === impl PoolHost ===

impl PoolHost {
    pub(super) fn new(
        client: Client,
        local: Arc<LocalPickers>,
        settings: PortSettings,
        close_delay: Duration,
        bytes: usize,
    ) -> Self {
        let host = Host::new(client, local.clone(), own_collector());
        Self { settings, close_delay, bytes, local, host, running: Vec::new(), pools: BTreeMap::new() }
    }

    /// The pools whose pickers run.
    pub(super) fn hosted(&self) -> BTreeMap<Key, HostedPool> {
        let now = Instant::now();
        let hosted = self.pools.iter().map(|(name, pool)| {
            let local = self.local.of(name);
            let bytes = pool.picker.port.bytes;
            let allowed =
                PoolLimits { requests: self.settings.streams, bytes, own_bytes: bytes < self.bytes };
            let hosted = HostedPool {
                picker: pool.picker.clone(),
                port: pool.port.as_ref().map(|port| port.number),
                serving: local.iter().any(|picker| picker.running().is_some()),
                problem: local.iter().find_map(|picker| picker.problem()),
                limit: pool.refusals.reported(allowed, now),
            };
            (name.clone(), hosted)
        });
        hosted.collect()
    }

    /// Counts what ports and pickers have refused since the last call. Returns all refusals, by pool.
    pub(super) fn count_refusals(&mut self) -> BTreeMap<Key, [u64; 2]> {
        let now = Instant::now();
        for (name, pool) in &mut self.pools {
            for port in pool.port.iter().chain(pool.former.iter().map(|(_, port)| port)) {
                pool.refusals.add(port.take_refusals(), now);
            }
            for picker in self.local.serving(Some(name)) {
                pool.refusals.add([0, picker.core.take_full()], now);
            }
        }
        self.pools.iter().map(|(name, pool)| (name.clone(), pool.refusals.totals())).collect()
    }

    /// Whether something changes soon without an event: a picker starts, or a port closes.
    pub(super) fn is_changing(&self) -> bool {
        let is_starting =
            |(name, pool): (&Key, &Pool)| pool.port.is_some() && self.local.serving(Some(name)).is_empty();
        self.pools.values().any(|pool| !pool.former.is_empty()) || self.pools.iter().any(is_starting)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Runs these pickers with open ports. Those of other pools close their ports, and end when their streams have ended.
    /// `named` has the places that slices name, with their pools.
    pub(super) async fn follow(&mut self, wanted: BTreeMap<Key, Picker>, named: &[(SocketAddr, Key)]) {
        let close_at = Instant::now() + self.close_delay;
        for (name, pool) in &mut self.pools {
            let is_wanted = wanted
                .get(name)
                .is_some_and(|picker| pool.port.as_ref().is_none_or(|port| port.options == picker.port));
            if !is_wanted {
                pool.former.extend(pool.port.take().map(|port| (close_at, port)));
            }
            for (at, port) in &pool.former {
                if *at <= Instant::now() {
                    port.close();
                }
            }
            pool.former.retain(|(_, port)| !port.has_ended());
        }
        self.pools.retain(|name, pool| wanted.contains_key(name) || !pool.former.is_empty());
        for (name, picker) in wanted {
            // Gateways may still ask for another pool where a slice says so.
            let avoided: BTreeSet<u16> = named
                .iter()
                .filter(|(place, pool)| place.ip() == self.settings.address && *pool != name)
                .map(|(place, _)| place.port())
                .collect();
            let pool = self.pools.entry(name.clone()).or_insert_with(|| Pool {
                picker: picker.clone(),
                port: None,
                former: Vec::new(),
                refusals: Refusals::default(),
            });
            if pool.port.is_none() {
                pool.port =
                    Port::open(&name, picker.port.clone(), &self.settings, self.local.clone(), &avoided)
                        .await;
                if pool.port.is_none() {
                    tracing::error!(pool = %name, "No port of the range is free; give --ports more.");
                }
            }
            if pool.picker.port.bytes != picker.port.bytes {
                pool.refusals.forget();
            }
            pool.picker = picker;
        }
        let specs = self.pools.values().map(|pool| &pool.picker.spec);
        if !specs.clone().eq(&self.running) {
            self.running = specs.cloned().collect();
            self.host.follow(self.running.clone());
        }
    }

    /// Ends all pickers, and with them what streams are left.
    pub(super) async fn ended(mut self) {
        for pool in self.pools.values() {
            pool.port.iter().chain(pool.former.iter().map(|(_, port)| port)).for_each(Port::close);
        }
        self.pools.clear();
        self.host.ended().await;
    }
}
