//! The subset hint: the endpoints that the proxy allows.

use std::net::{IpAddr, SocketAddr};

use longboat_extproc::{Metadata, names};
use longboat_scheduler::Snapshot;
use serde_json::Value;

/// Drops the candidates that the hint does not name. An empty list drops all candidates. Without a hint, or with a hint that is
/// not a list, all candidates stay.
pub(crate) fn apply(metadata: Option<&Metadata>, candidates: &mut Vec<Snapshot>) {
    let Some(Value::Array(hint)) =
        metadata.and_then(|metadata| metadata.get(names::SUBSET_NAMESPACE, names::DESTINATION_SUBSET))
    else {
        return;
    };
    let named: Vec<IpAddr> = hint.iter().filter_map(Value::as_str).filter_map(address).collect();
    candidates.retain(|candidate| named.contains(&candidate.endpoint.address.ip()));
}

/// Returns the IP of `ip`, `ip:port`, `[ip]` or `[ip]:port`. The port is ignored, as in the reference. Unlike the reference,
/// this also reads IPv6 addresses.
fn address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    if let Ok(socket) = entry.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry).parse().ok()
}
