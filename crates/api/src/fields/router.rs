//! Route, Gateways, Ingresses, pool and picker: rows below `spec`.

use serde_json::Value;

use super::row::{Row, Site};
use crate::{
    foreign::httproute::HTTPRouteRule,
    labels,
    names::MAIN_CONTAINER,
    picker_config::{FORMER_VERSION, OLDEST_VERSION, is_config_flag, plugin_types},
    picker_plugins,
    v1alpha2::{RouterSpec, SchedulerSpec},
};

pub(super) const ROWS: &[Row] = &[
    Row::with_effect("router.route.http.refs[].name", "the HTTPRoutes that lead to the service"),
    Row::with_effect("router.route.http.spec", "the managed HTTPRoute, merged over the preset's").with_warning(rules_without_backend),
    Row::with_effect("router.route.group", "the group whose members share their traffic"),
    Row::with_effect("router.route.weight", "weight of the service's back end in the routes of its group"),
    Row::with_effect("router.gateway.refs[].name", "parent of the managed HTTPRoute").with_warning(|site| {
        let router = site.spec.router.as_ref()?;
        let refs = router.gateway.as_ref()?.refs.as_slice();
        (!refs.is_empty()).then_some(())?;
        if router.route.as_ref().is_some_and(|route| !route.refs().is_empty()) {
            return site.note(
                "router.gateway.refs",
                "has no effect on routes of your own (spec.router.route.http.refs): they name their Gateways themselves",
            );
        }
        (site.whole && router.route.is_none()).then_some(())?;
        site.note("router.gateway.refs", "has no effect without spec.router.route: no route attaches to the Gateway")
    }),
    Row::with_effect("router.gateway.refs[].namespace", "parent of the managed HTTPRoute"),
    Row::with_effect("router.gateway.refs[].sectionName", "parent of the managed HTTPRoute"),
    Row::ignored("router.ingress.refs[].name", "Ingresses are not managed; group and weight exclude them (V4)", |site| {
        router(site)?.ingress.as_ref()?;
        site.note("router.ingress", "has no effect: Ingresses are neither made nor changed, use spec.router.route")
    }),
    // Said by the row above, once for all Ingresses.
    Row::ignored("router.ingress.refs[].namespace", "as the name", |_| None),
    Row::with_effect("router.scheduler.pool.ref.name", "the InferencePool that the route leads to").with_warning(|site| {
        site.scheduler()?.pool.as_ref()?.ref_.as_ref().filter(|reference| reference.name.is_empty())?;
        site.note("router.scheduler.pool.ref", "has no effect without a name: the service gets a pool of its own")
    }),
    Row::with_effect("router.scheduler.pool.spec", "the managed InferencePool, merged over the preset's").with_warning(|site| {
        external(site, "router.scheduler.pool.spec", |scheduler| {
            scheduler.pool.as_ref().is_some_and(|pool| pool.spec.is_some())
        })
    }),
    Row::with_effect("router.scheduler.template", "the picker's pod, merged over the preset's")
        .with_warning(|site| {
            external(site, "router.scheduler.template", |scheduler| scheduler.template.is_some())
                .or_else(|| configured_twice(site))
                .or_else(|| extra_picker_container(site))
        }),
    Row::with_effect("router.scheduler.labels", "labels of the picker's pods").with_warning(|site| {
        let reserved = [labels::NAME, labels::PART_OF, labels::COMPONENT];
        let taken = reserved.iter().find(|key| site.scheduler().is_some_and(|s| s.labels.contains_key(**key)));
        external(site, "router.scheduler.labels", |scheduler| !scheduler.labels.is_empty()).or_else(|| {
            let text = format!("sets {}, by which the pods of the picker are found: use another key", taken?);
            site.note("router.scheduler.labels", &text)
        })
    }),
    Row::with_effect("router.scheduler.annotations", "annotations of the picker's pods")
        .with_warning(|site| external(site, "router.scheduler.annotations", |scheduler| !scheduler.annotations.is_empty())),
    Row::with_effect("router.scheduler.config.inline", "--config-text of the picker").with_warning(|site| {
        external(site, "router.scheduler.config", |scheduler| scheduler.config.is_some()).or_else(|| aliases(site))
    }),
    // With somebody else's pool the row above speaks for the whole configuration.
    Row::with_effect("router.scheduler.config.ref.name", "--config-text of the picker, from the ConfigMap"),
    Row::with_effect("router.scheduler.config.ref.key", "the key of the ConfigMap; empty means epp"),
    Row::ignored(
        "router.scheduler.config.ref.optional",
        "a ConfigMap that is missing is always a condition",
        |site| {
            site.scheduler()?.config.as_ref()?.ref_.as_ref()?.optional.filter(|optional| *optional)?;
            site.note(
                "router.scheduler.config.ref.optional",
                "has no effect: the ConfigMap and the key must exist, else the service is not ready",
            )
        },
    ),
    Row::with_effect("router.scheduler.replicas", "replicas of the picker, of which one is active")
        .with_warning(|site| external(site, "router.scheduler.replicas", |scheduler| scheduler.replicas.is_some())),
    Row::with_effect("router.scheduler.tokenizer.template", "the tokenizer's pod, merged over the preset's").with_warning(|site| {
        external(site, "router.scheduler.tokenizer", |scheduler| scheduler.tokenizer.is_some())
    }),
];

/// Names in the picker's configuration that were replaced, and by what.
const ALIASES: [(&str, &str); 4] = [
    (picker_plugins::PREFILL_HEADER_HANDLER, picker_plugins::DISAGG_HEADERS_HANDLER),
    (picker_plugins::PD_HANDLER, picker_plugins::DISAGG_HANDLER),
    (picker_plugins::OLD_METRICS_EXTRACTOR, picker_plugins::METRICS_EXTRACTOR),
    (picker_plugins::PRECISE_SCORER, "precise-prefix-cache-producer with prefix-cache-scorer"),
];

fn router<'a>(site: &Site<'a>) -> Option<&'a RouterSpec> {
    site.spec.router.as_deref()
}

/// What is set of a picker that is not ours to run.
fn external(site: &Site<'_>, path: &str, is_set: fn(&SchedulerSpec) -> bool) -> Option<String> {
    (site.pool_is_external() && is_set(site.scheduler()?)).then_some(())?;
    site.note(path, "has no effect with spec.router.scheduler.pool.ref: that pool has a picker of its own")
}

/// A flag for the picker's configuration beside the field for it.
fn configured_twice(site: &Site<'_>) -> Option<String> {
    let scheduler = site.scheduler()?;
    scheduler.config.as_ref()?;
    let containers = scheduler.template.as_ref()?.containers.iter().enumerate();
    containers.filter(|(_, container)| container.name == MAIN_CONTAINER).find_map(|(at, main)| {
        let mut flags = main.args.iter().flatten().filter_map(|word| word.split('=').next());
        let flag = flags.find(|flag| is_config_flag(flag))?;
        let path = format!("router.scheduler.template.containers[{at}].args");
        let text = format!(
            "has {flag}, which has no effect beside spec.router.scheduler.config: remove one of them"
        );
        site.note(&path, &text)
    })
}

/// A container that was probably meant to be the picker. The preset's picker runs as well, without what this one sets.
fn extra_picker_container(site: &Site<'_>) -> Option<String> {
    /// Parts of the names of the pickers' images.
    const IMAGES: [&str; 3] = ["endpoint-picker", "inference-scheduler", "/epp:"];
    let containers = &site.scheduler().filter(|_| site.whole)?.template.as_ref()?.containers;
    if containers.iter().any(|container| container.name == MAIN_CONTAINER) {
        return None;
    }
    let at = containers.iter().position(|container| {
        let image = container.image.as_deref().unwrap_or_default();
        IMAGES.iter().any(|picker| image.contains(picker))
    })?;
    let text = format!(
        "has the image of a picker, and runs beside the container {MAIN_CONTAINER} of the preset: did you mean `{MAIN_CONTAINER}`?"
    );
    site.note(&format!("router.scheduler.template.containers[{at}].name"), &text)
}

/// Old names, which are still understood.
fn aliases(site: &Site<'_>) -> Option<String> {
    let parsed;
    let config = match site.scheduler()?.config.as_ref()?.inline.as_ref()? {
        // The schema takes no text, but not every caller has checked it.
        Value::String(text) => {
            parsed = serde_saphyr::from_str(text).ok()?;
            &parsed
        }
        inline => inline,
    };
    let old = plugin_types(config).find_map(|kind| ALIASES.iter().find(|(old, _)| *old == kind));
    if let Some((old, new)) = old {
        let text = format!("uses the deprecated plugin {old}: it is read as {new}");
        return site.note("router.scheduler.config.inline", &text);
    }
    (config.get("apiVersion")? == OLDEST_VERSION).then_some(())?;
    let text = format!("has the deprecated apiVersion {OLDEST_VERSION}: it is read as {FORMER_VERSION}");
    site.note("router.scheduler.config.inline", &text)
}

/// Rules replace the preset's as a whole, and the API server fills in one for everything where there are none. Those that
/// lead nowhere get the back end of the managed route.
fn rules_without_backend(site: &Site<'_>) -> Option<String> {
    let spec = router(site)?.route.as_ref()?.http.as_ref()?.spec.as_ref()?;
    let at = spec.rules.iter().position(HTTPRouteRule::has_no_destination)?;
    // Who wrote no rules does not know this one.
    let added = if spec.rules.len() == 1 {
        " (the API server adds such a rule to a route without rules)"
    } else {
        ""
    };
    site.note(
        &format!("router.route.http.spec.rules[{at}]"),
        &format!(
            "has no backendRefs{added}: it gets those of the managed route, the InferencePool or the Service of this \
             service; all other rules of the preset are replaced"
        ),
    )
}
