//! The parameters of precise prefix producers and of tokenizers.

use std::time::Duration;

use crate::{
    ConfigError, EndpointEvents, EventSource, ListenForEvents, Options, Scheduler, VideoProperties,
    config::EndpointPickerConfig,
};

const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

fn build(plugins: &str) -> Result<Scheduler, ConfigError> {
    let config = EndpointPickerConfig::parse(&format!("{HEAD}plugins:\n{plugins}"))?;
    Scheduler::new(&config, Options::default())
}

fn producer(parameters: &str) -> Result<Scheduler, ConfigError> {
    build(&format!(
        "- {{type: precise-prefix-cache-producer, parameters: {parameters}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}\n"
    ))
}

#[test]
fn what_the_controller_writes_is_understood() {
    let scheduler = build(
        "- type: token-producer
  parameters: {modelName: /mnt/models/base, vllm: {url: 'https://tokenizer.ns.svc:8000'}}
- type: precise-prefix-cache-producer
  parameters:
    indexerConfig: {kvBlockIndexConfig: {enableMetrics: true}}
    kvEventsConfig: {discoverPods: true, podDiscoveryConfig: {socketPort: 5600, replaySocketPort: 5700}, topicFilter: kv@}
    tokenProcessorConfig: {blockSize: 64, hashSeed: '42', hashAlgorithm: xxh64}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}\n",
    )
    .unwrap();
    let tokenizer = scheduler.tokenizer().unwrap();
    assert_eq!(tokenizer.model, "/mnt/models/base");
    assert_eq!(tokenizer.timeout, Duration::from_secs(5));
    let holdings = scheduler.state().holdings();
    let settings = holdings[0].settings();
    assert_eq!((settings.limits.block_tokens, settings.limits.seed.as_str()), (64, "42"));
    let endpoints = EndpointEvents { port: 5600, replay_port: Some(5700), labels: Vec::new() };
    let listen = ListenForEvents { address: "*:5557".into(), required: false };
    let events = EventSource { topic: "kv@".into(), endpoints: Some(endpoints), listen: Some(listen) };
    assert_eq!(settings.events, events);
}

#[test]
fn sizes_weights_and_labels_have_an_effect() {
    let scheduler = producer(
        "{indexerConfig: {kvBlockIndexConfig: {costAwareMemoryConfig: {size: 1MiB}}, kvCacheBackendConfigs: [{name: CPU, weight: 0.5}]},
          speculativeIndexing: true, speculativeTTL: 3s,
          kvEventsConfig: {zmqEndpoint: 'tcp://*:5600', podDiscoveryConfig: {podLabelSelector: 'a=b, c'}}}",
    )
    .unwrap();
    let holdings = scheduler.state().holdings();
    let settings = holdings[0].settings();
    assert_eq!(settings.limits.entries, 4096);
    assert_eq!(settings.limits.weights, [("cpu".to_owned(), 0.5)]);
    assert_eq!(settings.speculative_ms, Some(3000));
    let listen = settings.events.listen.as_ref().unwrap();
    assert_eq!((listen.address.as_str(), listen.required), ("*:5600", true));
    let labels = &settings.events.endpoints.as_ref().unwrap().labels;
    assert_eq!(labels[..], [("a".to_owned(), Some("b".to_owned())), ("c".to_owned(), None)]);
}

#[test]
fn the_scorer_of_former_releases_reads_a_producer_that_is_declared_before_it() {
    let scorer = "- {type: precise-prefix-cache-scorer, parameters: {speculativeIndexing: true}}\n";
    let producer = |name: &str| format!("- {{type: precise-prefix-cache-producer, name: {name}}}\n");
    let both = build(&(producer("a") + scorer)).unwrap();
    assert_eq!(both.state().holdings().len(), 1);
    assert!(both.warnings[0].contains("set them at plugin \"a\""), "{:?}", both.warnings);
    assert_eq!(
        build(&("- {type: token-producer, parameters: {modelName: m}}\n".to_owned() + scorer))
            .unwrap()
            .state()
            .holdings()
            .len(),
        1
    );
    let error = build(&(producer("a") + &producer("b") + scorer)).unwrap_err().to_string();
    assert!(error.contains("several precise-prefix-cache-producers"), "{error}");
}

#[test]
fn an_index_of_the_size_that_llm_d_configures_is_smaller_and_says_so() {
    let scheduler =
        producer("{indexerConfig: {kvBlockIndexConfig: {inMemoryConfig: {size: 100000000}}}}").unwrap();
    assert_eq!(scheduler.state().holdings()[0].settings().limits.entries, 1 << 24);
    assert!(scheduler.warnings[0].contains("at most 16777216 blocks, and not 100000000"));
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    for (parameters, named) in [
        ("{tokenProcessorConfig: {blockSizeTokens: 0}}", "blockSizeTokens"),
        ("{tokenProcessorConfig: {hashAlgorithm: sha256}}", "hashAlgorithm"),
        ("{indexerConfig: {tokenizersPoolConfig: {}}}", "tokenizersPoolConfig"),
        ("{indexerConfig: {kvBlockIndexConfig: {redisConfig: {address: x}}}}", "redisConfig"),
        ("{indexerConfig: {kvBlockIndexConfig: {inMemoryConfig: {size: 0}}}}", "kvBlockIndexConfig"),
        (
            "{indexerConfig: {kvCacheBackendConfigs: [{name: gpu, weight: 2}]}}",
            "kvCacheBackendConfigs[0].weight",
        ),
        ("{kvEventsConfig: {engineType: other}}", "engineType"),
        ("{kvEventsConfig: {zmqEndpoint: 'ipc:///tmp/x'}}", "zmqEndpoint"),
        ("{kvEventsConfig: {discoverPods: false, zmqEndpoint: ''}}", "discoverPods"),
        ("{kvEventsConfig: {podDiscoveryConfig: {podLabelSelector: 'a!=b'}}}", "podLabelSelector"),
        ("{kvEventsConfig: {podDiscoveryConfig: {podLabelSelector: 'a=b=c!!'}}}", "value \"b=c!!\" of \"a\""),
        ("{kvEventsConfig: {podDiscoveryConfig: {socketPort: 1, replaySocketPort: 1}}}", "replaySocketPort"),
        ("{speculativeTTL: soon}", "speculativeTTL"),
        ("{blockSize: 64}", "blockSize"),
    ] {
        let error = producer(parameters).unwrap_err().to_string();
        assert!(
            error.contains(named) && error.contains("precise-prefix-cache-producer"),
            "{parameters}: {error}"
        );
    }
    for (parameters, named) in [
        ("{udsTokenizerConfig: {}}", "udsTokenizerConfig"),
        ("{backend: tiktoken}", "tiktoken"),
        ("{estimate: {image: {mode: fixed}}}", "estimate.image.mode"),
        ("{estimate: {video: {frames: {mode: all}}}}", "estimate.video.frames.mode"),
        ("{estimate: {audio: {}}}", "\"audio\""),
        ("{modelName: m, vllm: {url: localhost}}", "vllm.url"),
        ("{modelName: m, vllm: {timeout: long}}", "vllm.timeout"),
        ("{vllm: {}}", "modelName"),
        ("{backend: vllm, modelName: ''}", "modelName"),
        ("{vllm: {}, estimate: {}}", "estimate"),
        ("{modelName: m, estimate: {}}", "estimate"),
        ("{modelName: m, backend: estimate}", "estimate"),
    ] {
        let plugins = format!("- {{type: token-producer, parameters: {parameters}}}\n");
        let error = build(&plugins).unwrap_err().to_string();
        assert!(error.contains(named), "{parameters}: {error}");
    }
}

#[test]
fn a_model_chooses_the_tokenizer() {
    let tokenizer = |parameters: &str| {
        let scheduler = build(&format!("- {{type: token-producer, parameters: {parameters}}}\n")).unwrap();
        scheduler.tokenizer().map(|settings| (settings.url.clone(), settings.model.clone()))
    };
    let usual = Some(("http://localhost:8000".to_owned(), "m".to_owned()));
    assert_eq!(tokenizer("{modelName: m}"), usual);
    assert_eq!(tokenizer("{modelName: m, backend: vllm}"), usual);
    for parameters in ["{}", "{backend: estimate}", "{modelName: '', estimate: {}}"] {
        assert_eq!(tokenizer(parameters), None, "{parameters}");
    }
    let estimate = "{image: {mode: static, static: {staticToken: 280}}, video: {maxVideoTokens: 7}}";
    let scheduler =
        build(&format!("- {{type: token-producer, parameters: {{estimate: {estimate}}}}}\n")).unwrap();
    let estimates = scheduler.media_estimates();
    assert_eq!((estimates.image(None), estimates.video(&VideoProperties::default())), (280, 7));
}
