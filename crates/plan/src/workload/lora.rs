//! LoRA adapters: the arguments that name them to the server, and the volumes that hold them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
};
use longboat_api::{
    annotations::{LOCAL_MODEL_LORA, NODE_GROUP},
    child_name,
    engine::{Engine, LoraFlags},
    foreign::localmodelcache::LocalModelCacheStatus,
    safe_name::safe_object_name,
};
use longboat_compose::{Adapter, AdapterSource};
use longboat_key::{Name, Namespace};
use serde::Deserialize;

use super::{
    account,
    storage::{MAIN, add_mount, add_volume, cached, container_mut},
};
use crate::context::Context;

/// The start of the names of volumes that are for adapters only.
const VOLUME_PREFIX: &str = "lora-";

/// The cache of an adapter, as admission writes it into the annotation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheEntry {
    /// Name of the LocalModelCache, or of the LocalModelNamespaceCache.
    cache: String,
    /// Namespace of a LocalModelNamespaceCache.
    namespace: String,
    /// The group of nodes, if it is another one than that of the service's annotation or the first of the cache.
    node_group: String,
    /// The claim. Former versions of KServe (`pvcName`) and of Longboat wrote it.
    #[serde(alias = "pvcName")]
    claim: String,
    /// The address that the cache has. Written together with the claim.
    source_uri: String,
}

// === impl CacheEntry ===

impl CacheEntry {
    /// The claim with the adapter, and the address that the cache has.
    fn resolve(&self, context: &Context) -> Result<(String, String), String> {
        if !self.claim.is_empty() && !self.source_uri.is_empty() {
            return Ok((self.claim.clone(), self.source_uri.clone()));
        }
        let Self { cache, namespace, node_group, .. } = self;
        let (snapshot, name) = (context.snapshot, Name(cache.as_str()));
        let (kind, spec, status) = if namespace.is_empty() {
            let found = snapshot.local_model_caches.get(Namespace(""), name);
            let kind = format!("LocalModelCache {cache}");
            (kind, found.map(|found| &found.spec), found.and_then(|found| found.status.as_ref()))
        } else {
            let found = snapshot.local_model_namespace_caches.get(Namespace(namespace), name);
            let kind = format!("LocalModelNamespaceCache {namespace}/{cache}");
            (kind, found.map(|found| &found.spec), found.and_then(|found| found.status.as_ref()))
        };
        let Some(spec) = spec else {
            return Err(format!(
                "cannot get {kind}, which is in annotation {LOCAL_MODEL_LORA}: it does not exist; create it, or change the \
                 service, so that admission writes the annotation again"
            ));
        };
        let source = spec.source_model_uri.clone();
        if let Some(claim) = spec.shared_claim() {
            if status.is_some_and(LocalModelCacheStatus::is_ready) {
                return Ok((claim.to_owned(), source));
            }
            return Err(format!(
                "{kind} is not ready: its model is not on PersistentVolumeClaim {claim} yet"
            ));
        }
        let annotations = context.service.metadata.annotations.as_ref();
        let group = Some(node_group)
            .filter(|group| !group.is_empty())
            .or_else(|| annotations.and_then(|all| all.get(NODE_GROUP)))
            .or_else(|| spec.node_groups.first())
            .ok_or_else(|| format!("{kind} has no node group: set its spec.nodeGroups"))?;
        Ok((format!("{cache}-{group}"), source))
    }
}

/// The adapters of the composed spec, by name. Those that are cached on nodes are on the claim of their cache.
pub(super) fn adapters(context: &Context) -> Result<Vec<Adapter>, String> {
    let mut adapters = longboat_compose::adapters(context.spec).map_err(|error| error.to_string())?;
    let annotations = context.service.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(LOCAL_MODEL_LORA)).filter(|text| !text.is_empty())
    else {
        return Ok(adapters);
    };
    let caches: BTreeMap<String, CacheEntry> = serde_json::from_str(text)
        .map_err(|error| format!("annotation {LOCAL_MODEL_LORA} cannot be read: {error}"))?;
    for adapter in &mut adapters {
        let Some(entry) = caches.get(&adapter.name) else { continue };
        let found = entry.resolve(context);
        let (claim, source_uri) =
            found.map_err(|problem| format!("LoRA adapter {:?}: {problem}", adapter.name))?;
        if adapter.address.as_str().starts_with(source_uri.trim_end_matches('/')) {
            adapter.address = cached(&adapter.address, &source_uri, &claim);
            adapter.source = AdapterSource::Claim;
        }
    }
    Ok(adapters)
}

/// Mounts the adapters that are on persistent volume claims. `live` is the pod spec that runs now: it keeps its volumes, so that
/// no pod restarts just because a new pod would have others.
pub(super) fn mount_claims(pod: &mut PodSpec, adapters: &[Adapter], live: Option<&PodSpec>) {
    let Some(main) = container_mut(pod, MAIN) else { return };
    let mounts = main.volume_mounts.clone().unwrap_or_default();
    // What the workload mounts at the path of an adapter is the adapter. An API server takes a path with a slash at its end for
    // another one, but two mounts at one place would hide each other.
    let is_mounted = |adapter: &&Adapter| {
        mounts.iter().any(|mount| mount.mount_path.trim_end_matches('/') == adapter.mount_path)
    };
    let of_claims: Vec<&Adapter> = adapters
        .iter()
        .filter(|adapter| adapter.source == AdapterSource::Claim && !is_mounted(adapter))
        .collect();
    for adapter in &of_claims {
        let (claim, path) = (adapter.address.host(), adapter.address.path());
        let of_claim = |volume: &&Volume| {
            volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == claim)
        };
        let present = || pod.volumes.iter().flatten().find(of_claim).map(|volume| volume.name.clone());
        let is_free = |name: &String| {
            pod.volumes.iter().flatten().all(|volume| volume.name != *name || of_claim(&volume))
        };
        let running = live_volume(live, adapter).filter(is_free);
        let name = running.or_else(present).unwrap_or_else(|| {
            let mut names = [("lora-pvc-", &*adapter.name), ("lora-claim-", claim)]
                .map(|(prefix, of)| safe_object_name(&child_name(prefix, of)));
            if of_claims.iter().filter(|other| other.address.host() == claim).count() > 1 {
                names.reverse();
            }
            // The other name is for pods where the workload has a volume of this name with something else in it.
            let index = usize::from(!is_free(&names[0]) && is_free(&names[1]));
            names[index].clone()
        });
        let Some(main) = container_mut(pod, MAIN) else { return };
        let mount = VolumeMount {
            name: name.clone(),
            mount_path: adapter.mount_path.clone(),
            sub_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        add_mount(main, mount);
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), read_only: None };
        add_volume(pod, Volume { name, persistent_volume_claim: Some(source), ..Volume::default() });
    }
}

/// The volume through which a running pod has an adapter.
fn live_volume(live: Option<&PodSpec>, adapter: &Adapter) -> Option<String> {
    let live = live?;
    let main = live.containers.iter().find(|container| container.name == MAIN)?;
    let mut mounts = main.volume_mounts.iter().flatten();
    let mount = mounts
        .find(|mount| mount.mount_path == adapter.mount_path && mount.name.starts_with(VOLUME_PREFIX))?;
    let volume = live.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    let claim = &volume.persistent_volume_claim.as_ref()?.claim_name;
    (claim == adapter.address.host()).then(|| volume.name.clone())
}

/// Prepends the flags for adapters to the server's arguments, unless the user loads adapters in their own way. If the engine does
/// not know adapters by the model of a request, the routing sidecar tells it the adapter.
/// `takes_more`: whether the engine must be ready for adapters that come later.
pub(super) fn enable(context: &Context, pod: &mut PodSpec, adapters: &[Adapter], takes_more: bool) {
    let engine = Engine::of_spec(context.spec);
    let Some(flags) = &engine.lora else { return };
    // A hand-written pod without the sidecar has its own way to its adapters.
    let has_sidecar = context.spec.workload.template.as_deref().is_some_and(account::has_routing_sidecar);
    if (adapters.is_empty() && !takes_more) || (flags.request_field.is_some() && !has_sidecar) {
        return;
    }
    let Some(main) = container_mut(pod, MAIN).filter(|main| !loads_its_own(main, engine, flags)) else {
        return;
    };
    let limits = context.spec.model.lora.as_ref();
    let flag = |name: &str, value: Option<i32>| value.map(|value| format!("{name}={value}"));
    let mut args = vec![flags.enable.to_owned()];
    args.extend(flag(flags.max_rank, limits.and_then(|limits| limits.max_rank)));
    args.extend(flag(flags.max_adapters, limits.and_then(|limits| limits.max_adapters)));
    args.extend(flag(flags.max_cpu_adapters, limits.and_then(|limits| limits.max_cpu_adapters)));
    if !adapters.is_empty() {
        args.push(flags.modules.to_owned());
    }
    let [name_field, path_field] = flags.module_fields;
    for adapter in adapters {
        let path = json_string(adapter.mount_path.as_str());
        // If the sidecar names the adapter, one name is enough, because each name takes memory.
        let published = flags.request_field.is_none().then(|| context.published_name(&adapter.name));
        for name in std::iter::once(adapter.name.clone()).chain(published) {
            let module = format!("{{\"{name_field}\":{},\"{path_field}\":{path}}}", json_string(&name));
            // A shell that evaluates the arguments once more removes the single quotes.
            args.push(if flags.is_evaluated { format!("'{module}'") } else { module });
        }
    }
    args.append(main.args.get_or_insert_default());
    main.args = Some(args);
    if let Some(field) = flags.request_field {
        name_adapters(context, pod, adapters, field);
    }
}

/// Lets the routing sidecar set `field` of each request for an adapter.
fn name_adapters(context: &Context, pod: &mut PodSpec, adapters: &[Adapter], field: &str) {
    let mut sidecars = pod.init_containers.iter_mut().flatten();
    let Some(sidecar) = sidecars.find(|container| container.name == account::ROUTING_SIDECAR) else { return };
    let of_adapter = |adapter: &Adapter| {
        let fields = format!("{{\"{field}\":{}}}", json_string(&adapter.name));
        let names = [adapter.name.clone(), context.published_name(&adapter.name)];
        names.map(|name| format!("{}:{fields}", json_string(&name)))
    };
    let models: Vec<String> = adapters.iter().flat_map(of_adapter).collect();
    let args = sidecar.args.get_or_insert_default();
    args.push(format!("--model-fields={{{}}}", models.join(",")));
}

/// A text as a JSON string that is safe between the single quotes of a shell, and in which the kubelet finds no `$(NAME)`.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\'', r"\u0027").replace('$', r"\u0024")
}

pub(super) fn loads_its_own(main: &Container, engine: &Engine, flags: &LoraFlags) -> bool {
    let words = main.command.iter().chain(&main.args).flatten();
    let literal = main
        .env
        .iter()
        .flatten()
        .filter(|variable| engine.arguments == Some(variable.name.as_str()))
        .filter_map(|variable| variable.value.as_ref());
    words.chain(literal).any(|text| text.contains(flags.modules))
}

#[cfg(test)]
mod tests {
    use longboat_api::v1alpha2::LLMInferenceServiceSpec;
    use longboat_compose::adapters;
    use serde_json::{Value, json};

    use super::*;

    /// Returns `VOLUME CLAIM` for each volume, and `PATH VOLUME SUBPATH` for each mount of the container that serves.
    fn mounted(pod: Value, named: &[(&str, &str)], live: Option<&PodSpec>) -> (PodSpec, Vec<String>) {
        let named: Vec<Value> = named.iter().map(|(name, uri)| json!({"name": name, "uri": uri})).collect();
        let spec = json!({"model": {"uri": "hf://o/m", "name": "m", "lora": {"adapters": named}}});
        let spec: LLMInferenceServiceSpec = serde_json::from_value(spec).unwrap();
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        mount_claims(&mut pod, &adapters(&spec).unwrap(), live);
        let volumes = pod.volumes.iter().flatten().map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref().map_or("", |source| &*source.claim_name);
            format!("{} {claim}", volume.name)
        });
        let mounts = pod.containers[0].volume_mounts.iter().flatten().map(|mount| {
            format!("{} {} {}", mount.mount_path, mount.name, mount.sub_path.as_deref().unwrap_or_default())
        });
        let all = volumes.chain(mounts).collect();
        (pod, all)
    }

    fn empty() -> Value {
        json!({"containers": [{"name": "main"}]})
    }

    fn with_model() -> Value {
        json!({
            "containers": [{"name": "main", "volumeMounts": [{"name": "kserve-pvc-source", "mountPath": "/mnt/models"}]}],
            "volumes": [{"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "c"}}],
        })
    }

    #[test]
    fn a_claim_of_one_adapter_has_its_volume_and_a_shared_one_has_one_volume() {
        let (_, one) = mounted(empty(), &[("sql", "pvc://c/s"), ("Org/A.b", "pvc://d")], None);
        let odd = safe_object_name("lora-pvc-Org/A.b");
        assert_eq!(
            one,
            [
                format!("{odd} d"),
                "lora-pvc-sql c".into(),
                format!("/mnt/lora/Org-A.b {odd} "),
                "/mnt/lora/sql lora-pvc-sql s".into(),
            ]
        );
        let long = "this-is-a-really-long-lora-adapter-name-more-than-fifty-four-chars-long";
        let (pod, _) = mounted(empty(), &[(long, "pvc://c")], None);
        assert_eq!(
            pod.volumes.unwrap()[0].name,
            "lora-pvc-5d8eaf1abb940b210da12d4306b94f8ethis-is-a-really-long"
        );
        let (_, shared) = mounted(empty(), &[("b", "pvc://c/b"), ("a", "pvc://c/a"), ("x", "pvc://d")], None);
        assert_eq!(
            shared,
            [
                "lora-claim-c c",
                "lora-pvc-x d",
                "/mnt/lora/a lora-claim-c a",
                "/mnt/lora/b lora-claim-c b",
                "/mnt/lora/x lora-pvc-x ",
            ]
        );
        let (_, reused) = mounted(with_model(), &[("a", "pvc://c/a")], None);
        assert_eq!(
            reused,
            ["kserve-pvc-source c", "/mnt/models kserve-pvc-source ", "/mnt/lora/a kserve-pvc-source a"]
        );
    }

    #[test]
    fn a_mount_of_the_workload_at_the_path_of_an_adapter_is_left_alone() {
        for path in ["/mnt/lora/a", "/mnt/lora/a/"] {
            let mut own = empty();
            own["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": path}]);
            own["volumes"] = json!([{"name": "mine", "emptyDir": {}}]);
            let (_, found) = mounted(own, &[("a", "pvc://c/a"), ("b", "pvc://c/b")], None);
            let at = format!("{path} mine ");
            assert_eq!(found, ["mine ", "lora-pvc-b c", &at, "/mnt/lora/b lora-pvc-b b"]);
        }
    }

    #[test]
    fn a_volume_of_the_workload_is_not_taken_for_the_claim_because_of_its_name() {
        let mut own = empty();
        own["volumes"] = json!([{"name": "lora-pvc-a", "emptyDir": {}}]);
        let (_, found) = mounted(own, &[("a", "pvc://c/a")], None);
        assert_eq!(found, ["lora-pvc-a ", "lora-claim-c c", "/mnt/lora/a lora-claim-c a"]);
    }

    #[test]
    fn a_running_pod_keeps_the_volumes_that_it_has() {
        let mut live = with_model();
        live["containers"][0]["volumeMounts"] = json!([
            {"name": "kserve-pvc-source", "mountPath": "/mnt/models"},
            {"name": "lora-pvc-a", "mountPath": "/mnt/lora/a", "subPath": "a"},
            {"name": "lora-pvc-b", "mountPath": "/mnt/lora/b", "subPath": "b"},
        ]);
        for (name, claim) in [("lora-pvc-a", "c"), ("lora-pvc-b", "c")] {
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
            live["volumes"].as_array_mut().unwrap().push(volume);
        }
        let live: PodSpec = serde_json::from_value(live).unwrap();
        let (pod, _) = mounted(with_model(), &[("a", "pvc://c/a"), ("b", "pvc://c/b")], Some(&live));
        assert_eq!(pod.volumes, live.volumes);
        // An adapter that is now elsewhere is not looked for in the old claim.
        let (pod, found) = mounted(empty(), &[("a", "pvc://d/a")], Some(&live));
        assert_eq!(found, ["lora-pvc-a d", "/mnt/lora/a lora-pvc-a a"]);
        assert_eq!(pod.volumes.unwrap().len(), 1);
    }
}
