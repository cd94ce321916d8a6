//! What a picker of another process is, and with which flags: those of its container.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::Resource;
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_key::{Key, Name, Namespace};

use crate::Args;

/// The program of pickers, in any folder.
const PROGRAM: &str = "epp";

/// A picker to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickerSpec {
    /// The pool for which it picks.
    pub pool: Key,
    /// The UID of the pod for which it picks, if it picks for one.
    pub pod: Option<String>,
    /// Where it answers health checks and serves metrics.
    pub address: Option<IpAddr>,
    /// The flags, as they follow the name of the program.
    pub arguments: Vec<String>,
}

// === impl PickerSpec ===

impl PickerSpec {
    /// The picker of a running pod, or `None` if the pod has none whose flags are known.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let own = pod.spec.as_ref()?.containers.iter().find_map(flags)?;
        let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let mut arguments = environment(Some(address), Namespace::of(&pod.metadata), name);
        arguments.extend(own);
        Some(Self {
            pool: pool_of(&arguments)?,
            pod: pod.metadata.uid.clone(),
            address: Some(address),
            arguments,
        })
    }

    /// The picker that the pods of a workload in this namespace would be, whether they run or not.
    pub fn of_template(namespace: Namespace<&str>, pod: &PodSpec) -> Option<Self> {
        let mut arguments = environment(None, namespace, "");
        arguments.extend(pod.containers.iter().find_map(flags)?);
        // The last value of a flag counts. Nobody's Deployment opens ports of this process. Of several processes, each picks for the
        // requests that it gets, so none leads. A route leads to pools of this group only.
        let group = InferencePool::group(&());
        arguments.extend([
            "--bind-address=".to_owned(),
            "--ha-enable-leader-election=false".to_owned(),
            format!("--pool-group={group}"),
        ]);
        // Only the pool's own namespace says how it is picked for.
        let pool = pool_of(&arguments).filter(|pool| pool.namespace.as_deref() == namespace)?;
        Some(Self { pool, pod: None, address: None, arguments })
    }

    /// The default picker, which a pool has that names none.
    pub fn of_pool(pool: &InferencePool) -> Option<Self> {
        if !pool.spec.endpoint_picker_ref.name.is_empty() {
            return None;
        }
        let (namespace, name) = (Namespace::of(&pool.metadata), Name::of(&pool.metadata));
        let mut arguments = environment(None, namespace, "");
        arguments.extend([format!("--pool-name={name}"), format!("--pool-namespace={namespace}")]);
        Some(Self { pool: Key::new(namespace, name), pod: None, address: None, arguments })
    }
}

/// The pool of a picker with these flags. The pod itself ends with the error if they cannot be read.
fn pool_of(arguments: &[String]) -> Option<Key> {
    let args = Args::parse(arguments).ok()?;
    (!args.pool_name.is_empty()).then(|| Key::new(Namespace(args.namespace()), Name(&args.pool_name)))
}

/// The flags for what a picker otherwise reads from the environment of its pod. This process has another environment.
fn environment(address: Option<IpAddr>, namespace: Namespace<&str>, pod: &str) -> Vec<String> {
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    vec![
        format!("--bind-address={address}"),
        format!("--own-namespace={namespace}"),
        format!("--pod-name={pod}"),
        "--gateway-picks=false".to_owned(),
    ]
}

/// Whether a container runs a picker.
pub fn is_picker(container: &Container) -> bool {
    let program = container.command.as_ref().and_then(|command| command.first());
    program.is_some_and(|program| program.rsplit('/').next() == Some(PROGRAM))
}

/// Returns the flags of a container that runs a picker. Flags that refer to variables are known in the pod only. The node of local
/// mode has the same rule (`longboat_node`, `container/launch.rs`).
fn flags(container: &Container) -> Option<Vec<String>> {
    let (_, more) = container.command.as_ref().filter(|_| is_picker(container))?.split_first()?;
    let words: Vec<String> = more.iter().chain(container.args.iter().flatten()).cloned().collect();
    (!words.iter().any(|word| word.contains("$("))).then_some(words)
}
