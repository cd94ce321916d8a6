//! Reading, defaulting and validation of configurations.

use crate::{
    ConfigError, Options, REFUSED, Scheduler,
    config::{DataLayer, EndpointPickerConfig, load, place},
    flow, known_types,
    prefix::Settings,
    prefixes::PrefixSource,
    registry::instantiate,
};

pub(super) const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

pub(super) fn build(body: &str) -> Result<Scheduler, ConfigError> {
    let config = EndpointPickerConfig::parse(&format!("{HEAD}{body}"))?;
    Scheduler::new(&config, Options::default())
}

pub(super) fn refused(body: &str) -> String {
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
    assert!(
        unknown.contains("queue-scorrer") && unknown.contains("did you mean \"queue-scorer\"?"),
        "{unknown}"
    );
    assert!(refused("plugins: [{type: dcgm-extractor}]\n").contains("it needs NVIDIA's DCGM exporter"));
    assert!(refused("plugins: [{type: session-affinity-scorer}]\n").contains("--allow-experimental-plugins"));
    assert!(refused("featureGates: [flow]\n").contains("flow"));
    let parameters = refused("plugins: [{type: load-aware-scorer, name: l, parameters: {treshold: 1}}]\n");
    assert!(parameters.contains("\"l\"") && parameters.contains("treshold"), "{parameters}");
    assert!(refused("plugins: [{type: queue-scorer, parameters: {x: 1}}]\n").contains('x'));
}

#[test]
fn what_does_not_fit_is_refused_by_path_and_value_with_what_was_meant() {
    let document = "the endpoint picker configuration: ";
    for (body, message) in [
        (
            "plugins: [{type: queue-scorer}]\nschedulingProfile: []",
            "there is no field \"schedulingProfile\" here, only",
        ),
        ("schedulingProfile: []", "did you mean \"schedulingProfiles\"?"),
        (
            "schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: heavy}]}]",
            "schedulingProfiles[0].plugins[0].weight: expected a number, found \"heavy\"",
        ),
        (
            "schedulingProfiles: [{name: a, plugins: [{pluginref: x}]}]",
            "schedulingProfiles[0].plugins[0]: there is no field \"pluginref\" here, only pluginRef, weight; did you mean \"pluginRef\"?",
        ),
        ("plugins: [{name: a}]", "plugins[0]: field \"type\" is missing"),
        ("featureGates: {flowControl: true}", "featureGates: expected a list, found an object"),
    ] {
        let error = refused(body);
        assert!(error.starts_with(document) && error.contains(message), "{error}");
    }
    let error = refused("plugins: [{type: prefix-cache-scorer, parameters: {hashBlockSise: 5}}]");
    assert!(error.starts_with("parameters of plugin \"prefix-cache-scorer\": there is no field"), "{error}");
    let error = refused("plugins: [{type: queue-scorer}]\nplugins: []");
    assert!(error.contains("plugins"), "{error}");
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
fn every_missing_type_is_named_at_once() {
    let message =
        refused("plugins: [{type: one}, {type: dcgm-extractor, name: two}, {type: queue-scorer}]\n");
    let (first, second) = message.split_once("; plugin type ").unwrap();
    assert!(
        first.starts_with("unknown plugin type \"one\" of plugin \"one\"; the nearest are "),
        "{message}"
    );
    assert_eq!(first.matches(", ").count(), 2, "{message}");
    assert_eq!(
        second,
        "\"dcgm-extractor\" of plugin \"two\" is not supported, because it needs NVIDIA's DCGM exporter beside each model \
         server; docs/reference/plugins.md lists all types"
    );
}

#[test]
fn former_names_of_types_are_told_with_the_present_ones() {
    for (former, present) in [
        ("prefix-cache", "prefix-cache-scorer"),
        ("max-score", "max-score-picker"),
        ("single-profile", "single-profile-handler"),
        ("kv-cache-scorer", "kv-cache-utilization-scorer"),
    ] {
        let message = refused(&format!("plugins: [{{type: {former}, name: mine}}]\n"));
        let wanted =
            format!("plugin type \"{former}\" of plugin \"mine\" has a new name: write \"{present}\"");
        assert_eq!(message, wanted);
    }
}

#[test]
fn an_unknown_type_is_told_with_the_three_nearest_and_the_page_of_all() {
    let message = refused("plugins: [{type: session-interturn-latency-producer}]\n");
    assert!(message.contains("the nearest are predicted-latency-producer, "), "{message}");
    assert!(message.ends_with("; docs/reference/plugins.md lists all types"), "{message}");
    assert!(message.len() < 300, "{message}");
    let long = format!("plugins: [{{type: {}}}]\n", "x".repeat(100_000));
    assert!(refused(&long).contains("the nearest are "));
}

#[test]
fn weights_below_zero_are_refused() {
    let profile = |weight: &str| {
        format!(
            "plugins: [{{type: queue-scorer}}]\nschedulingProfiles: [{{name: a, plugins: [{{pluginRef: queue-scorer, weight: {weight}}}]}}]\n"
        )
    };
    assert!(refused(&profile("-1")).contains("expected 0 or more, found -1"));
    build(&profile("0")).unwrap();
}

#[test]
fn lists_are_bounded() {
    let many =
        |count: usize, entry: &dyn Fn(usize) -> String| (0..count).map(entry).collect::<Vec<_>>().join(", ");
    let plugins = many(513, &|number| format!("{{type: queue-scorer, name: p{number}}}"));
    assert_eq!(
        refused(&format!("plugins: [{plugins}]\n")),
        "plugins: expected at most 512 entries, found 513"
    );
    let unknown = many(512, &|number| format!("{{type: \"{number}{}\"}}", "y".repeat(120)));
    assert!(refused(&format!("plugins: [{unknown}]\n")).contains("; 504 more plugins have unknown types; "));
    let uses = many(513, &|_| "{pluginRef: x}".to_owned());
    let profile = format!("schedulingProfiles: [{{name: a, plugins: [{uses}]}}]\n");
    assert!(refused(&profile).starts_with("schedulingProfiles[0].plugins: expected at most 512"));
}

#[test]
fn a_prefix_scorer_brings_the_parameters_of_the_shared_producer_or_says_that_they_have_no_effect() {
    let scorer = "{type: prefix-cache-scorer, parameters: {lruCapacityPerServer: 7}}";
    let other = "{type: no-hit-lru-scorer}";
    for plugins in [format!("{scorer}, {other}"), format!("{other}, {scorer}")] {
        let text = format!("{HEAD}plugins: [{plugins}]\n");
        let (_, builder) = instantiate(&EndpointPickerConfig::parse(&text).unwrap(), false).unwrap();
        let sources: Vec<_> = builder.all::<PrefixSource>().map(|(.., source)| source).collect();
        assert!(
            matches!(sources[..], [PrefixSource::Approximate(Settings { capacity: 7, .. })]),
            "{plugins}"
        );
        assert_eq!(load(&text, &[], Options::default()).unwrap().warnings(), [""; 0]);
    }
    for producer in ["approx-prefix-cache-producer", "prefix-cache-scorer"] {
        let text =
            format!("{HEAD}plugins: [{{type: {producer}}}, {}]\n", scorer.replace("type", "name: it, type"));
        let warnings = load(&text, &[], Options::default()).unwrap().warnings();
        let why = "plugins[1].parameters: no effect: set the parameters of the prefix producer at plugin \
                   \"approx-prefix-cache-producer\"";
        assert_eq!(warnings, [why], "{producer}");
    }
    let none = refused("plugins: [{type: prefix-cache-scorer, parameters: {lruCapacityPerServer: 0}}]\n");
    assert!(none.ends_with("lruCapacityPerServer: expected a number above 0, found 0"), "{none}");
}

#[test]
fn every_error_has_the_place_of_its_field() {
    let profile = "schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}]}]";
    for (body, wanted) in [
        ("plugins: [{type: queue-scorer}, {type: queue-scorerr}]".to_owned(), "plugins[1].type"),
        ("plugins: [{type: agent-identity, name: a}]".to_owned(), "plugins[0].type"),
        ("plugins: [{type: queue-scorer}, {type: queue-scorer}]".to_owned(), "plugins[1]"),
        (
            "plugins: [{type: queue-scorer, parameters: {threshold: 3}}]".to_owned(),
            "plugins[0].parameters.threshold",
        ),
        (
            "plugins: [{type: metrics-data-source, parameters: {interval: x}}]".to_owned(),
            "plugins[0].parameters.interval",
        ),
        (
            "plugins: [{type: load-aware-scorer, parameters: {threshold: 0}}]".to_owned(),
            "plugins[0].parameters.threshold",
        ),
        (
            "plugins: [{type: core-metrics-extractor, parameters: {engineConfigs: [{name: a}, {}]}}]".to_owned(),
            "plugins[0].parameters.engineConfigs[1].name",
        ),
        ("featureGates: [flowControl, flowControll]".to_owned(), "featureGates[1]"),
        ("schedulingProfile: []".to_owned(), "schedulingProfile"),
        (
            format!("plugins: [{{type: queue-scorer}}]\n{}", profile.replace("}]}", ", wieght: 2}]}")),
            "schedulingProfiles[0].plugins[0].wieght",
        ),
        (
            format!("plugins: [{{type: queue-scorer}}]\n{}", profile.replace("}]}", ", weight: -2}]}")),
            "schedulingProfiles[0].plugins[0].weight",
        ),
        (
            format!("plugins: [{{type: queue-scorer, name: q}}]\n{profile}"),
            "schedulingProfiles[0].plugins[0].pluginRef",
        ),
        (
            "plugins: [{type: queue-scorer}]\nrequestHandler: {parsers: [{pluginRef: mien}]}".to_owned(),
            "requestHandler.parsers[0].pluginRef",
        ),
        (
            "plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: x}}]".to_owned(),
            "plugins[0].parameters.prefixMatchInfoProducerName",
        ),
        (
            "saturationDetector: {queueDepthThreshold: 5}".to_owned(),
            "saturationDetector.queueDepthThreshold",
        ),
        (
            "dataLayer: {crossReplicaSyncInterval: soon}".to_owned(),
            "dataLayer.crossReplicaSyncInterval",
        ),
        ("plugins: [{type: token-load-scorer}]".to_owned(), "plugins[0]"),
        (
            "plugins: [{type: single-profile-handler}, {type: disagg-profile-handler}]".to_owned(),
            "plugins[1]",
        ),
        ("schedulingProfiles: [{name: a}, {name: a}]".to_owned(), "schedulingProfiles[1]"),
        ("schedulingProfiles: [{name: a}, {name: b}]".to_owned(), "schedulingProfiles"),
        (
            "plugins: [{type: disagg-profile-handler}]\nschedulingProfiles: [{name: a}]".to_owned(),
            "plugins[0]",
        ),
        (
            "plugins: [{type: max-score-picker}, {type: random-picker}]\nschedulingProfiles: [{name: a, plugins: \
             [{pluginRef: max-score-picker}, {pluginRef: random-picker}]}]"
                .to_owned(),
            "schedulingProfiles[0]",
        ),
    ] {
        let text = format!("{HEAD}{body}\n");
        let error = load(&text, &[], Options::default()).unwrap_err();
        let document = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(place(&error, &document), wanted, "{body}: {error}");
    }
    for (head, wanted) in [
        ("apiVersion: llm-d.ai/v1beta9\nkind: EndpointPickerConfig\n", "apiVersion"),
        (&HEAD.replace("Config", "Configs"), "kind"),
    ] {
        let error = load(head, &[], Options::default()).unwrap_err();
        assert_eq!(place(&error, &serde_saphyr::from_str(head).unwrap()), wanted);
    }
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
        ("saturationDetector: {}\n", None),
        ("flowControl: {saturationDetector: {}}\n", None),
        ("flowControl: {saturationDetector: {pluginRef: \"\"}}\n", None),
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

#[test]
fn plugins_of_flow_control_that_nothing_refers_to_are_checked_too() {
    for (plugin, wrong) in [
        ("{type: concurrency-detector, parameters: {maxConcurency: 5}}", "maxConcurency"),
        ("{type: utilization-detector, parameters: {queueDepthThreshold: 0}}", "above 0"),
        ("{type: static-usage-limit-policy, parameters: {threshold: -1}}", "threshold"),
        ("{type: priority-holdback-policy}", "minCeiling"),
        ("{type: edf-ordering-policy, parameters: {x: 1}}", "x"),
        ("{type: round-robin-fairness-policy, parameters: {y: 1}}", "y"),
    ] {
        let config =
            EndpointPickerConfig::parse(&format!("{HEAD}plugins: [{{type: queue-scorer}}, {plugin}]\n"));
        let options = Options { allow_experimental: true, trace: false };
        let message = Scheduler::new(&config.unwrap(), options).unwrap_err().to_string();
        assert!(message.contains(wrong), "{plugin}: {message}");
    }
}

#[test]
fn the_types_that_are_refused_are_sorted_and_not_known() {
    assert!(REFUSED.is_sorted() && REFUSED.iter().all(|(name, _)| !known_types().contains(name)));
}

#[test]
fn what_is_wrong_is_told_with_its_place_its_value_and_what_was_meant() {
    let flow = "featureGates: [flowControl]\nplugins: [{type: queue-scorer}]\nflowControl: ";
    let profile = "schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]";
    for (body, message) in [
        (
            format!("plugins: [{{type: queue-scorer, name: load}}]\n{profile}"),
            "schedulingProfiles: profile \"default\": pluginRef refers to plugin \"queue-scorer\", which is not a declared \
             plugin; only \"load\" is declared",
        ),
        (
            "plugins: [{type: queue-scorer}]\ndataLayer: {discovery: {pluginRef: queue-scorer}}".to_owned(),
            "dataLayer.discovery.pluginRef refers to plugin \"queue-scorer\", which is not a declared file-discovery plugin; \
             the plugin of this name has another type",
        ),
        (
            "plugins: [{type: multicluster-file-discovery, name: all}]\ndataLayer: {discovery: {pluginRef: all}}".to_owned(),
            "plugin type \"multicluster-file-discovery\" of plugin \"all\" is not supported, because it needs pools of other \
             clusters",
        ),
        (
            "plugins: [{type: queue-scorre}, {type: dcgm-extractor}]".to_owned(),
            "unknown plugin type \"queue-scorre\" of plugin \"queue-scorre\"; did you mean \"queue-scorer\"?; plugin type \
             \"dcgm-extractor\" of plugin \"dcgm-extractor\" is not supported, because it needs NVIDIA's DCGM exporter beside \
             each model server",
        ),
        (
            "plugins: [{type: queue-scorer}, {type: queue-scorer}]".to_owned(),
            "plugins: two plugins have the name \"queue-scorer\"; give one of them another name with the field name",
        ),
        (
            "featureGates: [\"flowControl=x\"]".to_owned(),
            "featureGates: feature gate flowControl is \"x\": expected true or false",
        ),
        (
            "featureGates: [flowcontrol, dataLayer]".to_owned(),
            "featureGates: unknown feature gate \"flowcontrol\"; did you mean \"flowControl\"?, \"dataLayer\"; known are \
             flowControl and haPopulateNonLeaderDatastore",
        ),
        (
            format!("{flow}{{defaultRequestTTL: 60}}"),
            "the endpoint picker configuration: flowControl.defaultRequestTTL: expected a duration such as 60s, or 0s for no \
             limit, found 60",
        ),
        (
            format!("{flow}{{maxRequests: -1}}"),
            "the endpoint picker configuration: flowControl.maxRequests: expected a whole number, or a quantity such as 1G, \
             found -1",
        ),
        (
            format!("{flow}{{priorityBands: [{{priority: 1}}, {{priority: 0, maxBytes: 1GB}}]}}"),
            "the endpoint picker configuration: flowControl.priorityBands[1].maxBytes: expected a whole number, or a quantity \
             such as 1G, found \"1GB\"",
        ),
        (
            format!("{flow}{{priorityBands: [{{priority: 0}}, {{priority: 0}}]}}"),
            "the endpoint picker configuration: flowControl.priorityBands[1].priority: 0 is listed twice",
        ),
        (
            format!("{flow}{{defaultPriorityBand: {{maxRequest: 1}}}}"),
            "the endpoint picker configuration: flowControl.defaultPriorityBand: there is no field \"maxRequest\" here, only \
             priority, maxBytes, maxRequests, fairnessPolicyRef, orderingPolicyRef, defaultRequestTTL, \
             noEndpointRequestTTL; did you mean \"maxRequests\"?",
        ),
        (
            "plugins: [{type: utilization-detector, parameters: {queueDepthThreshold: -3}}]".to_owned(),
            "parameters of plugin \"utilization-detector\": queueDepthThreshold: expected a number above 0, found -3",
        ),
        (
            format!("plugins: [{{type: disagg-profile-handler}}, {{type: queue-scorer}}]\n{profile}"),
            "plugin \"disagg-profile-handler\" runs scheduling profile \"decode\", which is not declared in \
             schedulingProfiles; only \"default\" is declared",
        ),
    ] {
        let read = EndpointPickerConfig::parse(&format!("{HEAD}{body}\n"));
        let built = read.and_then(|config| {
            DataLayer::from_config(&config)?;
            flow::Settings::from_config(&config)?;
            Scheduler::new(&config, Options::default())
        });
        assert_eq!(built.unwrap_err().to_string(), message, "{body}");
    }
}

#[test]
fn what_is_not_yaml_is_told_without_the_words_of_a_library() {
    for (body, wanted) in [
        ("plugins: []\nplugins: []\n", "line 4 column 1: duplicate mapping key: plugins"),
        ("plugins:\n\t- type: queue-scorer\n", "a tab where YAML takes only spaces"),
        ("x: &a [*a]\n", "an alias within its own anchor"),
        ("x: .nan\n", "is not a number here"),
    ] {
        let message = EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
        for theirs in ["Policy", "policy", "Options", "error:", "weak"] {
            assert!(!message.contains(theirs), "{message}");
        }
    }
}

#[test]
fn what_needs_priorities_is_told_of_where_endpoints_come_from_a_file() {
    let warnings = |body: &str| EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap().warnings();
    let flow = "featureGates: [flowControl]\nplugins: [{type: file-discovery, parameters: {path: /x}}]\n\
                flowControl: {enableEviction: true, priorityBands: [{priority: 0}, {priority: 5}]}\n";
    let file = format!("{flow}dataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n");
    let told = warnings(&file);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("flowControl.priorityBands") && told[1].starts_with("flowControl.enableEviction")
    );
    assert_eq!(warnings(flow), Vec::<String>::new(), "objectives are read where there is an API server");
    let plain = file.replace(", {priority: 5}", "").replace("enableEviction: true, ", "");
    assert_eq!(warnings(&plain), Vec::<String>::new());
}
