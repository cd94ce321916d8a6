//! Reading and validation of the data layer of configurations.

use super::config::{HEAD, build, refused};
use crate::config::{DataLayer, EndpointPickerConfig, MetricSpec};

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
    for interval in ["0s", "soon"] {
        let text =
            format!("plugins: [{{type: metrics-data-source, parameters: {{interval: {interval}}}}}]\n");
        assert!(read(&text).unwrap_err().to_string().contains("interval: expected a duration above 0"));
    }
    let two =
        read("plugins: [{type: metrics-data-source}, {type: metrics-data-source, name: it}]\n").unwrap_err();
    assert_eq!(two.to_string(), "parameters of plugin \"it\": there may be one metrics-data-source");
    assert!(read("dataLayer: {injectDefaults: false}\n").unwrap().disabled);
}

#[test]
fn empty_names_of_an_extractor_are_as_if_they_were_not_there() {
    let extractor = |parameters: &str| {
        let plugin = format!("plugins: [{{type: core-metrics-extractor, parameters: {{{parameters}}}}}]\n");
        DataLayer::from_config(&EndpointPickerConfig::parse(&format!("{HEAD}{plugin}")).unwrap())
    };
    let empty = extractor(
        "defaultEngine: '', engineLabelKey: '', engineConfigs: [{name: vllm, kvUsageSpec: u, loraSpec: ''}]",
    )
    .unwrap();
    let default = extractor("").unwrap();
    assert_eq!((empty.default_engine, empty.engine_labels), (default.default_engine, default.engine_labels));
    assert_eq!(empty.engines["vllm"].lora_spec, None);
    for (engines, message) in [
        ("{name: default}", "engineConfigs[0].name: \"default\" is the name of defaultEngine"),
        ("{name: a}, {name: a}", "engineConfigs[1].name: an engine above has this name"),
        (
            "{name: a, customMetrics: [{attributeKey: '', metricSpec: m}]}",
            "engineConfigs[0].customMetrics[0].attributeKey: it is required",
        ),
        (
            "{name: a, customMetrics: [{attributeKey: k, metricSpec: m}, {attributeKey: k, metricSpec: other}]}",
            "engineConfigs[0].customMetrics[1].attributeKey: a metric above has this key",
        ),
        ("{name: a, customMetrics: [{attributeKey: k, metricSpec: ''}]}", "metric specification \"\""),
    ] {
        let error = extractor(&format!("engineConfigs: [{engines}]")).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn sources_and_extractors_are_declared_plugins_of_their_sort() {
    let declared = "plugins: [{type: metrics-data-source}, {type: core-metrics-extractor}]\n";
    build(&format!(
        "{declared}dataLayer: {{sources: [{{pluginRef: metrics-data-source, extractors: [{{pluginRef: core-metrics-extractor}}]}}]}}\n"
    ))
    .unwrap();
    let source = refused(&format!("{declared}dataLayer: {{sources: [{{pluginRef: metrics-data-sorce}}]}}\n"));
    assert_eq!(
        source,
        "dataLayer.sources[0].pluginRef refers to plugin \"metrics-data-sorce\", which is not a declared data source; \
         did you mean \"metrics-data-source\"?"
    );
    let extractor = refused(&format!(
        "{declared}dataLayer: {{sources: [{{pluginRef: metrics-data-source, extractors: [{{pluginRef: metrics-data-source}}]}}]}}\n"
    ));
    assert!(extractor.contains("dataLayer.sources[0].extractors[0].pluginRef"), "{extractor}");
}
