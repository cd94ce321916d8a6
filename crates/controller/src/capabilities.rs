//! Which APIs the cluster serves, as their CRDs come and go: our own, which may be installed after us, and optional ones.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher::{self, Event};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_plan::{Kind, kinds, types};
use longboat_watch::{Received, Selection};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    error::has_code,
    reader,
    run::Startup,
    watch::{Capability, FirstList, Served, Watched, forget_others, list, scopes, watch},
};

/// Between two discoveries of the served APIs, for a controller that may not watch CRDs.
const PERIOD: Duration = Duration::from_secs(15);
/// The same while nothing is known yet.
const RETRY: Duration = Duration::from_secs(1);

/// A kind that clusters may lack, and what is done with it.
#[derive(Clone, Copy)]
struct Optional {
    kind: Kind,
    served: Served,
    capability: Option<Capability>,
    /// The kind as requests name it.
    plural: fn() -> String,
    /// Group and version, and the name of the kind.
    resource: fn() -> (String, String),
    list: List,
    start: fn(&mut Follower, Self),
    empty: fn(&Context),
}

/// Fills the cache of a kind, of a namespace or of all.
type List = for<'a> fn(&'a Context, Option<&'a str>) -> BoxFuture<'a, Result<(), kube::Error>>;

/// The kinds that clusters may lack: our own first.
fn optional_kinds() -> Vec<Optional> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            [Optional::of::<LLMInferenceService>(), Optional::of::<LLMInferenceServiceConfig>(), $(Optional::of::<types::$kind>(),)*]
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
    let crds = Selection::of::<CustomResourceDefinition>().metadata_only();
    let mut events = longboat_watch::events(&follower.context.client, &crds);
    let kinds = optional_kinds();
    let mut listed = Vec::new();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            None => break,
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(crd))) => {
                listed.extend(of_crd(&kinds, &crd).map(|optional| optional.kind));
            }
            Some(Ok(Event::InitDone)) => {
                for &optional in &kinds {
                    match optional.served {
                        // It changes only with the version of the API server, whose restart ends all watches. So discovery is asked each
                        // time the CRDs are listed anew.
                        Served::ByVersion(_) => {
                            if let Some(served) = is_served(&follower.context, optional).await {
                                follower.set(optional, served);
                            }
                        }
                        _ => follower.set(optional, listed.contains(&optional.kind)),
                    }
                }
                follower.startup = None;
            }
            Some(Ok(Event::Apply(crd))) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set(optional, true);
                }
            }
            Some(Ok(Event::Delete(crd))) => {
                if let Some(optional) = of_crd(&kinds, &crd) {
                    follower.set(optional, false);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "The watch of CRDs is interrupted.");
                if follower.startup.is_some() && is_forbidden(&error) {
                    // Without the right to list CRDs, every kind is watched: the response says whether it is served.
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

/// The same for a controller that is confined to namespaces and may not list CRDs: discovery is open to everybody.
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
            // Where it is not known, nothing changes.
            if let Some(kinds) = kinds {
                follower.set(optional, kinds.contains(&kind));
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

/// Whether the API server serves a kind, if it says.
async fn is_served(context: &Context, optional: Optional) -> Option<bool> {
    let (api, kind) = (optional.resource)();
    Some(kinds_of(context, &api).await?.contains(&kind))
}

/// The kind of a CRD.
fn of_crd(kinds: &[Optional], crd: &Received) -> Option<Optional> {
    let name = crd.metadata.name.as_deref()?;
    kinds.iter().copied().find(|optional| matches!(optional.served, Served::ByCrd(crd, _) if crd == name))
}

fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if has_code(error, 403))
}

struct Follower {
    context: Arc<Context>,
    /// Until the first list of CRDs; kinds that appear later hold nothing up.
    startup: Option<Startup>,
    cancel: CancellationToken,
    watches: HashMap<Kind, CancellationToken>,
    tasks: JoinSet<()>,
}

// === impl Optional ===

impl Optional {
    /// None if every cluster serves the kind.
    fn of<K: Watched>() -> Option<Self> {
        let (Served::ByCrd(_, capability) | Served::ByVersion(capability)) = K::SERVED else { return None };
        Some(Self {
            kind: <K as Watched>::KIND,
            served: K::SERVED,
            capability,
            plural: || K::plural(&()).into_owned(),
            resource: || (K::api_version(&()).into_owned(), K::kind(&()).into_owned()),
            list: |context, namespace| list::<K>(context, namespace).boxed(),
            start: Follower::start::<K>,
            empty: |context| forget_others::<K>(context, None, &BTreeSet::new()),
        })
    }

    /// Records whether it is served.
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
    /// Watches a kind if it is served, and forgets it otherwise.
    fn set(&mut self, optional: Optional, served: bool) {
        if served && !self.watches.contains_key(&optional.kind) {
            (optional.start)(self, optional);
        } else if !served && let Some(cancel) = self.watches.remove(&optional.kind) {
            cancel.cancel();
            (optional.empty)(&self.context);
            optional.note(&self.context, false);
        }
    }

    fn start<K: Watched>(&mut self, optional: Optional) {
        let cancel = self.cancel.child_token();
        self.watches.insert(optional.kind, cancel.clone());
        for scope in scopes::<K>(&self.context.args) {
            let (context, cancel) = (self.context.clone(), cancel.clone());
            let pending = parking_lot::Mutex::new(self.startup.as_ref().map(Startup::expect));
            let first = {
                let context = context.clone();
                move |how| {
                    if how == FirstList::Complete {
                        optional.note(&context, true);
                    }
                    drop(pending.lock().take());
                }
            };
            self.tasks.spawn(async move { watch::<K>(context, scope, cancel, first).await });
        }
    }
}

/// Fills the caches of the optional kinds once, and records which of them the cluster has. Returns a sentence for each that may not be listed.
///
/// # Errors
/// The kind that cannot be listed, and why.
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

/// The same for a controller that may not list a kind in the whole cluster: it lists the watched namespaces. API servers refuse
/// also kinds that they do not serve, so discovery says whether they do. Returns a sentence if something stays hidden.
async fn list_in_part(context: &Context, optional: Optional) -> Option<String> {
    if is_served(context, optional).await == Some(false) {
        return None;
    }
    optional.note(context, true);
    let namespaces = context.args.namespaces.iter().chain([&context.args.system_namespace]);
    let mut refused = Vec::new();
    for namespace in namespaces.collect::<BTreeSet<_>>() {
        if (optional.list)(context, Some(namespace)).await.is_err() {
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
    Some(format!("{}{where_from} may not be listed, and count as absent", (optional.plural)()))
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
