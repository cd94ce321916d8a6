//! `header-based-testing-filter`: keeps exactly the endpoints that a request header lists, in its order.

use std::net::{IpAddr, SocketAddr};

use crate::prelude::*;

const HEADER: &str = "test-epp-endpoint-selection";

pub(crate) struct HeaderTesting;

impl Filter for HeaderTesting {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let listed = context.request.headers.header(HEADER).unwrap_or_default();
        let mut kept = Vec::new();
        for entry in listed.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            for &candidate in candidates.iter() {
                if matches(context.endpoint(candidate).address, entry) && !kept.contains(&candidate) {
                    kept.push(candidate);
                }
            }
        }
        *candidates = kept;
    }
}

/// Whether the entry names this address. An entry is `ip`, `[ip]` or `ip:port`, with IPv6 in brackets before a port.
fn matches(address: SocketAddr, entry: &str) -> bool {
    if let Ok(wanted) = entry.parse::<SocketAddr>() {
        return wanted == address;
    }
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    bare.parse::<IpAddr>().is_ok_and(|wanted| wanted == address.ip())
}
