//! Which services use which configs.

use std::collections::BTreeSet;

use longboat_api::{names::preset, v1alpha2::ServiceReference};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Peer, UsedConfigs};

use crate::context::Context;

/// Enqueues the configs that a service of that namespace starts or stops to use with a change. If the service was created,
/// `before` is `None`; if it was deleted, `now` is.
pub(crate) fn enqueue_used(
    context: &Context,
    namespace: Namespace<&str>,
    before: Option<&Peer>,
    now: Option<&Peer>,
) {
    let configs = |peer: Option<&Peer>| peer.map(|peer| (peer.configs.clone(), peer.would_use.clone()));
    if configs(before) == configs(now) {
        return;
    }
    // The configs that a service would use matter only if the config is being deleted.
    for config in context.caches.configs.all().filter(|config| config.metadata.deletion_timestamp.is_some()) {
        let key = Key::of(config.as_ref());
        if is_in_reach(context, namespace, &key) {
            context.configs.add(key);
        }
    }
    let used = |peer: Option<&Peer>| peer.map(|peer| used_by(context, namespace, peer)).unwrap_or_default();
    for key in used(before).symmetric_difference(&used(now)) {
        if context.caches.configs.get(key).is_some() {
            context.configs.add(key.clone());
        }
    }
}

/// The configs that a service of that namespace uses.
fn used_by(context: &Context, namespace: Namespace<&str>, peer: &Peer) -> BTreeSet<Key> {
    match &peer.configs {
        UsedConfigs::Applied(all) => {
            all.iter().map(|(namespace, name)| Key::new(namespace.as_deref(), name.as_deref())).collect()
        }
        UsedConfigs::Mentioned(names) => {
            let places = [namespace, context.args.system_namespace.as_deref()];
            names.iter().flat_map(|name| places.map(|namespace| Key::new(namespace, Name(name)))).collect()
        }
    }
}

/// Whether the config is among [`used_by`].
fn uses(context: &Context, namespace: Namespace<&str>, peer: &Peer, config: &Key) -> bool {
    let is_named = |name: &str| *config.name == *name;
    match &peer.configs {
        UsedConfigs::Applied(all) => {
            all.iter().any(|(namespace, name)| is_named(name) && *config.namespace == **namespace)
        }
        UsedConfigs::Mentioned(names) => {
            names.iter().any(|name| is_named(name)) && is_in_reach(context, namespace, config)
        }
    }
}

/// Whether a service that is not composed would use a config: one that it mentions, or a preset. Until composition it is
/// unknown which presets the service needs, so all of them count.
fn would_use(context: &Context, namespace: Namespace<&str>, peer: &Peer, config: &Key) -> bool {
    let Some(names) = &peer.would_use else { return false };
    is_in_reach(context, namespace, config)
        && (names.iter().any(|name| **name == *config.name) || is_well_known(context, &config.name))
}

/// Whether services of a namespace can refer to a config.
fn is_in_reach(context: &Context, namespace: Namespace<&str>, config: &Key) -> bool {
    [namespace, context.args.system_namespace.as_deref()].contains(&config.namespace.as_deref())
}

/// Returns up to `most` services that use a config, sorted by namespace and name. If the config is `deleting`, services that
/// would use it count too. A service counts until it no longer exists.
pub(crate) fn users_of(
    context: &Context,
    config: &Key,
    most: usize,
    deleting: bool,
) -> Vec<ServiceReference> {
    let anywhere = config.namespace == context.args.system_namespace;
    let namespace = (!anywhere).then_some(config.namespace.as_deref());
    let is_user = |within: Namespace<&str>, peer: &Peer| {
        uses(context, within, peer, config) || (deleting && would_use(context, within, peer, config))
    };
    let found = context.caches.inference_services.select(namespace, most, is_user);
    let mut users: Vec<ServiceReference> = found
        .iter()
        .map(|Key { namespace, name }| ServiceReference {
            name: name.to_string(),
            namespace: namespace.to_string(),
        })
        .collect();
    users.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    users
}

/// Whether a config is a preset of the platform.
pub(crate) fn is_preset(context: &Context, key: &Key) -> bool {
    key.namespace == context.args.system_namespace && is_well_known(context, &key.name)
}

/// Whether a config of that name is a preset.
fn is_well_known(context: &Context, name: &str) -> bool {
    let suffix = name.strip_prefix(&context.preset_names.prefix);
    suffix.is_some_and(|suffix| preset::shipped().any(|known| known == suffix))
}
