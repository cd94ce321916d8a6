//! Requests that are split between two engines, and the part that this engine computes.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::body::object_only;

/// How the KV cache of a split request is transferred, in the fields of vLLM's connectors.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct Transfer {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_host: Option<String>,
    /// NIXL: further fields about the engine that has the cache. Any JSON value is accepted, because each connector has its
    /// own form.
    remote_port: Value,
    remote_engine_id: Value,
    remote_request_id: Value,
    /// Mooncake: the address at which the prefill engine registers.
    remote_bootstrap_addr: Option<String>,
    /// Offloading: another engine will pull the cache from this one.
    remote_decoder: Option<Decoder>,
    /// Offloading: this engine pulls the cache from another one.
    remote_prefiller: Option<Peer>,
    /// Another engine has a part of the prompt in its cache.
    remote_kv_source: Option<Peer>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct Decoder {}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct Peer {
    remote_host: String,
}

/// The part of a request that an engine computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole request.
    Whole,
    /// The prompt and one token. Another engine fetches the cache and continues.
    Prefill,
    /// The tokens after a prompt that another engine has computed.
    Decode,
}

/// Where the engines of a split request meet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Handover {
    /// The host that has the KV cache of the prompt, if another engine has computed it.
    pub cache_host: Option<String>,
    /// Like `cache_host`, with everything that is needed to fetch the cache, if the request has all of it.
    pub remote: Option<Remote>,
    /// A host that has a part of the prompt in its cache, from which it can be pulled.
    pub pull_host: Option<String>,
    /// SGLang: the host of the prefill engine, in requests to both engines. Each engine knows which part is its own.
    pub bootstrap_host: Option<String>,
    /// The hosts of encoders that have embeddings of the request's items, by the hashes of the items.
    pub embeddings: BTreeMap<String, String>,
    /// The share of the prompt, 0 to 1, that must be in the cache. Otherwise the request is not answered.
    pub cache_hit_threshold: Option<f64>,
}

/// The location of a prompt's KV cache, in the fields of vLLM's NIXL connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The host of the engine that has the cache.
    pub host: String,
    /// The port of cache transfers.
    pub port: u16,
    /// The engine's id.
    pub engine: String,
    /// The engine's id of the request.
    pub request: String,
}

/// The encoders' data about the items of a request, by the hashes of the items.
#[derive(Debug, Deserialize)]
pub(crate) struct Embeddings(BTreeMap<String, Embedding>);

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
struct Embedding {
    peer_host: Option<String>,
}

object_only!(Transfer, Decoder, Peer, Embedding);

impl Embeddings {
    /// Returns the host of each item's embedding, if it is known.
    pub(crate) fn hosts(&self) -> BTreeMap<String, String> {
        let host =
            |(item, embedding): (&String, &Embedding)| Some((item.clone(), embedding.peer_host.clone()?));
        self.0.iter().filter_map(host).collect()
    }
}

impl Transfer {
    pub(crate) fn part(&self) -> Part {
        if self.do_remote_decode || self.remote_decoder.is_some() {
            Part::Prefill
        } else if self.do_remote_prefill || self.remote_prefiller.is_some() {
            Part::Decode
        } else {
            Part::Whole
        }
    }

    /// Returns the host of the prompt's cache, if another engine has it.
    pub(crate) fn cache_host(&self) -> Option<String> {
        if self.part() != Part::Decode {
            return None;
        }
        // NIXL names a host, the offloading connector a peer, and Mooncake the address at which engines meet.
        let peer = self.remote_prefiller.as_ref().map(|peer| peer.remote_host.clone());
        let bootstrap = self.remote_bootstrap_addr.as_deref().and_then(host).map(str::to_owned);
        self.remote_host.clone().or(peer).or(bootstrap)
    }

    /// Returns the location of the prompt's cache, if another engine has it and the request has all fields.
    pub(crate) fn remote(&self) -> Option<Remote> {
        if self.part() != Part::Decode {
            return None;
        }
        Some(Remote {
            host: self.remote_host.clone()?,
            port: self.remote_port.as_u64()?.try_into().ok()?,
            engine: self.remote_engine_id.as_str()?.to_owned(),
            request: self.remote_request_id.as_str()?.to_owned(),
        })
    }

    /// Returns the host from which a part of the prompt's cache can be pulled.
    pub(crate) fn pull_host(&self) -> Option<String> {
        self.remote_kv_source.as_ref().map(|peer| peer.remote_host.clone())
    }
}

/// Returns what an engine says of the cache of a prompt that it has computed, to the engine that continues.
pub fn prefilled(engine: &str, address: SocketAddr) -> Value {
    json!({
        "do_remote_prefill": true, "do_remote_decode": false, "remote_engine_id": engine,
        "remote_host": address.ip().to_string(), "remote_port": address.port(),
    })
}

/// Returns the host of an address such as `http://10.0.0.1:8998`.
fn host(address: &str) -> Option<&str> {
    let authority = address.split_once("://").map_or(address, |(_, authority)| authority);
    // The last colon: those before it belong to an IPv6 address.
    let (host, _) = authority.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_every_connector_give_the_part_and_the_host() {
        for (params, part, cache, pull) in [
            (json!({"do_remote_decode": true, "remote_host": null}), Part::Prefill, None, None),
            (json!({"do_remote_prefill": true, "remote_host": "a"}), Part::Decode, Some("a"), None),
            (
                json!({"do_remote_prefill": true, "remote_bootstrap_addr": "http://b:1"}),
                Part::Decode,
                Some("b"),
                None,
            ),
            (
                json!({"do_remote_prefill": true, "remote_bootstrap_addr": "http://[::1]:1"}),
                Part::Decode,
                Some("::1"),
                None,
            ),
            (json!({"remote_decoder": {"kv_request_id": "x"}}), Part::Prefill, None, None),
            (
                json!({"remote_prefiller": {"remote_host": "c", "remote_port": 1}}),
                Part::Decode,
                Some("c"),
                None,
            ),
            (json!({"remote_kv_source": {"remote_host": "d"}}), Part::Whole, None, Some("d")),
            (json!({}), Part::Whole, None, None),
        ] {
            let transfer: Transfer = serde_json::from_value(params.clone()).unwrap();
            let found = (transfer.part(), transfer.cache_host(), transfer.pull_host());
            assert_eq!(found, (part, cache.map(str::to_owned), pull.map(str::to_owned)), "{params}");
        }
    }

    #[test]
    fn a_cache_can_be_fetched_if_the_request_has_all_fields() {
        let params = json!({"do_remote_prefill": true, "remote_host": "a", "remote_port": 5600,
            "remote_engine_id": "e", "remote_request_id": "r", "remote_block_ids": [[1]], "tp_size": 1});
        let transfer: Transfer = serde_json::from_value(params.clone()).unwrap();
        let remote = Remote { host: "a".into(), port: 5600, engine: "e".into(), request: "r".into() };
        assert_eq!(transfer.remote(), Some(remote));
        for field in ["remote_host", "remote_port", "remote_engine_id", "remote_request_id"] {
            let mut params = params.clone();
            params[field] = Value::Null;
            let transfer: Transfer = serde_json::from_value(params).unwrap();
            assert_eq!(transfer.remote(), None, "{field}");
        }
    }
}
