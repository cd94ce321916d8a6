//! Stock kubectl commands that read.

use std::{collections::BTreeSet, process::Command};

use crate::{
    local_cluster::{LocalCluster, Running},
    program::run,
    tools,
    wait::until,
};

/// Splits the lines of a table into words.
fn words(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn get_llmisvc_has_the_printer_columns_and_every_output_format() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let table = world.ask(&["get", "llmisvc"]);
    let rows = words(&table);
    assert_eq!(rows[0], ["NAME", "URL", "READY", "REASON", "AGE"]);
    assert_eq!(&rows[1][..3], ["qwen", world.url.as_str(), "True"]);
    let wide = world.ask(&["get", "llmisvc", "-o", "wide"]);
    assert_eq!(words(&wide)[0], ["NAME", "URL", "READY", "REASON", "AGE", "URLS", "DOWNLOAD"]);
    assert_eq!(world.ask(&["get", "llmisvc", "-o", "name"]), "llminferenceservice.serving.kserve.io/qwen\n");
    assert_eq!(world.ask(&["get", "llmisvc", "qwen", "-o", "jsonpath={.status.url}"]), world.url);
    let yaml = world.ask(&["get", "llmisvc", "qwen", "-o", "yaml"]);
    for line in ["kind: LLMInferenceService", "  replicas: 1", "    scheduler: {}", "  observedGeneration: 1"]
    {
        assert!(yaml.lines().any(|found| found == line), "{line:?} in {yaml}");
    }
    let missing = world.run(&["get", "llmisvc", "nope"]);
    assert_eq!(missing.status.code(), Some(1));
    let expected =
        "Error from server (NotFound): llminferenceservices.serving.kserve.io \"nope\" not found\n";
    assert_eq!(missing.stderr, expected);
}

#[test]
fn get_shows_everything_that_the_service_is_made_of() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let table = world.ask(&["get", "deploy,rs,po,svc,httproute,inferencepool,events"]);
    for part in [
        "deployment.apps/qwen-kserve ",
        "deployment.apps/qwen-kserve-router-scheduler",
        "replicaset.apps/qwen-kserve-",
        "pod/qwen-kserve-router-scheduler-",
        "service/qwen-kserve-workload-svc",
        "service/qwen-epp-service",
        "httproute.gateway.networking.k8s.io/qwen-kserve-route",
        "inferencepool.inference.networking.k8s.io/qwen-inference-pool",
        "SuccessfulCreate",
        "LLMInferenceServiceReady",
    ] {
        assert!(table.contains(part), "{part:?} in {table}");
    }
    let deployments = world.ask(&["get", "deploy"]);
    let rows = words(&deployments);
    assert_eq!(rows[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(&rows[1][..4], ["qwen-kserve", "1/1", "1", "1"]);
}

#[test]
fn describe_explain_and_api_resources_know_our_kinds() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let described = world.ask(&["describe", "llmisvc", "qwen"]);
    for part in ["API Version:  serving.kserve.io/v1alpha2", "PresetsCombined", "LLMInferenceServiceReady"] {
        assert!(described.contains(part), "{part:?} in {described}");
    }
    let explained = world.ask(&["explain", "llmisvc.spec.router"]);
    assert!(explained.contains("KIND:       LLMInferenceService"), "{explained}");
    for field in ["gateway\t<Object>", "route\t<Object>", "scheduler\t<Object>"] {
        assert!(explained.contains(field), "{field:?} in {explained}");
    }
    let recursive = world.ask(&["explain", "llmisvc.spec.router", "--recursive"]);
    assert!(recursive.contains("sectionName\t<string>"), "{recursive}");
    let resources = world.ask(&["api-resources", "--api-group=serving.kserve.io"]);
    let rows = words(&resources);
    assert!(rows.contains(&vec![
        "llminferenceservices",
        "llmisvc",
        "serving.kserve.io/v1alpha2",
        "true",
        "LLMInferenceService"
    ]));
    assert!(world.ask(&["version"]).contains("Server Version: v1.34"));
}

#[test]
fn every_field_has_a_manager_that_names_its_role() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let kinds = "llmisvc,deploy,rs,pod,svc,endpointslice,httproute,gateway,inferencepool,secret,cm,sa,node,event,lease";
    let managers = world.ask(&[
        "get",
        kinds,
        "-A",
        "--show-managed-fields",
        "-o",
        "jsonpath={.items[*].metadata.managedFields[*].manager}",
    ]);
    let managers: BTreeSet<&str> = managers.split_whitespace().collect();
    assert!(!managers.contains("unknown"), "{managers:?}");
    for role in ["kubectl", "longboat-controller", "longboat-gateway", "longboat-node", "longboat-up"] {
        assert!(managers.contains(role), "{role}: {managers:?}");
    }
    // By this name, `install` knows a cluster that has a controller of its own.
    let mut install = Command::new(env!("CARGO_BIN_EXE_longboat"));
    install.args(["install", "--set", "image=r/l:1"]).env("KUBECONFIG", &world.kubeconfig);
    let refused = run(&mut install);
    assert!(refused.stderr.starts_with("error: this is the cluster of `longboat up`"), "{refused:#?}");
    let recorder = "jsonpath={.metadata.managedFields[?(@.manager=='kubectl-last-applied')].operation}";
    assert_eq!(world.ask(&["get", "llmisvc", "qwen", "--show-managed-fields", "-o", recorder]), "Apply");
}

#[test]
fn get_can_watch() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    world.ask(&["create", "configmap", "first"]);
    let watch = Running::start(world.kubectl().args(["get", "configmap", "-w", "-o", "name"]));
    until("the first list", || watch.stdout().contains("configmap/first"));
    world.ask(&["create", "configmap", "watched"]);
    until("news of a creation", || watch.stdout().contains("configmap/watched"));
    world.ask(&["delete", "configmap", "watched", "first"]);
    until("news of a deletion", || watch.stdout().matches("configmap/watched").count() == 2);
}
