//! Routes to the back ends of services in the manifests, and what such a route asks of an engine that does not have it.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::{
    foreign::{
        httproute::{HTTPRoute, HTTPRouteMatch, HTTPRouteRule},
        reference::BackendObjectReference,
    },
    groups,
    v1alpha2::LLMInferenceServiceSpec,
};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Plan, Snapshot, names};
use regex::Regex;

use super::{SubjectPlan, absent::ManifestObjects, attachment::of_gateway_api};
use crate::{
    finding::{Advice, Finding, ObjectName, Source},
    pods::{is_vllm, main_containers, words},
    scene::Scene,
    stored::StoredManifest,
};

/// The first parts of the paths of vLLM's API. Some exist only with a flag, or with VLLM_SERVER_DEV_MODE.
const PATHS: [&str; 36] = [
    "adapters",
    "classify",
    "collective_rpc",
    "detokenize",
    "docs",
    "generative_scoring",
    "health",
    "inference",
    "invocations",
    "is_paused",
    "is_scaling_elastic_ep",
    "is_sleeping",
    "kv_event_sources",
    "load",
    "metrics",
    "openapi.json",
    "pause",
    "ping",
    "pooling",
    "redoc",
    "rerank",
    "reset_encoder_cache",
    "reset_mm_cache",
    "reset_prefix_cache",
    "resume",
    "scale_elastic_ep",
    "score",
    "server_info",
    "sleep",
    "start_profile",
    "stop_profile",
    "tokenize",
    "v1",
    "v2",
    "version",
    "wake_up",
];

/// The back ends of services: pools, and Services with their ports.
struct BackEnds<'a> {
    own: BTreeMap<(&'static str, Key), BackEnd>,
    /// The manifests, which may have further Services.
    snapshot: &'a Snapshot,
}

#[derive(Default)]
struct BackEnd {
    /// The ports of a Service; none of a pool.
    ports: Vec<i32>,
    /// The API groups in which there is a pool of this name; none of a Service.
    groups: Vec<&'static str>,
    /// Whether vLLM answers there, with the paths that it has by itself.
    is_vllm: bool,
}

/// Returns a note for each HTTPRoute in the manifests with Gateways or back ends that neither the manifests have nor, as `is_made`
/// says, services make.
pub(super) fn missing(
    sound: &[StoredManifest],
    given: &ManifestObjects,
    is_made: impl Fn(&'static str, &Key) -> bool,
) -> Vec<Finding> {
    let notes = of_gateway_api(sound).filter_map(|(one, route)| {
        let name = one.object_name();
        given.note_of_route(&one.document, &name, &route, &is_made)
    });
    notes.collect()
}

/// Returns an error for each back end of HTTPRoutes in the manifests that no gateway sends requests to.
pub(super) fn without_back_ends(sound: &[StoredManifest]) -> Vec<Finding> {
    let of_route = |(one, route): (&StoredManifest, HTTPRoute)| {
        let name = one.object_name();
        no_back_ends("spec", &route.spec.rules).map(|found| at(one, &name, found)).collect::<Vec<_>>()
    };
    of_gateway_api(sound).flat_map(of_route).collect()
}

/// Returns findings about the HTTPRoutes in the manifests.
pub(super) fn of_files(
    scene: &Scene,
    plans: &[SubjectPlan<'_>],
    sound: &[StoredManifest],
    given: &ManifestObjects,
) -> Vec<Finding> {
    let mut back_ends = BackEnds::new(scene.snapshot());
    let mut made: BTreeSet<Key> = BTreeSet::new();
    // Why a service has no plan is said about the service.
    for planned in plans.iter().filter_map(|(_, planned)| planned.as_ref().ok()) {
        made.extend(planned.plan.children.http_routes.iter().map(Key::of));
        planned.effective.iter().for_each(|effective| back_ends.add(&effective.spec, &planned.plan));
    }
    let mut all = Vec::new();
    if plans.iter().all(|(_, planned)| planned.is_ok()) {
        // An installation has the Gateway of the platform.
        let platform = &scene.snapshot().platform.ingress.gateway;
        all.extend(missing(sound, given, |kind, key| {
            back_ends.own.contains_key(&(kind, key.clone())) || (kind, key) == ("Gateway", platform)
        }));
    }
    // The controller's own, as `render` prints it, is no mistake of a user.
    for (one, route) in of_gateway_api::<HTTPRoute>(sound).filter(|(one, _)| !made.contains(&one.key())) {
        let name = one.object_name();
        let found = back_ends.judge(Namespace::of(&route.metadata), &route.spec.rules, "spec", false);
        all.extend(found.into_iter().map(|found| at(one, &name, found)));
    }
    all
}

fn at(one: &StoredManifest, name: &ObjectName, found: Advice) -> Finding {
    Finding::at(&one.document, name, &found.path, Source::Plan).with_advice(found)
}

/// Returns advice about the route in the spec of a service.
pub(super) fn of_service(
    snapshot: &Snapshot,
    namespace: Namespace<&str>,
    spec: &LLMInferenceServiceSpec,
    plan: &Plan,
) -> Vec<Advice> {
    let Some(route) = own_route(spec) else { return Vec::new() };
    let mut back_ends = BackEnds::new(snapshot);
    back_ends.add(spec, plan);
    let path = "spec.router.route.http.spec";
    let mut found = back_ends.judge(namespace, route, path, serves_own_paths(spec));
    found.extend(no_back_ends(path, route));
    found
}

fn own_route(spec: &LLMInferenceServiceSpec) -> Option<&[HTTPRouteRule]> {
    Some(&spec.route()?.http.as_ref()?.spec.as_ref()?.rules)
}

// === impl BackEnds ===

impl<'a> BackEnds<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { own: BTreeMap::new(), snapshot }
    }

    fn add(&mut self, spec: &LLMInferenceServiceSpec, plan: &Plan) {
        let (children, is_vllm) = (&plan.children, serves_own_paths(spec));
        for service in &children.services {
            let ports =
                service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).map(|port| port.port);
            let back_end = BackEnd { ports: ports.collect(), is_vllm, ..BackEnd::default() };
            self.own.insert(("Service", Key::of_metadata(&service.metadata)), back_end);
        }
        let new = children.inference_pools.iter().map(|pool| (groups::POOL, &pool.metadata));
        let old = children.inference_pools_x.iter().map(|pool| (groups::OLD_POOL, &pool.metadata));
        for (group, metadata) in new.chain(old) {
            let pool = self.own.entry(("InferencePool", Key::of_metadata(metadata))).or_default();
            pool.groups.push(group);
            pool.is_vllm = is_vllm;
        }
    }

    fn is_external(&self, key: &Key) -> bool {
        let service = self.snapshot.services.get(key.namespace.as_deref(), key.name.as_deref());
        let spec = service.and_then(|service| service.spec.as_ref());
        spec.is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"))
    }

    /// Judges the rules of a route, at this path. `without_is_vllm` says whether a rule without back ends leads to vLLM.
    fn judge(
        &self,
        namespace: Namespace<&str>,
        rules: &[HTTPRouteRule],
        path: &str,
        without_is_vllm: bool,
    ) -> Vec<Advice> {
        let mut all = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let path = format!("{path}.rules[{at}]");
            all.extend(without_weight(&path, rule));
            let mut to_vllm = without_is_vllm && rule.backend_refs.is_empty();
            for (at, reference) in rule.backend_refs.iter().enumerate() {
                let backend = &reference.backend;
                let kind = match backend.kind.as_deref() {
                    None | Some("Service") => "Service",
                    Some("InferencePool") => "InferencePool",
                    Some(_) => continue,
                };
                let key =
                    Key::new(backend.namespace.as_deref().map_or(namespace, Namespace), Name(&*backend.name));
                if kind == "Service" && self.is_external(&key) {
                    all.push(external(&format!("{path}.backendRefs[{at}].name"), &backend.name));
                }
                let Some(known) = self.own.get(&(kind, key)) else { continue };
                // A filter of a back end may rewrite the path, as one of the rule may.
                to_vllm |= known.is_vllm && reference.filters.is_empty();
                all.extend(old_group(&format!("{path}.backendRefs[{at}].group"), backend, &known.groups));
                if let Some(port) = backend.port
                    && !known.ports.is_empty()
                    && !known.ports.contains(&port)
                {
                    all.push(wrong_port(
                        &format!("{path}.backendRefs[{at}].port"),
                        &backend.name,
                        port,
                        &known.ports,
                    ));
                }
            }
            // An ExtensionRef may do anything.
            let is_changed = |kind: &str| matches!(kind, "URLRewrite" | "RequestRedirect" | "ExtensionRef");
            let keeps_path = !rule.filters.iter().any(|filter| is_changed(&filter.type_));
            for (at, matching) in rule.matches.iter().enumerate() {
                let path = format!("{path}.matches[{at}]");
                all.extend(expressions(&path, matching));
                if to_vllm && keeps_path {
                    all.extend(unknown_path(&format!("{path}.path.value"), matching));
                }
            }
        }
        all
    }
}

/// Returns a warning about a pool in the older group, which there is only beside older Gateways, or not at all.
fn old_group(path: &str, backend: &BackendObjectReference, made: &[&'static str]) -> Option<Advice> {
    let is_old = backend.group.as_deref() == Some(groups::OLD_POOL);
    let why = if made.contains(&groups::OLD_POOL) {
        "the older group of InferencePools, which newer Gateways and `longboat up` do not serve"
    } else {
        "in which the service has no InferencePool"
    };
    (is_old && made.contains(&groups::POOL)).then(|| {
        Advice::warning(
            path,
            "OldPoolGroup",
            format!("is {}, {why}: requests get 500", groups::OLD_POOL),
            format!("write `group: {}`", groups::POOL),
        )
    })
}

/// Whether all engines are vLLM, at the root of its server.
fn serves_own_paths(spec: &LLMInferenceServiceSpec) -> bool {
    main_containers(spec).all(|(_, main)| {
        let values = main.env.iter().flatten().filter_map(|variable| variable.value.as_deref());
        is_vllm(main) && !words(main).chain(values).any(|word| word.contains("--root-path"))
    })
}

/// Returns a warning about a rule whose back ends all have the weight 0.
fn without_weight(path: &str, rule: &HTTPRouteRule) -> Option<Advice> {
    let is_empty = rule.backend_refs.is_empty();
    (!is_empty && rule.backend_refs.iter().all(|reference| reference.weight == Some(0))).then(|| {
        Advice::warning(
            format!("{path}.backendRefs"),
            "NoWeight",
            "has no back end with a weight above 0: every request gets 500",
            "raise the weight of one of them, or remove it",
        )
    })
}

fn no_back_ends(path: &str, rules: &[HTTPRouteRule]) -> impl Iterator<Item = Advice> {
    let rules = rules.iter().enumerate();
    rules.flat_map(move |(rule_at, rule)| {
        let path = format!("{path}.rules[{rule_at}].backendRefs");
        let references = rule.backend_refs.iter().enumerate();
        references
            .filter_map(move |(at, reference)| no_back_end(&format!("{path}[{at}]"), &reference.backend))
    })
}

/// Returns an error about a reference to what no gateway sends requests to. Gateways have kinds of their own, in their groups.
fn no_back_end(path: &str, backend: &BackendObjectReference) -> Option<Advice> {
    let kind = backend.kind.as_deref().unwrap_or("Service");
    let group = backend.group.as_deref().unwrap_or_default();
    let name = &backend.name;
    let hint = match (group, kind) {
        ("", "Service") => return None,
        ("", "InferencePool") => "add `group: inference.networking.k8s.io`".to_owned(),
        (_, "Service") => "remove `group`: that of a Service is empty".to_owned(),
        (_, "InferenceService") => format!("write `kind: Service`, `name: {name}-predictor`, and its port"),
        (_, "LLMInferenceService") => format!(
            "write `group: inference.networking.k8s.io`, `kind: InferencePool` and `name: {}`, or `kind: Service`, `name: {}` and `port: \
             8000`",
            names::pool(Name(name)),
            names::workload_service(Name(name)),
        ),
        ("" | "apps" | "leaderworkerset.x-k8s.io", _) => {
            "write the Service in front of its pods, with its port; a kind of your gateway needs its `group`"
                .to_owned()
        }
        _ => return None,
    };
    let of_group =
        if group.is_empty() { "without a group".to_owned() } else { format!("of the group {group}") };
    Some(Advice::error(
        format!("{path}.kind"),
        "InvalidKind",
        format!("is {kind} {of_group}, to which no gateway sends requests: they get 500"),
        hint,
    ))
}

fn external(path: &str, service: &str) -> Advice {
    Advice::warning(
        path,
        "ExternalName",
        format!(
            "is {service}, a Service of type ExternalName, which has no endpoints: the Gateway API advises gateways against it, so \
             requests may get 500 or 503"
        ),
        "name a Service with a selector, or one with an EndpointSlice of your own",
    )
}

fn wrong_port(path: &str, service: &str, port: i32, known: &[i32]) -> Advice {
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    Advice::warning(
        path.to_owned(),
        "PortNotFound",
        format!("is {port}, which Service {service} does not have: requests get 500 or 503"),
        format!("write {}", known.join(" or ")),
    )
}

/// Returns a warning about a path that vLLM does not have.
fn unknown_path(path: &str, matching: &HTTPRouteMatch) -> Option<Advice> {
    let wanted = matching.path.as_ref()?;
    let kind = wanted.type_.as_deref().unwrap_or("PathPrefix");
    let value = wanted.value.as_deref().filter(|_| kind != "RegularExpression")?;
    let first = value.trim_start_matches('/').split('/').next().unwrap_or_default();
    if first.is_empty() || PATHS.contains(&first) {
        return None;
    }
    let hint = if kind == "PathPrefix" {
        "add the filter `{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}` to the rule"
    } else {
        "add a filter URLRewrite to the rule"
    };
    Some(Advice::warning(
        path.to_owned(),
        "PathNotRewritten",
        format!("is \"{value}\", and the rule does not rewrite it: vLLM has no such path, and answers 404"),
        hint.to_owned(),
    ))
}

/// Returns a warning for each expression that does not compile.
fn expressions(path: &str, matching: &HTTPRouteMatch) -> Vec<Advice> {
    const KIND: Option<&str> = Some("RegularExpression");
    let of_path = matching.path.iter().filter(|path| path.type_.as_deref() == KIND);
    let of_path = of_path.filter_map(|path| Some(("path.value".to_owned(), path.value.as_deref()?)));
    let headers = matching.headers.iter().enumerate().filter(|(_, header)| header.type_.as_deref() == KIND);
    let headers = headers.map(|(at, header)| (format!("headers[{at}].value"), &*header.value));
    let all = of_path.chain(headers).filter_map(|(field, text)| {
        let error = Regex::new(text).err()?.to_string();
        let problem = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Some(Advice::warning(
            format!("{path}.{field}"),
            "NoExpression",
            format!("is {text:?}, which is no regular expression ({problem}): no Gateway takes the route"),
            "correct it, or match exactly",
        ))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::PATHS;

    #[test]
    fn the_paths_that_vllm_describes_are_known() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vllm/answers.json");
        let answers: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let described = answers["answers"]["get /openapi.json"]["body"]["paths"].as_object().unwrap();
        for path in described.keys() {
            let first = path.split('/').nth(1).unwrap();
            assert!(PATHS.contains(&first), "{path}");
        }
    }
}
