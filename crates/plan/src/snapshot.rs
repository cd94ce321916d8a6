//! The observed state: plain data that planning reads instead of a cluster.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use longboat_api::labels::{GATEWAY_NAME, value};
use longboat_compose::platform::Platform;
use longboat_key::{Name, Namespace, Uid};
use longboat_store::Objects;

use crate::{
    key::{Kind, ObjectKey},
    kinds::types,
    observed::{IndexReads, ObservedObjects},
    peer::{Peer, Peers},
};

macro_rules! snapshot {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// Everything that planning one service reads beside the service itself and its composed spec.
        ///
        /// Objects are shared with the caches from which they come. It does no harm if the snapshot has more objects than
        /// needed. It has the namespaced objects of the service's namespace, and
        ///
        /// * the Gateways of all namespaces, and the Services in their namespaces, since these may be behind a Gateway; only
        ///   Services that a service controls and that have no label of a Gateway may be stored as text;
        /// * the ConfigMaps of the system namespace;
        /// * of Secrets only our own, and those that planning looked up (see [`crate::Plan::missed_secrets`]).
        #[derive(Clone, Debug)]
        pub struct Snapshot {
            /// When the snapshot was taken. Certificates are checked against this time.
            pub now: Timestamp,
            /// Which optional APIs the cluster serves, and its version.
            pub capabilities: Capabilities,
            /// The kinds that the controller may not list, in one namespace or in all. Their objects are missing here.
            pub unlisted: Arc<Unlisted>,
            /// The parsed `inferenceservice-config`.
            pub platform: Arc<Platform>,
            /// The namespace in which the platform is installed: presets, `inferenceservice-config`, the default Gateway.
            pub system_namespace: Namespace,
            /// The DNS domain of the cluster, `cluster.local` unless set otherwise.
            pub cluster_domain: String,
            /// The services of the namespace, to find those that share traffic or the name of a model.
            pub peers: Peers,
            /// The keys of indexes that planning looked up.
            reads: IndexReads,
            $($(#[$doc])* pub $field: ObservedObjects<types::$kind>,)*
        }

        impl Snapshot {
            /// Creates a snapshot of an empty cluster that serves every optional API.
            pub fn empty(now: Timestamp, platform: Arc<Platform>, system_namespace: Namespace) -> Self {
                Self {
                    now,
                    capabilities: Capabilities::ALL,
                    unlisted: Arc::default(),
                    platform,
                    system_namespace,
                    cluster_domain: "cluster.local".into(),
                    peers: Peers::default(),
                    reads: IndexReads::default(),
                    $($field: ObservedObjects::default(),)*
                }
            }

            /// The keys that planning looked up since this snapshot was taken, found or not, except objects that the service
            /// with that uid controls.
            pub fn reads(&self, uid: Uid<&str>) -> BTreeSet<ObjectKey> {
                let mut reads = self.reads.keys();
                $(self.$field.add_reads(Kind::$kind, uid, &mut reads);)*
                reads
            }

            /// The objects that planning looked up and that cannot be decoded, with the reason. They count as absent, so
            /// nothing that was decided from this snapshot may be written.
            pub fn unreadable(&self) -> Vec<(ObjectKey, String)> {
                let mut unreadable = Vec::new();
                $(self.$field.add_unreadable(Kind::$kind, &mut unreadable);)*
                unreadable
            }
        }
    };
}

crate::kinds!(all snapshot);

/// Kinds that the controller may not list, with the namespace, or with `None` for the whole cluster.
pub type Unlisted = BTreeSet<(Kind, Option<Namespace>)>;

/// Which optional APIs the cluster serves, and whether the controller may use cluster-scoped objects. A missing API disables
/// only the feature that needs it. By default, it serves none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Whether cluster-scoped objects may be read and written.
    pub cluster_scope: bool,
    /// Major and minor version of the API server, if known.
    pub kubernetes: Option<(u32, u32)>,
}

impl Capabilities {
    /// A cluster of any version that serves every optional API.
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
    /// Whether the controller may list these kinds in these namespaces.
    ///
    /// # Errors
    /// Which kind it may not list. Its objects only look as if they did not exist.
    pub fn check_listed(&self, namespaces: &[Namespace<&str>], kinds: &[Kind]) -> Result<(), String> {
        let concerns = |scope: &Namespace| namespaces.contains(&scope.as_deref());
        let found = self
            .unlisted
            .iter()
            .find(|(kind, scope)| kinds.contains(kind) && scope.as_ref().is_none_or(concerns));
        let Some((kind, scope)) = found else { return Ok(()) };
        let place = scope.as_ref().map_or_else(String::new, |scope| format!(" in namespace {scope}"));
        Err(format!(
            "the controller has no right to list {kind} objects{place}, so it does not know which exist: give its account the \
             verbs get, list and watch for them (`longboat install` does)"
        ))
    }

    /// The services of a namespace that join a group, by name.
    pub(crate) fn members<'a>(
        &'a self,
        namespace: Namespace<&str>,
        group: Name<&str>,
    ) -> impl Iterator<Item = (&'a Name, &'a Peer)> {
        self.reads.record(Kind::RoutingGroup, namespace, group);
        let group = String::from(group);
        let all = self.peers.in_namespace(namespace);
        all.filter(move |(_, _, peer)| peer.group.as_deref() == Some(&*group))
            .map(|(_, name, peer)| (name, peer))
    }

    /// Returns the first service of a namespace, by name, that serves one of these models and for which `counts` is true,
    /// together with the model. Only if there is none does the lookup count as a dependency: otherwise, if a whole namespace
    /// shared one model name, every change of one service would enqueue all of them.
    pub(crate) fn server_of<'a, 'm>(
        &'a self,
        namespace: Namespace<&str>,
        models: &BTreeSet<&'m str>,
        counts: impl Fn(Name<&str>, &Peer) -> bool,
    ) -> Option<(&'a Name, &'m str)> {
        let serves =
            |peer: &Peer, model: &str| peer.models.binary_search_by(|one| (**one).cmp(model)).is_ok();
        let found = self
            .peers
            .in_namespace(namespace)
            .filter(|(_, name, peer)| counts(name.as_deref(), peer))
            .find_map(|(_, name, peer)| Some((name, *models.iter().find(|model| serves(peer, model))?)));
        if found.is_none() {
            for model in models {
                self.reads.record(Kind::ModelName, namespace, Name(model));
            }
        }
        found
    }

    /// The Service that a gateway implementation created for a Gateway, found by its label or by its name.
    pub(crate) fn service_behind(
        &self,
        namespace: Namespace<&str>,
        gateway: Name<&str>,
    ) -> Option<&types::Service> {
        self.reads.record(Kind::GatewayService, namespace, gateway);
        // The Services with the label are stored decoded.
        let labelled = self.services.decoded_in_namespace(namespace);
        let mut labelled =
            labelled.filter(|service| value(&service.metadata, GATEWAY_NAME) == Some(gateway.as_str()));
        labelled.next().or_else(|| Objects::get(&self.services, namespace, gateway))
    }
}
