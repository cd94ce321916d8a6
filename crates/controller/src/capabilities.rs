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
const RETRY: Duration = Duration::from_secs(1);

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
    if !follower.context.args.namespaces.is_empty() {
        cancel.run_until_cancelled(discover(&mut follower)).await;
        return follower.tasks.shutdown().await;
    }
    // Metadata only, because a CRD's schema may have a megabyte.
    let crds = Selection::of::<CustomResourceDefinition>().metadata_only();
    let mut events = longboat_watch::events(&follower.context.client, &crds);
    let kinds = optional_kinds();
    let mut listed = Vec::new();
    while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(crd)) => {
                listed.extend(of_crd(&kinds, &crd).map(|optional| optional.kind));
            }
            Ok(Event::InitDone) => {
                for &optional in &kinds {
                    match optional.served {
                        // Such a kind changes only with the version of the API server, whose restart ends all watches. So
                        // discovery is repeated each time the CRDs are listed again.
                        Availability::ByVersion(_) => {
                            if let Some(served) = is_served(&follower.context, optional).await {
                                follower.set(optional, served);
                            }
                        }
                        _ => follower.set(optional, listed.contains(&optional.kind)),
                    }
                }
                follower.startup = None;
            }
            Ok(Event::Apply(crd)) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set(optional, true);
                }
            }
            Ok(Event::Delete(crd)) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set(optional, false);
                }
            }
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "The watch of CRDs is interrupted.");
                if follower.startup.is_some() && watch_has_code(&error, 403) {
                    // Without the right to list CRDs, the controller watches every kind, and the response shows whether the
                    // kind is served.
                    follower.sees_crds = false;
                    for &optional in &kinds {
                        follower.set(optional, true);
                    }
                    follower.startup = None;
                }
            }
        }
    }
    follower.tasks.shutdown().await;
}

/// Like [`follow`], for a controller that watches only some namespaces and may not list CRDs. Discovery is open to every
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
                follower.set(optional, kinds.contains(&kind));
            }
        }
        if served.values().all(Option::is_some) {
            follower.startup = None;
        }
        let wait = if follower.startup.is_some() { RETRY } else { DISCOVERY_INTERVAL };
        tokio::time::sleep(wait).await;
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
    fn note(self, context: &Context, served: bool) {
        context.update_capabilities(|all| {
            if let Some(capability) = self.capability {
                *capability(all) = served;
            }
        });
    }
}

// === impl Follower ===

impl Follower {
    /// Starts to watch a kind if it is served. Otherwise stops, and empties its cache.
    fn set(&mut self, optional: OptionalKind, served: bool) {
        if served && !self.watches.contains_key(&optional.kind) {
            (optional.start)(self, optional);
        } else if !served && let Some(cancel) = self.watches.remove(&optional.kind) {
            cancel.cancel();
            (optional.empty)(&self.context);
            optional.note(&self.context, false);
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
                        optional.note(&context, true);
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
            Ok(()) => optional.note(context, true),
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
    optional.note(context, true);
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
            let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            let version = number(&info.major).zip(number(&info.minor));
            context.update_capabilities(|all| all.kubernetes = version);
        }
        Err(error) => tracing::debug!(error = %text_of(&error), "Cannot read the version of the API server."),
    }
}
