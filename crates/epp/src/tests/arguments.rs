//! The command line as KServe and others write it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use tokio::net::TcpStream;

use crate::{Args, ArgsError, Server, needs_pod};

pub(crate) fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
    Args::parse(arguments)
}

#[test]
fn what_kserve_passes_without_tls_is_understood() {
    let args = parse(&[
        "--pool-name",
        "llm-inference-pool",
        "--pool-namespace",
        "ns",
        "--zap-encoder",
        "json",
        "--grpc-port",
        "9002",
        "--grpc-health-port",
        "9003",
        "",
        "",
        "",
        "",
        "--ha-enable-leader-election",
        "--config-text",
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n",
    ])
    .unwrap();
    args.check(false).unwrap();
    assert!(args.secure_serving, "TLS is the default whatever KServe's setting");
    assert!(args.ha_enable_leader_election);
    assert_eq!(args.namespace(), "ns");
}

#[test]
fn what_kserve_passes_with_tls_is_understood() {
    let args = parse(&[
        "--pool-name=p",
        "--enable-cert-reload=true",
        "--secure-serving=true",
        "--model-server-metrics-scheme=https",
        "--cert-path=/var/run/kserve/tls",
    ])
    .unwrap();
    args.check(false).unwrap();
    assert_eq!(args.cert_path, "/var/run/kserve/tls");
    assert_eq!(args.model_server_metrics_scheme.as_deref(), Some("https"));
}

#[test]
fn spellings_of_gos_flag_package_are_understood() {
    for spelling in ["-config-text", "--configText", "-configText", "--config-text"] {
        let args = parse(&["--pool-name", "p", spelling, "x: y"]).unwrap();
        assert_eq!(args.config_text, "x: y", "{spelling}");
    }
    assert_eq!(parse(&["-v", "4", "-secure-serving=false"]).unwrap().verbosity, 4);
    assert_eq!(parse(&["-v=5"]).unwrap().verbosity, 5);
    let args = parse(&["--drain-timeout=1m30s", "--refresh-metrics-interval", "100ms"]).unwrap();
    assert_eq!(args.drain_timeout, Some(Duration::from_secs(90)));
    assert_eq!(args.refresh_metrics_interval, Duration::from_millis(100));
}

#[test]
fn no_picker_scrapes_more_often_than_every_50_ms() {
    for (interval, used, warnings) in [("0s", 50, 1), ("49ms", 50, 1), ("50ms", 50, 0), ("2s", 2000, 0)] {
        let args = parse(&["--pool-name=p", "--refresh-metrics-interval", interval]).unwrap();
        args.check(false).unwrap();
        assert_eq!(args.scrape_interval(), Duration::from_millis(used), "{interval}");
        assert_eq!(args.warnings().len(), warnings, "{interval}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let check = |arguments: &[&str]| parse(arguments).unwrap().check(false).unwrap_err();
    assert_eq!(check(&[]), ArgsError::Source);
    assert_eq!(check(&["--pool-name", "p", "--endpoint-selector", "a=b"]), ArgsError::Source);
    assert_eq!(check(&["--endpoint-selector", "a=b"]), ArgsError::TargetPorts);
    assert_eq!(check(&["--pool-name", "p", "stray"]), ArgsError::Positional("stray".to_owned()));
    assert_eq!(check(&["--pool-name", "p", "--config-text", "a", "--config-file", "b"]), ArgsError::Config);
    let unasked = check(&["--pool-name=p", "--client-ca-file=ca.crt", "--secure-serving=false"]);
    assert!(matches!(unasked, ArgsError::Value { flag: "client-ca-file", .. }), "{unasked}");
    let moved = check(&["--pool-name=p", "--lora-info-metric=x"]);
    assert_eq!(moved.to_string(), "--lora-info-metric: set it in engineConfigs of core-metrics-extractor");
    assert!(parse(&["--no-such-flag"]).is_err());
}

#[test]
fn of_a_repeated_flag_the_last_one_counts_and_lists_grow() {
    let args = parse(&[
        "--pool-name=a",
        "--secure-serving",
        "--endpoint-target-ports=1",
        "--pool-name",
        "b",
        "--secure-serving=false",
        "--endpoint-target-ports=2",
        "-v=2",
        "-v=5",
    ])
    .unwrap();
    assert_eq!((args.pool_name.as_str(), args.secure_serving, args.verbosity), ("b", false, 5));
    assert_eq!(args.endpoint_target_ports, [1, 2]);
}

#[test]
fn a_target_port_that_is_given_twice_is_one_endpoint() {
    let ports = "--endpoint-target-ports=3,1,3,1,2,3,1,2,3";
    let args = parse(&["--endpoint-selector=app=vllm", ports]).unwrap();
    args.check(false).unwrap();
    assert_eq!(args.target_ports(), [3, 1, 2]);
}

#[test]
fn log_options_that_would_have_no_effect_are_refused() {
    for (flag, message) in [
        ("--zap-encoder=xml", "--zap-encoder: expected json or console, found \"xml\""),
        (
            "--zap-log-level=verbose",
            "--zap-log-level: expected debug, info, error, panic or a number up to 255, found \"verbose\"",
        ),
    ] {
        let args = parse(&["--pool-name=p", flag]).unwrap();
        assert_eq!(args.check(false).unwrap_err().to_string(), message);
    }
    parse(&["--pool-name=p", "--zap-encoder=console", "--zap-log-level=ERROR"])
        .unwrap()
        .check(false)
        .unwrap();
}

#[test]
fn all_bodies_together_may_not_be_shorter_than_one() {
    let args = parse(&["--pool-name=p", "--max-request-bytes-in-flight=1Mi"]).unwrap();
    assert!(args.check(false).unwrap_err().to_string().contains("--max-request-bytes-in-flight"));
}

#[test]
fn a_gateway_of_a_network_sends_no_prompts_to_a_tokenizer_that_a_configuration_names() {
    let config = "{apiVersion: llm-d.ai/v1, kind: EndpointPickerConfig, plugins: [{type: token-producer, \
                  parameters: {modelName: m, vllm: {url: 'http://192.0.2.1:80'}}}]}";
    let needs = |address: &str| {
        let flags = ["--pool-name=p", "--config-text", config, &format!("--bind-address={address}")];
        needs_pod(&parse(&flags).unwrap())
    };
    // On one machine, the gateway is that of the person who runs the picker.
    assert_eq!(needs("127.0.0.7"), None);
    assert_eq!(needs(""), Some("the network of its namespace, to reach its tokenizer"));
}

#[tokio::test]
async fn without_an_address_a_picker_listens_for_ipv4_and_ipv6() {
    let args = ["--pool-name=pool", "--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0"];
    let server = Server::bind(parse(&args).unwrap()).await.unwrap();
    for address in [server.grpc_address, server.health_address, server.metrics_address] {
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            TcpStream::connect((ip, address.port())).await.unwrap();
        }
    }
}
