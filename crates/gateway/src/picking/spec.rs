//! Which pickers the gateway runs, and with which arguments.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_epp::Args;
use longboat_key::{Key, Name, Namespace};

use super::Picking;

/// The program of pickers, in any folder.
const PROGRAM: &str = "epp";

/// A picker to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PickerSpec {
    pub(super) pool: Key,
    /// The UID of the pod for which it picks. `None` for a pool that names no picker.
    pub(super) pod: Option<String>,
    /// Where it answers health checks and serves metrics.
    pub(super) address: Option<IpAddr>,
    /// The flags, as they follow the name of the program.
    pub(super) arguments: Vec<String>,
}

/// Returns all pickers to run.
pub(super) fn all<'a>(
    pools: impl Iterator<Item = &'a InferencePool>,
    pods: impl Iterator<Item = &'a Pod>,
    picking: Picking,
) -> Vec<PickerSpec> {
    let mut newest: Vec<&Pod> = pods.filter(|pod| may_be_replaced(pod, picking)).collect();
    newest.sort_by(|one, other| {
        let age = |pod: &&Pod| pod.metadata.creation_timestamp.clone();
        age(other).cmp(&age(one)).then_with(|| one.metadata.name.cmp(&other.metadata.name))
    });
    let mut specs: Vec<PickerSpec> = newest.into_iter().filter_map(|pod| of_pod(pod, picking)).collect();
    if picking == Picking::InGateway {
        // All pods of a pool have the same picker. One is enough here, and two would each know a part of the pool's load.
        let mut seen = std::collections::HashSet::new();
        specs.retain(|spec| seen.insert(spec.pool.clone()));
    }
    specs.extend(pools.filter_map(of_pool));
    specs
}

fn may_be_replaced(pod: &Pod, picking: Picking) -> bool {
    let status = pod.status.as_ref();
    let ended = status
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
    let ready = || {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    pod.metadata.deletion_timestamp.is_none()
        && !ended
        && match picking {
            Picking::InPods => false,
            // During a rollout, the former picker goes on until the new one is ready.
            Picking::InGateway => ready(),
            // The pod becomes ready because the gateway answers for it.
            Picking::ForPods => true,
        }
}

fn of_pod(pod: &Pod, picking: Picking) -> Option<PickerSpec> {
    let own = pod.spec.as_ref()?.containers.iter().find_map(arguments)?;
    let address = match picking {
        Picking::ForPods => Some(pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?),
        Picking::InPods | Picking::InGateway => None,
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let mut arguments = environment(address, Namespace::of(&pod.metadata), name);
    arguments.extend(own);
    // The pod itself ends with the error if its arguments cannot be read.
    let args = Args::parse(&arguments).ok()?;
    let pool = Key::new(Namespace(args.namespace()), Name(&args.pool_name));
    (!args.pool_name.is_empty()).then(|| PickerSpec {
        pool,
        pod: pod.metadata.uid.clone(),
        address,
        arguments,
    })
}

/// A pool that names no picker has the default one.
fn of_pool(pool: &InferencePool) -> Option<PickerSpec> {
    if !pool.spec.endpoint_picker_ref.name.is_empty() {
        return None;
    }
    let (namespace, name) = (Namespace::of(&pool.metadata), Name::of(&pool.metadata));
    let mut arguments = environment(None, namespace, "");
    arguments.extend([format!("--pool-name={name}"), format!("--pool-namespace={namespace}")]);
    Some(PickerSpec { pool: Key::new(namespace, name), pod: None, address: None, arguments })
}

/// The flags for what a picker otherwise reads from the environment of its pod. The gateway has another environment.
fn environment(address: Option<IpAddr>, namespace: Namespace<&str>, pod: &str) -> Vec<String> {
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    vec![
        format!("--bind-address={address}"),
        format!("--own-namespace={namespace}"),
        format!("--pod-name={pod}"),
        "--gateway-picks=false".to_owned(),
    ]
}

/// Returns the flags of a container that runs a picker. Flags that refer to variables are known in the pod only. The node of local
/// mode has the same rule (`longboat_node`, `container/launch.rs`).
fn arguments(container: &Container) -> Option<Vec<String>> {
    let (program, more) = container.command.as_ref()?.split_first()?;
    if program.rsplit('/').next() != Some(PROGRAM) {
        return None;
    }
    let words: Vec<String> = more.iter().chain(container.args.iter().flatten()).cloned().collect();
    (!words.iter().any(|word| word.contains("$("))).then_some(words)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
    fn pod(name: &str, created: &str, container: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
            "spec": {"containers": [{"name": "other", "command": ["sleep"]}, container]},
            "status": {"podIP": "127.0.0.7", "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    fn picker(name: &str, created: &str) -> Pod {
        let command = ["/app/epp", "--pool-name", "pool", "--pool-namespace", "ns", ""];
        let container = json!({"name": "main", "command": command, "args": ["--config-text", "kind: x"]});
        pod(name, created, container)
    }

    fn pools(specs: &[PickerSpec]) -> Vec<(String, Option<&str>)> {
        specs.iter().map(|spec| (spec.pool.to_string(), spec.pod.as_deref())).collect()
    }

    fn of_pods(pods: &[Pod], picking: Picking) -> Vec<PickerSpec> {
        all(std::iter::empty(), pods.iter(), picking)
    }

    #[test]
    fn each_pod_of_this_machine_has_its_picker_and_a_pool_of_a_cluster_one() {
        let pods = [picker("a", "2026-01-01T00:00:00Z"), picker("b", "2026-01-02T00:00:00Z")];
        let specs = of_pods(&pods, Picking::ForPods);
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), Some("b")), ("ns/pool".to_owned(), Some("a"))]);
        let args = Args::parse(&specs[0].arguments).unwrap();
        assert_eq!((&*args.bind_address, &*args.pod_name, &*args.config_text), ("127.0.0.7", "b", "kind: x"));
        let specs = of_pods(&pods, Picking::InGateway);
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), Some("b"))]);
        assert_eq!((specs[0].address, &*Args::parse(&specs[0].arguments).unwrap().bind_address), (None, ""));
        assert_eq!(of_pods(&pods, Picking::InPods), []);
    }

    #[test]
    fn what_only_the_pod_knows_stays_in_the_pod() {
        let of = |command: &[&str], more: Value| {
            let mut container = json!({"name": "main", "command": command});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of_pods(&[pod("a", "2026-01-01T00:00:00Z", container)], Picking::ForPods).len()
        };
        assert_eq!(of(&["epp", "--pool-name=p"], json!({})), 1);
        for (command, more) in [
            (&["epp", "--pool-name=$(POOL)"][..], json!({})),
            (&["sh", "-c", "epp --pool-name=p"][..], json!({})),
            (&["epp", "--no-such-flag"][..], json!({})),
            (&["epp"][..], json!({"args": ["--endpoint-selector=a=b", "--endpoint-target-ports=8000"]})),
        ] {
            assert_eq!(of(command, more), 0, "{command:?}");
        }
        let mut leaving = picker("a", "2026-01-01T00:00:00Z");
        leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
        assert_eq!(of_pods(&[leaving], Picking::ForPods), []);
    }

    #[test]
    fn a_pool_without_a_picker_has_one_wherever_pickers_run() {
        let pool = |picker: Value| -> InferencePool {
            serde_json::from_value(json!({
                "metadata": {"name": "pool", "namespace": "ns"}, "spec": {"endpointPickerRef": picker},
            }))
            .unwrap()
        };
        let (without, with) = (pool(Value::Null), pool(json!({"name": "epp"})));
        let specs = all([&without, &with].into_iter(), std::iter::empty(), Picking::InPods);
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), None)]);
        let args = Args::parse(&specs[0].arguments).unwrap();
        assert_eq!((&*args.pool_name, args.namespace()), ("pool", "ns"));
        assert_eq!(longboat_epp::needs_pod(&args), None);
    }
}
