//! Which pickers the gateway runs, and with which arguments.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Pod, PodSpec},
};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_epp::host::{PickerSpec, is_picker};
use longboat_key::{Key, Name, Namespace};

use crate::{
    RoutingInputs,
    observed::{has_key, selects},
};

/// Returns the pickers of these pods of one machine, and of the pools that name none.
pub(super) fn of_machine<'a>(
    pools: impl Iterator<Item = &'a InferencePool>,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<PickerSpec> {
    let mut newest: Vec<&Pod> = pods.filter(|pod| is_running(pod)).collect();
    newest.sort_by(|one, other| {
        let age = |pod: &&Pod| pod.metadata.creation_timestamp.clone();
        age(other).cmp(&age(one)).then_with(|| one.metadata.name.cmp(&other.metadata.name))
    });
    newest.into_iter().filter_map(PickerSpec::of_pod).chain(pools.filter_map(PickerSpec::of_pool)).collect()
}

/// Returns the pickers of these pools of a cluster, one for each pool. Their flags are those of the Deployment behind the Service
/// that the pool names, whether its pods run or not: nobody else can say how requests to the pool are picked.
pub(crate) fn of_cluster(observed: &RoutingInputs, pools: &BTreeSet<Key>) -> Vec<PickerSpec> {
    let named = observed.pools.iter().filter(|pool| pools.contains(&Key::of(pool.as_ref())));
    named.filter_map(|pool| PickerSpec::of_pool(pool).or_else(|| of_deployment(observed, pool))).collect()
}

/// Removes from a workload's pods what [`of_cluster`] does not read.
pub(crate) fn trim(pod: &mut PodSpec) {
    let containers = std::mem::take(&mut pod.containers).into_iter().filter(is_picker);
    let containers = containers.map(|container| Container {
        name: container.name,
        command: container.command,
        args: container.args,
        env: container.env,
        ..Container::default()
    });
    *pod = PodSpec { containers: containers.collect(), ..PodSpec::default() };
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_ended = phase.is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
    pod.metadata.deletion_timestamp.is_none() && !has_ended
}

fn of_deployment(observed: &RoutingInputs, pool: &InferencePool) -> Option<PickerSpec> {
    let (namespace, name) = (Namespace::of(&pool.metadata), Key::of(pool));
    let service = Key::new(namespace, Name(&pool.spec.endpoint_picker_ref.name));
    let service = observed.services.iter().find(|candidate| has_key(&candidate.metadata, &service))?;
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    let is_behind = |deployment: &&Deployment| {
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        Namespace::of(&deployment.metadata) == namespace
            && template.is_some_and(|template| selects(selector, template.labels.as_ref()))
    };
    let mut behind = observed.deployments.iter().map(AsRef::as_ref).filter(is_behind);
    // Of several, nobody knows whose flags count.
    let (Some(deployment), None) = (behind.next(), behind.next()) else { return None };
    let spec = PickerSpec::of_template(namespace, deployment.spec.as_ref()?.template.spec.as_ref()?)?;
    Some(spec).filter(|spec| spec.pool == name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use longboat_epp::Args;

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

    fn container(args: &[&str]) -> Value {
        let command = ["/app/epp", "--pool-name", "pool", "--pool-namespace", "ns", ""];
        json!({"name": "main", "command": command, "args": args})
    }

    fn picker(name: &str, created: &str) -> Pod {
        pod(name, created, container(&["--config-text", "kind: x"]))
    }

    fn pools(specs: &[PickerSpec]) -> Vec<(String, Option<&str>)> {
        specs.iter().map(|spec| (spec.pool.to_string(), spec.pod.as_deref())).collect()
    }

    fn of_pods(pods: &[Pod]) -> Vec<PickerSpec> {
        of_machine(std::iter::empty(), pods.iter())
    }

    fn args(spec: &PickerSpec) -> Args {
        Args::parse(&spec.arguments).unwrap()
    }

    #[test]
    fn each_pod_of_this_machine_has_its_picker() {
        let pods = [picker("a", "2026-01-01T00:00:00Z"), picker("b", "2026-01-02T00:00:00Z")];
        let specs = of_pods(&pods);
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), Some("b")), ("ns/pool".to_owned(), Some("a"))]);
        let args = args(&specs[0]);
        assert_eq!((&*args.bind_address, &*args.pod_name, &*args.config_text), ("127.0.0.7", "b", "kind: x"));
    }

    #[test]
    fn the_collector_of_traces_is_that_of_the_container() {
        let of = |flag: &str, exporter: &str| {
            let mut container = container(&[flag]);
            container["env"] = json!([
                {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://c:4317"},
                {"name": "OTEL_TRACES_EXPORTER", "value": exporter},
            ]);
            let mut pod = pod("a", "2026-01-01T00:00:00Z", container);
            let specs = of_pods(&[pod.clone()]);
            trim(pod.spec.as_mut().unwrap());
            assert_eq!(of_pods(&[pod]), specs, "what the watch keeps is enough");
            specs[0].collector.clone()
        };
        assert_eq!(of("--tracing=true", "otlp").as_deref(), Some("http://c:4317"));
        assert_eq!((of("--tracing=false", "otlp"), of("--tracing=true", "none")), (None, None));
    }

    #[test]
    fn what_only_the_pod_knows_stays_in_the_pod() {
        let of = |command: &[&str], more: Value| {
            let mut container = json!({"name": "main", "command": command});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of_pods(&[pod("a", "2026-01-01T00:00:00Z", container)]).len()
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
        assert_eq!(of_pods(&[leaving]), []);
    }

    fn pool(picker: &Value) -> InferencePool {
        serde_json::from_value(json!({
            "metadata": {"name": "pool", "namespace": "ns"}, "spec": {"endpointPickerRef": picker},
        }))
        .unwrap()
    }

    #[test]
    fn a_pool_without_a_picker_has_one_wherever_pickers_run() {
        let (without, with) = (pool(&Value::Null), pool(&json!({"name": "epp"})));
        let specs = of_machine([&without, &with].into_iter(), std::iter::empty());
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), None)]);
        let own = args(&specs[0]);
        assert_eq!((&*own.pool_name, own.namespace()), ("pool", "ns"));
        assert_eq!(longboat_epp::needs_pod(&own), None);
        let observed = RoutingInputs { pools: vec![Arc::new(without)], ..RoutingInputs::default() };
        assert_eq!(of_cluster(&observed, &BTreeSet::from([Key::new(Namespace("ns"), Name("pool"))])), specs);
        // No route of the gateway leads to it.
        assert_eq!(of_cluster(&observed, &BTreeSet::new()), []);
    }

    /// A Deployment of pickers. Stored as the gateway's watch stores it.
    fn deployment(namespace: &str, name: &str, args: &[&str]) -> Arc<Deployment> {
        let mut deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {}, "replicas": 0, "template": {
                "metadata": {"labels": {"app": "epp", "of": name}},
                "spec": {"containers": [{"name": "other", "command": ["sleep"], "image": "x"}, container(args)]},
            }},
        }))
        .unwrap();
        trim(deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap());
        Arc::new(deployment)
    }

    fn on_cluster(selector: &Value, deployments: Vec<Arc<Deployment>>) -> Vec<PickerSpec> {
        let service = json!({"metadata": {"name": "epp", "namespace": "ns"}, "spec": {"selector": selector}});
        let observed = RoutingInputs {
            pools: vec![Arc::new(pool(&json!({"name": "epp"})))],
            services: vec![Arc::new(serde_json::from_value(service).unwrap())],
            deployments,
            ..RoutingInputs::default()
        };
        of_cluster(&observed, &BTreeSet::from([Key::new(Namespace("ns"), Name("pool"))]))
    }

    #[test]
    fn on_a_cluster_the_flags_are_those_of_the_deployment_behind_the_service_of_the_pool() {
        let flags = ["--config-text=kind: x", "--bind-address=0.0.0.0", "--ha-enable-leader-election"];
        let own = deployment("ns", "own", &flags);
        let specs = on_cluster(&json!({"app": "epp"}), vec![own.clone(), deployment("other", "own", &[])]);
        assert_eq!(pools(&specs), [("ns/pool".to_owned(), None)]);
        let own_args = args(&specs[0]);
        assert_eq!((&*own_args.config_text, &*own_args.bind_address), ("kind: x", ""));
        assert!(!own_args.ha_enable_leader_election);

        let second = deployment("ns", "second", &[]);
        assert_eq!(on_cluster(&json!({"app": "epp"}), vec![own.clone(), second.clone()]), []);
        assert_eq!(on_cluster(&json!({"of": "own"}), vec![own.clone(), second]), specs);
        assert_eq!(on_cluster(&json!({"app": "another"}), vec![own.clone()]), []);
        // A Service without a selector has no Deployment.
        assert_eq!(on_cluster(&Value::Null, vec![own]), []);
        for foreign in [["--pool-name=theirs"], ["--pool-namespace=theirs"], ["--config-file=$(FILE)"]] {
            assert_eq!(on_cluster(&json!({"app": "epp"}), vec![deployment("ns", "own", &foreign)]), []);
        }
    }
}
