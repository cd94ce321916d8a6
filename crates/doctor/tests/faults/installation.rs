//! Definitions, controller, rights, webhooks, settings and presets.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longboat_doctor::{Facts, Severity, to_text};
use serde_json::{Value, json};

use crate::world::{arc, certificate, condition, crd, object, only, pod, unready, waiting, with};

#[test]
fn definitions_that_are_missing_or_of_another_version_are_told() {
    let name = "llminferenceservices.serving.kserve.io";
    let crd_name = format!("CustomResourceDefinition {name}");
    let found = with(|facts| _ = facts.definitions.remove(name));
    only(&found, "DefinitionMissing", &crd_name, "does not serve this kind", "longboat install");

    let found = with(|facts| _ = facts.definitions.insert(name.into(), object(crd(name, "v1alpha1"))));
    let faults: Vec<&str> = found.iter().map(|finding| finding.fault).collect();
    assert_eq!(faults, ["VersionMissing", "OldVersionStored"], "{found:#?}");

    let found = with(|facts| {
        let definition = facts.definitions.get_mut(name).unwrap();
        let status = definition.status.as_mut().unwrap();
        status.conditions =
            Some(vec![object(condition("Established", "False", "Conflict", "names are taken"))]);
    });
    only(&found, "DefinitionNotEstablished", &crd_name, "names are taken", "kubectl describe crd");

    let pools = "inferencepools.inference.networking.k8s.io";
    let found = with(|facts| _ = facts.definitions.insert(pools.into(), object(crd(pools, "v1alpha2"))));
    let finding = only(
        &found,
        "VersionMissing",
        &format!("CustomResourceDefinition {pools}"),
        "only v1alpha2",
        "a release of this API that serves v1",
    );
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn engines_of_the_user_that_see_other_paths_are_told() {
    let found = with(|facts| {
        facts.local = true;
        facts.controller = None;
        facts.other_paths.insert("laptop".into(), "unshare: Operation not permitted".into());
    });
    let finding = only(&found, "PathsRewritten", "Node laptop", "Operation not permitted", "--rewrite-paths");
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn an_empty_cluster_is_one_finding() {
    let empty = |facts: &mut Facts| {
        facts.definitions.clear();
        facts.configs.clear();
        facts.services.clear();
        facts.controller = None;
        facts.mutating.clear();
        facts.validating.clear();
        facts.platform_error = Some("there is no ConfigMap".into());
    };
    only(
        &with(empty),
        "NotInstalled",
        "Installation in namespace kserve",
        "no controller",
        "longboat install --set image=",
    );

    // A user who may not read definitions cannot know that there are none. That there is no controller is another fault.
    let hidden = with(|facts| {
        empty(facts);
        facts.unseen_definitions = ["llminferenceservices", "llminferenceserviceconfigs"]
            .map(|name| format!("{name}.serving.kserve.io"))
            .into();
    });
    let faults: Vec<&str> = hidden.iter().map(|finding| finding.fault).collect();
    assert!(faults.contains(&"ControllerMissing") && !faults.contains(&"DefinitionMissing"), "{faults:?}");
}

#[test]
fn a_controller_that_is_not_there_or_does_not_run_is_told() {
    let controller = "Deployment kserve/llmisvc-controller-manager";
    let found = with(|facts| facts.controller = None);
    only(
        &found,
        "ControllerMissing",
        controller,
        "there is no controller",
        "longboat install --namespace kserve",
    );

    let stopped = |facts: &mut Facts| {
        let deployment = facts.controller.as_mut().unwrap();
        deployment.status = None;
        deployment.spec.as_mut().unwrap().replicas = Some(0);
    };
    only(&with(stopped), "ControllerStopped", controller, "scaled to zero", "--replicas=2");

    let found = with(|facts| {
        facts.controller.as_mut().unwrap().status = None;
        let mut broken =
            pod("c", &json!({"app": "controller"}), &waiting("manager", "ImagePullBackOff", "no such tag"));
        broken["metadata"]["namespace"] = json!("kserve");
        facts.pods.push(object(broken));
    });
    only(&found, "ImageNotPulled", controller, "no such tag", "imagePullSecrets");
    let found = with(|facts| facts.controller.as_mut().unwrap().status = None);
    only(&found, "ControllerNotReady", controller, "none of its pods", "kubectl logs -n kserve");
}

#[test]
fn controllers_of_which_none_leads_are_told() {
    let lease = |holder: &str, seconds: i64| {
        let renewed = Timestamp::now() - SignedDuration::from_secs(seconds);
        let spec =
            json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed.to_string()});
        with(|facts| {
            facts.lease =
                Some(object(json!({"metadata": {"name": "l", "namespace": "kserve"}, "spec": spec})));
        })
    };
    assert_eq!(to_text(&lease("a_1", 20)), "");
    let name = "Lease kserve/llminferenceservice-kserve-controller-manager";
    only(
        &lease("a_1", 600),
        "NoLeader",
        name,
        "a_1, which no longer renews it, holds the lease",
        "may write its Lease",
    );
    only(&lease("", 600), "NoLeader", name, "nobody holds the lease", "kubectl logs -n kserve");
}

#[test]
fn rights_that_are_missing_are_named() {
    let found = with(|facts| facts.denied = vec!["create deployments.apps".into()]);
    let account = "ServiceAccount kserve/llmisvc-controller-manager";
    only(&found, "RightsMissing", account, "create deployments.apps", "longboat install");
}

#[test]
fn webhooks_that_fail_or_are_missing_or_untrusted_are_told() {
    let found = with(|facts| facts.admission = Some("failed calling webhook: connection refused".into()));
    only(
        &found,
        "WebhookFails",
        "Webhooks of LLMInferenceService",
        "connection refused",
        "endpointslices -n kserve",
    );

    let found = with(|facts| {
        facts.admission = Some("Post \"https://hooks.old.svc:443/mutate\": no endpoints".into());
        let client = &mut facts.mutating[0].webhooks.as_mut().unwrap()[0].client_config;
        client.service = Some(object(json!({"name": "hooks", "namespace": "old"})));
    });
    let fix = "endpointslices -n old -l kubernetes.io/service-name=hooks";
    only(&found, "WebhookFails", "Webhooks of LLMInferenceService", "no endpoints", fix);

    let found = with(|facts| facts.conversion = Some("conversion webhook failed".into()));
    only(
        &found,
        "ConversionFails",
        "CustomResourceDefinition llminferenceservices.serving.kserve.io",
        "v1alpha1",
        "install",
    );

    let found = with(|facts| _ = facts.validating.pop());
    let name = "ValidatingWebhookConfiguration llminferenceserviceconfig.serving.kserve.io";
    only(&found, "WebhookMissing", name, "does not validate services", "longboat install");

    let found = with(|facts| facts.mutating.clear());
    let name = "MutatingWebhookConfiguration llminferenceservice.serving.kserve.io";
    only(&found, "WebhookMissing", name, "defaults", "longboat install");

    let set = |facts: &mut Facts, bundle: Option<Vec<u8>>| {
        let webhooks = facts.mutating[0].webhooks.as_mut().unwrap();
        webhooks[0].client_config.ca_bundle = bundle.map(k8s_openapi::ByteString);
    };
    only(&with(|facts| set(facts, None)), "WebhookUntrusted", name, "caBundle is empty", "cert-manager");

    let (soon, _) = certificate(2);
    let found = with(|facts| set(facts, Some(soon.into_bytes())));
    let finding = only(&found, "CertificateEnds", name, "within a week", "Certificate");
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn callers_of_the_shared_picker_that_the_settings_do_not_name_are_told() {
    let policy = |peers: Value| {
        let rule = json!({"ports": [{"port": 20000, "endPort": 29999}], "from": peers});
        object(json!({
            "metadata": {"name": "longboat-picker", "namespace": "kserve"},
            "spec": {"podSelector": {}, "ingress": [rule, {"ports": [{"port": 9090}]}]},
        }))
    };
    let of = |namespaces: &[&str]| {
        json!([{"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
        ]}}])
    };
    let found = |peers: Value| {
        with(|facts| {
            let platform = Arc::make_mut(&mut facts.snapshot.platform);
            platform.shared_picker = true;
            platform.picker_clients = vec!["gateways".to_owned()];
            facts.network_policies.push(policy(peers));
        })
    };
    let name = "NetworkPolicy kserve/longboat-picker";
    let finding =
        only(&found(json!([])), "PickerClientsNotEnforced", name, "lets everybody", "pickerClients=");
    assert_eq!(finding.severity, Severity::Warning);
    only(&found(of(&["other"])), "PickerClientsNotEnforced", name, "lets pods of other", "pickerClients=");
    assert_eq!(found(of(&["gateways"])), []);
}

#[test]
fn settings_and_presets_that_cannot_be_used_are_told() {
    let found = with(|facts| facts.platform_error = Some("ingress: expected an object".into()));
    let name = "ConfigMap kserve/inferenceservice-config";
    only(&found, "PlatformSettings", name, "expected an object", "longboat install");

    // A service that they keep from being composed has the same fix. No command shows its layers.
    let found = with(|facts| {
        facts.platform_error = Some("ingress: expected an object".into());
        let settings = json!({"metadata": {"name": "inferenceservice-config", "namespace": "kserve"}});
        facts.snapshot.config_maps.insert(arc(settings));
        unready(facts, "PresetsCombined", "CombineBaseError", "ingress: expected an object");
    });
    let fixes: Vec<_> = found.iter().map(|finding| (finding.fault, &*finding.fix)).collect();
    let fix = ("PlatformSettings", "kubectl edit configmap -n kserve inferenceservice-config");
    assert_eq!(fixes, [fix, fix]);

    let preset = "LLMInferenceServiceConfig kserve/kserve-config-llm-router-route";
    let is_route = |config: &&Arc<longboat_api::v1alpha2::LLMInferenceServiceConfig>| {
        config.metadata.name.as_deref() == Some("kserve-config-llm-router-route")
    };
    let found = with(|facts| facts.configs.retain(|config| !is_route(&config)));
    only(&found, "PresetMissing", preset, "spec.router.route is set", "longboat install");

    let found = with(|facts| {
        let at = facts.configs.iter().position(|config| is_route(&config)).unwrap();
        let mut edited = facts.configs[at].as_ref().clone();
        edited.spec.router = None;
        facts.configs[at] = Arc::new(edited);
    });
    assert_eq!(only(&found, "PresetDiffers", preset, "edited", "longboat diff").severity, Severity::Warning);
}

#[test]
fn a_local_world_has_no_installation_to_look_at() {
    let found = with(|facts| {
        facts.local = true;
        facts.controller = None;
        facts.mutating.clear();
        facts.validating.clear();
    });
    assert_eq!(to_text(&found), "");
}
