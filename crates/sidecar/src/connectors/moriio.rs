//! MoRI-IO: prefillers write KV caches into the decoder's memory, so each engine must know the other's address.
//!
//! The requests are those of `nixlv2`, with additional fields.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use tokio::time::Instant;
use uuid::Uuid;

use super::plan::{Part, Plan, SplitRequest, TRANSFER, decode_body};
use crate::{
    api::{self, Api},
    object::Object,
    settings::Moriio as Settings,
    usage::number,
};

/// How long a looked-up address stays in the cache. A restarted pod has another address.
const CACHE_TTL: Duration = Duration::from_secs(5);

/// The time limit of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The MoRI-IO mode of `nixlv2`.
#[derive(Debug)]
pub(crate) struct Moriio {
    settings: Settings,
    addresses: Addresses,
}

/// The current addresses of the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pods {
    local: String,
    prefill: Vec<String>,
    decode: Vec<String>,
}

/// A cache of looked-up addresses.
#[derive(Debug, Clone, Default)]
struct Addresses(Arc<Mutex<HashMap<String, (Instant, String)>>>);

// === impl Moriio ===

impl Moriio {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, addresses: Addresses::default() }
    }

    /// Returns how long the decoder waits for the prefiller. Returns `None` unless both requests are sent at the same time.
    pub(crate) fn parallel(&self) -> Option<Duration> {
        self.settings.parallel
    }

    /// Looks up the addresses of all pods.
    ///
    /// # Errors
    /// A message if a name has no address.
    pub(crate) async fn pods(&self) -> Result<Pods, String> {
        Ok(Pods {
            local: self.addresses.of(&self.settings.local).await?,
            prefill: self.addresses.all(&self.settings.prefill.hosts).await?,
            decode: self.addresses.all(&self.settings.decode.hosts).await?,
        })
    }

    /// Adds the destination of the cache to the prefiller's transfer parameters.
    pub(crate) fn for_prefiller(&self, id: Uuid, pods: &Pods, transfer: &mut Value) {
        let Settings { decode, tp_size, dp_size, dp_size_local, .. } = &self.settings;
        transfer["remote_host"] = json!(pods.local);
        transfer["remote_notify_port"] = json!(decode.notify_port);
        transfer["remote_handshake_port"] = json!(decode.handshake_port);
        transfer["remote_dp_rank"] = json!(self.rank(id));
        transfer["remote_dp_rank_override"] = json!(true);
        transfer["transfer_id"] = json!(transfer_id(id));
        transfer["tp_size"] = json!(tp_size);
        transfer["remote_dp_size"] = json!(dp_size);
        several(transfer, &pods.decode, *dp_size_local);
    }

    /// Builds the decoder's part after the prefiller has answered. The values of the response take precedence.
    pub(crate) fn after_prefill<'a>(
        &self,
        ask: SplitRequest<'a>,
        pods: &Pods,
        answered: &'a RawValue,
    ) -> Part {
        let Ok(mut transfer) = Object::parse(answered.get().as_bytes()) else {
            return Part::from(&decode_body(ask.api, ask.request, answered));
        };
        let Settings { decode, dp_size, dp_size_local, .. } = &self.settings;
        let rank = transfer
            .get("remote_dp_rank")
            .and_then(number)
            .and_then(|rank| u32::try_from(rank).ok())
            .filter(|rank| *rank < *dp_size)
            .unwrap_or_else(|| self.rank(ask.id));
        transfer.set_value("remote_dp_rank", &rank);
        transfer.set_value("remote_dp_rank_override", &true);
        let mut missing = json!({
            "transfer_id": transfer_id(ask.id),
            "remote_notify_port": decode.notify_port,
            "remote_handshake_port": decode.handshake_port,
            "remote_dp_size": dp_size,
        });
        several(&mut missing, &pods.prefill, *dp_size_local);
        for (name, value) in missing.as_object().into_iter().flatten() {
            if transfer.get(name).is_none() {
                transfer.set_value(name, value);
            }
        }
        let mut body = decode_body(ask.api, ask.request, RawValue::NULL);
        body.set_value(TRANSFER, &transfer);
        Part { rank: self.header(rank), ..Part::from(&body) }
    }

    /// Divides a request into parts that are sent at the same time. The decoder's part contains the values that the prefiller
    /// would return.
    pub(crate) fn at_once(
        &self,
        ask: SplitRequest<'_>,
        pods: &Pods,
        prefill: Part,
        patience: Duration,
    ) -> Plan<'_> {
        let Settings { prefill: side, tp_size, dp_size, dp_size_local, .. } = &self.settings;
        let (host, rank) = (ask.prefiller.host(), self.rank(ask.id));
        let mut transfer = json!({
            "do_remote_prefill": true,
            "do_remote_decode": false,
            "remote_engine_id": format!("{}:{}", ask.prefiller.authority().host(), side.handshake_port),
            "remote_block_ids": [],
            "remote_host": host,
            "remote_port": side.handshake_port,
            "remote_notify_port": side.notify_port,
            "remote_handshake_port": side.handshake_port,
            "remote_dp_rank": rank,
            "remote_dp_rank_override": true,
            "transfer_id": transfer_id(ask.id),
            "tp_size": tp_size,
            "remote_dp_size": dp_size,
        });
        several(&mut transfer, &pods.prefill, *dp_size_local);
        let mut body = decode_body(ask.api, ask.request, RawValue::NULL);
        body.set_value(TRANSFER, &transfer);
        let decode = Part { rank: self.header(rank), ..Part::from(&body) };
        Plan::Held { prefill, decode, patience }
    }

    /// Builds the prefiller's part.
    pub(crate) fn prefill_part(&self, ask: SplitRequest<'_>, transfer: &Value) -> Part {
        let mut body = ask.request.clone();
        body.set_value(TRANSFER, transfer);
        api::no_stream(&mut body);
        ask.api.one_token(&mut body);
        if self.settings.parallel.is_some() && ask.api == Api::Completions {
            body.set_value("max_output_tokens", &1);
        }
        Part { rank: self.header(self.rank(ask.id)), ..Part::from(&body) }
    }

    /// Returns the rank for both parts of a request. The engines of a pod share a port, and both parts must reach the same
    /// rank.
    fn rank(&self, id: Uuid) -> u32 {
        let rank = id.as_u128() % u128::from(self.settings.dp_size.max(1));
        u32::try_from(rank).unwrap_or_default()
    }

    fn header(&self, rank: u32) -> Option<u32> {
        (self.settings.dp_size > 1).then_some(rank)
    }
}

/// Adds the pods of an engine that has several pods.
fn several(transfer: &mut Value, hosts: &[String], dp_size_local: Option<u32>) {
    if hosts.is_empty() {
        return;
    }
    transfer["remote_hosts"] = json!(hosts);
    if let Some(local) = dp_size_local {
        transfer["remote_dp_size_local"] = json!(local);
    }
}

/// The id of the transfer for both engines. MoRI-IO recognizes the kind of a message by the prefix.
fn transfer_id(id: Uuid) -> String {
    format!("tx{id}")
}

// === impl Addresses ===

impl Addresses {
    async fn all(&self, hosts: &[String]) -> Result<Vec<String>, String> {
        futures::future::try_join_all(hosts.iter().map(|host| self.of(host))).await
    }

    /// Returns the address of a host. An IP address is returned unchanged.
    async fn of(&self, host: &str) -> Result<String, String> {
        if host.parse::<IpAddr>().is_ok() {
            return Ok(host.to_owned());
        }
        if let Some(address) = self.known(host) {
            return Ok(address);
        }
        let looking = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((host, 0)));
        let found = looking
            .await
            .map_err(|_| format!("`{host}` has no address within {} s", LOOKUP_TIMEOUT.as_secs()))?
            .map_err(|error| format!("`{host}` has no address: {error}"))?;
        // The engines of a service use the same address family. IPv4 comes first, because most clusters have only IPv4.
        let mut found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        found.sort_by_key(IpAddr::is_ipv6);
        let address = found.first().ok_or_else(|| format!("`{host}` has no address"))?.to_string();
        // The hosts are those of the flags, so the cache does not grow.
        self.0.lock().insert(host.to_owned(), (Instant::now(), address.clone()));
        Ok(address)
    }

    fn known(&self, host: &str) -> Option<String> {
        let known = self.0.lock();
        let (since, address) = known.get(host)?;
        (since.elapsed() < CACHE_TTL).then(|| address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{settings::moriio::Side, target::Target};

    fn side(port: u16) -> Side {
        Side { handshake_port: port, notify_port: port + 1, hosts: Vec::new() }
    }

    fn moriio(dp_size: u32) -> Moriio {
        Moriio::new(Settings {
            prefill: side(1),
            decode: side(11),
            local: "10.0.0.7".into(),
            tp_size: 2,
            dp_size,
            dp_size_local: None,
            parallel: None,
        })
    }

    #[tokio::test]
    async fn both_engines_get_one_rank_and_the_prefillers_word_counts() {
        let moriio = moriio(4);
        let pods = moriio.pods().await.unwrap();
        let text = br#"{"model":"m"}"#;
        let request = Object::parse(text).unwrap();
        let prefiller = Target::parse("10.0.0.1:8000").unwrap();
        let id = Uuid::from_u128(7);
        let ask = SplitRequest {
            api: Api::Completions,
            request: &request,
            prefiller: &prefiller,
            id,
            source: None,
        };
        let mut transfer = json!({});
        moriio.for_prefiller(id, &pods, &mut transfer);
        assert_eq!((&transfer["remote_dp_rank"], &transfer["remote_host"]), (&json!(3), &json!("10.0.0.7")));
        assert_eq!(moriio.prefill_part(ask, &transfer).rank, Some(3));
        for (answered, rank) in [
            (r#"{"remote_dp_rank":2}"#, Some(2)),
            (r#"{"remote_dp_rank":4}"#, Some(3)),
            (r#"{"remote_dp_rank":"x"}"#, Some(3)),
            ("{}", Some(3)),
            ("null", None),
        ] {
            let answered = RawValue::from_string(answered.to_owned()).unwrap();
            let part = moriio.after_prefill(ask, &pods, &answered);
            assert_eq!(part.rank, rank, "{answered}");
            let body: Value = serde_json::from_slice(&part.body.whole()).unwrap();
            if let Some(rank) = rank {
                assert_eq!(body[TRANSFER]["remote_dp_rank"], json!(rank));
            }
        }
    }
}
