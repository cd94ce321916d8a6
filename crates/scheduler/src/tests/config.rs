//! What is read, what is filled in, and what is refused.

use crate::{
    ConfigError, Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig, MetricSpec},
    known_types,
};

const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

fn build(body: &str) -> Result<Scheduler, ConfigError> {
    let config = EndpointPickerConfig::parse(&format!("{HEAD}{body}"))?;
    Scheduler::new(&config, Options::default())
}

fn refused(body: &str) -> String {
    build(body).unwrap_err().to_string()
}

#[test]
fn no_configuration_is_the_default_one() {
    let config = EndpointPickerConfig::parse("").unwrap();
    let scheduler = Scheduler::new(&config, Options::default()).unwrap();
    assert!(format!("{scheduler:?}").contains("default"));
}

#[test]
fn kserves_generated_configurations_are_read() {
    build(
        "plugins:
- type: single-profile-handler
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: no-hit-lru-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
  - pluginRef: no-hit-lru-scorer
    weight: 2
  - pluginRef: max-score-picker
",
    )
    .unwrap();
}

#[test]
fn the_former_group_and_unset_lists_are_accepted() {
    let text = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\nplugins:\nschedulingProfiles:\nfeatureGates: [flowControl=false]\n";
    let config = EndpointPickerConfig::parse(text).unwrap();
    assert!(config.plugins.is_empty() && config.warnings().is_empty());
    let other = "apiVersion: v1\nkind: ConfigMap\n";
    assert!(matches!(EndpointPickerConfig::parse(other), Err(ConfigError::Kind { .. })));
}

#[test]
fn what_has_no_effect_yet_is_warned_about() {
    let config = EndpointPickerConfig::parse(&format!("{HEAD}flowControl: {{maxRequests: 5}}\n")).unwrap();
    assert_eq!(config.warnings().len(), 1);
}

#[test]
fn unknown_fields_types_and_gates_are_refused_by_name() {
    assert!(refused("pluginz: []\n").contains("pluginz"));
    let unknown = refused("plugins: [{type: queue-scorrer}]\n");
    assert!(unknown.contains("queue-scorrer") && unknown.contains("queue-scorer, "), "{unknown}");
    assert!(refused("plugins: [{type: latency-scorer}]\n").contains("not implemented yet"));
    assert!(refused("plugins: [{type: session-affinity-scorer}]\n").contains("--allow-experimental-plugins"));
    assert!(refused("featureGates: [flow]\n").contains("flow"));
    let parameters = refused("plugins: [{type: load-aware-scorer, name: l, parameters: {treshold: 1}}]\n");
    assert!(parameters.contains("\"l\"") && parameters.contains("treshold"), "{parameters}");
    assert!(refused("plugins: [{type: queue-scorer, parameters: {x: 1}}]\n").contains('x'));
}

#[test]
fn contradictions_are_refused() {
    let twice = "plugins: [{type: queue-scorer}, {type: queue-scorer}]\n";
    assert!(matches!(build(twice), Err(ConfigError::DuplicatePlugin(_))));
    let handlers = "plugins: [{type: single-profile-handler}, {type: disagg-profile-handler}]\n";
    assert!(matches!(build(handlers), Err(ConfigError::ProfileHandlers(..))));
    let profiles = "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a}, {name: b}]\n";
    assert!(matches!(build(profiles), Err(ConfigError::SingleProfile(2))));
    let pickers = "plugins: [{type: max-score-picker}, {type: random-picker}]\n";
    assert!(matches!(build(pickers), Err(ConfigError::Pickers(_))));
    let reference =
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: x}]}]\n";
    assert!(matches!(build(reference), Err(ConfigError::Reference { .. })));
    let missing = "plugins: [{type: disagg-profile-handler}]\nschedulingProfiles: [{name: a}]\n";
    assert!(matches!(build(missing), Err(ConfigError::MissingProfile { .. })));
    let decider = "plugins: [{type: disagg-profile-handler, parameters: {deciders: {prefill: x}}}]\nschedulingProfiles: [{name: decode}, {name: prefill}]\n";
    assert!(matches!(build(decider), Err(ConfigError::Reference { .. })));
    let producer = "plugins: [{type: token-load-scorer}]\n";
    assert!(matches!(build(producer), Err(ConfigError::MissingProducer { .. })));
    let prefix = "plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: x}}]\n";
    assert!(matches!(build(prefix), Err(ConfigError::Reference { .. })));
}

#[test]
fn every_type_that_is_named_can_be_named_once() {
    let types = known_types();
    let mut unique = types.clone();
    unique.dedup();
    assert_eq!(types, unique);
}

#[test]
fn the_data_layer_is_read_from_its_plugins() {
    let read = |body: &str| {
        let config = EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap();
        DataLayer::from_config(&config)
    };
    let layer = read(
        "plugins:
- type: metrics-data-source
  parameters: {scheme: https, path: /m, insecureSkipVerify: true}
- type: core-metrics-extractor
  parameters:
    defaultEngine: mine
    engineConfigs: [{name: mine, queuedRequestsSpec: 'q{a=b, c=\"d\"}'}]
- type: file-discovery
  name: f
  parameters: {path: /endpoints.yaml, watchFile: true}
dataLayer: {discovery: {endpoints: {pluginRef: f}}}
",
    )
    .unwrap();
    assert_eq!((layer.source.scheme.as_str(), layer.source.path.as_str()), ("https", "/m"));
    assert_eq!(layer.discovery_file.as_deref(), Some("/endpoints.yaml"));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        layer.engines["mine"].queued_requests_spec,
        Some(MetricSpec { name: "q".to_owned(), labels: vec![pair("a", "b"), pair("c", "d")] })
    );
    assert!(read("plugins: [{type: metrics-data-source, parameters: {schema: http}}]\n").is_err());
    assert!(read("plugins: [{type: core-metrics-extractor, parameters: {defaultEngine: x}}]\n").is_err());
    assert!(read("dataLayer: {injectDefaults: false}\n").unwrap().disabled);
}

#[test]
fn every_missing_type_is_named_at_once() {
    let message =
        refused("plugins: [{type: one}, {type: latency-scorer, name: two}, {type: queue-scorer}]\n");
    assert!(
        message.starts_with(
            "unknown plugin type \"one\" of plugin \"one\"; plugin type \"latency-scorer\" of plugin \"two\" is not implemented yet; known types are "
        ),
        "{message}"
    );
}

#[test]
fn references_to_parsers_and_parts_of_flow_control_lead_to_plugins_of_the_right_sort() {
    let declared = "plugins:\n- {type: openai-parser, name: mine}\n- {type: queue-scorer}\n- {type: fcfs-ordering-policy, name: first}\n";
    for (body, wrong) in [
        ("requestHandler: {parsers: [{pluginRef: mine}]}\n", None),
        ("requestHandler: {parsers: [{pluginRef: mien}]}\n", Some("mien")),
        ("requestHandler: {parsers: [{pluginRef: queue-scorer}]}\n", Some("queue-scorer")),
        ("parser: {pluginRef: nobody}\n", Some("nobody")),
        ("saturationDetector: {pluginRef: utilization-detector}\n", None),
        ("saturationDetector: {pluginRef: mine}\n", Some("mine")),
        ("flowControl: {saturationDetector: {pluginRef: nobody}}\n", Some("nobody")),
        ("flowControl: {usageLimitPolicyPluginRef: first}\n", Some("first")),
        ("flowControl: {priorityBands: [{priority: 1, orderingPolicyRef: first}]}\n", None),
        (
            "flowControl: {priorityBands: [{priority: 1, fairnessPolicyRef: first}]}\n",
            Some("flowControl.priorityBands[0].fairnessPolicyRef"),
        ),
        ("flowControl: {defaultPriorityBand: {orderingPolicyRef: last}}\n", Some("last")),
    ] {
        match (build(&format!("{declared}{body}")), wrong) {
            (Ok(_), None) => {}
            (Err(error), Some(wrong)) => assert!(error.to_string().contains(wrong), "{body}: {error}"),
            (outcome, _) => panic!("{body}: {outcome:?}"),
        }
    }
}
