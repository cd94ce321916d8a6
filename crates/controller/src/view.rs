//! Reads once what the controller would see, for commands that explain its work.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::Client;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_compose::{PresetNames, platform::PlatformError};
use longboat_key::Namespace;
use longboat_plan::{
    Kind, Snapshot, kinds,
    types::{self, ClusterRoleBinding},
};
use longboat_watch::has_code;

use crate::{
    args::Args,
    capabilities,
    context::Context,
    events, installed,
    metrics::Metrics,
    observe, reader,
    watch::{
        kinds::{Availability, WatchedKind},
        list, list_every,
    },
};

/// A snapshot as the controller would take it now.
#[derive(Clone, Debug)]
pub struct View {
    /// Services, by namespace and name.
    pub services: Vec<Arc<LLMInferenceService>>,
    /// Configs, by namespace and name.
    pub configs: Vec<Arc<LLMInferenceServiceConfig>>,
    /// All else, as reconciles of these services would see it.
    pub snapshot: Snapshot,
    /// Why the platform settings cannot be used; then `snapshot` has default settings.
    pub platform_error: Option<PlatformError>,
    /// How the names of presets are formed.
    pub preset_names: PresetNames,
    /// One sentence for each kind that could not be read for lack of rights.
    pub hidden: Vec<String>,
}

/// Why the cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The cluster does not serve our own kinds.
    #[error("the cluster does not serve {what}: run `longboat install`")]
    NotInstalled {
        /// The plural name of the kind.
        what: String,
    },
    /// A request failed.
    #[error("cannot list {what}: {}", reader::sentence(source))]
    Request {
        /// What was requested.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
}

/// Reads the cluster once, as the controller that is installed there sees it. `args.namespaces` limits which namespaces are read, as for
/// the controller.
///
/// # Errors
/// If the API server does not respond, or does not serve our kinds.
pub async fn view(mut args: Args, client: Client) -> Result<View, ViewError> {
    installed::complete(&mut args, &client).await;
    // Nothing is written here, so the receiving end is dropped.
    let (sink, _) = events::channel();
    let context = Context::new(client, args, sink, Metrics::new());
    // The limit to namespaces comes from the user of the command, and does not restrict the controller that runs in the
    // cluster.
    context.update_capabilities(|all| all.cluster_scope = true);
    let mut namespaces: BTreeSet<Namespace> = context.args.namespaces.iter().cloned().collect();
    let mut scopes: Vec<Option<Namespace<&str>>> = vec![None];
    if !namespaces.is_empty() {
        namespaces.insert(context.args.system_namespace.clone());
        scopes = namespaces.iter().map(|namespace| Some(namespace.as_deref())).collect();
    }
    let mut hidden = Vec::new();
    for scope in scopes {
        needed::<LLMInferenceService>(&context, scope).await?;
        needed::<LLMInferenceServiceConfig>(&context, scope).await?;
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
                $(if matches!(types::$kind::SERVED, Availability::Always) && !types::$kind::OF_CLUSTER {
                    built_in::<types::$kind>(&context, scope, &mut hidden).await?;
                })*
            };
        }
        kinds!(all each);
    }
    list_allowed::<ClusterRoleBinding>(&context, None, &mut hidden).await?;
    hidden.extend(
        capabilities::list_all(&context)
            .await
            .map_err(|(what, source)| ViewError::Request { what, source: source.into() })?,
    );
    capabilities::version(&context).await;
    context.load_platform();
    let (platform, platform_error) = match context.platform() {
        Ok(platform) => (platform, None),
        Err(error) => (Arc::default(), Some(error)),
    };
    let services = context.caches.inference_services.all().collect::<Vec<_>>();
    let inhabited: BTreeSet<Namespace<&str>> = services
        .iter()
        .filter_map(|service| service.metadata.namespace.as_deref().map(Namespace))
        .chain(namespaces.iter().map(Namespace::as_deref))
        .collect();
    let snapshot = observe::several(&context, inhabited, platform, Timestamp::now());
    Ok(View {
        configs: context.caches.configs.all().collect(),
        services,
        snapshot,
        platform_error,
        preset_names: context.preset_names.clone(),
        hidden,
    })
}

/// Lists a kind that every cluster serves.
async fn built_in<K: WatchedKind>(
    context: &Context,
    scope: Option<Namespace<&str>>,
    hidden: &mut Vec<String>,
) -> Result<(), ViewError> {
    match <K as WatchedKind>::KIND {
        // The platform settings are in a ConfigMap.
        Kind::ConfigMap => needed::<K>(context, scope).await,
        // All Secrets, not only ours: manifests that are compared with a cluster may refer to any of them.
        Kind::Secret => note::<K>(list_every::<K>(context, scope).await, scope, hidden),
        _ => list_allowed::<K>(context, scope, hidden).await,
    }
}

async fn needed<K: WatchedKind>(context: &Context, scope: Option<Namespace<&str>>) -> Result<(), ViewError> {
    list::<K>(context, scope).await.map_err(|source| {
        let what = what::<K>(scope);
        if reader::is_missing(&source) {
            ViewError::NotInstalled { what }
        } else {
            ViewError::Request { what, source: source.into() }
        }
    })
}

/// Lists a kind that only improves the result, so a refusal is not an error.
async fn list_allowed<K: WatchedKind>(
    context: &Context,
    scope: Option<Namespace<&str>>,
    hidden: &mut Vec<String>,
) -> Result<(), ViewError> {
    note::<K>(list::<K>(context, scope).await, scope, hidden)
}

/// Notes a list that was refused, so that the others go on.
fn note<K: WatchedKind>(
    listed: Result<(), kube::Error>,
    scope: Option<Namespace<&str>>,
    hidden: &mut Vec<String>,
) -> Result<(), ViewError> {
    match listed {
        Ok(()) => Ok(()),
        Err(error) if reader::is_missing(&error) => Ok(()),
        Err(error) if has_code(&error, 403) => {
            hidden.push(format!("no right to list {}; they are treated as absent", what::<K>(scope)));
            Ok(())
        }
        Err(source) => Err(ViewError::Request { what: what::<K>(scope), source: source.into() }),
    }
}

fn what<K: WatchedKind>(scope: Option<Namespace<&str>>) -> String {
    let kind = K::plural(&());
    scope.map_or_else(|| kind.to_string(), |scope| format!("{kind} of namespace {scope}"))
}
