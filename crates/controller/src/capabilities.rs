//! Tracks which APIs the cluster serves while CRDs are installed and removed. These are our own CRDs, which may be installed
//! after the controller, and optional ones.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::Event;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_key::Namespace;
use longboat_plan::{Kind, kinds, types};
use longboat_watch::{ReceivedObject, Selection, has_code, text_of, text_of_watch, watch_has_code};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    reader,
    startup::Startup,
    watch::{
        FirstList, forget_others,
        kinds::{Availability, Capability, WatchedKind},
        list, scopes, watch,
    },
};

/// The time between two discoveries of the served APIs, for a controller that may not watch CRDs.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(15);
/// The time between two discoveries until the first one has succeeded.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A kind that clusters may lack, and how the controller handles it.
#[derive(Clone, Copy)]
struct OptionalKind {
    kind: Kind,
    served: Availability,
    capability: Option<Capability>,
    /// The plural name of the kind in requests.
    plural: fn() -> String,
    /// The group and version, and the name of the kind.
    resource: fn() -> (String, String),
    list: List,
    start: fn(&mut Follower, Self),
    empty: fn(&Context),
}

/// Fills the cache of a kind from one namespace or from all.
type List = for<'a> fn(&'a Context, Option<Namespace<&'a str>>) -> BoxFuture<'a, Result<(), kube::Error>>;

/// The kinds that clusters may lack. Our own come first.
fn optional_kinds() -> Vec<OptionalKind> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            [OptionalKind::of::<LLMInferenceService>(), OptionalKind::of::<LLMInferenceServiceConfig>(), $(OptionalKind::of::<types::$kind>(),)*]
        };
    }
    kinds!(all each).into_iter().flatten().collect()
}

/// Follows the CRDs of optional kinds, and watches each kind while it is there.
pub(crate) async fn follow(context: Arc<Context>, startup: Startup, cancel: CancellationToken) {
    let mut follower = Follower {
        context,
        startup: Some(startup),
        cancel: cancel.clone(),
        sees_crds: true,
        watches: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let confined = !follower.context.args.namespaces.is_empty();
    let following =
        async { if confined { discover(&mut follower).await } else { follow_crds(&mut follower).await } };
    cancel.run_until_cancelled(following).await;
    follower.tasks.shutdown().await;
}

/// Follows the CRDs until a watch of a kind breaks.
async fn follow_crds(follower: &mut Follower) {
    // Metadata only, because a CRD's schema may have a megabyte.
    let crds = Selection::of::<CustomResourceDefinition>().metadata_only();
    let mut events = longboat_watch::events(&follower.context.client, &crds);
    let kinds = optional_kinds();
    let mut listed = Vec::new();
    // Kinds of which it is unknown whether this version of the API server serves them.
    let mut undiscovered: Vec<OptionalKind> = Vec::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = follower.broken_watch() => return,
            // A watch that is resumed lists nothing, so the next list may be days away.
            () = tokio::time::sleep(RETRY_INTERVAL), if !undiscovered.is_empty() => {
                undiscovered = follower.discover_each(undiscovered).await;
                continue;
            }
        };
        match event {
            None => return,
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(crd))) => {
                listed.extend(of_crd(&kinds, &crd).map(|optional| optional.kind));
            }
            Some(Ok(Event::InitDone)) => {
                let (by_version, by_crd): (Vec<_>, Vec<_>) = kinds
                    .iter()
                    .copied()
                    .partition(|optional| matches!(optional.served, Availability::ByVersion(_)));
                for optional in by_crd {
                    follower.set_served(optional, listed.contains(&optional.kind));
                }
                // Such a kind changes only with the version of the API server, which lists its CRDs anew after its restart: the
                // watch continues at a revision that is older than its cache.
                undiscovered = follower.discover_each(by_version).await;
                follower.startup = None;
            }
            Some(Ok(Event::Apply(crd))) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set_served(optional, true);
                }
            }
            Some(Ok(Event::Delete(crd))) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set_served(optional, false);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(error = %text_of_watch(&error), "The watch of CRDs is interrupted.");
                if follower.startup.is_some() && watch_has_code(&error, 403) {
                    // Without the right to list CRDs, the controller watches every kind, and the response shows whether the
                    // kind is served.
                    follower.sees_crds = false;
                    for &optional in &kinds {
                        follower.set_served(optional, true);
                    }
                    follower.startup = None;
                }
            }
        }
    }
}

/// Like [`follow_crds`], for a controller that watches only some namespaces and may not list CRDs. Discovery is open to every
/// user.
async fn discover(follower: &mut Follower) {
    loop {
        let mut served: HashMap<String, Option<Vec<String>>> = HashMap::new();
        for optional in optional_kinds() {
            let (api, kind) = (optional.resource)();
            if !served.contains_key(&api) {
                let found = kinds_of(&follower.context, &api).await;
                served.insert(api.clone(), found);
            }
            let kinds = served.get(&api).and_then(Option::as_ref);
            // If discovery failed, nothing changes.
            if let Some(kinds) = kinds {
                follower.set_served(optional, kinds.contains(&kind));
            }
        }
        if served.values().all(Option::is_some) {
            follower.startup = None;
        }
        let wait = if follower.startup.is_some() { RETRY_INTERVAL } else { DISCOVERY_INTERVAL };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = follower.broken_watch() => return,
        }
    }
}

/// The kinds of a group and version. Returns `None` if discovery failed.
async fn kinds_of(context: &Context, api: &str) -> Option<Vec<String>> {
    match context.client.list_api_group_resources(api).await {
        Ok(list) => Some(list.resources.into_iter().map(|resource| resource.kind).collect()),
        Err(error) if has_code(&error, 404) => Some(Vec::new()),
        Err(error) => {
            tracing::debug!(error = %text_of(&error), "Cannot find out whether the cluster serves {api}.");
            None
        }
    }
}

/// Whether the API server serves a kind. Returns `None` if discovery failed.
async fn is_served(context: &Context, optional: OptionalKind) -> Option<bool> {
    let (api, kind) = (optional.resource)();
    Some(kinds_of(context, &api).await?.contains(&kind))
}

/// The optional kind that a CRD defines.
fn of_crd(kinds: &[OptionalKind], crd: &ReceivedObject) -> Option<OptionalKind> {
    let name = crd.metadata.name.as_deref()?;
    kinds
        .iter()
        .copied()
        .find(|optional| matches!(optional.served, Availability::ByCrd(crd, _) if crd == name))
}

struct Follower {
    context: Arc<Context>,
    /// Set until the first list of CRDs. Kinds that appear later do not delay the start.
    startup: Option<Startup>,
    cancel: CancellationToken,
    /// Whether only kinds are watched that the cluster serves.
    sees_crds: bool,
    watches: HashMap<Kind, CancellationToken>,
    tasks: JoinSet<()>,
}

// === impl OptionalKind ===

impl OptionalKind {
    /// Returns `None` if every cluster serves the kind.
    fn of<K: WatchedKind>() -> Option<Self> {
        let (Availability::ByCrd(_, capability) | Availability::ByVersion(capability)) = K::SERVED else {
            return None;
        };
        Some(Self {
            kind: <K as WatchedKind>::KIND,
            served: K::SERVED,
            capability,
            plural: || K::plural(&()).into_owned(),
            resource: || (K::api_version(&()).into_owned(), K::kind(&()).into_owned()),
            list: |context, namespace| list::<K>(context, namespace).boxed(),
            start: Follower::start::<K>,
            empty: |context| forget_others::<K>(context, None, &BTreeSet::new()),
        })
    }

    /// Records whether the kind is served.
    fn set_capability(self, context: &Context, served: bool) {
        context.update_capabilities(|all| {
            if let Some(capability) = self.capability {
                *capability(all) = served;
            }
        });
    }
}

// === impl Follower ===

impl Follower {
    /// Asks the API server about each kind, and starts or stops to watch it. Returns the kinds about which it did not answer.
    async fn discover_each(&mut self, kinds: Vec<OptionalKind>) -> Vec<OptionalKind> {
        let mut unknown = Vec::new();
        for optional in kinds {
            match is_served(&self.context, optional).await {
                Some(served) => self.set_served(optional, served),
                None => unknown.push(optional),
            }
        }
        unknown
    }

    /// Waits until a watch panics. The controller must not go on without it: it would never see a service change again.
    async fn broken_watch(&mut self) {
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) if error.is_panic() => return,
                // Its kind is no longer served.
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Starts to watch a kind if it is served. Otherwise stops, and empties its cache.
    fn set_served(&mut self, optional: OptionalKind, served: bool) {
        if served && !self.watches.contains_key(&optional.kind) {
            (optional.start)(self, optional);
        } else if !served && let Some(cancel) = self.watches.remove(&optional.kind) {
            cancel.cancel();
            (optional.empty)(&self.context);
            optional.set_capability(&self.context, false);
        }
    }

    fn start<K: WatchedKind>(&mut self, optional: OptionalKind) {
        let cancel = self.cancel.child_token();
        self.watches.insert(optional.kind, cancel.clone());
        for scope in scopes::<K>(&self.context.args) {
            let (context, cancel) = (self.context.clone(), cancel.clone());
            let pending = parking_lot::Mutex::new(self.startup.as_ref().map(Startup::expect));
            let sees_crds = self.sees_crds;
            let first = {
                let (context, scope) = (context.clone(), scope.clone());
                move |how| {
                    // API servers also deny access to kinds that they do not serve. CRDs and discovery tell the difference.
                    let may_list = how != FirstList::Forbidden || !sees_crds;
                    context.note_right(<K as WatchedKind>::KIND, scope.clone(), may_list);
                    if how == FirstList::Complete {
                        optional.set_capability(&context, true);
                    }
                    drop(pending.lock().take());
                }
            };
            self.tasks.spawn(async move { watch::<K>(context, scope, cancel, first).await }.boxed());
        }
    }
}

/// Fills the caches of the optional kinds once, and records which kinds the cluster serves. Returns a sentence for each kind
/// that the user may not list.
///
/// # Errors
/// The kind that could not be listed, and the reason.
pub(crate) async fn list_all(context: &Context) -> Result<Vec<String>, (String, kube::Error)> {
    let mut hidden = Vec::new();
    let others = optional_kinds().into_iter();
    for optional in others.filter(|one| !matches!(one.kind, Kind::InferenceService | Kind::Config)) {
        match (optional.list)(context, None).await {
            Ok(()) => optional.set_capability(context, true),
            Err(error) if reader::is_missing(&error) => {}
            Err(error) if has_code(&error, 403) => hidden.extend(list_in_part(context, optional).await),
            Err(error) => return Err(((optional.plural)(), error)),
        }
    }
    Ok(hidden)
}

/// Lists a kind in the watched namespaces, for a user who may not list it in the whole cluster. API servers also deny access
/// to kinds that they do not serve, so discovery decides whether the kind is served. Returns a sentence if some objects stay
/// hidden.
async fn list_in_part(context: &Context, optional: OptionalKind) -> Option<String> {
    if is_served(context, optional).await == Some(false) {
        return None;
    }
    optional.set_capability(context, true);
    let namespaces = context.args.namespaces.iter().chain([&context.args.system_namespace]);
    let mut refused = Vec::new();
    for namespace in namespaces.collect::<BTreeSet<_>>() {
        if (optional.list)(context, Some(namespace.as_deref())).await.is_err() {
            refused.push(&**namespace);
        }
    }
    let where_from = if context.args.namespaces.is_empty() {
        String::new()
    } else if refused.is_empty() {
        return None;
    } else {
        format!(" of {}", refused.join(" and "))
    };
    Some(format!("no right to list {}{where_from}; they are treated as absent", (optional.plural)()))
}

/// Reads the version of the API server, on which some features depend. If it stays unknown, an advisory condition is missing.
pub(crate) async fn version(context: &Context) {
    match context.client.apiserver_version().await {
        Ok(info) => {
            // Some distributions append a plus sign to the minor version: `31+`.
            let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            let version = number(&info.major).zip(number(&info.minor));
            context.update_capabilities(|all| all.kubernetes = version);
        }
        Err(error) => tracing::debug!(error = %text_of(&error), "Cannot read the version of the API server."),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use longboat_plan::types::ResourceClaimTemplate;
    use serde_json::json;

    use super::*;
    use crate::{args::Args, events, metrics::Metrics};

    fn follower(client: Client) -> Follower {
        let context = Arc::new(Context::new(client, Args::default(), events::channel().0, Metrics::new()));
        let cancel = CancellationToken::new();
        Follower {
            context,
            startup: None,
            cancel,
            sees_crds: true,
            watches: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_panics_ends_the_others_and_one_that_was_stopped_does_not() {
        let silent = tower::service_fn(|_: Request<Body>| async {
            std::future::pending::<()>().await;
            Ok::<_, std::io::Error>(Response::new(Body::empty()))
        });
        let mut follower = follower(Client::new(silent, "ns"));
        follower.tasks.spawn(async {});
        let following = tokio::time::timeout(DISCOVERY_INTERVAL, follow_crds(&mut follower)).await;
        assert!(following.is_err(), "it waits for CRDs");
        follower.tasks.spawn(async { panic!("a bug") });
        follow_crds(&mut follower).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_discovery_that_fails_once_is_repeated() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = attempts.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let attempts = counted.clone();
            async move {
                let (code, answer) = match request.uri().path() {
                    "/apis/resource.k8s.io/v1" if attempts.fetch_add(1, Ordering::Relaxed) == 0 => {
                        (503, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503}))
                    }
                    "/apis/resource.k8s.io/v1" => {
                        let kind = json!({"name": "resourceclaimtemplates", "singularName": "", "namespaced": true,
                            "kind": "ResourceClaimTemplate", "verbs": ["list"]});
                        (200, json!({"groupVersion": "resource.k8s.io/v1", "resources": [kind]}))
                    }
                    _ if request.uri().query().is_some_and(|query| query.contains("watch=")) => {
                        std::future::pending().await
                    }
                    _ => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
                };
                let answer =
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::io::Error>(answer.unwrap())
            }
        });
        let mut follower = follower(Client::new(server, "ns"));
        let _ = tokio::time::timeout(10 * RETRY_INTERVAL, follow_crds(&mut follower)).await;
        assert_eq!(attempts.load(Ordering::Relaxed), 2, "it is asked until it answers");
        assert!(follower.watches.contains_key(&<ResourceClaimTemplate as WatchedKind>::KIND));
    }
}
