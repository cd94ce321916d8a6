//! Which APIs the cluster serves, as their CRDs come and go: our own, which may be installed after us, and optional ones.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use longboat_api::{
    foreign::{gateway::Gateway, gatewayclass::GatewayClass},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_plan::{
    Capabilities,
    types::{HTTPRoute, InferencePool, InferencePoolX, LeaderWorkerSet, ResourceClaimTemplate, ScaledObject},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    error::has_code,
    reader,
    run::Startup,
    watch::{FirstList, Watched, forget_others, list, scopes, watch},
};

/// Between two discoveries of the served APIs, for a controller that may not watch CRDs.
const PERIOD: Duration = Duration::from_secs(15);
/// The same while nothing is known yet.
const RETRY: Duration = Duration::from_secs(1);

/// Kinds that clusters may lack, each with the name of its CRD and its field of the capabilities.
macro_rules! optional {
    ($($kind:ident: $type:ty, $crd:literal $(=> $capability:ident)?;)*) => {
        /// A kind that clusters may lack.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        enum Optional {
            $($kind,)*
        }

        const ALL: &[Optional] = &[$(Optional::$kind,)*];

        impl Optional {
            fn of_crd(name: &str) -> Option<Self> {
                match name {
                    $($crd => Some(Self::$kind),)*
                    _ => None,
                }
            }

            async fn list(self, context: &Context, namespace: Option<&str>) -> Result<(), kube::Error> {
                match self {
                    $(Self::$kind => list::<$type>(context, namespace).await,)*
                }
            }

            /// The kind as requests name it.
            fn plural(self) -> String {
                match self {
                    $(Self::$kind => <$type as Resource>::plural(&()).into_owned(),)*
                }
            }

            /// Group and version, and the name of the kind.
            fn resource(self) -> (String, String) {
                match self {
                    $(Self::$kind => (
                        <$type as Resource>::api_version(&()).into_owned(),
                        <$type as Resource>::kind(&()).into_owned(),
                    ),)*
                }
            }

            fn set(self, capabilities: &mut Capabilities, served: bool) {
                match self {
                    $(Self::$kind => optional!(@set capabilities, served $(, $capability)?),)*
                }
            }
        }

        impl Follower {
            fn start(&mut self, optional: Optional) {
                match optional {
                    $(Optional::$kind => self.start_kind::<$type>(optional),)*
                }
            }

            fn empty(&self, optional: Optional) {
                match optional {
                    $(Optional::$kind => self.empty_kind::<$type>(),)*
                }
            }
        }
    };
    (@set $capabilities:ident, $served:ident, $capability:ident) => {
        $capabilities.$capability = $served
    };
    (@set $capabilities:ident, $served:ident) => {
        {}
    };
}

optional! {
    Service: LLMInferenceService, "llminferenceservices.serving.kserve.io";
    Config: LLMInferenceServiceConfig, "llminferenceserviceconfigs.serving.kserve.io";
    Gateway: Gateway, "gateways.gateway.networking.k8s.io";
    GatewayClass: GatewayClass, "gatewayclasses.gateway.networking.k8s.io";
    // Of the Gateway API services need routes; their CRD is installed together with that of Gateways.
    HttpRoute: HTTPRoute, "httproutes.gateway.networking.k8s.io" => gateway_api;
    InferencePool: InferencePool, "inferencepools.inference.networking.k8s.io" => inference_pool;
    LeaderWorkerSet: LeaderWorkerSet, "leaderworkersets.leaderworkerset.x-k8s.io" => leader_worker_set;
    ScaledObject: ScaledObject, "scaledobjects.keda.sh" => scaled_object;
    // No CRD: see `follow_builtin`.
    ResourceClaimTemplate: ResourceClaimTemplate, "resourceclaimtemplates.resource.k8s.io" => resource_claim_template;
    InferencePoolX: InferencePoolX, "inferencepools.inference.networking.x-k8s.io" => inference_pool_x;
}

/// Follows the CRDs of optional kinds, and watches each kind while it is there.
pub(crate) async fn follow(context: Arc<Context>, startup: Startup, cancel: CancellationToken) {
    let mut follower = Follower {
        context,
        startup: Some(startup),
        cancel: cancel.clone(),
        watches: HashMap::new(),
        tasks: JoinSet::new(),
    };
    if !follower.context.args.namespaces.is_empty() {
        tokio::select! {
            () = discover(&mut follower) => {}
            () = cancel.cancelled() => {}
        }
        return follower.tasks.shutdown().await;
    }
    // Metadata only: a schema has a megabyte.
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(follower.context.client.clone());
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = Vec::new();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            None => break,
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(crd))) => listed.extend(Optional::of_crd(&crd.name_any())),
            Some(Ok(Event::InitDone)) => {
                for &optional in ALL.iter().filter(|optional| **optional != Optional::ResourceClaimTemplate) {
                    if listed.contains(&optional) {
                        follower.start(optional);
                    } else {
                        follower.stop(optional);
                    }
                }
                follow_builtin(&mut follower).await;
                follower.startup = None;
            }
            Some(Ok(Event::Apply(crd))) => {
                if let Some(optional) = Optional::of_crd(&crd.name_any()) {
                    follower.start(optional);
                }
            }
            Some(Ok(Event::Delete(crd))) => {
                if let Some(optional) = Optional::of_crd(&crd.name_any()) {
                    follower.stop(optional);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "The watch of CRDs is interrupted.");
                if follower.startup.is_some() && is_forbidden(&error) {
                    // Without the right to list CRDs, every kind is watched: the response says whether it is served.
                    for &optional in ALL {
                        follower.start(optional);
                    }
                    follower.startup = None;
                }
            }
        }
    }
    follower.tasks.shutdown().await;
}

/// The same for a controller that is confined to namespaces and may not list CRDs: discovery is open to everybody.
async fn discover(follower: &mut Follower) {
    loop {
        let mut served: HashMap<String, Option<Vec<String>>> = HashMap::new();
        for &optional in ALL {
            let (api, kind) = optional.resource();
            if !served.contains_key(&api) {
                let found = kinds_of(&follower.context, &api).await;
                served.insert(api.clone(), found);
            }
            let kinds = served.get(&api).and_then(Option::as_ref);
            match kinds {
                Some(kinds) if kinds.contains(&kind) => follower.start(optional),
                Some(_) => follower.stop(optional),
                // It is not known: nothing changes.
                None => {}
            }
        }
        if served.values().all(Option::is_some) {
            follower.startup = None;
        }
        let wait = if follower.startup.is_some() { RETRY } else { PERIOD };
        tokio::time::sleep(wait).await;
    }
}

/// The kinds of a group and version, if the API server says.
async fn kinds_of(context: &Context, api: &str) -> Option<Vec<String>> {
    match context.client.list_api_group_resources(api).await {
        Ok(list) => Some(list.resources.into_iter().map(|resource| resource.kind).collect()),
        Err(error) if has_code(&error, 404) => Some(Vec::new()),
        Err(error) => {
            tracing::debug!(%error, "Whether the cluster serves {api} is not known.");
            None
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if has_code(error, 403))
}

struct Follower {
    context: Arc<Context>,
    /// Until the first list of CRDs; kinds that appear later hold nothing up.
    startup: Option<Startup>,
    cancel: CancellationToken,
    watches: HashMap<Optional, CancellationToken>,
    tasks: JoinSet<()>,
}

// === impl Follower ===

impl Follower {
    fn start_kind<K: Watched>(&mut self, optional: Optional) {
        if self.watches.contains_key(&optional) {
            return;
        }
        let cancel = self.cancel.child_token();
        self.watches.insert(optional, cancel.clone());
        for scope in scopes::<K>(&self.context.args) {
            let (context, cancel) = (self.context.clone(), cancel.clone());
            let pending = parking_lot::Mutex::new(self.startup.as_ref().map(Startup::expect));
            let first = {
                let context = context.clone();
                move |how| {
                    if how == FirstList::Complete {
                        context.update_capabilities(|all| optional.set(all, true));
                    }
                    drop(pending.lock().take());
                }
            };
            self.tasks.spawn(async move { watch::<K>(context, scope, cancel, first).await });
        }
    }

    fn stop(&mut self, optional: Optional) {
        let Some(cancel) = self.watches.remove(&optional) else { return };
        cancel.cancel();
        self.empty(optional);
        self.context.update_capabilities(|all| optional.set(all, false));
    }

    fn empty_kind<K: Watched>(&self) {
        forget_others::<K>(&self.context, None, &BTreeSet::new());
    }
}

/// Watches built-in kinds that not every version of Kubernetes has. They change only with the version of the API server, whose restart
/// ends all watches. So discovery is asked each time the CRDs are listed anew.
async fn follow_builtin(follower: &mut Follower) {
    let (api, kind) = Optional::ResourceClaimTemplate.resource();
    match kinds_of(&follower.context, &api).await {
        Some(kinds) if kinds.contains(&kind) => follower.start(Optional::ResourceClaimTemplate),
        Some(_) => follower.stop(Optional::ResourceClaimTemplate),
        None => {}
    }
}

/// Fills the caches of the optional kinds once, and records which of them the cluster has. Returns a sentence for each that may not be listed.
///
/// # Errors
/// The kind that cannot be listed, and why.
pub(crate) async fn list_all(context: &Context) -> Result<Vec<String>, (String, kube::Error)> {
    let mut hidden = Vec::new();
    for &optional in ALL.iter().filter(|optional| !matches!(optional, Optional::Service | Optional::Config)) {
        match optional.list(context, None).await {
            Ok(()) => context.update_capabilities(|all| optional.set(all, true)),
            Err(error) if reader::is_missing(&error) => {}
            Err(error) if has_code(&error, 403) => hidden.extend(list_in_part(context, optional).await),
            Err(error) => return Err((optional.plural(), error)),
        }
    }
    Ok(hidden)
}

/// The same for a controller that may not list a kind in the whole cluster: it lists the watched namespaces. API servers refuse
/// also kinds that they do not serve, so discovery says whether they do. Returns a sentence if something stays hidden.
async fn list_in_part(context: &Context, optional: Optional) -> Option<String> {
    let (api, kind) = optional.resource();
    if kinds_of(context, &api).await.is_some_and(|kinds| !kinds.contains(&kind)) {
        return None;
    }
    context.update_capabilities(|all| optional.set(all, true));
    let namespaces = context.args.namespaces.iter().chain([&context.args.system_namespace]);
    let mut refused = Vec::new();
    for namespace in namespaces.collect::<BTreeSet<_>>() {
        if optional.list(context, Some(namespace)).await.is_err() {
            refused.push(namespace.as_str());
        }
    }
    let where_from = if context.args.namespaces.is_empty() {
        String::new()
    } else if refused.is_empty() {
        return None;
    } else {
        format!(" of {}", refused.join(" and "))
    };
    Some(format!("{}{where_from} may not be listed, and count as absent", optional.plural()))
}

/// Asks for the version of the API server, which some features depend on. Not knowing it costs an advisory condition.
pub(crate) async fn version(context: &Context) {
    match context.client.apiserver_version().await {
        Ok(info) => {
            let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            let version = number(&info.major).zip(number(&info.minor));
            context.update_capabilities(|all| all.kubernetes = version);
        }
        Err(error) => tracing::debug!(%error, "The version of the API server is not known."),
    }
}
