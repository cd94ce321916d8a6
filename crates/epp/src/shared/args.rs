//! The command line of the shared picker.

use std::{net::IpAddr, ops::RangeInclusive, time::Duration};

use longboat_accept::POD_ADDRESS_VARIABLE;
use longboat_key::Namespace;
use longboat_quantity::duration;
use longboat_scheduler::quantity;

use crate::args::default_decisions;

/// The labels of the replicas' pods, as `longboat install` writes them.
const REPLICAS: &str = "app.kubernetes.io/component=picker,app.kubernetes.io/managed-by=longboat";

/// Flags of `longboat shared-picker`.
#[derive(Debug, Clone, clap::Args)]
pub struct SharedArgs {
    /// Name of this pod.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: String,

    /// Namespace of this pod, in which the other replicas are.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub pod_namespace: Namespace,

    /// Address of this pod, at which gateways call it.
    #[arg(long, env = POD_ADDRESS_VARIABLE, value_name = "ADDRESS")]
    pub pod_ip: IpAddr,

    /// Label selector of the pods that are replicas of this one.
    #[arg(long, default_value = REPLICAS, value_name = "SELECTOR")]
    pub replicas: String,

    /// Ports of pools, FIRST-LAST. Each pool needs one.
    #[arg(long, default_value = "20000-29999", value_parser = ports, value_name = "RANGE")]
    pub ports: RangeInclusive<u16>,

    /// Port of /healthz, /readyz and /metrics, which has the metrics of all pools, and of /pools/NAMESPACE/NAME/metrics.
    #[arg(long, default_value_t = 9090, value_name = "PORT")]
    pub monitoring_port: u16,

    /// Maximum size of all requests of one pool in memory together, as a Kubernetes quantity, and of what its port holds besides.
    /// Requests above it get status 503. Flags of the pool's picker can ask for less.
    #[arg(long, default_value = "128Mi", value_parser = quantity::parse, value_name = "SIZE")]
    pub max_pool_bytes: usize,

    /// Maximum number of open requests of one pool. Others end with the gRPC status UNAVAILABLE.
    #[arg(long, default_value_t = 8192, value_name = "NUMBER")]
    pub max_pool_requests: usize,

    /// Number of recent decisions to keep for each pool whose picker does not say it [default: 256 on a loopback address, else 0].
    #[arg(long, value_parser = clap::value_parser!(u16).range(..=4096), value_name = "NUMBER")]
    pub decisions: Option<u16>,

    /// Time for which the port of a pool still takes requests after the pool has moved: gateways need it to learn the new one
    /// [default: 15s, and 1s on a loopback address].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub close_delay: Option<Duration>,

    /// Time after that in which running requests, such as streams, may end.
    #[arg(long, default_value = "5m", value_parser = duration::parse, value_name = "DURATION")]
    pub drain_timeout: Duration,
}

/// Reads a range of ports, such as `20000-29999`.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let read = |text: &str| text.parse().ok().filter(|port| *port > 0);
    let range = text.split_once('-').and_then(|(first, last)| Some(read(first)?..=read(last)?));
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| format!("\"{text}\": expected FIRST-LAST, ports from 1 to 65535, such as 20000-29999"))
}

// === impl SharedArgs ===

impl SharedArgs {
    pub(super) fn close_delay(&self) -> Duration {
        let usual = Duration::from_secs(if self.pod_ip.is_loopback() { 1 } else { 15 });
        self.close_delay.unwrap_or(usual)
    }

    pub(super) fn decisions(&self) -> u16 {
        self.decisions.unwrap_or_else(|| default_decisions(self.pod_ip))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        shared: SharedArgs,
    }

    #[test]
    fn the_network_policy_of_an_installation_opens_the_ports_that_are_served() {
        let text = include_str!("../../../../deploy/picker/picker.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let policy = objects.iter().find(|object| object["kind"] == "NetworkPolicy").unwrap();
        let line = ["x", "--pod-name=p", "--pod-namespace=n", "--pod-ip=10.0.0.1"];
        let args = Line::parse_from(line).shared;
        let (first, last) = (args.ports.start(), args.ports.end());
        let expected = json!([
            {"ports": [{"port": first, "endPort": last, "protocol": "TCP"}]},
            {"ports": [{"port": args.monitoring_port, "protocol": "TCP"}]},
        ]);
        assert_eq!(policy["spec"]["ingress"], expected);
    }

    #[test]
    fn a_range_of_ports_has_a_first_and_a_last_one() {
        assert_eq!(ports("1-65535"), Ok(1..=65535));
        for wrong in ["", "1", "2-1", "0-5", "1-65536", "a-b"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
