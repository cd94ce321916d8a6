//! What was observed: the plain data that planning reads instead of a cluster.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use longboat_api::labels::GATEWAY_NAME;
use longboat_compose::platform::Platform;
use longboat_store::Objects;

use crate::{
    key::{Kind, ObjectKey},
    kinds::types,
    observed::{Observed, Reads},
    peer::{Peer, Peers},
};

macro_rules! snapshot {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// Everything that planning one service reads beside the service itself and its composed spec.
        ///
        /// Objects are shared with the caches they come from. More objects than asked for do no harm. Of namespaced kinds those of the
        /// service's namespace are here, and
        ///
        /// * Gateways of all namespaces, and the Services in their namespaces, which may be backing them: only such as a service controls,
        ///   and that have no label of a Gateway, may be stored as text;
        /// * the ConfigMaps of the system namespace;
        /// * of Secrets our own, and those that planning asked for (see [`crate::Plan::missed_secrets`]).
        #[derive(Clone, Debug)]
        pub struct Snapshot {
            /// When the snapshot was taken: certificates expire by it.
            pub now: Timestamp,
            /// Which optional APIs the cluster serves, and its version.
            pub capabilities: Capabilities,
            /// The parsed `inferenceservice-config`.
            pub platform: Arc<Platform>,
            /// Where the platform is installed: presets, `inferenceservice-config`, the default Gateway.
            pub system_namespace: String,
            /// The DNS domain of the cluster, `cluster.local` unless set otherwise.
            pub cluster_domain: String,
            /// Our services of the namespace, for those that share their traffic or the name of a model.
            pub peers: Peers,
            /// The keys of indexes that were asked for.
            reads: Reads,
            $($(#[$doc])* pub $field: Observed<types::$kind>,)*
        }

        impl Snapshot {
            /// A snapshot of a cluster that serves every optional API and holds nothing.
            pub fn empty(now: Timestamp, platform: Arc<Platform>, system_namespace: impl Into<String>) -> Self {
                Self {
                    now,
                    capabilities: Capabilities::ALL,
                    platform,
                    system_namespace: system_namespace.into(),
                    cluster_domain: "cluster.local".into(),
                    peers: Peers::default(),
                    reads: Reads::default(),
                    $($field: Observed::default(),)*
                }
            }

            /// What was asked for since this snapshot was taken, found or not, but for what the service with that uid controls.
            pub fn reads(&self, uid: &str) -> BTreeSet<ObjectKey> {
                let mut reads = self.reads.keys();
                $(self.$field.add_reads(Kind::$kind, uid, &mut reads);)*
                reads
            }

            /// The objects that were asked for and cannot be read, with the reason. They count as absent, so nothing may be written that
            /// was decided from this snapshot.
            pub fn unreadable(&self) -> Vec<(ObjectKey, String)> {
                let mut unreadable = Vec::new();
                $(self.$field.add_unreadable(Kind::$kind, &mut unreadable);)*
                unreadable
            }
        }
    };
}

crate::kinds!(all snapshot);

/// Which optional APIs are served, and whether we are confined to namespaces. What is missing degrades the feature that needs it, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each API is there or not, whatever the others are")]
pub struct Capabilities {
    /// `gateway.networking.k8s.io/v1`: Gateway, GatewayClass, HTTPRoute.
    pub gateway_api: bool,
    /// `inference.networking.k8s.io/v1`.
    pub inference_pool: bool,
    /// `inference.networking.x-k8s.io/v1alpha2`.
    pub inference_pool_x: bool,
    /// `resource.k8s.io/v1`: ResourceClaimTemplate.
    pub resource_claim_template: bool,
    /// `leaderworkerset.x-k8s.io/v1`.
    pub leader_worker_set: bool,
    /// `keda.sh/v1alpha1`: ScaledObject.
    pub scaled_object: bool,
    /// Objects that live in no namespace may be read and written.
    pub cluster_scope: bool,
    /// Major and minor of the API server, where known.
    pub kubernetes: Option<(u32, u32)>,
}

impl Capabilities {
    /// A cluster, of whatever version, that serves every optional API.
    pub const ALL: Self = Self {
        gateway_api: true,
        inference_pool: true,
        inference_pool_x: true,
        resource_claim_template: true,
        leader_worker_set: true,
        scaled_object: true,
        cluster_scope: true,
        kubernetes: None,
    };
}

impl Snapshot {
    /// The services of a namespace that join a group, by name.
    pub(crate) fn members<'a>(
        &'a self,
        namespace: &str,
        group: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Peer)> {
        self.reads.record(Kind::RoutingGroup, namespace, group);
        let group = group.to_owned();
        let all = self.peers.in_namespace(namespace);
        all.filter(move |(_, _, peer)| peer.group.as_deref() == Some(&*group))
            .map(|(_, name, peer)| (name, peer))
    }

    /// The first service of a namespace, by name, that serves one of these models and that `counts`, with the model. Where there is one,
    /// the asking service depends on none of the others: otherwise a name that a whole namespace shares would enqueue all services
    /// whenever one changes.
    pub(crate) fn server_of<'a, 'm>(
        &'a self,
        namespace: &str,
        models: &BTreeSet<&'m str>,
        counts: impl Fn(&str, &Peer) -> bool,
    ) -> Option<(&'a Arc<str>, &'m str)> {
        let serves =
            |peer: &Peer, model: &str| peer.models.binary_search_by(|one| (**one).cmp(model)).is_ok();
        let found = self
            .peers
            .in_namespace(namespace)
            .filter(|(_, name, peer)| counts(name, peer))
            .find_map(|(_, name, peer)| Some((name, *models.iter().find(|model| serves(peer, model))?)));
        if found.is_none() {
            for model in models {
                self.reads.record(Kind::ModelName, namespace, model);
            }
        }
        found
    }

    /// The Service that a gateway implementation made for a Gateway, by its label or by its name.
    pub(crate) fn service_behind(&self, namespace: &str, gateway: &str) -> Option<&types::Service> {
        self.reads.record(Kind::GatewayService, namespace, gateway);
        // Those with the label are stored decoded.
        let labelled = self.services.decoded_in_namespace(namespace).find(|service| {
            let labels = service.metadata.labels.as_ref();
            labels.and_then(|all| all.get(GATEWAY_NAME)).is_some_and(|value| value == gateway)
        });
        labelled.or_else(|| Objects::get(&self.services, namespace, gateway))
    }
}
