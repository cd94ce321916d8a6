//! The versions of the document, and the fields that moved between them.

use crate::{
    ConfigError, Options,
    config::{EndpointPickerConfig, LlmdRelease, LoadedConfig, load, place},
};

const V1: &str = "llm-d.ai/v1";
const V1ALPHA1: &str = "llm-d.ai/v1alpha1";
const FORMER_GROUP: &str = "inference.networking.x-k8s.io/v1alpha1";

fn document(version: &str, body: &str) -> String {
    let plugins = "plugins: [{type: queue-scorer}, {type: openai-parser}, {type: concurrency-detector}, \
                   {type: file-discovery, parameters: {path: /x}}, {name: syncer, type: local-syncer}, \
                   {name: peers, type: k8s-peer-discovery, parameters: {selector: app=x, port: '9002', namespace: ns}}]";
    format!("apiVersion: {version}\nkind: EndpointPickerConfig\n{plugins}\n{body}\n")
}

fn read(version: &str, body: &str) -> Result<LoadedConfig, ConfigError> {
    load(&document(version, body), &[], Options::default())
}

/// The parts of a picker that the moved fields decide on.
fn effect(loaded: &LoadedConfig) -> String {
    format!("{:?} {:?} {:?}", loaded.parsers, loaded.flow.detector, loaded.layer.discovery_file)
}

/// Each row of the mapping: the former field, and the new one. Two rows for fields that are read, and those that are refused
/// at both places.
#[test]
fn a_moved_field_means_the_same_at_both_places_and_only_its_version_has_it() {
    for (former, new, gone) in [
        (
            "saturationDetector: {pluginRef: concurrency-detector}",
            "flowControl: {saturationDetector: {pluginRef: concurrency-detector}}",
            true,
        ),
        (
            "parser: {pluginRef: openai-parser}",
            "requestHandler: {parsers: [{pluginRef: openai-parser}]}",
            true,
        ),
        (
            "dataLayer: {discovery: {pluginRef: file-discovery}}",
            "dataLayer: {discovery: {endpoints: {pluginRef: file-discovery}}}",
            false,
        ),
    ] {
        let (old, now) = (read(V1ALPHA1, former).unwrap(), read(V1, new).unwrap());
        assert_eq!(effect(&old), effect(&now), "{former}");
        assert_ne!(effect(&now), effect(&read(V1, "").unwrap()), "{new} has no effect");
        assert_eq!(effect(&read(V1ALPHA1, new).unwrap()), effect(&now), "{new}");
        let refused = read(V1, former).unwrap_err();
        let field = former.split([':', ' ']).next().unwrap();
        assert!(refused.to_string().starts_with(field), "{refused}");
        assert!(refused.to_string().contains(" is not a field of llm-d.ai/v1: write "), "{refused}");
        assert!(now.config.deprecations().is_empty());
        let said = old.config.deprecations();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().all(|text| text.starts_with("DEPRECATION: ")), "{said:?}");
        let by =
            |loaded: &LoadedConfig, release| loaded.config.refusal_by(release).map(|error| error.to_string());
        assert_eq!(by(&old, LlmdRelease::Before011), None);
        assert_eq!(by(&old, LlmdRelease::Since011).is_some(), gone, "{former}");
        assert_eq!(by(&now, LlmdRelease::Since011), None);
        assert!(by(&now, LlmdRelease::Before011).unwrap().contains("apiVersion llm-d.ai/v1alpha1"));
    }
    for (former, new, value) in [
        ("crossReplicaSyncerPluginRef", "syncerPluginRef", "syncer"),
        ("crossReplicaSyncInterval", "syncInterval", "500ms"),
        ("crossReplicaPublishTimeout", "publishTimeout", "2s"),
    ] {
        let former_body = format!("dataLayer: {{{former}: {value}}}");
        let new_body = format!("dataLayer: {{crossReplica: {{{new}: {value}}}}}");
        for (version, body, path) in [
            (V1ALPHA1, &former_body, format!("dataLayer.{former}")),
            (V1, &new_body, format!("dataLayer.crossReplica.{new}")),
        ] {
            let warnings = read(version, body).unwrap().config.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].starts_with(&format!("{path}: no effect: ")), "{warnings:?}");
        }
        let refused = |version, body| read(version, body).unwrap_err().to_string();
        let (former, new) = (format!("dataLayer.{former}"), format!("dataLayer.crossReplica.{new}"));
        assert_eq!(refused(V1, &former_body), format!("{former} is not a field of llm-d.ai/v1: write {new}"));
        let message = refused(V1ALPHA1, &new_body);
        assert!(
            message.starts_with("dataLayer.crossReplica is not a field of llm-d.ai/v1alpha1"),
            "{message}"
        );
    }
    for (version, path, end) in [
        (V1, "discovery: {peers", "}"),
        (V1ALPHA1, "discovery: {peers", "}"),
        (V1ALPHA1, "peerDiscovery", ""),
    ] {
        let read =
            |plugin: &str| read(version, &format!("dataLayer: {{{path}: {{pluginRef: {plugin}}}{end}}}"));
        let field = format!("dataLayer.{}", path.replace(": {", "."));
        let warnings = read("peers").unwrap().config.warnings();
        assert_eq!(
            warnings,
            [format!("{field}: no effect: as in llm-d, nothing reads the replicas that it finds")]
        );
        let error = read("syncer").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{field}.pluginRef refers to plugin \"syncer\"")), "{error}");
        assert!(error.contains("a declared peer discovery"), "{error}");
    }
    for (former, now) in [
        ("saturationDetector", "flowControl.saturationDetector.pluginRef"),
        ("parser", "requestHandler.parsers[0].pluginRef"),
    ] {
        let error = read(V1, &format!("{former}: {{pluginRef: p}}")).unwrap_err().to_string();
        assert_eq!(error, format!("{former} is not a field of llm-d.ai/v1: write {now}"));
    }
    let error = read(V1, "dataLayer: {peerDiscovery: {pluginRef: p}}").unwrap_err();
    let wanted =
        "dataLayer.peerDiscovery is not a field of llm-d.ai/v1: write dataLayer.discovery.peers.pluginRef";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn the_new_place_wins_in_an_old_document_and_the_old_one_is_named() {
    let both = "dataLayer: {discovery: {pluginRef: nowhere, endpoints: {pluginRef: file-discovery}}}";
    let loaded = read(V1ALPHA1, both).unwrap();
    assert_eq!(loaded.layer.discovery_file.as_deref(), Some("/x"));
    let said = loaded.config.deprecations();
    assert!(said[1].contains("dataLayer.discovery.pluginRef has no effect beside the new field"), "{said:?}");
    let empty = "parser: {pluginRef: openai-parser}\nrequestHandler: {parsers: []}";
    assert_eq!(read(V1ALPHA1, empty).unwrap().parsers.len(), 1);
}

#[test]
fn errors_name_the_field_at_the_place_where_it_was_written() {
    for (body, path) in [
        ("saturationDetector: {queueDepthThreshold: 5}", "saturationDetector.queueDepthThreshold"),
        ("saturationDetector: {pluginRef: nobody}", "saturationDetector.pluginRef"),
        ("parser: {plugin: 5}", "parser.plugin"),
        ("parser: {pluginRef: nobody}", "parser.pluginRef"),
        ("dataLayer: {discovery: {pluginRef: [1]}}", "dataLayer.discovery.pluginRef"),
        ("dataLayer: {discovery: {pluginRef: nobody}}", "dataLayer.discovery.pluginRef"),
        ("dataLayer: {crossReplicaSyncInterval: soon}", "dataLayer.crossReplicaSyncInterval"),
        ("dataLayer: {crossReplicaPublishTimeout: 0s}", "dataLayer.crossReplicaPublishTimeout"),
        ("dataLayer: {crossReplicaSyncerPluginRef: nobody}", "dataLayer.crossReplicaSyncerPluginRef"),
        ("dataLayer: {crossReplicaSyncerPluginRef: queue-scorer}", "dataLayer.crossReplicaSyncerPluginRef"),
    ] {
        let text = document(V1ALPHA1, body);
        let error = load(&text, &[], Options::default()).unwrap_err();
        assert_eq!(place(&error, &serde_saphyr::from_str(&text).unwrap()), path, "{error}");
        let new = ["flowControl", "requestHandler", "endpoints", "crossReplica."];
        assert!(!new.iter().any(|field| error.to_string().contains(field)), "{error}");
    }
    let text = document(V1, "dataLayer: {crossReplicaSyncInterval: 1s}");
    let error = load(&text, &[], Options::default()).unwrap_err();
    assert_eq!(place(&error, &serde_saphyr::from_str(&text).unwrap()), "dataLayer.crossReplicaSyncInterval");
}

#[test]
fn only_a_syncer_that_is_merged_shares_state_and_its_timeout_is_positive() {
    let error = read(V1, "dataLayer: {crossReplica: {publishTimeout: 0s}}").unwrap_err().to_string();
    assert!(error.ends_with("crossReplica.publishTimeout must be positive, got 0s"), "{error}");
    let redis = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins: [{name: redis, type: redis-state-store}]\n\
                 dataLayer: {crossReplica: {syncerPluginRef: redis}}\n";
    let error = load(redis, &[], Options::default()).unwrap_err().to_string();
    assert!(error.contains("redis"), "{error}");
}

#[test]
fn both_versions_and_the_former_group_are_read_strictly() {
    for version in [V1, V1ALPHA1, FORMER_GROUP] {
        let loaded = read(version, "").unwrap();
        assert_eq!(loaded.config.deprecations().is_empty(), version == V1, "{version}");
        let error = read(version, "schedulingProfile: []").unwrap_err().to_string();
        assert!(error.contains("there is no field \"schedulingProfile\" here"), "{error}");
    }
    let group = read(FORMER_GROUP, "").unwrap().config;
    assert!(group.deprecations()[0].contains(FORMER_GROUP));
    assert!(group.refusal_by(LlmdRelease::Before011).is_none());
    assert!(group.refusal_by(LlmdRelease::Since011).unwrap().to_string().contains("apiVersion llm-d.ai/v1,"));
    for other in ["llm-d.ai/v2", "v1", "''"] {
        let error = read(other, "schedulingProfile: []").unwrap_err();
        assert!(matches!(error, ConfigError::Kind { .. }), "the version decides on fields: {error}");
    }
    assert!(EndpointPickerConfig::parse("apiVersion: [1]\nkind: EndpointPickerConfig\n").is_err());
    assert!(EndpointPickerConfig::parse("- x\n").is_err());
    assert!(EndpointPickerConfig::parse("").unwrap().deprecations().is_empty());
}

#[test]
fn the_last_feature_gate_counts_and_those_of_the_command_line_come_last() {
    let gates = |gates: &[&str]| gates.iter().map(|gate| (*gate).to_owned()).collect::<Vec<_>>();
    let text = document(V1, "featureGates: [flowControl]\nflowControl: {maxRequests: 3}");
    for (line, enabled) in
        [(&[][..], true), (&["flowControl=false"], false), (&["flowControl=false", "flowControl"], true)]
    {
        let loaded = load(&text, &gates(line), Options::default()).unwrap();
        assert_eq!(loaded.flow.enabled, enabled, "{line:?}");
        assert_eq!(loaded.config.warnings().len(), usize::from(!enabled), "{line:?}");
    }
    let error = load(&text, &gates(&["flowcontrol"]), Options::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("--feature-gates: unknown feature gate \"flowcontrol\"; did you mean")
    );
    assert_eq!(place(&error, &serde_json::Value::Null), "");
    assert!(load("", &gates(&["flowControl"]), Options::default()).unwrap().flow.enabled);
}
