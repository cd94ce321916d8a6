//! Stock kubectl commands that write.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    local_cluster::{Ended, LocalCluster, run},
    tools,
    wait::until,
};

/// Returns a service without a router, so that only the pods of its workload start.
fn manifest(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata:\n  name: {name}\n\
         spec:\n  model:\n    uri: hf://a/b\n  replicas: {replicas}\n"
    )
}

fn replicas(world: &LocalCluster, name: &str) -> String {
    world.ask(&["get", "llmisvc", name, "-o", "jsonpath={.spec.replicas}"])
}

fn said(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn the_objects_of_a_list_are_applied_and_checked_one_by_one() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let list = |name: &str, second: &str| {
        let item = |name: &str, data: &str| {
            format!(
                "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: {name}\n  {data}:\n    key: value\n"
            )
        };
        let items = item("of-a-list", "data") + &item("also-of-a-list", second);
        world.file(name, &format!("apiVersion: v1\nkind: List\nitems:\n{items}"))
    };
    let good = list("list.yaml", "data");
    let created = "configmap/of-a-list created\nconfigmap/also-of-a-list created\n";
    assert_eq!(world.ask(&["apply", "-f", &good]), created);
    let wrong = world.run(&["apply", "-f", &list("wrong.yaml", "dat")]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:#?}");
    assert!(wrong.stderr.contains("unknown field \"dat\""), "{wrong:#?}");
    world.ask(&["delete", "-f", &good]);
}

#[test]
fn apply_diff_edit_patch_label_and_annotate_change_a_service() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let one = world.file("one.yaml", &manifest("changing", 1));
    let zero = world.file("zero.yaml", &manifest("changing", 0));
    let object = "llminferenceservice.serving.kserve.io/changing";

    let dry = world.ask(&["apply", "--dry-run=server", "-f", &one]);
    assert_eq!(dry, format!("{object} created (server dry run)\n"));
    assert_eq!(world.run(&["get", "llmisvc", "changing"]).status.code(), Some(1), "a dry run writes nothing");
    assert_eq!(world.ask(&["apply", "-f", &zero]), format!("{object} created\n"));
    assert_eq!(world.ask(&["apply", "-f", &zero]), format!("{object} unchanged\n"));
    assert_eq!(world.run(&["diff", "-f", &zero]).status.code(), Some(0));
    let diff = world.run(&["diff", "-f", &one]);
    assert_eq!(diff.status.code(), Some(1), "{diff:#?}");
    assert!(diff.stdout.contains("-  replicas: 0\n+  replicas: 1\n"), "{diff:#?}");
    assert_eq!(world.ask(&["apply", "-f", &one]), format!("{object} configured\n"));
    assert_eq!(replicas(world, "changing"), "1");

    let applied = world.ask(&["apply", "--server-side", "--field-manager=other", "-f", &one]);
    assert_eq!(applied, format!("{object} serverside-applied\n"));
    let conflict = world.run(&["apply", "--server-side", "-f", &zero]);
    assert_eq!(conflict.status.code(), Some(1), "{conflict:#?}");
    assert!(conflict.stderr.contains("conflict with \"other\""), "{conflict:#?}");
    world.ask(&["apply", "--server-side", "--force-conflicts", "-f", &zero]);
    assert_eq!(replicas(world, "changing"), "0");

    let editor = world.file("editor", "#!/bin/sh\nsed -i 's/replicas: 0/replicas: 1/' \"$1\"\n");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let edited = run(world.kubectl().args(["edit", "llmisvc", "changing"]).env("KUBE_EDITOR", &editor)).ok();
    assert_eq!(edited, format!("{object} edited\n"));
    assert_eq!(replicas(world, "changing"), "1");

    world.ask(&["patch", "llmisvc", "changing", "--type=merge", "-p", r#"{"spec":{"replicas":0}}"#]);
    assert_eq!(replicas(world, "changing"), "0");
    let patch = r#"[{"op":"test","path":"/spec/replicas","value":0},{"op":"replace","path":"/spec/replicas","value":1}]"#;
    world.ask(&["patch", "llmisvc", "changing", "--type=json", "-p", patch]);
    assert_eq!(replicas(world, "changing"), "1");
    let strategic =
        world.run(&["patch", "llmisvc", "changing", "--type=strategic", "-p", r#"{"spec":{"replicas":0}}"#]);
    assert_eq!(strategic.status.code(), Some(1));
    assert!(strategic.stderr.contains("application/strategic-merge-patch+json is not supported"));
    let invalid =
        world.run(&["patch", "llmisvc", "changing", "--type=merge", "-p", r#"{"spec":{"replicas":-1}}"#]);
    assert_eq!(invalid.status.code(), Some(1));
    assert!(invalid.stderr.contains("spec.replicas: Invalid value: -1"), "{invalid:#?}");

    world.ask(&["label", "llmisvc", "changing", "team=a"]);
    let twice = world.run(&["label", "llmisvc", "changing", "team=b"]);
    assert!(said(&twice).contains("already has a value (a), and --overwrite is false"), "{twice:#?}");
    world.ask(&["label", "--overwrite", "llmisvc", "changing", "team=b"]);
    assert_eq!(world.ask(&["get", "llmisvc", "-l", "team=b", "-o", "name"]), format!("{object}\n"));
    world.ask(&["label", "llmisvc", "changing", "team-"]);
    assert_eq!(world.ask(&["get", "llmisvc", "-l", "team", "-o", "name"]), "");
    world.ask(&["annotate", "llmisvc", "changing", "note=hello"]);
    assert_eq!(
        world.ask(&["get", "llmisvc", "changing", "-o", "jsonpath={.metadata.annotations.note}"]),
        "hello"
    );
    world.ask(&["delete", "llmisvc", "changing"]);
}

#[test]
fn wait_rollout_and_scale_follow_the_deployment() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    // Without `replicas`, the controller leaves the Deployment's number of replicas to others.
    let text = manifest("scaling", 1).replace("  replicas: 1\n", "");
    let file = world.file("scaling.yaml", &text);
    world.ask(&["apply", "-f", &file]);
    let waited = world.ask(&["wait", "--for=condition=Ready", "llmisvc/scaling", "--timeout=170s"]);
    assert_eq!(waited, "llminferenceservice.serving.kserve.io/scaling condition met\n");
    world.ask(&["scale", "deploy", "scaling-kserve", "--replicas=2"]);
    let rolled = world.ask(&["rollout", "status", "deploy/scaling-kserve", "--timeout=170s"]);
    assert!(rolled.contains("deployment \"scaling-kserve\" successfully rolled out"), "{rolled}");
    let ready = "jsonpath={.status.readyReplicas}";
    assert_eq!(world.ask(&["get", "deploy", "scaling-kserve", "-o", ready]), "2");
    world.ask(&["delete", "llmisvc", "scaling"]);
}

#[test]
fn delete_takes_the_children_along_unless_they_shall_stay() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let children = |name: &str| {
        let selector = format!("app.kubernetes.io/name={name}");
        world.ask(&["get", "deploy,rs,po,svc,secret", "-l", &selector, "-o", "name"])
    };
    for cascade in ["background", "foreground"] {
        let file = world.file("going.yaml", &manifest("going", 1));
        world.ask(&["apply", "-f", &file]);
        world.ask(&["wait", "--for=condition=Ready", "llmisvc/going", "--timeout=170s"]);
        let finalizers = world.ask(&["get", "llmisvc", "going", "-o", "jsonpath={.metadata.finalizers}"]);
        assert_eq!(finalizers, r#"["serving.kserve.io/llmisvc-finalizer"]"#);
        assert!(children("going").contains("deployment.apps/going-kserve"));
        world.ask(&["delete", "llmisvc", "going", &format!("--cascade={cascade}"), "--timeout=170s"]);
        assert_eq!(world.run(&["get", "llmisvc", "going"]).status.code(), Some(1));
        until("the end of all children", || children("going").is_empty());
    }

    // With `--cascade=orphan`, the Deployment's ReplicaSets and pods stay.
    let apart = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: apart}\nspec:\n  \
        selector: {matchLabels: {app: apart}}\n  template:\n    metadata: {labels: {app: apart}}\n    \
        spec: {containers: [{name: main, image: busybox, command: [sleep, '1000']}]}\n";
    world.ask(&["apply", "-f", &world.file("apart.yaml", apart)]);
    world.ask(&["rollout", "status", "deploy/apart", "--timeout=170s"]);
    world.ask(&["rollout", "restart", "deploy/apart"]);
    world.ask(&["rollout", "status", "deploy/apart", "--timeout=170s"]);
    assert_eq!(world.object(&["rs", "-l", "app=apart"])["items"].as_array().unwrap().len(), 2, "it rolled");
    world.ask(&["delete", "deploy", "apart", "--cascade=orphan"]);
    let left = world.ask(&["get", "deploy,rs,po", "-l", "app=apart", "-o", "name"]);
    assert!(left.contains("replicaset.apps/apart-") && left.contains("pod/apart-"), "{left}");
    let owners = world.object(&["rs", "-l", "app=apart"])["items"][0]["metadata"]["ownerReferences"].clone();
    assert!(owners.is_null(), "{owners}");

    // A Deployment that comes back adopts them, and its ReplicaSet lets go of a pod that loses its label.
    world.ask(&["apply", "-f", &world.file("apart.yaml", apart)]);
    world.ask(&["rollout", "status", "deploy/apart", "--timeout=170s"]);
    let owners = "jsonpath={.items[*].metadata.ownerReferences[*].kind}";
    assert_eq!(world.ask(&["get", "rs", "-l", "app=apart", "-o", owners]), "Deployment Deployment");
    let pods = || world.ask(&["get", "po", "-l", "app=apart", "-o", "jsonpath={.items[*].metadata.name}"]);
    until("the end of the pod of the other template", || pods().split(' ').count() == 1);
    let pod = pods();
    world.ask(&["label", "pod", &pod, "app-"]);
    until("another pod", || !pods().is_empty());
    let released = || world.ask(&["get", "po", &pod, "-o", "jsonpath={.metadata.ownerReferences}"]);
    until("a pod without an owner", || released().is_empty());
    world.ask(&["delete", "deploy,po", "apart", &pod, "--ignore-not-found"]);
}

#[test]
fn configs_are_checked_against_the_settings_of_this_world_as_they_are_now() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let config = world.file(
        "config.yaml",
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata:\n  name: checked\n\
         spec:\n  model:\n    name: '{{ .ObjectMeta.Name }}'\n    uri: hf://a/b\n",
    );
    let apply = ["apply", "--dry-run=server", "-f", &config];
    let patch = |value: &str| {
        let data = format!(r#"{{"data":{{"ingress":{value}}}}}"#);
        world.ask(&["patch", "cm", "inferenceservice-config", "-n", "kserve", "--type=merge", "-p", &data])
    };
    let before = world.ask(&["get", "cm", "inferenceservice-config", "-n", "kserve", "-o", "json"]);
    let before: serde_json::Value = serde_json::from_str(&before).unwrap();
    let sound = world.run(&apply);
    patch("\"no JSON\"");
    let unreadable = world.run(&apply);
    patch(&before["data"]["ingress"].to_string());
    assert_eq!((sound.status.code(), sound.stderr.as_str()), (Some(0), ""));
    let warning = "checked against the default settings, because the platform settings are invalid: failed \
                   to load ingress config";
    assert!(unreadable.stderr.contains(warning), "{unreadable:#?}");
}

#[test]
fn both_forms_of_apply_go_on_quietly_with_what_up_has_written() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("mine.yaml");
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, labels: {a: b}}\ndata: {a: <&>, b: c}\n";
    let text = format!("{}---\n{config}", manifest("mine", 1));
    fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    // An object whose kind the same files define.
    let defined = folder.path().join("defined.yaml");
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.org}\n\
        spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Foo, plural: foos}\n  versions:\n  \
        - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n";
    let foo = "apiVersion: example.org/v1\nkind: Foo\nmetadata: {name: one}\n";
    fs::write(&defined, format!("{foo}---\n{definition}")).unwrap();
    let world = LocalCluster::start(&[path, defined.to_str().unwrap()]);
    assert_eq!(world.ask(&["get", "foos", "-o", "name"]), "foo.example.org/one\n");
    let quiet = |arguments: &[&str], done: &str| {
        let ended = world.run(&[arguments, &["-f", path]].concat());
        let lines = format!("llminferenceservice.serving.kserve.io/mine {done}\nconfigmap/mine {done}\n");
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (lines.as_str(), ""), "{arguments:?}");
    };
    quiet(&["apply"], "unchanged");
    quiet(&["apply", "--server-side"], "serverside-applied");
    // The record of a server has no empty field `annotations`, and kubectl's has one.
    quiet(&["apply"], "configured");
    quiet(&["apply"], "unchanged");
    // A field that leaves the manifest leaves the object, in both forms.
    let data = || world.ask(&["get", "configmap", "mine", "-o", "jsonpath={.data}{.metadata.labels}"]);
    fs::write(&file, text.replace(", b: c", "").replace("replicas: 1", "replicas: 0")).unwrap();
    quiet(&["apply"], "configured");
    assert_eq!(data(), r#"{"a":"\u003c\u0026\u003e"}{"a":"b"}"#);
    assert_eq!(replicas(&world, "mine"), "0");
    fs::write(&file, text.replace(", labels: {a: b}", "").replace(", b: c", "")).unwrap();
    quiet(&["apply", "--server-side"], "serverside-applied");
    assert_eq!(data(), r#"{"a":"\u003c\u0026\u003e"}"#);
    assert_eq!(replicas(&world, "mine"), "1");
}

#[test]
fn a_rollout_of_the_controller_restarts_it_and_zero_replicas_stop_it() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let deployment = "deploy/llmisvc-controller-manager";
    let roll = |arguments: &[&str]| world.ask(&[&["-n", "kserve"][..], arguments].concat());
    let available = || roll(&["get", deployment, "-o", "jsonpath={.status.availableReplicas}"]);
    roll(&["rollout", "status", deployment, "--timeout=170s"]);
    assert_eq!(available(), "1");

    // Only a controller that starts removes old versions from the CRDs.
    let crd = "crd/llminferenceservices.serving.kserve.io";
    let versions = || world.ask(&["get", crd, "-o", "jsonpath={.status.storedVersions}"]);
    let old = r#"{"status": {"storedVersions": ["v1alpha1", "v1alpha2"]}}"#;
    world.ask(&["patch", crd, "--subresource=status", "--type=merge", "-p", old]);
    assert_eq!(versions(), r#"["v1alpha1","v1alpha2"]"#);
    roll(&["rollout", "restart", deployment]);
    roll(&["rollout", "status", deployment, "--timeout=170s"]);
    until("the old version is removed", || versions() == r#"["v1alpha2"]"#);

    roll(&["scale", deployment, "--replicas=0"]);
    until("the controller is stopped", || available().is_empty());
    let service = world.file("unseen.yaml", &manifest("unseen", 0));
    world.ask(&["apply", "-f", &service]);
    let children = || world.ask(&["get", "service", "-l", "app.kubernetes.io/name=unseen", "-o", "name"]);
    assert_eq!(children(), "");
    roll(&["scale", deployment, "--replicas=1"]);
    until("the controller makes its children", || !children().is_empty());
    assert_eq!(roll(&["get", "pods,replicasets", "-o", "name"]), "");
    world.ask(&["delete", "-f", &service]);
}
