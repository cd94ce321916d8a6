//! What a picker of another process is, and with which flags: those of its container.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::Resource;
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_key::{Key, Name, Namespace};
use longboat_telemetry::traces::Otlp;

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
    /// Where its pod sends traces, if it does.
    pub collector: Option<String>,
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
        let args = parse(&arguments)?;
        Some(Self {
            pool: pool_of(&args),
            pod: pod.metadata.uid.clone(),
            address: Some(address),
            collector: collector(&args, pod.spec.as_ref()?),
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
        let args = parse(&arguments).filter(|args| Namespace(args.namespace()) == namespace)?;
        let (pool, collector) = (pool_of(&args), collector(&args, pod));
        Some(Self { pool, pod: None, address: None, arguments, collector })
    }

    /// Returns what a picker needs of its pod if this process sends traces to `own`: a process has one collector.
    pub(crate) fn needs_collector(&self, own: Option<&str>) -> Option<&'static str> {
        let is_another = self.collector.is_some() && self.collector.as_deref() != own;
        is_another.then_some("the collector of its traces")
    }

    /// The default picker, which a pool has that names none.
    pub fn of_pool(pool: &InferencePool) -> Option<Self> {
        if !pool.spec.endpoint_picker_ref.name.is_empty() {
            return None;
        }
        let (namespace, name) = (Namespace::of(&pool.metadata), Name::of(&pool.metadata));
        let mut arguments = environment(None, namespace, "");
        arguments.extend([format!("--pool-name={name}"), format!("--pool-namespace={namespace}")]);
        Some(Self { pool: Key::new(namespace, name), pod: None, address: None, arguments, collector: None })
    }
}

/// Reads the flags of a picker with a pool. The pod itself ends with the error if they cannot be read.
fn parse(arguments: &[String]) -> Option<Args> {
    Args::parse(arguments).ok().filter(|args| !args.pool_name.is_empty())
}

fn pool_of(args: &Args) -> Key {
    Key::new(Namespace(args.namespace()), Name(&args.pool_name))
}

/// Returns where the pod of a picker sends traces, which `spec.tracing` sets.
fn collector(args: &Args, pod: &PodSpec) -> Option<String> {
    let variables = pod
        .containers
        .iter()
        .filter(|container| is_picker(container))
        .flat_map(|one| one.env.iter().flatten());
    let value = |name: &str| variables.clone().find(|variable| variable.name == name)?.value.clone();
    let value = |name: &str| value(name).filter(|value| !value.is_empty());
    args.tracing.then(|| Otlp::default().collector(value)).flatten()
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
